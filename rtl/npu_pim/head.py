"""What the oldest PIM command, or a refresh that is due, asks of the banks, as plain logic."""

from typing import NamedTuple

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.utils import bits_for

from pimloom.rtl.command import any_of
from pimloom.rtl.npu_pim.plan import Plan
from pimloom.rtl.npu_pim.queues.line import chosen, first


class BankState(NamedTuple):
    """The rows of a bank, and which commands the rules let pass there; pim_pre: at all banks that it closes."""

    mem_open: Value
    mem_row: Value
    pim_open: Value
    pim_row: Value
    free: dict[str, Value]


class Asked(NamedTuple):
    """A command that may issue in this clock, if `valid`."""

    valid: Value
    opcode: Value
    bank: Value
    row: Value


def asked(m: Module, plan: Plan, choices: list[tuple[Value, int, Value | int, Value | int]], name: str) -> Asked:
    """The first of (whether, opcode, bank, row) that holds."""
    valid, opcode = Signal(name=f"{name}_valid"), Signal(range(len(plan.table.names)), name=f"{name}_opcode")
    bank = Signal(range(plan.banks), name=f"{name}_bank")
    row = Signal(range(plan.table.rules.rows), name=f"{name}_row")
    for whether, code, its_bank, its_row in reversed(choices):
        with m.If(whether):
            m.d.comb += [valid.eq(1), opcode.eq(code), bank.eq(its_bank), row.eq(its_row)]
    return Asked(valid, opcode, bank, row)


def lowest(m: Module, which: list[Value], name: str) -> Signal:
    """Number of the lowest bank whose bit is high."""
    alone, number = first(m, which, f"{name}_first"), Signal(range(len(which)), name=name)
    m.d.comb += number.eq(chosen(m, alone, [Const(i, len(number)) for i in range(len(which))], f"{name}_number"))
    return number


