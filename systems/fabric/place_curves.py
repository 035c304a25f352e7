"""Traffic across ToRs against the fault ratio, and the time of a placement against its size."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pimloom.arch.error import UserError
from pimloom.mappers.fabric.spares import with_spares
from pimloom.mappers.orchestrate import (
    Placement,
    Rows,
    by_tors,
    cross_in_order,
    cross_tor,
    groups_of,
    orchestrate,
    unconstrained,
)
from pimloom.systems.fabric.place import random_faults

WAYS: Mapping[str, Callable[..., Placement]] = {
    "spares": with_spares,
    "aligned": orchestrate,
    "unconstrained": unconstrained,
}
LEAST_S = 0.02  # a processor's time may be counted in ticks of 10 ms
RATIOS = tuple(percent / 100 for percent in range(11))
NODES, TOR_SIZE, HOPS = 2048, 8, 3  # the cluster of the specification's 7.4 [design]
SIZES = tuple(2048 << step for step in range(6))


def cross_tor_rows(
    ratios: Sequence[float] = RATIOS,
    jobs: Sequence[float] = (0.7, 0.85),
    group_nodes: Sequence[int] = (4, 8),
    draws: int = 20,
    seed: int = 0,
    *,
    nodes: int = NODES,
    tor_size: int = TOR_SIZE,
    hops: int = HOPS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """A row per job, group size, fault ratio and algorithm: mean, standard deviation and maximum over the draws.

    cross_tor_*: share by `cross_tor`; line_ranks_mean: the same with ranks in the order of the line; in_order_mean: by
    `cross_in_order`. A draw whose healthy nodes do not hold the job row by row counts in `does_not_fit` alone; the
    means are None if none fits. Draw d of a ratio has the seed `seed` + d.
    """
    cases = [(job, m, ratio) for job in jobs for m in group_nodes for ratio in ratios]
    found = []
    for done, (job, m, ratio) in enumerate(cases):
        shares: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WAYS}
        for draw in range(draws):
            healthy = ~random_faults(nodes, ratio, seed + draw)
            for name, way in WAYS.items():
                if (share := _shares(way, healthy, Rows(nodes, tor_size), m, hops, job)) is not None:
                    shares[name].append(share)
        for name, values in shares.items():
            case = {"algorithm": name, "nodes": nodes, "tor_size": tor_size, "hops": hops, "group_nodes": m}
            case |= {"job_ratio": job, "fault_ratio": ratio, "draws": draws, "does_not_fit": draws - len(values)}
            found.append(case | _statistics(values))
        progress(done + 1, len(cases))
    return found


def _shares(
    way: Callable[..., Placement], healthy: np.ndarray, rows: Rows, m: int, hops: int, job: float
) -> tuple[float, float, float] | None:
    """By `cross_tor`, the same with ranks along the line, and by `cross_in_order`; None if the job does not fit."""
    try:
        placement = way(healthy, rows, m, hops, groups_of(job, rows.nodes, m))
    except UserError:
        return None
    tors = rows.tor(placement.ranks)
    ordered = tors if way is with_spares else tors[by_tors(tors)]
    along = rows.tor(placement.chains)
    return cross_tor(tors).share, cross_tor(along).share, cross_in_order(ordered).share


def _statistics(values: Sequence[tuple[float, float, float]]) -> dict[str, float | None]:
    names = "cross_tor_mean", "cross_tor_sd", "cross_tor_max", "line_ranks_mean", "in_order_mean"
    if not values:
        return dict.fromkeys(names)
    block, along, ordered = np.array(values).T
    sd = float(block.std(ddof=1)) if len(block) > 1 else 0.0
    found = float(block.mean()), sd, float(block.max()), float(along.mean()), float(ordered.mean())
    return dict(zip(names, found, strict=True))


def speed_rows(
    sizes: Sequence[int] = SIZES,
    algorithm: str = "spares",
    *,
    fault_ratio: float = 0.05,
    job: float = 0.85,
    group_nodes: int = 8,
    repeats: int = 3,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """A row per cluster size: `nodes`, and `seconds` of one placement on one core, the quickest of `repeats`.

    Seconds are the processor's, which other work on the machine does not lengthen.
    """
    found = []
    for nodes in sizes:
        healthy, rows = ~random_faults(nodes, fault_ratio, seed), Rows(nodes, TOR_SIZE)
        need, times = groups_of(job, nodes, group_nodes), []
        for _ in range(repeats):
            times.append(_seconds(partial(WAYS[algorithm], healthy, rows, group_nodes, HOPS, need)))
        found.append({"algorithm": algorithm, "nodes": nodes, "seconds": min(times)})
    return found


def _seconds(work: Callable[[], object]) -> float:
    """Time of one call, of as many as take `LEAST_S`."""
    calls, start = 0, time.process_time()
    while (taken := time.process_time() - start) < LEAST_S:
        work()
        calls += 1
    return taken / calls
