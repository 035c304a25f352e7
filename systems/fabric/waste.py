"""GPU waste: the share of all GPUs that are healthy and in no tensor-parallel group, on each fabric.

Faults are a trace walked through time (specification, 3.6), or every node down with the same probability, alone (3.6.7;
one uniform number per node and draw, compared with each fault ratio: every ratio is exact by itself, and all see the
same draws). Each draw has a random generator of its own, from the seed and its number, so results do not depend on how
many processes work.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.topology import Topology
from pimloom.arch.topology.cluster import Cluster
from pimloom.mappers.fabric.changes import usable_after
from pimloom.mappers.fabric.usable import check_usable, find_faulty, usable_gpus, usable_of
from pimloom.systems.fabric.faults.replay import check_replay, draw_nodes, walk
from pimloom.systems.fabric.faults.statistics import weighted_quantiles
from pimloom.systems.fabric.faults.trace import Trace
from pimloom.systems.pool import run_all

IID_DRAWS, TRACE_DRAWS = 100, 10
MOST_DRAWS = 100_000
MOST_FIGURES = 50_000_000  # kept in memory: 400 MB
BLOCK_NODES = 2**18  # uniform numbers held at once in a process: 2 MiB
ALONE_S = 1  # below which one process is as quick
NODE_S, CHANGE_S = 1e-9, 2e-6  # about, to look at a node; to follow a change of one, mean of all fabrics

Progress = Callable[[int, int], None]
Row = dict[str, Any]
Job = TypeVar("Job")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Plan:
    """What is compared: fabrics that can be built of the cluster's nodes, sizes of groups, and how often."""

    cluster: Cluster
    fabrics: Sequence[Topology]
    tps: Sequence[int]
    draws: int
    seed: int = 0
    job_gpus: int | None = None

    def __post_init__(self) -> None:
        """Raises UserError if a fabric or a group cannot be made, or a count is out of bounds."""
        if not 1 <= self.draws <= MOST_DRAWS:
            raise UserError(f"--draws {self.draws}: expected 1 to {MOST_DRAWS}")
        if self.job_gpus is not None and not 1 <= self.job_gpus <= self.cluster.gpus:
            raise UserError(f"--job-gpus {self.job_gpus}: expected 1 to --gpus {self.cluster.gpus}")
        for fabric, tp in self.pairs:
            check_usable(fabric, self.cluster, tp)

    @property
    def pairs(self) -> list[tuple[Topology, int]]:
        """Fabric and TP of each row."""
        return [(fabric, tp) for fabric in self.fabrics for tp in self.tps]

    def usable(self, faulty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Healthy GPUs (states,), and usable GPUs (pairs, states), with `faulty` nodes, bool (states, nodes)."""
        each, found = self.cluster.gpus_per_node, find_faulty(faulty)
        usable = [usable_of(fabric, found, each, self.tps) for fabric in self.fabrics]
        return found.healthy * each, np.concatenate([np.zeros((0, len(faulty)), np.int64), *usable])


@dataclass(frozen=True)
class Replay:
    """One draw of a trace on a cluster: hours of each state, healthy GPUs (states,), usable GPUs (pairs, states)."""

    weight_h: np.ndarray
    healthy: np.ndarray
    usable: np.ndarray


def iid_rows(plan: Plan, fault_ratios: Sequence[float], progress: Progress = lambda done, total: None) -> list[Row]:
    """A row for each fabric, TP and fault ratio: mean and percentiles over draws. Raises UserError: too many of all."""
    if (figures := plan.draws * len(fault_ratios) * len(plan.pairs)) > MOST_FIGURES:
        raise UserError(
            f"--draws {plan.draws}: of {len(fault_ratios)} fault ratios, {len(plan.pairs)} pairs of architecture and "
            f"TP: {figures} figures; expected at most {MOST_FIGURES}"
        )
    nodes = plan.cluster.nodes
    block = max(BLOCK_NODES // nodes, 1)
    jobs = [range(low, min(low + block, plan.draws)) for low in range(0, plan.draws, block)]
    healthy = np.zeros((len(fault_ratios), plan.draws), np.int64)
    usable = np.zeros((len(fault_ratios), len(plan.pairs), plan.draws), np.int64)
    work = partial(_iid_block, plan, tuple(fault_ratios))
    size = nodes * plan.draws * len(fault_ratios)
    done = 0
    for job, (one_healthy, one_usable) in _each(work, jobs, NODE_S * size * len(plan.pairs)):
        healthy[:, job], usable[:, :, job] = one_healthy, one_usable
        done += len(job)
        progress(done, plan.draws)
    weight = np.ones(plan.draws)
    return [
        _row(plan, pair, ratio, [_summary(plan, weight, healthy[at], usable[at, nth])], float(usable[at, nth].min()))
        for nth, pair in enumerate(plan.pairs)
        for at, ratio in enumerate(fault_ratios)
    ]


def _iid_block(plan: Plan, fault_ratios: Sequence[float], draws: range) -> tuple[np.ndarray, np.ndarray]:
    """Healthy GPUs (ratios, draws) and usable GPUs (ratios, pairs, draws)."""
    uniform = np.array([np.random.default_rng([plan.seed, draw]).random(plan.cluster.nodes) for draw in draws])
    found = [plan.usable(uniform < ratio) for ratio in fault_ratios]
    return np.array([healthy for healthy, _ in found]), np.array([usable for _, usable in found])


def replay(plan: Plan, trace: Trace, draw: int) -> Replay:
    """One draw of the trace on the cluster. Raises UserError if the trace has too few servers."""
    check_replay(trace, plan.cluster)
    rng = np.random.default_rng([plan.seed, draw])
    placed = draw_nodes(trace.outages(), trace.servers, plan.cluster, rng)
    weight_h, changes = walk(placed, plan.cluster.nodes, trace.horizon_h)
    each = plan.cluster.gpus_per_node
    usable = [usable_after(fabric, changes, each, plan.tps) for fabric in plan.fabrics]
    return Replay(weight_h, changes.healthy * each, np.concatenate([np.zeros((0, changes.states), np.int64), *usable]))


def trace_rows(plan: Plan, trace: Trace, progress: Progress = lambda done, total: None) -> list[Row]:
    """A row for each fabric and TP: time-weighted, then the mean over draws of each draw's figures."""
    check_replay(trace, plan.cluster)
    found: dict[int, _Draw] = {}
    seconds = CHANGE_S * 2 * len(trace.server) * plan.draws * len(plan.pairs)
    for draw, one in _each(partial(_replay_draw, plan, trace), range(plan.draws), seconds):
        found[draw] = one
        progress(len(found), plan.draws)
    draws = [found[draw] for draw in range(plan.draws)]
    ratio = float(np.mean([one.fault_ratio for one in draws]))
    return [
        _row(
            plan, pair, ratio, [one.summaries[nth] for one in draws], float(np.mean([one.least[nth] for one in draws]))
        )
        for nth, pair in enumerate(plan.pairs)
    ]


class _Draw(NamedTuple):
    """What is kept of a draw of a trace: share of GPUs down, and for each pair its summary and fewest usable GPUs."""

    fault_ratio: float
    summaries: list[dict[str, float]]
    least: list[int]


def _replay_draw(plan: Plan, trace: Trace, draw: int) -> _Draw:
    one = replay(plan, trace, draw)
    down = 1 - float(one.weight_h @ one.healthy) / one.weight_h.sum() / plan.cluster.gpus
    summaries = [_summary(plan, one.weight_h, one.healthy, usable) for usable in one.usable]
    return _Draw(down, summaries, one.usable.min(axis=1).tolist())


def _each(work: Callable[[Job], Found], jobs: Sequence[Job], seconds: float) -> Iterable[tuple[Job, Found]]:
    """`(job, work(job))` of all jobs; in processes, in the order in which they end, if that is worth their start.

    seconds: that all jobs take, about.
    """
    if seconds < ALONE_S or len(jobs) == 1 or os.cpu_count() == 1:
        return ((job, work(job)) for job in jobs)
    return run_all(work, jobs)


def _summary(plan: Plan, weight: np.ndarray, healthy: np.ndarray, usable: np.ndarray) -> dict[str, float]:
    """Weighted figures of many states."""
    wasted, gpus, total = healthy - usable, plan.cluster.gpus, weight.sum()
    p50, p99 = weighted_quantiles(wasted, weight, (0.5, 0.99))
    summary = {
        "waste_ratio_mean": float(weight @ (wasted / gpus) / total),
        "waste_ratio_p50": p50 / gpus,
        "waste_ratio_p99": p99 / gpus,
        "usable_gpus_mean": float(weight @ usable / total),
    }
    if plan.job_gpus is not None:
        summary["job_wait_ratio"] = float(weight @ (usable < plan.job_gpus) / total)
    return summary


def _row(
    plan: Plan, pair: tuple[Topology, int], fault_ratio: float, draws: Sequence[Mapping[str, float]], least: float
) -> Row:
    fabric, tp = pair
    figures: dict[str, float | None] = {key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]}
    wait = figures.pop("job_wait_ratio", None)
    last = {"usable_gpus_min": least, "job_gpus": plan.job_gpus, "job_wait_ratio": wait}
    return {**_head(plan, fabric.name, tp, fault_ratio), **figures, **last, "note": _note(plan, fabric, tp)}


