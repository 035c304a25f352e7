"""CENT: CXL devices of AiM channels with a near-memory unit each, behind one switch."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.part import NonNegative, Positive, PositiveFloat

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class CxlLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The way of a message from a device through the switch to others."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "lanes": "lanes of the switch, dealt over the devices [1]",
        "lane_gib_s": "rate of a lane [GiB/s]",
        "lane_share": "share of that rate which can be had [1]",
        "message_bytes": "bytes of a message [bytes]",
        "messages_per_flit": "messages of a flit [1]",
        "flit_bytes": "bytes of a flit on the link [bytes]",
        "port_ns": "a port of a device or of the switch [ns]; a way has four",
        "pcie_ns": "physical, link and transaction layer of an end [ns]; a way has two",
        "switch_ns": "through the switch [ns]",
    }

    lanes: Positive
    lane_gib_s: PositiveFloat
    lane_share: Share
    message_bytes: Positive
    messages_per_flit: Positive
    flit_bytes: Positive
    port_ns: NonNegative
    pcie_ns: NonNegative
    switch_ns: NonNegative


class NearMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The near-memory unit of a device: accumulators, reduction trees, exponent units, cores, buffers."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "clock_mhz": "clock, also of accesses to the buffers [MHz]",
        "units": "accumulators, and as many reduction trees and exponent units [1]",
        "lanes": "elements that a unit takes at once; a head's reciprocal is written into each, one after another [1]",
        "cores": "RISC-V cores [1]",
        "exp_cyc": "through the lanes of an exponent unit [cycles]",
        "norm_cyc": "of a core for the root of an RMSNorm [cycles]",
        "rotation_cyc": "of a core for a rotated element [cycles]",
        "softmax_cyc": "of a core for a softmax [cycles], beside a word of its buffer for each lane and one more",
        "sampling_ms": "sampling of a token, on the host [ms]",
    }

    clock_mhz: PositiveFloat
    units: Positive
    lanes: Positive
    cores: Positive
    exp_cyc: PositiveFloat
    norm_cyc: PositiveFloat
    rotation_cyc: PositiveFloat
    softmax_cyc: PositiveFloat
    sampling_ms: NonNegative


class Sram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A buffer."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "static_mw": "power at rest [mW]",
        "read_mw": "power of a read each clock [mW]",
        "write_mw": "power of a write each clock [mW]",
    }

    static_mw: NonNegative
    read_mw: NonNegative
    write_mw: NonNegative


class CentEnergy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Power of what a device does; an event's energy is its power times how long it takes."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "act_mw": "activation and precharge of a bank, over act_ns [mW]",
        "act_ns": "row cycle that an activation counts for [ns]",
        "read_mw": "read of a column, over burst_ns [mW]",
        "write_mw": "write of a column, over burst_ns [mW]",
        "burst_ns": "what a read or write counts for [ns]",
        "mac_factor": "reads that a MAC of all banks counts as [1]",
        "mac_ns": "what a MAC counts for [ns]",
        "active_mw": "a channel with a row open [mW]",
        "precharged_mw": "a channel with all rows closed [mW]",
        "dq_pj_per_bit": "data pins of a channel [pJ/bit]",
        "link_pj_per_bit": "CXL link [pJ/bit]",
        "transaction_mw": "memory controller, a column command each clock [mW]",
        "phy_mw": "memory controller, a command each clock [mW]",
        "channels_per_controller": "channels of a memory controller [1]",
        "controller_clock_mhz": "clock that transaction_mw and phy_mw are of [MHz]",
        "core_mw": "a RISC-V core at work [mW]",
        "reduction_mw": "a reduction tree at work [mW]",
        "exponent_mw": "an exponent unit at work [mW]",
        "accumulator_mw": "an accumulator at work [mW]",
        "control_mw": "the device's own control, always on [mW]",
        "control_activity": "share of that power which it takes [1]",
        "global_buffer": "buffer of a channel",
        "shared_buffer": "buffer of the near-memory unit",
        "instruction_buffer": "buffer of instructions",
    }

    act_mw: NonNegative
    act_ns: NonNegative
    read_mw: NonNegative
    write_mw: NonNegative
    burst_ns: NonNegative
    mac_factor: NonNegative
    mac_ns: NonNegative
    active_mw: NonNegative
    precharged_mw: NonNegative
    dq_pj_per_bit: NonNegative
    link_pj_per_bit: NonNegative
    transaction_mw: NonNegative
    phy_mw: NonNegative
    channels_per_controller: Positive
    controller_clock_mhz: PositiveFloat
    core_mw: NonNegative
    reduction_mw: NonNegative
    exponent_mw: NonNegative
    accumulator_mw: NonNegative
    control_mw: NonNegative
    control_activity: Share
    global_buffer: Sram
    shared_buffer: Sram
    instruction_buffer: Sram


class CentSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """CXL devices of AiM channels that hold a whole model, layer by layer or share by share."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "aim": "AiM device: a name in arch/aim_devices or a path; its fields and those of its part below aim.",
        "devices": "CXL devices [1]",
        "element_bits": "width of weights, activations and cache [bits]",
        "latches": "accumulators of a bank that are written before they are read [1]",
    }

    description: str
    kind: Literal["cent"]
    aim: str
    devices: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    element_bits: Literal[16]
    latches: Annotated[int, msgspec.Meta(ge=2)]  # a function takes two for each output
    link: CxlLink
    near_memory: NearMemory
    energy: CentEnergy
