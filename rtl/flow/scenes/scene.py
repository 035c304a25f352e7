"""Numbers that go into a block of arithmetic, what its model says comes out, and what does."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate

ROWS = "pimloom.rtl.flow.benches.rows"
STREAMS = "pimloom.rtl.flow.benches.streams"
PACES = (1.0, 0.6)  # without a lost clock, and so that everybody waits for everybody


class Scene(NamedTuple):
    """What a bench is given, and the values of each output, one after the other, that it should leave.

    operations: how many they are. place: the name of value i of an output, for a sentence. early: values that the
    bench leaves before the first that counts.
    """

    bench: str
    given: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    operations: int
    place: Callable[[str, int], str]
    early: int = 0


def row_scene(
    inputs: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    latency: int,
    place: Callable[[str, int], str] | None = None,
    operations: int | None = None,
) -> Scene:
    """Of plain ports: a row of inputs[port][rows, …] a clock, and the value of each output for each row, `latency`
    clocks later. place: without it, values are named by output and clock. operations: without it, the rows."""
    early = max(0, latency - 1)  # the bench looks behind the clock's edge: at what stands there in the next clock
    given = {name: np.pad(_words(x), ((0, early), (0, 0))) for name, x in inputs.items()}
    given |= {"clocks": np.array(1), "results": np.array(list(expected))}
    rows = len(next(iter(expected.values())))

    def by_clock(port: str, i: int) -> str:
        return f"{port} in CK {i + latency}"

    return Scene(ROWS, given, expected, operations or rows, place or by_clock, early)


def _words(x: np.ndarray) -> np.ndarray:
    """uint32[rows, words] of unsigned integers [rows, …], the lowest bits first."""
    data = np.ascontiguousarray(x).reshape(len(x), -1)
    data = data.view(np.uint8) if data.dtype != bool else data.astype(np.uint8)
    return np.pad(data, ((0, 0), (0, -data.shape[1] % 4))).view("<u4")


def stream_scene(
    sources: Mapping[str, np.ndarray],
    sinks: Mapping[str, np.ndarray],
    operations: int,
    place: Callable[[str, int], str],
    paces: tuple[float, ...] = PACES,
) -> Scene:
    """Of streams: payloads uint32[n, words] for each source, and what each sink should take."""
    given = {f"in.{name}": payloads for name, payloads in sources.items()}
    given |= {f"out.{name}": np.array(len(payloads)) for name, payloads in sinks.items()}
    return Scene(STREAMS, given | {"paces": np.array(paces)}, sinks, operations, place)


def play(
    verilog: str, top: str, scene: Scene, simulator: Simulator = "verilator", waves: Path | None = None
) -> dict[str, np.ndarray]:
    """What the scene's bench leaves: the values of each output, `cycles`, `seconds` and whatever else it says."""
    left = simulate(verilog, top, scene.bench, scene.given, simulator=simulator, waves=waves)
    return left | {name: _values(left[name])[scene.early :] for name in scene.expected}


def _values(words: np.ndarray) -> np.ndarray:
    """A number for each row of words, the lowest first; of one word as it is."""
    if words.ndim < 2 or words.shape[1] == 1:
        return words.reshape(-1)
    return (words.astype(np.uint64) << (32 * np.arange(words.shape[1], dtype=np.uint64))).sum(axis=1, dtype=np.uint64)


def mismatches(scene: Scene, left: Mapping[str, np.ndarray]) -> list[str]:
    """A sentence for every value that differs from the model's, in their order."""
    wrong = []
    for port, want in scene.expected.items():
        got, both = left[port], min(len(want), len(left[port]))
        if len(got) != len(want):
            wrong.append((both, f"{len(got)} values came out of {port}, model says {len(want)}"))
        for i in np.flatnonzero(got[:both] != want[:both]).tolist():
            wrong.append((i, f"{scene.place(port, i)} is {got[i]:#x}, model says {want[i]:#x}"))
    return [sentence for _, sentence in sorted(wrong)]
