"""Everything the study computes, as rows; nothing of it depends on what was published."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from pimloom.arch.llm import load_llm
from pimloom.arch.topology import NAMED
from pimloom.arch.topology.cluster import Cluster
from pimloom.arch.topology.khop import khop
from pimloom.arch.training import load_training
from pimloom.reports.infinitehbd.properties import break_rates, bypasses, corner_rate, one_ring
from pimloom.reports.reproduction import Progress, counting
from pimloom.systems.fabric.cost import cost_rows, part_rows
from pimloom.systems.fabric.faults.events import read_faults
from pimloom.systems.fabric.faults.statistics import FaultStatistics, fault_statistics, sampled_percentiles
from pimloom.systems.fabric.faults.synthetic import synthesise
from pimloom.systems.fabric.faults.trace import SERVERS, Trace
from pimloom.systems.fabric.mfu import Search, domains, mfu_rows
from pimloom.systems.fabric.place_curves import RATIOS, SIZES, cross_tor_rows, speed_rows
from pimloom.systems.fabric.sensitivity import sensitivity_rows
from pimloom.systems.fabric.waste import Plan, iid_rows, trace_rows
from pimloom.systems.pool import run_all

Row = dict[str, Any]

CLUSTER = Cluster(2880, 4)  # [recalled] the paper's
TPS = (8, 16, 32, 64)
TP = 32  # of the paper's headline
JOB_GPUS = CLUSTER.gpus * 9 // 10
FAULT_RATIOS = tuple(percent / 100 for percent in range(16))
JOBS, GROUPS = (0.7, 0.85), (4, 8)  # shares of all nodes; nodes of a group
MODEL, GPUS = "llama-3.1-405b", tuple(2**power for power in range(10, 18))
PUBLIC = (400, 582, 77_551)  # servers, outages, whole server-hours down [derived] of the public trace


@dataclass(frozen=True)
class Scope:
    """How much is computed. draws: of positions on the trace; of i.i.d. faults; of faults for each placement."""

    trace_draws: int = 10
    iid_draws: int = 400
    place_draws: int = 20
    place_ratios: Sequence[float] = RATIOS
    sizes: Sequence[int] = SIZES
    gpus: Sequence[int] = GPUS


@dataclass(frozen=True)
class Findings:
    """All rows, and the trace that they rest on."""

    scope: Scope
    trace: Trace
    statistics: FaultStatistics
    trace_plan: Plan
    trace_rows: Sequence[Row]
    iid_plan: Plan
    iid_rows: Sequence[Row]
    cost: Sequence[Row]
    parts: Sequence[Row]
    mfu: Sequence[Row]
    sensitivity: Sequence[Row]
    traffic: Sequence[Row]
    times: Sequence[Row]
    percentiles: tuple[float, float]  # P50 and P99 of 360 servers
    breaks: Sequence[tuple[float, float]]  # of K = 2 and 3: cuts of a ring by Monte-Carlo, expected
    corners: Sequence[float]  # of each fault ratio: nodes of the ring that would need a bundle twice, K = 3
    bypasses: bool
    one_ring: bool

    @property
    def public(self) -> bool:
        """Whether the trace is the public one, so that its figures can be held against published ones."""
        said = self.statistics
        return (said.servers, said.outages, int(said.down_server_h)) == PUBLIC

    @property
    def synthetic(self) -> bool:
        """Whether no trace was given."""
        return self.trace.name.startswith("synthetic")

    def waste(self, arch: str, tp: int = TP) -> Row:
        """The row of a fabric on the trace."""
        return next(row for row in self.trace_rows if (row["arch"], row["tp"]) == (arch, tp))

    def ratio(self, gpus: int, arch: str = "infinitehbd-k2") -> float | None:
        """MFU over DGX's at so many GPUs."""
        return next((r["ratio_to_dgx8"] for r in self.mfu if (r["gpus"], r["arch"]) == (gpus, arch)), None)


def find_all(faults: Path | None, scope: Scope, progress: Progress, servers: int = SERVERS) -> Findings:
    """Compute everything; `faults` is a trace of `servers` in the public format, else one like it. Raises UserError."""
    trace = read_faults(faults, servers) if faults else synthesise(servers)
    fabrics = list(NAMED.values())
    on_trace = Plan(CLUSTER, fabrics, TPS, scope.trace_draws, job_gpus=JOB_GPUS)
    alone = Plan(CLUSTER, fabrics, [TP], scope.iid_draws)
    search = Search(load_llm(MODEL), load_training("h100").value)
    jobs = list(product(JOBS, GROUPS, scope.place_ratios))
    count = counting(len(jobs) + 4, progress)
    traffic: dict[tuple[float, int, float], Sequence[Row]] = {}
    for job, rows in run_all(partial(_traffic, scope.place_draws), jobs):
        traffic[job] = rows
        count()
    walked = trace_rows(on_trace, trace)
    count()
    drawn = iid_rows(alone, FAULT_RATIOS)
    count()
    scales = mfu_rows(search, domains("infinitehbd-k2,dgx8"), scope.gpus)
    sensitive = sensitivity_rows(search, max(scope.gpus))
    count()
    times = [row for way in ("spares", "aligned") for row in speed_rows(scope.sizes, way)]
    count()
    return Findings(
        scope,
        trace,
        fault_statistics(trace),
        on_trace,
        walked,
        alone,
        drawn,
        cost_rows(),
        part_rows(),
        scales,
        sensitive,
        [row for job in jobs for row in traffic[job]],
        times,
        sampled_percentiles(trace),
        [break_rates(hops) for hops in (2, 3)],
        [corner_rate(ratio) for ratio in FAULT_RATIOS],
        all(bypasses(khop(hops)) for hops in (2, 3)),
        one_ring(),
    )


def _traffic(draws: int, job: tuple[float, int, float]) -> Sequence[Row]:
    share, group_nodes, fault_ratio = job
    return cross_tor_rows([fault_ratio], [share], [group_nodes], draws)


def totals() -> dict[str, tuple[float, float]]:
    """Published price [$] and power [W] per GPU of each network; totals.csv says how they are known."""
    with (Path(__file__).parent / "totals.csv").open(newline="", encoding="utf-8") as file:
        return {row["arch"]: (float(row["usd_per_gpu"]), float(row["w_per_gpu"])) for row in csv.DictReader(file)}
