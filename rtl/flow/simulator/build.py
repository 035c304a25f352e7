"""A simulator, built once for its Verilog and the tools."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from fcntl import LOCK_EX, flock
from pathlib import Path

from pimloom.arch.cache import cache_folder
from pimloom.rtl.flow.simulator.environment import Simulator, environment, exits, key, runner, tools

FLAGS = {
    "verilator": ["-Wno-fatal", "-O3"],
    # with -g2012 it never evaluates an `always @*` whose inputs keep their initial values
    "icarus": ["-g2005"],
}
# What a bench may see. All wires of the top module, which are many, would make building and
# running take twice as long; all of the design, as cocotb's runner asks, longer still.
PORT = 'public_flat_rw -module "{top}" -var "{name}"'
DUMP = """module dump;
    initial begin
        $dumpfile("waves.vcd");
        $dumpvars(0, {top});
    end
endmodule
"""  # cocotb's own needs -g2012, and writes FST
READING = "6"  # what was built otherwise is not found
AHEAD_S = 3600  # longer than a build takes
UNUSED_S = 30 * 24 * 3600  # after which a simulator goes


def built(verilog: str, top: str, simulator: Simulator, traced: bool) -> Path:
    """Folder of the simulator for this Verilog, built unless it is there."""
    setting = [READING, simulator, str(traced), *FLAGS[simulator], *tools(simulator)]
    library = ("verilated*.o",) if simulator == "verilator" else ()
    return kept(
        f"{top}-{simulator}",
        setting,
        (top, verilog),
        library,
        lambda work: _build(work, verilog, top, simulator, traced),
    )


def kept(
    name: str, setting: Sequence[str], about: Sequence[str], library: Sequence[str], build: Callable[[Path], None]
) -> Path:
    """Folder of what `build` makes in a folder that it is given; made unless it is there.

    setting: all that decides a build beside what it is `about`; library: patterns of the objects that are the same for
    all builds of a setting, and so are made once.
    """
    settings = "\n".join(setting)
    done = cache_folder("simulators") / f"{name}-{key(settings, *about)}"
    if done.exists():
        os.utime(done)
        return done
    done.parent.mkdir(parents=True, exist_ok=True)
    _forget(done.parent)
    with _alone(done), tempfile.TemporaryDirectory(prefix=f"{done.name}-", dir=done.parent) as text:
        if done.exists():  # somebody else was quicker
            return done
        work, known = Path(text) / "build", cache_folder("simulators") / f"library-{key(settings)}"
        with nullcontext() if known.exists() or not library else _alone(known):  # one makes it, others wait
            if known.exists():
                os.utime(known)
                _take_library(known, work)
            else:
                work.mkdir()
            build(work)
            _keep_library(work, known, library)
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


def _build(work: Path, verilog: str, top: str, simulator: Simulator, traced: bool) -> None:
    files = {f"{top}.v": verilog}
    if simulator == "verilator":
        lines = [PORT.format(top=top, name=name) for name in _ports(verilog, top)]
        files[f"{top}.vlt"] = "\n".join(["`verilator_config", *lines, ""])
    elif traced:
        files["dump.v"] = DUMP.format(top=top)
    for name, text in files.items():
        (work / name).write_text(text)
    with environment(simulator), exits(work / "build.log", f"{simulator} cannot build {top}"):
        runner(simulator).build(
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
    """The ports of the module `top`, each declared on a line of its own."""
    module = re.search(rf"^module {re.escape(top)}\b.*?^endmodule", verilog, re.DOTALL | re.MULTILINE)
    return re.findall(
        r"^\s*(?:input|output)\s+(?:(?:wire|reg|signed)\s+)*(?:\[[^\]]*\]\s*)?(\w+)\b",
        module[0] if module else "",
        re.MULTILINE,
    )


def _take_library(library: Path, work: Path) -> None:
    """Copies that seem newer than the makefile to come; else make would make them again."""
    shutil.copytree(library, work)
    for file in work.iterdir():
        os.utime(file, times=(time.time() + AHEAD_S,) * 2)


def _keep_library(work: Path, library: Path, patterns: Sequence[str]) -> None:
    """Keep the objects that are the same for all models and make half of a build, and what is new of them."""
    known = {file.name for file in library.glob("*")} if library.exists() else set()
    made = [file for pattern in patterns for file in work.glob(pattern) if file.name not in known]
    if not made:
        return
    fresh = work.parent / "library"
    fresh.mkdir()
    for file in made:
        shutil.copy2(file, fresh)
    library.mkdir(exist_ok=True)
    for file in fresh.iterdir():
        file.replace(library / file.name)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process builds the same."""
    with path.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield
