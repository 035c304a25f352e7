"""What goes wrong while a sweep runs: in the end its table is that of a run in which nothing went wrong."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from tests.slow import slow
from tests.sweep_odd import simulators
from tests.sweep_place import LONG_S, POINTS, Place, port, same, wait


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    yield found
    for process in found.processes:
        process.kill()
        process.join(10)
    wait(lambda: not simulators(tmp_path), "no process is left")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of a run in which nothing goes wrong."""
    place = Place(tmp_path_factory.mktemp("whole"))
    assert place.run("--workers", 1) == ""
    assert not simulators(place.folder)
    assert len(place.table) == POINTS
    return place.table


def test_points_that_misbehave_are_rows_with_one_line(place: Place, whole: pd.DataFrame) -> None:
    how = {"300": "hang", "900": "spin", "1500": "deaf", "2000": "exit", "2400": "segv", "2800": "kill"}
    place.misbehave(**how)
    assert place.run("--workers", 2, "--timeout-per-point", 0.7) == ""
    assert "60 of 60 points finished, 5 failed" in (place.folder / "cli.out").read_text()
    failed = place.table[place.table["error"].notna()]
    errors = {str(clock): set(rows["error"]) for clock, rows in failed.groupby("npu.clock_mhz")}
    limit = "took longer than 0.7 s, the limit of --timeout-per-point"
    gone = "the process that simulated it ended with"
    assert errors == {
        **dict.fromkeys(("300", "900", "1500"), {limit}),
        "2000": {rf"{gone} exit code 7 (no\x1b[31m such thing), 3 times"},
        "2400": {f"{gone} SIGSEGV, 3 times"},
    }
    good = place.table["error"].isna()
    same(place.table[good], whole[good])
    place.misbehave()
    again = place.run("--workers", 1)
    assert again == "" and place.table["error"].notna().sum() == 5  # failed points are done, too
    place.run("--workers", 1, "--retry-failed")
    same(place.table, whole)


@pytest.mark.parametrize("seed", [7, *map(slow, (8, 9))])
def test_killed_at_six_random_moments(place: Place, whole: pd.DataFrame, seed: int) -> None:
    place.misbehave(seconds=0.03, pace_s=0.2)
    moment, finished, progressed = random.Random(seed), set[str](), 0
    for number in range(6):
        process = place.start("--workers", 1)
        if number % 2:  # once it has begun to keep rows
            place.moved(process, len(finished))
            time.sleep(moment.uniform(0, 0.2))
        else:
            time.sleep(moment.uniform(0, 0.6))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        progressed += len(place.keys) > len(finished)
        assert finished <= place.keys
        finished = place.keys
        wait(lambda: not simulators(place.folder), "simulators end with the sweep")
    assert progressed >= 2
    place.misbehave()
    assert place.run("--workers", 1) == ""
    same(place.table, whole)


def test_damaged_newest_rows_are_simulated_again(place: Place, whole: pd.DataFrame) -> None:
    place.misbehave(seconds=0.01, pace_s=0.1)
    place.run("--workers", 1)
    newest = max((place.out / "rows").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-5])
    kept = len(place.keys)
    assert 0 < kept < POINTS
    said = place.run("--workers", 1)
    assert said == f"pimloom: rows/{newest.name} is damaged: its bytes are not those that were written; its rows " \
        "count as not there\n"  # fmt: skip
    same(place.table, whole)


def test_two_commands_fill_one_sweep(place: Place) -> None:
    points = 400
    place.sweep(points)
    place.misbehave(seconds=0.008, pace_s=0.1)
    both = [place.start("--workers", 1, err=place.folder / f"{i}.err") for i in range(2)]
    for process in both:
        place.ended(process, 0)
    assert len(place.table) == points and place.table["error"].isna().all()
    twice = sum(len(pd.read_parquet(path)) for path in (place.out / "rows").iterdir()) - points
    assert twice < 0.75 * points  # each alone would do all; both have some work in hand at once
    assert len(list((place.out / "runs").iterdir())) == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_in_the_middle(place: Place, whole: pd.DataFrame, number: int, code: int) -> None:
    place.misbehave(**{"seconds": 0.01, "1500": "hang"})
    process = place.start("--workers", 1)
    wait(lambda: place.keys)
    time.sleep(0.3)  # it hangs by now, or soon
    began = time.monotonic()
    os.kill(process.pid, number)
    place.ended(process, code)
    assert time.monotonic() - began < 60
    assert not simulators(place.folder)
    assert f"stopped; all finished rows are kept in {place.out}, the same command goes on" in place.err
    assert "Traceback" not in place.err
    place.misbehave()
    place.run("--workers", 1)
    same(place.table, whole)


