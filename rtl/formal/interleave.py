# amaranth: UnusedElaboratable=no
"""What is proved of the interleave controller: what its ports may show, as a checker tells that follows one sub-batch.

The sub-batch is any; so are the layers and the clocks that a unit takes, at most `limit`. `lemma` ties the checker to
the controller's registers; it carries itself from clock to clock, and the properties follow from it.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assume, Const, Module, Mux, Signal, Value

from pimloom.rtl.formal.checker import any_of, wire
from pimloom.rtl.formal.question import Claim
from pimloom.rtl.interleave import MOST_LAYERS, Interleave, Stage, edges

QKV, ATTENTION, THROUGH = range(3)  # what comes next for a sub-batch
WIDE = 13  # bits of a number of stages: 16 sub-batches, 255 layers


class Work:
    """A unit. busy: it works in this clock; working: it has before this clock, and did not end; age: clocks of its job
    before this one; mine: the job is about the sub-batch; ends: this is its last clock."""

    def __init__(self, m: Module, unit: Any, name: str, mine: Value, limit: Value, bits: int) -> None:
        self.unit, self.working, self.age = unit, Signal(name=f"{name}_working"), Signal(bits + 1, name=f"{name}_age")
        m.d.comb += unit.done.eq(AnySeq(1))
        self.busy = wire(m, unit.start | self.working, f"{name}_busy")
        self.mine, now = wire(m, mine, f"{name}_mine"), wire(m, Mux(unit.start, 0, self.age), f"{name}_now")
        self.ends = wire(m, self.busy & unit.done, f"{name}_ends")
        self.job = Signal.like(unit.job.as_value(), name=f"{name}_job_before")
        m.d.comb += Assume(~self.busy | unit.done | (now + 1 < limit))
        m.d.sync += [self.working.eq(self.busy & ~unit.done), self.age.eq(now + 1), self.job.eq(unit.job.as_value())]


class Watch:
    """The controller between free inputs, and what became of one sub-batch. next, at: its next work, and the layer of
    that; age: clocks of this stage before this one; count: stages that began in this iteration; all: its layers."""

    def __init__(self, m: Module, controller: Interleave, bits: int) -> None:
        self.m, self.controller = m, controller
        q, n = controller, controller.sub_batches
        m.submodules.controller = q
        self.limit = wire(m, AnyConst(bits), "limit")
        self.mine = wire(m, AnyConst(n.bit_length()), "sub_batch")
        m.d.comb += [Assume(self.mine < n), Assume(self.limit != 0)]
        m.d.comb += [q.start.eq(AnySeq(1)), q.layers.eq(AnySeq(len(q.layers)))]
        npu, pim = q.npu.job, q.pim.job
        self.through = wire(m, npu.through & (npu.sub_batch == self.mine), "through_mine")
        self.qkv = wire(m, npu.qkv.bit_select(self.mine, 1), "qkv_mine")
        self.attends = wire(m, pim.attention & (pim.sub_batch == self.mine), "attention_mine")
        self.npu = Work(m, q.npu, "npu", self.through | self.qkv, self.limit, bits)
        self.pim = Work(m, q.pim, "pim", self.attends, self.limit, bits)
        self.next, self.at, self.all = Signal(2), Signal(len(q.layers) + 1), Signal.like(q.layers)
        self.begins = wire(m, (q.stage == Stage.IDLE) & q.start & (q.layers != 0), "iteration_begins")
        self.idle = wire(m, q.stage == Stage.IDLE, "is_idle")
        self._follow(bits)

    def _follow(self, bits: int) -> None:
        m, q = self.m, self.controller
        with m.If(self.begins):
            m.d.sync += [self.next.eq(QKV), self.at.eq(0), self.all.eq(q.layers)]
        with m.Elif(self.npu.ends & self.npu.mine):
            m.d.sync += [self.next.eq(Mux(self.qkv, ATTENTION, QKV)), self.at.eq(self.at + self.through)]
        with m.Elif(self.pim.ends & self.pim.mine):
            m.d.sync += self.next.eq(THROUGH)
        self.stage, self.turn = Signal(Stage), Signal.like(q.turn, name="turn_before")
        self.age, self.count = Signal(bits + 1), Signal(WIDE)
        starts = wire(m, q.npu.start | q.pim.start, "stage_starts")  # no stage is without work
        self.age_now = wire(m, Mux(starts, 0, self.age), "age_now")
        self.count_now = wire(m, self.count + starts, "count_now")
        m.d.sync += [self.age.eq(self.age_now + 1), self.count.eq(Mux(self.begins, 0, self.count_now))]


def lemma(w: Watch) -> Iterator[Value]:
    """What the checker counts, in the controller's registers."""
    q, n = w.controller, w.controller.sub_batches
    in_ = {stage: wire(w.m, q.stage == stage, f"in_{stage.name}") for stage in Stage}
    yield any_of(in_.values())
    if n == 1:
        yield ~(in_[Stage.C] | in_[Stage.F])
        yield q.turn == 0
    else:
        yield Mux(in_[Stage.C], q.turn < n, Mux(in_[Stage.E], q.turn < n - 1, q.turn == 0))
        yield ~(in_[Stage.A] | in_[Stage.B]) | (q.layer == 0)
        yield ~in_[Stage.C] | (q.layer + 1 < q.all)
        yield ~(in_[Stage.E] | in_[Stage.F]) | (q.layer + 1 == q.all)
    yield w.idle | (q.layer < q.all) & (q.all <= MOST_LAYERS) & (q.all == w.all)
    yield ~w.idle | ~q.first
    yield ~q.first | ~(q.npu_over | q.pim_over)
    has = {"npu": q.npu.job.through | q.npu.job.qkv.any(), "pim": q.pim.job.attention}
    for name, work, over in (("npu", w.npu, q.npu_over), ("pim", w.pim, q.pim_over)):
        yield work.working == (~w.idle & ~q.first & has[name] & ~over)
        yield ~over | (has[name] & ~w.idle)
        yield ~work.working | (work.age == w.age) & (w.age < w.limit)
        yield ~work.working | (work.job == work.unit.job.as_value())
    yield w.idle | q.first | w.npu.working | w.pim.working
    yield from _whereabouts(w, in_)
    yield w.count == Mux(w.idle, w.count, _stages_before(w, in_) + ~q.first)
    yield ~q.done | w.idle & (w.count == _stages_of(n, w.all))


