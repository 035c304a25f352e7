"""A job on a K-hop ring with faulty nodes: where its groups go, what that costs, and whether the hardware holds it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.topology.cluster import Cluster
from pimloom.arch.topology.khop import KHop
from pimloom.mappers.fabric.optimum import MOST_SETS, most_groups, upper_bound
from pimloom.mappers.fabric.spares import with_spares
from pimloom.mappers.fabric.verify import Rules, verify
from pimloom.mappers.orchestrate import (
    Placement,
    Rows,
    Traffic,
    by_tors,
    cross_in_order,
    cross_tor,
    orchestrate,
    unconstrained,
)
from pimloom.mappers.ring import build_rings, corner_cases, cuts, form_chains

ALGORITHMS = ("spares", "aligned", "unconstrained", "ring")
CROSS_TOR = (
    "cross-ToR share: of all pairs of nodes of equal rank in neighbouring groups (sorted by ToRs, first ToRs in one "
    "block of m), those in two ToRs"
)


@dataclass(frozen=True)
class Job:
    """A cluster, its fabric, its faulty nodes, and the groups wanted. Raises UserError if they do not go together.

    faulty: bool (nodes,) by node; node t p + r is node r of ToR t. groups: of `tp` GPUs each. corners: see
    `mappers/ring.py`.
    """

    cluster: Cluster
    fabric: KHop
    tp: int
    tor_size: int
    faulty: np.ndarray
    groups: int
    corners: bool = False

    def __post_init__(self) -> None:
        each = self.cluster.gpus_per_node
        if self.tp < 1 or self.tp % each:
            raise UserError(f"--tp {self.tp}: expected a multiple of --gpus-per-node {each}")
        if self.cluster.nodes <= 2 * self.fabric.hops:
            most = f"a ring with hops up to {self.fabric.hops} has more than {2 * self.fabric.hops}"
            raise UserError(f"--nodes {self.cluster.nodes}: {most}")
        self.cluster.check(self.fabric)
        if self.groups > self.possible:
            raise UserError(
                f"--job-gpus: the job's {self.groups} groups are {self.groups * self.tp} GPUs; {self.possible} groups, "
                f"{self.possible * self.tp} GPUs, fit on the healthy nodes: make it smaller"
            )

    @property
    def m(self) -> int:
        """Nodes of a group."""
        return self.tp // self.cluster.gpus_per_node

    @cached_property
    def rows(self) -> Rows:
        """Rows of the line."""
        return Rows(self.cluster.nodes, self.tor_size)

    @cached_property
    def healthy(self) -> np.ndarray:
        """bool (nodes,) along the line."""
        return np.asarray(~self.faulty[self.rows.deploy()])

    @cached_property
    def ring(self) -> np.ndarray:
        """As many groups as fit on the ring: int64 (groups, m) positions."""
        return form_chains(self.healthy, self.m, self.fabric.hops, corners=self.corners)

    @property
    def possible(self) -> int:
        """How many groups fit."""
        return len(self.ring)


@dataclass(frozen=True)
class Placed:
    """A job, where its groups went and by which algorithm, and the verifier's complaints."""

    job: Job
    algorithm: str
    placement: Placement
    complaints: list[str]

    @property
    def tors(self) -> np.ndarray:
        """int64 (groups, m): ToRs by rank."""
        return self.job.rows.tor(self.placement.ranks)


def random_faults(nodes: int, ratio: float, seed: int) -> np.ndarray:
    """bool (nodes,): each node faulty with probability `ratio`, on its own."""
    return np.random.default_rng(seed).random(nodes) < ratio


def place_job(job: Job, algorithm: str, progress: Callable[[int, int], None] = lambda done, total: None) -> Placed:
    """Place a job, build its rings and have them verified.

    algorithm: `spares` (mappers/fabric/spares.py), `aligned` (the heuristic of mappers/orchestrate.py), `unconstrained`
    (row by row), or `ring` (along the whole ring, the most groups). The first three keep groups within a row; `spares`
    turns to `ring` if the job only fits there. Raises UserError.
    """
    progress(0, 3)
    used, placement = _place(job, algorithm)
    progress(1, 3)
    nodes, each = job.cluster.nodes, job.cluster.gpus_per_node
    rings = build_rings(job.fabric, each, placement.chains, nodes)
    progress(2, 3)
    rules = Rules(nodes, each, job.m, job.fabric.hops, job.fabric.bundles, job.fabric.slots(each))
    complaints = verify(rings, np.flatnonzero(~job.healthy).tolist(), rules)
    progress(3, 3)
    return Placed(job, used, placement, complaints)


def _place(job: Job, algorithm: str) -> tuple[str, Placement]:
    if algorithm == "ring":
        chains = job.ring[: job.groups]
        return "ring", Placement(job.rows, chains, chains)
    ways = {"spares": with_spares, "aligned": orchestrate, "unconstrained": unconstrained}
    if algorithm not in ways:
        raise UserError(f"--algorithm {algorithm}: expected one of {', '.join(ALGORITHMS)}")
    arguments = (job.healthy, job.rows, job.m, job.fabric.hops, job.groups)
    try:
        return algorithm, ways[algorithm](*arguments, corners=job.corners)
    except UserError as error:
        if algorithm == "spares":
            return _place(job, "ring")
        raise UserError(f"--algorithm {algorithm}: {error}, or choose --algorithm ring") from None


