"""What Duplex's memory commands and MACs cost. Every value [secondary S]: HeliosZhou/LLMSimulator@f71dde4,
`src/dram/power.h`, after O'Connor et al., MICRO 2017 (fine-grained DRAM), table 3; the paper prints none.

The path of a column decides: to the pins (xPU), to the power-TSV area (Logic-PIM), to the bank group or to the bank.
Links, SRAM, refresh and what flows at rest are not in S; they are lines of their own where a caller adds them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pimloom.energy.ledger import Ledger

COLUMN_BITS = 256  # of a column access of HBM3

COLUMN_PJ: Mapping[str, int] = MappingProxyType(  # [secondary S] RD or WR of a column of one bank
    {"xpu": 891, "logic": 464, "bank_group": 686, "bank": 187}
)
CELL, BANK_GROUP_MUX, GLOBAL_MUX, TSV, INTERPOSER = 0.44, 1.01, 1.23, 0.5, 0.3  # [secondary S] pJ/bit
PJ_PER_BIT: Mapping[str, float] = MappingProxyType(  # what S derives COLUMN_PJ from, rounded as it prints them
    {
        "xpu": CELL + BANK_GROUP_MUX + GLOBAL_MUX + TSV + INTERPOSER,
        "logic": 1.81,  # [secondary S] from the cell to the power-TSV area, and the TSV
        "bank_group": CELL + BANK_GROUP_MUX + GLOBAL_MUX,
        "bank": 0.73,  # [secondary S]
    }
)
ACT_PJ = 909  # [secondary S] a row of 1 KB
MAC_PJ = 0.46  # [secondary S] 0.23 pJ for each operation, everywhere
ALL_BANKS: Mapping[str, int] = MappingProxyType(  # banks of an ALL-bank command [secondary S]
    {"xpu": 1, "logic": 8, "bank_group": 8, "bank": 32}
)


class BankCounts(NamedTuple):
    """Columns read or written and rows opened, of single banks, on one path."""

    columns: float
    rows: float

    def __add__(self, other: object) -> "BankCounts":
        if not isinstance(other, BankCounts):
            return NotImplemented
        return BankCounts(self.columns + other.columns, self.rows + other.rows)


def memory_pj(path: str, counts: BankCounts) -> Ledger:
    """Energy by cause of the commands of one path."""
    return Ledger({"column": counts.columns * COLUMN_PJ[path], "activate": counts.rows * ACT_PJ})


def mac_pj(macs: float) -> float:
    """Energy of multiply-accumulates."""
    return macs * MAC_PJ
