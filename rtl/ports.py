"""Ports of components: their names and bits in Verilog, instances of modules written once, rows as bits of a port."""

from collections.abc import Mapping

import numpy as np
from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib.data import StructLayout
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


def pack(layout: StructLayout, rows: np.ndarray) -> np.ndarray:
    """The bits of each row on a port of the layout, int64[n]; so layouts of 63 bits at most.

    rows: a structured array with a field for each of the layout's, by its name. The fields of a nested layout are
    fields of the same rows. Bits above a field's width are left out. Raises ValueError for a field that rows lack.
    """
    packed = np.zeros(len(rows), np.int64)
    for name, field in layout:
        inner = field.shape
        value = pack(inner, rows) if isinstance(inner, StructLayout) else rows[name].astype(np.int64)
        packed |= (value & ((1 << field.width) - 1)) << field.offset
    return packed
