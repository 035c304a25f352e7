"""Lines of `make bench` for sweeps: points per second, what a point costs beyond its simulation, a large store."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from distributed import Client

from pimloom.arch.units import MIB
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.folder import read_source, settle
from pimloom.sweeping.point.row import Outcome, result_columns, row_of
from pimloom.sweeping.point.shared import base_of
from pimloom.sweeping.run import Options, facts_of, run_sweep
from pimloom.sweeping.store.all_rows import open_store
from pimloom.sweeping.store.runs import record_run
from pimloom.sweeping.table import open_table

WARM = 120  # points that are not timed: processes start, engines load
TIMED = 360
ROUNDS = 5  # a machine's speed drifts; what is compared runs side by side, and the median round counts
MANY = 100_000
AT_ONCE = 256
RESUME = [  # a process from its start to where it would send the first missing point; here none is missing
    "-c",
    "import sys; from pathlib import Path; from pimloom.sweeping.run import Options, run_sweep; "
    "run_sweep(Path(sys.argv[1]), None, Options())",
]
PLAIN = {  # as docs/sweep.md advises
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
}
PIM_GPT = {
    "system": "pim_gpt",
    "objectives": {"tokens_per_s": "max", "energy_per_token_j": "min"},
    "constraints": ["power_w < 75"],
}


class Timed(NamedTuple):
    """Wall time of the timed points [s], and the sum of their simulations [s]."""

    wall_s: float
    simulated_s: float

    @property
    def rate(self) -> float:
        """Points per second."""
        return TIMED / self.wall_s


def sweep_lines() -> list[tuple[str, str, str]]:
    """(what, measured, target) of each line."""
    return [*_rates(), *_overhead(), *_large()]


def _rates() -> Iterator[tuple[str, str, str]]:
    """Short and long points; every one has a clock of its own. Scheduler, workers and command share the cores, too."""
    for model, generate in (("gpt2", 128), ("gpt2-xl", 256)):
        rounds = [_round({"model": model, "generate": generate}) for _ in range(ROUNDS)]
        one, *others = (median(rates) for rates in zip(*rounds, strict=True))
        yield f"PIM-GPT, {model}, {generate} tokens, 1 process", f"{one:.1f} points/s", "–"
        names = ("2 processes", "Dask scheduler and 2 workers, processes of their own")
        for column, (name, rate) in enumerate(zip(names, others, strict=True), 1):
            shares = sorted(rates[column] / (2 * rates[0]) for rates in rounds)
            said = f"efficiency {median(shares):.0%} ({shares[0]:.0%} to {shares[-1]:.0%} in {ROUNDS} rounds)"
            yield name, f"{rate:.1f} points/s, {said}", "≥ 90 %"


def _round(workload: Mapping[str, Any]) -> list[float]:
    """Points per second of 1 process, of 2, and of a cluster. One process runs before and after: the mean of both."""
    before = _timed(workload, Options(workers=1)).rate
    two = _timed(workload, Options(workers=2)).rate
    with _cluster() as scheduler:
        outside = _timed(workload, Options(scheduler=scheduler)).rate
    after = _timed(workload, Options(workers=1)).rate
    return [(before + after) / 2, two, outside]


def _overhead() -> Iterator[tuple[str, str, str]]:
    """Points as short as they come: GPT-2, 1 token."""
    some = _timed({"model": "gpt2", "generate": 1}, Options(workers=1))
    beyond_ms = 1e3 * (some.wall_s - some.simulated_s) / TIMED
    mean_ms = 1e3 * some.simulated_s / TIMED
    yield f"a point beyond its simulation of {mean_ms:.1f} ms, 1 process", f"{beyond_ms:.2f} ms", "≤ 2 ms"


def _timed(workload: Mapping[str, Any], options: Options) -> Timed:
    """Simulate so many points more of a sweep that runs already."""
    with tempfile.TemporaryDirectory() as folder:
        clocks = [200 + number for number in range(WARM + TIMED)]
        source = PIM_GPT | {"workload": workload, "name": "bench"}
        run_sweep(source | {"axes": {"npu.clock_mhz": clocks}}, Path(folder, "sweep"), options)
        frame = open_table(Path(folder, "sweep")).table.frame.sort_values("finished_utc")
        ends = frame["finished_utc"].astype("datetime64[ms, UTC]")
        wall_s = (ends.iloc[-1] - ends.iloc[WARM - 1]).total_seconds()
        return Timed(wall_s, float(frame["wall_s"].iloc[WARM:].sum()))


@contextmanager
def _cluster() -> Iterator[str]:
    """A Dask scheduler and two workers, all processes of their own; yields the scheduler's address."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = folder / "scheduler.json"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "env": os.environ | PLAIN}
        dask = [sys.executable, "-m", "dask"]
        commands = [[*dask, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(found)]]
        commands += [[*dask, "worker", "--nthreads", "1", "--no-dashboard", "--scheduler-file", str(found)]] * 2
        for command in commands:
            process = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
            stack.callback(process.wait)
            stack.callback(process.terminate)
        while not found.exists():
            time.sleep(0.1)
        address = json.loads(found.read_text())["address"]
        with Client(address) as client:
            client.wait_for_workers(2, timeout=60)
        yield address


