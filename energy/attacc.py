"""Energy of AttAcc's stacks and of the GPU beside them, in units that say what they are taken for.

Constants of fine-grained DRAM (O'Connor et al., MICRO 2017) and of others, as the authors' simulator has them
[secondary A] (scale-snu/attacc_simulator@c600051, `src/config.py`). Two slips of the simulator are variants here: its
wires take pJ/bit times bytes, an eighth; and a MAC on the buffer die reads one access when its DRAM is run, two when
the numbers come from its table.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.part import Organization
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.energy.ledger import Ledger


class PjPerBit(NamedTuple):
    """Energy of one bit [pJ/bit].

    >>> PjPerBit(0.5).of_bytes(32)
    128.0
    """

    pj: float

    def of_bytes(self, n: float) -> float:
        """Energy of n bytes [pJ]."""
        return self.pj * BITS_PER_BYTE * n

    def slipped(self, n: float) -> float:
        """What the simulator takes for n bytes [pJ]: the constant of a bit, for a byte."""
        return self.pj * n


ACTIVATE = PjPerBit(0.11)  # [secondary A] activate and precharge
CELL = PjPerBit(0.44)  # [secondary A] read or write of the array
TO_GROUP = PjPerBit(1.01)  # [secondary A] column decoder to multiplexer of the bank group
TO_GLOBAL = PjPerBit(1.23)  # [secondary A] multiplexer of the bank group to that of the global I/O
TSV = PjPerBit(0.5)  # [secondary A] through-silicon vias
INTERPOSER = PjPerBit(0.3)  # [secondary A] silicon interposer
L1 = PjPerBit(0.16)  # [secondary A]
L2 = PjPerBit(0.3)  # [secondary A]
REGISTER_PJ_PER_BYTE = 0.0675  # [secondary A]
SRAM_PJ_PER_BYTE = 0.0034  # [secondary A] buffers of the softmax unit
MULTIPLY_ADD_PJ = 0.32  # [secondary A]

WAYS: Mapping[str, tuple[PjPerBit, ...]] = {  # from the cells to the GEMV unit, [secondary A]
    "bank": (ACTIVATE, CELL),
    "bg": (ACTIVATE, CELL, TO_GROUP),
    "buffer": (ACTIVATE, CELL, TO_GROUP, TO_GLOBAL, TSV),
    "gpu": (ACTIVATE, CELL, TO_GROUP, TO_GLOBAL, TSV, INTERPOSER),
}
PLACEMENTS = ("bank", "bg", "buffer")


def way(place: str) -> PjPerBit:
    """From the cells to where a bit is used: `bank`, `bg`, `buffer` or `gpu`. Raises UserError."""
    if place not in WAYS:
        raise UserError(f"placement: expected one of {', '.join(WAYS)}, got {place}")
    return PjPerBit(sum(each.pj for each in WAYS[place]))


def accesses(org: Organization, placement: str) -> int:
    """Banks that a MAC reads at once: one for each unit of a channel. Raises UserError.

    64, 16 and 2 of a bank, a bank group and a pseudo channel of HBM3 [secondary A].
    """
    if placement not in PLACEMENTS:
        raise UserError(f"placement: expected one of {', '.join(PLACEMENTS)}, got {placement}")
    groups = org.pseudo_channels * org.ranks * org.bank_groups
    return {"bank": groups * org.banks_per_group, "bg": groups, "buffer": org.pseudo_channels}[placement]


def stack_energy(
    org: Organization, placement: str, counts: Mapping[str, int], multiply_adds: int, *, as_released: bool = False,
    from_table: bool = False,
) -> Ledger:  # fmt: skip
    """Energy of the commands of a stack by cause.

    counts: MAC, WRGB, MVSB and MVGB of all its channels. as_released: wires slip, and so does a MAC of `buffer`, unless
    the simulator has the counts from_table. Raises UserError.
    """
    units, access = accesses(org, placement), org.access_bits // BITS_PER_BYTE
    if placement == "buffer" and as_released and not from_table:
        units = 1
    moved = access * (counts["WRGB"] + counts["MVSB"] + counts["MVGB"])
    wires = {
        "interposer": (INTERPOSER, access * counts["WRGB"]),
        "tsv": (TSV, moved),
        "to_global": (TO_GLOBAL, moved),
        "to_group": (TO_GROUP, moved),
    }
    pj = {name: each.slipped(n) if as_released else each.of_bytes(n) for name, (each, n) in wires.items()}
    pj["cells"] = way(placement).of_bytes(access * units * counts["MAC"])
    return Ledger(pj | {"multiply_add": MULTIPLY_ADD_PJ * multiply_adds})


def softmax_energy(buffer_bytes: int, multiply_adds: int) -> Ledger:
    """Energy of the softmax unit of a stack, or of several."""
    return Ledger({"sram": SRAM_PJ_PER_BYTE * buffer_bytes, "multiply_add": MULTIPLY_ADD_PJ * multiply_adds})


def gpu_energy(dram: float, l2: float, l1: float, register: float, multiply_adds: float) -> Ledger:
    """Energy of a GPU's layer by cause, for the bytes that cross each boundary."""
    pj = {"dram": way("gpu").of_bytes(dram), "l2": L2.of_bytes(l2), "l1": L1.of_bytes(l1)}
    pj |= {"register": REGISTER_PJ_PER_BYTE * register, "multiply_add": MULTIPLY_ADD_PJ * multiply_adds}
    return Ledger(pj)
