"""What a sweep file says, as values: a system, a workload, axes, constraints, objectives, a method."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

SYSTEM = "system"  # the axis of a sweep over several systems
WORKLOAD = "workload."  # before a key of the workload that is an axis

# What is to be done; the other keys of the workload say on how many devices, by which rule, or how exactly.
WORK = ("model", "layers", "prompt", "generate", "context", "batch", "requests", "iterations", "lm_head")
ARRIVING = ("arrivals", "trace")  # a workload with any of them is served as it arrives; its work besides:
SERVED = (
    "model",
    "layers",
    "requests",
    "lm_head",
    *ARRIVING,
    "lengths",
    "rate",
    "goodput",
    "share",
    "seed",
    "slo",
    "cut",
    "branches",
    "mode",
    "finetune",
)

Scalar = int | float | str | bool
Direction = Literal["min", "max"]
Method = Literal["grid", "random", "nsga2", "tpe"]


@dataclass(frozen=True)
class Axis:
    """One axis: a place as `--set` takes it, or `workload.KEY`; its values, or a continuous range.

    values: in the order written, numbers without their unit; empty if the axis is continuous. low, high: the range of
    a continuous axis, which only a search takes; log: whether it is searched on a logarithmic scale. sets: of a
    linked axis, whose `place` is a name of the user's own: each place that it sets -> one text for each of `values`,
    as `--set` takes it; else empty. served: whether the workload is served as it arrives, where `batch` is a limit of
    the design.
    """

    place: str
    values: tuple[Scalar, ...]
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    log: bool = False
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    served: bool = False

    @property
    def is_work(self) -> bool:
        """Whether its values are other work, between which no design is better than another."""
        return self.place.startswith(WORKLOAD) and self.place.removeprefix(WORKLOAD) in (
            SERVED if self.served else WORK
        )

    @property
    def column(self) -> str:
        """Name of the axis's column: the place, and the unit if the place does not say it."""
        return self.place if self.unit is None else f"{self.place} [{self.unit}]"

    def text(self, value: Scalar) -> str:
        """The value as `--set` takes it: `2 nCK`, `true`, `500`."""
        plain = str(value).lower() if isinstance(value, bool) else str(value)
        return plain if self.unit is None else f"{plain} {self.unit}"

    def sets_at(self, value: Scalar) -> dict[str, str]:
        """What a linked axis sets at one of its values; empty for another axis."""
        return {place: texts[self.values.index(value)] for place, texts in self.sets.items()}


@dataclass(frozen=True)
class Sweep:
    """A checked sweep file. Objectives: column or expression -> direction; constraints: texts such as `power_w < 75`.

    workload: what is fixed of the workload; a list in the file is an axis `workload.KEY`. set: fixed `--set` values.
    system: of several the names, and `system` is an axis. by_system: of several what is set in one of them alone, and
    keys of the workload that each has for itself, as (set, workload).
    budget: most points of a search, None for a grid. batch: points of a search that are chosen before any of them is
    known, so that a search does not depend on how many workers there are.
    """

    name: str
    system: str
    workload: Mapping[str, Scalar]
    set: Mapping[str, str]
    axes: tuple[Axis, ...]
    constraints: tuple[str, ...]
    objectives: Mapping[str, Direction]
    method: Method
    budget: int | None
    batch: int
    seed: int
    by_system: Mapping[str, tuple[Mapping[str, str], Mapping[str, Scalar]]] = field(default_factory=dict, hash=False)

    def alone(self, system: str) -> "Sweep":
        """The sweep of one of its systems alone."""
        own_set, own_workload = self.by_system[system]
        return replace(
            self,
            system=system,
            axes=tuple(axis for axis in self.axes if axis.place != SYSTEM),
            set={**self.set, **own_set},
            workload={**self.workload, **own_workload},
            by_system={},
        )

    @property
    def column_of(self) -> Mapping[str, str]:
        """Place of each axis -> its column, by which expressions find an axis whose column says its unit."""
        return {axis.place: axis.column for axis in self.axes}
