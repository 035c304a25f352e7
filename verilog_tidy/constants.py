"""Numbers by the names that the source has for them: values of an enumeration, bits of a vector."""

import re

from verilog_tidy.expression import Bin, Cond, Const, Expr, Index, Ref, Slice, Un, parts_of, rebuilt
from verilog_tidy.module import Assign, Case, Item, Module, Set, Statement, inside, rewrite

BITS = "bits"  # attribute of a signal: names of its bits, the lowest first, with spaces between them
NUMBER = re.compile(r"\d+'([hbd])([\da-f]+)")
BASE = {"h": 16, "b": 2, "d": 10}


def name_constants(m: Module) -> None:
    """Put names in the place of numbers, and declare those that are used (`m.constants`)."""
    if not any(wire.values or wire.bits for wire in m.wires.values()):
        return
    names = _Names(m)
    for item in m.items:
        names.assigned(item)
        rewrite(item, names.named, names.named)
    m.constants = {name: (width, value) for _, value, width, name in sorted(names.used)}


class _Names:
    """used: each constant that was put somewhere: what its kind begins with, its value, bits and name."""

    def __init__(self, m: Module) -> None:
        self.m, self.used = m, set[tuple[str, int, int, str]]()

    def constant(self, kind: str, value: int, width: int, name: str) -> Const | None:
        if name in self.m.wires:
            return None
        self.used.add((kind, value, width, name))
        return Const(name, width)

    def member(self, of: Expr, e: Expr) -> Expr:
        """A number by its name in the enumeration of a wire; both branches of a choice."""
        wire = self.m.wires[of.name] if isinstance(of, Ref) else None
        if wire is None or not wire.values:
            return e
        if isinstance(e, Cond):
            return Cond(e.s, self.member(of, e.a), self.member(of, e.b))
        number = NUMBER.fullmatch(e.text) if isinstance(e, Const) else None
        value = int(number[2], BASE[number[1]]) if number else -1
        if value not in wire.values:
            return e
        return self.constant(min(wire.values.values()), value, wire.width, wire.values[value]) or e

    def named(self, e: Expr) -> Expr:
        e = rebuilt(e, [self.named(part) for part in parts_of(e)])
        match e:
            case Un("|", Ref(name) as of) if self.m.wires[name].values:
                zero = self.member(of, Const(f"{self.m.wires[name].width}'h0", self.m.wires[name].width))
                return Bin("!=", of, zero)
            case Bin("==" | "!=" as op, a, b):
                return Bin(op, self.member(b, a), self.member(a, b))
            case Slice(name, hi, lo) if hi == lo and lo < len(self.m.wires[name].bits):
                bits = self.m.wires[name].bits
                place = self.constant(min(bits), lo, max((len(bits) - 1).bit_length(), 1), bits[lo])
                return Index(name, place) if place else e
        return e

    def assigned(self, item: Item | Statement) -> None:
        """Numbers that a wire of an enumeration is assigned, or compared with in the arms of a case."""
        for each in inside(item):
            match each:
                case Assign() | Set():
                    each.value = self.member(each.to, each.value)
                case Case():
                    each.arms = [(self.label(each.subject, label), body) for label, body in each.arms]

    def label(self, subject: Expr, text: str) -> str:
        found = (self.member(subject, Const(part, 0)) for part in text.split(", "))
        return ", ".join(part.text for part in found if isinstance(part, Const))
