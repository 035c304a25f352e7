# amaranth: UnusedElaboratable=no
"""The interleave controller in gates: which sub-batch the NPU works on and which PIM, stage by stage, with barriers.

The stages are those of NeuPIMs (casys-kaist/NeuPIMs@f299af3, StageProgram.cc) for two sub-batches, and of any number of
them as `mappers/interleave.py` goes on with them; the edges between the stages are a table, so that one can be bent.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.error import UserError

MOST_SUB_BATCHES = 16
MOST_LAYERS = 255


class Stage(IntEnum):
    """C stands for C and D of two sub-batches, or C1 to Cn; E for E, or E1 to E(n - 1): `turn` says which."""

    IDLE = 0
    A = 1
    B = 2
    C = 3
    E = 4
    F = 5


class Edge(NamedTuple):
    """From a stage that has ended to the next; the first edge of a stage whose conditions hold is taken.

    turns: taken only while turn + 1 < turns; beyond: only while layer + beyond < layers; either None: always.
    turn: what becomes of it; layer: added to the layer.
    """

    at: Stage
    to: Stage
    turns: int | None = None
    beyond: int | None = None
    turn: Literal["zero", "next"] = "zero"
    layer: int = 0


def edges(sub_batches: int) -> tuple[Edge, ...]:
    """All edges for so many sub-batches; that of IDLE is taken when an iteration starts."""
    idle, a, b, c, e, f = Stage
    if sub_batches == 1:
        return Edge(idle, a), Edge(a, b), Edge(b, e), Edge(e, a, beyond=1, layer=1), Edge(e, idle)
    return (
        Edge(idle, a),
        Edge(a, b),
        Edge(b, c, beyond=1),
        Edge(b, e),
        Edge(c, c, turns=sub_batches, turn="next"),
        Edge(c, c, beyond=2, layer=1),
        Edge(c, e, layer=1),
        *((Edge(e, e, turns=sub_batches - 1, turn="next"),) if sub_batches > 2 else ()),
        Edge(e, f),
        Edge(f, idle),
    )


def npu_layout(sub_batches: int, layers: int = MOST_LAYERS) -> data.StructLayout:
    """A job of the NPU: if `through`, projection and FFN of `sub_batch` in `layer`; then one GEMM for the QKV of the
    sub-batches whose bits are high in `qkv`, in `qkv_layer`."""
    fields = {"through": 1, "sub_batch": range(sub_batches), "layer": range(layers)}
    return data.StructLayout(fields | {"qkv": sub_batches, "qkv_layer": range(layers)})


def pim_layout(sub_batches: int, layers: int = MOST_LAYERS) -> data.StructLayout:
    """A job of PIM, if `attention`: that of `sub_batch` in `layer`."""
    return data.StructLayout({"attention": 1, "sub_batch": range(sub_batches), "layer": range(layers)})


class Unit(wiring.Signature):
    """A unit that works for the controller. start: high in the first clock of a job; job: all zero where there is none,
    and steady in the whole stage; done: the unit's answer, high in the job's last clock, which may be the first."""

    def __init__(self, job: data.StructLayout) -> None:
        super().__init__({"start": Out(1), "job": Out(job), "done": In(1)})


class Interleave(wiring.Component):
    """Takes `sub_batches` sub-batches through all layers of a decoder, the NPU beside PIM.

    start: begins an iteration of `layers` layers, 1 to 255, in the clock after, when idle and `layers` is not 0.
    npu, pim: the units. A stage is a barrier: the next one begins in the clock after both have ended what they had. A
    `done` of a unit that has nothing to do in this stage, or no more, is not looked at. stage, turn: the stage of this
    clock; which of the C or E stages. done: high in the clock after the last stage. Outputs come out of registers and
    what is decoded from them: none depends on an input of the same clock.

    Raises UserError for less than one sub-batch, or more than 16.
    """

    def __init__(self, sub_batches: int, table: Sequence[Edge] | None = None) -> None:
        if not 1 <= sub_batches <= MOST_SUB_BATCHES:
            raise UserError(f"an interleave controller has 1 to {MOST_SUB_BATCHES} sub-batches, not {sub_batches}")
        self.sub_batches = sub_batches
        self.edges = tuple(edges(sub_batches) if table is None else table)
        super().__init__(
            {
                "start": In(1),
                "layers": In(range(MOST_LAYERS + 1)),
                "npu": Out(Unit(npu_layout(sub_batches))),
                "pim": Out(Unit(pim_layout(sub_batches))),
                "stage": Out(Stage),
                "turn": Out(range(sub_batches)),
                "done": Out(1),
            }
        )
        self.layer = Signal(range(MOST_LAYERS))
        self.all = Signal(range(MOST_LAYERS + 1), name="all_layers")
        """The layer, in a stage between two the earlier one; the layers of this iteration."""
        self.first = Signal()
        self.npu_over = Signal()
        self.pim_over = Signal()
        """Whether this is the first clock of a stage; whether a unit ended before this clock."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        npu_has = Signal()
        pim_has = Signal()
        ends = Signal()
        accept = Signal()
        npu, pim = self._npu(m), self._pim(m)
        m.d.comb += [npu_has.eq(npu.through | npu.qkv.any()), pim_has.eq(pim.attention)]
        m.d.comb += [self.npu.start.eq(self.first & npu_has), self.pim.start.eq(self.first & pim_has)]
        m.d.comb += accept.eq((self.stage == Stage.IDLE) & self.start & (self.layers != 0))
        m.d.comb += ends.eq((self.stage != Stage.IDLE) & self._barrier(npu_has, pim_has))
        go = Signal()
        m.d.comb += go.eq(ends | accept)
        m.d.sync += [self.first.eq(0), self.done.eq(0)]
        m.d.sync += self.npu_over.eq(~go & (self.npu_over | self.npu.done & npu_has))
        m.d.sync += self.pim_over.eq(~go & (self.pim_over | self.pim.done & pim_has))
        with m.If(accept):
            m.d.sync += [self.layer.eq(0), self.all.eq(self.layers)]
        with m.If(go), m.Switch(self.stage):
            for stage in Stage:
                with m.Case(stage):
                    self._leave(m, [edge for edge in self.edges if edge.at is stage])
        return m

    def _barrier(self, npu_has: Value, pim_has: Value) -> Value:
        """Whether both units have ended, in this clock or before."""
        return (~npu_has | self.npu_over | self.npu.done) & (~pim_has | self.pim_over | self.pim.done)

    def _leave(self, m: Module, table: Sequence[Edge]) -> None:
        """The first edge whose conditions hold."""
        for n, edge in enumerate(table):
            turns = Const(1, 1) if edge.turns is None else self.turn + 1 < edge.turns
            beyond = Const(1, 1) if edge.beyond is None else self.layer + edge.beyond < self.all
            with m.If(turns & beyond) if n == 0 else m.Elif(turns & beyond):
                m.d.sync += [self.stage.eq(edge.to), self.first.eq(edge.to is not Stage.IDLE)]
                m.d.sync += [self.turn.eq(self.turn + 1 if edge.turn == "next" else 0)]
                m.d.sync += self.done.eq((edge.to is Stage.IDLE) & (edge.at is not Stage.IDLE))
                if edge.layer:
                    m.d.sync += self.layer.eq(self.layer + edge.layer)

    def _npu(self, m: Module) -> data.View:
        """The NPU's job in this stage."""
        job, n = self.npu.job, self.sub_batches
        with m.Switch(self.stage):
            with m.Case(Stage.A):
                m.d.comb += [job.qkv.eq(1), job.qkv_layer.eq(self.layer)]
            if n > 1:
                with m.Case(Stage.B):
                    m.d.comb += [job.qkv.eq(Cat(Const(0, 1), Const(-1, n - 1))), job.qkv_layer.eq(self.layer)]
                with m.Case(Stage.C):
                    m.d.comb += [job.through.eq(1), job.sub_batch.eq(self.turn), job.layer.eq(self.layer)]
                    m.d.comb += [job.qkv.eq(1 << self.turn), job.qkv_layer.eq(self.layer + 1)]
            with m.Case(Stage.E):
                m.d.comb += [job.through.eq(1), job.sub_batch.eq(self.turn), job.layer.eq(self.layer)]
            with m.Case(Stage.F):
                m.d.comb += [job.through.eq(1), job.sub_batch.eq(n - 1), job.layer.eq(self.layer)]
        return job

    def _pim(self, m: Module) -> data.View:
        """The job of PIM in this stage: the sub-batch after the NPU's; after the last comes the first, a layer on."""
        job, n = self.pim.job, self.sub_batches
        last = self.turn == n - 1
        with m.Switch(self.stage):
            with m.Case(Stage.B):
                m.d.comb += [job.attention.eq(1), job.layer.eq(self.layer)]
            if n > 1:
                with m.Case(Stage.C):
                    m.d.comb += [job.attention.eq(1), job.sub_batch.eq(Mux(last, 0, self.turn + 1))]
                    m.d.comb += job.layer.eq(self.layer + last)
                with m.Case(Stage.E):
                    m.d.comb += [job.attention.eq(1), job.sub_batch.eq(self.turn + 1), job.layer.eq(self.layer)]
        return job