def _large() -> Iterator[tuple[str, str, str]]:
    """A store of so many rows, all that a sweep asks for: filled without simulating, then gone on with and drawn."""
    axes: dict[str, Any] = {
        "dram.channels": [2**power for power in range(1, 11)],
        "npu.clock_mhz": {"linear": [100, 5000], "points": 50},
        "npu.adders": {"from": 16, "to": 160, "step": 16},
        "npu.multipliers": {"from": 1, "to": 20, "step": 1},
    }
    source = PIM_GPT | {"workload": {"model": "gpt2", "generate": 4}, "axes": axes, "name": "large"}
    with tempfile.TemporaryDirectory() as parent:
        folder, file = Path(parent, "large"), Path(parent, "large.yaml")
        file.write_text(json.dumps(source))
        seconds = _fill(file, folder)
        yield f"{MANY:,} rows kept, {AT_ONCE} at once", f"{1e3 * seconds / MANY:.3f} ms a row", "–"
        sweep = ["-m", "pimloom", "sweep"]
        for what, command, target in (
            (f"going on with {MANY:,} finished points: until what is missing is known", [*RESUME, str(file)], "≤ 2 s"),
            ("`sweep` of these, to the table at its end", [*sweep, str(file)], "–"),
            (f"`sweep report` of {MANY:,} rows", [*sweep, "report", str(folder)], "≤ 10 s; ≤ 1 GiB"),
        ):
            start = time.perf_counter()
            mib = _peak_mib([sys.executable, *command])
            yield what, f"{time.perf_counter() - start:.1f} s, {mib:.0f} MiB", target


def _fill(file: Path, folder: Path) -> float:
    """Rows of random results for every point; seconds that keeping them took."""
    sweep, text = read_source(file)
    base, chance = base_of(sweep), random.Random(0)
    settle(folder, sweep, text)
    record_run(folder, facts_of(sweep, base, Options()))
    grid, store, names = Grid(sweep), open_store(folder), [column.name for column in result_columns(base)]
    assert grid.size == MANY
    spent = 0.0
    for first in range(0, MANY, AT_ONCE):
        points = [grid.point(number) for number in range(first, min(first + AT_ONCE, MANY))]
        outcomes = [Outcome({name: chance.random() for name in names}, "") for _ in points]
        rows = [row_of(base, point, out, None, 0.1) for point, out in zip(points, outcomes, strict=True)]
        start = time.perf_counter()
        store.append(rows)
        spent += time.perf_counter() - start
    return spent


def _peak_mib(command: list[str]) -> float:
    """Run a command; peak memory of it [MiB]. The peak of all children so far hides a smaller one."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024 / MIB


def main() -> None:
    """Print these lines alone."""
    for line in sweep_lines():
        print(*line, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
