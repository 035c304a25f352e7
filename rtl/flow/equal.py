# amaranth: UnusedElaboratable=no
"""Whether a block's Verilog is the netlist that Amaranth makes of it: register for register, output for output."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from amaranth.back import rtlil
from amaranth.lib.wiring import Component

from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.rtl.flow.lookup import build
from pimloom.rtl.flow.stimulus import shrink
from pimloom.rtl.flow.yowasp import YOSYS, ToolError, Tools
from pimloom.rtl.verilog import to_verilog
from verilog_tidy import plain, share

ONE = """\
{read}
hierarchy -top {top}
proc -norom
flatten
memory
setundef -undriven -zero
opt_clean
{hide}
rename {top} {side}
design -stash {side}
"""
BOTH = """\
design -copy-from gold -as gold gold
design -copy-from gate -as gate gate
equiv_make gold gate equiv
hierarchy -top equiv
opt_merge
equiv_simple -short
equiv_simple
equiv_induct
equiv_status
"""
UNPROVEN = re.compile(r"Unproven \$equiv \S+ \\(\S+?)_gold(?: \[\d+\])? ")
ROUNDS = 4  # of wires that differ although nothing that matters does


def is_equal(at_hand: Tools, component: Component, verilog: str, top: str, folder: Path) -> bool:
    """Whether Yosys proves that each register and output of the text is, for any inputs and state, that of the
    component's netlist. folder: where the tool works.

    Wires of the same name are proved one by one. One that nothing reads in some states may differ in them: it is no
    cut then, and all is asked again without it. Raises ToolError where the tool fails.
    """
    gold = re.sub(r"(?<=\\)\w+\b(?![.$])", lambda name: plain(name[0]), netlist(component, top))
    (folder / "gold.il").write_text(gold)
    (folder / "gate.v").write_text(verilog)
    hidden = set[str]()
    for _ in range(ROUNDS):
        hide = "\n".join(f"rename -hide {top}/w:{name}" for name in sorted(hidden))
        one = ONE.format(read="read_rtlil gold.il", top=top, side="gold", hide="")
        other = ONE.format(read="read_verilog gate.v", top=top, side="gate", hide=hide)
        (folder / "equal.ys").write_text(one + other + BOTH)
        at_hand.run(YOSYS, "equal.ys", folder=folder)
        log = (folder / f"{YOSYS}.log").read_text()
        unproven = set(UNPROVEN.findall(log))
        if not unproven:
            if "Equivalence successfully proven!" not in log:
                raise ToolError(f"{YOSYS} says nothing of {top}")
            return True
        if any(_matters(wire, verilog, top) for wire in unproven):
            return False
        hidden |= unproven
    return False


def of_block(
    at_hand: Tools,
    block: str,
    part_name: str,
    device: Part | Optics,
    sizes: Mapping[str, int | str],
    folder: Path,
    changed: Callable[[str], str] = str,
) -> bool:
    """The same of a block's text as `pimloom rtl emit` writes it; changed: what is made of the text first."""
    text = changed(to_verilog(build(block, part_name, device, sizes), block))
    return is_equal(at_hand, build(block, part_name, device, sizes), text, block, folder)


def without_reset(verilog: str) -> str:
    """The text without the first of its resets. Raises ValueError where there is none."""
    text, times = re.subn(r"^ *if \(rst\) .*\n", "", verilog, count=1, flags=re.MULTILINE)
    if not times:
        raise ValueError("no register is reset")
    return text


def few_banks(device: Part | Optics) -> Part | Optics:
    """A part with two banks, if it has any: with more, the same takes a minute more."""
    return msgspec.structs.replace(device, organization=shrink(device, 1, 2)) if isinstance(device, Part) else device


def netlist(component: Component, name: str) -> str:
    """The component in Yosys' own language, with the modules that it instantiates by name."""
    by_name: Mapping[str, Component] = getattr(component, "modules", {})
    own = share(rtlil.convert(component, name=name, emit_src=False))
    return "".join([own, *(netlist(module, inner) for inner, module in by_name.items())])


def _matters(wire: str, verilog: str, top: str) -> bool:
    """Whether a wire, by its path below the top, is an output of the top or a register."""
    ports = re.search(rf"^module {re.escape(top)} \((.*?)^\);", verilog, re.MULTILINE | re.DOTALL)
    outputs = re.findall(r"^  output \w+ (?:\[\d+:0\] )?(\w+)", ports[1] if ports else "", re.MULTILINE)
    name = wire.rpartition(".")[2]
    return wire in outputs or bool(re.search(rf"\b{re.escape(name)}(?:\[[^\]]+\])? <= ", verilog))
