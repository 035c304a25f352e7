# amaranth: UnusedElaboratable=no
"""The machine clock by clock, from the English of its parts: programs, units, and channels of the cycle model."""

from typing import NamedTuple

from pimloom.mappers.interleave import Turn, turns
from pimloom.rtl.flow.interleave import has_npu
from pimloom.rtl.flow.system.channel_model import PIM
from pimloom.rtl.flow.system.clocks import gemm_clocks, vector_clocks
from pimloom.rtl.flow.system.parts import Busy, Lane, Walker
from pimloom.rtl.flow.system.program import Programs, Qkv, Step, Steps, Through
from pimloom.rtl.npu.vector import VectorUnit
from pimloom.rtl.system.plan import ChannelKind, NpuKind, Sizes


class Stage(NamedTuple):
    """A stage: what happens in it, its first clock, its last one, and the last ones of NPU and PIM, -1 where they had
    nothing to do."""

    turn: Turn
    start: int
    end: int
    npu_end: int
    pim_end: int


class Ran(NamedTuple):
    """stages; commands of each channel (clock, opcode, bank, row that opens, else -1); clocks in which the array, the
    NPU's vectors and the vectors of each channel were at work."""

    stages: list[Stage]
    commands: list[list[tuple[int, int, int, int]]]
    busy: list[int]


class Machine:
    """The whole of it."""

    def __init__(self, sizes: Sizes, programs: Programs) -> None:
        self.sizes, self.programs = sizes, programs
        self.lanes = [Lane(sizes, self._requests(c)) for c in range(sizes.channels)]
        self.npu, self.attention = Walker(), [Walker() for _ in self.lanes]
        self.array, self.vectors = Busy(), [Busy() for _ in range(1 + sizes.channels)]
        self.unit, self.op = VectorUnit(sizes.longest), sizes.plan.op
        self.commands = [list[tuple[int, int, int, int]]() for _ in self.lanes]
        self.now = 0

    def _requests(self, channel: int) -> int:
        """That a channel gets when each job is done once."""
        own = [step for steps in self.programs.channels[channel].values() for step in steps]
        reads = [step for steps in self.programs.npu.values() for step in steps if step["kind"] == NpuKind.READ]
        moved = own + [step for step in reads if step["channel"] == channel]
        return sum(step.get("count", 1) for step in moved) + 1

    def run(self, layers: int, start: int) -> Ran:
        """An iteration that is asked for in clock `start`."""
        stages, at = [], start + 1
        while self.now < at:
            self._clock()
        for turn in turns(self.sizes.sub_batches, range(layers)):
            stages.append(self._stage(turn, at))
            at = stages[-1].end + 1
        self._clock()  # that of `done`
        return Ran(stages, self.commands, [unit.clocks for unit in (self.array, *self.vectors)])

    def _stage(self, turn: Turn, t: int) -> Stage:
        stage = turn.stage
        if has_npu(turn):
            jobs = list[Steps]()
            if stage.through is not None:
                layer = turn.then if stage.behind("through") else turn.here
                jobs.append(self.programs.npu[Through(layer, stage.through)])
            if stage.qkv:
                layer = turn.then if stage.behind("qkv") else turn.here
                jobs.append(self.programs.npu[Qkv(layer, tuple(stage.qkv))])
            self.npu.start(t, jobs)
        left = set[int]()
        if stage.attention is not None:
            layer = turn.then if stage.behind("attention") else turn.here
            for c, walker in enumerate(self.attention):
                walker.start(t, [self.programs.channels[c][layer, stage.attention]])
                left.add(c)
        npu_end = pim_end = -1
        npu_left = has_npu(turn)
        while npu_left or left:
            npu_over, over = self._clock()
            if npu_over:
                npu_end, npu_left = self.now - 1, False
            left -= over
            if over and not left:
                pim_end = self.now - 1
        return Stage(turn, t, self.now - 1, npu_end, pim_end)

    def _clock(self) -> tuple[bool, set[int]]:
        """One clock; whether the NPU's job, and which channels' jobs, end in it."""
        t = self.now
        steps = self._npu_step(t)
        quiet = [self._quiet(c, t) for c in range(len(self.lanes))]
        wanted = [walker.look(t, quiet[c]) for c, walker in enumerate(self.attention)]
        npu_over = self.npu.ends(t, self._npu_quiet(t))
        over = {c for c, walker in enumerate(self.attention) if walker.ends(t, quiet[c])}
        idle = [lane.writer.pending == 0 for lane in self.lanes]
        found = []
        for c, lane in enumerate(self.lanes):
            found.append(lane.clock(t))
            if (issued := found[-1].issued) is not None:
                self.commands[c].append((t, *issued))
        for lane, did in zip(self.lanes, found, strict=True):
            lane.answered(did)
        if steps is not None:
            self._npu_begin(steps, t)
        for c, step in enumerate(wanted):
            if step is not None:
                self._channel_begin(c, step, t, idle[c])
        self.now += 1
        return npu_over, over

    def _npu_quiet(self, t: int) -> bool:
        readers = all(lane.reader.pending == 0 for lane in self.lanes)
        return readers and self.array.idle(t) and self.vectors[0].idle(t)

    def _npu_step(self, t: int) -> Step | None:
        """The step that leaves."""
        step = self.npu.look(t, self._npu_quiet(t))
        if step is None:
            return None
        if step["kind"] == NpuKind.READ:
            free = self.lanes[step["channel"]].reader.pending == 0
        else:
            free = (self.array if step["kind"] == NpuKind.GEMM else self.vectors[0]).idle(t)
        return step if free else None

    def _npu_begin(self, step: Step, t: int) -> None:
        self.npu.at += 1
        if step["kind"] == NpuKind.READ:
            self.lanes[step["channel"]].reader.begin(step)
        elif step["kind"] == NpuKind.GEMM:
            shape = self.sizes.shape
            self.array.begin(t, gemm_clocks(shape, step["m"], step["k"] * shape.rows, step["n"] * shape.columns))
        else:
            self.vectors[0].begin(t, vector_clocks(self.unit, step["op"], step["count"]))

    def _quiet(self, c: int, t: int) -> bool:
        lane = self.lanes[c]
        return lane.writer.pending == 0 and lane.pending == 0 and not lane.dot and self.vectors[1 + c].idle(t)

    def _channel_begin(self, c: int, step: Step, t: int, writer_idle: bool) -> None:
        """The step leaves if its unit was free at the clock's start, or its register is in this clock."""
        lane, kind = self.lanes[c], step["kind"]
        if kind == ChannelKind.WRITE and writer_idle:
            lane.writer.begin(step)
        elif kind == ChannelKind.VECTOR and self.vectors[1 + c].idle(t):
            self.vectors[1 + c].begin(t, vector_clocks(self.unit, step["op"], step["count"]))
        elif kind == ChannelKind.DOT and lane.dot_free and lane.room:
            lane.channel.offer(PIM, t + 1, step["dot"])
            lane.dot = True
            lane.results += step["dot"]["cmd"] == self.op.gemv
            lane.pending += step["dot"]["cmd"] in (self.op.gemv, self.op.gwrite)
        else:
            return
        self.attention[c].at += 1
