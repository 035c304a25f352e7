# amaranth: UnusedElaboratable=no
"""What all questions to a solver have: their task, a clock without reset, and how claims become asserts and covers."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Cover, Elaboratable, Module, Value

from pimloom.rtl.formal.checker import any_of, wire

Task: TypeAlias = Literal["prove", "lemma", "search", "see", "break"]
Bits = Callable[[Any], Iterator[Value]]  # of a scene


class Question(Elaboratable):
    """A question of one task; `elaborate` begins with `begun`. Reset is at the start."""

    def __init__(self, task: Task) -> None:
        self.task, self.clock = task, ClockDomain("sync", reset_less=True)

    def rtlil(self) -> str:
        """In Yosys' own language; the top module is `question`."""
        return rtlil.convert(self, name="question", ports=[self.clock.clk], emit_src=False)

    def begun(self) -> Module:
        """A module with the clock."""
        m = Module()
        m.domains += self.clock
        return m

    def put(self, m: Module, scene: Any, holds: Bits, seen: Bits, lemma: Bits | None) -> None:
        """The task: what holds, how it is seen at work, and what is proved first and then assumed, if anything."""
        if self.task == "see":
            m.d.comb += [Cover(wire(m, bit, "seen")) for bit in seen(scene)]
        elif self.task == "lemma":
            assert lemma
            m.d.comb += [Assert(wire(m, bit, "lemma")) for bit in lemma(scene)]
        elif self.task == "break":
            m.d.comb += Cover(any_of(~wire(m, bit, "holds") for bit in holds(scene)))
        else:
            m.d.comb += [Assert(wire(m, bit, "holds")) for bit in holds(scene)]
            if self.task == "prove" and lemma:
                m.d.comb += [Assume(wire(m, bit, "lemma")) for bit in lemma(scene)]