def summary(placed: Placed, optimum: bool = False, dcn_share: float = 1.0) -> dict[str, Any]:
    """What `pimloom fabric place --json` prints. Raises UserError.

    optimum: also the exact optimum of the groups that fit. dcn_share: what part of all traffic runs between groups.
    """
    job, placement = placed.job, placed.placement
    healthy = int(job.healthy.sum())
    wasted = healthy - job.possible * job.m
    block, any_order = traffic(placed)
    best, proved_by = _optimum(job) if optimum else (None, None)
    return {
        "arch": job.fabric.name,
        "gpus": job.cluster.gpus,
        "nodes": job.cluster.nodes,
        "gpus_per_node": job.cluster.gpus_per_node,
        "tp": job.tp,
        "group_nodes": job.m,
        "tor_size": job.tor_size,
        "tors": job.rows.tors,
        "algorithm": placed.algorithm,
        "constrained_blocks": placement.constraints if placed.algorithm == "aligned" else None,
        "job_gpus": job.groups * job.tp,
        "groups": job.groups,
        "groups_that_fit": job.possible,
        "optimum_groups": best,
        "optimum_gap_groups": None if best is None else best - job.possible,
        "optimum_proved_by": proved_by,
        "faulty_nodes": job.cluster.nodes - healthy,
        "healthy_nodes": healthy,
        "wasted_nodes": wasted,
        "waste_ratio": wasted / job.cluster.nodes,
        "idle_nodes": healthy - job.groups * job.m,
        "aligned_groups": aligned_groups(placed),
        "twin_groups": twin_groups(placed),
        "bypasses_by_length": bypasses(placed),
        "cuts": int(cuts(~job.healthy, job.fabric.hops)),
        "corner_cases": corner_cases(placement.chains, job.cluster.nodes),
        "cross_tor_share": block.share,
        "cross_tor_pairs": block.pairs,
        "cross_tor_crossing": block.crossing,
        "cross_tor_share_in_order": any_order.share,
        "cross_tor_share_of_traffic": dcn_share * block.share,
        "dcn_share": dcn_share,
        "holds": not placed.complaints,
        "complaints": placed.complaints,
        "faulty": np.flatnonzero(job.faulty).tolist(),
        "rings": job.rows.deploy()[placement.chains].tolist(),
        "ranks": job.rows.deploy()[placement.ranks].tolist(),
    }


def traffic(placed: Placed) -> tuple[Traffic, Traffic]:
    """Traffic across ToRs by `cross_tor` and by `cross_in_order`; groups not placed in an order are sorted by ToRs."""
    tors = placed.tors
    ordered = tors if placed.algorithm == "spares" else tors[by_tors(tors)]
    return cross_tor(tors), cross_in_order(ordered)


def aligned_groups(placed: Placed) -> int:
    """Groups that are one row of a block of m ToRs."""
    tors, m = placed.job.rows.tor(placed.placement.chains), placed.job.m
    return int(((tors[:, 0] % m == 0) & (tors[:, -1] - tors[:, 0] == m - 1)).sum())


def twin_groups(placed: Placed) -> int:
    """Groups that span the same ToRs as another one."""
    if not placed.job.groups:
        return 0
    _, count = np.unique(np.sort(placed.tors, axis=1), axis=0, return_counts=True)
    return int(count[count > 1].sum())


def bypasses(placed: Placed) -> dict[str, int]:
    """How often so many nodes were left out between two of a group; keys are text, as JSON has them."""
    hop = np.diff(placed.placement.chains, axis=1) % placed.job.cluster.nodes
    count = Counter((hop[hop > 1] - 1).ravel().tolist())
    return {str(length): count[length] for length in range(1, placed.job.fabric.hops)}


def node_rows(placed: Placed) -> list[Mapping[str, Any]]:
    """A row for each node of each group, in the order of its ring: what `--csv` writes."""
    deploy, m = placed.job.rows.deploy(), placed.job.m
    rows: list[Mapping[str, Any]] = []
    for group, (chain, ranks) in enumerate(
        zip(placed.placement.chains.tolist(), placed.placement.ranks.tolist(), strict=True)
    ):
        rank = {place: number for number, place in enumerate(ranks)}
        for nth, place in enumerate(chain):
            hop = (chain[nth + 1] - place) % placed.job.cluster.nodes if nth + 1 < m else None
            tor = int(placed.job.rows.tor(place))
            names = {"group": group, "place_in_ring": nth, "rank": rank[place], "node": int(deploy[place])}
            rows.append(names | {"tor": tor, "position": place, "hop_to_next": hop})
    return rows


def _optimum(job: Job) -> tuple[int, str]:
    """The largest number of groups, and what proved it; the bound of the pieces where candidates are too many."""
    bound = upper_bound(job.healthy, job.m, job.fabric.hops)
    if job.possible == bound and job.cluster.nodes * job.fabric.hops ** (job.m - 1) > MOST_SETS:
        return bound, "bound"
    return most_groups(job.healthy, job.m, job.fabric, corners=job.corners), "integer programme"
