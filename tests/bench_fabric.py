"""Lines of `make bench` for fabrics: waste on a trace and of nodes that fail alone, placement, search."""

import resource
import subprocess
import time
from math import log

from pimloom.arch.llm import load_llm
from pimloom.arch.topology import topologies
from pimloom.arch.topology.cluster import Cluster
from pimloom.arch.training import load_training
from pimloom.systems.fabric.faults.events import read_faults
from pimloom.systems.fabric.faults.synthetic import synthesise
from pimloom.systems.fabric.mfu import Search, domains, mfu_rows
from pimloom.systems.fabric.place_curves import speed_rows
from pimloom.systems.fabric.waste import TRACE_DRAWS, Plan, iid_rows, trace_rows
from tests.bench_commands import pimloom
from tests.reference_data import data_folder

TRACE = data_folder() / "infinitehbd_fault_trace.json"
TPS = (8, 16, 32, 64)
IID_DRAWS = 1000
RATIOS = tuple(nth / 100 for nth in range(16))


def fabric_lines() -> list[tuple[str, str, str]]:
    """(what, measured, target) of each run, and the peak of memory of any process up to here."""
    return [
        *_waste(),
        _replay(),
        *_placement(),
        _mfu(),
        ("peak memory of a process up to here", f"{_peak_mib():.0f} MiB", "≤ 2 GiB"),
    ]


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


def _replay() -> tuple[str, str, str]:
    """Wall time of the whole command, least of three."""
    line, walls = "fabric waste --gpus 131072 --servers 16384 --tp 32 --draws 10", []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(pimloom(*line.split()), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        walls.append(time.perf_counter() - start)
    return f"the command `{line}`", f"{min(walls):.1f} s", "≤ 5 s"


def _placement() -> list[tuple[str, str, str]]:
    """One orchestration of growing clusters, 5 % of the nodes faulty, a job of 85 % of them."""
    lines = []
    for way in ("spares", "aligned"):
        rows = {row["nodes"]: row["seconds"] for row in speed_rows(algorithm=way)}
        (small, least), *_, (large, most) = rows.items()
        growth = most * small * log(small) / (least * large * log(large))
        what = f"placement of 32,768 nodes, {way}"
        lines.append((what, f"{rows[32_768]:.3f} s; {small:,} to {large:,}: {growth:.2f} × n log n", "≤ 0.2 s; ≤ 1"))
    return lines


def _mfu() -> tuple[str, str, str]:
    search = Search(load_llm("llama-3.1-405b"), load_training("h100").value, schedule="interleaved", most_chunks=8)
    start = time.perf_counter()
    mfu_rows(search, domains("infinitehbd-k2,dgx8"), [131_072])
    return "MFU search, 131,072 GPUs, two fabrics", f"{time.perf_counter() - start:.3f} s", "≤ 0.5 s"


def _peak_mib() -> float:
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
