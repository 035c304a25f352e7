"""Names that Verilog takes without a backslash: the source's own, and for what has none the line's that made it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from verilog_tidy.expression import Index, Ref
from verilog_tidy.module import Assign, Instance, Memory, Module, Process, named, readers, sets, targets
from verilog_tidy.registers import anonymous, rename
from verilog_tidy.source import name_at

# Reserved in SystemVerilog, all of Verilog among them: IEEE 1800-2017, annex B.
RESERVED = """
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind bins
binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config const
constraint context continue cover covergroup coverpoint cross deassign default defparam design disable dist do edge
else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface endmodule
endpackage endprimitive endprogram endproperty endspecify endsequence endtable endtask enum event eventually expect
export extends extern final first_match for force foreach forever fork forkjoin function generate genvar global highz0
highz1 if iff ifnone ignore_bins illegal_bins implements implies import incdir include initial inout input inside
instance int integer interconnect interface intersect join join_any join_none large let liblist library local
localparam logic longint macromodule matches medium modport module nand negedge nettype new nexttime nmos nor
noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive priority program
property protected pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase
randsequence rcmos real realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1
s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled signed small
soft solve specify specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on
sync_reject_on table tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand
trior trireg type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void
wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
"""
WORDS = frozenset(RESERVED.split())


def plain(name: str) -> str:
    """A name as Verilog accepts it: letters, digits and underscores, the first no digit, no reserved word.

    >>> plain("\\\\bus.valid"), plain("wire"), plain("2nd")
    ('bus__valid', 'wire_', '_2nd')
    """
    word = re.sub(r"\W", "_", name.removeprefix("\\").replace(".", "__").replace("$", "_"))
    word = f"_{word}" if word[:1].isdigit() else word
    return f"{word}_" if word in WORDS else word


def name_all(m: Module) -> dict[str, str]:
    """Give every wire and instance of a module a name that Verilog accepts; each new name of a wire by its old one."""
    whole = {item.to.name: item for item in m.items if isinstance(item, Assign) and isinstance(item.to, Ref)}
    driven = drivers(m)
    outs = {
        e.name: f"{item.name}_{port}"
        for item in m.items
        if isinstance(item, Instance)
        for port, e in item.ports
        if isinstance(e, Ref) and not driven[e.name] and not m.wires[e.name].way
    }
    at_ports = _inputs(m, driven) | outs | dict(_words(m))
    base = {name: _base(m, name, whole, at_ports) for name in m.wires}
    many = Counter(base.values())
    taken, names = {b for n, b in base.items() if not anonymous(n)}, dict[str, str]()
    names |= {name: b for name, b in base.items() if not anonymous(name)}
    for name in m.wires:
        if anonymous(name):
            names[name] = _free(base[name], taken, many[base[name]] > 1)
            taken.add(names[name])
    _fix_clashes(names, m)
    rename(m, names)
    m.wires = {names[name]: wire for name, wire in m.wires.items()}
    for name, wire in m.wires.items():
        wire.name = name
    m.ports = [names[port] for port in m.ports]
    for item in m.items:
        if isinstance(item, Instance):
            item.name = plain(item.name)
        elif isinstance(item, Memory):
            item.name = names[item.name]
    return names


def _inputs(m: Module, driven: Counter[str]) -> dict[str, str]:
    """Names for wires that only ports of instances read: the first one's."""
    read = readers(m.items)
    ports = [
        (e.name, f"{x.name}_{port}")
        for x in m.items
        if isinstance(x, Instance)
        for port, e in x.ports
        if isinstance(e, Ref)
    ]
    many = Counter(name for name, _ in ports)
    return {name: port for name, port in reversed(ports) if driven[name] and read[name] == many[name]}


def _words(m: Module) -> Iterator[tuple[str, str]]:
    """Names for registers without one that a memory's word is read into: the memory's."""
    for item in m.items:
        if isinstance(item, Process) and item.clock:
            for each in sets(item):
                to, value = each.to, each.value
                if isinstance(to, Ref) and isinstance(value, Index) and m.wires[value.name].words:
                    yield to.name, f"{value.name}_word"


def _fix_clashes(names: dict[str, str], m: Module) -> None:
    """Two names of the source that are one when plain: the second gets a number."""
    seen = set[str]()
    for name, new in names.items():
        if new in seen:
            names[name] = _free(new, seen | set(names.values()), True)
        seen.add(names[name])


def _base(m: Module, name: str, whole: dict[str, Assign], outs: dict[str, str]) -> str:
    if not anonymous(name):
        return plain(name)
    if name in outs:
        return plain(outs[name])
    word = name.removeprefix("\\").partition("$")[0]
    if "$" in name and word and word != "port":
        return plain(word)
    if "." in name:
        head, _, tail = name.removeprefix("\\").partition(".")
        whose = _base(m, head, whole, outs) if head in m.wires or f"\\{head}" in m.wires else "record"
        return plain(f"{whose}__{tail}")
    item, wire = whole.get(name), m.wires[name]
    if word == "port":
        return plain(_port(m, name))
    place = item.source if item and item.source else wire.source
    return plain(name_at(place) or "value")


def _port(m: Module, name: str) -> str:
    """A port of a value without a name: what the module has of it."""
    return "from_outside" if m.wires[name].way == "input" else "to_outside"


def _free(word: str, taken: Iterable[str], many: bool) -> str:
    if not many and word not in taken:
        return word
    n = 0
    while f"{word}_{n}" in taken:
        n += 1
    return f"{word}_{n}"


def drivers(m: Module) -> Counter[str]:
    """How often each wire is assigned to."""
    return Counter(named(to) for item in m.items for to in targets(item))
