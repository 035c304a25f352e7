"""A block with a register at every port, so that all its paths run from register to register."""

import re
from itertools import pairwise
from typing import NamedTuple

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

PORT = re.compile(r"^ *(input|output) (\[\d+:0\] )?(\\\S+ |\w+);$", re.MULTILINE)
HEAD = re.compile(r"^ *module (\\\S+|\w+)", re.MULTILINE)
OTHERS = {"clk", "rst"}  # ports without a register


class Port(NamedTuple):
    """A port of a module in Verilog as Yosys writes it. range: `[7:0] `, or nothing for one bit."""

    direction: str
    range: str
    name: str


class Registered(wiring.Component):
    """`block` with the same ports, each one clock later: inputs before it, outputs behind it. modules: those that it
    instantiates by name."""

    def __init__(self, block: wiring.Component) -> None:
        super().__init__(block.signature)
        self._block = block
        self.modules = getattr(block, "modules", {})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.block = self._block
        outer, inner = (self.signature.flatten(who) for who in (self, self._block))
        for (_, member, mine), (_, _, its) in zip(outer, inner, strict=True):
            mine, its = Value.cast(mine), Value.cast(its)
            m.d.sync += its.eq(mine) if member.flow == In else mine.eq(its)
        return m


def registered_verilog(block: str, beside: str) -> str:
    """Verilog of `registered`: the module `block` as `registered.block`, with registers at its ports, and the modules
    `beside` it, which it instantiates, with nothing in them but a register at every port.

    What a module needs of the others is then no path of it. Both texts are as Yosys writes them.
    """
    module, *below = _modules(block)
    walled = ["(* keep_hierarchy *)\n" + HEAD.sub(r"module \\registered.block ", module, count=1), *below]
    return "\n".join([*walled, *map(_hollow, _modules(beside)), _around(_ports(module))])


def _modules(verilog: str) -> list[str]:
    starts = [found.start() for found in HEAD.finditer(verilog)]
    return [verilog[at:to] for at, to in pairwise([*starts, len(verilog)])]


def _ports(module: str) -> list[Port]:
    return [Port(direction, range or "", name) for direction, range, name in PORT.findall(module)]


def _around(ports: list[Port]) -> str:
    """`registered`, whose ports are those of `registered.block`."""
    lines = []
    for n, port in enumerate(ports):
        if port.direction == "input" and port.name not in OTHERS:
            lines += [f"  reg {port.range}p{n};", f"  always @(posedge clk) p{n} <= {port.name};"]
        elif port.direction == "output":
            lines += [f"  reg {port.range}{port.name};", f"  wire {port.range}p{n};"]
            lines += [f"  always @(posedge clk) {port.name} <= p{n};"]
    inner = (f".{port.name}({port.name if port.name in OTHERS else f'p{n}'})" for n, port in enumerate(ports))
    return _module("registered", ports, [*lines, f"  \\registered.block  block ({', '.join(inner)});"])


def _hollow(module: str) -> str:
    """A module of the same name and ports with registers only; nothing can be known of what they hold."""
    name, ports = HEAD.findall(module)[0], _ports(module)
    took = ["unknown", *(f"i{n}" for n, port in enumerate(ports) if port.direction == "input" and port.name != "clk")]
    gave = [f"o{n}" for n, port in enumerate(ports) if port.direction == "output"]
    lines = ["  (* keep *) reg unknown;", "  always @(posedge clk) unknown <= ~unknown;"]
    for n, port in enumerate(ports):
        if port.direction == "output":
            lines += [f"  (* keep *) reg {port.range}o{n};", f"  assign {port.name} = o{n};"]
        elif port.name != "clk":
            lines += [f"  (* keep *) reg {port.range}i{n};", f"  always @(posedge clk) i{n} <= {port.name};"]
    if gave:  # a chain of registers from what is taken
        lines += [f"  always @(posedge clk) {{{', '.join(gave)}}} <= {{{', '.join([*gave, *took])}}};"]
    return "(* keep_hierarchy *)\n" + _module(name, ports, lines)


def _module(name: str, ports: list[Port], lines: list[str]) -> str:
    clocked = ports if any(port.name == "clk" for port in ports) else [*ports, Port("input", "", "clk")]
    heads = [f"  {port.direction} {port.range}{port.name};" for port in clocked]
    names = ", ".join(port.name for port in clocked)
    return "\n".join([f"module {name} ({names});", *heads, *lines, "endmodule", ""])
