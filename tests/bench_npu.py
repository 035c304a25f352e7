"""Lines of `make bench` for NPU and PIM: layers beside NeuPIMs' simulator, many iterations of a batch."""

import csv
import gc
import resource
import time

from pimloom.__main__ import SELDOM
from pimloom.arch.llm import load_llm
from pimloom.arch.neupims import Faults
from pimloom.arch.system import System, load_system
from pimloom.cycle_sim.cores import CORES
from pimloom.systems.devices.npu_pim.serve import serve
from pimloom.systems.serving.decoding import decode_iterations
from pimloom.systems.serving.machine import Plan
from pimloom.systems.serving.requests import read_requests
from pimloom.systems.serving.workload import load_workload
from tests.reference_data import data_folder

SHARED = data_folder() / "neupims"
# run of the ground truth: system, request list, sub-batches
RUNS = {
    "off-7B-L-b64-gml": ("neupims", "L-b64-gml", 1),
    "off-7B-L-b256-gml": ("neupims", "L-b256-gml", 1),
    "on-7B-L-b64-gml": ("neupims", "L-b64-gml", 2),
    "on-7B-L-b256-gml": ("neupims", "L-b256-gml", 2),
    "pim-7B-L-b64-rr": ("npu_pim", "L-b64-rr", 1),
    "npu-7B-L-b64-rr": ("npu_only", "L-b64-rr", 1),
}
LEAST_OF = 3
ITERATIONS, EVERY, BATCH = 1000, 100, 256


def npu_lines() -> list[tuple[str, str, str]]:
    """(what, measured, target) of each run, of many iterations, and the memory that all of it took."""
    if not SHARED.exists():
        return [("NPU and PIM", f"skipped: no {SHARED}", "–"), *_iterations()]
    with (SHARED / "summary.csv").open() as file:
        theirs = {row["run"]: float(row["user_s"]) for row in csv.DictReader(file)}
    return [*(_layer(name, theirs[name]) for name in RUNS), *_iterations()]


def _layer(name: str, theirs: float) -> tuple[str, str, str]:
    """CPU time of a layer as released, in one thread; theirs was taken on another machine."""
    named, requests, sub_batches = RUNS[name]
    faults = {f"faults.{fault}": "true" for fault in Faults.__struct_fields__}
    system = load_system(named, faults | {"interleave.sub_batches": str(sub_batches)})
    tokens, channel = read_requests(SHARED / f"inputs/{requests}.csv", 32)

    def once() -> float:
        start = time.process_time()
        serve(system, load_llm("gpt3-7b"), tokens, channel, tp=4, layers=1, fidelity="released")
        return time.process_time() - start

    before = CORES.set(1)
    gc.set_threshold(*SELDOM)  # as the command does
    once()  # compiles
    ours = min(once() for _ in range(LEAST_OF))
    CORES.reset(before)
    return f"layer {name}", f"{ours:.2f} s of CPU, {theirs / ours:.0f} x as fast", f"50 x of {theirs:.0f} s"


def _iterations() -> list[tuple[str, str, str]]:
    """Wall time of many iterations of GPT3-7B, one in `EVERY` simulated, and the peak of memory."""
    lines = []
    for sub_batches in (1, 2):
        system = load_system("neupims", {"interleave.sub_batches": str(sub_batches)})
        start = time.perf_counter()
        _decode(system)
        what = f"{ITERATIONS:,} iterations, batch {BATCH}, {sub_batches} sub-batches, each {EVERY}th simulated"
        lines.append((what, f"{time.perf_counter() - start:.0f} s", "≤ 60 s"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [*lines, ("peak memory up to here", f"{peak:.0f} MiB", "≤ 1 GiB")]


def _decode(system: System) -> None:
    llm = load_llm("gpt3-7b")
    plan = Plan(BATCH, ITERATIONS, EVERY, "min-load", 0, 4, 1, llm.num_hidden_layers, "physical")
    decode_iterations(system, llm, load_workload("sharegpt", seed=0), plan)
