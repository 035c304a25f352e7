"""Lines of `make bench` for NPU and PIM: layers beside NeuPIMs' simulator, many iterations of a batch."""

import csv
import gc
import resource
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

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
from tests.bench_commands import Line, least, pimloom, spent, words_of
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


def npu_lines(peers: Mapping[str, str] = {}) -> list[Line]:
    """Each run, many iterations, and the memory that all of it took. peers: what runs NeuPIMs on requests, by name."""
    if not SHARED.exists():
        return [Line("NPU and PIM", f"skipped: no {SHARED}"), *(Line(*line) for line in _iterations())]
    with (SHARED / "summary.csv").open() as file:
        theirs = {row["run"]: float(row["user_s"]) for row in csv.DictReader(file)}
    layers = [_layer(name, theirs[name], peers.get(f"neupims_{name.partition('-')[0]}")) for name in RUNS]
    return [*layers, *(Line(*line) for line in _iterations())]


def _layer(name: str, recorded_s: float, peer: str | None) -> Line:
    """A layer as released, in the warm engine (one thread) and as whole commands, least CPU time of a few runs [s]."""
    requests = SHARED / f"inputs/{RUNS[name][1]}.csv"
    engine, theirs, shown = _engine(name, requests), recorded_s, f"{recorded_s:.0f} s elsewhere"
    ours = least(pimloom(*_words(name, requests)))
    if peer:
        with tempfile.TemporaryDirectory() as place:
            found = spent(words_of(peer, {"trace": requests, "out": place}), Path(place))
        theirs, shown = found.cpu_s, str(found)
    measured, command = f"{engine:.2f} s, {theirs / engine:.0f} x", f"{ours}, {theirs / ours.cpu_s:.0f} x"
    return Line(f"layer {name}", measured, "50 x", command, shown)


def _words(name: str, requests: Path) -> list[str]:
    """The command that runs a layer as released."""
    named, _, sub_batches = RUNS[name]
    few = ["--tp", "4", "--layers", "1", "--fidelity", "released", "--set", f"interleave.sub_batches={sub_batches}"]
    return ["run", named, "--model", "gpt3-7b", "--requests", str(requests), *few]


def _engine(name: str, requests: Path) -> float:
    """Least CPU time of a layer in this process, in one thread [s]."""
    named, _, sub_batches = RUNS[name]
    faults = {f"faults.{fault}": "true" for fault in Faults.__struct_fields__}
    system = load_system(named, faults | {"interleave.sub_batches": str(sub_batches)})
    tokens, channel = read_requests(requests, 32)

    def once() -> float:
        start = time.process_time()
        serve(system, load_llm("gpt3-7b"), tokens, channel, tp=4, layers=1, fidelity="released")
        return time.process_time() - start

    before = CORES.set(1)
    gc.set_threshold(*SELDOM)  # as the command does
    once()  # compiles
    found = min(once() for _ in range(LEAST_OF))
    CORES.reset(before)
    return found


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
