# amaranth: UnusedElaboratable=no
"""The command sequencer of one channel: several in-order streams, their rules, rows and refresh, in gates.

It is `cycle_sim.dram`'s engine clock for clock, read from the same `Table`. Each clock refresh first and then the
streams in order are asked; who is legal on a free command bus issues. Whoever is asked later in a clock sees what the
earlier ones did to rows and rules in that very clock (on a table with two buses).
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from pimloom.arch.command import POSTPONED_MAX, Level
from pimloom.arch.error import UserError
from pimloom.arch.table import RuleRow, Table, rule_rows
from pimloom.rtl.binding import bound_at, can_bind, groups, on_one_bus
from pimloom.rtl.command import Decoded, Fixed, any_of, command_layout, node_names
from pimloom.rtl.rows import Asker, Rows, State
from pimloom.rtl.timer import Timer
from verilog_tidy import BITS


class Bus(wiring.Signature):
    """A command bus: `command` issues in a clock in which `valid` is high; source: refresh nodes, then streams."""

    def __init__(self, table: Table, sources: int) -> None:
        super().__init__({"valid": Out(1), "command": Out(command_layout(table)), "source": Out(range(sources))})


class Timings(wiring.Signature):
    """Clocks that may differ from run to run, steady from reset on: the wait of each rule, the interval of refresh,
    at least 1, the clock in which the first one falls due, by how much later it does so in each next refresh node, and
    whether there is refresh at all."""

    def __init__(self, table: Table, bits: int) -> None:
        waits = Out(bits).array(len(table.rules.wait))
        super().__init__({"waits": waits, "refi": Out(32), "due": Out(32), "apart": Out(32), "refresh": Out(1)})


class Sequencer(wiring.Component):
    """Issues the heads of `streams` streams, each exactly in its first legal clock.

    heads: streams of commands, highest priority first; a head leaves in the clock in which it issues, and the next must
    be valid in the clock after, unless the stream has ended. released: the head may issue; high where releases are not
    used. A valid head that is not released still counts as work that waits when a refresh is due.
    buses: what issues, in the same clock (no latency); source: the number of the refresh node whose refresh it is, then
    that of the stream after all nodes. starved: a ninth refresh is pending, and nothing issues any more.
    stuck: a head is valid, and no valid head finds its rows as it needs them. An unknown opcode is taken, and nothing
    issues. A moment of a PIM table is an event from which rules count, as the end of a GEMV (GEMV_END): the stream
    brings it as a command, when it comes, and no pin shows it. Whether a part is in self-refresh is the host's affair:
    between SRE and SRX the sequencer issues what the stream brings, and refreshes that fall due.

    refresh: all_bank, all refresh nodes fall due at once, or staggered, one after the other, tREFI / nodes apart.

    Inside: open_B has a bit for each bank: a row is open in buffer B of the bank; row_B_N is that row, of bank N. Banks
    are counted through the channel, and so are bank groups, ranks and pseudo channels. rule_I_arm and rule_I_busy have
    a bit for each node at which rule I counts: a command that begins the rule issues; its wait is not over.
    head_S_bound_by[I]: rule I makes the head of stream S wait. The rules stand, by number, above their timers.
    """

    def __init__(self, table: Table, streams: int = 1, bits: int = 0, refresh: str = "all_bank") -> None:
        """bits: waits are ports of that many bits and not constants: one netlist serves all timings of a geometry.

        Raises UserError for a table with more than two buses, and for a staggered refresh of less than two nodes.
        """
        rules = table.rules
        self.streams, self.refresh = streams, refresh
        self.table, self.rules, self.bits = table, rules, bits
        self.nodes = int(rules.size[rules.scope[rules.refresh]]) if rules.refresh >= 0 else 0
        self.n_buses = int(rules.bus.max()) + 1
        if self.n_buses > 2:
            raise UserError(f"a sequencer drives one or two command buses, not {self.n_buses}")
        self.apart = self._apart(refresh)
        bus = Bus(table, self.nodes + streams)
        members = {
            "heads": In(stream.Signature(command_layout(table))).array(streams),
            "released": In(1).array(streams),
            "buses": Out(bus).array(self.n_buses),
            "starved": Out(1),
            "stuck": Out(1),
        }
        super().__init__(members | ({"timings": In(Timings(table, bits))} if bits else {}))
        self.rows = Rows(rules)
        self.rule_rows = rule_rows(rules)
        self.timers = {
            (i, node): Timer(row.window, None if bits else row.wait, bits, self.n_buses)
            for i, row in enumerate(self.rule_rows)
            for node in range(int(rules.size[row.level]))
            if bits or can_bind(rules, row)
        }
        self.pending = [Signal(range(POSTPONED_MAX + 2), name=f"pending_{n}") for n in range(self.nodes)]
        self.started = Signal()
        longest = rules.refi + self.apart * max(self.nodes - 1, 0)
        counters = self.nodes if bits or self.apart else 1
        self.until_due = [
            Signal(32 if bits else bits_for(longest), name=f"until_due_{n}" if counters > 1 else "until_due")
            for n in range(counters)
        ]

    @property
    def instances(self) -> dict[str, str]:
        """Modules of the timers by instance."""
        return {f"rule_{i}_{node}": timer.module for (i, node), timer in self.timers.items()}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for (i, node), timer in self.timers.items():
            m.submodules[f"rule_{i}_{node}"] = timer
            if self.bits:
                m.d.comb += timer.wait.eq(self.timings.waits[i])
        due = self._count_refreshes(m)
        m.d.comb += self.starved.eq(any_of(count > POSTPONED_MAX for count in due))
        askers: list[Asker] = [Fixed(self.rules, self.rules.refresh, n) for n in range(self.nodes)]
        askers += [Decoded(m, self.rules, head.payload, f"head_{s}") for s, head in enumerate(self.heads)]
        self.busy = {i: self._of_nodes(f"rule_{i}_busy", row) for i, row in enumerate(self.rule_rows)}
        self.opens = [self.rows.opens(m, f"head_{s}", who) for s, who in enumerate(askers[self.nodes :])]
        self.fits = [self.rows.fits(m, f"head_{s}", who, self.rows.state) for s, who in enumerate(askers[self.nodes :])]
        lift = self._lift(m, due)
        state, granted = self.rows.state, list[Value]()
        names = [f"refresh_{n}" for n in range(self.nodes)] + [f"head_{s}" for s in range(len(self.heads))]
        for k, who in enumerate(askers):
            grant = Signal(name=f"{names[k]}_granted")
            wants = self._wants_refresh(k, due) if k < self.nodes else self._wants(m, k, who, state, due, granted, lift)
            m.d.comb += grant.eq(self._may(m, names[k], who, wants, granted, askers))
            granted.append(grant)
            if self.n_buses > 1 and k >= self.nodes:
                state = self.rows.moved(m, f"after_{k}", grant, who, state)
        self._issue(m, askers, granted, state)
        for n, pending in enumerate(self.pending):
            m.d.sync += pending.eq(due[n] - granted[n])
        return m

    def _may(self, m: Module, name: str, who: Asker, wants: Value, granted: list[Value], askers: list[Asker]) -> Value:
        """Whether a command issues that wants to: no rule binds it, its bus is free, and nothing is starved."""
        bound = self._bound(m, name, who, list(zip(granted, askers, strict=False)))
        return wants & ~bound & ~self._taken(who, granted, askers) & ~self.starved

    def _count_refreshes(self, m: Module) -> list[Value]:
        """Refreshes that each node owes in this clock."""
        if not self.nodes:
            return []
        m.d.sync += self.started.eq(1)
        each = [self._falls_due(m, n, until) for n, until in enumerate(self.until_due)]
        falls = each if len(each) == self.nodes else each * self.nodes
        return [
            (pending + (now & (pending <= POSTPONED_MAX)))[: len(pending)]
            for pending, now in zip(self.pending, falls, strict=True)
        ]

    def _falls_due(self, m: Module, n: int, until: Signal) -> Value:
        """Whether a refresh falls due in this clock, at the n-th node."""
        rules = self.rules
        refi, first, on = Const(rules.refi), Const(rules.refi + n * self.apart), Const(1)
        if self.bits:
            refi, on = self.timings.refi, self.timings.refresh
            first = (self.timings.due + n * self.timings.apart)[:32]
        end = f"_{n}" if len(self.until_due) > 1 else ""
        left, falls = Signal.like(until, name=f"left{end}"), Signal(name=f"refresh_falls_due{end}")
        m.d.comb += [left.eq(Mux(self.started, until, first)), falls.eq((left == 0) & on)]
        m.d.sync += until.eq(Mux(left == 0, refi, left) - 1)
        return falls

    def _apart(self, refresh: str) -> int:
        """Clocks by which the nodes' refreshes fall due one after the other."""
        if refresh == "all_bank":
            return 0
        if refresh != "staggered":
            raise UserError(f"--refresh {refresh}: unknown refresh; known: all_bank (all at once), staggered (in turn)")
        if self.nodes < 2:
            raise UserError(f"--refresh staggered: refreshes of {self.nodes} node fall due one by one as they are")
        return self.rules.refi // self.nodes

    def _wants_refresh(self, node: int, due: list[Value]) -> Value:
        return (due[node] != 0) & self.rows.closed(int(self.rules.scope[self.rules.refresh]), node)

    def _wants(
        self, m: Module, k: int, who: Asker, state: State, due: list[Value], granted: list[Value], lift: Value
    ) -> Value:
        """Whether the head of a stream is there, released, and its rows let it issue."""
        s = k - self.nodes
        left = [count != granted[n] for n, count in enumerate(due)]
        held = self._held(s, left) & ~lift
        fits = self.fits[s] if state is self.rows.state else self.rows.fits(m, f"head_{s}_then", who, state)
        return self.heads[s].valid & self.released[s] & fits & ~held

    def _held(self, s: int, is_due: list[Value]) -> Value:
        """Whether the head of a stream opens a row where a refresh is due."""
        return self.rows.held(self.opens[s], int(self.rules.scope[self.rules.refresh]), is_due)

    def _lift(self, m: Module, due: list[Value]) -> Value:
        """Whether nothing else can ever move: every head is held or its rows do not fit, and no refresh is near."""
        valid = [head.valid for head in self.heads]
        m.d.comb += self.stuck.eq(any_of(valid) & ~any_of(v & f for v, f in zip(valid, self.fits, strict=True)))
        is_due = [count != 0 for count in due]
        moves = (v & f & ~self._held(s, is_due) for s, (v, f) in enumerate(zip(valid, self.fits, strict=True)))
        near = (self._wants_refresh(n, due) for n in range(self.nodes))
        lift = Signal(name="lift")
        m.d.comb += lift.eq(~any_of((*moves, *near)))
        return lift

    def _bound(self, m: Module, name: str, who: Asker, earlier: list[tuple[Value, Asker]]) -> Value:
        """Whether a rule makes the command wait, what was granted earlier in this clock included."""
        binds = {
            i: any_of(who.is_(opcodes) & self._binding(i, row, level, who, earlier) for level, opcodes in found)
            for i, row in enumerate(self.rule_rows)
            if (found := [group for group in groups(self.rules, row) if self._may_be(who, group.opcodes)])
        }
        if isinstance(who, Fixed):
            return Cat(binds.values()).any()
        bound = Signal(len(self.rule_rows), name=f"{name}_bound_by")
        m.d.comb += [bound[i].eq(value) for i, value in binds.items()]
        return bound.any()

    def _may_be(self, who: Asker, opcodes: list[int]) -> bool:
        return not isinstance(who, Fixed) or who.opcode in opcodes

    def _binding(self, i: int, row: RuleRow, level: Level, who: Asker, earlier: list[tuple[Value, Asker]]) -> Value:
        """Whether a rule binds a command of a group of this level at any of its nodes (see `binding`)."""
        nodes = [n for n in range(int(self.rules.size[row.level])) if (i, n) in self.timers]
        at = {n: bound_at(self.rules, who, row, level, n) for n in nodes}
        fixed = {n: where.value for n, where in at.items() if isinstance(where, Const)}
        nodes = [n for n in nodes if fixed.get(n, 1)]
        binds = Cat(self._binds(i, row, n, earlier) for n in nodes)
        return (binds if len(fixed) == len(at) else binds & Cat(at[n] for n in nodes)).any()

    def _binds(self, i: int, row: RuleRow, node: int, earlier: list[tuple[Value, Asker]]) -> Value:
        now, timer = self.busy[i][node], self.timers[i, node]
        if on_one_bus(self.rules, row):
            return now
        hit = any_of(granted & who.is_(row.after) & who.at(row.level, node) for granted, who in earlier)
        return now | hit & (timer.busy[row.window - 2] if row.window > 1 else timer.wait != 0)

    def _of_nodes(self, name: str, row: RuleRow) -> Signal:
        """A bit for each node of a rule."""
        names = " ".join(node_names(self.rules, row.level))
        return Signal(int(self.rules.size[row.level]), name=name, attrs={BITS: names})

    def _taken(self, who: Asker, granted: list[Value], askers: list[Asker]) -> Value:
        """Whether an earlier command of this clock has the bus."""
        return any_of(
            who.is_(mine) & any_of(g & a.is_(mine) for g, a in zip(granted, askers, strict=False))
            for mine in map(self._on_bus, range(self.n_buses))
        )

    def _on_bus(self, bus: int) -> list[int]:
        return [c for c, its in enumerate(self.rules.bus) if its == bus]

    def _issue(self, m: Module, askers: list[Asker], granted: list[Value], state: State) -> None:
        """Put what was granted on the buses; take the heads; move rows, arm timers."""
        for b, bus in enumerate(self.buses):
            for k, who in enumerate(askers):
                with m.If(granted[k] & who.is_(self._on_bus(b))):
                    m.d.comb += [bus.valid.eq(1), bus.source.eq(k)]
                    m.d.comb += bus.command.eq(self._command(k, who))
        for head, grant in zip(self.heads, granted[self.nodes :], strict=True):
            m.d.comb += head.ready.eq(grant)
        if self.n_buses == 1 and len(self.heads) == 1:  # who is granted is known sooner than what the bus carries
            issued: list[tuple[Value, Asker]] = list(zip(granted, askers, strict=True))
        else:
            issued = [(bus.valid, Decoded(m, self.rules, bus.command, f"bus_{b}")) for b, bus in enumerate(self.buses)]
        if self.n_buses == 1:
            state = self.rows.moved(m, "after", *issued[-1], state)
        self.rows.store(m, state)
        for i, row in enumerate(self.rule_rows):
            self._time(m, i, row, issued)

    def _time(self, m: Module, i: int, row: RuleRow, issued: list[tuple[Value, Asker]]) -> None:
        """Arm the timers of a rule where commands that begin it issue."""
        arms = list[Signal]()
        begun = [who for who in issued if not isinstance(who[1], Fixed) or who[1].opcode in row.after]
        for b, (happens, command) in enumerate(begun):
            arm = self._of_nodes(f"rule_{i}_arm{f'_{b}' if len(begun) > 1 else ''}", row)
            begins = (happens & command.is_(row.after)).replicate(len(arm))
            m.d.comb += arm.eq(begins & Cat(command.at(row.level, n) for n in range(len(arm))))
            arms.append(arm)
        for n in range(len(self.busy[i])):
            if timer := self.timers.get((i, n)):
                bits = [arm[n] for arm in arms]
                m.d.comb += timer.arm.eq(any_of(bits) if self.n_buses == 1 else sum(bits))
                m.d.comb += self.busy[i][n].eq(timer.busy[row.window - 1])

    def _command(self, k: int, who: Asker) -> Value:
        if not isinstance(who, Fixed):
            return self.heads[k - self.nodes].payload
        return command_layout(self.table).const({"cmd": who.opcode, **who.coordinates(), "row": 0, "col": 0})
