"""What a step has to do, as far as it is known without a simulation: prices of steps are fitted to it."""

from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A request of a step: new tokens, its context with these, and its channel, None: where the device puts it."""

    new: int
    context: int
    channel: int | None = None


class Outline(NamedTuple):
    """The work of a step, each kind in a unit of its own. together: whether both units of a stage work side by side;
    arrays, banks: of each stage, what time of its two units is linear in; outside: what the rest of time is linear in;
    more: what energy is linear in beside all these."""

    together: bool
    arrays: Sequence[Sequence[float]]
    banks: Sequence[Sequence[float]]
    outside: Sequence[float]
    more: Sequence[float]