def _whereabouts(w: Watch, in_: dict[Stage, Signal]) -> Iterator[Value]:
    """What comes next for the sub-batch, by stage: as it is at the start, and moved on by who has ended."""
    q, n = w.controller, w.controller.sub_batches
    layer, mine, turn = q.layer, w.mine, q.turn
    if n == 1:
        steps: list[tuple[Stage, Value | int, Value]] = [
            (Stage.A, QKV, layer),
            (Stage.B, ATTENTION, layer),
            (Stage.E, THROUGH, layer),
        ]
        found = steps
    else:
        early = mine < turn
        found = [
            (Stage.A, QKV, layer),
            (Stage.B, Mux(mine == 0, ATTENTION, QKV), layer),
            (Stage.C, Mux(mine == turn, THROUGH, ATTENTION), layer + early),
            (Stage.E, Mux(early, QKV, Mux(mine == turn, THROUGH, ATTENTION)), layer + early),
            (Stage.F, Mux(mine == n - 1, THROUGH, QKV), layer + (mine != n - 1)),
        ]
    by_npu, by_pim = q.npu_over & w.npu.mine, q.pim_over & w.pim.mine
    for stage, start, at in found:
        step = Mux(by_npu, Mux(w.qkv, ATTENTION, QKV), Mux(by_pim, THROUGH, start))
        yield ~in_[stage] | (w.next == step) & (w.at == at + (by_npu & w.through))
    yield ~q.done | (w.next == QKV) & (w.at == w.all)


def _stages_before(w: Watch, in_: dict[Stage, Signal]) -> Value:
    """Stages that ended in this iteration, by where it is."""
    q, n = w.controller, w.controller.sub_batches
    if n == 1:
        return 3 * q.layer + Mux(in_[Stage.A], 0, Mux(in_[Stage.B], 1, 2))
    steady = 2 + n * q.layer
    return Mux(in_[Stage.A], 0, Mux(in_[Stage.B], 1, Mux(in_[Stage.F], steady + n - 1, steady + q.turn)))


def _stages_of(n: int, layers: Value) -> Value:
    """All stages of an iteration: three in each layer, or n in each and two before."""
    return 3 * layers if n == 1 else n * layers + 2


def units(w: Watch) -> Iterator[Value]:
    """Neither unit is started while it works, or without a job; a job stays as it is to its end; no sub-batch is with
    both units at once."""
    for work in (w.npu, w.pim):
        yield ~(work.unit.start & work.working)
        yield ~work.unit.start | work.unit.job.as_value().any()
        yield ~work.working | (work.job == work.unit.job.as_value())
    yield ~(w.npu.busy & w.pim.busy & w.npu.mine & w.pim.mine)


def order(w: Watch) -> Iterator[Value]:
    """No sub-batch overtakes itself: QKV, attention, then projection and FFN of a layer, each when the one before has
    ended, and layer after layer, none left out and none done twice."""
    npu, pim = w.controller.npu, w.controller.pim
    starts = npu.start & w.npu.mine
    yield ~(starts & ~w.through) | (w.next == QKV) & (npu.job.qkv_layer == w.at)
    yield ~(starts & w.through) | (w.next == THROUGH) & (npu.job.layer == w.at)
    yield ~(starts & w.through & w.qkv) | (npu.job.qkv_layer == w.at + 1)
    yield ~(pim.start & w.pim.mine) | (w.next == ATTENTION) & (pim.job.layer == w.at)
    yield ~((npu.start & w.npu.mine) | (pim.start & w.pim.mine)) | (w.at < w.all)


