"""A module as text: ports with their directions, each wire declared where it gets its value."""

import re
import textwrap
from collections.abc import Iterator

from verilog_tidy.expression import Ref, leaves, show
from verilog_tidy.module import (
    WIDTH,
    Assign,
    Case,
    If,
    Instance,
    Item,
    Memory,
    Module,
    Process,
    Set,
    Statement,
    Wire,
    named,
    reads,
)
from verilog_tidy.names import drivers

INDEX = ("i", "n", "k", "word_index")  # of a loop over a memory's words: the first that is no wire
START = "at_start"  # read by processes without a clock, so that they run once where nothing changes


def write(m: Module) -> str:
    """Verilog of the module."""
    driven, widths = drivers(m), m.widths()
    here = {
        item.to.name: item
        for item in m.items
        if isinstance(item, Assign) and isinstance(item.to, Ref) and driven[item.to.name] == 1
        if not m.wires[item.to.name].way and not m.wires[item.to.name].init
    }
    lines = [f"module {m.name} (", *_commas(_port(m.wires[name]) for name in m.ports), ");"]
    for name, (width, value) in m.constants.items():
        lines.append(f"  localparam {_bits(Wire(name, width=width))}{name} = {width}'d{value};")
    starts = any(isinstance(item, Process) and not item.clock for item in m.items)
    lines += [f"  reg {START} = 0;  // lets processes without a clock run once"] if starts else []
    index = next(name for name in INDEX if name not in m.wires)
    if any(isinstance(item, Memory) and any(first < last for first, last, _ in item.runs) for item in m.items):
        lines.append(f"  integer {index};")
    lines += _declared(
        m.wires[name] for name in sorted(m.wires, key=_natural) if name not in here and not m.wires[name].way
    )
    for item in _ordered(m.items, here):
        lines += _item(item, here, widths, index)
    return "\n".join([*lines, "endmodule"]) + "\n"


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name in their own order."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]


def _commas(lines: Iterator[str]) -> list[str]:
    found = list(lines)
    return [line + "," for line in found[:-1]] + found[-1:]


def _bits(wire: Wire) -> str:
    return f"[{wire.width - 1}:0] " if wire.width > 1 else ""


def _port(wire: Wire) -> str:
    init = f" = {wire.init}" if wire.init and wire.kind == "reg" else ""
    return f"  {wire.way} {wire.kind} {_bits(wire)}{wire.name}{init}"


def _declared(wires: Iterator[Wire]) -> Iterator[str]:
    """Registers one by one, wires of a width together."""
    together: dict[str, list[str]] = {}
    for wire in wires:
        if wire.words:
            yield f"  reg {_bits(wire)}{wire.name} [0:{wire.words - 1}];"
        elif wire.kind == "reg" and wire.init:
            yield f"  reg {_bits(wire)}{wire.name} = {wire.init};"
        else:
            together.setdefault(f"{wire.kind} {_bits(wire)}".rstrip(), []).append(wire.name)
    for kind, names in together.items():
        yield from _wrapped(f"  {kind} {', '.join(names)};")


def _wrapped(text: str) -> list[str]:
    if len(text) <= WIDTH or "//" in text:
        return [text]
    inner = " " * (len(text) - len(text.lstrip()) + 4)
    return textwrap.wrap(text, WIDTH, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)


def _ordered(items: list[Item], here: dict[str, Assign]) -> Iterator[Item]:
    """Items in their order, but a wire that is declared where it is assigned before its first reader."""
    done = set[int]()
    stack: list[tuple[Item, bool]] = [(item, False) for item in reversed(items)]
    while stack:
        item, ready = stack.pop()
        if ready:
            yield item
        elif id(item) not in done:
            done.add(id(item))
            stack.append((item, True))
            below = [here[named(leaf)] for e in reads(item) for leaf in leaves(e) if named(leaf) in here]
            stack += [(other, False) for other in reversed(below) if id(other) not in done]


def _item(item: Item, here: dict[str, Assign], widths: dict[str, int], index: str) -> Iterator[str]:
    match item:
        case Assign(to, value):
            if isinstance(to, Ref) and here.get(to.name) is item:
                bits = f"[{widths[to.name] - 1}:0] " if widths[to.name] > 1 else ""
                yield from _wrapped(f"  wire {bits}{to.name} = {show(value)};")
            else:
                yield from _wrapped(f"  assign {show(to)} = {show(value)};")
        case Process(clock, body):
            yield from _process(clock, body)
        case Instance(module, name, ports, note):
            yield from (f"  // {line}" for line in textwrap.wrap(note, WIDTH - 5))
            wired = [f".{port}({show(e) if e is not None else ''})" for port, e in ports]
            yield from _wrapped(f"  {module} {name} ({', '.join(wired)});")
        case Memory(name, runs):
            yield "  initial begin"
            for first, last, word in runs:
                loop = f"for ({index} = {first}; {index} <= {last}; {index} = {index} + 1) " if last > first else ""
                yield f"    {loop}{name}[{index if last > first else first}] = {word};"
            yield "  end"


def _process(clock: str, body: list[Statement]) -> Iterator[str]:
    if clock and len(body) == 1 and isinstance(body[0], Set):
        yield from _wrapped(f"  always @({clock}) {_set(body[0])}")
        return
    yield f"  always @({clock or '*'}) begin"
    if not clock:
        yield f"    if ({START}) begin end"
    for statement in body:
        yield from _statement(statement, "    ")
    yield "  end"


def _set(statement: Set) -> str:
    return f"{show(statement.to)} {'=' if statement.now else '<='} {show(statement.value)};"


def _statement(statement: Statement, indent: str) -> Iterator[str]:
    match statement:
        case Set():
            yield from _wrapped(indent + _set(statement))
        case If(test, then, other):
            yield from _if(f"{indent}if ({show(test)})", then, other, indent)
        case Case(subject, arms, full):
            yield f"{indent}casez ({show(subject)})"
            for label, body in arms:
                yield from _arm(f"{indent}  {label}:", body, indent)
            if not full and arms and arms[-1][0] != "default":
                yield f"{indent}  default: ;"
            yield f"{indent}endcase"


def _arm(head: str, body: list[Statement], indent: str) -> Iterator[str]:
    if len(body) == 1 and isinstance(body[0], Set):
        yield from _wrapped(f"{head} {_set(body[0])}")
    elif not body:
        yield f"{head} ;"
    else:
        yield f"{head} begin"
        for inner in body:
            yield from _statement(inner, indent + "    ")
        yield f"{indent}  end"


def _if(head: str, then: list[Statement], other: list[Statement], indent: str) -> Iterator[str]:
    if len(then) == 1 and isinstance(then[0], Set) and not other:
        yield from _wrapped(f"{head} {_set(then[0])}")
        return
    yield f"{head} begin"
    for inner in then:
        yield from _statement(inner, indent + "  ")
    if len(other) == 1 and isinstance(other[0], If):
        first, *rest = _statement(other[0], indent)
        yield f"{indent}end else {first.strip()}"
        yield from rest
        return
    if other:
        yield f"{indent}end else begin"
        for inner in other:
            yield from _statement(inner, indent + "  ")
    yield f"{indent}end"
