"""A cocotb bench on a module.

A bench is a module with `@cocotb.test()` coroutines; it reads `exchange.given()` and returns arrays by
`exchange.leave(…)`.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.files import replacing, writing
from pimloom.rtl.flow.exchange import FOLDER, read_arrays, write_arrays
from pimloom.rtl.flow.simulator.build import built
from pimloom.rtl.flow.simulator.environment import (
    SimulationError,
    Simulator,
    environment,
    exits,
    failures,
    runner,
    tail,
)

Swap = Callable[[str, str], str]
SWAP: ContextVar[Swap | None] = ContextVar("SWAP", default=None)
WAVES = ".vcd"  # suffix of waveforms


@contextmanager
def instead(swap: Swap) -> Iterator[None]:
    """Inside, what `swap` makes of a Verilog and its top's name is simulated in its place, by the same bench."""
    token = SWAP.set(swap)
    try:
        yield
    finally:
        SWAP.reset(token)


def simulate(
    verilog: str,
    top: str,
    bench: str,
    given: Mapping[str, np.ndarray],
    *,
    simulator: Simulator = "verilator",
    waves: Path | None = None,
) -> dict[str, np.ndarray]:
    """Run `bench` (a module path) on module `top`; what the bench leaves. waves: file for a VCD.

    With Verilator a bench sees the ports that lines of their own declare.
    Raises UserError for a missing tool or a waveform's wrong suffix, SimulationError where build or bench fails.
    """
    check_waves(waves)
    if swap := SWAP.get():
        verilog = swap(verilog, top)
    build = built(verilog, top, simulator, waves is not None)
    with tempfile.TemporaryDirectory(prefix="pimloom-") as text:
        folder = Path(text)
        write_arrays(folder / "given.npz", given)
        _run(build, top, bench, simulator, folder, waves is not None)
        if waves is not None:
            _keep_waves(folder, waves)
        if not (folder / "left.npz").exists():
            raise SimulationError(f"{bench} returned nothing{tail(folder / 'run.log')}")
        return read_arrays(folder / "left.npz")


def check_waves(waves: Path | None) -> None:
    """Raises UserError if a waveform's file has another suffix than what is written."""
    if waves is not None and waves.suffix != WAVES:
        raise UserError(f"--waves {waves}: simulators write {WAVES}; name the file so")


def _run(build: Path, top: str, bench: str, simulator: Simulator, folder: Path, traced: bool) -> None:
    log, results = folder / "run.log", folder / "results.xml"
    with environment(simulator), exits(log, f"{bench} failed", results):
        runner(simulator).test(
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            test_module=bench,
            build_dir=build,
            test_dir=folder,
            results_xml=str(results),
            waves=traced and simulator == "verilator",
            # pytest, where it is installed, would rewrite all that a bench imports, numpy too, at each run
            extra_env={FOLDER: str(folder), "COCOTB_LOG_LEVEL": "WARNING", "COCOTB_REWRITE_ASSERTION_FILES": ""},
            log_file=log,
            timescale=("1ns", "1ps"),
        )
        if failed := failures(results):
            raise SimulationError(f"{bench}: {failed}")


def _keep_waves(folder: Path, waves: Path) -> None:
    found = sorted(folder.rglob(f"*{WAVES}"))
    if not found:
        raise SimulationError("the simulator wrote no waveform")
    waves.parent.mkdir(parents=True, exist_ok=True)
    with writing(waves), replacing(waves) as file, found[0].open("rb") as made:
        shutil.copyfileobj(made, file)
