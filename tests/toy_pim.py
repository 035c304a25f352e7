"""A PIM instruction set that no part has: names and row rules unlike AiM's, as rows of a table and as an oracle.

FANOUT opens the same row of all banks of a GDDR6 channel. FEED brings the next entry of the vector buffer, DOT
multiplies it with a column in every bank, GATHER reads and clears the accumulators: rows must be open, unlike AiM's.
SPREAD writes one value to each bank and leaves the rows open, unlike AiM's. There is no bias and no mode.
"""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard
from pimloom.arch.part import Part
from pimloom.arch.part_check import check_part
from pimloom.arch.system import load_part
from pimloom.arch.units import Time
from tests.naive import READS, WRITES, Gddr6, Place

CHANNEL = Level.CHANNEL
ANY, OPEN, CLOSED = Row

TIMINGS = {
    "nFANOUT": "FANOUT to a column command",
    "nFEED": "FEED to the DOT that may use the buffer",
    "nDOT": "DOT to DOT",
    "nSUM": "DOT to GATHER of its sums",
    "nCLEAR": "GATHER to the next DOT",
}
PARTS_CK = {"nFANOUT": 21, "nFEED": 3, "nDOT": 2, "nSUM": 9, "nCLEAR": 4}  # of the part below

COMMANDS = (
    Command("FANOUT", Role.ACTIVATE, CHANNEL, CLOSED, OPEN, "nFANOUT", "open the same row of all banks"),
    Command("FEED", Role.LOAD, CHANNEL, ANY, ANY, "nCWL + nBL", "bring an entry of the vector"),
    Command("DOT", Role.MULTIPLY, CHANNEL, OPEN, ANY, "nDOT", "each bank: accumulate a column times an entry"),
    Command("GATHER", Role.RESULTS, CHANNEL, OPEN, ANY, "nCL + nBL", "read and clear the accumulators"),
    Command("SPREAD", Role.SCATTER, CHANNEL, OPEN, ANY, "nCWL + nBL + tWR", "write a value to each bank"),
)
MINE = tuple(command.name for command in COMMANDS)
INWARD = ("WR", "WRA", "FEED", "SPREAD")
OUTWARD = ("RD", "RDA", "GATHER")
NEW_IN, NEW_OUT = ("FEED", "SPREAD"), ("GATHER",)

RULES = (
    # the data pins: one burst at a time, and turn-around; GDDR6 has its own for its own
    Rule(CHANNEL, INWARD, NEW_IN, "nBL"),
    Rule(CHANNEL, NEW_IN, ("WR", "WRA"), "nBL"),
    Rule(CHANNEL, OUTWARD, NEW_OUT, "nBL"),
    Rule(CHANNEL, NEW_OUT, ("RD", "RDA"), "nBL"),
    Rule(CHANNEL, OUTWARD, NEW_IN, "nRTW"),
    Rule(CHANNEL, NEW_OUT, ("WR", "WRA"), "nRTW"),
    Rule(CHANNEL, INWARD, NEW_OUT, "nCWL + nBL + tWTR_L"),
    Rule(CHANNEL, NEW_IN, ("RD", "RDA"), "nCWL + nBL + tWTR_L"),
    # columns of all banks
    Rule(CHANNEL, ("FANOUT",), ("DOT", "SPREAD", "RD", "RDA", "WR", "WRA"), "nFANOUT"),
    Rule(CHANNEL, ("FEED",), ("DOT",), "nFEED"),
    Rule(CHANNEL, ("DOT",), ("DOT", "RD", "RDA", "WR", "WRA", "SPREAD"), "nDOT"),
    Rule(CHANNEL, ("DOT",), NEW_OUT, "nSUM"),
    Rule(CHANNEL, NEW_OUT, ("DOT",), "nCLEAR"),
    # rows of all banks
    Rule(CHANNEL, ("FANOUT",), ("FANOUT", "ACT", "REFab"), "tRC"),
    Rule(CHANNEL, ("ACT",), ("FANOUT",), "tRC"),
    Rule(CHANNEL, ("PRE", "PREab"), ("FANOUT",), "tRP"),
    Rule(CHANNEL, ("RDA",), ("FANOUT",), "tRTP + tRP"),
    Rule(CHANNEL, ("WRA",), ("FANOUT",), "nCWL + nBL + tWR + tRP"),
    Rule(CHANNEL, ("FANOUT",), ("PRE", "PREab"), "tRAS"),
    Rule(CHANNEL, ("DOT", "GATHER"), ("PRE", "PREab"), "tRTP"),
    Rule(CHANNEL, ("SPREAD",), ("PRE", "PREab"), "nCWL + nBL + tWR"),
    Rule(CHANNEL, ("REFab",), MINE, "tRFC"),
)

