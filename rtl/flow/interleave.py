"""The interleave controller's gates against the turns of `mappers/interleave.py`, clock by clock."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from pimloom.mappers.interleave import Turn, turns
from pimloom.rtl.flow.scenes.scene import Scene, mismatches, play, row_scene
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.verified import Progress, Verified, wave_file
from pimloom.rtl.interleave import Interleave, Stage, npu_layout, pim_layout
from pimloom.rtl.ports import pack
from pimloom.rtl.verilog import to_verilog

TOP = "interleave"
LONGEST_CK = 40  # of a random job
MOST_LAYERS = 6  # of a random iteration
PAUSE_CK = 3  # clocks between two iterations, at most
STRAY = 0.2  # probability of a `done` that nobody waits for


class Iteration(NamedTuple):
    """layers, and the clocks that each stage takes on the NPU and on PIM, 0 where it has no work; pause: idle clocks
    before it starts."""

    layers: int
    clocks: list[tuple[int, int]]
    pause: int


class Span(NamedTuple):
    """A stage: what happens in it, its first clock, the one after its last one, and the ends of either unit."""

    turn: Turn
    start: int
    end: int
    npu_end: int
    pim_end: int


def draw_iterations(sub_batches: int, stages: int, seed: int) -> list[Iteration]:
    """Random iterations with at least so many stages in all; each with its own longest job."""
    rng, found, left = Random(f"interleave {sub_batches} {seed}"), list[Iteration](), stages
    while left > 0:
        layers, longest = rng.randint(1, MOST_LAYERS), rng.choice((1, 2, LONGEST_CK))
        row = list(turns(sub_batches, range(layers)))
        clocks = [
            (rng.randint(1, longest) * has_npu(turn), rng.randint(1, longest) * (turn.stage.attention is not None))
            for turn in row
        ]
        found.append(Iteration(layers, clocks, rng.randint(0, PAUSE_CK)))
        left -= len(row)
    return found


def has_npu(turn: Turn) -> bool:
    """Whether the NPU has work in the stage."""
    return turn.stage.through is not None or bool(turn.stage.qkv)


def schedule(sub_batches: int, iteration: Iteration, start: int = 0) -> Iterator[Span]:
    """The mapper's turns, each as long as the later of its two units."""
    row = turns(sub_batches, range(iteration.layers))
    for turn, (npu, pim) in zip(row, iteration.clocks, strict=True):
        end = start + max(npu, pim)
        yield Span(turn, start, end, start + npu, start + pim)
        start = end


def interleave_scene(sub_batches: int, iterations: Sequence[Iteration], seed: int = 0) -> Scene:
    """All iterations one after the other: starts and dones go in as the schedule has them, strays with them; stage,
    jobs and starts of the units come out in every clock."""
    rng, spans, clock = np.random.default_rng(seed), list[Span](), 1
    asked, ends = list[tuple[int, int]](), list[int]()
    for iteration in iterations:
        clock += iteration.pause
        asked.append((clock - 1, iteration.layers))  # begins in the clock after
        mine = list(schedule(sub_batches, iteration, clock))
        spans += mine
        clock = mine[-1].end + 1  # `done` is high in between
        ends.append(mine[-1].end)
    inputs = _inputs(asked, spans, clock, rng)
    expected = {name: column[1:] for name, column in _outputs(sub_batches, spans, ends, clock + 1).items()}

    def place(port: str, i: int) -> str:
        at = next((span for span in spans if span.start <= i + 1 < span.end), None)
        return f"{port} in CK {i + 1}{f', stage {at.turn.stage.name} of layer {at.turn.here},' if at else ''}"

    return row_scene(inputs, expected, 1, place, len(spans))


