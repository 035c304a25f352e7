"""The compiled channel, driven like the naive one."""

import numpy as np

from pimloom.arch.neupims import Faults
from pimloom.arch.pim_channel import Controller, Mode, PimChannel, PrechargeScope
from pimloom.arch.system import load_part
from pimloom.cycle_sim.npu_pim.build import build
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.words import word_of
from pimloom.systems.reference.neupims import channel_rules

COMMAND = {
    "ACT": "ACT", "PRE": "PRE", "READ": "RD", "WRITE": "WR", "REFRESH": "REFab", "GWRITE": "GWRITE", "G_ACT": "G_ACT",
    "P_HEADER": "PIM_HEADER", "COMP": "COMP", "READRES": "READRES", "COMPS_READRES": "PIM_GEMV",
    "PIM_PRE": "PIM_PRECHARGE",
}  # fmt: skip
FIXES = {
    2: ("gemv_frees_row",),
    "2r": ("gemv_answers_early",),
    8: ("gwrites_overlap",),
    15: ("gact_counts_little",),
    16: ("gact_closes_early",),
    13: ("headers_early",),
    18: ("slack_stale",),
}
MODE: dict[str, Mode] = {"DUAL": "dual", "SINGLE": "blocked", "DRAM": "dram"}
END = 10**7
STEP = 10_000


def spec(
    mode: str, fixes=(), precharge: PrechargeScope = "bank", part_name: str = "hbm2_neupims", per_group: int = 4
) -> PimChannel:
    """The device of the ground truth, as released but for these repairs. per_group: banks of a group, 16 of a rank."""
    changed = {"organization.banks_per_group": str(per_group), "organization.bank_groups": str(16 // per_group)}
    part = load_part(part_name, changed | ({"pim": "newton"} if mode == "SINGLE" else {})).value
    window = 96 if mode == "DRAM" and 5 not in fixes else 4352
    repaired = {name for fix in fixes for name in FIXES.get(fix, ())}
    rules = channel_rules(Faults(**{name: name not in repaired for name in Faults.__struct_fields__}))
    return PimChannel(part, MODE[mode], _controller(window), rules, precharge)


def _controller(window: int) -> Controller:
    return Controller(
        entries=32, queue_entries=128, pim_queue_entries=128, window=window, row_hit_cap=4, drain_idle=8,
        pim_floor_ck=10, offers_per_ck=2,
    )  # fmt: skip


class Run:
    """What the engine made of requests: (last PIM response, last other response), commands, the channel.

    every: PIM request i is not there before clock i * every.
    """

    def __init__(self, mode, pim, plain, fixes=(), until=END, every=0, **device):
        both = [*pim, *plain]
        dot = np.zeros((len(both), f.N_DOT), np.int64)
        ch = build(spec(mode, fixes, **device), max(len(both), 1), ports=2, groups=2, logging=True)
        ch = self.channel = ch._replace(dot=dot)
        for i, x in enumerate(both):
            opcode = f.COMMANDS.index(COMMAND[x.kind])
            group = int(i >= len(pim))
            dot[i] = (opcode, x.bank, x.row, x.column, x.count, x.comps, x.results, x.last, group, 0)
            ch.left[group] += x.kind != "P_HEADER"
        words = [word_of(x.kind == "WRITE", x.bank, x.row, x.column) for x in plain]
        for p, sent in enumerate(([-1 - i for i in range(len(pim))], words)):
            ch.order[p, : len(sent), f.WORD], ch.order[p, : len(sent), f.OF] = sent, p
            ch.port[p, :2] = 0, len(sent)
        ch.order[0, : len(pim), f.WHEN] = every * np.arange(len(pim))
        logs, self.code, now = [], engine.DONE, 0
        while now < until and ch.left.any() and self.code != engine.STUCK:  # writes that nothing drives out may stay
            now = min(now + STEP, until) if self.code == engine.DONE else now
            self.code = engine.run_alone(ch, now)
            n = ch.state[f.N_COMMANDS]
            logs.append(ch.command[:n].copy())
            ch.state[f.N_COMMANDS] = 0
        self.commands = [
            (t, f.COMMANDS[c], b) for t, c, b, _ in np.concatenate([np.zeros((0, 4), np.int64), *logs]).tolist()
        ]
        self.done = tuple(ch.done.tolist())
        self.stuck = self.code == engine.STUCK
        assert self.stuck or until < END or not ch.left.any()
