"""What the gates of a PIM channel are made from: its commands, geometry and numbers, read from the system's spec."""

from typing import NamedTuple

from amaranth.lib import data
from amaranth.utils import bits_for

from pimloom.arch.command import Level, Role, Row
from pimloom.arch.error import UserError
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import Table, compile_table

COUNT_BITS = 10  # of the COMPs and results that a request announces or stands for


class Opcodes(NamedTuple):
    """Opcodes of the table by what the commands do; -1 where a mode has none."""

    act: int
    pre: int
    rd: int
    wr: int
    refresh: int
    gwrite: int
    g_act: int
    header: int
    comp: int
    readres: int
    comp_first: int
    gemv: int
    pim_pre: int
    gemv_end: int


ROLES: tuple[tuple[Role, Level, int], ...] = (  # role, scope and row buffer of each field
    (Role.ACTIVATE, Level.BANK, -1),
    (Role.PRECHARGE, Level.BANK, 0),
    (Role.READ, Level.BANK, -1),
    (Role.WRITE, Level.BANK, -1),
    (Role.REFRESH, Level.RANK, -1),
    (Role.COPY, Level.BANK, -1),
    (Role.ACTIVATE, Level.BANK_GROUP, -1),
    (Role.ANNOUNCE, Level.CHANNEL, -1),
    (Role.MULTIPLY, Level.CHANNEL, -1),
    (Role.RESULTS, Level.CHANNEL, -1),
    (Role.FIRST_MULTIPLY, Level.CHANNEL, -1),
    (Role.GEMV, Level.CHANNEL, -1),
    (Role.PRECHARGE, Level.BANK, 1),
    (Role.LAST_MULTIPLY, Level.CHANNEL, -1),
)


def _opcodes(table: Table) -> Opcodes:
    return Opcodes(*(_opcode(table, *role) for role in ROLES))


def _opcode(table: Table, role: Role, scope: Level, buffer: int) -> int:
    """The command that does just this: one that leaves rows alone, unless it is there to move them."""
    moves = role in (Role.ACTIVATE, Role.PRECHARGE)
    for opcode, c in enumerate(table.commands):
        alike = c.role is role and c.scope is scope and buffer in (-1, c.buffer)
        if alike and (moves or c.leaves is Row.ANY):
            return opcode
    return -1


class Plan(NamedTuple):
    """Numbers of a channel and its controller; clocks end `_ck`.

    dual: PIM has row buffers and a list of its own; blocked: it shares both with reads and writes; neither: no PIM.
    closed: banks that one PIM_PRECHARGE closes. slice_ck: from one refresh to the next, whatever the rank.
    """

    table: Table
    op: Opcodes
    dual: bool
    blocked: bool
    banks: int
    ranks: int
    group: int
    closed: int
    entries: int
    queue: int
    pim_queue: int
    window: int
    cap: int
    drain_idle: int
    floor: int
    offers: int
    slice_ck: int
    read_ck: int
    pre_ck: int
    act_ck: int
    close_ck: int
    faw_ck: int
    copy_ck: int
    comp_ck: int
    gemv_ck: int
    tree_ck: int

    @property
    def pim(self) -> bool:
        """Whether the channel has PIM commands, in either mode."""
        return self.dual or self.blocked

    @property
    def used(self) -> frozenset[int]:
        """Opcodes that ever issue, and moments."""
        mode = "dual" if self.dual else "blocked" if self.blocked else "dram"
        return frozenset(getattr(self.op, name) for name in _needed(mode))

    def address(self) -> dict[str, object]:
        """Fields of a column of the channel."""
        rules = self.table.rules
        return {"bank": range(self.banks), "row": range(rules.rows), "col": range(rules.columns)}

    def column(self) -> data.StructLayout:
        """The layout of the address of one column in the channel."""
        return data.StructLayout(self.address())

    def command(self) -> data.StructLayout:
        """What issues: its opcode, and a column; of wider commands the first bank."""
        return data.StructLayout({"cmd": range(len(self.table.names)), **self.address()})

    def access(self) -> data.StructLayout:
        """A read or write as it is offered."""
        return data.StructLayout({"write": 1, **self.address()})

    def dot(self) -> data.StructLayout:
        """A PIM command as it is offered: its opcode; COMPs and results that a header announces, COMPs of a GEMV;
        whether its tile ends with it."""
        names = len(self.table.names)
        counts = {"comps": COUNT_BITS, "results": COUNT_BITS}
        return data.StructLayout({"cmd": range(names), **self.address(), **counts, "last": 1})

    def held_bits(self) -> int:
        """Bits of a number of requests on their way."""
        return bits_for(self.window)


def plan_of(spec: PimChannel) -> Plan:
    """The plan of a channel with the physical rules. Raises UserError for departures from them."""
    part, c, rules, mode = spec.device(), spec.controller, spec.rules, spec.mode
    table, org, ck = compile_table(part), part.organization, part.cycles
    op = _opcodes(table)
    if rules.unbound or not all(rules[1:]):
        raise UserError(f"{part.description}: the gates are the physical channel's; they know no departures from it")
    lacks = [name for name, code in op._asdict().items() if code < 0 and name in _needed(mode)]
    if lacks:
        raise UserError(f"{part.description}: mode {mode} of a PIM channel needs what it lacks: {', '.join(lacks)}")
    pim = mode != "dram"
    closed = {"bank": 1, "group": org.banks_per_group, "channel": org.banks}[spec.pim_precharge]
    return Plan(
        table, op, mode == "dual", mode == "blocked", org.banks, org.ranks, org.banks_per_group,
        closed if mode == "dual" else 1, c.entries, c.queue_entries, c.pim_queue_entries, c.window,
        c.row_hit_cap, c.drain_idle, c.pim_floor_ck, c.offers_per_ck, ck("tREFI") // org.ranks,
        ck("nCL") + ck("nBL"), ck("tRTP"), ck("tRCDRD"), ck("tRP") + ck("tRCDRD"), ck("tFAW"),
        *(ck(name) if pim else 1 for name in ("nGWRITE", "nCOMP", "nGEMV", "nTREE")),
    )  # fmt: skip


def _needed(mode: str) -> tuple[str, ...]:
    always = ("act", "pre", "rd", "wr", "refresh")
    own = {"dram": (), "blocked": ("comp", "readres", "comp_first"), "dual": ("gemv", "pim_pre", "gemv_end")}[mode]
    return (*always, *own) + (("gwrite", "g_act", "header") if own else ())
