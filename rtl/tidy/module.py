"""A module of Verilog, as Yosys writes it: declarations and items, read and written again."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pimloom.rtl.tidy.expression import Cat, Expr, Index, Ref, Slice, Unreadable, leaves, parse

HEAD = re.compile(r"module (\\?\S+?)\s?\((.*?)\);$")
DECLARED = re.compile(
    r"  (wire|reg|input|output|inout|integer)(?: \[(-?\d+):0\])? (\\?\S+?)(?: \[(\d+):(\d+)\])?\s*(?:= (\S+))?;$"
)
SOURCE = re.compile(r'\(\* src = "(.*?)" \*\)')
ATTRIBUTES = re.compile(r"\(\*.*?\*\) ?")
PORT = re.compile(r"    \.(\\\S+ |\w+)\((.*?)\),?$")
WIDTH = 116  # characters of a line


@dataclass
class Wire:
    """What is declared. way: "input", "output" or "". words: of a memory, else 0. init: of a register, or ""."""

    name: str
    kind: str = "wire"
    width: int = 1
    way: str = ""
    words: int = 0
    init: str = ""
    source: str = ""


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
    """name, names of ports in order, what is declared, what is in it."""

    name: str
    ports: list[str]
    wires: dict[str, Wire]
    items: list[Item]

    def widths(self) -> dict[str, int]:
        """Bits of each wire; under `name[]` those of a memory's word."""
        return {name + ("[]" if wire.words else ""): wire.width for name, wire in self.wires.items()}

    def rewrite(self, change: Callable[[Expr], Expr]) -> None:
        """Put `change(e)` for each whole expression, targets included."""
        for item in self.items:
            rewrite(item, change, change)


def read(text: str) -> Module:
    """Raises Unreadable."""
    start, _, rest = text.partition(");\n")
    lines = [" ".join(start.split()) + ");", *rest.rstrip().splitlines()]
    head = HEAD.match(lines[0])
    if head is None or lines[-1] != "endmodule":
        raise Unreadable(lines[0])
    ports = [port.strip() for port in head[2].split(",") if port.strip()]
    found = Module(head[1], ports, {}, [])
    reader = _Reader(found, lines[1:-1])
    while reader.lines:
        reader.item()
    return found


class _Reader:
    def __init__(self, module: Module, lines: list[str]) -> None:
        self.module, self.lines, self.source = module, lines[::-1], ""

    def item(self) -> None:
        line = self.lines.pop()
        if line.startswith("  (*") and line.endswith("*)"):
            if found := SOURCE.search(line):
                self.source = found[1].partition("|")[0]
            return
        source, self.source = self.source, ""
        if found := DECLARED.match(line):
            self.declare(found, source)
        elif line.startswith("  assign "):
            to, value = _both(line[9:-1], " = ")
            made = SOURCE.search(line)  # Yosys writes it behind the operator
            source = made[1].partition("|")[0] if made else source
            self.module.items.append(Assign(to, value, source))
        elif line.startswith("  always "):
            clock = "" if "@*" in line else line[line.index("@(") + 2 : line.index(")")]
            body = self.block() if line.endswith(" begin") else [s for s in (self.statement(),) if s]
            self.module.items.append(Process(clock, body, source))
        elif line == "  initial begin":
            self.memory()
        elif line.endswith(" ("):
            self.instance(line)
        elif line.strip():
            raise Unreadable(line)

    def declare(self, found: re.Match[str], source: str) -> None:
        kind, high, name, first, last, init = found.groups()
        wire = self.module.wires.setdefault(name, Wire(name))
        if kind in ("input", "output"):
            wire.way = kind
        elif kind == "reg":
            wire.kind = "reg"
        wire.width, wire.init, wire.source = int(high or 0) + 1, init or wire.init, source or wire.source
        if first:
            wire.words = max(int(first), int(last)) + 1

    def block(self) -> list[Statement]:
        found = list[Statement]()
        while True:
            line = self.lines[-1].strip()
            if line == "end" or line.startswith("end else"):
                return self.closed(found)
            statement = self.statement()
            if statement is not None:
                found.append(statement)

    def closed(self, found: list[Statement]) -> list[Statement]:
        if self.lines[-1].strip() == "end":
            self.lines.pop()
        return found

    def statement(self) -> Statement | None:
        line, full = self.lines.pop().strip(), False
        while line.startswith("(*"):
            full |= "full_case" in line
            line = ATTRIBUTES.sub("", line).strip() or self.lines.pop().strip()
        line = re.sub(r"/\*.*?\*/ ?", "", line)
        if line in ("", ";"):
            return None
        if line.endswith(" begin end"):
            return None  # what makes Verilog run it once: put back where it is written
        if line.startswith("if (") and line.endswith(" begin"):
            return self.branches(parse(line[4:-7]))
        if line.startswith("if ("):
            then = self.statement()
            return If(parse(line[4:-1]), [then] if then else [])
        if line.startswith("casez (") or line.startswith("case ("):
            return self.case(parse(line[line.index("(") + 1 : -1]), full)
        now = " <= " not in line
        to, value = _both(line[:-1], " = " if now else " <= ")
        return Set(to, value, now)

    def branches(self, test: Expr) -> If:
        found = If(test, self.block())
        line = self.lines[-1].strip() if self.lines else ""
        if line.startswith("end else if ("):
            self.lines.pop()
            found.other = [self.branches(parse(line[13:-7]))]
        elif line == "end else begin":
            self.lines.pop()
            found.other = self.block()
        return found

    def case(self, subject: Expr, full: bool) -> Case:
        arms = list[tuple[str, list[Statement]]]()
        while (label := self.lines.pop().strip()) != "endcase":
            if not label.endswith(":"):
                raise Unreadable(label)
            if self.lines[-1].strip() == "begin":
                self.lines.pop()
                arms.append((label[:-1], self.block()))
            else:
                only = self.statement()
                arms.append((label[:-1], [only] if only else []))
        return Case(subject, arms, full)

    def memory(self) -> None:
        runs, name = list[tuple[int, int, str]](), ""
        while (line := self.lines.pop().strip()) != "end":
            found = re.fullmatch(r"(\\?\S+?)\s?\[(\d+)\] = (\S+);", line)
            if found is None:
                raise Unreadable(line)
            name, at, word = found[1], int(found[2]), found[3]
            if runs and runs[-1][2] == word and runs[-1][1] == at - 1:
                runs[-1] = (runs[-1][0], at, word)
            else:
                runs.append((at, at, word))
        self.module.items.append(Memory(name, runs))

    def instance(self, line: str) -> None:
        kind, name = line[:-2].split()
        ports = list[tuple[str, Expr | None]]()
        while (line := self.lines.pop()) != "  );":
            found = PORT.match(line)
            if found is None:
                raise Unreadable(line)
            ports.append((found[1].strip(), parse(found[2]) if found[2].strip() else None))
        self.module.items.append(Instance(kind, name, ports))


