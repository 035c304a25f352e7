# amaranth: UnusedElaboratable=no
"""Requests before their command queues: which are taken, which are answered at once, and which goes on."""

from typing import NamedTuple

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pimloom.rtl.command import any_of
from pimloom.rtl.npu_pim.plan import Plan
from pimloom.rtl.npu_pim.queues.bank_queue import Column, entry_layout
from pimloom.rtl.npu_pim.queues.line import Line, added, chosen, first, keep, registers, taken
from pimloom.rtl.npu_pim.queues.pim_queue import Look


class Views(NamedTuple):
    """The lists at some moment of a clock; dots: of PIM commands, the reads' own where PIM is blocked."""

    reads: Line
    writes: Line
    dots: Line


class Lists(wiring.Component):
    """Lists of reads, of writes and, with two row buffers, of PIM commands.

    pim, data: what is offered in this clock, in this order; the second of a port only goes with the first. quick[i]:
    request i of `data` has its answer in the next clock: a write, or a read of a column that a write waits for.
    offered[i]: its column; its bank's queue answers. merge[i]: it ends with the read that waits there.
    handed: answers in this clock. queued: whether a bank's queue holds any; full: those that take no more; look: the
    PIM queue; all after the command that issues in this clock.
    to_bank, to_pim: a request goes on, to the queue of `bank`, `access`; or to PIM's, `dot`.
    asked: column of a write that would go on, in `bank`; copied: whether a copy of it waits in the PIM queue.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        address = plan.address()
        offers = {"data": In(stream.Signature(plan.access())).array(plan.offers)}
        if plan.pim:
            offers["pim"] = In(stream.Signature(plan.dot())).array(plan.offers)
        super().__init__(
            {
                **offers,
                "quick": Out(plan.offers),
                "offered": Out(Column(plan)).array(plan.offers),
                "merge": Out(plan.offers),
                "handed": In(plan.held_bits()),
                "queued": In(1),
                "full": In(plan.banks),
                "look": In(Look()),
                "to_bank": Out(1),
                "to_pim": Out(1),
                "bank": Out(range(plan.banks)),
                "access": Out(entry_layout(plan)),
                "dot": Out(plan.dot()),
                "asked": Out(Column(plan)),
                "copied": In(1),
            }
        )
        dot = {name: field.shape for name, field in plan.dot()} if plan.blocked else {}
        listed = {**address, **dot, "is_dot": 1 if plan.blocked else 0, "merged": plan.held_bits(), "locked": 1}
        self.reads = registers(data.StructLayout(listed), plan.entries, "read")
        self.writes = registers(data.StructLayout(address), plan.entries, "write")
        self.dots = registers(plan.dot(), plan.entries, "pim") if plan.dual else self.reads
        self.held = Signal(plan.held_bits())
        self.drain = Signal(range(plan.entries + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        views, held = Views(self.reads, self.writes, self.dots), self.held
        if self.plan.pim:
            views, held = self._take_dots(m, views, held)
        views, held = self._take_data(m, views, held)
        m.d.sync += self.held.eq(held - self.handed)
        self._move(m, views)
        return m

    # --- what is offered

    def _plain(self, entry: data.View) -> Value:
        """Whether an entry of the list of reads is a read."""
        return ~entry.is_dot if self.plan.blocked else Const(1, 1)

    def _room(self, line: Line) -> Value:
        return line.length != self.plan.entries

    def _count(self, m: Module, held: Value, one: Value, name: str) -> Signal:
        after = Signal.like(self.held, name=name)
        m.d.comb += after.eq(held + one)
        return after

    def _take_dots(self, m: Module, views: Views, held: Value) -> tuple[Views, Value]:
        before: Value = Const(1, 1)
        for j, offer in enumerate(self.pim):
            header = offer.payload.cmd == self.plan.op.header
            own = views.reads if self.plan.blocked else views.dots
            takes = Signal(name=f"takes_dot_{j}")
            m.d.comb += offer.ready.eq(before & self._room(own) & (header | (held < self.plan.window)))
            m.d.comb += takes.eq(offer.valid & offer.ready)
            entry = Signal(own.entries[0].shape(), name=f"dot_{j}")
            m.d.comb += [entry[name].eq(offer.payload[name]) for name, _ in offer.payload.shape()]
            if self.plan.blocked:
                m.d.comb += entry.is_dot.eq(1)
            grown = added(m, own, takes, entry, f"with_dot_{j}")
            views = views._replace(reads=grown, dots=grown) if self.plan.blocked else views._replace(dots=grown)
            held, before = self._count(m, held, takes & ~header, f"held_with_dot_{j}"), takes
        return views, held

    def _take_data(self, m: Module, views: Views, held: Value) -> tuple[Views, Value]:
        before: Value = Const(1, 1)
        for j, offer in enumerate(self.data):
            access, column = offer.payload, self.offered[j]
            m.d.comb += [column.row.eq(access.row), column.col.eq(access.col)]
            takes, written, merged = (Signal(name=f"{name}_{j}") for name in ("takes", "is_written", "is_merged"))
            same = [self._same(views.reads, i, access) & self._plain(e) for i, e in enumerate(views.reads.entries)]
            listed = [self._same(views.writes, i, access) for i in range(self.plan.entries)]
            room = Mux(access.write, self._room(views.writes), self._room(views.reads))
            m.d.comb += [
                offer.ready.eq(before & room & (held < self.plan.window)),
                takes.eq(offer.valid & offer.ready),
                written.eq(any_of(listed) | column.write),
                merged.eq(any_of(same) | column.read),
                self.quick[j].eq(takes & (access.write | written)),
                self.merge[j].eq(takes & ~access.write & ~written & column.read),
            ]
            grows = takes & ~access.write & ~written
            reads = self._bump(m, views.reads, [grows & here for here in same], f"bumped_{j}")
            read = Signal(reads.entries[0].shape(), name=f"read_{j}")
            write = Signal(views.writes.entries[0].shape(), name=f"write_{j}")
            for name in self.plan.address():
                m.d.comb += [read[name].eq(access[name]), write[name].eq(access[name])]
            m.d.comb += read.merged.eq(1)
            reads = added(m, reads, grows & ~merged, read, f"with_read_{j}")
            writes = added(m, views.writes, takes & access.write & ~written, write, f"with_write_{j}")
            views = Views(reads, writes, reads if self.plan.blocked else views.dots)
            held, before = self._count(m, held, takes, f"held_with_{j}"), takes
        return views, held

    def _same(self, line: Line, i: int, place: data.View) -> Value:
        entry = line.entries[i]
        return line.there(i) & ~any_of(entry[name] != place[name] for name in self.plan.address())

    def _bump(self, m: Module, line: Line, which: list[Value], name: str) -> Line:
        entries = []
        for i, (old, more) in enumerate(zip(line.entries, which, strict=True)):
            entry = Signal(old.shape(), name=f"{name}_{i}")
            m.d.comb += [entry.eq(old), entry.merged.eq(old.merged + more)]
            entries.append(entry)
        return Line(entries, line.length)

    # --- what goes on

    def _move(self, m: Module, views: Views) -> None:
        plan, look = self.plan, self.look
        reads, writes, dots = views
        locked = Signal()
        drain = Signal.like(self.drain, name="drains")
        m.d.comb += locked.eq(any_of(reads.there(i) & e.locked for i, e in enumerate(reads.entries)))
        many = (writes.length == plan.entries) | ((writes.length > plan.drain_idle) & ~self.queued)
        begins = ~locked & (self.drain == 0) & (writes.length != 0) & many
        m.d.comb += drain.eq(Mux(begins, writes.length, self.drain))
        from_reads, from_writes, from_dots = (Signal(name=f"from_{name}") for name in ("reads", "writes", "dots"))
        few = look.few | look.missing
        drains: Value = drain != 0
        with m.If(locked):
            m.d.comb += from_reads.eq(1)
        if plan.dual:
            with m.Elif(dots.length != 0):
                m.d.comb += from_writes.eq(drains & ~few)
                m.d.comb += from_dots.eq(~from_writes & (few | (reads.length == 0)))
                m.d.comb += from_reads.eq(~from_writes & ~from_dots)
        with m.Else():
            m.d.comb += [from_writes.eq(drains), from_reads.eq(~drains)]
        read = first(m, [from_reads & reads.there(i) & self._fits(e) for i, e in enumerate(reads.entries)], "read_goes")
        write = first(
            m, [from_writes & writes.there(i) & self._fits(e) for i, e in enumerate(writes.entries)], "write_goes"
        )
        gone = self._let_write(m, views, write, drain)
        reads = self._lock(m, reads, gone)
        keep(m, self.reads, taken(m, reads, read, "reads_left"))
        keep(m, self.writes, taken(m, writes, gone, "writes_left"))
        dot = Signal(plan.entries, name="dot_goes")
        if plan.dual:
            m.d.comb += dot.eq(from_dots & (dots.length != 0) & ~look.full)
            keep(m, self.dots, taken(m, dots, dot, "dots_left"))
        self._send(m, views, read, write, gone, dot)

    def _fits(self, entry: data.View) -> Value:
        """Whether the queue of a request has room; with one row buffer, reads and writes wait for PIM commands."""
        full = self.full.bit_select(entry.bank, 1)
        if not self.plan.blocked:
            return ~full
        if "is_dot" not in entry.shape().members:
            return ~full & ~self.look.waits
        return Mux(entry.is_dot, ~self.look.full, ~full & ~self.look.waits)

    def _let_write(self, m: Module, views: Views, write: Value, drain: Value) -> Value:
        """A write goes on unless a read or copy of its column has to go first: then no more drain."""
        names = [*self.plan.address()]
        at = {name: chosen(m, write, [e[name] for e in views.writes.entries], f"write_{name}") for name in names}
        m.d.comb += [self.asked.row.eq(at["row"]), self.asked.col.eq(at["col"])]
        self.at, dots = at, views.dots

        def same(line: Line, i: int) -> Value:
            return line.there(i) & ~any_of(line.entries[i][name] != at[name] for name in names)

        self.behind = [same(views.reads, i) & self._plain(e) for i, e in enumerate(views.reads.entries)]
        copied: Value = Const(0, 1)
        if self.plan.pim:
            here = [same(dots, i) & (e.cmd == self.plan.op.gwrite) for i, e in enumerate(dots.entries)]
            if self.plan.blocked:
                here = [x & e.is_dot for x, e in zip(here, dots.entries, strict=True)]
            copied = self.copied | any_of(here)
        self.waits, gone = Signal(name="write_waits"), Signal(self.plan.entries, name="write_gone")
        m.d.comb += self.waits.eq(write.any() & (any_of(self.behind) | self.asked.read | copied))
        m.d.comb += gone.eq(write & (~self.waits).replicate(self.plan.entries))
        m.d.sync += self.drain.eq(Mux(self.waits, 0, drain - gone.any()))
        return gone

    def _lock(self, m: Module, reads: Line, gone: Value) -> Line:
        """The read that a write waits for goes next."""
        entries = []
        for i, (old, same) in enumerate(zip(reads.entries, self.behind, strict=True)):
            entry = Signal(old.shape(), name=f"locked_{i}")
            m.d.comb += [entry.eq(old), entry.locked.eq(old.locked | (self.waits & same))]
            entries.append(entry)
        return Line(entries, reads.length)

    def _send(self, m: Module, views: Views, read: Value, write: Value, gone: Value, dot: Value) -> None:
        reads, at = views.reads.entries, self.at
        names = [*self.plan.address(), "merged"]
        from_list = {name: chosen(m, read, [e[name] for e in reads], f"read_{name}") for name in names}
        is_dot = any_of(read[i] & ~self._plain(e) for i, e in enumerate(reads))
        m.d.comb += [
            self.bank.eq(from_list["bank"] | at["bank"]),
            self.access.write.eq(write.any()),
            self.access.row.eq(from_list["row"] | at["row"]),
            self.access.col.eq(from_list["col"] | at["col"]),
            self.access.merged.eq(from_list["merged"]),
            self.to_bank.eq((read.any() & ~is_dot) | gone.any()),
            self.to_pim.eq(is_dot | dot.any()),
        ]
        if self.plan.dual:
            m.d.comb += self.dot.eq(views.dots.entries[0])
        elif self.plan.blocked:
            for name, _ in self.plan.dot():
                m.d.comb += self.dot[name].eq(chosen(m, read, [e[name] for e in reads], f"dot_{name}"))
