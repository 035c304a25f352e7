# amaranth: UnusedElaboratable=no
"""The NPU: weights from the channels, GEMMs and vectors, step by step of a program."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from pimloom.rtl.interleave import Unit, npu_layout
from pimloom.rtl.system.array import ArrayUnit
from pimloom.rtl.system.columns import Reader
from pimloom.rtl.system.plan import Image, NpuKind, Sizes
from pimloom.rtl.system.scratchpad import Look, Store
from pimloom.rtl.system.vectors import Vectors
from pimloom.rtl.system.walker import Jobs, Walker

LOOKS = 4  # of the array's two operands, of x and y


class Npu(wiring.Component):
    """Runs the jobs of `Interleave`, see `Jobs`.

    A step begins when its unit is free, and the next one may in the next clock. Programs begin at
    npu_entry[layer + 2**LB * (sub_batch + 2**S * 0)] of a `through` and
    npu_entry[layer + 2**LB * (qkv + 2**S * 1)] of a `qkv`, for S sub-batches and LB bits of a layer.

    reads: of each channel. came: column and word of a read of the channel are there in this clock.
    """

    def __init__(self, sizes: Sizes, image: Image) -> None:
        self.sizes, self.image = sizes, image
        n = sizes.channels
        self.array, self.vectors = ArrayUnit(sizes), Vectors(sizes)
        self.readers = [Reader(sizes) for _ in range(n)]
        self.jobs = Jobs(sizes)
        own = image.npu_program, image.npu_entry
        self.walker = Walker(sizes.npu_step(), sizes.steps, 1 << self.jobs.bits, *own)
        ports = {"unit": In(Unit(npu_layout(sizes.sub_batches)))}
        ports |= {"reads": Out(self.readers[0].ask.signature).array(n), "came": In(1).array(n)}
        ports |= {"column": In(sizes.plan.column()).array(n), "word": In(sizes.word).array(n)}
        super().__init__(ports | {"look": Out(Look(sizes)).array(LOOKS), "store": Out(Store(sizes)).array(n + 2)})

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """What is instantiated, by the name of its module."""
        return self.array.modules

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.jobs, m.submodules.walker = self.jobs, self.walker
        m.submodules.array, m.submodules.vectors = self.array, self.vectors
        for c, reader in enumerate(self.readers):
            m.submodules[f"reader_{c}"] = reader
        self._job(m)
        self._steps(m)
        units = (self.array.look_a, self.array.look_b, self.vectors.look_x, self.vectors.look_y)
        for port, look in zip(self.look, units, strict=True):
            connect(m, look, flipped(port))
        stores = (self.array.store, self.vectors.store, *(reader.store for reader in self.readers))
        for port, store in zip(self.store, stores, strict=True):
            connect(m, store, flipped(port))
        return m

    def _job(self, m: Module) -> None:
        """One program after the other."""
        jobs, walker = self.jobs, self.walker
        connect(m, flipped(self.unit), jobs.unit)
        m.d.comb += [walker.start.eq(jobs.start), walker.job.eq(jobs.job), jobs.ended.eq(walker.done)]

    def _steps(self, m: Module) -> None:
        """A step to its unit."""
        walker, step, bits = self.walker, self.walker.step, self.sizes.lane_bits
        array, vectors = self.array, self.vectors
        reads = [(step.kind == NpuKind.READ) & (step.channel == c) for c in range(self.sizes.channels)]
        units: list[tuple[Any, Value]] = [(array, step.kind == NpuKind.GEMM), (vectors, step.kind == NpuKind.VECTOR)]
        units += zip(self.readers, reads, strict=True)
        m.d.comb += walker.go.eq(Cat(unit.idle & wanted for unit, wanted in units).any())
        m.d.comb += walker.quiet.eq(Cat(unit.idle for unit, _ in units).all())
        m.d.comb += [unit.begin.eq(walker.valid & unit.idle & wanted) for unit, wanted in units]
        m.d.comb += [array.a.eq(step.x >> bits), array.b.eq(step.y >> bits), array.o.eq(step.o >> bits)]
        m.d.comb += [getattr(array, name).eq(step[name]) for name in ("m", "k", "n")]
        m.d.comb += [getattr(vectors, name).eq(step[name]) for name in self.sizes.vector()]
        for c, reader in enumerate(self.readers):
            m.d.comb += [reader.bank.eq(step.bank), reader.place.eq(step.place), reader.count.eq(step.count)]
            m.d.comb += [reader.at.eq(step.x >> bits), reader.came.eq(self.came[c])]
            m.d.comb += [reader.column.eq(self.column[c]), reader.word.eq(self.word[c])]
            connect(m, reader.ask, flipped(self.reads[c]))
