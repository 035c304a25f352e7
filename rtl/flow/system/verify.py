# amaranth: UnusedElaboratable=no
"""`pimloom rtl verify npu_pim_machine`: a token of a toy decoder through the whole machine."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.part import Part
from pimloom.arch.table import compile_table
from pimloom.rtl.flow.scenes.values import BF16
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.flow.system.image import image_of
from pimloom.rtl.flow.system.model import Machine, Ran, Stage
from pimloom.rtl.flow.system.places import Places, lay_out, sizes_of
from pimloom.rtl.flow.system.program import Programs, programs
from pimloom.rtl.flow.system.toy import Made, Numbers, Toy, decode, draw_numbers
from pimloom.rtl.flow.verified import Progress, Verified, wave_file
from pimloom.rtl.interleave import Stage as Kind
from pimloom.rtl.system.machine import NpuPimMachine
from pimloom.rtl.system.plan import COLUMNS, LANES, Sizes
from pimloom.rtl.verilog import to_verilog

TOP, BENCH = "npu_pim_machine", "pimloom.rtl.flow.benches.machine"
START = 3  # the clock in which an iteration is asked for
TOKENS = COLUMNS * LANES  # of a request, at most
LAYERS = 4  # of a decoder, at most: every word of memory is a line of Verilog
REQUEST_COMMANDS = 500  # that a request gives in a layer, about


class Case(NamedTuple):
    """A toy decoder, laid out and programmed."""

    toy: Toy
    numbers: Numbers
    places: Places
    programs: Programs
    sizes: Sizes


class Found(NamedTuple):
    """What the gates did: see the bench."""

    stages: list[tuple[int, int, int]]
    dones: list[tuple[int, int]]
    commands: list[list[tuple[int, int, int, int]]]
    busy: list[int]
    done: int
    scratchpad: np.ndarray
    cycles: int
    seconds: float


def case_of(part: Part, toy: Toy, seed: int) -> Case:
    """Raises UserError for a decoder that does not fit."""
    places = lay_out(toy)
    opcodes = sizes_of(part, toy, places, 1).plan.op
    found = programs(toy, places, opcodes)
    own = [sum(map(len, jobs.values())) for jobs in found.channels]
    longest = max(sum(map(len, found.npu.values())), *own)
    return Case(toy, draw_numbers(toy, seed), places, found, sizes_of(part, toy, places, longest))


def verilog_of(case: Case) -> str:
    """The machine with all that it holds at first."""
    return to_verilog(ToyMachine(case), TOP)


def run_gates(case: Case, verilog: str, most: int, simulator: Simulator, waves: Path | None = None) -> Found:
    """One iteration."""
    toy, sizes = case.toy, case.sizes
    given = {"layers": toy.layers, "start": START, "most": most, "words": sizes.words, "width": sizes.word // 8}
    arrays = {name: np.array(value) for name, value in (given | {"channels": toy.channels}).items()}
    found = simulate(verilog, TOP, BENCH, arrays, simulator=simulator, waves=waves)
    bits, plan = {name: field for name, field in sizes.plan.command()}, sizes.plan
    commands = [list[tuple[int, int, int, int]]() for _ in range(toy.channels)]
    for t, c, word in found["commands"].tolist():
        cmd, bank, row = (word >> bits[x].offset & (1 << bits[x].width) - 1 for x in ("cmd", "bank", "row"))
        commands[c].append((t, cmd, bank, row if cmd in (plan.op.act, plan.op.g_act) else -1))
    stages, dones = ([tuple(row) for row in found[name].tolist()] for name in ("stages", "dones"))
    held = np.ascontiguousarray(found["scratchpad"]).view(BF16).reshape(-1)
    return Found(
        stages, dones, commands, found["busy"].tolist(), int(found["done"]), held,
        int(found["cycles"]), float(found["seconds"]),
    )  # fmt: skip


def mismatches(case: Case, ran: Ran, made: list[Made], found: Found) -> list[str]:
    """A sentence for each stage, channel and row that differs."""
    return [*_clocks(ran, found), *_commands(case, ran, found), *_numbers(case, made, found)]


def _clocks(ran: Ran, found: Found) -> Iterator[str]:
    idle = (ran.stages[-1].end + 1, int(Kind.IDLE), 0)
    want = [(s.start, *_shown(s)) for s in ran.stages] + [idle]
    for i, (a, b) in enumerate(zip(want, found.stages, strict=False)):
        if a != b:
            yield f"stage {i}: {_said(b)}, model says {_said(a)}"
    if len(want) != len(found.stages):
        yield f"{len(found.stages) - 1} stages, model says {len(want) - 1}"
    ends = sorted((end, i) for s in ran.stages for i, end in enumerate((s.npu_end, s.pim_end)) if end >= 0)
    units = "NPU", "PIM"
    for (clock, unit), (got, which) in zip(ends, found.dones, strict=False):
        if (clock, unit) != (got, which):
            yield f"{units[which]} done in CK {got}, model says {units[unit]} in CK {clock}"
    if len(ends) != len(found.dones):
        yield f"{len(found.dones)} jobs done, model says {len(ends)}"
    if ran.busy != found.busy:
        yield f"units at work for {found.busy} clocks, model says {ran.busy}"


def _shown(stage: Stage) -> tuple[int, int]:
    """Stage and turn as the gates show them."""
    name = stage.turn.stage.name
    return int(Kind[name[0].replace("D", "C")]), int(name[1:]) - 1 if name[1:] else int(name == "D")


def _said(stage: tuple[int, int, int]) -> str:
    return f"{Kind(stage[1]).name}, turn {stage[2]}, from CK {stage[0]}"


def _commands(case: Case, ran: Ran, found: Found) -> Iterator[str]:
    names = compile_table(case.sizes.spec.device()).names
    for c, (want, got) in enumerate(zip(ran.commands, found.commands, strict=True)):
        for i, (a, b) in enumerate(zip(want, got, strict=False)):
            if a != b:
                yield f"channel {c}, command {i} is {names[b[1]]} {b}, model says {names[a[1]]} {a}"
                break
        else:
            if len(want) != len(got):
                yield f"channel {c}: {len(got)} commands, model says {len(want)}"


def _numbers(case: Case, made: list[Made], found: Found) -> Iterator[str]:
    """Of the last layer, whose results nobody has overwritten."""
    places, toy, last = case.places, case.toy, made[-1]
    for name, at, want in (("QKV", places.qkv, last.qkv), ("attention", places.attended, last.attended),
                           ("output", places.x, last.x)):  # fmt: skip
        got = found.scratchpad[at : at + want.size].reshape(want.shape).view(np.uint16)
        for r, d in np.argwhere(got != want.view(np.uint16)).tolist():
            yield f"{name} of request {r}, element {d}, is {got[r, d]:#x}, model says {want.view(np.uint16)[r, d]:#x}"
    assert LANES * case.sizes.words >= places.elements and len(toy.tokens) == len(last.x)


def run_model(case: Case) -> tuple[Ran, list[Made]]:
    """Clocks and numbers."""
    return Machine(case.sizes, case.programs).run(case.toy.layers, START), decode(case.toy, case.numbers, LANES)


class ToyMachine(NpuPimMachine):
    """The machine with the programs and numbers of a toy decoder: `start` with `layers` 1 decodes a token."""

    def __init__(self, case: Case) -> None:
        self.case = case
        image = image_of(case.toy, case.numbers, case.places, case.programs, case.sizes)
        super().__init__(case.sizes, image)


def filled(machine: Any) -> ToyMachine:
    """A machine of as many sub-batches on the same part, with a toy decoder of one layer."""
    sizes: Sizes = machine.sizes
    return ToyMachine(case_of(sizes.spec.part, draw_toy(sizes.sub_batches, 1, 0), 0))


def draw_toy(sub_batches: int, layers: int, seed: int) -> Toy:
    """Of one to three requests in a sub-batch."""
    rng = Random(f"machine {sub_batches} {seed}")
    contexts = [tuple(rng.randint(1, TOKENS) for _ in range(rng.randint(1, 3))) for _ in range(sub_batches)]
    return Toy(layers=layers, contexts=tuple(contexts))


def verify_machine(
    name: str,
    part: Part,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
    sub_batches: int = 2,
) -> Verified:
    """Tokens of toy decoders, one after the other until so many commands are compared; of each every request."""
    progress(0, commands)
    layers = min(max(1, commands // (REQUEST_COMMANDS * 2 * sub_batches)), LAYERS)
    wrong, issued, cycles, seconds, drawn, kept = list[str](), 0, 0, 0.0, 0, waves
    while issued < commands:
        case = case_of(part, draw_toy(sub_batches, layers, seed + drawn), seed + drawn)
        verilog = verilog_of(case)
        ran, made = run_model(case)
        most = 2 * ran.stages[-1].end + 1000
        found = run_gates(case, verilog, most, simulator, None if drawn else waves)
        differ = mismatches(case, ran, made, found)
        if differ and not wrong and (drawn or not waves):
            kept = waves or wave_file(TOP, name, simulator, seed)
            run_gates(case, verilog, most, simulator, kept)
        wrong += differ
        issued, cycles = issued + sum(map(len, found.commands)), cycles + found.cycles
        seconds, drawn = seconds + found.seconds, drawn + 1
        progress(min(issued, commands), commands)
    return Verified(
        TOP, name, simulator, issued, len(wrong), 0, 0, [],
        cycles, cycles / seconds, wrong[0] if wrong else None, str(kept) if kept else None,
    )  # fmt: skip
