"""What stands on a block's ports, clock by clock, in a run that its model agrees with."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from amaranth.lib.wiring import Flow

from pimloom.arch.error import GateError
from pimloom.arch.files import at_once
from pimloom.rtl.flow.emit.design import Design
from pimloom.rtl.flow.emit.runs import RUNS


class Recording(NamedTuple):
    """inputs, outputs: port -> bits; clocked: whether there is a clock; rows: of each clock, before its edge, or of
    each moment of a block without one, the values of inputs and then of outputs."""

    inputs: dict[str, int]
    outputs: dict[str, int]
    clocked: bool
    rows: list[list[int]]


def record(design: Design) -> Recording:
    """A run of the block on Verilator. Raises GateError where block and model differ."""
    block = design.block
    with at_once(), tempfile.TemporaryDirectory(prefix="pimloom-") as folder:
        waves = Path(folder, "waves.vcd")
        wrong = RUNS[block](design.component, design.part, _renamed(design.verilog, design.top, block), waves)
        if wrong:
            raise GateError(f"{block}: RTL and model differ: {wrong}")
        return _read(design, waves)


def _renamed(verilog: str, top: str, name: str) -> str:
    """The text with another name of the top module, and of those below it, whose names begin with it."""
    return re.sub(rf"^(module |  ){top}(?=__| )", rf"\1{name}", verilog, flags=re.MULTILINE)


def _read(design: Design, waves: Path) -> Recording:
    inputs, outputs = design.ports(Flow.In), design.ports(Flow.Out)
    inputs.pop("clk", None)
    changes = _changes(waves, design.block)
    names = [*inputs, *outputs]
    first = next(changes)[1]
    rows = _rows(names, first, changes, design.clocked)
    return Recording(inputs, outputs, design.clocked, list(rows))


def _rows(
    names: list[str], values: dict[str, int], changes: Iterator[tuple[int, dict[str, int]]], clocked: bool
) -> Iterator[list[int]]:
    values = dict.fromkeys(names, 0) | values
    for _, fresh in changes:
        if not clocked or fresh.get("clk") == 1 and values.get("clk") == 0:
            yield [values[name] for name in names]
        values |= fresh
    if not clocked:
        yield [values[name] for name in names]


def _changes(waves: Path, top: str) -> Iterator[tuple[int, dict[str, int]]]:
    """(time, values of ports that change then) of a VCD, from the scope of the module."""
    scopes, names, now, fresh = list[str](), dict[str, list[str]](), 0, dict[str, int]()
    with waves.open() as lines:
        for line in lines:
            words = line.split()
            if not words:
                continue
            if words[0] == "$scope":
                scopes.append(words[2])
            elif words[0] == "$upscope":
                scopes.pop()
            elif words[0] == "$var" and scopes and scopes[-1] == top and top not in scopes[:-1]:
                names.setdefault(words[3], []).append(words[4])
            elif words[0][0] == "#":
                if fresh:
                    yield now, fresh
                now, fresh = int(words[0][1:]), {}
            elif words[0][0] in "01xz" and (found := names.get(words[0][1:])):
                fresh |= dict.fromkeys(found, int(words[0][0] == "1"))
            elif words[0][0] == "b" and (found := names.get(words[1])):
                fresh |= dict.fromkeys(found, int(words[0][1:].replace("x", "0").replace("z", "0"), 2))
    if fresh:
        yield now, fresh
