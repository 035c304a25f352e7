# amaranth: UnusedElaboratable=no
"""Questions to a solver: their task, how claims become asserts and covers, and the blocks that they are about."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Cover, Elaboratable, Module, Value

from pimloom.rtl.formal.checker import any_of, wire

Task: TypeAlias = Literal["prove", "lemma", "search", "see", "break"]
Bits = Callable[[Any], Iterator[Value]]  # of a scene
Setup = Callable[[Module, Any, int], Any]  # of a module, a twin or None, bits of a free constant: the scene


class Question(Elaboratable):
    """A question of one task; `elaborate` begins with `begun`. Reset is at the start."""

    def __init__(self, task: Task) -> None:
        self.task, self.clock = task, ClockDomain("sync", reset_less=True)

    def rtlil(self) -> str:
        """In Yosys' own language; the top module is `question`."""
        return rtlil.convert(self, name="question", ports=[self.clock.clk], emit_src=False)

    def begun(self) -> Module:
        """A module in the question's clock domain, for `elaborate` to begin with."""
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


class Claim(NamedTuple):
    """holds: bits that are always high; seen: bits that are high in some trace, so that what holds says something;
    twins: what `Setup` makes broken blocks of. lemma: bits that are always high too, proved first, then assumed;
    depth: clocks of the induction, more than one where registers are but what came in some clocks ago."""

    holds: Bits
    seen: Bits
    twins: tuple[Any, ...]
    lemma: Bits | None = None
    depth: int = 1


class ClaimQuestion(Question):
    """One claim about the block that `setup` puts between free inputs, for the tasks of `pimloom.rtl.formal.proof`.
    Reset is at the start."""

    def __init__(self, setup: Setup, claim: Claim, task: Task, bits: int, twin: Any = None) -> None:
        super().__init__(task)
        self.setup, self.claim, self.bits, self.twin = setup, claim, bits, twin

    def elaborate(self, platform: object) -> Module:
        m = self.begun()
        scene, claim = self.setup(m, self.twin, self.bits), self.claim
        self.put(m, scene, claim.holds, claim.seen, claim.lemma)
        return m


class Subject(NamedTuple):
    """A block and what is said of it. step: the property that the others assume; question(name, own, task, twin): in
    Yosys' language; key: beside the sources, all that decides the questions of a property.

    timings: what is free in the questions, where there are none of the part's own to ask about as well.
    """

    block: str
    part: str
    properties: Mapping[str, Any]
    step: str | None
    question: Callable[[str, bool, Task, Any], str]
    key: Callable[[str, bool, Task, Any], list[str]]
    timings: str | None = None
