"""Decisions, counts and edges of the small machine's own blocks, each wrong in the gates alone."""

from pimloom.rtl.system.array import ArrayUnit
from pimloom.rtl.system.attention import Attention
from pimloom.rtl.system.columns import Merge, Mover, Reader, Writer
from pimloom.rtl.system.dots import Dots
from pimloom.rtl.system.machine import NpuPimMachine
from pimloom.rtl.system.npu import Npu
from pimloom.rtl.system.vectors import Vectors
from pimloom.rtl.system.walker import Jobs, Walker
from tests.bent_sources import Edit, Edits, either_half, off_by_one

MACHINE: Edits = {
    (Walker, "elaborate"): [
        Edit("self.step.kind == END", ("self.step.kind == END + 1", "self.step.kind <= END + 1")),
        Edit("self.active & ~ends & self._may()",
             ("~ends & self._may()", "self.active & ~ends", "self.active & self._may()")),
        Edit("self.done.eq(`self.active & ends & self.quiet`)",
             ("self.active & ends", "ends & self.quiet", "self.active & self.quiet")),
        Edit("m.If(`self.start`)", ("0", "self.start & ~self.active")),
        Edit("self.active.eq(`1`)", ("0",)),
        *off_by_one("self.at.eq(`begins`)", "`self.at + 1`"),
        Edit("m.Elif(`self.done`)", ("0", "self.valid")),
        Edit("self.active.eq(`0`)", ("1",)),
        either_half("self.valid & self.go"),
    ],
    (Walker, "_may"): [either_half("~self.step.wait | self.quiet", "self.quiet & self.step.wait")],
    (Jobs, "elaborate"): [
        Edit("begins | self.ended & self.qkv_next", ("begins", "begins | self.ended", "self.ended & self.qkv_next")),
        either_half("self.ended & ~self.qkv_next", "self.ended & self.qkv_next"),
        Edit("Mux(begins, ~job.through, 1)", ("~job.through", "1", "begins & ~job.through")),
        Edit("m.If(`self.start`)", ("begins", "self.ended", "1")),
        Edit("self._another(is_qkv)", ("0", "1")),
        Edit("Mux(is_qkv, job.qkv, job.sub_batch)", ("job.qkv", "job.sub_batch")),
        Edit("Mux(is_qkv, job.qkv_layer, job.layer)", ("job.qkv_layer", "job.layer")),
    ],
    (Jobs, "_another"): [either_half("~is_qkv & self.unit.job.qkv.any()")],
    (Mover, "elaborate"): [
        Edit("self.ask.valid.eq(`self.left != 0`)", ("self.left > 1", "1")),
        Edit("payload.write.eq(`int(self.write)`)", ("int(not self.write)",)),
        *off_by_one("payload.bank.eq(`self.of_bank`)", "eq(`self.next_`)", "eq(`self.pending - self.over`)"),
        Edit("m.If(`self.begin`)", ("self.begin & (self.left != 0)",)),
        *off_by_one("eq(`self.bank`)", "eq(`self.place`)", "self.left.eq(`self.count`)", "pending.eq(`self.count`)"),
        *off_by_one("`self.at - self.place`", "`self.next_ + 1`", "`self.left - 1`"),
        either_half("self.ask.valid & self.ask.ready"),
    ],
    (Mover, "_idle"): [Edit("self.pending == 0", ("self.pending <= 1", "self.left == 0", "1"))],
    (Reader, "elaborate"): [
        Edit("self.over.eq(`self.came`)", ("0",)),
        Edit("self.came.replicate(len(store.lanes))", ("0", "self.came", "1")),
        *off_by_one("`self.shift + place_of(self.column)`"),
    ],
    (Writer, "elaborate"): [
        Edit("self.over.eq(`self.issued`)", ("0",)),
        *off_by_one("`self.shift + place_of(self.column)`"),
    ],
    (Merge, "elaborate"): [
        either_half("free & ~self.reads.valid"),
        Edit("self.reads.ready.eq(`free`)", ("1", "free & ~self.writes.valid")),
        Edit("m.If(`free`)", ("1",)),
        either_half("self.reads.valid | self.writes.valid", "self.reads.valid & self.writes.valid"),
        Edit("m.If(`self.reads.valid`)", ("~self.writes.valid", "1", "0")),
    ],
    (Merge, "_free"): [either_half("~self.o.valid | self.o.ready", "1")],
    (Dots, "elaborate"): [
        Edit("self.dot.cmd == self.op.gemv", ("0", "1")),
        Edit("self.dot.cmd == self.op.gwrite", ("0", "1")),
        either_half("~self.o.valid | self.o.ready", "1"),
        either_half("free & self._room(places.w_rdy)"),
        either_half("(self.pending == 0) & ~self.o.valid", "(self.pending <= 1) & ~self.o.valid"),
        Edit("m.If(`free`)", ("1",)),
        Edit("self.o.valid.eq(`self.begin`)", ("1", "self.begin & is_gemv")),
        Edit("places.w_en.eq(`self.begin & is_gemv`)", ("self.begin", "is_gemv")),
        Edit("places.r_en.eq(`self.multiplied`)", ("0", "self.multiplied | self.copied")),
        Edit("self.begin & (is_gemv | is_copy)", ("self.begin", "self.begin & is_gemv", "self.begin & is_copy")),
        Edit("self.pending + waits - self.copied - self.multiplied",
             ("self.pending + waits - self.copied", "self.pending + waits - self.multiplied",
              "self.pending - self.copied - self.multiplied")),
        Edit("self.multiplied.replicate(len(store.lanes))", ("0", "self.multiplied")),
        *off_by_one("store.at.eq(`places.r_data`)", "places.w_data.eq(`self.at`)"),
    ],
    (Vectors, "elaborate"): [
        Edit("self.its_op == MOVE", ("0", "self.its_op >= MOVE - 1")),
        Edit("self.out == 0", ("self.out <= 1", "self.left == 0", "1")),
        Edit("Mux(self.begin, self.y, self.at_y)", ("self.at_y", "self.y")),
        Edit("i.valid.eq(`(self.left != 0) & ~moves`)", ("self.left != 0", "~moves", "(self.left > 1) & ~moves")),
        *off_by_one("i.payload.op.eq(`self.its_op`)"),
        Edit("self.left == 1", ("self.left == 2", "self.left == 0", "self.left <= 2")),
        Edit("self.its_op == Op.NORM", ("self.its_op == Op.SOFTMAX", "1", "0")),
        Edit("(self.left != 0) & (moves | i.ready)",
             ("moves | i.ready", "(self.left > 1) & (moves | i.ready)", "(self.left != 0) & moves",
              "(self.left != 0) & i.ready", "self.left != 0")),
        *off_by_one("`self.left - 1`", "`self.at_x + self.x_by`", "`self.at_y + 2`", "`self.at_y + 1`"),
        either_half("norm & unit.affine.ready"),
        either_half("goes & (self.its_op == Op.ADD)"),
        Edit("Mux(moves, goes, unit.o.valid)", ("goes", "unit.o.valid")),
        Edit("Mux(moves, x, unit.o.payload.x)", ("x", "unit.o.payload.x")),
    ],
    (Vectors, "_element"): [*off_by_one("`at[: self.sizes.lane_bits]`")],
    (Vectors, "_store"): [
        *off_by_one("`self.at_o >> bits`", "`self.at_o[:bits]`", "`self.out - 1`", "`self.at_o + self.o_by`"),
        Edit("m.If(`given`)", ("1", "0")),
    ],
    (Vectors, "_begin"): [
        *off_by_one("self.its_op.eq(`self.op`)", "self.left.eq(`self.count`)", "self.out.eq(`self.count`)"),
        *off_by_one("self.at_x.eq(`self.x`)", "self.at_o.eq(`self.o`)", "eq(`self.x_step`)", "eq(`self.o_step`)"),
        Edit("Mux(self.op == Op.NORM, self.y + 2, self.y)",
             ("self.y", "self.y + 2", "Mux(self.op == Op.NORM, self.y + 1, self.y)",
              "Mux(self.op == Op.SOFTMAX, self.y + 2, self.y)")),
    ],
    (ArrayUnit, "elaborate"): [
        *off_by_one("job.m.eq(`asked[\"m\"]`)", "`asked[\"k\"]` << bits", "`asked[\"n\"]` << bits"),
        Edit("job.overlapped.eq(`1`)", ("0",)),
        Edit("self.idle.eq(`~self.busy`)", ("~self.feeds", "1")),
        Edit("gemm.job.valid.eq(`self.offered`)", ("1", "0")),
        either_half("self.offered & gemm.job.ready"),
        Edit("self.offered.eq(`0`)", ("1",)),
        Edit("self.offered.eq(`1`)", ("0",)),
        Edit("self.feeds.eq(`1`)", ("0",)),
        Edit("self.busy.eq(`1`)", ("0",)),
    ],
    (ArrayUnit, "_feed"): [
        Edit("i.valid.eq(`self.feeds`)", ("1",)),
        Edit("Mux(asked[\"m\"] > lanes, asked[\"m\"], lanes)",
             ("asked[\"m\"]", "lanes", "Mux(asked[\"m\"] > lanes + 1, asked[\"m\"], lanes)",
              "Mux(asked[\"m\"] > lanes, asked[\"m\"] + 1, lanes)")),
        *off_by_one("row == `asked[\"k\"] - 1`", "`place + 1`", "`at_a + asked[\"k\"]`", "`at_b + asked[\"n\"]`"),
        Edit("m.If(`i.valid & i.ready`)", ("i.valid", "i.ready")),
        Edit("place < lanes", ("place < lanes - 1", "place <= lanes", "1")),
        Edit("m.If(`last`)", ("0", "last & lowest", "1")),
        Edit("row.eq(`Mux(lowest, 0, row + 1)`)", ("row + 1", "Mux(lowest, 0, row + 2)", "0")),
        Edit("asked[\"a\"] + `Mux(lowest, 0, row + 1)`", ("row + 1", "Mux(lowest, 0, row)", "0")),
        either_half("last & lowest"),
        *off_by_one("column.eq(`column + 1`)", "`asked[\"b\"] + column + 1`", "column != `asked[\"n\"] - 1`"),
        *off_by_one("at_a.eq(`self.a`)", "at_b.eq(`self.b`)", "place.eq(`0`)", "row.eq(`0`)", "column.eq(`0`)"),
    ],
    (ArrayUnit, "_drain"): [
        *off_by_one("store.at.eq(`at`)", "`at + asked[\"n\"]`", "column.eq(`column + 1`)"),
        *off_by_one("`asked[\"o\"] + column + 1`", "column != `asked[\"n\"] - 1`", "at.eq(`self.o`)", "column.eq(`0`)"),
        Edit("m.If(`o.valid`)", ("1",)),
        Edit("m.If(`o.payload.last`)", ("0", "1")),
    ],
    (Attention, "elaborate"): [
        *off_by_one("layer.eq(`self.layer`)", "Cat(layer, `self.sub_batch`)"),
        Edit("walker.start.eq(`self.start`)", ("0",)),
        Edit("self.done.eq(`walker.done`)", ("0", "walker.quiet")),
    ],
    (Attention, "_steps"): [
        Edit("Cat(`free & (step.kind == kind)` for _", ("free", "step.kind == kind")),
        Edit("walker.quiet.eq(`writer.idle & dots.idle & vectors.idle`)",
             ("dots.idle & vectors.idle", "writer.idle & vectors.idle", "writer.idle & dots.idle")),
        Edit("walker.valid & free & (step.kind == kind)",
             ("free & (step.kind == kind)", "walker.valid & (step.kind == kind)", "walker.valid & free")),
    ],
    (NpuPimMachine, "_pim_done"): [
        Edit("over | Cat(each.done for each in self.attention)",
             ("over", "Cat(each.done for each in self.attention)")),
        Edit("pim.done.eq(`now.all()`)", ("now.any()", "0")),
        Edit("Mux(now.all(), 0, now)", ("now", "0", "Mux(now.any(), 0, now)")),
    ],
    (NpuPimMachine, "_channel"): [
        either_half("channel.bus.valid & (command.cmd == self.sizes.plan.op.wr)"),
        *off_by_one("mine.layer.eq(`job.job.layer`)", "mine.sub_batch.eq(`job.job.sub_batch`)"),
        Edit("mine.start.eq(`job.start`)", ("0",)),
    ],
    (Npu, "_steps"): [
        either_half("(step.kind == NpuKind.READ) & (step.channel == c)"),
        either_half("Cat(`unit.idle & wanted` for"),
        Edit("Cat(unit.idle for unit, _ in units).all()",
             ("array.idle & vectors.idle", "Cat(unit.idle for unit, _ in units[1:]).all()",
              "array.idle & Cat(unit.idle for unit, _ in units[2:]).all()")),
        Edit("walker.valid & unit.idle & wanted", ("unit.idle & wanted", "walker.valid & wanted")),
    ],
}  # fmt: skip

