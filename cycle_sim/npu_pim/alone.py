"""One channel by itself, with one stream of PIM commands and nothing else."""

import numpy as np

from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.pim_stream import PIM_COMMANDS, PIM_STREAM
from pimloom.cycle_sim.npu_pim.build import ROUND, build
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.machine import PimError

STEP_CK = ROUND // 2  # at most one command issues in a clock, so that the log does not overflow
FIELDS = (
    (f.BANK, "bank"),
    (f.ROW, "row"),
    (f.COLUMN, "col"),
    (f.COUNT, "count"),
    (f.COMPS, "comps"),
    (f.RESULTS, "results"),
    (f.LAST, "last"),
)


def issue(spec: PimChannel, stream: np.ndarray) -> tuple[int, np.ndarray]:
    """Run a stream (PIM_STREAM) on an idle channel: the clock of the last response [CK], and every command's issue.

    The commands come as int64 of shape (n, 2), clock and place in `fields.COMMANDS`, the controller's own among them.
    Raises PimError, as NeuPIMs' simulator aborts.
    """
    assert stream.dtype == PIM_STREAM
    n = len(stream)
    ch = build(spec, n, ports=2, groups=2, distinct=False, logging=True)
    opcodes = np.array([f.COMMANDS.index(name) for name in PIM_COMMANDS])
    ch.request[:, f.KIND] = opcodes[stream["cmd"]]
    for place, name in FIELDS:
        ch.request[:, place] = stream[name]
    ch.left[0] = np.count_nonzero(ch.request[:, f.KIND] != f.COMMANDS.index("PIM_HEADER"))
    ch.state[f.N_SPARE] = 0
    ch.order[0, :n] = np.arange(n)
    ch.port[0, 1] = n
    log, until = [], 0
    while ch.left.any():
        until += STEP_CK
        code = engine.run(ch, until)
        if code == engine.STUCK:
            raise PimError("PIM reads a result from a bank whose row was closed for a refresh")
        assert code == engine.DONE, "the log holds the commands of a step"
        log.append(ch.command[: ch.state[f.N_COMMANDS], :2].copy())
        ch.state[f.N_COMMANDS] = 0
    return int(ch.done[0]), np.concatenate(log)