def whole(w: Watch) -> Iterator[Value]:
    """When `done` comes, each sub-batch has gone through all layers, and neither unit works; a new iteration begins in
    no other clock than one in which nothing is under way."""
    yield ~w.controller.done | (w.next == QKV) & (w.at == w.all) & ~w.npu.busy & ~w.pim.busy
    yield ~w.begins | ~w.npu.busy & ~w.pim.busy


def bounded_stages(w: Watch) -> Iterator[Value]:
    """Where a unit takes at most `limit` clocks, so does every stage; there are as many stages as layers and
    sub-batches ask for, and then `done` comes: 3 a layer, or of n > 1 sub-batches n a layer and two."""
    q, total = w.controller, _stages_of(w.controller.sub_batches, w.all)
    yield w.idle | (w.age_now < w.limit)
    yield w.idle | (w.count_now <= total)
    yield ~q.done | (w.count == total)


def units_seen(w: Watch) -> Iterator[Value]:
    """Each unit waits for the other, with one sub-batch without PIM or without NPU."""
    if w.controller.sub_batches > 1:
        yield w.npu.working & w.controller.pim_over
        yield w.pim.working & w.controller.npu_over
    yield w.npu.working
    yield w.pim.working


def order_seen(w: Watch) -> Iterator[Value]:
    """Each work of the sub-batch in a second layer."""
    npu, pim = w.controller.npu, w.controller.pim
    yield npu.start & w.qkv & (npu.job.qkv_layer == 1)
    yield pim.start & w.pim.mine & (pim.job.layer == 1)
    yield npu.start & w.through & (npu.job.layer == 1)


def whole_seen(w: Watch) -> Iterator[Value]:
    """The end of two layers; a second iteration."""
    yield w.controller.done & (w.all == 2)
    yield w.begins & (w.at != 0)


def bounded_seen(w: Watch) -> Iterator[Value]:
    """A stage that takes all its clocks; the last stage of two layers."""
    yield ~w.idle & (w.age_now + 1 == w.limit) & (w.limit > 3)
    yield ~w.idle & (w.all == 2) & (w.count_now == _stages_of(w.controller.sub_batches, w.all))


class Impatient(Interleave):
    """Does not wait for PIM where the NPU has ended."""

    def _barrier(self, npu_has: Value, pim_has: Value) -> Value:
        return Mux(npu_has, self.npu_over | self.npu.done, self.pim_over | self.pim.done)


class Heedless(Interleave):
    """A mutant that waits for neither NPU nor PIM."""

    def _barrier(self, npu_has: Value, pim_has: Value) -> Value:
        return Const(1, 1)


class Eager(Interleave):
    """Goes on when either has ended."""

    def _barrier(self, npu_has: Value, pim_has: Value) -> Value:
        return (npu_has & (self.npu_over | self.npu.done)) | (pim_has & (self.pim_over | self.pim.done))


class Deaf(Interleave):
    """Waits a clock more than it must."""

    def _barrier(self, npu_has: Value, pim_has: Value) -> Value:
        return (~npu_has | self.npu_over) & (~pim_has | self.pim_over)


class Alike(Interleave):
    """Gives PIM the sub-batch of the NPU."""

    def _pim(self, m: Module) -> Any:
        job = super()._pim(m)
        with m.If(job.attention & self.npu.job.through):
            m.d.comb += job.sub_batch.eq(self.npu.job.sub_batch)
        return job


class Stuck(Interleave):
    """A mutant that stays in the first layer."""

    def __init__(self, sub_batches: int) -> None:
        super().__init__(sub_batches, [edge._replace(layer=0) for edge in edges(sub_batches)])


class Short(Interleave):
    """Leaves out the last edge but one: from the stage before the last to the end."""

    def __init__(self, sub_batches: int) -> None:
        table = [edge._replace(to=Stage.IDLE) if edge.to in (Stage.F, Stage.E) else edge for edge in edges(sub_batches)]
        super().__init__(sub_batches, table)


class Hasty(Interleave):
    """Leaves out the stage in which PIM begins."""

    def __init__(self, sub_batches: int) -> None:
        after = Stage.E if sub_batches == 1 else Stage.C
        table = [edge._replace(to=after) if edge.to is Stage.B else edge for edge in edges(sub_batches)]
        super().__init__(sub_batches, table)


def claims(sub_batches: int) -> dict[str, Claim]:
    """The properties of a controller; of a single sub-batch no stage has work for both units."""
    shared = (Impatient, Eager, Alike) if sub_batches > 1 else ()
    return {
        "units": Claim(units, units_seen, (Heedless, *shared), lemma),
        "order": Claim(order, order_seen, (Stuck, Hasty), lemma),
        "whole": Claim(whole, whole_seen, (Short,), lemma),
        "bounded": Claim(bounded_stages, bounded_seen, (Deaf, Stuck), lemma),
    }


def setup(sub_batches: int, m: Module, twin: type[Interleave] | None, bits: int) -> Watch:
    """The controller, or a twin, between free inputs."""
    return Watch(m, (twin or Interleave)(sub_batches), bits)
