"""What stands above a block's Verilog: what it is, what its ports carry, the codes of its commands."""

import inspect
import re
import textwrap
from collections.abc import Iterator

from amaranth.hdl import Const, Value
from amaranth.lib import data
from amaranth.lib.wiring import Component, Flow

from pimloom.arch.command import Level, Row
from pimloom.arch.error import one_line
from pimloom.arch.table import Table

WIDTH = 116  # characters of a line
OF_PYTHON = re.compile(r"(?:^|(?<=\s))Raises [A-Z].*?(?=\n\n|\Z)", re.DOTALL)  # up to the end of its paragraph


def header(component: Component, title: str, clocked: bool = True) -> str:
    """Comment lines for the component: title, docstring, ports in their order with the bits of their fields, opcodes.
    clocked: whether it has a clock and a reset."""
    lines = [title, "", *_about(component), "", "Ports:"]
    lines += ["  in  clk: rising edge", "  in  rst: synchronous, active high"] if clocked else []
    lines += [f"  {line}" for line in _ports(component)]
    if table := getattr(component, "table", None):
        lines += ["", "Opcodes (cmd), what each acts on, and the rows that it needs and leaves:"]
        lines += [f"  {line}" for line in _opcodes(table)]
    return "".join(f"// {one_line(line)}".rstrip() + "\n" for line in lines) + "\n"


def _opcodes(table: Table) -> Iterator[str]:
    """A line for each command of a table: opcode, name, scope, rows before and after."""
    rows = {Row.OPEN: "open", Row.CLOSED: "closed"}
    for opcode, command in enumerate(table.commands):
        scope = Level(command.scope).name.lower().replace("_", " ")
        needs = f", needs {rows[command.needs]} rows" if command.needs in rows else ""
        leaves = f", leaves them {rows[command.leaves]}" if command.leaves in rows else ""
        yield f"{opcode} {command.name}: {scope}{needs}{leaves}"


def _about(component: Component) -> Iterator[str]:
    """What the component is, the parts of it that its text names, and the values of constants that it names."""
    text = _doc(component)
    yield from text.splitlines()
    parts = {type(part).__name__: part for part in vars(component).values() if isinstance(part, Component)}
    for name, part in parts.items():
        if f"`{name}`" in text:
            text += _doc(part)
            yield from ("", f"{name}:", *(f"  {line}".rstrip() for line in _doc(part).splitlines()))
    sizes: dict[str, object] = getattr(vars(component).get("shape"), "_asdict", dict)()
    spoken = {*re.findall(r"`(\w+)`", text), *inspect.signature(type(component)).parameters} & set(
        re.findall(r"\w+", text)
    )
    values = {name: value for name, value in vars(component).items() if name in spoken} | sizes
    values = {name: value.value if isinstance(value, Const) else value for name, value in values.items()}
    if known := [f"{name} {value}" for name, value in values.items() if isinstance(value, (int, str))]:
        yield from ("", f"Constants of this module: {', '.join(known)}.")


def _doc(component: Component) -> str:
    """The docstring without what Python raises, and what another dataflow of an array does."""
    text = OF_PYTHON.sub("", inspect.getdoc(type(component)) or "")
    if dataflow := getattr(vars(component).get("shape"), "dataflow", ""):
        text = re.sub(
            rf"^{'os' if dataflow == 'ws' else 'ws'}: .*\n(?:(?!ws: |os: |\n).*(?:\n|\Z))*", "", text, flags=re.M
        )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip()


def _ports(component: Component) -> Iterator[str]:
    """A line for each port that is not empty: direction, name, bits."""
    for path, member, value in component.signature.flatten(component):
        if not (width := len(Value.cast(value))):
            continue
        way = "in " if member.flow is Flow.In else "out"
        fields = ", ".join(_fields(member.shape)) if isinstance(member.shape, data.Layout) else ""
        bits = f" {_bits(0, width)}" if width > 1 else ""
        text = f"{way} {'__'.join(map(str, path))}{bits}{': ' if fields else ''}{fields}"
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="      ")


def _fields(layout: data.Layout) -> Iterator[str]:
    if isinstance(layout, data.ArrayLayout):
        each = layout.elem_shape
        lane = f"({', '.join(_fields(each))})" if isinstance(each, data.Layout) else each
        yield f"{layout.length} x {lane}, lowest first"
        return
    for name, field in layout:
        if field.width:
            inner = f" ({', '.join(_fields(field.shape))})" if isinstance(field.shape, data.Layout) else ""
            yield f"{name} {_bits(field.offset, field.width)}{inner}"


def _bits(offset: int, width: int) -> str:
    return f"[{offset + width - 1}:{offset}]" if width > 1 else f"[{offset}]"
