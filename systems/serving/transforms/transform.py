"""A decoding transform of all requests: what each of them is dressed in, and what an iteration costs then."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pimloom.systems.serving.pricing.costs import Costs, Exact
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.transforms import moded
from pimloom.systems.serving.transforms.branched import Branched, Branching, lengths_of
from pimloom.systems.serving.transforms.extra import Extra, Joined
from pimloom.systems.serving.transforms.levels import Transformed
from pimloom.systems.serving.transforms.moded import Mode
from pimloom.systems.serving.transforms.speculated import Accepting, Speculated

Spread = Sequence[float]


class Apart(NamedTuple):
    """A machine of its own that drafts, beside each copy of the model: what it is, of how many devices, and their power
    at rest [W], None: not known."""

    name: str
    devices: int
    rest_w: float | None


class Transform(NamedTuple):
    """accepting: of drafts that are checked; branching: of requests in branches; extra: what an iteration costs beside,
    made of whether every one is simulated and of the spread of contexts; bytes beside the weights, and beside a token's
    keys and values, that it takes of the target's memory; notes; mode: how branches go on, None: each to its end;
    apart: what drafts beside the target's machine, None: the target's own does."""

    positions: int
    seed: int
    accepting: Accepting | None = None
    branching: Branching | None = None
    extra: Callable[[bool, Spread], Extra] | None = None
    more_bytes: float = 0.0
    more_bytes_per_token: float = 0.0
    notes: tuple[str, ...] = ()
    mode: Mode | None = None
    apart: Apart | None = None

    @property
    def branches(self) -> int:
        """Of a request; 1: it has none."""
        return 1 if self.branching is None else self.branching.number

    def dress(self, requests: Sequence[LiveRequest]) -> Speculated | None:
        """All of them; what tells how many drafts were right."""
        if self.branching is not None:
            for request in requests:
                if self.mode is not None:
                    moded.dress(request, self.mode, self.branching, self.seed, self.positions)
                    continue
                lengths = lengths_of(self.branching, request.output, request.number, self.seed)
                Branched(lengths, self.branching.shared).dress(request)
        if self.accepting is None:
            return None
        decoding = Speculated(self.accepting, self.positions)
        for request in requests:
            request.decoding = decoding
        return decoding

    def grid(self, exact: Exact, spread: Spread) -> Transformed:
        """Costs of the target read between few iterations."""
        of = self.accepting
        tree = None if of is None or of.trims else (of.most + 1, of.pairs)
        return Transformed(exact, spread, self.positions, tree, self.branches)

    def joined(self, target: Costs, exact: bool, spread: Spread) -> Costs:
        """With what drafts for it."""
        return target if self.extra is None else Joined(target, self.extra(exact, spread))
