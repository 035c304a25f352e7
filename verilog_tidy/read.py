"""Verilog as Yosys writes it, read: expressions, and modules line by line."""

import re

from verilog_tidy.constants import BITS
from verilog_tidy.expression import RANK, Bin, Cat, Cond, Const, Expr, Index, Ref, Slice, Un
from verilog_tidy.module import Assign, Case, If, Instance, Memory, Module, Process, Set, Statement, Wire

TOKEN = re.compile(
    r"\s*(?:\(\*.*?\*\))?\s*"
    r"(\\\S+(?=\s)|\$?[A-Za-z_][\w$]*|\d+'s?[bdho][\da-fxz?]+|\d+|<<<|>>>|===|!==|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!?:<>(){},\[\]])"
)
HEAD = re.compile(r"module (\\?\S+?)\s?\((.*?)\);$")
DECLARED = re.compile(
    r"  (wire|reg|input|output|inout|integer)(?: \[(-?\d+):0\])? (\\?\S+?)(?: \[(\d+):(\d+)\])?\s*(?:= (\S+))?;$"
)
SOURCE = re.compile(r'\(\* src = "(.*?)" \*\)')
ATTRIBUTE = re.compile(r'  \(\* (\w+) = "(.*)" \*\)')
ATTRIBUTES = re.compile(r"\(\*.*?\*\) ?")
PORT = re.compile(r"    \.(\\\S+ |\w+)\((.*?)\),?$")


class Unreadable(ValueError):
    """A construct that Yosys does not write after the passes that `tidy` names; its text is the message."""


def parse(text: str) -> Expr:
    """The expression that a text of Verilog is. Raises Unreadable where it is none that Yosys writes."""
    tokens, at = list[str](), 0
    text = text.strip() + " "
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            raise Unreadable(text)
        tokens.append(found[1])
        at = found.end()
    reader = _Expression(tokens)
    expr = reader.expression()
    if reader.tokens:
        raise Unreadable(text)
    return expr


class _Expression:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]

    def take(self, wanted: str = "") -> str:
        if not self.tokens or wanted and self.tokens[-1] != wanted:
            raise Unreadable(wanted)
        return self.tokens.pop()

    def next(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def expression(self, rank: int = 0) -> Expr:
        left = self.operand()
        while (op := self.next()) in RANK and RANK[op] >= max(rank, 1):
            self.take()
            left = Bin(op, left, self.expression(RANK[op] + 1))
        if rank == 0 and self.next() == "?":
            self.take()
            a = self.expression()
            self.take(":")
            return Cond(left, a, self.expression())
        return left

    def operand(self) -> Expr:
        token = self.take()
        if token in ("~", "!", "-", "+", "&", "|", "^"):
            return Un(token, self.operand())
        if token == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if token == "{":
            parts = [self.expression()]
            while self.next() == ",":
                self.take()
                parts.append(self.expression())
            self.take("}")
            return Cat(tuple(parts))
        if token == "$signed":
            self.take("(")
            inner = self.expression()
            self.take(")")
            return Un(token, inner)
        if token[0].isdigit():
            width, quote, _ = token.partition("'")
            return Const(token, int(width) if quote else 32)
        if token[0] not in "\\_$" and not token[0].isalpha():
            raise Unreadable(token)
        return self.bits(token)

    def bits(self, name: str) -> Expr:
        if self.next() != "[":
            return Ref(name)
        self.take()
        at = self.expression()
        hi = at
        if self.next() == ":":
            self.take()
            at = self.expression()
        elif self.next() == "+":
            raise Unreadable(name)  # name[at +: width]: Yosys writes it only of what it is not given here
        self.take("]")
        if isinstance(hi, Const) and isinstance(at, Const) and "'" not in hi.text + at.text:
            return Slice(name, int(hi.text), int(at.text))
        if self.next() != "[":
            return Index(name, at)
        inner = self.bits(name)
        if not isinstance(inner, Slice):
            raise Unreadable(name)
        return Index(name, at, inner.hi, inner.lo)


def read(text: str) -> Module:
    """One module, from `module` to `endmodule`, with its declarations and items in the order of the text.

    Raises Unreadable at the first construct that is not known.
    """
    start, _, rest = text.partition(");\n")
    lines = [" ".join(start.split()) + ");", *rest.rstrip().splitlines()]
    head = HEAD.match(lines[0])
    if head is None or lines[-1] != "endmodule":
        raise Unreadable(lines[0])
    ports = [port.strip() for port in head[2].split(",") if port.strip()]
    found = Module(head[1], ports, {}, [])
    reader = _Lines(found, lines[1:-1])
    while reader.lines:
        reader.item()
    return found


class _Lines:
    def __init__(self, module: Module, lines: list[str]) -> None:
        self.module, self.lines, self.source = module, lines[::-1], ""
        self.attributes = dict[str, str]()

    def item(self) -> None:
        line = self.lines.pop()
        if line.startswith("  (*") and line.endswith("*)"):
            if found := SOURCE.search(line):
                self.source = found[1].partition("|")[0]
            elif found := ATTRIBUTE.fullmatch(line):
                self.attributes[found[1]] = found[2]
            return
        source, self.source = self.source, ""
        attributes, self.attributes = self.attributes, {}
        if found := DECLARED.match(line):
            self.declare(found, source, attributes)
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

    def declare(self, found: re.Match[str], source: str, attributes: dict[str, str]) -> None:
        kind, high, name, first, last, init = found.groups()
        wire = self.module.wires.setdefault(name, Wire(name))
        if kind in ("input", "output"):
            wire.way = kind
        elif kind == "reg":
            wire.kind = "reg"
        wire.width, wire.init, wire.source = int(high or 0) + 1, init or wire.init, source or wire.source
        wire.bits = attributes.get(BITS, "").split() or wire.bits
        kind = attributes.get("enum_base_type", "").upper()
        wire.values |= {
            int(a[11:], 2): f"{kind}_{name}" for a, name in attributes.items() if a.startswith("enum_value_")
        }
        if first:
            wire.words = max(int(first), int(last)) + 1

    def block(self) -> list[Statement]:
        found = list[Statement]()
        while True:
            line = self.lines[-1].strip()
            if line == "end" or line.startswith("end else"):
                return self.closed(found)
            if line == "begin":  # a block in a block, without a word before it
                self.lines.pop()
                found += self.block()
                continue
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
