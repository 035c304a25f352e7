"""Decisions of a PIM channel's controller, each wrong in the gates alone: (mode, where, what it says, what it says
then)."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from pimloom.rtl.npu_pim import clockwork
from pimloom.rtl.npu_pim.queues import lists
from pimloom.rtl.npu_pim.queues.bank_queue import BankQueue


class Mutant(NamedTuple):
    """A function of `owner`, some text in it, and what stands there in the broken gates."""

    mode: str
    owner: Any
    name: str
    old: str
    new: str

    def __str__(self) -> str:
        owner = self.owner.__name__.rpartition(".")[2]
        return f"{owner}.{self.name}: {self.old} -> {self.new}"

    def function(self) -> Callable[..., Any]:
        """The broken function."""
        was = getattr(self.owner, self.name)
        source = textwrap.dedent(inspect.getsource(was))
        assert source.count(self.old) == 1, self
        space = dict(was.__globals__)
        exec(compile(source.replace(self.old, self.new), "<mutant>", "exec"), space)
        return space[self.name]


D, B = "dual", "blocked"
C = clockwork
MUTANTS = (
    Mutant(D, C.RefreshClock, "elaborate", "self.phase == 0)", "self.phase == 1)"),
    Mutant(D, C.RefreshClock, "elaborate", "self.rank.eq(Mux(", "self.rank.eq(0 & Mux("),
    Mutant(D, C.RefreshClock, "elaborate", "slice_ck - self.phase)", "slice_ck - self.phase - 1)"),
    Mutant(D, C.RoundRobin, "elaborate", "Const(2, ", "Const(1, "),
    Mutant(D, C.RoundRobin, "elaborate", "behind.any()", "0"),
    Mutant(B, C.OpenRows, "_bank", "group & self.g_act & (not plan.dual)", "here & self.g_act & (not plan.dual)"),
    Mutant(D, BankQueue, "_choose", "| self.capped", ""),
    Mutant(D, BankQueue, "_choose", "(~any_of(hits) | self.capped)", "self.capped"),
    Mutant(D, BankQueue, "_choose", " & self.may_open", ""),
    Mutant(D, BankQueue, "_choose", "rows.reserved_open & ", "0 & "),
    Mutant(D, BankQueue, "_choose", "awake.eq(~self.held)", "awake.eq(1)"),
    Mutant(D, BankQueue, "_choose", "inside = [rows.pim_open & ", "inside = [0 & "),
    Mutant(D, BankQueue, "_merge", "old.merged + more", "old.merged"),
    Mutant(D, lists.Lists, "_take_dots", "header | (held < self.plan.window)", "held < self.plan.window"),
    Mutant(D, lists.Lists, "_take_dots", "held < self.plan.window", "held < self.plan.window + 1"),
    Mutant(D, lists.Lists, "_take_data", "(held < self.plan.window)", "(held < self.plan.window - 1)"),
    Mutant(D, lists.Lists, "_take_data", " | column.write)", ")"),
    Mutant(D, lists.Lists, "_take_data", "any_of(listed) | ", ""),
    Mutant(D, lists.Lists, "_take_data", "merged.eq(any_of(same) | ", "merged.eq("),
    Mutant(D, lists.Lists, "_take_data", "before & room", "room"),
    Mutant(D, lists.Lists, "_move", "(writes.length > plan.drain_idle) & ~self.queued",
           "(writes.length > plan.drain_idle)"),
    Mutant(D, lists.Lists, "_move", "(writes.length == plan.entries) | ", ""),
    Mutant(D, lists.Lists, "_move", "writes.length > plan.drain_idle", "writes.length >= plan.drain_idle"),
    Mutant(D, lists.Lists, "_move", "drains & ~few", "drains"),
    Mutant(D, lists.Lists, "_move", "few | (reads.length == 0)", "few"),
)  # fmt: skip
