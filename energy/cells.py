"""One ledger of energy for all systems: a figure with its source for each cell, or unknown; and who needs the least.

A cell is a state, dynamic (for work that is done) or static (over time, whether or not something is done: standby,
refresh, leakage), of a part. Sums are compared only over the same cells.
"""

from collections.abc import Collection, Mapping, Sequence
from math import fsum
from typing import Literal, NamedTuple

import msgspec

from pimloom.arch.name_units import figure

PARTS = ("DRAM core", "DRAM interface", "compute", "on-chip memory", "links", "host")
STATES = ("dynamic", "static")
CELLS = tuple(f"{state} {part}" for part in PARTS for state in STATES)
DEVICE = CELLS[:8]  # without links and host
WHOLE = "whole device"  # key of a figure that covers all cells of DEVICE, or more
NONE = "none"  # the source of a zero: the system has no such part
MOST_CELLS = 2  # that a sentence names
Bound = Literal["estimate", "upper", "lower", "neither"]


class EnergyCell(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger has of a cell, or of several cells with one figure.

    j: energy of all devices [J]; None where there is no figure of this cell alone. source: of WEAKEST, the class of its
    source (`set`: by the user, `stated`: without a class); `none`: the system has no such part, and j is 0. where:
    places of its file, or the module with its constants. bound: `upper` and `lower` for a figure that is at most or at
    least so much; `neither`: the sum of both kinds. without: what a lower bound leaves out. within: keys of the figures
    of several cells that hold this one."""

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
    """Energy of some causes, which is spent in these cells and cannot be told apart further."""

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
    """All cells. absent: parts that the system does not have."""
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
    """Several figures as one, whose source is the weakest of theirs; of bounds of both directions it has neither."""
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
    """`upper`, `lower` or both, as far as figures of the ledger are such bounds."""
    found = {cell.bound for cell in ledger.values()}
    return {bound for bound in ("upper", "lower") if bound in found or "neither" in found}


def ledger_j(ledger: Cells) -> float:
    """All energy that has a figure."""
    return fsum(cell.j for cell in ledger.values() if cell.j is not None)


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that keeps a ranking open: the energy of some systems holds it, that of others does not."""

    cell: str
    known_on: list[str]
    unknown_on: list[str]


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Who needs the least energy. least: None unless all sums have the same known cells, and no bound leaves it open.
    undecided: the cells that differ, the largest first; alike: systems with the same known cells, thriftiest first."""

    least: str | None
    why: str
    undecided: list[Undecided]
    alike: list[list[str]]


def ranking(ledgers: Mapping[str, Cells | None]) -> Ranking:
    """Of systems by name; None: a system without any figure of energy."""
    groups = dict[tuple[str, ...], list[str]]()
    for name, ledger in ledgers.items():
        groups.setdefault(known_cells(ledger) if ledger else (), []).append(name)
    sums = {name: ledger_j(ledger) for name, ledger in ledgers.items() if ledger}
    alike = [sorted(names, key=sums.__getitem__) for cells, names in groups.items() if cells and len(names) > 1]
    several = [_within(names, ledgers) for names in alike]
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
    """Cells that some systems know and others do not, those with the largest figures of their own first."""
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


def _within(names: Sequence[str], ledgers: Mapping[str, Cells | None]) -> tuple[str | None, str]:
    """The first of systems with the same known cells, the thriftiest first, unless bounds leave it open; and why."""
    first, *others = names
    found = {name: ledgers[name] or {} for name in names}
    bounds = {name: bounds_of(ledger) for name, ledger in found.items()}
    sums = {name: ledger_j(ledger) for name, ledger in found.items()}
    over = f"over the same cells ({len(known_cells(found[first]))} of {len(CELLS)})"
    if sums[first] == sums[others[0]]:
        return None, f"{first} and {others[0]} need the same energy {over}."
    for other in others:
        if leaves_open(bounds[first], bounds[other]):
            one, two = (_kind(bounds[name]) for name in (first, other))
            said = f"the sum of {first} is {one}, that of {other} {two}"
            return None, f"Bounds leave open which of {first} and {other} needs less energy {over}: {said}."
    times = figure(sums[others[0]] / sums[first], 3) if sums[first] else "many"
    kinds = {_kind(of) for of in bounds.values()} - {"an estimate"}
    by = f", by {kinds.pop()} of each" if len(kinds) == 1 and all(bounds.values()) else ""
    return first, f"{first} needs the least energy {over}{by}: {others[0]} needs {times} times as much."


def leaves_open(first: Collection[str], other: Collection[str]) -> bool:
    """Whether bounds of two sums, the smaller one first, leave open which is the smaller: those of opposite directions
    always do.

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
