# amaranth: UnusedElaboratable=no
"""Properties of any block: what holds, how it is seen at work, and the broken twins that must fail it."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Cover, Elaboratable, Module, Value

from pimloom.rtl.formal.checker import any_of, wire
from pimloom.rtl.formal.proof import Task

Bits = Callable[[Any], Iterator[Value]]  # of a scene
Setup = Callable[[Module, Any, int], Any]  # of a module, a twin or None, bits of a free constant: the scene


class Claim(NamedTuple):
    """holds: bits that are always high; seen: bits that are high in some trace, so that what holds says something;
    twins: what `Setup` makes broken blocks of. lemma: bits that are always high too, proved first, then assumed;
    depth: clocks of the induction, more than one where registers are but what came in some clocks ago."""

    holds: Bits
    seen: Bits
    twins: tuple[Any, ...]
    lemma: Bits | None = None
    depth: int = 1


class ClaimQuestion(Elaboratable):
    """One claim about the block that `setup` puts between free inputs, for the tasks of `pimloom.rtl.formal.proof`.
    Reset is at the start."""

    def __init__(self, setup: Setup, claim: Claim, task: Task, bits: int, twin: Any = None) -> None:
        self.setup, self.claim, self.task, self.bits, self.twin = setup, claim, task, bits, twin
        self.clock = ClockDomain("sync", reset_less=True)

    def rtlil(self) -> str:
        """In Yosys' own language; the top module is `question`."""
        return rtlil.convert(self, name="question", ports=[self.clock.clk], emit_src=False)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains += self.clock
        scene, claim = self.setup(m, self.twin, self.bits), self.claim
        if self.task == "see":
            m.d.comb += [Cover(wire(m, bit, "seen")) for bit in claim.seen(scene)]
        elif self.task == "lemma":
            assert claim.lemma
            m.d.comb += [Assert(wire(m, bit, "lemma")) for bit in claim.lemma(scene)]
        elif self.task == "break":
            m.d.comb += Cover(any_of(~wire(m, bit, "holds") for bit in claim.holds(scene)))
        else:
            m.d.comb += [Assert(wire(m, bit, "holds")) for bit in claim.holds(scene)]
            if self.task == "prove" and claim.lemma:
                m.d.comb += [Assume(wire(m, bit, "lemma")) for bit in claim.lemma(scene)]
        return m
