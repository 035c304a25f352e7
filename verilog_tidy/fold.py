"""Wires without a name folded into the expression that reads them, where Verilog's rules of width let them."""

import re
from collections import Counter
from collections.abc import Callable

from verilog_tidy.expression import (
    ONE_BIT,
    SHIFTS,
    Bin,
    Cat,
    Cond,
    Const,
    Expr,
    Index,
    Ref,
    Slice,
    Un,
    Widths,
    cut,
    leaves,
    parts_of,
    rebuilt,
    show,
    value_bits,
    width_of,
)
from verilog_tidy.module import (
    Assign,
    Case,
    If,
    Instance,
    Item,
    Module,
    Process,
    Set,
    inside,
    named,
    readers,
    reads,
    rewrite,
    targets,
)
from verilog_tidy.registers import anonymous

LEAVES = 14  # operands of an expression that one still reads
LONGEST = 220  # characters of one
CONTEXT = ("~", "-", "+")  # operators that work at the width of what stands around


def fold(m: Module) -> None:
    """Fold what is read once, or is hardly longer than its name; drop what nobody reads."""
    _drop(m, fields=True)
    while _narrow(m):
        pass
    _Folder(m).all()
    _drop(m, fields=True)
    _fields(m)
    _drop(m)
    widths = m.widths()
    for item in m.items:
        rewrite(item, lambda e: e, lambda e: _spelled(e, widths))


def _drop(m: Module, fields: bool = False) -> None:
    """Leave out assignments to wires that nobody reads, and wires that are nowhere. fields: those whose values have
    names stay, for their bits may be read (see `_fields`)."""
    read = readers(m.items)
    while gone := [item for item in m.items if _unread(m, item, read, fields)]:
        left_out = set(map(id, gone))
        m.items = [item for item in m.items if id(item) not in left_out]
        read = read - readers(gone)
    there = {named(to) for item in m.items for to in targets(item)} | set(read)
    there |= {item.name for item in m.items if not isinstance(item, (Assign, Process))}
    m.wires = {name: wire for name, wire in m.wires.items() if wire.way or wire.words or name in there}


def _unread(m: Module, item: Item, read: Counter[str], fields: bool) -> bool:
    if isinstance(item, Assign) and isinstance(item.value, Const) and not item.value.text.split("'")[-1][1:].strip("x"):
        return True  # a bit that Yosys found nobody to read
    if isinstance(item, Assign) or isinstance(item, Process) and not item.clock:
        wires = [m.wires[named(to)] for to in targets(item)]
        return all(not read[wire.name] and not wire.way and not (fields and wire.values) for wire in wires)
    return False


def _narrow(m: Module) -> bool:
    """Cut wires of which nobody reads the highest bits; whether there were any."""
    widths, highest, whole = m.widths(), dict[str, int](), dict[Expr, Expr]()
    for item in m.items:
        for e in reads(item):
            for leaf in leaves(e):
                if name := named(leaf):
                    hi = leaf.hi if isinstance(leaf, Slice) else widths.get(name, 0) - 1
                    highest[name] = max(highest.get(name, 0), hi)
    for item in m.items:
        if isinstance(item, Assign) and isinstance(item.to, Ref) and anonymous(item.to.name):
            wire = m.wires[item.to.name]
            hi = highest.get(wire.name, wire.width - 1)
            if wire.way or wire.kind == "reg" or hi >= wire.width - 1:
                continue
            if (shorter := cut(item.value, hi, 0, widths)) is not None:
                item.value, wire.width, widths[wire.name] = shorter, hi + 1, hi + 1
                whole[Slice(wire.name, hi, 0)] = Ref(wire.name)
    if whole:
        m.rewrite(lambda e: _with_whole(e, whole))
    return bool(whole)


def _with_whole(e: Expr, whole: dict[Expr, Expr]) -> Expr:
    """The expression with wires where all bits of them stood."""
    if isinstance(e, Slice):
        return whole.get(e, e)
    below = parts_of(e)
    return rebuilt(e, [_with_whole(part, whole) for part in below]) if below else e


def _fields(m: Module) -> None:
    """A field's name, or that of an enumeration, for its bits of a record."""
    names = {
        item.value: item.to
        for item in m.items
        if isinstance(item, Assign) and isinstance(item.to, Ref) and isinstance(item.value, Slice)
        if m.wires[item.to.name].values or item.to.name.startswith(f"\\{item.value.name.lstrip(chr(92))}.")
    }

    def change(e: Expr) -> Expr:
        return names[e] if isinstance(e, Slice) and e in names else rebuilt(e, [change(part) for part in parts_of(e)])

    for item in m.items:
        if not (isinstance(item, Assign) and item.value in names):
            _read_as(item, change)


def _read_as(item: Item, change: Callable[[Expr], Expr]) -> None:
    if not isinstance(item, Instance):  # there an output may be meant
        rewrite(item, lambda e: e, change)


