# amaranth: UnusedElaboratable=no
"""What is proved of the tile sequencer: what its ports may show, as a checker with two halves of each kind tells.

Jobs are any, operands come and results are taken at any time. `lemma` ties the checker to the sequencer's registers.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from amaranth.asserts import AnySeq
from amaranth.hdl import Const, Module, Signal, Value

from pimloom.rtl.formal.question import Question, Task
from pimloom.rtl.formal.tiles_checker import BITS, DEPTH, LONGEST, SIDE, Watch, fits, lemma
from pimloom.rtl.npu.shape import ArrayShape, Dataflow
from pimloom.rtl.npu.tiles import TileSequencer


def reads(w: Watch) -> Iterator[Value]:
    """Nothing is read from a half of the pads but what was loaded there and not yet freed; nothing is freed that was
    not loaded."""
    t = w.tiles
    yield ~t.across.valid | w.full.bit_select(t.across.tile.half, 1)
    if t.stationary:
        yield ~t.down.valid | w.full.bit_select(t.down.tile.half, 1)
    yield ~t.freed | w.full.bit_select(w.empty, 1)


def sums(w: Watch) -> Iterator[Value]:
    """No tile sums into a half of the accumulator that is complete and not taken; counts of halves do not overflow."""
    t = w.tiles
    yield ~t.across.valid | ~w.complete.bit_select(t.across.tile.sums, 1)
    yield (t.operands <= 2) & (t.room <= 2)


def streams(w: Watch) -> Iterator[Value]:
    """A tile streams without a pause, places 0, 1, … to the last, and no tile begins before; rows and columns are those
    of the array at most; all tiles of a job are as many rows and columns as it has, when it is done."""
    now, before = w.tiles.across, w.before
    follows = now.valid & (now.address == before.address + 1) & (now.tile == before.tile) & ~now.first
    yield ~(before.valid & ~before.last) | follows
    yield ~(now.valid & (~before.valid | before.last)) | (now.first & (now.address == 0))
    yield ~now.valid | (now.last == (now.address + 1 == w.streamed))
    yield ~now.valid | fits(now.tile)
    yield ~w.lost & (~w.tiles.done | (w.area == 0))


def progress(w: Watch) -> Iterator[Value]:
    """Whose operands are loaded, and whose results are taken, as soon as may be, a job is done within the clocks of its
    tiles one after the other; it is done once, and what cannot be is refused."""
    t = w.tiles
    yield ~w.going | (w.age <= LONGEST)
    yield ~t.done | w.going
    refused = Signal(name="should_refuse")
    w.m.d.sync += refused.eq(t.job.valid & t.job.ready & ~w.fits)
    yield t.refused == refused


def reads_seen(w: Watch) -> Iterator[Value]:
    """Both halves read; a half freed while the other is read."""
    t = w.tiles
    yield from (t.across.valid & (t.across.tile.half == half) for half in range(2))
    yield t.freed & t.across.valid & (t.across.tile.half != w.empty)


def sums_seen(w: Watch) -> Iterator[Value]:
    """A tile streams while the other half is complete; both are complete."""
    yield w.tiles.across.valid & w.complete.any()
    yield w.complete.all()


def streams_seen(w: Watch) -> Iterator[Value]:
    """A tile right behind another; a partial one; a job of four tiles done."""
    now = w.tiles.across
    yield now.valid & now.first & w.before.valid
    yield now.valid & (now.tile.rows == 1) & (now.tile.columns == 1)
    yield w.tiles.done & (w.asked.m == 3) & (w.asked.k == 3) & (w.asked.n == 3)


def progress_seen(w: Watch) -> Iterator[Value]:
    """The longest job done; a refusal."""
    yield w.tiles.done & (w.age > LONGEST // 2)
    yield w.tiles.refused


class Hasty(TileSequencer):
    """A mutant that does not wait for the operands of a tile."""

    def _there(self) -> Value:
        return Const(1)


class Generous(TileSequencer):
    """Frees a half when its tile sets off."""

    def _frees(self) -> Value:
        return self.set_off


class Crowded(TileSequencer):
    """Does not ask whether the accumulator has room."""

    def _has_room(self) -> Value:
        return Const(1)


class Short(TileSequencer):
    """Ends a tile before its last operand."""

    def _ends(self) -> Value:
        return super()._ends() | (self.index == 1)


class Waiting(TileSequencer):
    """Begins only with the operands of two tiles."""

    def _there(self) -> Value:
        return self.operands == 2


class TileTwin(NamedTuple):
    """A sequencer that breaks a property."""

    kind: type[TileSequencer]


class TileProperty(NamedTuple):
    """holds: bits that are always high; seen: bits that are high in some trace. lemma: bits that are always high too,
    proved first and then assumed. Without one there is one job, operands are loaded and results taken as soon as may
    be, and what no induction over one clock shows is searched from reset."""

    dataflow: Dataflow
    holds: Callable[[Watch], Iterator[Value]]
    seen: Callable[[Watch], Iterator[Value]]
    twins: tuple[TileTwin, ...]
    lemma: Callable[[Watch], Iterator[Value]] | None = lemma


def of_flow(flow: Dataflow) -> dict[str, TileProperty]:
    """The properties of one dataflow, by name."""
    return {
        f"reads_{flow}": TileProperty(flow, reads, reads_seen, (TileTwin(Hasty), TileTwin(Generous))),
        f"sums_{flow}": TileProperty(flow, sums, sums_seen, (TileTwin(Crowded),)),
        f"streams_{flow}": TileProperty(flow, streams, streams_seen, (TileTwin(Short),)),
        f"progress_{flow}": TileProperty(flow, progress, progress_seen, (TileTwin(Waiting),), None),
    }


TILE_PROPERTIES = of_flow("ws") | of_flow("os")


class TileQuestion(Question):
    """One property of a tile sequencer of 2 x 2, for the tasks of `pimloom.rtl.formal.proof`. Reset is at the start."""

    def __init__(self, about: str, task: Task, twin: TileTwin | None = None) -> None:
        super().__init__(task)
        self.about = TILE_PROPERTIES[about]
        kind = twin.kind if twin else TileSequencer
        self.tiles = kind(ArrayShape(SIDE, SIDE, self.about.dataflow), DEPTH, BITS)

    def elaborate(self, platform: object) -> Module:
        m = self.begun()
        m.submodules.tiles = t = self.tiles
        watch = Watch(m, t)
        job, about, first = t.job.payload.as_value(), self.about, Signal(init=1)
        free = about.lemma is not None
        m.d.comb += [t.job.valid.eq(AnySeq(1) if free else first), job.eq(AnySeq(len(job)))]
        m.d.comb += t.loaded.eq(watch.may_load & (AnySeq(1) if free else 1))
        m.d.comb += t.taken.eq(watch.may_take & (AnySeq(1) if free else 1))
        m.d.sync += first.eq(0)
        self.put(m, watch, about.holds, about.seen, lemma if self.task == "lemma" else about.lemma)
        return m
