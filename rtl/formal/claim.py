# amaranth: UnusedElaboratable=no
"""Properties of any block: what holds, how it is seen at work, and the broken twins that must fail it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from amaranth.hdl import Module

from pimloom.rtl.formal.question import Bits, Question, Task

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
