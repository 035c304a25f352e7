# amaranth: UnusedElaboratable=no
"""Walks a program, a step a clock while the units that it needs are free."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

END = 0  # kind of a program's last step


class Walker(wiring.Component):
    """A program counter, its memory, and the memory that says where each job's program begins.

    start: job `job` begins, in the next clock, whatever was under way. step: the next step, which leaves in a clock in
    which `valid` and `go` are high. quiet: nothing is under way in this clock; a step with `wait`, and the last one,
    wait for that. done: high in the clock of the last step.
    """

    def __init__(self, step: data.StructLayout, steps: int, jobs: int, image: Sequence[int], entry: Sequence[int]):
        self.steps, self.jobs, self.image, self.entry = steps, jobs, image, entry
        ports = {"start": In(1), "job": In(range(jobs)), "step": Out(step), "valid": Out(1), "go": In(1)}
        super().__init__(ports | {"quiet": In(1), "done": Out(1)})
        self.active, self.at = Signal(), Signal(range(steps))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = unsigned(len(self.step.as_value()))
        m.submodules.path = path = memory.Memory(shape=width, depth=self.steps, init=self.image)
        m.submodules.entry = entry = memory.Memory(shape=len(self.at), depth=self.jobs, init=self.entry)
        here, begin = path.read_port(domain="comb"), entry.read_port(domain="comb")
        ends = Signal()
        m.d.comb += [here.addr.eq(self.at), self.step.eq(here.data), begin.addr.eq(self.job)]
        m.d.comb += ends.eq(self.step.kind == END)
        m.d.comb += self.valid.eq(self.active & ~ends & (~self.step.wait | self.quiet))
        m.d.comb += self.done.eq(self.active & ends & self.quiet)
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), self.at.eq(begin.data)]
        with m.Elif(self.done):
            m.d.sync += self.active.eq(0)
        with m.Elif(self.valid & self.go):
            m.d.sync += self.at.eq(self.at + 1)
        return m
