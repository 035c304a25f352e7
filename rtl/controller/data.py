# amaranth: UnusedElaboratable=no
"""The bursts of reads and writes, between streams of whole bursts and data pins in the CK that CL and CWL say."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.error import UserError
from pimloom.arch.part import Part


class DataPins(wiring.Signature):
    """What a PHY carries, for each CK of a clock, the first lowest, as in a DFI: `bits` of data, whether a burst goes
    out (wrdata_en), comes back now at the pins of the part (rddata_en), and is there (rddata_valid)."""

    def __init__(self, bits: int, phases: int) -> None:
        super().__init__(
            {
                "wrdata": Out(bits * phases),
                "wrdata_en": Out(phases),
                "rddata_en": Out(phases),
                "rddata": In(bits * phases),
                "rddata_valid": In(phases),
            }
        )


class BurstPath(wiring.Component):
    """One burst of `access_bits` for each RD and WR, nBL CK on the pins.

    write, read: such a command issues in this clock, in CK `phase` of it. wdata: bursts in the order of the writes;
    the one at its head goes out nCWL after its WR, and is taken with its last CK. ready: the next WR may issue: its
    burst is there, and none is on its way, so that a WR comes nCWL + nBL after another. rdata: each burst that came
    back, valid for one clock; nobody keeps it.
    """

    def __init__(self, part: Part, phases: int = 1) -> None:
        """Raises UserError for a burst that is not as long as nBL, or an nCWL shorter than a clock."""
        self.phases, (self.cl, self.cwl, self.bl) = phases, (part.cycles(name) for name in ("nCL", "nCWL", "nBL"))
        burst = part.organization.access_bits
        if burst % self.bl or self.cwl < phases:
            raise UserError(f"no data path: {burst} bits in nBL {self.bl} CK, nCWL {self.cwl} CK, {phases} CK a clock")
        self.bits = burst // self.bl
        super().__init__(
            {
                "write": In(1),
                "read": In(1),
                "phase": In(range(phases)),
                "ready": Out(1),
                "wdata": In(stream.Signature(burst)),
                "rdata": Out(wiring.Signature({"valid": Out(1), "payload": Out(burst)})),
                "pins": Out(DataPins(self.bits, phases)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        going = self._timed(m, self.write, self.cwl, self.pins.wrdata_en, "going")
        self._timed(m, self.read, self.cl, self.pins.rddata_en, "coming")
        m.d.comb += self.ready.eq(self.wdata.valid & (going == 0))
        at, chunks = Signal(range(self.bl + 1), name="chunk"), self.wdata.payload
        for phase in range(self.phases):
            sent = Signal(range(self.bl + 1), name=f"chunk_{phase}")
            m.d.comb += sent.eq(at + sum(self.pins.wrdata_en[i] for i in range(phase)))
            m.d.comb += self.pins.wrdata.word_select(phase, self.bits).eq(chunks.word_select(sent, self.bits))
        gone = Signal(range(self.bl + self.phases + 1), name="chunks_gone")
        m.d.comb += gone.eq(at + sum(bit for bit in self.pins.wrdata_en))
        m.d.comb += self.wdata.ready.eq(gone == self.bl)
        m.d.sync += at.eq(Mux(gone == self.bl, 0, gone))
        self._gather(m)
        return m

    def _timed(self, m: Module, starts: Value, latency: int, pins: Value, name: str) -> Signal:
        """Bits of the CK to come, from this clock's first one on, in which a burst of the kind is on the pins."""
        soon = Signal(latency + self.bl + self.phases, name=name)
        now = Signal.like(soon, name=f"{name}_now")
        burst = ((1 << self.bl) - 1) << latency
        m.d.comb += [now.eq(soon | Mux(starts, burst << self.phase, 0)), pins.eq(now)]
        m.d.sync += soon.eq(now >> self.phases)
        return soon

    def _gather(self, m: Module) -> None:
        """Chunks as they come, the first lowest; a burst is whole with its last one."""
        burst, there = Signal(len(self.rdata.payload), name="burst"), Signal(range(self.bl), name="chunks_there")
        whole, count = self.rdata.valid, there
        word: Value = burst
        m.d.comb += whole.eq(0)
        for phase in range(self.phases):
            valid = self.pins.rddata_valid[phase]
            chunk = self.pins.rddata.word_select(phase, self.bits)
            after, counted = Signal.like(burst, name=f"burst_{phase}"), Signal.like(there, name=f"there_{phase}")
            m.d.comb += after.eq(Mux(valid, Cat(word, chunk)[self.bits :], word))
            ends = valid & (count == self.bl - 1)
            m.d.comb += counted.eq(Mux(ends, 0, count + valid))
            with m.If(ends):
                m.d.comb += [whole.eq(1), self.rdata.payload.eq(after)]
            word, count = after, counted
        m.d.sync += [burst.eq(word), there.eq(count)]
