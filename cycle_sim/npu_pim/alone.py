"""One channel by itself, with one stream of PIM commands and nothing else."""

import numpy as np

from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.pim_stream import ANNOUNCE
from pimloom.cycle_sim.npu_pim.build import ROUND, build
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.machine import PimError
from pimloom.cycle_sim.npu_pim.program import Builder

STEP_CK = ROUND // 2  # at most one command issues in a clock, so that the log does not overflow


def issue(spec: PimChannel, stream: np.ndarray) -> tuple[int, np.ndarray]:
    """Run a stream (PIM_STREAM) on an idle channel: the clock of the last response [CK], and every command's issue.

    The commands come as int64 of shape (n, 2), clock and place in `fields.COMMANDS`, the controller's own among them.
    Raises PimError, as NeuPIMs' simulator aborts.
    """
    n, program = len(stream), Builder()
    operator = program.operator("stream", ())
    program.dots(operator, 0, stream, np.zeros(n, np.int64))
    ch = build(spec, n, ports=2, groups=2, logging=True)._replace(dot=operator.dots[0])
    ch.left[0] = np.count_nonzero(stream["cmd"] != ANNOUNCE)
    ch.order[0, :n, f.WORD] = -1 - np.arange(n)
    ch.port[0, f.LAST_ONE] = n
    log, until = [], 0
    while ch.left.any():
        until += STEP_CK
        code = engine.run_alone(ch, until)
        if code == engine.STUCK:
            raise PimError("PIM reads a result from a bank whose row was closed for a refresh")
        assert code == engine.DONE, "the log holds the commands of a step"
        log.append(ch.command[: ch.state[f.N_COMMANDS], :2].copy())
        ch.state[f.N_COMMANDS] = 0
    return int(ch.done[0]), np.concatenate(log)
