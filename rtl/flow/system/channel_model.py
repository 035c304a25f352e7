"""A channel of the cycle model that is fed a clock at a time."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.compiled.arguments import flatten
from pimloom.cycle_sim.compiled.kernel import Entry
from pimloom.cycle_sim.compiled.library import machine
from pimloom.cycle_sim.npu_pim.build import build
from pimloom.cycle_sim.npu_pim.kernels import engine
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.words import word_of
from pimloom.cycle_sim.npu_pim.places import names_of
from pimloom.rtl.npu_pim.plan import plan_of

PIM, DATA = range(2)  # ports
COMMANDS, SPARE = 16, 1 << 14  # commands of a request, with those that open and close rows, at most; refreshes


class Clock(NamedTuple):
    """What a channel did in a clock. taken: of each port; reads, copies, results: answers; issued: opcode, bank and
    row that it opens, else -1."""

    taken: tuple[int, int]
    reads: int
    copies: int
    results: int
    issued: tuple[int, int, int] | None


class ChannelModel:
    """`cycle_sim/npu_pim` from clock 0 on, for so many requests."""

    def __init__(self, spec: PimChannel, requests: int) -> None:
        table, self.op = compile_table(spec.device()), plan_of(spec).op
        names = names_of(table)
        self.place = {table.cmd(name): i for i, name in enumerate(names) if name in table.names}
        self.opcode = {i: c for c, i in self.place.items()}
        log = COMMANDS * requests + SPARE
        self.ch = build(spec, requests, ports=2, groups=requests, logging=True, log=log)
        self.ch = self.ch._replace(dot=np.zeros((requests, f.N_DOT), np.int64))
        self._run_until = _runner(self.ch)
        self.groups, self.dots, self.logged = 0, 0, 0
        self.waiting = dict[int, int]()  # groups that are not answered, and their opcodes

    def offer(self, port: int, t: int, fields: dict[str, int]) -> None:
        """A request that stands at the port from clock t on, behind those before it."""
        group, self.groups = self.groups, self.groups + 1
        if port == DATA:
            word = word_of(fields["write"], fields["bank"], fields["row"], fields["col"])
            opcode = self.op.wr if fields["write"] else self.op.rd
        else:
            opcode, word = fields["cmd"], -1 - self.dots
            header, gemv = opcode == self.op.header, opcode == self.op.gemv
            comps = fields["comps"]
            self.ch.dot[self.dots] = (
                self.place[opcode], fields["bank"], fields["row"], 0, comps * gemv, comps * header, fields["results"],
                fields["last"], group, 0,
            )  # fmt: skip
            self.dots += 1
        last = self.ch.port[port, f.LAST_ONE]
        self.ch.order[port, last] = word, t, group, 0
        self.ch.port[port, f.LAST_ONE] = last + 1
        self.ch.state[f.OFFER_AT] = 0
        if opcode != self.op.header:
            self.ch.left[group] = 1
            self.waiting[group] = opcode

    def clock(self, t: int) -> Clock:
        """Clock t, which comes after t - 1."""
        before = self.ch.port[:, f.OFFERED].copy()
        assert self._run_until(t + 1) == engine.DONE
        self.ch.state[f.NOW] = t + 1  # what lies between is quiet, but for requests yet to come
        taken = self.ch.port[:, f.OFFERED] - before
        over = [group for group in self.waiting if self.ch.left[group] == 0 and self.ch.done[group] - 1 <= t]
        op, ended = self.op, [self.waiting.pop(group) for group in over]
        n, issued = int(self.ch.state[f.N_COMMANDS]), None
        if n > self.logged:
            _, kind, bank, row = self.ch.command[self.logged].tolist()
            code = self.opcode[kind]
            issued = code, bank, row if code in (op.act, op.g_act) else -1
            self.logged = n
        took = int(taken[PIM]), int(taken[DATA])
        return Clock(took, ended.count(op.rd), ended.count(op.gwrite), ended.count(op.gemv), issued)


def _runner(ch: Any) -> Callable[[int], Any]:
    """`engine.run_alone` of a channel, whose many arrays are looked up only once."""
    kernel = engine.run_alone
    if not isinstance(kernel, Entry):
        return partial(kernel, ch)
    kinds, words = flatten((ch,))
    code = machine(kernel.name, (*kinds, "int"))
    return lambda until: code([*words, until], ch)()
