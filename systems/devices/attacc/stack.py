"""A stack of AttAcc in a decode step: its cycles and commands, and what they draw."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.part import Organization
from pimloom.arch.table import Table
from pimloom.cycle_sim.attacc.simulate import Issue, simulate
from pimloom.energy.attacc import stack_energy
from pimloom.energy.ledger import Ledger
from pimloom.mappers.attacc.counts import count_commands
from pimloom.mappers.attacc.groups import count_groups, deal, layouts, requests
from pimloom.mappers.attacc.layout import CHANNELS, Layout, Placement, Work, lay_out
from pimloom.mappers.attacc.stream import check_rows, streams
from pimloom.systems.reference.attacc import Slips


class Answer(NamedTuple):
    """cycles: of the channel that takes longest [CK]. counts: of all channels, by kind."""

    cycles: int
    counts: dict[str, int]
    energy: Ledger


def attention(org: Organization, table: Table, placement: Placement, work: Work, slips: Slips) -> Answer:
    """Scores, softmax and context of the heads of one stack. Raises UserError."""
    layout = lay_out(org, placement, work)
    check_rows(org, layout, work, as_released=slips.schedule)  # which tells the context that was asked for
    counts = count_commands(layout, work, as_released=slips.schedule)
    of_scores = work.heads * work.context * work.head_dim
    multiply_adds = of_scores if slips.context_for_free else 2 * of_scores
    energy = stack_energy(org, placement, counts, multiply_adds, as_released=slips.wires_per_byte, from_table=True)
    steady = work._replace(context=layout.positions)  # contexts of one layout take the same clocks
    return Answer(_cycles(org, table, placement, layout, steady, slips.schedule), counts, energy)


def attention_of_groups(
    org: Organization, table: Table, placement: Placement, work: Work, contexts: Sequence[int], sharers: int,
    stacks: int, slips: Slips,
) -> Answer:  # fmt: skip
    """The same of groups of `sharers` query heads with these contexts, on all stacks beside a GPU; of `work` the width.
    Raises UserError."""
    if slips.schedule:
        raise UserError("--fidelity released: the authors' code has heads of one length with keys of their own alone")
    dealt = {layouts(org, placement, work, each) for each in deal(contexts, stacks * CHANNELS)}
    cycles = max(_cycles_of_groups(org, table, placement, each, sharers) for each in dealt)
    counts = count_groups(layouts(org, placement, work, contexts), sharers)
    multiply_adds = 2 * sharers * sum(contexts) * work.head_dim
    return Answer(cycles, counts, stack_energy(org, placement, counts, multiply_adds))


@lru_cache(maxsize=4096)
def _cycles_of_groups(
    org: Organization, table: Table, placement: Placement, each: tuple[Layout, ...], sharers: int
) -> int:
    return simulate(table, placement, requests(org, each, sharers), issue=_issue(table)).cycles


@lru_cache(maxsize=1024)
def _cycles(
    org: Organization, table: Table, placement: Placement, layout: Layout, work: Work, as_released: bool
) -> int:
    every = streams(org, layout, work, as_released=as_released)
    return max(simulate(table, placement, same.requests, issue=_issue(table)).cycles for same in every)


def _issue(table: Table) -> Issue:
    """One command a clock where rows and columns share a bus."""
    return Issue.ONE if len({command.bus for command in table.commands}) == 1 else Issue.ALWAYS
