"""What lies in the row of a channel's state."""

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.fields import Open
from pimloom.cycle_sim.npu_pim.kernels.views import part, table


@bare
def opened(ch):
    """A channel with all that its row holds."""
    row = ch.state
    return Open(
        row, table(row, f.BANK_AT, row[f.BANKS], f.N_BANK), part(row, f.FIRST_AT, f.LISTS),
        part(row, f.LENGTH_AT, f.LISTS), part(row, f.HEAD_AT, f.LINES), part(row, f.TAIL_AT, f.LINES), ch.device,
        ch.request, ch.spare, ch.list, ch.dots, ch.line, ch.order, ch.dot, ch.port, ch.left, ch.done, ch.turn, ch.ended,
        ch.owner, ch.open, ch.answer, ch.seen, ch.alike, ch.queued, ch.command, ch.tally, ch.rank, ch.drift, ch.state,
    )  # fmt: skip