# What nothing can tell, and why.
NO_UNIT = "no unit takes the last step"
ALWAYS_READY = "an idle unit takes an element in every clock until the last"
GAINS = "only NORM asks for gains"
IDLE_ARRAY = "the array is idle whenever a GEMM may begin"
NO_COMMAND = "where nothing issues, the command is no WR"
SAME: dict[str, str] = {
    "Walker.elaborate: self.active & ~ends & self._may() -> self.active & self._may()": NO_UNIT,
    "Vectors.elaborate: goes & (self.its_op == Op.ADD) -> (self.its_op == Op.ADD)": ALWAYS_READY,
    "Vectors.elaborate: (self.left != 0) & (moves | i.ready) -> (self.left != 0) & i.ready": ALWAYS_READY,
    "Vectors.elaborate: (self.left != 0) & (moves | i.ready) -> self.left != 0": ALWAYS_READY,
    "Vectors.elaborate: norm & unit.affine.ready -> unit.affine.ready": GAINS,
    "Vectors.elaborate: self.its_op == Op.NORM -> 1": GAINS,
    "ArrayUnit.elaborate: self.offered & gemm.job.ready -> self.offered": IDLE_ARRAY,
    "ArrayUnit.elaborate: self.offered & gemm.job.ready -> gemm.job.ready": IDLE_ARRAY,
    "NpuPimMachine._channel: channel.bus.valid & (command.cmd == self.sizes.plan.op.wr) -> "
    "(command.cmd == self.sizes.plan.op.wr)": NO_COMMAND,
}
SELDOM: dict[str, str] = {  # could be told, but no case here does
    "Dots.elaborate: ~self.o.valid | self.o.ready -> self.o.ready": "a command comes to an empty register before a "
    "full queue, and behind it a step that need not wait",
}
