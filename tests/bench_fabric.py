"""Lines of `make bench` for fabrics: waste on a trace and of nodes that fail alone."""

import resource
import time
from pathlib import Path

from pimloom.arch.topology import topologies
from pimloom.arch.topology.cluster import Cluster
from pimloom.reports.fabric.waste import TRACE_DRAWS, Plan, iid_rows, trace_rows
from pimloom.reports.faults.events import read_faults
from pimloom.reports.faults.synthetic import synthesise

TRACE = Path(__file__).resolve().parent.parent.parent / "shared/data/infinitehbd_fault_trace.json"
TPS = (8, 16, 32, 64)
IID_DRAWS = 1000
RATIOS = tuple(nth / 100 for nth in range(16))


def fabric_lines() -> list[tuple[str, str, str]]:
    """(what, measured, target) of each run, and the peak of memory of any process up to here."""
    return [*_waste(), ("peak memory of a process up to here", f"{_peak_mib():.0f} MiB", "≤ 2 GiB")]


def _waste() -> list[tuple[str, str, str]]:
    """All architectures, two more than the target asks for."""
    fabrics = topologies("all")
    start = time.perf_counter()
    trace = read_faults(TRACE) if TRACE.exists() else synthesise()
    rows = trace_rows(Plan(Cluster(2880, 4), fabrics, TPS, TRACE_DRAWS), trace)
    what = f"waste on a trace, 2,880 GPUs, 348 days, {TRACE_DRAWS} draws, {len(rows)} rows"
    lines = [(what, f"{time.perf_counter() - start:.1f} s", "≤ 5 s")]
    start = time.perf_counter()
    rows = iid_rows(Plan(Cluster(131_072, 4), fabrics, TPS, IID_DRAWS), RATIOS)
    what = f"waste, 131,072 GPUs, {IID_DRAWS:,} draws x {len(RATIOS)} fault ratios, {len(rows)} rows"
    return [*lines, (what, f"{time.perf_counter() - start:.0f} s", "≤ 60 s")]


def _peak_mib() -> float:
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
