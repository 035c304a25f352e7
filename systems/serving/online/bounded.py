"""Repeat a run until prices are exact or within their limit, and bound the remaining error of its results."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, sqrt
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.units import S_PER_PS
from pimloom.systems.serving.pricing.costs import Progress
from pimloom.systems.serving.pricing.interpolated import Interpolated, ManyError, PhaseErrors
from pimloom.systems.serving.pricing.sampling import DECODE, KINDS, MIXED, PROMPT, VERIFY, KindError, Pricing
from pimloom.systems.serving.results.outcome import Online, Spread

ROUNDS = 4  # [design] runs; after each one, prices beyond the limit are corrected
LEAST = 0.05  # [design] smallest factor on times, however large the error
SMALL = 0.25  # [design] of the limit: smallest error that is tried; any error may move requests to another iteration
MARGIN, BEYOND = 2.5, 4.0  # [design] factor on the changes in such runs, within the limit of errors and beyond it
FEW, TAIL = 0.1, 2.0  # [design] share of requests below which few iterations decide a figure; factor on its bound
SPREADS = ("time_to_first_token_s", "time_per_output_token_s", "latency_s")
BOUNDED = (*SPREADS, "time_s", "energy_j")
WAITING = ("time_to_first_token_s", "latency_s")
DECIDING = {"mean": 1.0, "p50": 0.5, "p90": 0.1, "p99": 0.01, "max": 0.0}  # share of requests that decide it
DIRECTIONS = (dict.fromkeys(KINDS, 1), dict.fromkeys(KINDS, -1), {DECODE: 1, VERIFY: 1, PROMPT: -1, MIXED: -1},
              {DECODE: -1, VERIFY: -1, PROMPT: 1, MIXED: 1})  # fmt: skip
NOTHING = Pricing(True, 0, 0, 0.0, True, 0.0, 0.0, 0.0, {}, {})
UNMEASURED = Pricing(False, 0, 0, 0.0, None, None, None, None, None, {})


class Rerun(NamedTuple):
    """How to repeat a run. run: serves all requests to their end; costs: the interpolated prices that it uses, empty:
    all are exact; simulated: number of iterations simulated so far; least: lower bound of the number of iterations;
    limit: of errors of prices; sampled: whether errors are measured."""

    run: Callable[[Progress], Online]
    costs: Callable[[], Sequence[Interpolated]]
    simulated: Callable[[], int]
    least: int
    limit: float
    sampled: bool


def bounded(way: Rerun, progress: Progress) -> Online:
    """The result of a run, with its `pricing`. Raises UserError."""
    if not way.costs():
        return exact_result(way, way.run(progress))
    few = sum(one.few for one in way.costs())
    quick = all(one.quick for one in way.costs())
    found = _whole(way, progress) if way.least <= few and not quick else None
    if found is not None:
        return found
    for number in range(ROUNDS):
        for one in way.costs():
            one.begin(whole=False, sampled=way.sampled)
        found = way.run(progress if not number else _silent)
        if not number and quick and found.iteration_count <= few and (whole := _whole(way, progress)) is not None:
            return whole
        last = number == ROUNDS - 1
        mended = [way.sampled and one.learn(way.limit, progress, last=last) for one in way.costs()]
        if not any(mended):
            break
    assert found is not None
    if not way.sampled:
        return replace(found, pricing=replace(UNMEASURED, simulated=way.simulated(), limit=way.limit))
    return replace(found, pricing=_pricing(way, found))


def exact_result(way: Rerun, found: Online) -> Online:
    """The result with the pricing of a run that simulated each different iteration."""
    bounds = dict.fromkeys(figures_of(found), 0.0)
    return replace(found, pricing=replace(NOTHING, simulated=way.simulated(), limit=way.limit, bounds=bounds))


def _silent(done: int, total: int) -> None:
    """Progress that prints nothing."""


def _whole(way: Rerun, progress: Progress) -> Online | None:
    """The result of a run in which each iteration is simulated; None if they are too many."""
    costs = way.costs()
    if way.least > sum(one.few for one in costs) or any(one.many for one in costs):
        return None
    for one in costs:
        one.know(progress)
        one.begin(whole=True, sampled=False)
    try:
        return exact_result(way, way.run(progress))
    except ManyError:
        for one in costs:
            one.many = True
        return None


def _pricing(way: Rerun, found: Online) -> Pricing:
    costs = way.costs()
    phases = [(kind, phase) for one in costs for kind, phase in one.phases.items() if phase.seen]
    simulated = way.simulated()
    known = [phase for _, phase in phases if phase.simulated or phase.errors.times]
    if len(known) < len(phases) or not phases:
        return replace(UNMEASURED, simulated=simulated, limit=way.limit)
    whole = sum(phase.time_ps for _, phase in phases)
    kinds = {kind: _kind_error([phase for name, phase in phases if name == kind], whole) for kind in KINDS}
    there = {kind: error for kind, error in kinds.items() if error is not None}
    worst = max(max(one.error_bound or 0.0, one.energy_error_bound or 0.0) for one in there.values())
    margin = MARGIN if worst <= way.limit else BEYOND
    bounds = {name: margin * bound for name, bound in _bounds(way, found, phases).items()}
    energies = [one.energy_error for one in there.values()]
    return Pricing(
        False, simulated, sum(one.sampled for one in there.values()), way.limit, worst <= way.limit,
        sum(one.time_share * (one.error or 0.0) for one in there.values()),
        None if None in energies else _energy(phases, 0),
        max(bounds.values()), bounds, there,
    )  # fmt: skip


def _kind_error(phases: Sequence[PhaseErrors], whole_ps: float) -> KindError | None:
    """The errors of a kind over all machines, weighted by time; None if there is no such iteration."""
    if not phases:
        return None
    time_ps = sum(one.time_ps for one in phases)
    pairs = [one.estimates() for one in phases]
    shares = [one.time_ps / time_ps for one in phases]
    times, joules = ([pair[i] for pair in pairs] for i in range(2))
    powered = any(one.errors.joules for one in phases) or all(one.simulated for one in phases)
    return KindError(
        sum(one.seen for one in phases),
        time_ps / whole_ps,
        all(one.simulated for one in phases),
        sum(len(one.errors.times) for one in phases if not one.simulated),
        sum(share * one.mean for share, one in zip(shares, times, strict=True)),
        max(one.bound for one in times),
        max(one.single for one in times),
        sum(share * one.mean for share, one in zip(shares, joules, strict=True)) if powered else None,
        max(one.bound for one in joules) if powered else None,
    )


def _energy(phases: Sequence[tuple[str, PhaseErrors]], which: int) -> float:
    """Error of the energy of all iterations, from field `which` of each estimate: mean (0) or single (2)."""
    weights = [phase.time_ps * (phase.errors.watts or 1.0) for _, phase in phases]
    values = [phase.estimates()[1][which] for _, phase in phases]
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def _bounds(way: Rerun, found: Online, phases: Sequence[tuple[str, PhaseErrors]]) -> dict[str, float]:
    """Bounds of results, as shares: the largest changes in runs with all prices longer, all shorter, and decode and
    prompts in opposite directions, by the bound of a single iteration. Each figure of a result has at least the
    median bound of its five figures, p99 and the maximum twice that. TTFT and latency have at least the time of an
    iteration, which a request that arrives after its start waits for, divided by the square root of the number of
    requests that decide the figure. The error of energies is added to the bound of energy."""
    mine = figures_of(found)
    least = SMALL * way.limit
    singles = [0.0 if phase.simulated else max(phase.estimates()[0].single, least) for _, phase in phases]
    bounds = _changes(way, mine, phases, singles) if any(singles) else dict.fromkeys(mine, 0.0)
    wait_s = max((_wait_s(phase) for (_, phase), single in zip(phases, singles, strict=True) if single), default=0.0)
    requests = len(found.by_request["arrival_s"])
    for name in SPREADS:
        row = {f"{name}.{figure}": share for figure, share in DECIDING.items() if f"{name}.{figure}" in bounds}
        middle = median([bounds[one] for one in row] or [0.0])
        for one, share in row.items():
            waited = wait_s / sqrt(max(share * requests, 1.0)) / mine[one] if name in WAITING else 0.0
            bounds[one] = max(bounds[one], middle * (TAIL if share < FEW else 1.0), waited)
    if "energy_j" in bounds:
        bounds["energy_j"] += max(_energy(phases, 1), least)
    return bounds


def _changes(
    way: Rerun, mine: Mapping[str, float], phases: Sequence[tuple[str, PhaseErrors]], singles: Sequence[float]
) -> dict[str, float]:
    """The largest difference of each figure in runs with other prices, as a share of the smaller value."""
    changes = dict.fromkeys(mine, 0.0)
    for signs in DIRECTIONS:
        for (kind, phase), single in zip(phases, singles, strict=True):
            phase.scale = max(1 + signs[kind] * single, LEAST)
        for one in way.costs():
            one.begin(whole=False, sampled=False)
        other = figures_of(way.run(_silent))
        for name, value in mine.items():
            there = other.get(name, value)
            changes[name] = max(changes[name], abs(value - there) / min(value, there))
    for _, phase in phases:
        phase.scale = 1.0
    return changes


def figures_of(found: Online) -> dict[str, float]:
    """All figures that have bounds and are known and above 0; those of requests by `NAME.FIGURE`."""
    known = {name: getattr(found, name) for name in BOUNDED}
    flat = {name: value for name, value in known.items() if not isinstance(value, Spread)}
    for name, value in known.items():
        if isinstance(value, Spread):
            flat |= {f"{name}.{figure}": getattr(value, figure) for figure in DECIDING}
    return {name: value for name, value in flat.items() if isinstance(value, float) and isfinite(value) and value > 0}


def _wait_s(phase: PhaseErrors) -> float:
    """A mean iteration of this kind [s], or the part of it by which all of them may move the clock."""
    return phase.time_ps / phase.seen * min(phase.estimates()[0].bound * phase.seen, 1.0) * S_PER_PS
