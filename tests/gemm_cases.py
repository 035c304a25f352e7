"""GEMMs for an array with its pads, and when double buffering has their operands there."""

import numpy as np

from pimloom.cycle_sim.npu.arrays import Systolic as Model
from pimloom.cycle_sim.npu.arrays import phases
from pimloom.cycle_sim.npu.scratchpad import double_buffered
from pimloom.rtl.flow.npu.engine import Case, Went, words
from pimloom.rtl.flow.npu.gemm import Job, tiles
from pimloom.rtl.flow.scenes.values import BF16
from pimloom.rtl.npu.shape import ArrayShape


def of_size(m: int, k: int, n: int, overlapped: bool) -> Job:
    rng = np.random.default_rng((m, k, n))
    return Job(rng.normal(size=(m, k)).astype(BF16), rng.normal(size=(k, n)).astype(BF16), overlapped)


PLAIN = [Case(of_size(*size, overlapped)) for size in ((8, 8, 8), (5, 7, 9), (2, 7, 5)) for overlapped in (False, True)]
READY = [Case(of_size(*size, True), after=30) for size in ((8, 8, 4), (3, 6, 2), (1, 5, 3))]
READY_OS = [Case(of_size(*size, True), after=30) for size in ((4, 8, 3), (3, 1, 2), (2, 4, 5))]
SLOWLY_TAKEN = [Case(of_size(*size, overlapped), paces=(1.0, 0.05)) for size in ((3, 2, 17), (7, 6, 9))
                for overlapped in (False, True)]  # fmt: skip


def late_halves(shape: ArrayShape, cases: list[Case], found: list[Went]) -> list[int]:
    """The cases, not overlapped, whose operands come as fast as they are taken, a word a clock, and whose tiles are not
    loaded and computed when `double_buffered` says."""
    late = []
    for number, (case, each) in enumerate(zip(cases, found, strict=True)):
        if case.job.overlapped or case.paces != (1.0, 1.0):
            continue
        m, k, _ = case.job.size
        plan, model = tiles(shape, case.job), Model(*shape)
        load = [len(words(shape, case.job, tile)) for tile in plan]
        compute = [phases(model, t.rows, t.columns, m if shape.dataflow == "ws" else k).total_cyc for t in plan]
        taken = 4 + (m if shape.dataflow == "ws" else shape.rows)  # clocks from a tile's end until its results are
        if load[0] == 1 or min(compute) <= taken:  # the job comes too late; a tile waits for a half of the accumulator
            continue
        expected = double_buffered(load, compute)
        if (each.loaded, each.done) != (expected.load_end_cyc.tolist(), expected.compute_end_cyc[-1]):
            late.append(number)
    return late
