"""How far the channels may go on before the core looks again."""

from pimloom.cycle_sim.memory.kernels.compiled import bare
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f


@bare
def window(p, chs, t):
    """Clocks from t on in which nothing that the core does, now or later, can reach a channel."""
    most, each = p.npu[k.LONGEST], p.npu[k.ANSWERS] * chs.state.shape[0]
    least = 2 if p.npu[k.N_BEGUN] < p.op.shape[0] else 1  # who starts sends a clock later
    for i in range(p.npu[k.N_RUNNING]):
        o = p.running[i]
        op = p.op[o]
        quiet = chs.open[o] // each  # some requests of the operator are on their way at least so long
        if op[k.IN_ORDER] and op[k.TO_DO]:
            soon = op[k.LEAST]
            early = not p.npu[k.CLAMPED] and not p.npu[k.BY_OUTPUT]
            if early and p.array[k.ENDED] > t + 1:  # steps behind others are no whole latency later
                soon = min(soon, min(p.npu[k.STEP], p.npu[k.ROWS]) * (op[k.NEXT_STORE] - op[k.NEXT_TASK] + 1))
            most = min(most, soon + 2)
        elif op[k.TO_DO]:
            most = min(most, (max(quiet, 1) if op[k.JOINT] else 1) + op[k.LEAST] + 1)
        else:
            quiet = max(quiet, op[k.LATEST] + 1 - t)
            for x in range(p.reach_ptr[o], p.reach_ptr[o + 1]):  # its PIM commands issue one a clock, behind others
                quiet = max(quiet, p.reach[x, k.SENT] - chs.state[p.reach[x, k.REACHED], f.DOTS_FIRST])
            most = min(most, max(least, quiet))
    return most
