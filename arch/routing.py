"""How the tokens of a step choose experts: one description for all systems that run models with experts."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec

from pimloom.arch.error import UserError

Exponent = Annotated[float, msgspec.Meta(ge=0, le=16)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Seed = Annotated[int, msgspec.Meta(ge=0)]


class Routing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tokens choose their experts. By default tokens choose independently, and all experts are equally likely."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "drawn": "true: each token chooses its experts independently (a roofline takes the exact expectation, other "
        "systems draw by the seed); false: tokens are distributed over experts as evenly as shares allow",
        "zipf": "the expert of rank r has the share 1 / r^zipf; 0: equal shares [1]",
        "counts": "tokens of each expert in a trace, which give the shares; empty: shares by zipf [tokens]",
        "seed": "seed of the draws [1]",
    }

    drawn: bool = True
    zipf: Exponent = 0.0
    counts: tuple[Count, ...] = ()
    seed: Seed = 0

    def __post_init__(self) -> None:
        if not 0 <= self.zipf <= 16:
            raise UserError(f"a Zipf exponent of {self.zipf}: expected 0 to 16")
        if self.counts and (min(self.counts) < 0 or not any(self.counts)):
            raise UserError("counts of experts: expected whole numbers of at least 0, not all of them 0")

    @property
    def uniform(self) -> bool:
        """Whether all experts have the same share."""
        return not self.zipf and not self.counts

    def shares(self, experts: int) -> list[float]:
        """Weights of the experts, not normalised. Raises UserError if there are not as many counts."""
        if self.counts and len(self.counts) != experts:
            raise UserError(f"counts of {len(self.counts)} experts: expected {experts}")
        return [float(n) for n in self.counts] or [(i + 1) ** -self.zipf for i in range(experts)]


UNIFORM, EVEN = Routing(), Routing(drawn=False)
