"""Expressions of Verilog, as Yosys writes them: measured, cut to bits, written."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

RANK = {
    "?": 0, "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "===": 6, "!==": 6, "<": 7, "<=": 7, ">": 7,
    ">=": 7, "<<": 8, ">>": 8, "<<<": 8, ">>>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
ONE_BIT = {"||", "&&", "==", "!=", "===", "!==", "<", "<=", ">", ">="}
SHIFTS = {"<<", ">>", "<<<", ">>>"}
NEGATED = {("~", "|"), ("~", "&"), ("~", "^")}  # unary operators that may stand side by side: ~|a is ~(|a)
CHAINS = {"&", "|", "^", "&&", "||"}  # a op (b op c) is (a op b) op c


class Ref(NamedTuple):
    """A whole wire, register or memory."""

    name: str


class Slice(NamedTuple):
    """Constant bits of a wire, or one word of a memory."""

    name: str
    hi: int
    lo: int


class Index(NamedTuple):
    """`name[at]`, at a place that is computed; of a word of a memory, `[hi:lo]`, where lo is not -1."""

    name: str
    at: "Expr"
    hi: int = -1
    lo: int = -1


class Const(NamedTuple):
    """As it was written, and its bits."""

    text: str
    width: int


class Cat(NamedTuple):
    """{ parts }, the highest first."""

    parts: "tuple[Expr, ...]"


class Un(NamedTuple):
    """An operator before one operand, or `$signed`."""

    op: str
    a: "Expr"


class Bin(NamedTuple):
    """An operator between two."""

    op: str
    a: "Expr"
    b: "Expr"


class Cond(NamedTuple):
    """s ? a : b."""

    s: "Expr"
    a: "Expr"
    b: "Expr"


Expr = Ref | Slice | Index | Const | Cat | Un | Bin | Cond
Widths = Mapping[str, int]


def parts_of(e: Expr) -> tuple[Expr, ...]:
    """The expressions right below."""
    kind = type(e)
    if kind is Ref or kind is Slice or kind is Const:  # most are
        return ()
    match e:
        case Bin(_, a, b):
            return a, b
        case Cat(parts):
            return parts
        case Un(_, a):
            return (a,)
        case Cond(s, a, b):
            return s, a, b
        case Index(_, at):
            return (at,)
    return ()


def rebuilt(e: Expr, parts: list[Expr]) -> Expr:
    """The expression with other parts, in the order of `parts_of`."""
    if not parts:
        return e
    match e:
        case Bin(op, _, _):
            return Bin(op, parts[0], parts[1])
        case Cat():
            return Cat(tuple(parts))
        case Un(op, _):
            return Un(op, parts[0])
        case Cond():
            return Cond(*parts)
        case Index():
            return e._replace(at=parts[0])
    return e


def leaves(e: Expr) -> Sequence[Expr]:
    """Wires, bits of wires and constants in it; a computed place counts as one and by what is in it."""
    below = parts_of(e)
    if not below:
        return (e,)
    found, left = list[Expr](), [e]
    while left:
        e = left.pop()
        below = parts_of(e)
        if not below or isinstance(e, Index):
            found.append(e)
        left += below[::-1]
    return found


def width_of(e: Expr, widths: Widths) -> int:
    """Bits that Verilog gives it by itself, whatever stands around."""
    match e:
        case Ref(name):
            return widths[name]
        case Slice(name, hi, lo):
            return widths[f"{name}[]"] if f"{name}[]" in widths else hi - lo + 1
        case Index(name, _, hi, lo):
            return hi - lo + 1 if lo >= 0 else widths.get(f"{name}[]", 1)
        case Const(_, width):
            return width
        case Cat(parts):
            return sum(width_of(part, widths) for part in parts)
        case Un(op, a):
            return width_of(a, widths) if op in ("~", "-", "+", "$signed") else 1
        case Bin(op, a, b):
            if op in ONE_BIT:
                return 1
            return width_of(a, widths) if op in SHIFTS else max(width_of(a, widths), width_of(b, widths))
        case Cond(_, a, b):
            return max(width_of(a, widths), width_of(b, widths))


def value_bits(e: Expr, widths: Widths) -> int | None:
    """Bits that its value needs at most, None where it depends on the width at which it is worked out."""
    match e:
        case Un(op, _):
            return None if op in ("~", "-", "+", "$signed") else 1
        case Bin(op, a, b) if op not in ONE_BIT:
            x, y = value_bits(a, widths), value_bits(b, widths)
            if x is None or y is None or op not in ("+", "*", "&", "|", "^", ">>"):
                return None
            return {"+": max(x, y) + 1, "*": x + y, "&": min(x, y), ">>": x}.get(op, max(x, y))
        case Cond(_, a, b):
            x, y = value_bits(a, widths), value_bits(b, widths)
            return None if x is None or y is None else max(x, y)
    return width_of(e, widths)


def cut(e: Expr, hi: int, lo: int, widths: Widths) -> Expr | None:
    """Bits hi to lo of it, worked out at no more bits than that; None where that is no shorter.

    Bits above its own are zeros.
    """
    own = width_of(e, widths)
    if (hi, lo) == (own - 1, 0):
        return e
    if isinstance(e, (Ref, Slice, Const, Cat)) and hi >= own:
        low = cut(e, own - 1, lo, widths) if lo < own else None
        zeros = Const(f"{hi - max(own, lo) + 1}'h0", hi - max(own, lo) + 1)
        return Cat((zeros, low)) if low else zeros
    match e:
        case Ref(name):
            return Slice(name, hi, lo)
        case Slice(name, _, start):
            return None if f"{name}[]" in widths else Slice(name, start + hi, start + lo)
        case Const(text, _):
            return _const(text, hi, lo)
        case Cat(parts):
            return _cut_cat(parts, hi, lo, widths)
        case Un("~", a):
            a_cut = cut(a, hi, lo, widths)
            return Un("~", a_cut) if a_cut else None
        case Bin(op, a, b) if op in ("&", "|", "^"):
            x, y = cut(a, hi, lo, widths), cut(b, hi, lo, widths)
            return Bin(op, x, y) if x and y else None
        case Bin(op, a, b) if op in ("+", "-", "*") and lo == 0:
            x, y = (cut(p, min(hi, width_of(p, widths) - 1), 0, widths) for p in (a, b))
            return Bin(op, x, y) if x and y else None
        case Cond(s, a, b):
            x, y = cut(a, hi, lo, widths), cut(b, hi, lo, widths)
            return Cond(s, x, y) if x and y else None
    return None


def _const(text: str, hi: int, lo: int) -> Expr | None:
    size, _, digits = text.partition("'")
    base = {"h": 16, "d": 10, "b": 2, "o": 8}.get(digits[:1])
    if base is None or not re.fullmatch(r"[\da-f]+", digits[1:]):
        return None
    width = hi - lo + 1
    return Const(f"{width}'h{int(digits[1:], base) >> lo & ((1 << width) - 1):x}", width)


def _cut_cat(parts: tuple[Expr, ...], hi: int, lo: int, widths: Widths) -> Expr | None:
    found, at = list[Expr](), 0
    for part in reversed(parts):
        width = width_of(part, widths)
        first, last = max(lo - at, 0), min(hi - at, width - 1)
        if first <= last:
            piece = part if (first, last) == (0, width - 1) else cut(part, last, first, widths)
            if piece is None:
                return None
            found.append(piece)
        at += width
    return found[0] if len(found) == 1 else Cat(tuple(reversed(found)))


def show(e: Expr, rank: int = 0) -> str:
    """Verilog; parentheses wherever a reader could ask."""
    match e:
        case Ref(name):
            return _name(name)
        case Slice(name, hi, lo):
            return f"{_name(name)}[{hi}:{lo}]" if hi != lo else f"{_name(name)}[{hi}]"
        case Index(name, at, hi, lo):
            bits = "" if lo < 0 else f"[{hi}:{lo}]" if hi > lo else f"[{hi}]"
            return f"{_name(name)}[{show(at)}]{bits}"
        case Const(text, _):
            return text
        case Cat(parts):
            return _braces(parts)
        case Un("$signed", a):
            return f"$signed({show(a)})"
        case Un(op, Un(inner) as a) if inner != "$signed" and (op, inner) not in NEGATED:  # |~a is no Verilog
            return f"{op}({show(a)})"
        case Un(op, a):
            return f"{op}{show(a, 11)}"
        case Bin(op, a, b):
            text = f"{show(a, _inner(op, a))} {op} {show(b, _inner(op, b))}"
            return f"({text})" if rank else text
        case Cond(s, a, b):
            text = f"{show(s, 1)} ? {show(a, 1)} : {show(b, 0 if isinstance(b, Cond) else 1)}"
            return f"({text})" if rank else text


def _braces(parts: tuple[Expr, ...]) -> str:
    """{ parts }; one that comes more than twice in a row once, with its count."""
    runs = [(part, len(list(same))) for part, same in groupby(parts)]
    shown = [f"{{{n}{{{show(p)}}}}}" if n > 2 else ", ".join([show(p)] * n) for p, n in runs]
    return shown[0] if len(runs) == 1 and runs[0][1] > 2 else f"{{{', '.join(shown)}}}"


def _inner(op: str, e: Expr) -> int:
    return 0 if isinstance(e, Bin) and e.op == op and op in CHAINS else 1


def _name(name: str) -> str:
    return name + " " if name.startswith("\\") else name
