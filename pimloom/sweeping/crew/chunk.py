"""What a worker gets at once, and what may become of the way to it; light, for those who only wait."""

from collections.abc import Mapping
from typing import NamedTuple

from pimloom.sweeping.definition.sweep import Scalar


class Chunk(NamedTuple):
    """Points of one task, by key."""

    points: Mapping[str, Mapping[str, Scalar]]


class SchedulerLost(Exception):
    """The connection to the scheduler broke; what was sent to it must be sent again."""
