"""Verilog of a component, as an engineer would have written it."""

import gc
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

from amaranth.back import rtlil
from amaranth.lib.wiring import Component

from pimloom.arch.table import Table
from pimloom.rtl.ports import ports_of
from pimloom.rtl.yosys import run_yosys
from verilog_tidy import Unreadable, share, tidy

OPCODE = re.compile(r"(?:^|[._])(?:cmd|opcode)$")  # names of what holds one
PASSES = ["proc -nomux -norom", "memory_collect"]
LESS = ["opt_expr", "opt_merge", "wreduce", "opt_expr", "opt_clean"]  # equal values once, no bits that nobody reads


def to_verilog(component: Component, name: str, notes: Mapping[str, str] | None = None, prefix: str = "") -> str:
    """The component and all below it as one Verilog file whose top module is `name`; the same text every time.

    Equal modules are written once. Names of modules below the top begin with `prefix`, which is `NAME__` by default.
    Ports stand in the order of the component's signature, behind the clock and the reset. notes: comments above
    instances, by the name of the instance up to its last `_`; what stands in brackets, at the first of them only.
    Modules that the component instantiates by name (`modules`, a component for each) follow it. What cannot be read
    back is written as Yosys alone has it.
    """
    prefix, by_name = prefix or f"{name}__", getattr(component, "modules", {})
    text = _netlist(component, name, "write_verilog -norename", [PASSES[0], *LESS, PASSES[1]])
    try:
        text = tidy(
            text,
            name,
            prefix=prefix,
            ports=list(ports_of(component)),
            values=partial(_opcodes, getattr(component, "table", None)),
            modules=getattr(component, "instances", {}),
            outside=by_name,
            notes=notes,
        )
    except Unreadable:  # a construct that `tidy` does not know: Yosys' own text is better than none
        return to_raw_verilog(component, name)
    below = [to_verilog(module, prefix + own, prefix=prefix) for own, module in by_name.items()]
    return "\n".join([text, *below])


def to_raw_verilog(component: Component, name: str) -> str:
    """The same netlist as Yosys alone writes it: what `to_verilog` is held against."""
    by_name: Mapping[str, Component] = getattr(component, "modules", {})
    text = _netlist(component, name, "write_verilog -norename", PASSES)
    return "\n".join([text, *(to_raw_verilog(module, own) for own, module in by_name.items())])


def _opcodes(table: Table | None, name: str, width: int) -> dict[int, str] | None:
    """Names of the values of a wire that holds an opcode of the table."""
    opcodes = {opcode: f"CMD_{name}" for opcode, name in enumerate(table.names)} if table else {}
    return opcodes if OPCODE.search(name) and (1 << width) >= len(opcodes) else None


def _netlist(component: Component, name: str, write_it: str, passes: list[str]) -> str:
    with _uncollected(), patch.dict(os.environ, PYTHONSAFEPATH="1"):  # for a Yosys in a Python of its own
        netlist = share(rtlil.convert(component, name=name, emit_src=True))
        script = [f"read_rtlil <<rtlil\n{netlist}\nrtlil", *passes, "attrmap -modattr -remove src", write_it]
        return run_yosys(["-q", "-"], "\n".join(script))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's search for cycles, which is a quarter of a conversion and finds nothing before its end."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