def verify_interleave(
    name: str,
    part: object,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
    sub_batches: int = 2,
) -> Verified:
    """Random iterations, at least so many stages, through the gates and by the mapper."""
    progress(0, 2)
    scene = interleave_scene(sub_batches, draw_iterations(sub_batches, commands, seed), seed)
    verilog = to_verilog(Interleave(sub_batches), TOP)
    progress(1, 2)
    found = play(verilog, TOP, scene, simulator, waves)
    wrong = mismatches(scene, found)
    if wrong and not waves:
        waves = wave_file(TOP, name, seed)
        play(verilog, TOP, scene, simulator, waves)
    progress(2, 2)
    cycles = int(found["cycles"])
    return Verified(
        TOP, name, simulator, scene.operations, len(wrong), 0, 0, {},
        cycles, cycles / float(found["seconds"]), wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip


def _inputs(
    asked: Sequence[tuple[int, int]], spans: Sequence[Span], clocks: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Ports by clock. A stage is busy from its start on: another start is not looked at then."""
    idle = np.ones(clocks, bool)
    done = {"npu__done": np.zeros(clocks, bool), "pim__done": np.zeros(clocks, bool)}
    free = {name: np.ones(clocks, bool) for name in done}
    for span in spans:
        idle[span.start : span.end] = False
        for name, end in (("npu__done", span.npu_end), ("pim__done", span.pim_end)):
            free[name][span.start : end] = False
            if end > span.start:
                done[name][end - 1] = True
    stray = {name: done[name] | free[name] & (rng.random(clocks) < STRAY) for name in done}
    start, layers = ~idle & (rng.random(clocks) < STRAY), rng.integers(0, 256, clocks)
    for clock, n in asked:
        start[clock], layers[clock] = True, n
    return {"start": start, "layers": layers.astype(np.uint32), **stray}


def _outputs(sub_batches: int, spans: Sequence[Span], ends: Sequence[int], clocks: int) -> dict[str, np.ndarray]:
    """What stands at the outputs in each clock."""
    stage, turn = np.zeros(clocks, np.int64), np.zeros(clocks, np.int64)
    npu = _rows(clocks, "through", "sub_batch", "layer", "qkv", "qkv_layer")
    pim = _rows(clocks, "attention", "sub_batch", "layer")
    starts = {name: np.zeros(clocks, np.int64) for name in ("npu__start", "pim__start")}
    for span in spans:
        at, its = slice(span.start, span.end), span.turn.stage
        stage[at] = Stage[its.name[0].replace("D", "C")].value
        turn[at] = _turn(its.name)
        npu[at], pim[at] = _npu(span.turn), _pim(span.turn)
        starts["npu__start"][span.start] = has_npu(span.turn)
        starts["pim__start"][span.start] = its.attention is not None
    done = np.zeros(clocks, np.int64)
    done[list(ends)] = 1
    jobs = {"npu__job": pack(npu_layout(sub_batches), npu), "pim__job": pack(pim_layout(sub_batches), pim)}
    turns_seen = {"turn": turn} if sub_batches > 1 else {}  # a port without bits is not there
    return {"stage": stage, **turns_seen, **starts, **jobs, "done": done}


def _turn(name: str) -> int:
    """Of a stage's name: C2 is the second of the C stages, D the second of two."""
    return int(name[1:]) - 1 if name[1:] else int(name == "D")


def _npu(turn: Turn) -> tuple[int, ...]:
    stage = turn.stage
    through = stage.through is not None
    layer = (turn.then if stage.behind("through") else turn.here) if through else 0
    qkv = sum(1 << sub_batch for sub_batch in stage.qkv)
    qkv_layer = (turn.then if stage.behind("qkv") else turn.here) if qkv else 0
    return int(through), stage.through or 0, layer, qkv, qkv_layer


def _pim(turn: Turn) -> tuple[int, ...]:
    stage = turn.stage
    if stage.attention is None:
        return 0, 0, 0
    return 1, stage.attention, turn.then if stage.behind("attention") else turn.here


def _rows(clocks: int, *fields: str) -> np.ndarray:
    return np.zeros(clocks, [(name, np.int64) for name in fields])
