"""Verilog of a component."""

from amaranth.back import verilog
from amaranth.lib.wiring import Component


def to_verilog(component: Component, name: str) -> str:
    """The component and all below it as one Verilog file whose top module is `name`; the same text every time."""
    return verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True)
