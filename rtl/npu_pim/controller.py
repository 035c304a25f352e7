# amaranth: UnusedElaboratable=no
"""The controller of one channel of an NPU with PIM, in gates: `cycle_sim/npu_pim/kernels` clock for clock.

In a clock, in this order: requests are taken, answers come, a refresh falls due, a command issues, and a request goes
to its command queue.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.arch.pim_channel import PimChannel
from pimloom.rtl.command import any_of
from pimloom.rtl.npu_pim import head as pim
from pimloom.rtl.npu_pim.clockwork import OpenRows, RefreshClock, RoundRobin
from pimloom.rtl.npu_pim.head import Asked, BankState
from pimloom.rtl.npu_pim.plan import COUNT_BITS, Plan, plan_of
from pimloom.rtl.npu_pim.queues.bank_queue import BankQueue
from pimloom.rtl.npu_pim.queues.line import chosen
from pimloom.rtl.npu_pim.queues.lists import Lists
from pimloom.rtl.npu_pim.queues.pim_queue import PimQueue
from pimloom.rtl.npu_pim.queues.responses import Answers, Responses
from pimloom.rtl.npu_pim.timers import RuleTimers
from pimloom.rtl.npu_pim.turn import Turn, idle, turn_of


class Bus(wiring.Signature):
    """The command that issues in this clock; row of what it opens, column of an access or a copy."""

    def __init__(self, plan: Plan) -> None:
        super().__init__({"valid": Out(1), "command": Out(plan.command())})


class Controller(wiring.Component):
    """A channel's controller by the physical rules, with all sizes and clocks of its spec.

    data, pim: requests of each port in order, offered together; the second is taken only with the first. PIM's are
    first. quick[i]: access i is answered in the next clock. bus: what issues. answers: what is due. stuck: a READRES
    finds a bank without a row, and nothing of PIM ever goes on. comps: of the GEMV that issues.

    Raises UserError for departures from the physical rules.
    """

    def __init__(self, spec: PimChannel) -> None:
        self.plan = plan = plan_of(spec)
        self.table = plan.table
        offers = {"data": In(stream.Signature(plan.access())).array(plan.offers)}
        if plan.pim:
            offers["pim"] = In(stream.Signature(plan.dot())).array(plan.offers)
        out = {"quick": Out(plan.offers), "bus": Out(Bus(plan)), "answers": Out(Answers(plan)), "stuck": Out(1)}
        if plan.pim:
            out["comps"] = Out(COUNT_BITS)
        super().__init__({**offers, **out})
        self.copying, self.copy_bank = Signal(name="copying"), Signal(range(plan.banks), name="copy_bank")
        self.skip, self.pim_mode, self.fill = Signal(name="skip"), Signal(name="pim_mode"), Signal(init=1, name="fill")
        self.reserved, self.remain = Signal(name="reserved"), Signal(range(plan.slice_ck + 1), name="remain")
        self.reserved_row = Signal(range(plan.table.rules.rows))
        self.timers, self.responses, self.lists = RuleTimers(plan), Responses(plan), Lists(plan)
        self.refreshes, self.robin, self.rows = RefreshClock(plan), RoundRobin(plan), OpenRows(plan)
        if plan.pim:
            self.dots = PimQueue(plan)
        self.queues = [BankQueue(plan) for _ in range(plan.banks)]

    @property
    def instances(self) -> dict[str, str]:
        """Modules of the timers by instance."""
        return self.timers.instances

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.timers, m.submodules.responses, m.submodules.lists = self.timers, self.responses, self.lists
        m.submodules.refresh_clock, m.submodules.round_robin, m.submodules.rows = self.refreshes, self.robin, self.rows
        if self.plan.pim:
            m.submodules.pim_queue = self.dots
        for b, queue in enumerate(self.queues):
            m.submodules[f"queue_{b}"] = queue
        self.banks = self._banks(m)
        due = self.refreshes.due
        refresh = pim.refresh(m, self.plan, self.banks, self.refreshes.rank)
        closes = Signal(name="refresh_issues")
        m.d.comb += closes.eq(due & refresh.valid)
        turn = self._turn(m, due, closes)
        which = self._choose(m, due, closes, turn)
        self._issue(m, refresh, closes, turn, which)
        self._rows(m)
        self._lists(m)
        self._answers(m)
        return m

    # --- the state of the banks

    def _banks(self, m: Module) -> list[BankState]:
        """Rows and rules of each bank; of wider commands at all banks that they act on."""
        plan, op, found = self.plan, self.plan.op, []

        def at(name: str, bank: int) -> Value:
            opcode = getattr(op, name)
            return self.timers.free[opcode][bank] if opcode >= 0 else Const(0, 1)

        for b in range(plan.banks):
            low = b // plan.closed * plan.closed
            free = {name: at(name, b) for name in ("act", "pre", "rd", "wr", "refresh", "gwrite", "g_act")}
            free["pim_pre"] = ~any_of(~at("pim_pre", i) for i in range(low, low + plan.closed))
            rows = self.rows
            found.append(BankState(rows.mem_open[b], rows.mem_row[b], rows.pim_open[b], rows.pim_row[b], free))
        return found

    def _rank(self, bank: int) -> int:
        return bank // (self.plan.banks // self.plan.ranks)

    # --- reads and writes

    def _choose(self, m: Module, due: Value, closes: Value, turn: Turn) -> Value:
        """The bank whose queue issues, if any: a bit each; in turn, the one behind the last first."""
        plan = self.plan
        chooses, counts, held = Signal(name="chooses"), Signal(name="time_counts"), Signal(plan.banks, name="bank_held")
        if plan.blocked:
            m.d.comb += chooses.eq(~closes & (self.skip | ~(self.pim_mode | self._idle())))
        else:
            leaves_bus = ~turn.considered | (~turn.issues & (turn.remain >= plan.floor))
            m.d.comb += chooses.eq(~closes & leaves_bus)
        header: Value = Const(0, 1)
        row: Value = self.reserved_row
        if plan.pim:
            header = turn.starts & (self.dots.head.cmd == plan.op.header)
            row = Mux(header, self.dots.head.row, self.reserved_row)
            copy = turn.starts & ~header
            copying, bank = self.copying_now | copy, Mux(copy, self.dots.head.bank, self.copy_bank)
            m.d.sync += [self.copying.eq(copying), self.copy_bank.eq(bank)]
            m.d.comb += [held[b].eq(copying & (bank == b)) for b in range(plan.banks)]
        if plan.dual:
            m.d.comb += counts.eq((turn.remain != 0) & self.dots.now.waits)
        for b, (queue, bank_state) in enumerate(zip(self.queues, self.banks, strict=True)):
            rows = queue.rows
            m.d.comb += [
                *(getattr(queue, f"free_{name}").eq(bank_state.free[name]) for name in ("act", "pre", "rd", "wr")),
                queue.free_pim_pre.eq(bank_state.free["pim_pre"]),
                rows.mem_open.eq(bank_state.mem_open),
                rows.mem.eq(bank_state.mem_row),
                rows.pim_open.eq(bank_state.pim_open if plan.dual else 0),
                rows.pim.eq(bank_state.pim_row),
                rows.reserved_open.eq(self.reserved | header),
                rows.reserved.eq(row),
                queue.may_open.eq(~counts | (turn.remain > plan.act_ck)),
                queue.may_close.eq(~counts | (turn.remain > plan.close_ck)),
                queue.capped.eq(self.rows.capped[b]),
                queue.held.eq(held[b] | (due & (self.refreshes.rank == self._rank(b)))),
            ]
        self.counts = counts
        wants = Cat(q.act | q.pre | q.rd | q.wr | q.pim_pre for q in self.queues)
        m.d.comb += [self.robin.wants.eq(wants), self.robin.chooses.eq(chooses), self.robin.one.eq(self.pim_mode)]
        m.d.comb += [queue.go.eq(self.robin.which[b]) for b, queue in enumerate(self.queues)]
        return self.robin.which

    def _turn(self, m: Module, due: Value, closes: Value) -> Turn:
        """What the oldest PIM command does."""
        plan, aged = self.plan, Signal.like(self.remain, name="remain_aged")
        m.d.comb += aged.eq(Mux(self.responses.copy, 0, self.remain - (self.remain != 0)))
        if not plan.pim:
            return idle(aged)
        self.copying_now = Signal()
        m.d.comb += self.copying_now.eq(self.copying & ~self.responses.copy)
        ours = ~closes & ~self.skip & ~due & self.dots.now.waits
        if plan.blocked:
            ours = ours & (self.pim_mode | self._idle())
        free = self.timers.free
        turn = turn_of(m, plan, self.banks, free, self.dots.head, ours, self.copying_now, self.refreshes.slack, aged)
        m.d.comb += [self.dots.leaves.eq(turn.leaves), self.stuck.eq(turn.stuck)]
        return turn

    def _idle(self) -> Value:
        """Whether no bank's queue holds anything."""
        return ~any_of(~queue.empty for queue in self.queues)

    # --- the command that issues

    def _issue(self, m: Module, refresh: Asked, closes: Value, turn: Turn, which: Value) -> None:
        plan, op, command = self.plan, self.plan.op, self.bus.command
        queues = self.queues
        chosen_row = chosen(m, which, [q.row for q in queues], "access_row")
        chosen_col = chosen(m, which, [q.col for q in queues], "access_col")
        m.d.comb += self.bus.valid.eq(closes | turn.issues | which.any())
        with m.If(closes):
            m.d.comb += [command.cmd.eq(refresh.opcode), command.bank.eq(refresh.bank)]
        if plan.pim:
            with m.Elif(turn.issues):
                m.d.comb += [command.cmd.eq(turn.what.opcode), command.bank.eq(turn.what.bank)]
                m.d.comb += [command.row.eq(turn.what.row), command.col.eq(self.dots.head.col)]
        with m.Else():
            for name in ("act", "pre", "rd", "wr", "pim_pre"):
                with m.If(any_of(which[b] & getattr(q, name) for b, q in enumerate(queues))):
                    m.d.comb += command.cmd.eq(max(getattr(op, name), 0))
            banks = [Const(b, len(command.bank)) for b in range(plan.banks)]
            m.d.comb += command.bank.eq(chosen(m, which, banks, "access_bank"))
            m.d.comb += [command.row.eq(chosen_row), command.col.eq(chosen_col)]
        self.does = {name: Signal(name=f"does_{name}") for name, opcode in op._asdict().items() if opcode >= 0}
        for name, bit in self.does.items():
            m.d.comb += bit.eq(self.bus.valid & (command.cmd == getattr(op, name)))
        self._arm(m)
        self._remember(m, turn, which)

    def _did(self, name: str) -> Value:
        return self.does.get(name, Const(0, 1))

    def _arm(self, m: Module) -> None:
        """The rules that the command starts."""
        plan, op, command, timers = self.plan, self.plan.op, self.bus.command, self.timers
        moments = {op.comp_first: self._did("comp") & self.fill, op.gemv_end: self._did("gemv")}
        for opcode in range(len(plan.table.names)):
            m.d.comb += timers.issues[opcode].eq(moments.get(opcode, self.bus.valid & (command.cmd == opcode)))
        wide = self._did("pim_pre")
        self.closes = [wide & (command.bank // plan.closed == b // plan.closed) for b in range(plan.banks)]
        for b in range(plan.banks):
            m.d.comb += timers.banks[b].eq((command.bank == b) | self.closes[b])
        if plan.pim:
            span = self.dots.head.comps * plan.comp_ck
            m.d.comb += timers.busy.eq(Mux(span > plan.gemv_ck, span, plan.gemv_ck))
        with m.If(self._did("comp")):
            m.d.sync += self.fill.eq(0)
        with m.Elif(self._did("readres")):
            m.d.sync += self.fill.eq(1)

    def _remember(self, m: Module, turn: Turn, which: Value) -> None:
        """What the clock leaves behind of refresh and PIM."""
        plan, refreshed = self.plan, self._did("refresh")
        changes = any_of(which[b] & (q.act | q.pre) for b, q in enumerate(self.queues))
        m.d.comb += self.refreshes.done.eq(refreshed)
        m.d.sync += self.remain.eq(turn.remain - Mux(self.counts & changes, plan.act_ck, 0))
        with m.If(refreshed):
            m.d.sync += [self.skip.eq(0), self.remain.eq(0), self.reserved.eq(0)]
        if not plan.pim:
            return
        head = self.dots.head
        with m.If(turn.late):
            m.d.sync += self.skip.eq(1)
        with m.If(turn.starts & (head.cmd == plan.op.header)):
            m.d.sync += [self.reserved.eq(1), self.reserved_row.eq(head.row), self.pim_mode.eq(int(plan.blocked))]
        with m.If(self._did("readres") & head.last):
            m.d.sync += [self.pim_mode.eq(0), self.remain.eq(0), self.reserved.eq(0)]

    def _rows(self, m: Module) -> None:
        """What the command opens and closes."""
        rows, command = self.rows, self.bus.command
        m.d.comb += [rows.bank.eq(command.bank), rows.row.eq(command.row), rows.closes.eq(Cat(self.closes))]
        m.d.comb += [getattr(rows, name).eq(self._did(name)) for name in ("act", "pre", "g_act")]
        m.d.comb += rows.access.eq(self._did("rd") | self._did("wr"))

    # --- requests and answers

    def _lists(self, m: Module) -> None:
        """The lists, between the ports and the queues."""
        plan, lists = self.plan, self.lists
        for name in ("data", "pim") if plan.pim else ("data",):
            for ours, inner in zip(getattr(self, name), getattr(lists, name), strict=True):
                wiring.connect(m, wiring.flipped(ours), inner)
        m.d.comb += [
            self.quick.eq(lists.quick),
            lists.handed.eq(self.responses.handed),
            lists.queued.eq(any_of(q.left for q in self.queues)),
            lists.full.eq(Cat(q.full for q in self.queues)),
        ]
        for j, column in enumerate(lists.offered):
            at = [self.data[j].payload.bank == b for b in range(plan.banks)]
            for b, queue in enumerate(self.queues):
                m.d.comb += [queue.offered[j].row.eq(column.row), queue.offered[j].col.eq(column.col)]
                m.d.comb += queue.merge[j].eq(lists.merge[j] & at[b])
            m.d.comb += column.read.eq(any_of(at[b] & q.offered[j].read for b, q in enumerate(self.queues)))
            m.d.comb += column.write.eq(any_of(at[b] & q.offered[j].write for b, q in enumerate(self.queues)))
        for b, queue in enumerate(self.queues):
            m.d.comb += [
                queue.enters.eq(lists.to_bank & (lists.bank == b)),
                queue.entry.eq(lists.access),
                queue.asked.row.eq(lists.asked.row),
                queue.asked.col.eq(lists.asked.col),
            ]
        m.d.comb += lists.asked.read.eq(any_of((lists.bank == b) & q.asked.read for b, q in enumerate(self.queues)))
        if plan.pim:
            wiring.connect(m, self.dots.after, lists.look)
            m.d.comb += [self.dots.enters.eq(lists.to_pim), self.dots.entry.eq(lists.dot)]
            m.d.comb += [self.dots.bank.eq(lists.bank), self.dots.row.eq(lists.asked.row)]
            m.d.comb += [self.dots.col.eq(lists.asked.col), lists.copied.eq(self.dots.copied)]

    def _answers(self, m: Module) -> None:
        """The answers, and what they are told of the command."""
        plan, command, responses = self.plan, self.bus.command, self.responses
        for ours, name in (("read", "rd"), ("readres", "readres"), ("gemv", "gemv"), ("gwrite", "gwrite")):
            m.d.comb += getattr(responses, ours).eq(self._did(name))
        m.d.comb += [
            responses.comp.eq(self._did("comp")),
            responses.quick.eq(self.lists.quick),
            responses.at.bank.eq(command.bank),
            responses.at.row.eq(command.row),
            responses.at.col.eq(command.col),
            responses.merged.eq(chosen(m, self.robin.which, [q.merged for q in self.queues], "ends_with")),
            responses.rank.eq(command.bank // (plan.banks // plan.ranks)),
            self.answers.reads.eq(responses.reads),
            self.answers.column.eq(responses.column),
            self.answers.merged.eq(responses.of_read),
            self.answers.copy.eq(responses.copy),
            self.answers.comp.eq(responses.comps),
            self.answers.result.eq(responses.result),
            self.answers.gemv.eq(responses.gemvs),
        ]
        if plan.pim:
            m.d.comb += [responses.count.eq(self.dots.head.comps), self.comps.eq(self.dots.head.comps)]