STANDARD = Standard("toy", TIMINGS, COMMANDS, RULES, unmodelled=())


def toy_part() -> Part:
    """PIM-GPT's part with these commands."""
    part = load_part("gddr6_pim_gpt").value
    plain = load_part("gddr6_14000").value.timing.keys()
    timing = {name: time for name, time in part.timing.items() if name in plain}
    timing |= {name: Time(ck=ck) for name, ck in PARTS_CK.items()}
    timing |= {"nCL": Time(ck=7), "nCWL": Time(ck=5), "tWTR_L": Time(ck=3)}
    toy = msgspec.structs.replace(part, description="toy", pim="toy", timing=timing)
    check_part(toy, "toy")
    return toy


class Toy(Gddr6):
    """The same in plain words, for the oracle: it shares nothing with the table above."""

    names = (*Gddr6.names, "FANOUT", "FEED", "DOT", "GATHER", "SPREAD")
    opening: ClassVar[tuple[str, ...]] = ("ACT", "FANOUT")
    on_a_row: ClassVar[tuple[str, ...]] = (*READS, *WRITES, "DOT", "GATHER", "SPREAD")

    def waits(self, name: str, place: Place) -> Iterator[int]:
        yield from super().waits(name, place)
        k, home = self.k, place[:1]
        if name in ("ACT", "FANOUT", "REFab"):  # all banks were opened at once: a row cycle
            yield self.after("FANOUT", home, k.tRC)
        if name == "FANOUT":  # every bank closed
            yield self.after("ACT", home, k.tRC)
            yield from self.closed(home)
            yield self.after("PREab", home, k.tRP)
        if name in (*READS, *WRITES, "DOT", "SPREAD"):  # a column of an open row
            yield self.after("FANOUT", home, k.nFANOUT)
            yield self.after("DOT", home, k.nDOT)
        if name == "DOT":
            yield self.after("FEED", home, k.nFEED)
            yield self.after("GATHER", home, k.nCLEAR)
        if name == "GATHER":
            yield self.after("DOT", home, k.nSUM)
        if name in ("PRE", "PREab"):
            yield self.after("FANOUT", home, k.tRAS)
            yield self.after(("DOT", "GATHER"), home, k.tRTP)
            yield self.after("SPREAD", home, self.recovery)
        yield from self.data_pins(name, home)

    def data_pins(self, name: str, home: Place) -> Iterator[int]:
        """Bursts of the new commands follow each other and those of reads and writes."""
        k, new_in = self.k, ("FEED", "SPREAD")
        if name in (*WRITES, *new_in):
            yield self.after(new_in, home, k.nBL)
            yield self.after("GATHER", home, k.nRTW)
        if name in new_in:
            yield self.after(WRITES, home, k.nBL)
            yield self.after(READS, home, k.nRTW)
        if name in (*READS, "GATHER"):
            yield self.after("GATHER", home, k.nBL)
            yield self.after(new_in, home, self.data_in + k.tWTR_L)
        if name == "GATHER":
            yield self.after(READS, home, k.nBL)
            yield self.after(WRITES, home, self.data_in + k.tWTR_L)

    def over(self, name: str) -> int:
        own = {"FANOUT": self.k.nFANOUT, "FEED": self.data_in, "DOT": self.k.nDOT, "SPREAD": self.recovery}
        return own[name] if name in own else super().over(name)
