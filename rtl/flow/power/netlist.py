"""A mapped netlist as Verilog that any bench drives: a wire for each net, the cells' functions from their library."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from pimloom.arch.error import UserError
from pimloom.rtl.flow.power.liberty import Cell, Library

TERM = re.compile(r"\s*([!()+*&|^']|\w+)")
Bit = int | str  # a net, or a constant


class Netlist(NamedTuple):
    """verilog: the module; nets: their numbers; drivers: of a net the cell and pin that drive it; sinks: those that it
    goes to, each a cell's kind and pin; kinds: how many cells of each."""

    verilog: str
    nets: list[int]
    drivers: dict[int, tuple[str, str]]
    sinks: dict[int, list[tuple[str, str]]]
    kinds: dict[str, int]


def netlist(module: Mapping[str, Any], top: str, library: Library) -> Netlist:
    """The netlist of a module of Yosys' JSON, named `top`. Raises UserError for cells that hold other state than a
    flip-flop's, and for memories."""
    lines, drivers = list[str](), dict[int, tuple[str, str]]()
    sinks, kinds = defaultdict[int, list[tuple[str, str]]](list), defaultdict[str, int](int)
    nets = set[int]()
    initial = _initial(module)
    for name, cell in module["cells"].items():
        kind = cell["type"]
        if kind.startswith("memory_"):
            raise UserError(f"{top} holds memories, which are not in the netlist; name a block without: pim_unit")
        if kind not in library.cells or not library.cells[kind].simple:
            raise UserError(f"{top}: cell {name} is a {kind}, whose state is not simulated here; name another block")
        model, bits = library.cells[kind], {pin: bits[0] for pin, bits in cell["connections"].items()}
        kinds[kind] += 1
        for pin, bit in bits.items():
            if isinstance(bit, int):
                nets.add(bit)
                if model.pins[pin].output:
                    drivers[bit] = kind, pin
                else:
                    sinks[bit].append((kind, pin))
        lines += _written(model, bits, initial)
    registers = {bit for line in lines for bit in map(int, re.findall(r"<= .*?// n(\d+)", line))}
    head, ports = _ports(module, top, nets)
    declared = [
        f"  reg n{net} = 1'b{initial.get(net, '0')};" if net in registers else f"  wire n{net};" for net in sorted(nets)
    ]
    text = "\n".join([*head, *declared, *ports, *lines, "endmodule", ""])
    return Netlist(text, sorted(nets), drivers, dict(sinks), dict(kinds))


def _initial(module: Mapping[str, Any]) -> dict[int, str]:
    """What registers hold at first, where it is said."""
    found = dict[int, str]()
    for net in module["netnames"].values():
        init = net.get("attributes", {}).get("init", "")
        for bit, value in zip(net["bits"], reversed(init), strict=False):
            if isinstance(bit, int) and value in "01":
                found[bit] = value
    return found


def _written(cell: Cell, bits: Mapping[str, Bit], initial: Mapping[int, str]) -> list[str]:
    """A cell's lines. A flip-flop's ends with its net, for whoever declares it."""
    names = {pin: _net(bit) for pin, bit in bits.items()}
    lines = []
    for pin, bit in bits.items():
        of = cell.pins[pin]
        if not of.output or not isinstance(bit, int):
            continue
        if cell.state is None:
            lines.append(f"  assign n{bit} = {to_verilog(of.function or '0', names)};")
            continue
        next_state, clock, (plain, *_) = cell.state
        value, clock = to_verilog(next_state, names), clock.strip("() ")
        edge = "negedge" if clock.startswith("!") else "posedge"
        inverted = "" if (of.function or "").strip("() ") == plain else "~"
        lines.append(f"  always @({edge} {names[clock.strip('!() ')]}) n{bit} <= {inverted}({value}); // n{bit}")
    return lines


def _net(bit: Bit) -> str:
    return f"n{bit}" if isinstance(bit, int) else f"1'b{bit if bit in ('0', '1') else '0'}"


def _ports(module: Mapping[str, Any], top: str, nets: set[int]) -> tuple[list[str], list[str]]:
    """The head of the module, each port on a line of its own, and what ties ports to nets."""
    head, tied = [f"module {top}({', '.join(module['ports'])});"], []
    for name, port in module["ports"].items():
        bits, given = port["bits"], port["direction"] == "input"
        width = f"[{len(bits) - 1}:0] " if len(bits) > 1 else ""
        head += [f"  {port['direction']} {width}{name};", f"  wire {width}{name};"]
        for i, bit in enumerate(bits):
            place = f"{name}[{i}]" if width else name
            if isinstance(bit, int) and given:
                nets.add(bit)
                tied.append(f"  assign n{bit} = {place};")
            elif not given:
                if isinstance(bit, int):
                    nets.add(bit)
                tied.append(f"  assign {place} = {_net(bit)};")
    return head, tied


def to_verilog(function: str, names: Mapping[str, str]) -> str:
    """A Liberty function in Verilog: `A B` and `A*B` are and, `A+B` is or, `!A` and `A'` not, `A^B` exclusive or.

    >>> to_verilog("(!(A B)) + C'", {"A": "n1", "B": "n2", "C": "n3"})
    '(~(n1 & n2)) | ~n3'
    """
    terms = [m[1] for m in TERM.finditer(function)]
    found: list[str] = []
    start: list[int] = []  # where the operand begins that a quote would invert
    opened: list[int] = []
    for term in terms:
        operand = term not in ("+", "|", "*", "&", "^", ")", "'")
        if operand and found and (found[-1][-1].isalnum() or found[-1] == ")"):
            found.append(" & ")
        if term == "'":
            found.insert(start[-1], "~")
            continue
        if term == "(":
            opened.append(len(found))
        elif term == ")":
            start.append(opened.pop())
        elif operand and term != "!":
            start.append(len(found))
        mapped = {"+": " | ", "|": " | ", "*": " & ", "&": " & ", "^": " ^ ", "!": "~"}
        found.append(mapped.get(term, names.get(term, term if term in "()" else f"1'b{term}")))
    return "".join(found)
