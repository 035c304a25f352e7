"""A module of Verilog, as Yosys writes it: declarations and items, read and written again."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from verilog_tidy.expression import Cat, Expr, Index, Ref, Slice, leaves

WIDTH = 116  # characters of a line


@dataclass
class Wire:
    """What is declared. way: "input", "output" or "". words: of a memory, else 0. init: of a register, or "". values:
    names of its values, of an enumeration; bits: names of its bits, the lowest first."""

    name: str
    kind: str = "wire"
    width: int = 1
    way: str = ""
    words: int = 0
    init: str = ""
    source: str = ""
    values: dict[int, str] = field(default_factory=dict)
    bits: list[str] = field(default_factory=list)


@dataclass
class Assign:
    """assign to = value."""

    to: Expr
    value: Expr
    source: str = ""


@dataclass
class Set:
    """An assignment in a process; `now`: blocking."""

    to: Expr
    value: Expr
    now: bool


@dataclass
class If:
    """if, and what else."""

    test: Expr
    then: "list[Statement]"
    other: "list[Statement]" = field(default_factory=list)


@dataclass
class Case:
    """casez: labels as they were written."""

    subject: Expr
    arms: "list[tuple[str, list[Statement]]]"
    full: bool


Statement = Set | If | Case


@dataclass
class Process:
    """always @(clock), or of whatever it reads where clock is ""."""

    clock: str
    body: list[Statement]
    source: str = ""


@dataclass
class Instance:
    """A module in use. note: a comment above it."""

    module: str
    name: str
    ports: list[tuple[str, Expr | None]]
    note: str = ""


@dataclass
class Memory:
    """What a memory holds at first: runs of equal words, (first, last, word)."""

    name: str
    runs: list[tuple[int, int, str]]


Item = Assign | Process | Instance | Memory


@dataclass
class Module:
    """name, names of ports in order, what is declared, what is in it; constants: bits and value of each by its name."""

    name: str
    ports: list[str]
    wires: dict[str, Wire]
    items: list[Item]
    constants: dict[str, tuple[int, int]] = field(default_factory=dict)

    def widths(self) -> dict[str, int]:
        """Bits of each wire; under `name[]` those of a memory's word."""
        return {name + ("[]" if wire.words else ""): wire.width for name, wire in self.wires.items()}

    def rewrite(self, change: Callable[[Expr], Expr]) -> None:
        """Put `change(e)` for each whole expression, targets included."""
        for item in self.items:
            rewrite(item, change, change)


def inside(item: Item | Statement) -> Iterator[Item | Statement]:
    """The item and all statements in it, each before those in it."""
    yield item
    match item:
        case Process(_, body):
            below = body
        case If(_, then, other):
            below = [*then, *other]
        case Case(_, arms):
            below = [statement for _, body in arms for statement in body]
        case _:
            return
    for statement in below:
        yield from inside(statement)


def rewrite(item: Item | Statement, target: Callable[[Expr], Expr], value: Callable[[Expr], Expr]) -> None:
    """Put target(e) for what is assigned to, value(e) for all that is read."""
    for each in inside(item):
        match each:
            case Assign() | Set():
                each.to, each.value = target(each.to), value(each.value)
            case If():
                each.test = value(each.test)
            case Case():
                each.subject = value(each.subject)
            case Instance():
                each.ports = [(port, e and value(e)) for port, e in each.ports]


def reads(item: Item | Statement) -> Iterator[Expr]:
    """Every expression that is read, places in targets included."""
    for each in inside(item):
        match each:
            case Assign(to, value) | Set(to, value):
                yield value
                yield from (inner.at for inner in leaves(to) if isinstance(inner, Index))
            case If(test=e) | Case(subject=e):
                yield e
            case Instance(ports=ports):
                yield from (e for _, e in ports if e is not None)


def sets(item: Item | Statement) -> Iterator[Assign | Set]:
    """Every assignment in it."""
    yield from (each for each in inside(item) if isinstance(each, (Assign, Set)))


def targets(item: Item | Statement) -> Iterator[Expr]:
    """Every wire, or bits of one, that is assigned to in it by name."""
    for each in sets(item):
        yield from each.to.parts if isinstance(each.to, Cat) else (each.to,)


def named(e: Expr) -> str:
    """The name of a leaf, "" of a constant."""
    return e.name if isinstance(e, (Ref, Slice, Index)) else ""


def readers(items: Iterable[Item]) -> Counter[str]:
    """How often each name is read."""
    return Counter(named(leaf) for item in items for e in reads(item) for leaf in leaves(e))
