# amaranth: UnusedElaboratable=no
"""Walks a program, a step a clock while the units that it needs are free."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.rtl.interleave import Unit, npu_layout
from pimloom.rtl.system.plan import Sizes

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
        self.active, self.at = Signal(name="active"), Signal(range(steps), name="at")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        here, begins = self._memories(m)
        ends = Signal()
        m.d.comb += [self.step.eq(here), ends.eq(self.step.kind == END)]
        m.d.comb += self.valid.eq(self.active & ~ends & self._may())
        m.d.comb += self.done.eq(self.active & ends & self.quiet)
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), self.at.eq(begins)]
        with m.Elif(self.done):
            m.d.sync += self.active.eq(0)
        with m.Elif(self.valid & self.go):
            m.d.sync += self.at.eq(self.at + 1)
        return m

    def _memories(self, m: Module) -> tuple[Value, Value]:
        """The step at `at`, and where the program of `job` begins."""
        width = unsigned(len(self.step.as_value()))
        m.submodules.path = path = memory.Memory(shape=width, depth=self.steps, init=self.image)
        m.submodules.entry = entry = memory.Memory(shape=len(self.at), depth=self.jobs, init=self.entry)
        here, begin = path.read_port(domain="comb"), entry.read_port(domain="comb")
        m.d.comb += [here.addr.eq(self.at), begin.addr.eq(self.job)]
        return here.data, begin.data

    def _may(self) -> Value:
        """Whether the step need not wait, or no more."""
        return ~self.step.wait | self.quiet


class Jobs(wiring.Component):
    """The jobs of the NPU on a walker: the program of `through`, then that of `qkv`, whichever there are.

    unit: the job; start, job: of the walker; ended: the walker's `done`. A program begins in the clock after the one
    before ended, and a job is done when its last program has.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sub_batches, self.layer_bits = sizes.sub_batches, bits_for(sizes.layers - 1)
        self.bits = self.layer_bits + sizes.sub_batches + 1
        walker = {"start": Out(1), "job": Out(self.bits), "ended": In(1)}
        super().__init__({"unit": In(Unit(npu_layout(sizes.sub_batches))), **walker})
        self.qkv_next = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job, begins, is_qkv = self.unit.job, self.unit.start, Signal(name="is_qkv")
        m.d.comb += [self.start.eq(begins | self.ended & self.qkv_next), self.unit.done.eq(self.ended & ~self.qkv_next)]
        m.d.comb += is_qkv.eq(Mux(begins, ~job.through, 1))
        with m.If(self.start):
            m.d.sync += self.qkv_next.eq(self._another(is_qkv))
        which, layer = Signal(self.sub_batches), Signal(self.layer_bits)
        m.d.comb += which.eq(Mux(is_qkv, job.qkv, job.sub_batch))
        m.d.comb += layer.eq(Mux(is_qkv, job.qkv_layer, job.layer))
        m.d.comb += self.job.eq(Cat(layer, which, is_qkv))
        return m

    def _another(self, is_qkv: Value) -> Value:
        """Whether a program follows the one that starts."""
        return ~is_qkv & self.unit.job.qkv.any()
