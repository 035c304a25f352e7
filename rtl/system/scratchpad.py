# amaranth: UnusedElaboratable=no
"""The scratchpad that all units share: as many ports as it takes, for conflicts between its banks are left out."""

from collections.abc import Sequence

from amaranth.hdl import Module, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl import bf16
from pimloom.rtl.system.plan import Sizes


class Look(wiring.Signature):
    """The word that stands at `at`, in the same clock."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__({"at": Out(sizes.word_bits), "word": In(sizes.word)})


class Store(wiring.Signature):
    """The elements of `word` whose bit in `lanes` is high are at `at` from the next clock on."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__({"lanes": Out(sizes.lanes), "at": Out(sizes.word_bits), "word": Out(sizes.word)})


class Scratchpad(wiring.Component):
    """`words` words of bfloat16. No two ports store the same element in one clock."""

    def __init__(self, sizes: Sizes, looks: int, stores: int, image: Sequence[int] = ()) -> None:
        self.sizes, self.image = sizes, image
        super().__init__({"look": In(Look(sizes)).array(looks), "store": In(Store(sizes)).array(stores)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.words = words = memory.Memory(
            shape=unsigned(sizes.word), depth=sizes.words, init=self.image
        )
        for port in self.look:
            read = words.read_port(domain="comb")
            m.d.comb += [read.addr.eq(port.at), port.word.eq(read.data)]
        for port in self.store:
            write = words.write_port(granularity=bf16.WIDTH)
            m.d.comb += [write.en.eq(port.lanes), write.addr.eq(port.at), write.data.eq(port.word)]
        return m
