"""Where the heads of a stack lie, and how many commands one of them takes alone.

A channel holds one head at a time, the heads of a stack go to its channels in turn [secondary A]
(scale-snu/attacc_simulator@c600051, `trace_gen/`). Of a head the context is split over the units that work together
and, at banks, its width over the banks of a group; K and V alike. A unit takes an access, `lanes` elements, at a time.
"""

from enum import StrEnum
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.part import Organization
from pimloom.arch.units import BITS_PER_BYTE

CHANNELS = 16  # [secondary A] of a stack
ACCUMULATORS = 16  # [secondary A] scores that a unit holds until they move; of one byte too
LONGEST = 4096  # [secondary A] context for which the released mapping keeps room
KINDS = ("MAC", "WRGB", "MVSB", "MVGB", "SFM", "BARRIER")


class Placement(StrEnum):
    """Where a GEMV unit stands: one for each of these."""

    BANK = "bank"
    BANK_GROUP = "bg"
    BUFFER = "buffer"


class Work(NamedTuple):
    """The heads of one stack in one decode step; every head reads `context` keys of `head_dim` elements."""

    heads: int
    context: int
    head_dim: int
    element_bytes: int


class Layout(NamedTuple):
    """One head in one channel.

    groups: accesses a unit needs for the width of a head; positions: keys of a unit; flushes: groups of scores that
    move together. places_*: banks that name the units of each move of a query, of a flush, of the probabilities, and of
    a group of the context, in order. spread: banks that MACs name in turn, `run` MACs each. rows: of a bank that K or V
    of a head takes.
    """

    groups: int
    positions: int
    flushes: int
    places_wrgb: tuple[int, ...]
    places_score: tuple[int, ...]
    places_mvgb: tuple[int, ...]
    places_context: tuple[int, ...]
    spread: tuple[int, ...]
    run: int
    columns: int
    rows: int

    @property
    def macs(self) -> int:
        """MACs of the scores of a head, and of its context."""
        return self.groups * self.positions

    def alone(self) -> dict[str, int]:
        """Commands of one head, by kind."""
        moves = len(self.places_score) * self.flushes + len(self.places_context) * self.groups
        entries = len(self.places_wrgb), len(self.places_mvgb)
        return {"MAC": 2 * self.macs, "WRGB": entries[0], "MVSB": moves, "MVGB": entries[1], "SFM": 1}


def lay_out(org: Organization, placement: Placement, work: Work) -> Layout:
    """The layout of these heads in a channel of this geometry. Raises UserError."""
    _check(org, work)
    lanes = org.access_bits // BITS_PER_BYTE // work.element_bytes
    sid, group = org.bank_groups * org.banks_per_group, org.banks_per_group
    ranks, groups, banks = range(org.ranks), range(org.bank_groups), range(org.banks_per_group)
    at_buffer = placement is Placement.BUFFER
    units = org.pseudo_channels * (1 if at_buffer else org.ranks * org.bank_groups)
    parts = org.banks_per_group if placement is Placement.BANK else 1
    width, positions = -(-work.head_dim // (parts * lanes)), -(-work.context // units)
    entries = -(-work.context // (units * lanes))
    score, context, spread, run = {
        Placement.BANK: (
            [r * sid + g * group for g in groups for r in ranks], [r * sid + b for b in banks for r in ranks], [0], 1,
        ),
        Placement.BANK_GROUP: (
            [r * sid + g * group for g in groups for r in ranks], [r * sid for r in ranks], list(banks), org.columns,
        ),
        Placement.BUFFER: ([0], [0], [r * sid + g * group + b for b in banks for r in ranks for g in groups], 1),
    }[placement]  # fmt: skip
    goes_to = [0] if at_buffer else [r * sid + g * group for r in ranks for g in groups]
    return Layout(
        groups=width,
        positions=positions,
        flushes=-(-positions // ACCUMULATORS),
        places_wrgb=tuple(b for b in range(parts) for _ in range(width)),
        places_score=tuple(score),
        places_mvgb=tuple(place for place in goes_to for _ in range(entries)),
        places_context=tuple(context),
        spread=tuple(spread),
        run=run,
        columns=org.columns,
        rows=-(-width * positions // (len(spread) * org.columns)),
    )


def valid_channels(heads: int) -> list[int]:
    """Channels at work in each iteration, all of them but in the last."""
    return [min(CHANNELS, heads - done) for done in range(0, heads, CHANNELS)]


def _check(org: Organization, work: Work) -> None:
    for name, value in work._asdict().items():
        if value < 1:
            raise UserError(f"{name}: expected at least 1, got {value}; give a decode step with something to attend to")
    access = org.access_bits // BITS_PER_BYTE
    if access % work.element_bytes:
        raise UserError(f"element_bytes: expected a divisor of an access of {access} bytes, got {work.element_bytes}")
