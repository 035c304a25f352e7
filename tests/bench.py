"""`make bench`: commands per second of the engine, seconds of a run and of the report, start-up, peak memory."""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from pimloom.arch.command import STREAM
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_part, load_system
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.dram.stream import issue
from pimloom.mappers.gemv import product
from pimloom.mappers.geometry import geometry
from pimloom.mappers.layout import Packed
from pimloom.systems.devices.simulate import simulate
from tests.bench_commands import Line, read_peers


def best_of(n: int, work: Callable[[], object]) -> float:
    """Least wall time of n runs [s]; the first, which compiles, does not count."""
    work()
    times = []
    for _ in range(n):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def gemv_stream(repeats: int = 2000) -> tuple[Table, np.ndarray]:
    """GPT3-XL's QKV product, over and over."""
    system = load_system("pim_gpt")
    assert system.part is not None
    table = compile_table(system.part)
    stream = product(table, Packed(geometry(system.part, 8), 2048, 6144))
    return table, np.concatenate([stream] * repeats)


def random_stream(rows: int = 1_000_000, seed: int = 0) -> tuple[Table, np.ndarray]:
    """Single-bank traffic: random banks and rows, ACT, one to four RD or WR, PRE."""
    table, rng = compile_table(load_part("gddr6_14000").value), np.random.default_rng(seed)
    visits = rows // 4
    length = rng.integers(1, 5, visits)
    stream = np.zeros(int((length + 2).sum()), STREAM)
    visit = np.repeat(np.arange(visits), length + 2)
    place = np.arange(len(stream)) - np.repeat(np.cumsum(length + 2) - (length + 2), length + 2)
    inner = np.where(rng.random(len(stream)) < 0.7, table.cmd("RD"), table.cmd("WR"))
    stream["cmd"] = np.where(place == 0, table.cmd("ACT"), inner)
    stream["cmd"][place == length[visit] + 1] = table.cmd("PRE")
    for name, limit in (("bg", 4), ("bank", 4), ("row", 16384)):
        stream[name] = rng.integers(0, limit, visits)[visit]
    stream["count"] = 1
    return table, stream


def measure() -> list[tuple[str, str, str]]:
    """(what, measured, target) of every line of the bench."""
    table, counted = gemv_stream()
    expanded = np.repeat(counted[: len(counted) // 20], counted["count"][: len(counted) // 20])
    expanded["count"] = 1
    plain, traffic = random_stream()
    lines = []
    for what, t, stream, target in (
        ("GEMV stream with count", table, counted, "≥ 20 M/s"),
        ("the same, expanded", table, expanded, "≥ 5 M/s"),
        ("random single-bank traffic", plain, traffic, "–"),
    ):
        seconds = best_of(3, lambda t=t, s=stream: issue(t, [s]))  # type: ignore[misc]
        lines.append((what, f"{stream['count'].sum() / seconds / 1e6:.1f} M commands/s", target))
    system, spec = load_system("pim_gpt"), load_llm("gpt3-xl")
    simulate(system, spec, 1)
    start = time.perf_counter()
    simulate(system, spec, 1024)
    lines.append(("GPT3-XL, 1024 tokens", f"{time.perf_counter() - start:.2f} s", "≤ 10 s"))
    with tempfile.TemporaryDirectory() as folder:
        lines.append(("whole report", f"{_seconds('report', 'pim-gpt', '--out', folder):.1f} s", "≤ 60 s"))
    helped = best_of(9, lambda: _seconds("--help")) - best_of(9, _started)
    lines.append(("pimloom --help over Python's start", f"{helped:.3f} s", "≤ 0.1 s"))
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return [*lines, ("peak memory of a process", f"{peak / 1024:.0f} MiB", "≤ 1 GiB")]


def _seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pimloom", *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def _started() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.perf_counter() - start


def lines(names: Sequence[str], given: Sequence[str]) -> Iterator[Line]:
    """The lines of these groups. given: peers as they are typed. Raises SystemExit."""
    from tests.bench_fabric import fabric_lines
    from tests.bench_growth import growth_lines
    from tests.bench_memory import memory_lines
    from tests.bench_npu import npu_lines
    from tests.bench_pim import pim_lines
    from tests.bench_rtl import rtl_lines
    from tests.bench_serving import serving_lines
    from tests.bench_sweep import sweep_lines

    groups: dict[str, Callable[[], Iterable[tuple[str, ...]]]] = {
        "engine": measure,
        "growth": growth_lines,
        "memory": lambda: memory_lines(peers),
        "npu": lambda: npu_lines(peers),
        "pim": pim_lines,
        "rtl": rtl_lines,
        "fabric": fabric_lines,
        "serving": serving_lines,
        "sweep": sweep_lines,
    }
    if unknown := [name for name in names if name not in groups]:
        raise SystemExit(f"bench: unknown group {unknown[0]!r}; known: {', '.join(groups)}")
    peers = read_peers(given, names)
    for name in names or groups:
        yield from (Line(*line) for line in groups[name]())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("groups", nargs="*", help="engine, growth, memory, npu, pim …; else all")
    parser.add_argument("--peer", action="append", default=[], help="NAME=PATH, or NAME='PATH … {config} … {trace} …'")
    given = parser.parse_args()
    grid = Grid("bench", "measured", "whole command", "peer", "target", box=None)
    for line in lines(given.groups, given.peer):
        grid.add_row(line.what, line.measured, line.command, line.peer, line.target)
    Console(width=140).print(grid)


if __name__ == "__main__":
    main()
