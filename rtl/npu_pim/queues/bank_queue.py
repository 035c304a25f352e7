# amaranth: UnusedElaboratable=no
"""The command queue of one bank, and the command that it would issue."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl.command import any_of
from pimloom.rtl.npu_pim.plan import Plan
from pimloom.rtl.npu_pim.queues.line import Line, added, chosen, first, keep, registers, taken


def entry_layout(plan: Plan) -> data.StructLayout:
    """A read or write of one bank; merged: reads of this column that end with it, itself included."""
    rules = plan.table.rules
    fields = {"row": range(rules.rows), "col": range(rules.columns)}
    return data.StructLayout({"write": 1, **fields, "merged": plan.held_bits()})


class Column(wiring.Signature):
    """A column that is looked for, and whether a read or a write of it waits here."""

    def __init__(self, plan: Plan) -> None:
        rules = plan.table.rules
        place = {"row": In(range(rules.rows)), "col": In(range(rules.columns))}
        super().__init__({**place, "read": Out(1), "write": Out(1)})


class Rows(wiring.Signature):
    """The open rows of a bank, and a row that accesses leave alone."""

    def __init__(self, plan: Plan) -> None:
        row = Out(range(plan.table.rules.rows))
        names = ("mem", "pim", "reserved")
        super().__init__({name: row for name in names} | {f"{name}_open": Out(1) for name in names})


class BankQueue(wiring.Component):
    """Requests of a bank in order of arrival, and the first that can go on.

    offered[i]: columns of the requests that come; merge[i]: request i is a read that ends with the one that waits.
    free_*: what the rules allow; may_open, may_close: PIM's time allows a row to be changed; capped: the open row has
    had as many hits as it may have before the oldest request closes it; held: the bank does nothing.
    act, pre, rd, wr, pim_pre: what the bank would issue, at most one; row, col, merged: for whom. go: it issues.
    enters: `entry` comes behind the others, after what issues. asked: whether a read waits, of what has not issued.
    empty: before this clock; full, left: after the command that issues.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.layout = plan, entry_layout(plan)
        rules = plan.table.rules
        frees = {f"free_{name}": In(1) for name in ("act", "pre", "rd", "wr", "pim_pre")}
        ins = {name: In(1) for name in ("may_open", "may_close", "capped", "held", "go", "enters")}
        wants = {name: Out(1) for name in ("act", "pre", "rd", "wr", "pim_pre", "empty", "full", "left")}
        super().__init__(
            {
                "offered": Out(Column(plan)).flip().array(plan.offers),
                "merge": In(plan.offers),
                "rows": In(Rows(plan)),
                "asked": Out(Column(plan)).flip(),
                "entry": In(self.layout),
                "row": Out(range(rules.rows)),
                "col": Out(range(rules.columns)),
                "merged": Out(plan.held_bits()),
                **frees,
                **ins,
                **wants,
            }
        )
        self.line = registers(self.layout, plan.queue, "waits")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = self._merge(m)
        issues = self._choose(m, line)
        gone = Signal(self.plan.queue)
        m.d.comb += gone.eq(issues & (self.go & (self.rd | self.wr)).replicate(self.plan.queue))
        rest = taken(m, line, gone, "rest")
        m.d.comb += [
            self.empty.eq(self.line.length == 0),
            self.full.eq(rest.length == self.plan.queue),
            self.left.eq(rest.length != 0),
        ]
        self._look(m, rest, self.asked)
        keep(m, self.line, added(m, rest, self.enters, self.entry, "next"))
        return m

    def _look(self, m: Module, line: Line, column: wiring.PureInterface) -> list[Value]:
        """Answer whether a column is waited for; bits of the entries that are reads of it."""
        same = [line.there(i) & (e.row == column.row) & (e.col == column.col) for i, e in enumerate(line.entries)]
        reads = [here & ~e.write for here, e in zip(same, line.entries, strict=True)]
        writes = [here & e.write for here, e in zip(same, line.entries, strict=True)]
        m.d.comb += [column.read.eq(any_of(reads)), column.write.eq(any_of(writes))]
        return reads

    def _merge(self, m: Module) -> Line:
        """The line with the reads that came for a column that is waited for."""
        found = [self._look(m, self.line, column) for column in self.offered]
        entries = []
        for i, old in enumerate(self.line.entries):
            entry = Signal(self.layout, name=f"merged_{i}")
            more = sum((self.merge[j] & reads[i] for j, reads in enumerate(found)), start=Signal(0))
            m.d.comb += [entry.eq(old), entry.merged.eq(old.merged + more)]
            entries.append(entry)
        return Line(entries, self.line.length)

    def _choose(self, m: Module, line: Line) -> Value:
        """What the bank wants to issue; the bit of its entry."""
        rows, entries = self.rows, line.entries
        other = [line.there(i) & ~(rows.reserved_open & (e.row == rows.reserved)) for i, e in enumerate(entries)]
        inside = [rows.pim_open & (e.row == rows.pim) for e in entries]
        opens = [
            ok & ((pim & self.free_pim_pre) | (~pim & self.free_act & self.may_open))
            for ok, pim in zip(other, inside, strict=True)
        ]
        hits = [line.there(i) & (e.row == rows.mem) for i, e in enumerate(entries)]
        legal = [
            ok & (e.row == rows.mem) & Mux(e.write, self.free_wr, self.free_rd)
            for ok, e in zip(other, entries, strict=True)
        ]
        opening, hit = first(m, opens, "opening"), first(m, legal, "hit")
        closes = Signal()
        which = Signal(len(entries))
        awake = Signal()
        m.d.comb += [
            awake.eq(~self.held),
            closes.eq(other[0] & ~hits[0] & self.free_pre & (~any_of(hits) | self.capped) & self.may_close),
            self.pre.eq(awake & rows.mem_open & closes),
            which.eq(Mux(rows.mem_open, hit, opening)),
        ]
        is_write = Signal()
        is_inside = Signal()
        m.d.comb += [
            is_write.eq(any_of([hit[i] & e.write for i, e in enumerate(entries)])),
            is_inside.eq(any_of([opening[i] & pim for i, pim in enumerate(inside)])),
            self.rd.eq(awake & rows.mem_open & ~closes & hit.any() & ~is_write),
            self.wr.eq(awake & rows.mem_open & ~closes & hit.any() & is_write),
            self.act.eq(awake & ~rows.mem_open & opening.any() & ~is_inside),
            self.pim_pre.eq(awake & ~rows.mem_open & opening.any() & is_inside),
            self.row.eq(chosen(m, which, [e.row for e in entries], "chosen_row")),
            self.col.eq(chosen(m, which, [e.col for e in entries], "chosen_col")),
            self.merged.eq(chosen(m, which, [e.merged for e in entries], "chosen_merged")),
        ]
        return which
