# amaranth: UnusedElaboratable=no
"""What is proved of the controller of an NPU's channel with PIM, told from its bus alone, whatever is offered.

Rules that look back to a moment of the table (the end of a GEMV) or over a window are left to the timers' own proof
and to co-simulation.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from amaranth.asserts import AnySeq
from amaranth.hdl import Assume, Const, Module, Mux, Signal, Value
from amaranth.utils import bits_for

from pimloom.arch.part import Part
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import RuleRow, rule_rows
from pimloom.arch.units import Time
from pimloom.rtl.formal.checker import any_of, wire
from pimloom.rtl.formal.question import Claim
from pimloom.rtl.npu_pim.channel import controller, mode_of
from pimloom.rtl.npu_pim.clockwork import OpenRows
from pimloom.rtl.npu_pim.controller import Controller
from pimloom.rtl.npu_pim.queues.bank_queue import BankQueue

FEW = {"entries": 2, "queue_entries": 2, "pim_queue_entries": 3, "window": 8}  # places
CLOCKS = 3  # of a short timing, at most
SMALL = {"bank_groups": 2, "banks_per_group": 2, "rows": 4, "columns": 2}


def small(part: Part, *, short: bool = False) -> PimChannel:
    """A channel with the part's commands and timings, and as few banks, rows and places as show all there is. short:
    timings of a few clocks, so that situations lie near the reset; but for refresh, which then falls due as ever."""
    own, _ = controller()
    few = msgspec.structs.replace(part.organization, **SMALL)
    timing = {name: Time(min(part.cycles(name), CLOCKS)) for name in part.timing if name != "tREFI"}
    spec = msgspec.structs.replace(part, organization=few, timing=part.timing | timing if short else part.timing)
    return PimChannel(spec, mode_of(part), msgspec.structs.replace(own, **FEW))


class Channel:
    """A controller between any offers. did: by opcode, whether it issues; at: by bank, whether the command acts there;
    ages: of each rule and node, clocks since what starts it; mem, pim: by bank, whether a row is open and which."""

    def __init__(self, make: Callable[[], Controller], m: Module, twin: Any, bits: int) -> None:
        self.m, self.c = m, make()
        if twin is not None:
            TWINS[twin](self.c)
        m.submodules.controller = c = self.c
        self.plan, self.rules = c.plan, c.plan.table.rules
        for offer in (*c.data, *c.pim):
            payload = Value.cast(offer.payload)
            m.d.comb += [offer.valid.eq(AnySeq(1)), payload.eq(AnySeq(len(payload)))]
        op = self.plan.op
        own = [code for code in (op.gwrite, op.header, op.comp, op.readres, op.gemv) if code in self.plan.used]
        for dot in c.pim:
            m.d.comb += Assume(any_of(dot.payload.cmd == code for code in own))
        command = c.bus.command
        names = range(len(self.plan.table.names))
        self.did = [wire(m, c.bus.valid & (command.cmd == code), f"did_{code}") for code in names]
        closes = self.did[op.pim_pre] if op.pim_pre >= 0 else Const(0, 1)
        together = [command.bank // self.plan.closed == b // self.plan.closed for b in range(self.plan.banks)]
        self.at = [wire(m, (command.bank == b) | closes & together[b], f"at_{b}") for b in range(self.plan.banks)]
        self.near = [
            (i, rule)
            for i, rule in enumerate(rule_rows(self.rules))
            if rule.window == 1 and rule.wait > 1 and self._issues(rule.before) and self._issues(rule.after)
        ]
        self.ages = {
            (i, node): Signal(bits_for(rule.wait), init=-1, name=f"age_{i}_{node}")
            for i, rule in self.near
            for node in range(int(self.rules.size[rule.level]))
        }
        for i, rule in self.near:
            for node in range(int(self.rules.size[rule.level])):
                age = self.ages[i, node]
                m.d.sync += age.eq(Mux(self.starts(rule, node), 1, age + ~age.all()))
        self.mem, self.pim = self._rows(m, op.act, op.pre, op.g_act, op.pim_pre)

    def _issues(self, opcodes: Any) -> list[int]:
        """Those that are commands, and issue."""
        moments = (self.plan.op.gemv_end, self.plan.op.comp_first)
        return [code for code in opcodes if code in self.plan.used and code not in moments]

    def node(self, level: int, node: int) -> Value:
        """Whether the command acts at a node."""
        each = self.plan.banks // int(self.rules.size[level])
        return any_of(self.at[node * each : (node + 1) * each])

    def starts(self, rule: RuleRow, node: int) -> Value:
        """Whether the command starts a rule at a node."""
        here = self.node(rule.level, node)
        if rule.sibling:
            each = int(self.rules.size[rule.level] // self.rules.size[rule.level - 1])
            here = self.node(rule.level - 1, node // each) & ~here
        return here & any_of(self.did[code] for code in self._issues(rule.after))

    def _rows(self, m: Module, act: int, pre: int, g_act: int, pim_pre: int) -> Any:
        plan, command = self.plan, self.c.bus.command
        found: list[list[tuple[Signal, Signal]]] = []
        for buffer in ("mem", "pim"):
            banks = []
            for b in range(plan.banks):
                is_open, row = Signal(name=f"{buffer}_{b}"), Signal.like(command.row, name=f"{buffer}_{b}_row")
                group = self.did[g_act] & (command.bank // plan.group == b // plan.group)
                both = not plan.dual
                mine = self.did[act] & self.at[b] if buffer == "mem" else group
                opens = mine | group if both else mine
                shuts = self.did[pre] & self.at[b] if buffer == "mem" or both else self.did[pim_pre] & self.at[b]
                with m.If(opens):
                    m.d.sync += [is_open.eq(1), row.eq(command.row)]
                with m.Elif(shuts):
                    m.d.sync += is_open.eq(0)
                banks.append((is_open, row))
            found.append(banks)
        return found[0], found[1] if plan.dual else found[0]


def timing(s: Channel) -> Iterator[Value]:
    """No command issues before the rules of its table allow it."""
    for i, rule in s.near:
        asks = any_of(s.did[code] for code in s._issues(rule.before))
        for node in range(int(s.rules.size[rule.level])):
            yield ~(asks & s.node(rule.level, node) & (s.ages[i, node] < rule.wait))


def timing_lemma(s: Channel) -> Iterator[Value]:
    """A timer that binds at a node has what is left of the rule there."""
    t = s.c.timers
    for i, rule in s.near:
        for node in range(int(s.rules.size[rule.level])):
            age, left = s.ages[i, node], [t.timers[t.timed_by[i], n].left[0] for n in t.arming(rule, node)]
            yield (age >= rule.wait) | any_of(each + age >= rule.wait for each in left)


def rows(s: Channel) -> Iterator[Value]:
    """A row is opened where none is, closed where one is, read and written where it is the one that is open; a refresh
    finds all rows of its rank closed, in both buffers."""
    op, command = s.plan.op, s.c.bus.command
    for b in range(s.plan.banks):
        (is_open, row), (inside, _) = s.mem[b], s.pim[b]
        here = command.bank == b
        yield ~(s.did[op.act] & here & is_open)
        yield ~(s.did[op.pre] & here & ~is_open)
        access = (s.did[op.rd] | s.did[op.wr]) & here
        yield ~access | is_open & (row == command.row)
        rank = s.plan.banks // s.plan.ranks
        yield ~(s.did[op.refresh] & (command.bank // rank == b // rank) & (is_open | inside))


def rows_lemma(s: Channel) -> Iterator[Value]:
    """The controller's rows are the checker's."""
    mine = s.c.rows
    for b in range(s.plan.banks):
        for opens, row, (is_open, at) in (
            (mine.mem_open, mine.mem_row, s.mem[b]),
            (mine.pim_open, mine.pim_row, s.pim[b]),
        ):
            yield (opens[b] == is_open) & (~is_open | (row[b] == at))


def places(s: Channel) -> Iterator[Value]:
    """No list and no queue takes more than it has places for, and a queue of PIM knows how many tiles end in it."""
    for queue in s.c.queues:
        yield queue.line.length <= s.plan.queue
    for line in (s.c.lists.reads, s.c.lists.writes, s.c.lists.dots):
        yield line.length <= s.plan.entries
    dots = s.c.dots
    yield dots.line.length <= s.plan.pim_queue
    ends = [dots.line.there(i) & entry.last for i, entry in enumerate(dots.line.entries)]
    yield dots.tiles == sum(ends, Const(0, 1))


def timing_seen(s: Channel) -> Iterator[Value]:
    """A column read in the clock in which its row may be."""
    op, b = s.plan.op, s.plan.banks - 1
    yield s.did[op.rd] & s.at[b]


def rows_seen(s: Channel) -> Iterator[Value]:
    """A row closed for another one."""
    yield s.did[s.plan.op.pre]


def places_seen(s: Channel) -> Iterator[Value]:
    """A full list, a full queue of a bank and of PIM."""
    yield s.c.lists.reads.length == s.plan.entries
    yield s.c.queues[0].line.length == s.plan.queue
    yield s.c.dots.line.length == s.plan.pim_queue


class Blind(OpenRows):
    """Takes every row of memory for closed."""

    def _bank(self, m: Module, b: int) -> None:
        super()._bank(m, b)
        m.d.comb += self.mem_open[b].eq(0)


class Greedy(BankQueue):
    """Says that it has a place."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += self.full.eq(0)
        return m


def _hasty(c: Controller) -> None:
    """Each timer a clock short."""
    for timer in c.timers.timers.values():
        if isinstance(timer.wait, Const):
            timer.wait = Const(max(timer.wait.value - 1, 1), timer.bits)


def _blind(c: Controller) -> None:
    c.rows.__class__ = Blind


def _greedy(c: Controller) -> None:
    for queue in c.queues:
        queue.__class__ = Greedy


TWINS: dict[str, Callable[[Controller], None]] = {"hasty": _hasty, "blind": _blind, "greedy": _greedy}
CLAIMS = {
    "timing": Claim(timing, timing_seen, ("hasty",), timing_lemma),
    "rows": Claim(rows, rows_seen, ("blind",), rows_lemma),
    "places": Claim(places, places_seen, ("greedy",)),
}
