"""Whether energies of points are sums over the same cells of the ledger, without which none is the least."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pimloom.energy.cells import CELLS, leaves_open
from pimloom.sweeping.definition.expression import parse
from pimloom.sweeping.definition.sweep import SYSTEM, Sweep
from pimloom.sweeping.pareto import front_within
from pimloom.sweeping.point.results import ALL_KNOWN, BETWEEN, BOUND, ENERGIES, UNKNOWN

SIDES = {"upper": {"upper"}, "lower": {"lower"}, "neither": {"upper", "lower"}}
KINDS = {"upper": "upper bounds", "lower": "lower bounds", "neither": "bounds of neither side"}
UNLIKE = "energies are sums over different cells"
OPEN = "bounds leave the order of energies open"


def energies_of(sweep: Sweep) -> tuple[str, ...]:
    """The objectives that read an energy, a power, or work per energy."""
    names = set(ENERGIES) - sweep.column_of.keys()
    return tuple(text for text in sweep.objectives if names & parse(text, "objectives").names)


def reasons(frame: pd.DataFrame, objectives: Mapping[str, str], energies: Sequence[str]) -> dict[str, str]:
    """By objective that reads an energy, why no point of the rows, which are of one workload, is best in it; no key
    where one may be. objectives: with their directions; energies: those of them that read an energy."""
    found = dict[str, str]()
    for name in energies if UNKNOWN in frame and BOUND in frame else ():
        values = frame[name].astype(float)
        rows = frame[frame["feasible"].astype(bool) & values.notna() & frame[UNKNOWN].notna()]
        if len(rows) and (why := _different_cells(rows) or _open_bounds(rows, values[rows.index], objectives[name])):
            found[name] = why
    return found


def sentence(name: str, reason: str) -> str:
    """
    >>> sentence("energy_j", UNLIKE)
    'No point is best in energy_j: energies are sums over different cells.'
    """
    return f"No point is best in {name}: {reason}."


def fair_front(
    frame: pd.DataFrame,
    objectives: Mapping[str, str],
    energies: Sequence[str],
    feasible: np.ndarray,
    groups: np.ndarray,
) -> np.ndarray:
    """The front of each workload, bool (n,). Energies are compared over the same cells only: no point keeps another one
    off the front whose energy is a sum of other cells. With one objective there is no front where none is best."""
    values = np.column_stack([frame[name].astype(float) for name in objectives]) if objectives else None
    if values is None:
        return np.zeros(len(frame), dtype=bool)
    finer = groups
    if energies and UNKNOWN in frame and len(frame):
        codes, cells = pd.factorize(frame[UNKNOWN])
        finer = groups * (len(cells) + 1) + codes + 1
    front = front_within(values, list(objectives.values()), feasible, finer)
    if len(objectives) == 1 and energies:
        for group in np.unique(groups[front]):
            rows = groups == group
            if reasons(frame[rows].assign(feasible=feasible[rows]), objectives, energies):
                front[rows] = False
    return front


def _different_cells(rows: pd.DataFrame) -> str:
    """Which cells are unknown in some of the rows only; empty if none is."""
    unknown = rows[UNKNOWN].astype(str)
    if unknown.nunique() == 1:
        return ""
    cells_in = {text: set(text.split(BETWEEN)) - {ALL_KNOWN} for text in unknown.unique()}
    by = dict[str, list[str]]()
    for cell in CELLS:
        mask = unknown.isin([text for text, cells in cells_in.items() if cell in cells]).to_numpy(bool)
        if mask.any() and not mask.all():
            by.setdefault(_who(rows, mask), []).append(cell)
    return f"{UNLIKE}: " + "; ".join(
        f"{_listed(cells)} {'is' if len(cells) == 1 else 'are'} unknown {who}" for who, cells in by.items()
    )


def _open_bounds(rows: pd.DataFrame, values: "pd.Series[float]", direction: str) -> str:
    """Which bounds leave open whether the best value is the best; empty if none does."""
    kinds = rows[BOUND].astype(str)
    if kinds.nunique() == 1:
        return ""
    best = kinds.iloc[int((values.argmax if direction == "max" else values.argmin)())]
    for other in sorted(set(kinds) - {best}):
        if leaves_open(SIDES.get(best, set()), SIDES.get(other, set())):
            who = {kind: _who(rows, (kinds == kind).to_numpy(bool)) for kind in (best, other)}
            said = " and ".join(f"{KINDS.get(kind, 'estimates')} {each}" for kind, each in who.items())
            return f"{OPEN}: they are {said}"
    return ""


def _who(rows: pd.DataFrame, mask: np.ndarray) -> str:
    """The rows of a mask by their systems, or by their number where a system has others."""
    if SYSTEM in rows:
        named = rows[SYSTEM].astype(str).to_numpy(object)
        inside = list(dict.fromkeys(named[mask]))
        if not set(inside) & set(named[~mask]):
            return f"on {_listed(inside)}"
    return f"in {int(mask.sum()):,} of {len(mask):,} points"


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
