"""A block with a register at every port, so that all its paths run from register to register."""

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class Registered(wiring.Component):
    """`block` with the same ports, each one clock later: inputs before it, outputs behind it. modules: those that it
    instantiates by name."""

    def __init__(self, block: wiring.Component) -> None:
        super().__init__(block.signature)
        self._block = block
        self.modules = getattr(block, "modules", {})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.block = self._block
        outer, inner = (self.signature.flatten(who) for who in (self, self._block))
        for (_, member, mine), (_, _, its) in zip(outer, inner, strict=True):
            mine, its = Value.cast(mine), Value.cast(its)
            m.d.sync += its.eq(mine) if member.flow == In else mine.eq(its)
        return m
