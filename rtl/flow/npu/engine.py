# amaranth: UnusedElaboratable=no
"""`pimloom rtl verify npu_gemm`: GEMMs through sequencer, pads, array and accumulator."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.rtl.flow.npu.edges import pack_words, unpack
from pimloom.rtl.flow.npu.gemm import Job, Progress, Tile, bits, draw_jobs, product, tiles
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.flow.verified import Verified, wave_file
from pimloom.rtl.npu.gemm import Gemm
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.tiles import DEPTH, JOB_BITS
from pimloom.rtl.verilog import to_verilog

BENCH = "pimloom.rtl.flow.benches.gemm"
ANYTHING = 0x7F81  # a NaN where nothing is read


class Case(NamedTuple):
    """paces: probabilities that an operand is offered, and a result taken, in a clock. after: clocks before the job is
    offered; operands are from the first on."""

    job: Job
    paces: tuple[float, float] = (1.0, 1.0)
    after: int = 0


class Went(NamedTuple):
    """What a case did. x: float32[m, n]; loaded: the clock after that of each tile's last operand; taken: the clock in
    which the last result of each half was; done: when the sequencer said so."""

    x: np.ndarray
    loaded: list[int]
    taken: list[int]
    done: int


def words(shape: ArrayShape, job: Job, tile: Tile) -> np.ndarray:
    """Operands of a tile as `OperandPads` takes them: uint16[places, rows + columns]."""
    m, k, _ = job.size
    a, b = bits(job.a), bits(job.b)
    found = np.full(
        (max(m, tile.rows) if shape.dataflow == "ws" else k, shape.rows + shape.columns), ANYTHING, np.uint16
    )
    rows, columns = slice(tile.row, tile.row + tile.rows), slice(tile.column, tile.column + tile.columns)
    right = slice(shape.rows, shape.rows + tile.columns)
    if shape.dataflow == "ws":
        found[:m, : tile.rows] = a[:, rows]
        found[: tile.rows, right] = b[rows, columns]
    else:
        found[:, : tile.rows] = a[rows].T
        found[:, right] = b[:, columns]
    return found


def halves(shape: ArrayShape, job: Job) -> list[tuple[slice, slice]]:
    """Rows and columns of the product that each half of the accumulator holds, in order."""
    m, _, n = job.size
    height = m if shape.dataflow == "ws" else shape.rows
    return [
        (slice(i, min(i + height, m)), slice(j, min(j + shape.columns, n)))
        for j in range(0, n, shape.columns)
        for i in range(0, m, height)
    ]


def run_gemms(
    shape: ArrayShape, depth: int, cases: Sequence[Case], simulator: Simulator, waves: Path | None = None
) -> tuple[list[Went], int, float]:
    """The cases through the gates; clocks and seconds of all."""
    jobs, operands, counts = [], [], []
    for case in cases:
        given = [words(shape, case.job, tile) for tile in tiles(shape, case.job)]
        lasts = np.concatenate([np.arange(len(tile)) == len(tile) - 1 for tile in given])
        operands.append(pack_words(np.concatenate(given), lasts))
        m, k, n = case.job.size
        word = m | k << JOB_BITS | n << 2 * JOB_BITS | case.job.overlapped << 3 * JOB_BITS
        jobs.append([word & 0xFFFFFFFF, word >> 32])
        counts.append([len(lasts), sum(rows.stop - rows.start for rows, _ in halves(shape, case.job))])
    ports = {"jobs": np.array(jobs, np.uint32), "operands": np.concatenate(operands), "counts": np.array(counts)}
    ports |= {"paces": np.array([case.paces for case in cases]), "after": np.array([case.after for case in cases])}
    ports |= {"idle": np.array(sum(shape[:2]) + 4)}
    verilog = to_verilog(Gemm(shape, depth), "npu_gemm")
    found = simulate(verilog, "npu_gemm", BENCH, ports, simulator=simulator, waves=waves)
    (x,) = unpack(found["o"], [32], shape.columns)
    went, i, o = [], 0, 0
    for case, done in zip(cases, found["done"].tolist(), strict=True):
        m, _, n = case.job.size
        total, loaded, taken = np.zeros((m, n), np.float32), [], []
        for tile in tiles(shape, case.job):
            i += len(words(shape, case.job, tile))
            loaded.append(int(found["i.clock"][i - 1]) + 1)
        for rows, columns in halves(shape, case.job):
            height = rows.stop - rows.start
            total[rows, columns] = x[o : o + height, : columns.stop - columns.start].view(np.float32)
            o += height
            taken.append(int(found["o.clock"][o - 1]))
        went.append(Went(total, loaded, taken, done))
    return went, int(found["cycles"]), float(found["seconds"])


def done_by_rule(shape: ArrayShape, case: Case, went: Went) -> int:
    """When a job should be done, given when its operands were there and its results were taken: `double_buffered` of
    `cycle_sim/npu/scratchpad.py` and the starts of `cycle_sim/npu/arrays.py`, tile by tile.

    A tile enters in the clock in which its operands are there, but not before two clocks after the job came, or after a
    half for its sums was taken, nor before the array is free of the tile before (overlapped: while it would be in its
    way).
    """
    job, stationary = case.job, shape.dataflow == "ws"
    m, k, _ = job.size
    streamed = m if stationary else k
    begins, last, half = case.after + 2, 0, 0
    for f, tile in enumerate(tiles(shape, job)):
        enters = max(begins, went.loaded[f])
        if tile.row == 0 or not stationary:
            enters = max(enters, went.taken[half - 2] + 2) if half > 1 else enters
            half += 1
        start = enters + (tile.rows if stationary else 0)
        left = start + streamed + shape.rows + tile.columns - 2 + (0 if stationary else tile.rows)
        last = max(last, left)
        following = tiles(shape, job)[f + 1].rows if f + 1 < len(went.loaded) else 0
        gap = max(streamed - following, 0) if stationary else max(streamed, tile.rows)
        begins = start + gap if job.overlapped else left
    return last


def mismatches(shape: ArrayShape, cases: Sequence[Case], went: Sequence[Went]) -> list[str]:
    """A sentence for each result that differs, and for each job that is done in another clock than it should."""
    wrong = []
    for number, (case, found) in enumerate(zip(cases, went, strict=True)):
        want = product(shape, case.job)
        for i, j in np.argwhere(found.x.view(np.uint32) != want.view(np.uint32)).tolist():
            values = (f"{x[i, j].view(np.uint32):#x}" for x in (found.x, want))
            wrong.append("result {}, {} of GEMM {} is {}, model says {}".format(i, j, number, *values))
        if found.done != (clock := done_by_rule(shape, case, found)):
            wrong.append(f"GEMM {number} is done in CK {found.done}, model says {clock}")
    return wrong


PACES = [(1.0, 1.0), (0.5, 1.0), (1.0, 0.3)]


def draw_cases(shape: ArrayShape, depth: int, rng: np.random.Generator, results: int) -> list[Case]:
    """GEMMs that the pads can hold: operands and results as fast as can be, or the one or the other slowly."""
    found: list[Case] = []
    for job in draw_jobs(shape, rng, results):
        m, k, n = job.size
        m, k = (min(m, depth), k) if shape.dataflow == "ws" else (m, min(k, depth))
        fits = Job(job.a[:m, :k], job.b[:k, :n], job.overlapped)
        found.append(Case(fits, PACES[len(found) % 3]))
    return found


def verify_gemm(
    name: str, shape: ArrayShape, simulator: Simulator, commands: int, seed: int, waves: Path | None, progress: Progress
) -> Verified:
    """Random GEMMs: results bit for bit, and when each is done."""
    progress(0, 2)
    cases = draw_cases(shape, DEPTH, np.random.default_rng(seed), commands)
    progress(1, 2)
    went, clocks, seconds = run_gemms(shape, DEPTH, cases, simulator, waves)
    wrong = mismatches(shape, cases, went)
    if wrong and not waves:
        waves = wave_file("npu_gemm", str(shape), seed)
        run_gemms(shape, DEPTH, cases, simulator, waves)
    progress(2, 2)
    results = sum(found.x.size for found in went)
    return Verified(
        "npu_gemm", str(shape), simulator, results, len(wrong), 0, 0, {},
        clocks, clocks / seconds, wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip
