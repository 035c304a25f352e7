"""Registers as an engineer writes them: what Yosys keeps in a process of its own, at the edge of the clock."""

import re
from collections import Counter

from verilog_tidy.expression import Cat, Const, Expr, Index, Ref, Slice, leaves, parts_of, rebuilt
from verilog_tidy.module import (
    Assign,
    Case,
    If,
    Instance,
    Module,
    Process,
    Set,
    Statement,
    inside,
    named,
    readers,
    reads,
    rewrite,
    targets,
)

MADE_UP = re.compile(r"_\d+_")  # by Yosys where it writes


def anonymous(name: str) -> bool:
    """Whether Amaranth or Yosys made the name up."""
    return "$" in name or MADE_UP.fullmatch(name) is not None


def start(m: Module) -> None:
    """Registers without a value at power-up, those of memories' read ports, begin with 0, as Amaranth has it."""
    for item in m.items:
        if isinstance(item, Process) and item.clock:
            for to in targets(item):
                wire = m.wires[named(to)]
                if not wire.words and not wire.init:
                    wire.init = f"{wire.width}'h0"


def settle(m: Module) -> None:
    """What is decided by a constant, or changes nothing, is not asked."""
    for item in m.items:
        if isinstance(item, Process):
            item.body = _settled(item.body)


def _settled(body: list[Statement]) -> list[Statement]:
    found = list[Statement]()
    for statement in body:
        match statement:
            case If(Const("1'h1"), then, _):
                found += _settled(then)
                continue
            case If(_, then, other):
                statement.then, statement.other = _settled(then), _settled(other)
                if statement.then == statement.other:
                    found += statement.then
                    continue
            case Case():
                statement.arms = [(label, _settled(inner)) for label, inner in statement.arms]
        found.append(statement)
    return found


def merge(m: Module) -> None:
    """`always @* next = ...; always @(posedge clk) r <= next;` as one process, where nobody else reads `next`."""
    read = readers(m.items)
    makers: dict[str, list[Process]] = {}
    for item in m.items:
        for name in {named(to) for to in targets(item)}:
            if isinstance(item, Process):
                makers.setdefault(name, []).append(item)
    for item in list(m.items):
        if isinstance(item, Process) and any(item is other for other in m.items):
            while _merged(m, item, read, makers):
                pass


def _merged(m: Module, process: Process, read: Counter[str], makers: dict[str, list[Process]]) -> bool:
    """Put one process in the place of the assignment that repeats its result; whether there was one."""
    for at, only in enumerate(process.body):
        if not (isinstance(only, Set) and isinstance(only.to, Ref) and isinstance(only.value, Ref)):
            continue
        its = only.value.name
        made = makers.get(its, [])
        if not anonymous(its) or read[its] != 1 or len(made) != 1 or made[0].clock or made[0] is process:
            continue
        if {named(to) for to in targets(made[0])} == {its}:
            _move(m, made[0], process, at, only)
            return True
    return False


def _move(m: Module, made: Process, process: Process, at: int, only: Set) -> None:
    its, register = named(only.value), named(only.to)
    rewrite(made, lambda e: _renamed(e, its, register), lambda e: e)
    for each in inside(made):
        if isinstance(each, Set):
            each.now = only.now
    process.body[at : at + 1] = made.body
    m.items = [item for item in m.items if item is not made]
    del m.wires[its]
    first = process.body[0]
    if isinstance(first, Set) and first.to == first.value == Ref(register):
        del process.body[0]


def _renamed(e: Expr, old: str, new: str) -> Expr:
    if isinstance(e, (Ref, Slice)) and e.name == old:
        return e._replace(name=new)
    return Cat(tuple(_renamed(part, old, new) for part in e.parts)) if isinstance(e, Cat) else e


def alias(m: Module) -> None:
    """A wire without a name that only a named one repeats takes its name; a field that nobody reads goes."""
    names: dict[str, str] = {}
    for item in m.items:
        if isinstance(item, Assign) and isinstance(item.to, Ref) and isinstance(item.value, Ref):
            mine, its = m.wires[item.to.name], m.wires[item.value.name]
            if its.way or its.words or its.name in names or not anonymous(its.name):
                continue
            if anonymous(mine.name) and not MADE_UP.fullmatch(its.name):
                continue
            if mine.width == its.width and mine.way != "input" and mine.kind == "wire":
                names[its.name] = mine.name
                mine.kind, mine.init, mine.source = its.kind, its.init, mine.source or its.source
    m.items = [
        item
        for item in m.items
        if not (isinstance(item, Assign) and isinstance(item.value, Ref) and _taken(item, names))
    ]
    rename(m, names)
    for name in names:
        del m.wires[name]


def outlets(m: Module) -> None:
    """What an instance gives goes where it is used, if that is bits of one wire, and not by a wire of its own."""
    read = Counter(named(leaf) for item in m.items for e in reads(item) for leaf in leaves(e))
    driven = Counter(named(to) for item in m.items for to in targets(item))
    bits = {
        item.value.name: item
        for item in m.items
        if isinstance(item, Assign) and isinstance(item.to, Slice) and isinstance(item.value, Ref)
        if read[item.value.name] == 2 and not driven[item.value.name] and not m.wires[item.value.name].way
    }
    gone = set[int]()
    for item in m.items:
        if isinstance(item, Instance):
            for n, (port, e) in enumerate(item.ports):
                if isinstance(e, Ref) and e.name in bits:
                    item.ports[n] = port, bits[e.name].to
                    gone.add(id(bits[e.name]))
                    del m.wires[e.name]
    m.items = [item for item in m.items if id(item) not in gone]


def _taken(item: Assign, names: dict[str, str]) -> bool:
    return isinstance(item.to, Ref) and isinstance(item.value, Ref) and names.get(item.value.name) == item.to.name


def rename(m: Module, names: dict[str, str]) -> None:
    """Names in expressions; declarations are the caller's."""

    def change(e: Expr) -> Expr:
        return substitute(e, names)

    m.rewrite(change)


def substitute(e: Expr, names: dict[str, str]) -> Expr:
    """The expression under other names."""
    if isinstance(e, (Ref, Slice, Index)) and e.name in names:
        e = e._replace(name=names[e.name])
    below = parts_of(e)
    return rebuilt(e, [substitute(part, names) for part in below]) if below else e
