"""A C++ bench in place of the cocotb bench of the same name."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pimloom.arch.files import replacing, writing
from pimloom.rtl.flow.native.arrays import read_raw, write_raw
from pimloom.rtl.flow.native.build import BENCHES, built
from pimloom.rtl.flow.simulator.environment import SimulationError

PACKAGE = "pimloom.rtl.flow.benches."


def native(bench: str) -> str | None:
    """The C++ bench that does what a cocotb bench (a module path) does, if there is one."""
    name = bench.removeprefix(PACKAGE)
    return name if bench.startswith(PACKAGE) and name in BENCHES else None


def run_native(
    verilog: str, top: str, bench: str, given: Mapping[str, np.ndarray], waves: Path | None = None
) -> dict[str, np.ndarray]:
    """What the C++ bench leaves, as the cocotb bench would. waves: file for a VCD.

    Raises UserError for a missing tool, SimulationError with the bench's sentence.
    """
    program = built(verilog, top, bench, waves is not None)
    with tempfile.TemporaryDirectory(prefix="pimloom-") as text:
        folder = Path(text)
        write_raw(folder / "given", given)
        more = ["waves.vcd"] if waves else []
        ran = subprocess.run(
            [program, "given", "left", *more], cwd=folder, capture_output=True, text=True, check=False, errors="replace"
        )
        if waves is not None and (folder / "waves.vcd").exists():
            waves.parent.mkdir(parents=True, exist_ok=True)
            with writing(waves), replacing(waves) as file, (folder / "waves.vcd").open("rb") as made:
                shutil.copyfileobj(made, file)
        if ran.returncode:
            raise SimulationError(f"{bench}: {ran.stderr.strip() or f'ended with {ran.returncode}'}")
        return read_raw(folder / "left")
