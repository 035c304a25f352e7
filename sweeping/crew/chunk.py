"""What a worker gets at once, and what may become of the way to it; light, for those who only wait."""

from collections.abc import Mapping
from typing import NamedTuple

from pimloom.arch.error import one_line
from pimloom.sweeping.definition.sweep import Scalar


class Chunk(NamedTuple):
    """Points of one task, by key."""

    points: Mapping[str, Mapping[str, Scalar]]


def no_scheduler(address: str, why: str) -> str:
    """The sentence for an address at which none is."""
    return (
        f"--scheduler {address}: no Dask scheduler answers there ({one_line(why).rstrip('.')}); start one with "
        "`dask scheduler`, or leave the option out"
    )


class SchedulerLost(Exception):
    """The connection to the scheduler broke; what was sent to it must be sent again."""
