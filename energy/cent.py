"""Energy of a token in a device of CENT, by cause: closed forms on counts [secondary CENT], Yufeng98/CENT@8c79786.

Power [mW] times what an event counts for [ns] is pJ. `released`: as its code has it, which divides the clocks with and
without an open row by the channels twice, and counts values that cross the link as bits.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pimloom.arch.cent import CentEnergy, NearMemory
from pimloom.arch.units import HZ_PER_MHZ, NS_PER_S, PS_PER_NS

ACTIVATED = {"ACT": 1, "ACT4": 4, "ACT16": 16}
READS = {"RD": 1, "RDA": 1, "RDCP": 1, "AF16": 16, "RDMAC16": 1, "RDAF16": 1}
WRITES = {"WR": 1, "WRA": 1, "WRCP": 1, "WRMAC16": 1, "WRA16": 16}
BANKS = 16  # [secondary CENT] of a channel, of which these tables are
OF_ALL = ("ACT16", "MAC16", "EWMUL16", "AF16", "WRA16")  # commands of all banks, however many these are
MACS = {"MAC": 1 / BANKS, "MAC16": 1, "EWMUL16": 1 / 4}
ON_PINS = ("RD", "WR", "RDA", "WRA", "WRGB", "RDMAC16", "RDAF16", "WRMAC16", "WRA16")
COLUMN = (*ON_PINS, "MAC", "MAC16", "AF16", "EWMUL16", "RDCP", "WRCP")


class Counted(NamedTuple):
    """What a device did. commands: of all channels, by AiM's names; instructions: of AiM, without MEM, GPR and CFR;
    active_ck, precharged_ck: mean over the channels; link_values: that cross the link; access_bits: of a column; banks:
    of a channel."""

    commands: Mapping[str, int]
    instructions: int
    cycles: int
    active_ck: float
    precharged_ck: float
    channels: int
    ck_ps: int
    access_bits: int
    link_values: float
    value_bits: int
    banks: int


class Token(NamedTuple):
    """What the near-memory unit works on: of one token in a layer; layers: that are side by side, 0: of a device that
    shares matrices alone. As released it counts one, whatever a device has."""

    hidden: int
    heads: int
    repeat: int
    context: int
    layers: int


def energies_pj(
    e: CentEnergy, unit: NearMemory, did: Counted, token: Token, released: bool = False
) -> dict[str, float]:
    """Energy of one device by cause [pJ]."""
    ns = did.ck_ps / PS_PER_NS
    cyc_ns, controller_ns = (NS_PER_S / (mhz * HZ_PER_MHZ) for mhz in (unit.clock_mhz, e.controller_clock_mhz))
    n, channels = did.commands, 1 if released else did.channels
    latency_ns = did.cycles * ns
    share = did.banks / BANKS
    every, column = sum(n.values()), sum(n.get(name, 0) for name in COLUMN)
    bits = did.link_values * (1 if released else did.value_bits)
    return {
        "activate": e.act_mw * _sum(n, ACTIVATED, share) * e.act_ns,
        "read": e.read_mw * _sum(n, READS, share) * e.burst_ns,
        "write": e.write_mw * _sum(n, WRITES, share) * e.burst_ns,
        "pim": e.mac_factor * e.read_mw * _sum(n, MACS, share) * e.mac_ns,
        "active_standby": e.active_mw * channels * did.active_ck * ns,
        "precharge_standby": e.precharged_mw * channels * did.precharged_ck * ns,
        "interface": e.dq_pj_per_bit * did.access_bits * sum(n.get(name, 0) for name in ON_PINS),
        "link": e.link_pj_per_bit * bits,
        "memory_controller": (e.transaction_mw * column + e.phy_mw * every) / e.channels_per_controller * controller_ns,
        **_buffers(e, unit, did, token, latency_ns, cyc_ns),
        "near_memory": _unit_mw(e, unit, token) * token.layers * cyc_ns,
        "control": e.control_activity * e.control_mw * latency_ns,
    }


def rest_mw(e: CentEnergy, channels: int) -> dict[str, float]:
    """Power of a device that waits, by cause [mW]: its channels in precharged standby, and its buffers."""
    return {
        "precharge_standby": e.precharged_mw * channels,
        "buffers_static": e.global_buffer.static_mw * channels + e.shared_buffer.static_mw,
        "instruction_buffer": e.instruction_buffer.static_mw,
    }


def _buffers(
    e: CentEnergy, unit: NearMemory, did: Counted, token: Token, latency_ns: float, cyc_ns: float
) -> dict[str, float]:
    """Global, shared and instruction buffers."""
    n, lanes = did.commands, unit.lanes
    words, both = token.context * token.heads / lanes, 1 + 1 / token.repeat
    norms, rotated = 2 * (token.hidden / lanes / lanes + 2), both * token.hidden
    reads = (2 * norms + 3 * words + 2 * token.heads + rotated / lanes) * token.layers
    writes = (norms + 2 * words + 2 * token.heads + 2 * rotated / lanes) * token.layers
    instructions = did.instructions + (norms + 2 * words + 2 * token.heads + rotated) * token.layers
    at_rest = e.global_buffer.static_mw * did.channels, e.shared_buffer.static_mw, e.instruction_buffer.static_mw
    copied, loaded = n.get("WRCP", 0), n.get("WRGB", 0) + n.get("RDCP", 0)
    moved = e.global_buffer.read_mw * copied + e.global_buffer.write_mw * loaded
    shared = e.shared_buffer.read_mw * reads + e.shared_buffer.write_mw * writes
    return {
        "buffers_static": (at_rest[0] + at_rest[1]) * latency_ns,
        "buffers": (moved + shared) * cyc_ns,
        "instruction_buffer": at_rest[2] * latency_ns + e.instruction_buffer.read_mw * instructions * cyc_ns,
    }


def _unit_mw(e: CentEnergy, unit: NearMemory, token: Token) -> float:
    """Cores, reduction trees, exponent units, accumulators, of a layer [mW x cycles]. A core's softmax is counted whole
    here, as released."""
    words, lanes = token.context * token.heads / unit.lanes, unit.lanes
    softmax = token.heads * (lanes + unit.softmax_cyc + 1)
    rotation = (1 + 1 / token.repeat) * token.hidden * unit.rotation_cyc / unit.cores
    adds = 2 * token.hidden / lanes / lanes + words
    parts = (
        (2 * unit.norm_cyc + softmax + rotation) * e.core_mw,
        (2 + token.heads) * e.reduction_mw,
        words * e.exponent_mw,
        adds * e.accumulator_mw,
    )
    return sum(parts)


def _sum(n: Mapping[str, int], weights: Mapping[str, float], share: float) -> float:
    """share: banks there are of those that a command of all of them has in the tables."""
    return sum(n.get(name, 0) * weight * (share if name in OF_ALL else 1) for name, weight in weights.items())
