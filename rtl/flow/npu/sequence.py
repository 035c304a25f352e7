# amaranth: UnusedElaboratable=no
"""`pimloom rtl verify npu_tiles`: what the tile sequencer tells pads and accumulator in every clock."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from amaranth.lib.data import StructLayout

from pimloom.rtl.flow.npu.edges import unpack
from pimloom.rtl.flow.npu.gemm import Progress, last_leaves, tiles
from pimloom.rtl.flow.npu.systolic import model_cyc
from pimloom.rtl.flow.scenes.scene import ROWS
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.flow.verified import Verified, wave_file
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.tiles import DEPTH, JOB_BITS, TileSequencer, entering
from pimloom.rtl.verilog import to_verilog

FIELDS = ("address", "first", "last", "rows", "columns", "half", "sums", "upper", "lower")
Port = dict[int, dict[str, int]]  # by clock: the fields that count


class Size(NamedTuple):
    """A GEMM without its numbers: m, k, n, and whether tiles overlap."""

    size: tuple[int, int, int]
    overlapped: bool


class Script(NamedTuple):
    """What goes in and should come out, clock by clock. jobs: the clock in which each is taken; offered: the first in
    which it is offered, in the same order; loaded, taken: clocks; across, down: what is told; done, freed: clocks;
    refused: clocks."""

    jobs: dict[int, Size]
    offered: list[int]
    loaded: list[int]
    taken: list[int]
    across: Port
    down: Port
    done: list[int]
    freed: list[int]
    refused: list[int]
    clocks: int


def draw_sizes(shape: ArrayShape, depth: int, rng: np.random.Generator, tiles_in_all: int) -> list[Size]:
    """GEMMs, every seventh of a size that is refused."""
    found, left = list[Size](), tiles_in_all
    while left > 0:
        streamed = int(rng.integers(1, depth + 1)) if rng.integers(0, 4) else 1
        along, n = int(rng.integers(1, 4 * shape.rows + 1)), int(rng.integers(1, 4 * shape.columns + 1))
        m, k = (streamed, along) if shape.dataflow == "ws" else (along, streamed)
        found.append(Size((m, k, n), bool(rng.integers(0, 2))))
        left -= len(tiles(shape, found[-1]))
        if len(found) % 7 == 0:
            wrong = [
                (0, k, n),
                (m, 0, n),
                (m, k, 0),
                (depth + 1, k, n) if shape.dataflow == "ws" else (m, depth + 1, n),
            ]
            found.append(Size(wrong[int(rng.integers(0, 4))], False))
    return found


def script(shape: ArrayShape, depth: int, sizes: Sequence[Size], eager: bool = False) -> Script:
    """Jobs one after the other; operands and halves of the accumulator are always there in time. eager: a job is
    offered from the clock after the one before was taken, its first operands come as soon as they can."""
    made = Script({}, [], [], [], {}, {}, [], [], [], 0)
    clock, half, sums, before, pause = 1, 0, 0, 0, 0 if eager else 1
    for size in sizes:
        made.offered.append(max(made.jobs, default=0) + 1 if eager else clock)
        made.jobs[clock] = size
        m, k, n = size.size
        streamed = m if shape.dataflow == "ws" else k
        if min(m, k, n) == 0 or streamed > depth:
            made.refused.append(clock + 1)
            clock += 1 + pause
            continue
        base, began = clock + 2, list[int]()
        for tile in tiles(shape, size):
            upper, lower = tile.row == 0, tile.row + shape.rows >= k
            if shape.dataflow == "os":
                upper = lower = True
            told = {"rows": tile.rows, "columns": tile.columns, "half": half, "sums": sums}
            told |= {"upper": upper, "lower": lower}
            start = base + tile.start
            for x in range(streamed):
                made.across[start + x] = {"address": x, "first": x == 0, "last": x == streamed - 1, **told}
            if shape.dataflow == "ws":
                made.down.update({start - 1 - row: {"address": row, **told} for row in range(tile.rows)})
            began.append(start - 1 - (tile.rows if shape.dataflow == "ws" else 0))
            left = base + last_leaves(shape, tile, streamed)
            made.freed.append(start + streamed - 1 + max(shape[:2]) if size.overlapped else left)
            made.taken.extend([began[-1] + 1] * upper)
            half, sums = half ^ 1, sums ^ lower
        first = before + 1 if eager else clock
        made.loaded.extend([first, first + 1][: len(began)] + [at + 1 for at in began[:-2]])
        made.done.append(base + model_cyc(shape, size))
        before, clock = began[-1], made.done[-1] + max(shape[:2]) + 2
        if eager:  # nothing is under way when the last result and, overlapped, the last operand have left
            clock = max(made.done[-1], made.freed[-1] if size.overlapped else 0) + 1
    return made._replace(clocks=clock + 2)


def run_script(
    shape: ArrayShape, depth: int, given: Script, simulator: Simulator, waves: Path | None = None
) -> dict[str, np.ndarray]:
    """Words of each output in each clock, and `seconds`."""
    words = np.zeros((given.clocks, 2), np.uint32)
    offers = list[int]()
    for since, (clock, ((m, k, n), overlapped)) in zip(given.offered, given.jobs.items(), strict=True):
        words[since : clock + 1] = m | k << JOB_BITS, n | overlapped << JOB_BITS
        offers += range(since, clock + 1)
    ports = {"job__payload": words, "job__valid": _high(offers, given.clocks)}
    ports |= {"loaded": _high(given.loaded, given.clocks), "taken": _high(given.taken, given.clocks)}
    told = ["across", "done", "freed", "refused", *(["down"] if shape.dataflow == "ws" else [])]
    # a row of the bench ends behind the clock's edge: what stands there belongs to the next clock
    ports = {name: np.concatenate([each, np.zeros_like(each[:1])]) for name, each in ports.items()}
    verilog = to_verilog(TileSequencer(shape, depth), "npu_tiles")
    return simulate(
        verilog, "npu_tiles", ROWS, {**ports, "clocks": np.array(1), "results": np.array(told)},
        simulator=simulator, waves=waves,
    )  # fmt: skip


def _high(clocks: list[int], total: int) -> np.ndarray:
    found = np.zeros((total, 1), np.uint32)
    found[clocks] = 1
    return found


def mismatches(shape: ArrayShape, depth: int, given: Script, left: dict[str, np.ndarray]) -> list[str]:
    """A sentence for each clock in which an output is not as it should be."""
    wrong = list[tuple[int, str]]()
    for name, expected in (("done", given.done), ("freed", given.freed), ("refused", given.refused)):
        seen = set((np.flatnonzero(left[name][:, 0]) + 1).tolist())
        wrong += [(clock, f"{name} is {int(clock in seen)} in CK {clock}") for clock in seen ^ set(expected)]
    for name, told in (("across", given.across), ("down", given.down)):
        if name in left:
            layout = entering(shape, depth if name == "across" else shape.rows)
            wrong += _differing(name, told, _read(layout, left[name]))
    return [sentence for _, sentence in sorted(wrong)]


def _differing(name: str, told: Port, seen: Port) -> list[tuple[int, str]]:
    wrong = []
    for clock in sorted(told.keys() | seen.keys()):
        got, want = seen.get(clock), told.get(clock)
        same = got is not None and want is not None and all(got[field] == value for field, value in want.items())
        if not same:
            wrong.append((clock, f"{name} is {got} in CK {clock}, model says {want}"))
    return wrong


def _read(layout: StructLayout, words: np.ndarray) -> Port:
    """Where the port is valid."""
    inner = layout["tile"].shape
    widths = [layout[name].width for name in ("address", "first", "last")] + [field.width for _, field in inner]
    fields = unpack(words, [*widths, 1], 1)
    valid = fields[-1][:, 0]
    columns = {name: each[:, 0].tolist() for name, each in zip(FIELDS, fields, strict=False)}
    return {int(c) + 1: {name: int(each[c]) for name, each in columns.items()} for c in np.flatnonzero(valid)}


def verify_tiles(
    name: str, shape: ArrayShape, simulator: Simulator, commands: int, seed: int, waves: Path | None, progress: Progress
) -> Verified:
    """Random sizes: every output in every clock. Operations are tiles."""
    progress(0, 2)
    given = script(shape, DEPTH, draw_sizes(shape, DEPTH, np.random.default_rng(seed), commands))
    progress(1, 2)
    left = run_script(shape, DEPTH, given, simulator, waves)
    wrong = mismatches(shape, DEPTH, given, left)
    if wrong and not waves:
        waves = wave_file("npu_tiles", str(shape), seed)
        run_script(shape, DEPTH, given, simulator, waves)
    progress(2, 2)
    return Verified(
        "npu_tiles", str(shape), simulator, len(given.freed), len(wrong), 0, 0, {},
        given.clocks, given.clocks / float(left["seconds"]), wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip
