"""What of the specification's section 9 faults and waste decide: checks 1 to 3, 8, 13 and 17, all hard gates."""

from dataclasses import dataclass

import numpy as np

from pimloom.arch.topology import topology
from pimloom.arch.topology.cluster import Cluster
from pimloom.mappers.fabric.usable import ring_breaks, usable_gpus
from pimloom.reports.fabric.waste import TRACE_DRAWS, Plan, trace_rows
from pimloom.reports.faults.replay import conversion_factor
from pimloom.reports.faults.statistics import fault_statistics, faulty_over_time, weighted_quantile
from pimloom.reports.faults.trace import Outages, Trace

CLUSTER = Cluster(2880, 4)  # [recalled] the paper's
SAMPLED = 360  # servers of 8 GPUs in it
SAMPLES = 200
JOB_GPUS = CLUSTER.gpus * 9 // 10
BREAK_DRAWS = 5000
BREAK_RATIO = 0.1  # [design] high enough that K = 3 breaks often
PUBLISHED_P = 0.0167  # [recalled] fault ratio behind the published conversion factor


@dataclass(frozen=True)
class Gate:
    """One figure of section 9: ours beside the published one, both in `unit`, and how far apart they may be."""

    number: int
    quantity: str
    ours: float
    published: float
    tolerance: float
    unit: str
    tag: str

    @property
    def holds(self) -> bool:
        """Whether our figure is near enough; sums of floats may be off in the last digit."""
        return abs(self.ours - self.published) <= self.tolerance + 1e-12


def waste_gates(trace: Trace, seed: int = 0) -> list[Gate]:
    """All gates. Those of the trace (1, 2, 17) mean something only for the public trace."""
    return [*fault_gates(trace, seed), conversion_gate(), *idle_gates(), *break_gates(seed), *wait_gates(trace, seed)]


def fault_gates(trace: Trace, seed: int = 0) -> list[Gate]:
    """Checks 1 and 2: mean of all servers, median and P99 of 360 of them."""
    mean = 100 * fault_statistics(trace).fault_ratio_mean
    p50, p99 = (100 * ratio for ratio in sampled_percentiles(trace, seed=seed))
    return [
        Gate(1, "mean fault ratio of the trace", mean, 2.33, 0.05, "%", "recalled"),
        Gate(2, f"P50 of {SAMPLED} servers", p50, 1.67, 0.35, "%", "recalled"),
        Gate(2, f"P99 of {SAMPLED} servers", p99, 7.22, 0.9, "%", "recalled"),
    ]


def sampled_percentiles(
    trace: Trace, servers: int = SAMPLED, draws: int = SAMPLES, seed: int = 0
) -> tuple[float, float]:
    """P50 and P99 over time of the share of servers down, each the mean over random `servers` of the trace's."""
    rng, outages, found = np.random.default_rng(seed), trace.outages(), []
    for _ in range(draws):
        taken = np.zeros(trace.servers, bool)
        taken[rng.permutation(trace.servers)[:servers]] = True
        kept = Outages(*(column[taken[outages.server]] for column in outages))
        weight_h, faulty = faulty_over_time(kept, trace.horizon_h)
        found.append([weighted_quantile(faulty, weight_h, share) / servers for share in (0.5, 0.99)])
    p50, p99 = np.mean(found, axis=0)
    return float(p50), float(p99)


def conversion_gate() -> Gate:
    """Check 3: a half of a faulty server is faulty, exact to the published digits."""
    ours = round(100 * conversion_factor(PUBLISHED_P), 2)
    return Gate(3, "faulty halves of a faulty server", ours, 50.21, 0, "%", "recalled")


def idle_gates() -> list[Gate]:
    """Check 8: NVL-36 and NVL-72 waste 4 of 36 and 8 of 72 GPUs without any fault."""
    healthy = np.zeros((1, CLUSTER.nodes), bool)
    gates = []
    for name in ("nvl36", "nvl72"):
        for tp in (16, 32):
            used = int(usable_gpus(topology(name), healthy, CLUSTER.gpus_per_node, tp)[0])
            ours = 100 * (CLUSTER.gpus - used) / CLUSTER.gpus
            gates.append(Gate(8, f"waste of {name} without faults, TP-{tp}", ours, 100 / 9, 0, "%", "derived"))
    return gates


def break_gates(seed: int = 0) -> list[Gate]:
    """Check 13: cuts of the ring for K = 2 and 3, by Monte-Carlo, against n f^K (1 - f)."""
    gates = []
    for hops in (2, 3):
        ours, expected = break_rates(hops, seed=seed)
        gates.append(Gate(13, f"breaks of the ring, K = {hops}", ours, expected, 0.1 * expected, "per ring", "derived"))
    return gates


def break_rates(
    hops: int, fault_ratio: float = BREAK_RATIO, draws: int = BREAK_DRAWS, seed: int = 0
) -> tuple[float, float]:
    """Mean number of cuts of the ring of 720 nodes: by Monte-Carlo, and n f^K (1 - f)."""
    rng, nodes, step = np.random.default_rng([seed, hops]), CLUSTER.nodes, 1000
    counts = [ring_breaks(rng.random((step, nodes)) < fault_ratio, hops) for _ in range(max(draws // step, 1))]
    return float(np.mean(counts)), nodes * fault_ratio**hops * (1 - fault_ratio)


def wait_gates(trace: Trace, seed: int = 0) -> list[Gate]:
    """Check 17: a job of 90 % of the GPUs never waits on InfiniteHBD, TP-32."""
    fabrics = [topology("infinitehbd-k2"), topology("infinitehbd-k3")]
    rows = trace_rows(Plan(CLUSTER, fabrics, [32], TRACE_DRAWS, seed, JOB_GPUS), trace)
    return [
        Gate(17, f"time a job of {JOB_GPUS} GPUs waits on {row['arch']}", row["job_wait_ratio"], 0, 0, "-", "derived")
        for row in rows
    ]
