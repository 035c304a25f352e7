# amaranth: UnusedElaboratable=no
"""All rules of a PIM channel in gates: which command may go to which bank in this clock."""

from collections.abc import Iterator

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.arch.command import Level
from pimloom.arch.table import RuleRow, rule_rows
from pimloom.rtl.command import any_of
from pimloom.rtl.npu_pim.plan import COUNT_BITS, Plan
from pimloom.rtl.timer import Timer

BUSY_BITS = COUNT_BITS + 3  # of the clocks that the COMPs of a GEMV take


class RuleTimers(wiring.Component):
    """A timer for each rule at each of its nodes.

    issues: bit of the opcode that issues in this clock, moments of the table included; banks: those it acts on, of a
    group, rank or channel any of them. busy: clocks from a GEMV to the end of its COMPs, from which its rules count.
    free[opcode][bank]: no rule binds the command there; a command of wider scope asks at all of its banks.
    timers: by rule and node; rules that wait the same clocks for the same commands share those of the first, timed_by.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.rules, self.rows = plan, plan.table.rules, rule_rows(plan.table.rules)
        n = len(plan.table.names)
        members = {"issues": In(n), "banks": In(plan.banks), "busy": In(BUSY_BITS), "free": Out(plan.banks).array(n)}
        super().__init__(members)
        self.timers, self.timed_by = dict[tuple[int, int], Timer](), dict[int, int]()
        self.waits: dict[int, Value | int] = {i: row.wait for i, row in enumerate(self.rows)}
        same: dict[object, int] = {}
        for i, row in enumerate(self.rows):
            after, moment = plan.used.intersection(row.after), plan.op.gemv_end in row.after
            if not after or not plan.used.intersection(row.before) or not (row.wait > 1 or moment):
                continue
            first = self.timed_by[i] = same.setdefault((row.level, row.window, row.wait, after), i)
            for node in range(int(self.rules.size[row.level])) if first == i else ():
                bits = bits_for((1 << BUSY_BITS) + row.wait)
                self.timers[i, node] = Timer(1, None, bits) if moment else Timer(row.window, row.wait)

    @property
    def instances(self) -> dict[str, str]:
        """Modules of the timers by instance."""
        return {f"rule_{i}_{node}": timer.module for (i, node), timer in self.timers.items()}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        at = self._touched(m)
        for (i, node), timer in self.timers.items():
            m.submodules[f"rule_{i}_{node}"] = timer
            after = self.plan.used.intersection(self.rows[i].after)
            m.d.comb += timer.arm.eq(any_of(self.issues[a] for a in after) & at[self.rows[i].level][node])
            if self.plan.op.gemv_end in after:
                m.d.comb += timer.wait.eq(self.busy + self.waits[i])
        for opcode in self.plan.used:
            port = self.free[opcode]
            m.d.comb += [port[b].eq(~any_of(self._binding(opcode, b))) for b in range(self.plan.banks)]
        return m

    def _touched(self, m: Module) -> list[list[Signal]]:
        """at[level][node]: the command that issues acts there."""
        at = []
        for level in Level:
            each = self.plan.banks // int(self.rules.size[level])
            nodes = [Signal(name=f"at_{level.name.lower()}_{n}") for n in range(int(self.rules.size[level]))]
            m.d.comb += [node.eq(self.banks[n * each : (n + 1) * each].any()) for n, node in enumerate(nodes)]
            at.append(nodes)
        return at

    def _binding(self, opcode: int, bank: int) -> Iterator[Value]:
        """For each rule of the command and node that binds it at the bank, whether it does."""
        for i, first in self.timed_by.items():
            row = self.rows[i]
            if opcode in row.before:
                for node in self.arming(row, bank * int(self.rules.size[row.level]) // self.plan.banks):
                    yield self.timers[first, node].busy[row.window - 1]

    def arming(self, row: RuleRow, node: int) -> list[int]:
        """Nodes whose timers bind at a node: its own, or its siblings'."""
        if not row.sibling:
            return [node]
        each = int(self.rules.size[row.level] // self.rules.size[row.level - 1])
        return [n for n in range(node // each * each, (node // each + 1) * each) if n != node]
