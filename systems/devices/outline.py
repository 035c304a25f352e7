"""The work of a step, as far as it is known without simulation. Prices of steps are fitted to it."""

from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A request of a step: new tokens, its context including these, and its channel; None: the device chooses it."""

    new: int
    context: int
    channel: int | None = None


class Outline(NamedTuple):
    """The work of a step; each kind of work has its own unit. together: whether both units of a stage work at the same
    time; arrays, banks: for each stage, the work that the time of each unit is linear in; outside: work that the rest
    of the time is linear in; more: work that only energy is linear in."""

    together: bool
    arrays: Sequence[Sequence[float]]
    banks: Sequence[Sequence[float]]
    outside: Sequence[float]
    more: Sequence[float]