class _Folder:
    def __init__(self, m: Module) -> None:
        self.m, self.widths, self.read = m, m.widths(), readers(m.items)
        driven = Counter(named(to) for item in m.items for to in targets(item))
        self.made = {
            item.to.name: item
            for item in m.items
            if isinstance(item, Assign) and isinstance(item.to, Ref) and anonymous(item.to.name)
            if driven[item.to.name] == 1 and not m.wires[item.to.name].way
        }
        self.values: dict[str, Expr | None] = {}

    def all(self) -> None:
        for item in self.m.items:
            if isinstance(item, Assign) and isinstance(item.to, Ref) and item.to.name in self.made:
                self.value(item.to.name)
            else:
                self.item(item)

    def item(self, item: Item) -> None:
        for each in inside(item):
            match each:
                case Assign() | Set():
                    each.value = self.assigned(each.value, width_of(each.to, self.widths))
                case If():
                    each.test = self.alone(each.test)
                case Case():
                    each.subject = self.alone(each.subject)
                case Instance():
                    each.ports = [(port, e and self.alone(e)) for port, e in each.ports]

    def value(self, name: str) -> Expr | None:
        """What a wire is assigned, folded itself; None while that is being found."""
        if name not in self.values:
            self.values[name] = None
            item = self.made[name]
            item.value = self.assigned(item.value, self.widths[name])
            self.values[name] = item.value
        return self.values[name]

    def assigned(self, e: Expr, width: int) -> Expr:
        if isinstance(e, (Ref, Slice)) and width_of(e, self.widths) == width:
            return self.leaf(e, width, exact=False)
        return self.inside(e, width if width >= width_of(e, self.widths) else None)

    def alone(self, e: Expr) -> Expr:
        return self.inside(e, None)

    def inside(self, e: Expr, around: int | None) -> Expr:
        """Folded; around: bits at which it is worked out, None where that is its own width."""
        match e:
            case Ref() | Slice():
                return self.leaf(e, around)
            case Un(op, a):
                return Un(op, self.inside(a, around if op in CONTEXT else None))
            case Bin(op, a, b):
                inner = None if op in ONE_BIT else around
                return Bin(op, self.inside(a, inner), self.inside(b, None if op in SHIFTS else inner))
            case Cond(s, a, b):
                return Cond(self.alone(s), self.inside(a, around), self.inside(b, around))
            case Cat(parts):
                return Cat(tuple(self.alone(part) for part in parts))
            case Index(_, at):
                return e._replace(at=self.alone(at))
        return e

    def leaf(self, e: Ref | Slice, around: int | None, exact: bool = True) -> Expr:
        """What a wire stands for, if that is the same there, and no longer than one reads."""
        if e.name not in self.made or (value := self.value(e.name)) is None:
            return e
        width = width_of(e, self.widths)
        if isinstance(e, Slice):
            value = cut(value, e.hi, e.lo, self.widths)
        if value is None or self.read[e.name] > 1 and not _short(value):
            return e
        if len(list(leaves(value))) > LEAVES or len(show(value)) > LONGEST:
            return e
        own = width_of(value, self.widths)
        if exact and _signed(value):
            return e
        if exact:
            bits = value_bits(value, self.widths)
            if around is None and own != width:
                return e
            if around is not None and (own > width or around != width and (bits is None or bits > width)):
                return e
        return value


def _spelled(e: Expr, widths: Widths) -> Expr:
    """Constants at the width of what they are compared with or added to; `!` of a word as a comparison with zero."""
    e = rebuilt(e, [_spelled(part, widths) for part in parts_of(e)])
    match e:
        case Un("+", a):
            return a
        case Un("!", a) if (width := width_of(a, widths)) > 1:
            return Bin("==", a, Const(f"{width}'h0", width))
        case Bin(op, a, b) if op not in SHIFTS and op not in ("&&", "||"):
            return Bin(op, _padded(a, width_of(b, widths)), _padded(b, width_of(a, widths)))
    return e


def _padded(e: Expr, width: int) -> Expr:
    if isinstance(e, Const) and e.width < width and (found := re.fullmatch(r"\d+'([hbd][\da-f]+)", e.text)):
        return Const(f"{width}'{found[1]}", width)
    return e


def _signed(e: Expr) -> bool:
    """Whether it would be another number among operands without a sign."""
    match e:
        case Un(op, a):
            return op == "$signed" or op in CONTEXT and _signed(a)
        case Bin(op, a, b):
            return op not in ONE_BIT and (_signed(a) or op not in SHIFTS and _signed(b))
        case Cond(_, a, b):
            return _signed(a) or _signed(b)
    return False


def _short(e: Expr) -> bool:
    match e:
        case Ref() | Slice() | Const():
            return True
        case Un(_, a):
            return isinstance(a, (Ref, Slice))
        case Bin(op, a, b):
            return op in ONE_BIT and isinstance(a, (Ref, Slice)) and isinstance(b, Const)
    return False
