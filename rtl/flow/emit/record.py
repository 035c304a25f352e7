# amaranth: UnusedElaboratable=no
"""What stands on a block's ports, clock by clock, in a run that its model agrees with."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from amaranth.lib.wiring import Component, Flow

from pimloom.arch.error import GateError
from pimloom.arch.part import Part
from pimloom.rtl.axi import DEPTH, SequencerAxi
from pimloom.rtl.flow.axi.host import draw_scripts
from pimloom.rtl.flow.axi.model import mismatches as host_mismatches
from pimloom.rtl.flow.axi.verify import play as play_host
from pimloom.rtl.flow.cosim import walk
from pimloom.rtl.flow.scenes.scene import mismatches, play
from pimloom.rtl.flow.stimulus import draw_own_cases, engine
from pimloom.rtl.flow.verify import SCENES

OPERATIONS = 200  # commands or operations that are recorded
HOSTED = 100  # commands of a host, which takes several clocks for each
SEED = 1


class Recording(NamedTuple):
    """inputs, outputs: port -> bits; clocked: whether there is a clock; rows: of each clock, before its edge, or of
    each moment of a block without one, the values of inputs and then of outputs."""

    inputs: dict[str, int]
    outputs: dict[str, int]
    clocked: bool
    rows: list[list[int]]


def recordable(block: str) -> bool:
    """Whether what `verify` runs is the block as it is emitted."""
    return block in SCENES or block in SEQUENCERS


def record(block: str, component: Component, part: Part, verilog: str) -> Recording:
    """A run of the block on Verilator. verilog: the block's, as it is emitted. Raises GateError where block and model
    differ."""
    with tempfile.TemporaryDirectory(prefix="pimloom-") as folder:
        waves = Path(folder, "waves.vcd")
        own = SEQUENCERS.get(block)
        wrong = own(part, verilog, waves) if own else _scene(block, component, part, verilog, waves)
        if wrong:
            raise GateError(f"{block}: RTL and model differ: {wrong}")
        return _read(block, component, waves)


def _sequencer(part: Part, verilog: str, waves: Path) -> str:
    cases = list(draw_own_cases(part, part.organization, OPERATIONS, SEED))
    model = [engine(case) for case in cases]
    most = 2 * max(int(ck.max(initial=0)) for done in model if done for ck in done[0]) + 1000
    walks = walk(cases, 1, 0, most_ck=most, waves=waves, verilog=verilog).walks
    for case, done, found in zip(cases, model, walks, strict=True):
        if done and not np.array_equal(done[0][0], found.issue_ck[0]):
            return f"issue clocks of {len(case.streams[0])} commands"
    return ""


def _sequencer_axi(part: Part, verilog: str, waves: Path) -> str:
    organization = part.organization
    banks = organization.bank_groups, organization.banks_per_group
    scripts = list(draw_scripts(part, banks, HOSTED, SEED, often=False))
    block = SequencerAxi(scripts[0].case.table, DEPTH)
    seen, _, _ = play_host(scripts, block, "verilator", waves, verilog)
    wrong = [sentence for pair in zip(scripts, seen, strict=True) for sentence in host_mismatches(*pair, DEPTH)]
    return wrong[0] if wrong else ""


def _scene(block: str, component: Component, part: Part, verilog: str, waves: Path) -> str:
    scene = SCENES[block](component, part, np.random.default_rng(SEED), OPERATIONS)
    wrong = mismatches(scene, play(verilog, block, scene, "verilator", waves))
    return wrong[0] if wrong else ""


SEQUENCERS: dict[str, Callable[[Part, str, Path], str]] = {"sequencer": _sequencer, "sequencer_axi": _sequencer_axi}


def _read(block: str, component: Component, waves: Path) -> Recording:
    inputs, outputs = dict[str, int](), dict[str, int]()
    for path, member, value in component.signature.flatten(component):
        width = len(value.as_value() if hasattr(value, "as_value") else value)
        if width:
            (inputs if member.flow is Flow.In else outputs)["__".join(map(str, path))] = width
    changes = _changes(waves, block)
    names = [*inputs, *outputs]
    first = next(changes)[1]
    clocked = "clk" in first
    if clocked:
        inputs = {"rst": 1} | inputs
        names = ["rst", *names]
    return Recording(inputs, outputs, clocked, list(_rows(names, first, changes, clocked)))


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