def _note(plan: Plan, fabric: Topology, tp: int) -> str | None:
    """Why a fabric wastes all that is healthy."""
    fits = forms_groups(fabric, plan.cluster, tp)
    return None if fits else f"no group of {tp} fits its units: all healthy GPUs are wasted"


def forms_groups(fabric: Topology, cluster: Cluster, tp: int) -> bool:
    """Whether a fabric without faults can form any group of `tp` GPUs."""
    return bool(usable_gpus(fabric, np.zeros((1, cluster.nodes), bool), cluster.gpus_per_node, tp)[0])


def left_out_row(plan: Plan, fabric: Topology, tp: int, why: str) -> Row:
    """The row of a fabric that cannot be built of the cluster's nodes: all figures are None."""
    figures = ("waste_ratio_mean", "waste_ratio_p50", "waste_ratio_p99", "usable_gpus_mean", "usable_gpus_min")
    nothing: Row = dict.fromkeys(figures)
    last = {"job_gpus": plan.job_gpus, "job_wait_ratio": None, "note": why}
    return {**_head(plan, fabric.name, tp, None), **nothing, **last}


def _head(plan: Plan, name: str, tp: int, fault_ratio: float | None) -> Row:
    cluster = plan.cluster
    row: Row = {"arch": name, "gpus": cluster.gpus, "gpus_per_node": cluster.gpus_per_node, "tp": tp}
    return row | {"fault_ratio": fault_ratio, "draws": plan.draws}
