"""What one step of a batch took on a device: integer spans and integer counts; all else is derived from them here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, isfinite
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.units import S_PER_PS

MOST_S = 1e15  # of a step: thirty million years
LIMITS = ("compute", "memory bandwidth", "commands", "link", "launches")


class Span(NamedTuple):
    """An operator on a resource from `start_ps` to `end_ps` after the beginning of its step."""

    start_ps: int
    end_ps: int
    operator: str
    resource: str


class Bound(NamedTuple):
    """What bounds a step: of LIMITS that whose work alone takes longest, and its share of the step's time [1]."""

    name: str
    share: float


@dataclass(frozen=True)
class Run:
    """One step on one of `devices` equal devices that share it.

    end_ps: until all of it is done. spans: by start; those of one resource may overlap where it works on several things
    at once. commands: of the memory, of all channels, by name. interface_bytes: over the data pins of the memory;
    link_bytes: over the links of all devices; macs: multiply-accumulates of
    the step's operators, on one device, without those of padding. least_ps: by LIMITS, the time that the step's
    work of that kind takes at the full rate of what does it, by itself. device_j: energy by cause, of one device [J];
    None if the system or its part does not say what it needs. busy_ps: time in which each resource works on something;
    None: that of the spans.
    """

    end_ps: int
    spans: tuple[Span, ...]
    commands: Mapping[str, int] = field(default_factory=dict)
    interface_bytes: int = 0
    link_bytes: int = 0
    macs: int = 0
    least_ps: Mapping[str, int] = field(default_factory=dict)
    device_j: Mapping[str, float] | None = None
    devices: int = 1
    busy_ps: Mapping[str, int] | None = None

    @property
    def time_s(self) -> float:
        """Time of the step."""
        return self.end_ps * S_PER_PS

    @property
    def energy_by_cause_j(self) -> dict[str, float] | None:
        """Energy of all devices by cause."""
        return None if self.device_j is None else {cause: self.devices * j for cause, j in self.device_j.items()}

    @property
    def energy_j(self) -> float | None:
        """Energy of all devices."""
        return None if self.energy_by_cause_j is None else fsum(self.energy_by_cause_j.values())

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of what the spans are on, in the order in which they begin."""
        return tuple(self.busy)

    def time_by_operator_s(self) -> dict[str, float]:
        """Time in which each operator runs, wherever it does; operators that overlap count for themselves."""
        found: dict[str, list[tuple[int, int]]] = {}
        for span in self.spans:
            found.setdefault(span.operator, []).append(span[:2])
        return {name: covered_ps(times) * S_PER_PS for name, times in found.items()}

    @property
    def busy(self) -> Mapping[str, int]:
        """Time in which each resource works on something [ps]."""
        if self.busy_ps is not None:
            return self.busy_ps
        by: dict[str, list[tuple[int, int]]] = {}
        for span in self.spans:
            by.setdefault(span.resource, []).append(span[:2])
        return {name: covered_ps(times) for name, times in by.items()}

    def utilisation(self) -> dict[str, float]:
        """Share of the step in which each resource works on something."""
        return {name: ps / self.end_ps for name, ps in self.busy.items()} if self.end_ps else {}

    def without_spans(self) -> "Run":
        """All but the spans: of many steps they take much memory."""
        return replace(self, spans=(), busy_ps=self.busy)

    def bound(self) -> Bound | None:
        """What bounds the step; None if nothing is known of it."""
        if not self.end_ps or not any(self.least_ps.values()):
            return None
        name = max(LIMITS, key=lambda limit: self.least_ps.get(limit, 0))
        return Bound(name, self.least_ps[name] / self.end_ps)


def check_numbers(name: str, seconds: float, joules: float) -> None:
    """Raise UserError for a time or an energy that no number holds."""
    if not (isfinite(joules) and seconds < MOST_S):
        raise UserError(f"{name}: time or energy of a step is not finite; raise rates and clocks")


def covered_ps(times: Iterable[tuple[int, int]]) -> int:
    """Length of the union of intervals.

    >>> covered_ps([(0, 4), (2, 5), (7, 8)])
    6
    """
    total = until = 0
    for start, end in sorted(times):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total


def behind(runs: Sequence[Run]) -> Run:
    """Steps of the same devices one behind the other, as one. Energy is None if that of one is."""
    spans, at = list[Span](), 0
    for run in runs:
        spans += [span._replace(start_ps=span.start_ps + at, end_ps=span.end_ps + at) for span in run.spans]
        at += run.end_ps
    return Run(
        end_ps=at,
        spans=tuple(spans),
        commands=_sums([run.commands for run in runs]),
        interface_bytes=sum(run.interface_bytes for run in runs),
        link_bytes=sum(run.link_bytes for run in runs),
        macs=sum(run.macs for run in runs),
        least_ps=_sums([run.least_ps for run in runs]),
        device_j=total_j([(run.device_j, 1) for run in runs]),
        devices=runs[0].devices if runs else 1,
        busy_ps=_sums([run.busy for run in runs]),
    )


def total_j(parts: Sequence[tuple[Mapping[str, float] | None, float]]) -> dict[str, float] | None:
    """Energy by cause of parts that count so often each; None if that of one is not known."""
    there = [(joules, times) for joules, times in parts if joules is not None]
    if len(there) < len(parts):
        return None
    causes = dict.fromkeys(cause for joules, _ in there for cause in joules)
    return {cause: fsum(joules.get(cause, 0.0) * times for joules, times in there) for cause in causes}


def _sums(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(part.get(name, 0) for part in parts) for name in dict.fromkeys(n for part in parts for n in part)}
