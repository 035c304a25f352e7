# amaranth: UnusedElaboratable=no
"""The rules of a PIM channel in gates: which command may go to which bank in this clock.

Counters are kept where rules bind: at a channel, rank, bank group or bank, one for all rules of a level that the same
command waits for. A rule between siblings arms the counters of the other nodes.
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.arch.command import Level
from pimloom.arch.table import RuleRow, rule_rows
from pimloom.rtl.command import any_of
from pimloom.rtl.npu_pim.plan import COUNT_BITS, Plan
from pimloom.rtl.timer import Timer

Arming = tuple[tuple[int, ...], bool, int]  # opcodes, whether at siblings, wait [CK]
Counter = tuple[int, int, tuple[Arming, ...]]  # level, node, what arms it


class Deadline(wiring.Component):
    """Clocks until no rule binds a command at one node.

    arm[i]: a command issues in this clock for whose sake it waits waits[i] clocks from now; busy: clocks that the last
    of them waits longer, if `moment`. free: nothing binds in this clock.
    """

    def __init__(self, waits: Sequence[int], moment: bool) -> None:
        self.waits, self.moment = tuple(waits), moment
        longest = max(waits) + (1 << busy_bits() if moment else 0)
        self.left = Signal(bits_for(longest))
        super().__init__({"arm": In(len(waits)), "free": Out(1)} | ({"busy": In(busy_bits())} if moment else {}))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.free.eq(self.left == 0)
        until: Value = Mux(self.left == 0, 0, self.left - 1)
        for i, wait in enumerate(self.waits):
            asked: Value = Signal(len(self.left), name=f"asked_{i}")
            late = self.busy if self.moment and i == len(self.waits) - 1 else 0
            m.d.comb += asked.eq(Mux(self.arm[i], late + wait - 1, 0))
            later = Signal(len(self.left), name=f"until_{i}")
            m.d.comb += later.eq(Mux(asked > until, asked, until))
            until = later
        m.d.sync += self.left.eq(until)
        return m


def busy_bits() -> int:
    """Bits of the clocks that the COMPs of a GEMV take."""
    return COUNT_BITS + 3


class Deadlines(wiring.Component):
    """All rules of the channel.

    issues: bit of the opcode that issues in this clock, moments of the table included; banks: those it acts on, of a
    group, rank or channel any of them. busy: clocks from a GEMV to the end of its COMPs.
    free[opcode][bank]: no rule binds the command there; of wider scope: not where the path of that bank goes.
    counters: by level, node and what arms them; of: those that an opcode waits for at each level.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.rules = plan, plan.table.rules
        n = len(plan.table.names)
        members = {"issues": In(n), "banks": In(plan.banks), "busy": In(busy_bits()), "free": Out(plan.banks).array(n)}
        super().__init__(members)
        self.of = {
            (opcode, level): arming
            for opcode in sorted(plan.used)
            for level in Level
            if (arming := self._arming(opcode, level))
        }
        self.counters: dict[Counter, Deadline] = {}
        for (_, level), arming in self.of.items():
            for node in range(int(self.rules.size[level])):
                if (level, node, arming) not in self.counters:
                    waits, moment = [wait for _, _, wait in arming], arming[-1][0] == (plan.op.gemv_end,)
                    self.counters[level, node, arming] = Deadline(waits, moment)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        at = self._touched(m)
        free: list[list[list[Value]]] = [[[] for _ in range(self.plan.banks)] for _ in self.free]
        shared: dict[Counter, Value] = {}
        for (opcode, level), arming in self.of.items():
            for node in range(int(self.rules.size[level])):
                key = level, node, arming
                if key not in shared:
                    shared[key] = self._deadline(m, f"{self.plan.table.names[opcode]}_{level.name}_{node}", key, at)
                self._bind(free[opcode], level, node, shared[key])
        for i, row in enumerate(rule_rows(self.rules)):
            if row.window > 1:
                self._window(m, i, row, at, free)
        for opcode, port in enumerate(self.free):
            m.d.comb += [port[b].eq(~any_of(~x for x in free[opcode][b])) for b in range(self.plan.banks)]
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

    def _arming(self, opcode: int, level: int) -> tuple[Arming, ...]:
        """What a command waits for at a level, what ends a GEMV last."""
        end = self.plan.op.gemv_end
        found = set[Arming]()
        for row in rule_rows(self.rules):
            if row.level == level and row.window == 1 and opcode in row.before:
                after = self.plan.used.intersection(row.after)
                found |= {((a,), row.sibling, row.wait) for a in after if row.wait > 1 or a == end}
        return tuple(sorted(found, key=lambda arm: (arm[0] == (end,), arm[2], arm)))

    def _deadline(self, m: Module, name: str, key: Counter, at: list[list[Signal]]) -> Value:
        level, node, arming = key
        m.submodules[f"before_{name}"] = deadline = self.counters[key]
        if deadline.moment:
            m.d.comb += deadline.busy.eq(self.busy)
        here = at[level][node]
        for i, (after, sibling, _) in enumerate(arming):
            where = here
            if sibling:
                each = int(self.rules.size[level] // self.rules.size[level - 1])
                where = at[level - 1][node // each] & ~here
            m.d.comb += deadline.arm[i].eq(any_of(self.issues[a] for a in after) & where)
        return deadline.free

    def _window(self, m: Module, i: int, row: RuleRow, at: list[list[Signal]], free: list[list[list[Value]]]) -> None:
        for node in range(int(self.rules.size[row.level])):
            m.submodules[f"window_{i}_{node}"] = timer = Timer(row.window, row.wait)
            m.d.comb += timer.arm.eq(any_of(self.issues[a] for a in row.after) & at[row.level][node])
            for opcode in self.plan.used.intersection(row.before):
                self._bind(free[opcode], row.level, node, ~timer.busy[row.window - 1])

    def _bind(self, free: list[list[Value]], level: int, node: int, value: Value) -> None:
        each = self.plan.banks // int(self.rules.size[level])
        for bank in range(node * each, (node + 1) * each):
            free[bank].append(value)
