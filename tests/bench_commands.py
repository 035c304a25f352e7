"""Whole commands beside the bench, ours and those of peers: their CPU time and peak of memory."""

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""  # from a small process: a peak of memory counts what a process is before it becomes another
PEERS = {  # whose lines each group has
    "memory": ("dramsim3", "ramulator2"),
    "npu": ("neupims_off", "neupims_on", "neupims_pim", "neupims_npu"),  # by variant; NAME='PATH … {trace} … {out}'
}
PATHS_ONLY = {"dramsim3": "{path} {config} -c {cycles} -t {trace} -o {out}"}  # what a path alone stands for


class Line(NamedTuple):
    """A line of the bench. measured: of the engine, warm; command: of a whole command of ours, and of a peer."""

    what: str
    measured: str
    target: str = "–"
    command: str = ""
    peer: str = ""


class Spent(NamedTuple):
    """CPU time of a process and its children, user and system [s]; its peak of memory [MiB]."""

    cpu_s: float
    peak_mib: float

    def __str__(self) -> str:
        return f"{self.cpu_s:.2f} s, {self.peak_mib:.0f} MiB"


def spent(command: Sequence[str], cwd: Path | None = None) -> Spent:
    """What a command takes. Raises SystemExit with the end of what it says, if it fails."""
    words = [sys.executable, "-c", MEASURE, *command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: {shlex.join(command)} fails: {' '.join(done.stderr.splitlines()[-1:])}")
    cpu_s, peak_kib = done.stdout.split()
    return Spent(float(cpu_s), int(peak_kib) / 1024)


def least(command: Sequence[str], times: int = 3, cwd: Path | None = None) -> Spent:
    """The run of several that took the least CPU time."""
    return min(spent(command, cwd) for _ in range(times))


def pimloom(*words: str) -> list[str]:
    """A command of ours."""
    return [sys.executable, "-m", "pimloom", *words]


def read_peers(given: Sequence[str], groups: Sequence[str] = ()) -> dict[str, str]:
    """NAME=PATH or NAME=LINE, whose {config}, {trace}, {cycles} and {out} are put in; by name. groups: those that
    run, else all. Raises SystemExit."""
    found, known = {}, [name for group in groups or PEERS for name in PEERS.get(group, ())]
    for text in given:
        name, equals, line = text.partition("=")
        if not equals or not line:
            raise SystemExit(f"bench: --peer {text}: expected NAME=PATH, or NAME='PATH {{config}} … {{trace}} …'")
        if name not in known:
            raise SystemExit(f"bench: --peer {text}: no line for {name}; known here: {', '.join(known) or 'none'}")
        if "{" not in line:
            if name not in PATHS_ONLY:
                raise SystemExit(f"bench: --peer {text}: give the whole line of {name}, with {{trace}}")
            line = PATHS_ONLY[name].replace("{path}", shlex.quote(line))
        if not Path(shlex.split(line)[0]).exists():
            raise SystemExit(f"bench: --peer {text}: no file {shlex.split(line)[0]}")
        found[name] = line
    return found


def words_of(line: str, values: Mapping[str, object]) -> list[str]:
    """The words of a peer's line, with the values in the place of their names."""
    words = shlex.split(line)
    for name, value in values.items():
        words = [word.replace("{" + name + "}", str(value)) for word in words]
    return words
