"""All modules of a text that Yosys wrote, each rewritten, under the names that the caller gives."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from verilog_tidy.constants import name_constants
from verilog_tidy.fold import fold
from verilog_tidy.module import Instance, Module
from verilog_tidy.names import name_all, plain
from verilog_tidy.read import read
from verilog_tidy.registers import alias, merge, outlets, settle, start
from verilog_tidy.write import write

MODULE = re.compile(r"^module .*?^endmodule\n", re.DOTALL | re.MULTILINE)
CLOCK = ("clk", "rst")
Values = Callable[[str, int], dict[int, str] | None]  # name and bits of a wire -> names of its values


def tidy(
    text: str,
    top: str,
    *,
    prefix: str = "",
    ports: Sequence[str] = (),
    values: Values | None = None,
    modules: Mapping[str, str] | None = None,
    outside: Iterable[str] = (),
    notes: Mapping[str, str] | None = None,
) -> str:
    """The Verilog of `write_verilog -norename`, rewritten as an engineer would write it; the logic stays equal.

    The same text gives the same answer every time. Modules stand in the order of the text. Every module has the ports
    `clk` and `rst` first, if it has them.

    text: one or more modules, after the passes `proc -nomux -norom` and `memory_collect`.
    top: name of the top module in the text; it keeps this name.
    prefix: start of the names of all other modules.
    ports: ports of the top module after clock and reset, in their order. In other modules inputs stand before outputs.
    values: for the name and the bits of a wire the names of its values, each by its value; None leaves those of the
    text's attributes, {} takes them away.
    modules: names of modules, without the prefix, by the name of an instance that uses them.
    outside: names of modules that the text instantiates and does not contain; they get the prefix, too.
    notes: comments above instances, by the name of the instance up to its last `_`. What stands in brackets is written
    above the first of them only.

    Raises Unreadable for a construct that Yosys does not write with these passes, and ValueError without module `top`.
    """
    found = [read(match[0]) for match in MODULE.finditer(text)]
    if top not in (plain(m.name) for m in found):
        raise ValueError(f"the text has no module {top}")
    for m in found:
        _name_values(m, values)
        _rewrite(m)
    names = _module_names(found, top, prefix, modules or {})
    _name_instances(found, names | {own: prefix + own for own in outside}, notes or {})
    for m in found:
        m.name = names[m.name]
        name_constants(m)
        order = {name: n for n, name in enumerate((*CLOCK, *(ports if m.name == top else ())))}
        m.ports.sort(key=lambda port: (order.get(port, len(order)), m.wires[port].way))
    return "\n".join(map(write, found))


def _name_values(m: Module, values: Values | None) -> None:
    """Names of the values of each wire, where the caller knows them."""
    for name, wire in m.wires.items():
        named = values(name.removeprefix("\\"), wire.width) if values else None
        wire.values = wire.values if named is None else named


def _rewrite(m: Module) -> None:
    """Registers and expressions of a module as an engineer writes them; it stays equal."""
    start(m)
    merge(m)
    alias(m)
    fold(m)
    outlets(m)
    settle(m)


def _module_names(modules: list[Module], top: str, prefix: str, instances: Mapping[str, str]) -> dict[str, str]:
    """Names of the modules, those below the top after `prefix`. instances: modules of instances that have one name."""
    uses = {item.module: item.name for m in modules for item in m.items if isinstance(item, Instance)}
    names = dict[str, str]()
    for m in modules:
        own = instances.get(uses.get(m.name, ""), plain(m.name).removeprefix(f"{top}__"))
        new = own if own == top else prefix + own
        while new in names.values():
            new += "_"
        names[m.name] = new
    return names


def _name_instances(modules: list[Module], names: Mapping[str, str], notes: Mapping[str, str]) -> None:
    """Names of wires in all modules; instances with the new names of their modules and ports, and their notes."""
    inner = {m.name: name_all(m) for m in modules}
    noted = set[str]()
    for item in (item for m in modules for item in m.items):
        if isinstance(item, Instance) and item.module in names:
            item.ports = [(inner.get(item.module, {}).get(port, port), e) for port, e in item.ports]
            item.module = names[item.module]
            kind = item.name.rpartition("_")[0]
            note = notes.get(kind, "")
            item.note = note.partition(" (")[0] if kind in noted else note
            noted.add(kind)
