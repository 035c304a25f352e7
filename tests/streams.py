"""Random parts and command streams, biased so that every timing rule binds now and then.

`Case` is one experiment; the engine and the oracle read the same. `draw_case` takes any `random.Random`, also the one
that Hypothesis shrinks.
"""

from functools import cache
from itertools import product
from math import prod
from random import Random
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import STREAM, Command, Rule
from pimloom.arch.part import Organization
from pimloom.arch.standard import given, join_tables
from pimloom.arch.table import Table, build_table
from tests.naive import MACHINES, OPENING, READS, WRITES, Order, Outcome, simulate

STANDARDS = {"gddr6": ("gddr6", None), "gddr6+aim": ("gddr6", "aim"), "hbm2": ("hbm2", None), "ddr4": ("ddr4", None)}
ROWS, COLUMNS = 8, 64
COLUMN = ("RD", "RD", "RD", "WR", "WR", "WR")
PIM = ("gddr6+aim",)
Size = tuple[int, int, int, int]  # pseudo channels, ranks, groups, banks of a group


class Case(NamedTuple):
    """A channel, its timings in clocks and what runs on it; size: pseudo channels, ranks, groups, banks of a group."""

    machine: str
    size: Size
    clocks: dict[str, int]
    streams: list[list[Order]]
    refresh: bool = True
    due: int | None = None
    refreshed: int | None = None
    apart: int = 0

    def oracle(self) -> Outcome:
        return simulate(
            self.machine, self.size, self.clocks, self.streams,
            refresh=self.refresh, due=self.due, refreshed=self.refreshed, apart=self.apart,
        )  # fmt: skip

    def table(self) -> Table:
        return table_of(self.machine, self.size, self.clocks)

    def arrays(self, table: Table) -> list[np.ndarray]:
        return [to_array(stream, table) for stream in self.streams]


def organization(size: Size) -> Organization:
    return Organization(
        *size, rows=ROWS, columns=COLUMNS, access_bits=256, dq_bits=16, pin_gbps=16, capacity_bytes=2**20
    )


def table_of(machine: str, size: Size, clocks: dict[str, int], rules=None) -> Table:
    """The machine's table with these timings, and with other rules where given."""
    commands, own, refresh = _given(*STANDARDS[machine], frozenset(clocks))
    return build_table(commands, rules or own, clocks, organization(size), refresh)


@cache
def _given(standard: str, pim: str | None, names: frozenset[str]) -> tuple[tuple[Command, ...], tuple[Rule, ...], str]:
    found = join_tables(standard, pim)
    return *given(found, names), found.refresh


def to_array(stream: list[Order], table: Table) -> np.ndarray:
    """STREAM rows; `tag` is the row's number."""
    rows = [(table.cmd(order.name), *order[1:], tag) for tag, order in enumerate(stream)]
    return np.array(rows, STREAM)


def expand(stream: list[Order]) -> list[Order]:
    """Every command on a row of its own."""
    return [o._replace(col=o.col + i, count=1) for o in stream for i in range(o.count)]


def draw_clocks(rng: Random, machine: str) -> dict[str, int]:
    """Each timing on its own; now and then all small, so that others bind, or zero."""
    names = join_tables(*STANDARDS[machine]).timings
    top = rng.choice((4, 9, 16, 16, 24))
    ck = {name: rng.randint(rng.choice((0, 1, 1, 1)), top) for name in names}
    for long in ("tFAW", "tRC", "tRAS"):
        if rng.random() < 0.5:
            ck[long] += rng.randint(0, 2 * top)
    ck["tRFC"] = rng.randint(5, 60)
    ck["tREFI"] = 2 * ck["tRFC"] + rng.choice((rng.randint(0, 60), rng.randint(60, 400), rng.randint(60, 400)))
    if rng.random() < 0.02:  # refreshes faster than they can be done
        ck["tRFC"] = 2 * ck["tREFI"]
    return ck


def draw_size(rng: Random, machine: str) -> Size:
    pseudo_channels = rng.randint(1, 2) if machine == "hbm2" else 1
    ranks = (1, 2, 2, 4) if machine == "ddr4" else (1, 1, 1, 2)
    return pseudo_channels, rng.choice(ranks), rng.randint(1, 4), rng.randint(1, 4)


