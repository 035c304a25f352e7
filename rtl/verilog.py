"""Verilog of a component, as an engineer would have written it."""

import gc
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from amaranth.back import rtlil
from amaranth.lib.wiring import Component

from pimloom.rtl.ports import CLOCK, ports_of
from pimloom.rtl.yosys import run_yosys
from verilog_tidy.constants import name_constants, name_opcodes
from verilog_tidy.fold import fold
from verilog_tidy.module import Instance, Module
from verilog_tidy.names import name_all, plain
from verilog_tidy.read import Unreadable, read
from verilog_tidy.registers import alias, merge, outlets, settle, start
from verilog_tidy.share import share
from verilog_tidy.write import write

MODULE = re.compile(r"^module .*?^endmodule\n", re.DOTALL | re.MULTILINE)
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
        modules = [read(found[0]) for found in MODULE.finditer(text)]
    except Unreadable:  # a construct that `tidy` does not know: better Yosys' own text than none
        return to_raw_verilog(component, name)
    for m in modules:
        name_opcodes(m, getattr(component, "table", None))
        tidy(m)
    names = _module_names(modules, name, prefix, getattr(component, "instances", {}))
    names |= {own: prefix + own for own in by_name}
    inner = {m.name: name_all(m) for m in modules}
    told = set[str]()
    for m in modules:
        for item in m.items:
            if isinstance(item, Instance) and item.module in names:
                item.ports = [(inner.get(item.module, {}).get(port, port), e) for port, e in item.ports]
                item.module = names[item.module]
                kind = item.name.rpartition("_")[0]
                note = (notes or {}).get(kind, "")
                item.note = note.partition(" (")[0] if kind in told else note
                told.add(kind)
        m.name = names[m.name]
    for m in modules:
        name_constants(m)
        _order_ports(m, ports_of(component) if m.name == name else {})
    below = [to_verilog(module, prefix + own, prefix=prefix) for own, module in by_name.items()]
    return "\n".join([*map(write, modules), *below])


def _order_ports(m: Module, first: Iterable[str]) -> None:
    """Clock and reset, then the ports of `first` in their order; of other modules inputs before outputs."""
    order = {name: n for n, name in enumerate((*CLOCK, *first))}
    m.ports.sort(key=lambda port: (order.get(port, len(order)), m.wires[port].way))


def to_raw_verilog(component: Component, name: str) -> str:
    """The same netlist as Yosys alone writes it: what `to_verilog` is held against."""
    by_name: Mapping[str, Component] = getattr(component, "modules", {})
    text = _netlist(component, name, "write_verilog -norename", PASSES)
    return "\n".join([text, *(to_raw_verilog(module, own) for own, module in by_name.items())])


def tidy(m: Module) -> None:
    """Registers and expressions of a module as one reads them; it stays equal."""
    start(m)
    merge(m)
    alias(m)
    fold(m)
    outlets(m)
    settle(m)


def _netlist(component: Component, name: str, write_it: str, passes: list[str]) -> str:
    with _uncollected(), patch.dict(os.environ, PYTHONSAFEPATH="1"):  # for a Yosys in a Python of its own
        netlist = share(rtlil.convert(component, name=name, emit_src=True))
        script = [f"read_rtlil <<rtlil\n{netlist}\nrtlil", *passes, "attrmap -modattr -remove src", write_it]
        return run_yosys(["-q", "-"], "\n".join(script))


def _module_names(modules: list[Module], top: str, prefix: str, instances: Mapping[str, str]) -> dict[str, str]:
    """Names of the modules, those below the top behind `prefix`. instances: modules of instances that have one name."""
    uses = {item.module: item.name for m in modules for item in m.items if isinstance(item, Instance)}
    names = dict[str, str]()
    for m in modules:
        own = instances.get(uses.get(m.name, ""), plain(m.name).removeprefix(f"{top}__"))
        new = own if own == top else prefix + own
        while new in names.values():
            new += "_"
        names[m.name] = new
    return names


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