def refresh(m: Module, plan: Plan, banks: list[BankState], rank: Value) -> Asked:
    """A command that refreshes a rank, or closes a row that is in its way."""
    each = plan.banks // plan.ranks
    mine = [rank == b // each for b in range(plan.banks)]
    pre = [mine[b] & bank.mem_open & bank.free["pre"] for b, bank in enumerate(banks)]
    close = [mine[b] & ~bank.mem_open & bank.pim_open & bank.free["pim_pre"] for b, bank in enumerate(banks)]
    waits = [mine[b] & (bank.mem_open | bank.pim_open | ~bank.free["refresh"]) for b, bank in enumerate(banks)]
    closing = [a | b for a, b in zip(pre, close, strict=True)]
    first_closing = first(m, closing, "refresh_closes")
    bank = lowest(m, closing, "refresh_bank")
    is_pim = any_of(first_closing[b] & close[b] for b in range(plan.banks))
    return asked(
        m, plan,
        [
            (any_of(closing) & is_pim, max(plan.op.pim_pre, 0), bank, 0),
            (any_of(closing), plan.op.pre, bank, 0),
            (~any_of(waits), plan.op.refresh, rank * each, 0),
        ],
        "refresh",
    )  # fmt: skip


def estimate_ck(m: Module, plan: Plan, banks: list[BankState], head: data.View) -> Signal:
    """Clocks that a GWRITE, or a tile, may take from now to its end."""
    found = Signal(signed(bits_for(plan.slice_ck) + plan_bits(plan)), name="estimate")
    opened, other = Signal(name="copy_row_open"), Signal(name="copy_row_other")
    row_of = chosen(m, 1 << head.bank, [bank.mem_row for bank in banks], "copy_row")
    m.d.comb += opened.eq(any_of((head.bank == b) & bank.mem_open for b, bank in enumerate(banks)))
    m.d.comb += other.eq(row_of != head.row)
    late = Mux(opened & ~other, 0, plan.close_ck) + Mux(opened & other, plan.pre_ck, 0)
    wrong = [bank.pim_open & (bank.pim_row != head.row) for bank in banks]
    right = [bank.pim_open & (bank.pim_row == head.row) for bank in banks]
    closes = sum((any_of(wrong[b : b + plan.closed]) for b in range(0, plan.banks, plan.closed)), start=Const(0, 1))
    groups = sum(
        (any_of(~x for x in right[b : b + plan.group]) for b in range(0, plan.banks, plan.group)), start=Const(0, 1)
    )
    least = plan.gemv_ck // plan.comp_ck
    comps = Mux(head.comps > least, head.comps, least) + head.results - 1
    tile = plan.pre_ck * closes + plan.faw_ck * (groups >> 1) + (plan.act_ck - plan.faw_ck) + plan.comp_ck * comps
    m.d.comb += found.eq(Mux(head.cmd == plan.op.gwrite, plan.copy_ck + late, tile))
    return found


def plan_bits(plan: Plan) -> int:
    """Bits that an estimate needs beyond those of the time between refreshes."""
    return 4 + bits_for(plan.banks)


def copy(m: Module, plan: Plan, banks: list[BankState], head: data.View) -> Asked:
    """GWRITE: its row must be open in the MEM row buffer."""
    here = [head.bank == b for b in range(plan.banks)]
    fits = [bank.mem_open & (bank.mem_row == head.row) for bank in banks]
    inside = [bank.pim_open & (bank.pim_row == head.row) & plan.dual for bank in banks]

    def some(bits: list[Value]) -> Value:
        return any_of(a & b for a, b in zip(here, bits, strict=True))

    def of(name: str) -> list[Value]:
        return [bank.free[name] for bank in banks]

    opened, fit, in_pim = some([bank.mem_open for bank in banks]), some(fits), some(inside)
    return asked(
        m, plan,
        [
            (fit & some(of("gwrite")), plan.op.gwrite, head.bank, head.row),
            (opened & ~fit & some(of("pre")), plan.op.pre, head.bank, 0),
            (~opened & in_pim & some(of("pim_pre")), max(plan.op.pim_pre, 0), head.bank, 0),
            (~opened & ~in_pim & some(of("act")), plan.op.act, head.bank, head.row),
        ],
        "copy",
    )  # fmt: skip


def announce(m: Module, plan: Plan, banks: list[BankState], head: data.View) -> Asked:
    """PIM_HEADER: no PIM row but its own may be open, and its own in no MEM row buffer."""
    no = Const(0, 1)
    if plan.dual:
        pim = [bank.pim_open & (bank.pim_row != head.row) for bank in banks]
        mem = [~bank.pim_open & bank.mem_open & (bank.mem_row == head.row) for bank in banks]
    else:
        pim = [no for _ in banks]
        mem = [bank.mem_open & (bank.mem_row != head.row) for bank in banks]
    pims = [wrong & bank.free["pim_pre"] for wrong, bank in zip(pim, banks, strict=True)]
    mems = [wrong & bank.free["pre"] for wrong, bank in zip(mem, banks, strict=True)]
    may = [a | b for a, b in zip(pims, mems, strict=True)]
    which, bank = first(m, may, "header_closes"), lowest(m, may, "header_bank")
    is_pim = any_of(which[b] & pims[b] for b in range(plan.banks))
    return asked(
        m, plan,
        [
            (any_of(may) & is_pim, max(plan.op.pim_pre, 0), bank, 0),
            (any_of(may), plan.op.pre, bank, 0),
            (~any_of([*pim, *mem]), plan.op.header, 0, head.row),
        ],
        "announce",
    )  # fmt: skip


def dot(m: Module, plan: Plan, banks: list[BankState], head: data.View, free: dict[str, Value]) -> tuple[Asked, Value]:
    """COMP, READRES, PIM_GEMV: all banks must have a row open for PIM. And whether a result can never be read."""
    opened = [bank.pim_open for bank in banks]
    groups = [banks[b : b + plan.group] for b in range(0, plan.banks, plan.group)]
    may = [any_of(~b.pim_open for b in own) & ~any_of(~b.free["g_act"] for b in own) for own in groups]
    group = lowest(m, may, "opens_group")
    closed, stuck = any_of(~x for x in opened), Signal(name="dot_stuck")
    if plan.op.readres >= 0:
        m.d.comb += stuck.eq(closed & (head.cmd == plan.op.readres))
    names = [name for name in ("comp", "readres", "gemv") if getattr(plan.op, name) >= 0]
    choices: list[tuple[Value, int, Value | int, Value | int]] = [
        (~closed & (head.cmd == getattr(plan.op, name)) & free[name], getattr(plan.op, name), 0, head.row)
        for name in names
    ]
    opens = closed & ~stuck & any_of(may)
    return asked(m, plan, [*choices, (opens, plan.op.g_act, group * plan.group, head.row)], "dot"), stuck
