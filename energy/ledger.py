"""A ledger of energy by cause."""

import math
from collections.abc import Mapping

from pimloom.arch.units import J_PER_PJ


class EnergyError(ArithmeticError):
    """A term of an energy sum is NaN, infinite or negative: a fault of the model or its numbers, never a result."""


class Ledger:
    """Energy by cause [pJ]; every entry is finite and not negative."""

    def __init__(self, pj: Mapping[str, float]) -> None:
        for cause, value in pj.items():
            if not (math.isfinite(value) and value >= 0):
                raise EnergyError(f"energy of {cause} is {value} pJ")
        self.pj = dict(pj)

    @property
    def total_pj(self) -> float:
        """Sum of all causes [pJ]."""
        return math.fsum(self.pj.values())

    def joules(self) -> dict[str, float]:
        """Energy by cause [J]."""
        return {cause: value * J_PER_PJ for cause, value in self.pj.items()}
