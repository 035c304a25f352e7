"""A block as it is emitted: its component, the name of its top module, its Verilog, and in words what it is."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from amaranth.lib.wiring import Component, Flow

from pimloom.arch.error import UserError
from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.arch.version import __version__
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.emit.rules import rule_notes
from pimloom.rtl.flow.lookup import build, load_device, part_of
from pimloom.rtl.header import header
from pimloom.rtl.ports import CLOCK, ports_of
from pimloom.rtl.verilog import to_verilog
from verilog_tidy import plain

CLOCKED = "\n  input wire clk"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")


class Design(NamedTuple):
    """block: its name in `BLOCKS`. top: name of the top module. part_name: name of the part, or its file. sizes: the
    options of the block, each with its value. verilog: with the header above it. clock_mhz: that a user named."""

    block: str
    top: str
    component: Component
    part: Part | Optics
    part_name: str
    sizes: Mapping[str, int | str]
    verilog: str
    clock_mhz: float | None = None

    @property
    def clocked(self) -> bool:
        """Whether the top has a clock and a reset."""
        return CLOCKED in self.verilog

    @property
    def summary(self) -> str:
        """The block, its part and its options in a few words."""
        return described(self.block, self.part_name, self.sizes)

    def ports(self, flow: Flow | None = None) -> dict[str, int]:
        """Bits of the top's ports of a direction, or of all, in their order, clock and reset first."""
        found = dict.fromkeys(CLOCK, 1) if self.clocked and flow is not Flow.Out else {}
        return found | {name: bits for name, (way, bits) in ports_of(self.component).items() if flow in (None, way)}

    def latency(self) -> str:
        """Clocks from input to output in words, or nothing where the component does not say."""
        clocks = getattr(self.component, "latency", None)
        if callable(clocks):
            return f"latency {clocks(1)} clocks for 1 element, {clocks(2)} for 2"
        if clocks == 0:
            return "combinational"
        return "" if clocks is None else f"latency {clocks} clock{'' if clocks == 1 else 's'}"


def design(
    block: str,
    part: str,
    sizes: Mapping[str, int | str],
    name: str | None = None,
    prefix: str | None = None,
    clock_mhz: float | None = None,
) -> Design:
    """The block of a part as it is emitted. sizes: those that are not by default. name, prefix: see `top_name`.

    Raises UserError for an unknown block or part, a size or a name that cannot be.
    """
    part = part_of(block, part)
    device = load_device(part)
    component = build(block, part, device, sizes)
    top = top_name(block, name, prefix)
    made = Design(block, top, component, device, part, {**BLOCKS[block].sizes, **sizes}, "", clock_mhz)
    verilog = to_verilog(component, top, _timer_notes(component, device))
    title = f"{f'{top}: ' if top != block else ''}{made.summary}, by pimloom {__version__}"
    return made._replace(verilog=header(component, title, CLOCKED in verilog) + verilog)


def described(block: str, part_name: str, sizes: Mapping[str, int | str]) -> str:
    """`sequencer of gddr6_aim, refresh all_bank`: no part where the block is the same on every memory."""
    kind = BLOCKS[block]
    of = f" of {Path(part_name).stem}" if kind.of_memory or kind.optical else ""
    return block + of + "".join(f", {name.replace('_', ' ')} {value}" for name, value in sizes.items())


def _timer_notes(component: Component, device: Part | Optics) -> dict[str, str]:
    """Comments above the timers of a component that has a part's table."""
    return rule_notes(device, component.table) if isinstance(device, Part) and hasattr(component, "table") else {}


def top_name(block: str, name: str | None = None, prefix: str | None = None) -> str:
    """Name of the top module of a block: `prefix`, then `name`, or the block's own.

    Names of the modules below are this one and two underscores, then more; so tops of different names never clash.
    Raises UserError for a name that Verilog does not take, or with two underscores in a row or one at its end.
    """
    top = (prefix or "") + (name or block)
    option, given = ("--name", name) if name else ("--prefix", prefix)
    if not NAME.fullmatch(top):
        what = "letters, digits and single underscores between them, the first a letter"
        raise UserError(f"{option} {given}: module {top!r} is no name for a top; take {what}")
    if plain(top) != top:
        raise UserError(f"{option} {given}: {top} is a word of SystemVerilog; take another name")
    return top
