"""One ledger of energy for all systems: each cell has a figure with its source, or is unknown; and the ranking of sums.

A cell is a part and a state: dynamic (energy of work) or static (power over time, with or without work: standby,
refresh, leakage). Sums are compared only over the same cells.
"""

from collections.abc import Collection, Mapping, Sequence
from math import fsum
from typing import Literal, NamedTuple

import msgspec

from pimloom.arch.name_units import figure
from pimloom.arch.units import J_PER_MJ

PARTS = ("DRAM core", "DRAM interface", "compute", "on-chip memory", "links", "host")
STATES = ("dynamic", "static")
CELLS = tuple(f"{state} {part}" for part in PARTS for state in STATES)
DEVICE = CELLS[:8]  # without links and host
HOST = CELLS[-2:]  # which no system has a figure of
WHOLE = "whole device"  # key of a figure that covers all cells of DEVICE, or more
NONE = "none"  # the source of a zero: the system has no such part
SUM_DIGITS = 4  # of a printed sum [mJ]
MOST_CELLS = 2  # that a sentence names
Bound = Literal["estimate", "upper", "lower", "neither"]


class EnergyCell(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of one cell, or of several cells with one figure.

    j: energy of all devices [J]; None: there is no figure of this cell alone. source: class of its source, one of
    WEAKEST (`set`: by the user, `stated`: without a class); `none`: the system has no such part, and j is 0. where:
    keys of the system's file, or the module with the constants. bound: `upper`: the true value is at most j; `lower`:
    it is at least j; `neither`: a sum of both kinds. without: what a lower bound leaves out. within: keys of the
    figures of several cells that include this cell."""

    j: float | None = None
    source: str | None = None
    where: str | None = None
    bound: Bound | None = None
    without: list[str] = []
    within: list[str] = []

    @property
    def known(self) -> bool:
        """Whether its energy is in the sum."""
        return self.j is not None or bool(self.within)


Cells = Mapping[str, EnergyCell]  # CELLS in their order, then figures of several cells by `cells_key`


class Spent(NamedTuple):
    """Energy of some causes in these cells, which cannot be divided between them. Fields as in `EnergyCell`."""

    cells: tuple[str, ...]
    j: float
    source: str
    where: str
    bound: Bound = "estimate"
    without: tuple[str, ...] = ()


def cells_key(cells: Sequence[str]) -> str:
    """
    >>> cells_key(["dynamic compute", "static compute"]), cells_key(CELLS)
    ('dynamic compute + static compute', 'whole device')
    """
    return WHOLE if set(DEVICE) <= set(cells) else " + ".join(cells)


def ledger_of(figures: Sequence[Spent], absent: Sequence[str] = ()) -> dict[str, EnergyCell]:
    """The ledger: an entry for each of CELLS, then for each figure of several cells. absent: parts that the system
    lacks, whose cells are 0."""
    by = dict[tuple[str, ...], list[Spent]]()
    for one in figures:
        by.setdefault(one.cells, []).append(one)
    several = {cells_key(cells): cells for cells in by if len(cells) > 1}
    found = dict[str, EnergyCell]()
    for cell in CELLS:
        within = [key for key, cells in several.items() if cell in cells]
        none = cell.split(" ", 1)[1] in absent and not within
        own = (
            _cell(by[(cell,)])
            if (cell,) in by
            else EnergyCell(j=0.0, source=NONE, bound="estimate")
            if none
            else EnergyCell()
        )
        found[cell] = msgspec.structs.replace(own, within=within)
    return found | {key: _cell(by[cells]) for key, cells in several.items()}


WEAKEST = ("measured", "standard", "paper", "secondary", "derived", "design", "stated", "set", "recalled", "assumed")


def _cell(figures: Sequence[Spent]) -> EnergyCell:
    """The sum of several figures, with the weakest of their sources. Bounds of both directions give `neither`."""
    bounds = {one.bound for one in figures} - {"estimate"}
    both: Bound = "neither" if bounds else "estimate"
    return EnergyCell(
        j=fsum(one.j for one in figures),
        source=max((one.source for one in figures), key=WEAKEST.index),
        where="; ".join(dict.fromkeys(one.where for one in figures)),
        bound=bounds.pop() if len(bounds) == 1 else both,
        without=list(dict.fromkeys(name for one in figures for name in one.without)),
    )


def known_cells(ledger: Cells) -> tuple[str, ...]:
    """Cells whose energy is in the sum, in the order of CELLS.

    >>> known_cells(ledger_of([Spent(("dynamic compute",), 1.0, "paper", "")], absent=["links"]))
    ('dynamic compute', 'dynamic links', 'static links')
    """
    return tuple(cell for cell in CELLS if ledger[cell].known)


def bounds_of(ledger: Cells) -> set[str]:
    """The directions, `upper` and `lower`, of all bounds in a ledger."""
    found = {cell.bound for cell in ledger.values()}
    return {bound for bound in ("upper", "lower") if bound in found or "neither" in found}


def sum_bounds(ledger: Cells, *, rest_known: bool = True) -> set[str]:
    """The directions in which the sum of a ledger bounds all energy but the host's: those of its figures, and `lower`
    if another cell, or energy at rest, is unknown."""
    whole = rest_known and all(ledger[cell].known for cell in CELLS if cell not in HOST)
    return bounds_of(ledger) | (set() if whole else {"lower"})


def ledger_j(ledger: Cells) -> float:
    """The sum of all figures [J]."""
    return fsum(cell.j for cell in ledger.values() if cell.j is not None)


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that prevents a ranking: it is known on some systems and unknown on others."""

    cell: str
    known_on: list[str]
    unknown_on: list[str]


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Which system needs the least energy. least: its name; None unless all sums have the same known cells and no bound
    leaves the order open. why: a sentence. undecided: cells that only some systems know, the largest first. alike:
    groups of systems with the same known cells, in each the least energy first."""

    least: str | None
    why: str
    undecided: list[Undecided]
    alike: list[list[str]]


def ranking(ledgers: Mapping[str, Cells | None], tokens: int = 1) -> Ranking:
    """The ranking of systems by name. A ledger of None: the system has no figure of energy. tokens: of which sums are
    printed, which tie if they are equal as printed."""
    groups = dict[tuple[str, ...], list[str]]()
    for name, ledger in ledgers.items():
        groups.setdefault(known_cells(ledger) if ledger else (), []).append(name)
    sums = {name: ledger_j(ledger) for name, ledger in ledgers.items() if ledger}
    alike = [sorted(names, key=sums.__getitem__) for cells, names in groups.items() if cells and len(names) > 1]
    several = [_within(names, ledgers, tokens) for names in alike]
    if len(ledgers) == 1:
        (name,) = ledgers
        return Ranking(least=None, why=f"{name} is the only system.", undecided=[], alike=[])
    if len(groups) == 1 and alike:
        least, why = several[0]
        return Ranking(least=least, why=why, undecided=[], alike=alike)
    undecided = _undecided(ledgers)
    open_ = f"It is open which system needs the least energy: {_named(undecided, ledgers)}."
    why = " ".join([open_, *(why for _, why in several)])
    return Ranking(least=None, why=why, undecided=undecided, alike=alike)


def _undecided(ledgers: Mapping[str, Cells | None]) -> list[Undecided]:
    """Cells that only some systems know, in falling order of their largest figure."""
    found = list[tuple[float, Undecided]]()
    for cell in CELLS:
        known = [name for name, ledger in ledgers.items() if ledger and ledger[cell].known]
        if known and len(known) < len(ledgers):
            most = max((ledgers[name] or {})[cell].j or 0.0 for name in known)
            unknown = [name for name in ledgers if name not in known]
            found.append((most, Undecided(cell=cell, known_on=known, unknown_on=unknown)))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def _named(undecided: Sequence[Undecided], ledgers: Mapping[str, Cells | None]) -> str:
    if bare := [name for name, ledger in ledgers.items() if not ledger]:
        return f"{', '.join(bare)} {'has' if len(bare) == 1 else 'have'} no figure of energy"
    cells = [f"{one.cell} (unknown on {', '.join(one.unknown_on)})" for one in undecided[:MOST_CELLS]]
    more = f", and {len(undecided) - MOST_CELLS} more" if len(undecided) > MOST_CELLS else ""
    return f"{' and '.join(cells)} decide{'s' * (len(cells) == 1)}{more}"


def _within(names: Sequence[str], ledgers: Mapping[str, Cells | None], tokens: int) -> tuple[str | None, str]:
    """The first of systems with the same known cells, in rising order of their sums; None if bounds leave it open; and
    why."""
    first, *others = names
    found = {name: ledgers[name] or {} for name in names}
    bounds = {name: bounds_of(ledger) for name, ledger in found.items()}
    sums = {name: ledger_j(ledger) for name, ledger in found.items()}
    over = f"over the same cells ({len(known_cells(found[first]))} of {len(CELLS)})"
    for other in others:
        if leaves_open(bounds[first], bounds[other]):
            one, two = (_kind(bounds[name]) for name in (first, other))
            said = f"the sum of {first} is {one}, that of {other} {two}"
            return None, f"Bounds leave open which of {first} and {other} needs less energy {over}: {said}."
    printed = {name: figure(sums[name] / tokens / J_PER_MJ, SUM_DIGITS) for name in names}
    if tied := [name for name in others if printed[name] == printed[first]]:
        return None, f"{', '.join([first, *tied[:-1]])} and {tied[-1]} need the same energy {over}."
    times = figure(sums[others[0]] / sums[first], 3) if sums[first] else "many"
    kinds = {_kind(of) for of in bounds.values()} - {"an estimate"}
    by = f", by {kinds.pop()} of each" if len(kinds) == 1 and all(bounds.values()) else ""
    return first, f"{first} needs the least energy {over}{by}: {others[0]} needs {times} times as much."


def leaves_open(first: Collection[str], other: Collection[str]) -> bool:
    """Whether bounds of two sums leave open which true value is smaller; the smaller sum comes first. Bounds of
    opposite directions always do.

    >>> leaves_open({"lower"}, {"upper"}), leaves_open(set(), {"upper"}), leaves_open({"upper"}, set())
    (True, True, False)
    """
    if {"upper", "lower"} <= {*first, *other}:
        return True
    return ("lower" in first and "lower" not in other) or ("upper" in other and "upper" not in first)


def _kind(bounds: Collection[str]) -> str:
    if len(bounds) > 1:
        return "no bound of either side"
    return {"upper": "an upper bound", "lower": "a lower bound"}[next(iter(bounds))] if bounds else "an estimate"