def test_second_interrupt_ends_at_once(place: Place) -> None:
    place.misbehave(seconds=0.01)
    process = place.start("--workers", 1)
    wait(lambda: place.keys)
    for _ in range(40):  # wherever it is by then
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process.pid, signal.SIGINT)
        time.sleep(0.02)
        if not process.is_alive():
            break
    place.ended(process, 130)


def test_disk_full(tmp_path: Path, whole: pd.DataFrame) -> None:
    room = tmp_path / "room"
    room.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(room)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount a small tmpfs here")
    try:
        place = Place(tmp_path)
        place.out = room / "out"
        place.misbehave(seconds=0.015, pace_s=0.1)
        process = place.start("--workers", 1)
        wait(lambda: place.keys)
        with (room / "filler").open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(bytes(4096))
                except OSError:
                    break
        place.ended(process, 2)
        kept = len(place.keys)
        assert place.err == f"pimloom: disk full at {place.out}/rows: {kept} rows are kept; make room and start again\n"
        assert 0 < kept < POINTS
        said = place.run("--workers", 1, code=2)  # it cannot begin, either
        assert "no space left on device" in said and said.count("\n") == 1
        (room / "filler").unlink()
        place.misbehave()
        assert place.run("--workers", 1) == ""
        same(place.table, whole)
    finally:
        subprocess.run(["umount", "-l", room], check=True)


@pytest.mark.slow
def test_workers_and_scheduler_are_killed(place: Place, whole: pd.DataFrame) -> None:
    place.misbehave(seconds=0.12)
    at = port()
    scheduler, workers = place.scheduler(at), [place.worker(at), place.worker(at)]
    process = place.start("--scheduler", f"tcp://127.0.0.1:{at}")
    wait(lambda: place.keys)
    workers[0].kill()
    kept = len(place.keys)
    wait(lambda: len(place.keys) > kept, "the other worker goes on")
    scheduler.kill()
    place.said("the scheduler is lost; waiting 60 s for it")
    wait(lambda: not simulators(place.folder) or not workers[1].is_alive())
    assert len(place.keys) < POINTS
    place.scheduler(at)
    place.said("the scheduler is back")
    place.said(f"no workers; waiting for them (`dask worker tcp://127.0.0.1:{at}` starts one)")
    place.worker(at)
    place.ended(process, 0)
    assert "workers for 1 points at once" in place.err and "Traceback" not in place.err
    same(place.table, whole)


def test_scheduler_never_comes_back(place: Place) -> None:
    place.misbehave(seconds=0.03)
    at = port()
    scheduler, _ = place.scheduler(at), place.worker(at)
    process = place.start("--scheduler", f"tcp://127.0.0.1:{at}", "--wait", 0.3)
    wait(lambda: place.keys)
    scheduler.kill()
    place.ended(process, 2)
    assert place.keys and "Traceback" not in place.err
    last = place.err.splitlines()[-1]
    assert last == (
        f"pimloom: --scheduler tcp://127.0.0.1:{at}: was lost and did not come back in 0.3 s (--wait); all finished "
        "rows are kept, the same command goes on"
    )


def test_interrupted_while_it_waits(place: Place) -> None:
    at = port()
    scheduler = place.scheduler(at)
    process = place.start("--scheduler", f"tcp://127.0.0.1:{at}")
    place.said("no workers; waiting for them")
    os.kill(process.pid, signal.SIGINT)
    place.ended(process, 130)
    process = place.start("--scheduler", f"tcp://127.0.0.1:{at}")
    place.said("no workers; waiting for them")
    scheduler.kill()
    place.said("the scheduler is lost")
    os.kill(process.pid, signal.SIGINT)
    place.ended(process, 130)


ALARM = """
import ctypes, signal, time
from pimloom.cycle_sim.compiled import library
from pimloom.sweeping.crew.alarm import Alarm

loaded = iter([None, lambda words, results: 0])
library._load = lambda file: next(loaded)
library.cache_folder = lambda room: library.PACKAGE
library.make = lambda *about: time.sleep(1)  # compiles for longer than the limit
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
alarm = Alarm()
alarm._more = 0
alarm.set(0.5)
library.machine("pimloom.cycle_sim.advance:advance", ())
alarm.off()
print("compiled", flush=True)
alarm.set(0.05)
ctypes.CDLL(None).sleep(9)
"""


def test_limit_ends_compiled_code_and_leaves_compiling_out() -> None:
    done = subprocess.run([sys.executable, "-c", ALARM], check=False, capture_output=True, text=True, timeout=LONG_S)
    assert done.stdout == "compiled\n" and done.returncode == -signal.SIGALRM, done.stderr