def draw_case(rng: Random, machine: str, rows: int = 40, size: Size | None = None) -> Case:
    """One experiment of at most about `rows` stream rows, on a channel of any size or of this one."""
    size, clocks = size or draw_size(rng, machine), draw_clocks(rng, machine)
    banks = list(product(*map(range, size)))
    many = rng.choice((1, 1, 2, 3))
    if many == 1:
        owned = [banks]
    elif len(homes := {b[: MACHINES[machine].home] for b in banks}) > 1 and rng.random() < 0.5:  # a home each
        owned = [[b for b in banks if b[: len(home)] == home] for home in sorted(homes)]
    else:
        rng.shuffle(banks)
        owned = [banks[i::many] for i in range(many)]
    limit = max(1, rng.randint(3, rows) // len(owned))
    streams = [Writer(rng, machine, size, mine, clocks).write(limit) if mine else [] for mine in owned]
    if rng.random() < 0.3:
        return Case(machine, size, clocks, streams, refresh=False)
    due = rng.choice((None, None, rng.randint(0, 80)))
    refreshed = rng.choice((None, None, None, -rng.randint(0, 60)))
    apart = rng.choice((0, 0, clocks["tREFI"] // 2, rng.randint(1, 80)))
    return Case(machine, size, clocks, streams, True, due, refreshed, apart)


class Writer:
    """Writes one stream over the banks it owns, keeping track of their rows."""

    def __init__(self, rng: Random, machine: str, size, banks, clocks: dict[str, int]):
        self.rng, self.banks, self.clocks = rng, banks, clocks
        self.open: dict[tuple[int, ...], int | None] = dict.fromkeys(banks)
        self.depth = MACHINES[machine].home
        share = prod(size[self.depth :])
        self.homes = [h for h in sorted({b[: self.depth] for b in banks}) if len(self.at(h)) == share]
        self.orders: list[Order] = []
        self.clock = 0  # a guess of the time, for releases
        self.patience = rng.choice((0, 0, 0, 0, 9, 30))  # % of commands with a release in the future
        self.slow = rng.random() < 0.05  # keeps rows open for long
        visits = (self.hits, self.hits, self.turns, self.burst, self.ping_pong, self.stray)
        whole = (self.close_all, self.refresh) if self.homes else ()
        pim = (self.multiply, self.multiply, self.all_write, self.pins, self.pins) if machine in PIM and whole else ()
        self.phases = (*visits, *whole, *pim, *pim)

    def at(self, home) -> list:
        return [b for b in self.banks if b[: self.depth] == home[: self.depth]]

    def write(self, limit: int) -> list[Order]:
        favourite = self.rng.choice(self.phases)
        while len(self.orders) < limit:
            self.rng.choice((favourite, *self.phases))()
        if self.rng.random() < 0.06:  # an illegal one, or by luck not
            at = self.rng.randrange(len(self.orders))
            order = self.orders[at]
            wrong = order._replace(name=self.rng.choice(("RD", "ACT", "PRE")), row=self.rng.randrange(ROWS))
            self.orders[at] = wrong._replace(count=1) if wrong.name != "RD" else wrong
        return self.orders[:limit]

    def put(self, name: str, bank, row=0, count: int = 1) -> None:
        self.clock += count * 3
        late = self.rng.randrange(100) < self.patience
        release = self.clock + self.rng.randint(0, 40) if late else 0
        if self.slow and self.rng.randrange(8) == 0:
            release = self.clock = self.clock + self.clocks["tREFI"] * self.rng.randint(1, 6)
        col = self.rng.randrange(COLUMNS - count + 1)
        pch, rank, bg, number = bank
        self.orders.append(Order(name, pch, rank, bg, number, row, col, count, release))
        if name in OPENING or name in ("PRE", "PREab", "RDA", "WRA", "WRAab"):
            whole = name in ("ACTab", "PREab", "WRAab")
            for b in self.banks:
                if b == bank or (whole and b[: self.depth] == bank[: self.depth]):
                    self.open[b] = row if name in OPENING else None

    def bank(self):
        return self.rng.choice(self.banks)

    def run(self, *more: int) -> int:
        return self.rng.choice((1, 1, 2, self.rng.randint(1, 12), *more))

    def reach(self, bank) -> int:
        """Open some row of the bank; now and then close the one that is open first."""
        row = self.open[bank]
        if row is not None and self.rng.randrange(3):
            return row
        if row is not None:
            self.put("PRE", bank)
        row = self.rng.randrange(ROWS)
        self.put("ACT", bank, row)
        return row

    def leave(self, bank) -> None:
        """Perhaps close the bank, one way or another."""
        how = self.rng.choice(("PRE", "PRE", "RDA", "WRA", "", ""))
        if how and self.open[bank] is not None:
            self.put(how, bank, self.open[bank])

    def hits(self) -> None:
        bank = self.bank()
        row = self.reach(bank)
        for _ in range(self.rng.randint(1, 3)):
            self.put(self.rng.choice(COLUMN), bank, row, self.run())
        self.leave(bank)

    def turns(self) -> None:
        """Reads and writes alternating between two banks."""
        pair = [self.bank(), self.bank()]
        for bank in pair:
            self.reach(bank)
        for _ in range(self.rng.randint(2, 6)):
            bank = self.rng.choice(pair)
            self.put(self.rng.choice(COLUMN), bank, self.open[bank], self.rng.choice((1, 1, 1, 3)))
        self.leave(pair[0])

    def burst(self) -> None:
        """Open many banks at once, then use some and close some."""
        some = self.rng.sample(self.banks, min(len(self.banks), self.rng.randint(2, 7)))
        for bank in some:
            if self.open[bank] is not None:
                self.put("PRE", bank)
        for bank in some:
            self.put("ACT", bank, self.rng.randrange(ROWS))
        for bank in some:
            if self.rng.randrange(2):
                self.put(self.rng.choice(COLUMN), bank, self.open[bank])
            self.leave(bank)

    def ping_pong(self) -> None:
        """The whole row cycle of one bank, again and again."""
        bank = self.bank()
        for _ in range(self.rng.randint(2, 3)):
            if self.open[bank] is not None:
                self.put("PRE", bank)
            self.put("ACT", bank, self.rng.randrange(ROWS))
            name = self.rng.choice(("", *READS, *WRITES))
            if name:
                self.put(name, bank, self.open[bank])

    def stray(self) -> None:
        """PRE of any bank, open or not."""
        for _ in range(self.rng.randint(1, 2)):
            self.put("PRE", self.bank())

    def home(self):
        return (*self.rng.choice(self.homes), 0, 0, 0)[:4]

    def close_all(self) -> None:
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            self.put("PREab", self.home())

    def refresh(self) -> None:
        """A REFab of the stream's own."""
        home = self.home()
        for bank in self.banks:
            if bank in self.at(home) and self.open[bank] is not None:
                self.put(self.rng.choice(("PRE", "RDA", "WRA")), bank, self.open[bank])
        self.put("REFab", home, count=self.rng.choice((1, 1, 2)))

    def same_row(self) -> int:
        """One row open in all banks, by ACTab or bank by bank."""
        rows, row = set(self.open.values()), self.rng.randrange(ROWS)
        if len(rows) == 1 and None not in rows and self.rng.randrange(3):
            return rows.pop() or 0
        if rows != {None}:
            self.put("PREab", self.home())
        if self.rng.randrange(4):
            self.put("ACTab", self.home(), row)
        else:
            for bank in self.banks:
                self.put("ACT", bank, row)
        return row

    def multiply(self) -> None:
        if self.rng.randrange(2):
            self.pins()
        row = self.same_row()
        for _ in range(self.rng.randint(1, 2)):
            name = self.rng.choice(("MACab", "MACab", "MACab", "RD", "WR"))
            self.put(name, self.home() if name == "MACab" else self.bank(), row, self.run(16))
            if self.rng.randrange(2):
                self.pins()
        if self.rng.randrange(2):
            name = self.rng.choice(("PREab", "PREab", "WRAab", "PRE", "RDA", "WRA"))
            self.put(name, self.home() if name.endswith("ab") else self.bank(), row)

    def all_write(self) -> None:
        self.put("WRAab", self.home(), self.same_row())

    def pins(self) -> None:
        """The commands that need no row, in any order."""
        for _ in range(self.rng.randint(1, 3)):
            name = self.rng.choice(("WRGB", "WRGB", "WRGB", "RDMAC", "RDMAC", "WRMAC", "WRMAC", "TMOD"))
            self.put(name, self.home(), count=self.rng.choice((1, 1, 2, 5)))
