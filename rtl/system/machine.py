# amaranth: UnusedElaboratable=no
"""The whole machine: interleave controller, NPU, and PIM channels with what runs attention on each."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from pimloom.rtl.interleave import MOST_LAYERS, Interleave, Stage
from pimloom.rtl.npu_pim.channel import NpuPimChannel
from pimloom.rtl.npu_pim.controller import Bus
from pimloom.rtl.system import attention, npu
from pimloom.rtl.system.attention import Attention
from pimloom.rtl.system.columns import Merge
from pimloom.rtl.system.npu import Npu
from pimloom.rtl.system.plan import NOTHING, Image, Sizes
from pimloom.rtl.system.scratchpad import Look, Scratchpad


class NpuPimMachine(wiring.Component):
    """Decodes a token of every sub-batch: all layers, with the programs and numbers that its memories hold at first.

    start, layers, stage, turn, done: of `Interleave`; layers: at most those of `sizes`. npu_done, pim_done: what the
    units say; pim_done when the attention of all channels is. bus: what issues in each channel. host: who looks into
    the scratchpad from outside. busy: a bit for each unit that works in this clock: array, the NPU's vectors, then the
    vectors of each channel.

    Raises UserError for a channel that has not one rank and as many banks as a column has elements.
    """

    def __init__(self, sizes: Sizes, image: Image = NOTHING) -> None:
        self.sizes, n = sizes.checked(), sizes.channels
        part = sizes.spec.part.organization
        self.interleave = Interleave(sizes.sub_batches)
        self.npu, self.attention = Npu(sizes, image), [Attention(sizes, image, c) for c in range(n)]
        self.channels = [
            NpuPimChannel(sizes.spec, sizes.lanes, part.rows, image.of_banks(c, part.banks)) for c in range(n)
        ]
        looks, stores = npu.LOOKS + n * attention.LOOKS + 1, n + 2 + n * attention.STORES
        self.scratchpad = Scratchpad(sizes, looks, stores, image.scratchpad)
        ports = {"start": In(1), "layers": In(range(MOST_LAYERS + 1)), "stage": Out(Stage), "done": Out(1)}
        ports |= {"turn": Out(range(sizes.sub_batches)), "npu_done": Out(1), "pim_done": Out(1)}
        ports |= {"busy": Out(2 + n), "bus": Out(Bus(sizes.plan)).array(n)}
        super().__init__(ports | {"host": In(Look(sizes))})

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """What is instantiated, by the name of its module."""
        return self.npu.modules

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.interleave, m.submodules.npu = self.interleave, self.npu
        m.submodules.scratchpad = self.scratchpad
        control = self.interleave
        m.d.comb += [control.start.eq(self.start), control.layers.eq(self.layers), self.stage.eq(control.stage)]
        m.d.comb += [self.turn.eq(control.turn), self.done.eq(control.done)]
        connect(m, control.npu, self.npu.unit)
        m.d.comb += [self.npu_done.eq(control.npu.done), self.pim_done.eq(control.pim.done)]
        m.d.comb += self.busy.eq(
            Cat(~self.npu.array.idle, ~self.npu.vectors.idle, (~each.vectors.idle for each in self.attention))
        )
        for c in range(self.sizes.channels):
            self._channel(m, c)
        self._pim_done(m)
        self._scratchpad(m)
        return m

    def _channel(self, m: Module, c: int) -> None:
        """A channel, its attention, and its way in for reads and writes."""
        channel, mine, job = self.channels[c], self.attention[c], self.interleave.pim
        m.submodules[f"channel_{c}"], m.submodules[f"attention_{c}"] = channel, mine
        m.submodules[f"merge_{c}"] = merge = Merge(self.sizes)
        connect(m, self.npu.reads[c], merge.reads)
        connect(m, mine.writes, merge.writes)
        connect(m, merge.o, channel.data[0])
        connect(m, mine.dots, channel.pim[0])
        m.d.comb += [mine.start.eq(job.start), mine.layer.eq(job.job.layer), mine.sub_batch.eq(job.job.sub_batch)]
        command, answers = channel.bus.command, channel.answers
        m.d.comb += mine.issued.eq(channel.bus.valid & (command.cmd == self.sizes.plan.op.wr))
        m.d.comb += [mine.column.eq(command), channel.word.eq(mine.word), mine.results.eq(channel.results)]
        m.d.comb += [mine.copied.eq(answers.copy), mine.multiplied.eq(answers.gemv)]
        m.d.comb += [self.npu.came[c].eq(answers.reads), self.npu.column[c].eq(answers.column)]
        m.d.comb += self.npu.word[c].eq(channel.read)
        connect(m, channel.bus, flipped(self.bus[c]))

    def _pim_done(self, m: Module) -> None:
        """When the last channel's attention is done."""
        over = Signal(self.sizes.channels)
        now = over | Cat(each.done for each in self.attention)
        m.d.comb += self.interleave.pim.done.eq(now.all())
        m.d.sync += over.eq(Mux(now.all(), 0, now))

    def _scratchpad(self, m: Module) -> None:
        units: list[Any] = [self.npu, *self.attention]
        for inner, port in zip((x for unit in units for x in unit.store), self.scratchpad.store, strict=True):
            connect(m, inner, port)
        *looks, host = self.scratchpad.look
        for inner, port in zip((x for unit in units for x in unit.look), looks, strict=True):
            connect(m, inner, port)
        m.d.comb += [host.at.eq(self.host.at), self.host.word.eq(host.word)]
