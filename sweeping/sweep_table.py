"""What a report of a sweep is made from: one row per point, and what its columns are for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SweepTable:
    """A sweep's points and their results.

    frame: one row per point, with a bool column `feasible` and, for failed points, a text in `error`.
    axes: the columns that are axes. workload: those of them that are keys of the workload; points are compared only
    where they have the same values there. objectives: numeric column -> "min" or "max"; may be empty.
    constraints: as written. uniform: the points are a grid or drawn at random, so that sensitivities mean something.
    facts: what the page's foot says: method, seed, digests, versions, wall time. meanings: column of a result -> what
    it says. energies: the objectives that read an energy, which are compared over the same cells of its ledger only.
    """

    title: str
    frame: "pandas.DataFrame"
    axes: tuple[str, ...]
    objectives: Mapping[str, str]
    constraints: tuple[str, ...]
    uniform: bool
    facts: Mapping[str, str]
    meanings: Mapping[str, str] = field(default_factory=dict)
    workload: tuple[str, ...] = ()
    energies: tuple[str, ...] = ()
