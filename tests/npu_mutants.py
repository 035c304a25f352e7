"""Decisions, counts and edges of the NPU's blocks, each wrong in the gates alone."""

from pimloom.rtl.npu.gemm import Gemm
from pimloom.rtl.npu.pads import Accumulator, OperandPads
from pimloom.rtl.npu.tiles import TileSequencer
from pimloom.rtl.npu.vector import VectorUnit
from tests.bent_sources import Edit, Edits, either_half, off_by_one

BOTH: Edits = {
    (OperandPads, "elaborate"): [
        Edit("self.i.ready.eq(`self._may_load()`)", ("1",)),
        either_half("taken & self.i.payload.last"),
        Edit("self.free + self.freed - self.loaded", ("self.free - self.loaded", "self.free + self.freed")),
        Edit("self.place.eq(`Mux(self.i.payload.last, 0, self.place + 1)`)",
             ("self.place + 1", "Mux(self.i.payload.last, 1, self.place + 1)",
              "Mux(self.i.payload.last, 0, self.place + 2)")),
        Edit("self.half ^ self.i.payload.last", ("self.half", "~self.half")),
        *off_by_one("edge.fall.eq(`now.address`)"),
        Edit("now.tile.rows > i", ("now.tile.rows >= i", "now.tile.rows > i + 1")),
        Edit("now.tile.columns > j", ("now.tile.columns >= j", "now.tile.columns > j + 1")),
    ],
    (OperandPads, "_may_load"): [Edit("self.free != 0", ("self.free > 1", "1"))],
    (Accumulator, "elaborate"): [
        Edit("self.full.bit_select(self.half, 1)", ("self.full.any()", "self.full.all()")),
        either_half("moved & self.o.payload.last"),
        *off_by_one("self.place == `Array(self.top)[self.half]`"),
        Edit("Mux(self.o.payload.last, 0, self.place + 1)",
             ("self.place + 1", "Mux(self.o.payload.last, 1, self.place + 1)")),
        Edit("self.half ^ self.o.payload.last", ("self.half", "~self.half")),
        Edit("now.valid & now.end & (now.sums == half)",
             ("now.end & (now.sums == half)", "now.valid & (now.sums == half)", "now.valid & now.end")),
        either_half("self.taken & (self.half == half)"),
        *off_by_one("self.top[half].eq(`now.top`)"),
    ],
    (Accumulator, "_bank"): [
        Edit("Mux(now.upper, result.x, adder.o)", ("result.x", "adder.o")),
        either_half("now.valid & result.valid"),
    ],
    (TileSequencer, "elaborate"): [
        Edit("~pause & self._there() & (~self.next_.upper | self._has_room())",
             ("self._there() & (~self.next_.upper | self._has_room())",
              "~pause & (~self.next_.upper | self._has_room())", "~pause & self._there()",
              "~pause & self._there() & self._has_room()")),
        Edit("self.active & self.remain & ready", ("self.remain & ready", "self.active & ready")),
        Edit("self.operands + self.loaded - self.begin", ("self.operands + self.loaded", "self.operands - self.begin")),
        Edit("self.room + self.taken - (self.begin & self.next_.upper)",
             ("self.room + self.taken - self.begin", "self.room - (self.begin & self.next_.upper)",
              "self.room + self.taken")),
    ],
    (TileSequencer, "_there"): [either_half("(self.operands != 0) | self.loaded", "self.operands > 1")],
    (TileSequencer, "_has_room"): [Edit("self.room != 0", ("self.room > 1", "1"))],
    (TileSequencer, "_ends"): [*off_by_one("`self.streamed - 1`")],
    (TileSequencer, "_frees"): [
        Edit("self.leaving[-1] | (self.left == 1) & ~self.asked.overlapped",
             ("(self.left == 1)", "self.leaving[-2]", "self.leaving[0]", "0")),
    ],
    (TileSequencer, "_take"): [
        either_half("~self.active & ~self.leaving.any()"),
        either_half("self.job.valid & self.job.ready"),
        Edit("self.active.eq(`1`)", ("0",)),
        Edit("self.remain.eq(`1`)", ("0",)),
        *off_by_one("self.beside.eq(`given.n`)", "self.below.eq(`given.k if self.stationary else given.m`)"),
    ],
    (TileSequencer, "_walk"): [
        Edit("self.below <= rows", ("self.below < rows", "self.below <= rows + 1", "self.below <= 2 * rows")),
        Edit("self.beside <= columns",
             ("self.beside < columns", "self.beside <= columns + 1", "self.beside <= 2 * columns")),
        Edit("m.If(`self.begin`)", ("self.set_off",)),
        Edit("self.half.eq(`~self.half`)", ("self.half",)),
        Edit("self.sums ^ self.next_.lower", ("self.sums", "~self.sums")),
        Edit("self.upper.eq(`lowest`)", ("0", "1")),
        *off_by_one("Mux(lowest, self.along, `self.below - rows`)", "`self.beside - columns`"),
        Edit("~lowest | ~rightmost", ("~lowest", "~rightmost", "1")),
        Edit("m.If(`lowest`)", ("1", "0")),
    ],
    (TileSequencer, "_stream"): [
        Edit("self.streaming.eq(`1`)", ("0",)),
        *off_by_one("self.index.eq(`0`)", "self.index.eq(`self.index + 1`)"),
        Edit("self.index == 0", ("self.index == 1", "self.index <= 1")),
        Edit("self.streaming.eq(`~last`)", ("0", "1")),
    ],
    (TileSequencer, "_count"): [
        *off_by_one("self.wait.eq(`clocks - 1`)"),
        Edit("m.Elif(`self.wait != 0`)", ("self.wait > 1",)),
    ],
    (TileSequencer, "_leave"): [
        *off_by_one("Mux(self.left == 0, 0, `self.left - 1`)"),
        either_half("self.set_off & (stays > later)"),
        Edit("self.across.valid & self.across.last & self.asked.overlapped",
             ("self.across.valid & self.across.last", "self.across.valid & self.asked.overlapped",
              "self.across.last & self.asked.overlapped")),
        Edit("self.active & ~self.remain & (self.falling == 0) & (self.left == 0)",
             ("self.active & ~self.remain & (self.left == 0)", "self.active & ~self.remain & (self.falling == 0)",
              "self.active & (self.falling == 0) & (self.left == 0)",
              "~self.remain & (self.falling == 0) & (self.left == 0)",
              "self.active & ~self.remain & (self.falling == 0) & (self.left <= 1)")),
        Edit("m.If(`self.done`)", ("0",)),
    ],
}  # fmt: skip
WS: Edits = {
    (TileSequencer, "_preload"): [
        *off_by_one("`self.streamed - self.next_.rows`", "`self.streamed + self.preloaded.columns`"),
        Edit("self.streamed > self.next_.rows", ("1",)),
        Edit("Mux(self.asked.overlapped, behind, stays)", ("stays",)),
        Edit("self.falling == 1", ("self.falling == 2", "self.falling == 0")),
        Edit("down.valid.eq(`self.falling != 0`)", ("self.falling > 1", "1")),
        *off_by_one("self.falling.eq(`self.next_.rows`)", "down.address.eq(`self.falling - 1`)"),
        either_half("self.set_off & (gap != 0)"),
        Edit("(self.falling != 0) | (self.wait != 0)", ("self.falling != 0", "self.wait != 0")),
        Edit("Mux(self.set_off, `gap != 0`, ", ("0", "1", "gap > 1")),
    ],
}  # fmt: skip
OS: Edits = {
    (TileSequencer, "_enter"): [
        *off_by_one("`self.streamed + rows` + self.next_.columns"),
        Edit("self.wait != 0", ("self.wait > 1", "0")),
        Edit("Mux(self.asked.overlapped, overlapped, stays)", ("overlapped", "stays")),
        Edit("Mux(self.streamed > rows, self.streamed, rows)", ("self.streamed", "rows")),
    ],
    (Gemm, "_arrive_os"): [
        Edit("left.valid & left.last", ("left.valid", "left.last")),
        Edit("Mux(ends, left.tile.rows - 1, `Mux(more == 0, 0, more - 1)`)",
             ("0", "Mux(more == 0, 0, more)")),
        Edit("ends | (more != 0)", ("ends", "more != 0", "ends | (more > 1)")),
        *off_by_one("`Mux(ends, left.tile.rows, more) - 1`", "now.top.eq(`Mux(ends, left.tile.rows - 1, top)`)"),
        Edit("Mux(ends, left.tile.sums, sums)", ("sums", "left.tile.sums")),
        Edit("now.address == 0", ("now.address == 1", "now.address <= 1", "1")),
    ],
}  # fmt: skip

