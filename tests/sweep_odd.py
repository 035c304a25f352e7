"""Sweeps for tests of faults: real processes, but points that cost nothing, or misbehave as a file says.

`odd.json` in the folder of a test gives `seconds`, how long a point takes, `pace_s`, the time of a chunk, between
writes of rows and between looks at those of others, and for a clock in MHz what becomes of the point with that clock
and 4 channels: `hang` in compiled code, `spin` in Python, `deaf` to signals as far as a process can be, `exit`, `segv`,
or `kill`, that only once. `rows.json` has the rows that come out, made beforehand, so that a simulator, of which a test
of faults needs many, starts without all that makes them.

Commands, schedulers and workers start as forks of one process that has everything imported, so they start at once.
"""

import ctypes
import json
import multiprocessing
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ODD, ROWS = "odd.json", "rows.json"


def command(folder: Path) -> tuple[str, ...]:
    """The command of a simulator that reads the folder's `odd.json`."""
    return sys.executable, str(Path(__file__).resolve()), str(folder)


def start(what: str, folder: Path, *arguments: object, err: Path | None = None) -> Any:
    """A process: `pimloom ARGUMENTS` (`cli`), a Dask `scheduler PORT`, or a Dask `worker ADDRESS`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.sweep_odd_imports"])
    texts = tuple(map(str, arguments))
    process = context.Process(target=_child, args=(what, str(folder), texts, str(err or folder / f"{what}.err")))
    process.start()
    return process


def _child(what: str, folder: str, arguments: Sequence[str], err: str) -> None:
    from pimloom.sweeping.crew import simulator

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    _redirect(Path(folder) / f"{what}.out", 1)
    _redirect(Path(err), 2)
    if "real" not in Path(folder).name:
        simulator.COMMAND = command(Path(folder))  # type: ignore[assignment]
        _set_pace(json.loads((Path(folder) / ODD).read_text()).get("pace_s"))
    os.chdir(folder)
    kinds: dict[str, Callable[..., None]] = {"cli": _cli, "scheduler": _scheduler, "worker": _worker}
    kinds[what](*arguments)


def _set_pace(pace_s: float | None) -> None:
    from pimloom.sweeping import filling
    from pimloom.sweeping.store import sweep_rows

    if pace_s is not None:
        filling.CHUNK_S = filling.FLUSH_S = sweep_rows.LOOK_S = pace_s


def _redirect(path: Path, number: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | (0 if path.parts[1:2] == ("dev",) else os.O_TRUNC))
    os.dup2(file, number)
    stream = os.fdopen(number, "w", buffering=1, closefd=False)
    if number == 1:
        sys.stdout = stream
    else:
        sys.stderr = stream


def _cli(*arguments: str) -> None:
    from pimloom.cli import main

    os.environ["COLUMNS"] = "100"
    sys.argv = ["pimloom", *arguments]
    main()


def _scheduler(port: str) -> None:
    import asyncio

    from distributed import Scheduler

    async def serve() -> None:
        async with Scheduler(host="127.0.0.1", port=int(port), dashboard=False) as scheduler:
            await scheduler.finished()

    asyncio.run(serve())


def _worker(address: str, path: str = "") -> None:
    import asyncio

    from distributed import Worker

    if path:
        os.environ["PYTHONPATH"] = path

    async def serve() -> None:
        async with Worker(address, nthreads=1, dashboard=False, memory_limit=0, local_directory=os.getcwd()) as worker:
            await worker.finished()

    asyncio.run(serve())


def simulators(folder: Path) -> list[int]:
    """Odd simulators of the folder that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                continue
            if str(folder).encode() in words and not dead:
                found.append(int(entry.name))
    return found


def evaluate(base: object, point: Mapping[str, Any], known: object = None) -> Any:
    """A row without a simulation."""
    odd = json.loads((Path(sys.argv[1]) / ODD).read_text())
    clock, channels = point["npu.clock_mhz"], point["dram.channels"]
    if channels == 4:
        _misbehave(odd.get(str(clock), ""), Path(sys.argv[1]) / f"killed.{clock}")
    time.sleep(odd.get("seconds", 0.0))
    return types.SimpleNamespace(row=_made()["rows"][f"{channels} {clock}"], steps=[])


@cache
def _made() -> dict[str, Any]:
    made: dict[str, Any] = json.loads((Path(sys.argv[1]) / ROWS).read_text())
    return made


def _misbehave(how: str, once: Path) -> None:
    if how == "spin":
        while True:
            pass
    if how == "deaf":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(1000)
    if how == "hang":
        ctypes.PyDLL(None).pause()  # like compiled code that does not let go of Python's lock
    if how == "exit":
        print("no\x1b[31m such thing", file=sys.stderr, flush=True)
        os._exit(7)
    if how == "segv":
        ctypes.string_at(0)
    if how == "kill" and not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _without_engine() -> None:
    """Let a simulator start without all that simulates."""
    _stand_in("pimloom.sweeping.point.evaluate", evaluate=evaluate)
    _stand_in("pimloom.sweeping.point.shared", Base=dict)
    _stand_in("pimloom.sweeping.point.code", code_digest=lambda: _made()["code"])
    _stand_in("pimloom.cycle_sim.runs", Known=types.SimpleNamespace, pack=lambda solved: b"", unpack=lambda packed: [])
    _stand_in("pimloom.cycle_sim.compiled.library", watch=lambda stop, go_on: None)
    from pimloom.sweeping.crew import alarm

    alarm.FIRST_S = 0.2


def _stand_in(module: str, **names: object) -> None:
    sys.modules[module] = types.ModuleType(module)
    sys.modules[module].__dict__.update(names)


if __name__ == "__main__":
    from pimloom.sweeping.crew.simulator import main

    _without_engine()
    main()
