"""A folder with a sweep, and the processes that fill it, for tests of faults."""

import json
import socket
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from pimloom.sweeping.definition.load_sweep import read_sweep
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.point.row import Outcome, row_of
from pimloom.sweeping.point.shared import base_of
from pimloom.sweeping.store.all_rows import open_store
from pimloom.sweeping.table import open_table
from tests import sweep_odd
from tests.sweep_odd import ODD, ROWS

POINTS = 60
LONG_S = 60.0
VOLATILE = ["wall_s", "host", "finished_utc"]
SWEEP = """
system: pim_gpt
workload: {model: gpt2, prompt: 0, generate: 1}
axes:
  dram.channels: [4, 8]
  npu.clock_mhz: {from: 100, to: %d, step: 100}
objectives: {tokens_per_s: max}
"""


class Place:
    """A folder with a sweep, and the processes that were started there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.processes = folder, folder / "out", list[Any]()
        self.misbehave(seconds=0.0)
        self.sweep(POINTS)

    def sweep(self, points: int) -> None:
        (self.folder / "s.yaml").write_text(SWEEP % (100 * points // 2))
        (self.folder / ROWS).write_text(made(points))

    def misbehave(self, **how: object) -> None:
        (self.folder / ODD).write_text(json.dumps(how))

    def start(self, *options: object, out: Path | None = None, err: Path | None = None) -> Any:
        return self._start("cli", "sweep", "s.yaml", "--out", out or self.out, *options, err=err)

    def scheduler(self, port: int) -> Any:
        started = self._start("scheduler", port)
        wait(lambda: _listens(port), "the scheduler listens")  # a command begins nothing where none does
        return started

    def worker(self, port: int, path: str = "") -> Any:
        return self._start("worker", f"tcp://127.0.0.1:{port}", path)

    def _start(self, what: str, *arguments: object, err: Path | None = None) -> Any:
        (self.folder / f"{what}.err").unlink(missing_ok=True)  # what one before said
        self.processes.append(sweep_odd.start(what, self.folder, *arguments, err=err))
        return self.processes[-1]

    def run(self, *options: object, code: int = 0) -> str:
        """Run to the end; what it said on stderr."""
        self.ended(self.start(*options), code)
        return self.err

    def ended(self, process: Any, code: int) -> None:
        process.join(LONG_S)
        assert process.exitcode == code, self.err

    @property
    def err(self) -> str:
        path = self.folder / "cli.err"
        return path.read_text() if path.exists() else ""

    def said(self, words: str) -> None:
        wait(lambda: words in self.err, words)

    def moved(self, process: Any, before: int) -> None:
        """Wait for more rows, or for the end."""
        wait(lambda: len(self.keys) > before or not process.is_alive(), "more rows")

    @property
    def keys(self) -> set[str]:
        return open_store(self.out).keys()

    @property
    def table(self) -> pd.DataFrame:
        return open_table(self.out).table.frame.drop(columns=VOLATILE)


@cache
def made(points: int) -> str:
    """The rows of a sweep, for its simulators."""
    sweep = read_sweep(SWEEP % (100 * points // 2), "s.yaml")
    base, grid, rows = base_of(sweep), Grid(sweep), dict[str, Any]()
    for point in map(grid.point, range(grid.size)):
        clock, channels = point["npu.clock_mhz"], point["dram.channels"]
        values = {"latency_s": 1 / float(clock), "tokens_per_s": 2.0 * float(clock), "cycles": int(channels)}
        rows[f"{channels} {clock}"] = row_of(base, point, Outcome(values, "odd"), None, 0.0)
    return json.dumps({"code": base.code, "rows": rows})


def wait(until: Callable[[], object], what: str = "") -> None:
    """Wait for something that must happen."""
    end = time.monotonic() + LONG_S
    while not until():
        assert time.monotonic() < end, f"did not happen: {what or until}"
        time.sleep(0.01)


def _listens(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other, check_dtype=False)


def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
