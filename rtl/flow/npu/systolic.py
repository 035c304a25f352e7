# amaranth: UnusedElaboratable=no
"""`pimloom rtl verify systolic`: an array by itself, its edges fed by the sentences of `cycle_sim/npu/arrays.py`."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.npu import arrays
from pimloom.rtl.flow.npu.edges import Edges, edges, pack, unpack
from pimloom.rtl.flow.npu.gemm import Job, Progress, Sized, draw_jobs
from pimloom.rtl.flow.scenes.scene import ROWS
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.flow.verified import Verified, wave_file
from pimloom.rtl.npu.shape import RESULT, ArrayShape, activation, weight
from pimloom.rtl.npu.systolic import Systolic
from pimloom.rtl.verilog import to_verilog


class Left(NamedTuple):
    """Of each column, what has left in each clock; x counts where valid."""

    valid: np.ndarray
    x: np.ndarray
    seconds: float


def verify_array(
    name: str,
    shape: ArrayShape,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
) -> Verified:
    """Random GEMMs through an array: every result bit for bit, in its clock; every GEMM in the model's cycles."""
    progress(0, 2)
    jobs = list(draw_jobs(shape, np.random.default_rng(seed), commands))
    given = edges(shape, jobs)
    progress(1, 2)
    found = run_array(shape, given, simulator, waves)
    wrong = mismatches(shape, jobs, given, found)
    if wrong and not waves:
        waves = wave_file("systolic", str(shape), seed)
        run_array(shape, given, simulator, waves)
    progress(2, 2)
    clocks = len(given.valid)
    return Verified(
        "systolic", str(shape), simulator, int(given.valid.sum()), len(wrong), 0, 0, {},
        clocks, clocks / found.seconds, wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip


def run_array(shape: ArrayShape, given: Edges, simulator: Simulator = "verilator", waves: Path | None = None) -> Left:
    """Simulate the array's Verilog with these values at its edges; returns what leaves it, clock by clock."""
    ports = {"left": pack(activation(shape.dataflow), given.left), "top": pack(weight(shape), given.top)}
    ports |= {"clocks": np.array(1), "results": np.array(["o"])}
    found = simulate(to_verilog(Systolic(shape), "systolic"), "systolic", ROWS, ports, simulator=simulator, waves=waves)
    x, valid = unpack(found["o"], [RESULT["x"].width, 1], shape.columns)
    return Left(valid.astype(bool), x, float(found["seconds"]))


def mismatches(shape: ArrayShape, jobs: Sequence[Job], given: Edges, found: Left) -> list[str]:
    """A sentence for each column and clock in which something else leaves than should, and for each job that does not
    take the clocks of the cycle model."""
    models = [model_cyc(shape, job) for job in jobs]
    wrong = [
        f"GEMM {number} takes {clocks} clocks, model says {model}"
        for number, (clocks, model) in enumerate(zip(durations(given), models, strict=True))
        if clocks != model
    ]
    differs = (found.valid != given.valid) | given.valid & (found.x != given.x)
    for clock, column in np.argwhere(differs).tolist():
        was = f"{found.x[clock, column]:#x}" if found.valid[clock, column] else "nothing"
        want = f"{given.x[clock, column]:#x}" if given.valid[clock, column] else "nothing"
        wrong.append(f"{was} leaves column {column} in CK {clock}, model says {want}")
    return wrong


def durations(given: Edges) -> list[int]:
    """Clocks of each job by what leaves and when."""
    return np.diff([0, *given.ends]).tolist()


def model_cyc(shape: ArrayShape, job: Sized) -> int:
    """Cycles of the job by the model."""
    return arrays.gemm(arrays.Systolic(*shape, job.overlapped), *job.size).total_cyc