# What nothing can tell, and why.
ANYTHING = "lanes beyond a tile's rows and columns may hold anything"
IN_TURN = "halves are filled in the order in which they are taken"
TOGETHER = "a result leaves the array in the clock in which it is expected"
NONE_REMAINS = "no tile remains where no job is active"
SAME_BOTH = {
    "OperandPads.elaborate: now.tile.columns > j -> now.tile.columns >= j": ANYTHING,
    "Accumulator.elaborate: self.full.bit_select(self.half, 1) -> self.full.any()": IN_TURN,
    "Accumulator._bank: now.valid & result.valid -> now.valid": f"{TOGETHER}; {ANYTHING}",
    "Accumulator._bank: now.valid & result.valid -> result.valid": TOGETHER,
    "TileSequencer.elaborate: self.active & self.remain & ready -> self.remain & ready": NONE_REMAINS,
}
SAME_WS = SAME_BOTH | {
    "OperandPads.elaborate: now.tile.rows > i -> now.tile.rows >= i": "elements without a weight hand on what they get",
}
UPPER = "os: each tile sums from nothing, and its sums are complete"
SAME_OS = SAME_BOTH | dict.fromkeys((
    "Accumulator._bank: Mux(now.upper, result.x, adder.o) -> result.x",
    "TileSequencer.elaborate: self.room + self.taken - (self.begin & self.next_.upper) -> "
    "self.room + self.taken - self.begin",
    "TileSequencer.elaborate: ~pause & self._there() & (~self.next_.upper | self._has_room()) -> "
    "~pause & self._there() & self._has_room()",
    "TileSequencer._walk: self.upper.eq(`lowest`) -> 0",
    "TileSequencer._walk: self.upper.eq(`lowest`) -> 1",
    "TileSequencer._walk: self.sums ^ self.next_.lower -> ~self.sums",
), UPPER) | {
    "OperandPads.elaborate: edge.fall.eq(`now.address`) -> (now.address) + 1": "os: no weights fall",
    "OperandPads.elaborate: edge.fall.eq(`now.address`) -> (now.address) - 1": "os: no weights fall",
    "Accumulator.elaborate: now.valid & now.end & (now.sums == half) -> now.end & (now.sums == half)":
        "os: the address is 0 only with a result",
    "TileSequencer._walk: m.If(`self.begin`) -> self.set_off": "os: a tile that begins sets off",
    "TileSequencer._leave: self.active & ~self.remain & (self.falling == 0) & (self.left == 0) -> "
    "self.active & ~self.remain & (self.left == 0)": "os: no weights fall",
}  # fmt: skip
SAME: dict[str, dict[str, str]] = {"ws": SAME_WS, "os": SAME_OS}
GEMM: dict[str, Edits] = {"ws": BOTH | WS, "os": BOTH | OS}
VECTORS: Edits = {
    (VectorUnit, "elaborate"): [
        Edit("self.i.valid & self.i.ready & ~self.open",
             ("self.i.valid & ~self.open", "self.i.ready & ~self.open", "self.i.valid & self.i.ready")),
        Edit("self.o.valid & self.o.ready & self.o.payload.last",
             ("self.o.ready & self.o.payload.last", "self.o.valid & self.o.ready")),
        Edit("self.inside + begins - leaves", ("self.inside + begins", "self.inside - leaves")),
        Edit("m.If(`self.i.valid & self.i.ready`)", ("self.i.valid", "self.i.ready")),
        Edit("~self.i.payload.last", ("0", "1")),
        Edit("self.now.eq(`self._goes_to(op)`)", ("op", "self.now")),
        either_half("unit.i.valid.eq(`self.i.valid & may`)"),
        either_half("unit.i.ready & may"),
        *off_by_one("self.now == `kind`"),
    ],
    (VectorUnit, "_may"): [
        Edit("self.open | (self.inside == 0) | (op == self.now) & ~self.inside.all()",
             ("(self.inside == 0) | (op == self.now)", "self.open | (op == self.now)",
              "self.open | (self.inside == 0)", "1", "self.open | (self.inside <= 1) | (op == self.now)")),
    ],
    (VectorUnit, "_goes_to"): [Edit("Mux(self.open, self.now, op)", ("self.now", "op"))],
}  # fmt: skip
ONE_OP = "all elements of a vector have the same op"
SAME_VECTORS = dict.fromkeys((
    "VectorUnit.elaborate: self.now.eq(`self._goes_to(op)`) -> op",
    "VectorUnit._may: self.open | (self.inside == 0) | (op == self.now) & ~self.inside.all() -> "
    "(self.inside == 0) | (op == self.now)",
    "VectorUnit._goes_to: Mux(self.open, self.now, op) -> op",
), ONE_OP)  # fmt: skip
