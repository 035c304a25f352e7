"""Ports of components: their names and bits in Verilog, and instances of modules that are written once."""

from collections.abc import Mapping

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib.wiring import Component, Flow

CLOCK = ("clk", "rst")


def ports_of(component: Component) -> dict[str, tuple[Flow, int]]:
    """Direction and bits of each port that is not empty, by its name in Verilog, in the order of the signature."""
    found = dict[str, tuple[Flow, int]]()
    for path, member, value in component.signature.flatten(component):
        if width := len(Value.cast(value)):
            found["__".join(map(str, path))] = member.flow, width
    return found


def place(m: Module, name: str, module: str, i: Mapping[str, Value], o: Mapping[str, Value]) -> None:
    """An instance of a module that has clock and reset and is written once: one of `modules` of the top component.

    i, o: values at its input and output ports. Of many equal parts this is quicker than submodules, of which each is
    converted by itself (see `to_verilog`).
    """
    ports = {f"i_{port}": value for port, value in i.items()} | {f"o_{port}": value for port, value in o.items()}
    m.submodules[name] = Instance(module, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
