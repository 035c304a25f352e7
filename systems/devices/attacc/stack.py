"""A stack of AttAcc in a decode step: its cycles and commands, and what they draw."""

from functools import lru_cache
from typing import NamedTuple

from pimloom.arch.part import Organization
from pimloom.arch.table import Table
from pimloom.cycle_sim.attacc.simulate import simulate
from pimloom.energy.attacc import stack_energy
from pimloom.energy.ledger import Ledger
from pimloom.mappers.attacc.counts import count_commands
from pimloom.mappers.attacc.layout import Layout, Placement, Work, lay_out
from pimloom.mappers.attacc.stream import streams
from pimloom.systems.reference.attacc import Slips


class Answer(NamedTuple):
    """cycles: of the channel that takes longest [CK]. counts: of all channels, by kind."""

    cycles: int
    counts: dict[str, int]
    energy: Ledger


def attention(org: Organization, table: Table, placement: Placement, work: Work, slips: Slips) -> Answer:
    """Scores, softmax and context of the heads of one stack. Raises UserError."""
    layout = lay_out(org, placement, work)
    counts = count_commands(layout, work, as_released=slips.schedule)
    of_scores = work.heads * work.context * work.head_dim
    multiply_adds = of_scores if slips.context_for_free else 2 * of_scores
    energy = stack_energy(placement, counts, multiply_adds, as_released=slips.wires_per_byte, from_table=True)
    steady = work._replace(context=layout.positions)  # contexts of one layout take the same clocks
    return Answer(_cycles(org, table, placement, layout, steady, slips.schedule), counts, energy)


@lru_cache(maxsize=1024)
def _cycles(
    org: Organization, table: Table, placement: Placement, layout: Layout, work: Work, as_released: bool
) -> int:
    every = streams(org, layout, work, as_released=as_released)
    return max(simulate(table, placement, same.requests).cycles for same in every)
