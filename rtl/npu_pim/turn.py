"""What the oldest PIM command does in a clock: whether it ends before the next refresh, and what issues for it."""

from collections.abc import Sequence
from typing import NamedTuple

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from pimloom.rtl.npu_pim import head as pim
from pimloom.rtl.npu_pim.head import Asked, BankState
from pimloom.rtl.npu_pim.plan import Plan


class Turn(NamedTuple):
    """What the oldest PIM command does in this clock: `what` issues, and the command leaves if that is it.

    considered: it is its turn. starts: it, a copy or a header, ends before the next refresh; late: it does not.
    remain: clocks until that refresh which it leaves to others. stuck: a READRES finds a bank without a row.
    """

    considered: Value
    issues: Value
    leaves: Value
    what: Asked
    starts: Value
    late: Value
    remain: Value
    stuck: Value


def idle(remain: Value) -> Turn:
    """The turn of a channel without PIM commands: nothing is asked, nothing is held."""
    no = Const(0, 1)
    return Turn(no, no, no, Asked(no, no, no, no), no, no, remain, no)


def turn_of(
    m: Module,
    plan: Plan,
    banks: list[BankState],
    free: Sequence[Value],
    head: data.View,
    ours: Value,
    copying: Value,
    slack: Value,
    aged: Value,
) -> Turn:
    """ours: nothing goes before it; copying: a copy is under way; slack: clocks until the next refresh falls due;
    aged: clocks that were left when they were last reckoned up, less those since; free: as of `RuleTimers`."""
    names = ("considered", "fresh", "starts", "late", "issues", "leaves", "stuck")
    considered, fresh, starts, late, issues, leaves, stuck = (Signal(name=f"dot_{name}") for name in names)
    is_copy, is_header = head.cmd == plan.op.gwrite, head.cmd == plan.op.header
    left = Signal(signed(len(aged) + pim.plan_bits(plan) + 1), name="time_left")
    remain = Signal.like(aged, name="remain_now")
    channel = {n: free[getattr(plan.op, n)][0] for n in ("comp", "readres", "gemv") if getattr(plan.op, n) >= 0}
    dots, closed = pim.dot(m, plan, banks, head, channel)
    others = _either(m, is_header, pim.announce(m, plan, banks, head), dots, "dot_or_header")
    wants = _either(m, is_copy, pim.copy(m, plan, banks, head), others, "head")
    waits = copying & ~is_copy
    m.d.comb += [
        considered.eq(ours),
        fresh.eq(considered & ~copying & (is_copy | is_header)),
        left.eq(slack - pim.estimate_ck(m, plan, banks, head)),
        late.eq(fresh & (left <= 0)),
        starts.eq(fresh & (left > 0)),
        remain.eq(Mux(fresh, Mux(left > 0, left, 0), aged)),
        issues.eq(considered & ~waits & ~late & wants.valid),
        leaves.eq(issues & (wants.opcode == head.cmd)),
        stuck.eq(considered & ~waits & closed & ~is_copy & ~is_header),
    ]
    return Turn(considered, issues, leaves, wants, starts, late, remain, stuck)


def _either(m: Module, which: Value, a: Asked, b: Asked, name: str) -> Asked:
    """a where `which`, else b."""
    found = []
    for field, x, y in zip(Asked._fields, a, b, strict=True):
        value = Signal(max(len(x), len(y)), name=f"{name}_{field}")
        m.d.comb += value.eq(Mux(which, x, y))
        found.append(value)
    return Asked(*found)