def _both(text: str, sign: str) -> tuple[Expr, Expr]:
    text = ATTRIBUTES.sub("", text)
    to, found, value = text.partition(sign)
    if not found:
        raise Unreadable(text)
    return parse(to), parse(value)


def rewrite(item: Item | Statement, target: Callable[[Expr], Expr], value: Callable[[Expr], Expr]) -> None:
    """Put target(e) for what is assigned to, value(e) for all that is read."""
    match item:
        case Assign() | Set():
            item.to, item.value = target(item.to), value(item.value)
        case If():
            item.test = value(item.test)
            for inner in (*item.then, *item.other):
                rewrite(inner, target, value)
        case Case():
            item.subject = value(item.subject)
            for _, body in item.arms:
                for inner in body:
                    rewrite(inner, target, value)
        case Process():
            for inner in item.body:
                rewrite(inner, target, value)
        case Instance():
            item.ports = [(port, e and value(e)) for port, e in item.ports]


def reads(item: Item | Statement) -> Iterator[Expr]:
    """Every expression that is read, places in targets included."""
    match item:
        case Assign() | Set():
            yield item.value
            yield from (inner.at for inner in leaves(item.to) if isinstance(inner, Index))
        case If():
            yield item.test
            for inner in (*item.then, *item.other):
                yield from reads(inner)
        case Case():
            yield item.subject
            for _, body in item.arms:
                for inner in body:
                    yield from reads(inner)
        case Process():
            for inner in item.body:
                yield from reads(inner)
        case Instance():
            yield from (e for _, e in item.ports if e is not None)


def targets(item: Item | Statement) -> Iterator[Expr]:
    """Every wire, or bits of one, that is assigned to in it by name."""
    match item:
        case Assign() | Set():
            yield from (e for e in (item.to.parts if isinstance(item.to, Cat) else (item.to,)))
        case If():
            for inner in (*item.then, *item.other):
                yield from targets(inner)
        case Case():
            for _, body in item.arms:
                for inner in body:
                    yield from targets(inner)
        case Process():
            for inner in item.body:
                yield from targets(inner)


def named(e: Expr) -> str:
    """The name of a leaf, "" of a constant."""
    return e.name if isinstance(e, (Ref, Slice, Index)) else ""
