"""A block as a folder: Verilog, a bench that runs by itself, assertions, constraints, a core file, a view of waves."""

import shutil
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from amaranth.lib.wiring import Component, Flow

from pimloom.arch.error import UserError
from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.arch.version import __version__
from pimloom.rtl.flow.emit import beside
from pimloom.rtl.flow.emit.bench import bench, makefile, ports, run, vectors
from pimloom.rtl.flow.emit.handshakes import handshakes
from pimloom.rtl.flow.emit.record import record
from pimloom.rtl.flow.emit.rules import assertions
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu_pim.channel import NpuPimChannel

PS_PER_NS = 1000
SUMS = "pimloom.sha256"  # as `sha256sum` reads it
MOST_ELEMENTS = 256  # of an array that is run for its bench


def files_of(block: str, component: Component, part: Part | Optics, part_name: str, verilog: str) -> dict[str, str]:
    """Names and texts of all that lies in the folder. verilog: with its head.

    Raises GateError where block and model differ in what is recorded.
    """
    files = {f"{block}.v": verilog, f"{block}.vlt": beside.waivers(block)}
    clocked = "\n  input wire clk" in verilog
    if isinstance(part, Part):
        files[f"{block}.sdc"] = beside.constraints(block, part.tCK_ps / PS_PER_NS, clocked, _inputs(component))
        if isinstance(component, NpuPimChannel):
            plan = component.plan
            rules = assertions(component.spec.device(), part_name, plan.table, block, plan.command(), "bus")
            files[f"{block}_rules.sv"] = rules
        if block in ("sequencer", "sequencer_axi"):  # the same buses
            files[f"{block}_rules.sv"] = assertions(part, part_name, component.table, block)
        if block == "sequencer_axi":
            files[f"{block}_handshakes.sv"] = handshakes(component, block)
    if not without_bench(block, component):
        made = record(block, component, part, verilog)
        files |= {f"test_{block}.py": bench(block, made), "vectors.txt": vectors(made)}
        files["ports.vlt"] = ports(block, made)
        asserted = [name for name in files if name.endswith(".sv")]
        files |= {"Makefile": makefile(block), "run.py": run(block, asserted)}
    files[f"{block}.core"] = beside.core(block, __version__.partition("+")[0], files)
    files[f"{block}.gtkw"] = beside.view(block, _ports(component), clocked)
    return files


def without_bench(block: str, component: Component) -> str:
    """Why no bench lies beside the block, or nothing."""
    shape = getattr(component, "shape", None)
    if isinstance(shape, ArrayShape) and shape.rows * shape.columns > MOST_ELEMENTS and block != "npu_tiles":
        return f"a waveform of more than {MOST_ELEMENTS} elements takes gigabytes"
    return ""


def _inputs(component: Component) -> list[str]:
    """All but the clock."""
    ins = [(path, value) for path, member, value in component.signature.flatten(component) if member.flow is Flow.In]
    wide = (path for path, value in ins if len(value.as_value() if hasattr(value, "as_value") else value))
    return ["rst", *("__".join(map(str, path)) for path in wide)]


def _ports(component: Component) -> list[tuple[str, int]]:
    found = []
    for path, member, value in component.signature.flatten(component):
        width = len(value.as_value() if hasattr(value, "as_value") else value)
        if width and member.flow in (Flow.In, Flow.Out):
            found.append(("__".join(map(str, path)), width))
    return found


def write_folder(out: str | Path, make: Callable[[], dict[str, str]]) -> None:
    """Write files into a folder, made if it is missing: all are made before the first stands there.

    `SUMS` has their digests, so that a later call replaces only files that are still as they were written. Raises
    UserError where another file has a name of these, or the folder cannot be written.
    """
    folder = Path(out)
    files = make()
    files[SUMS] = "".join(f"{_digest(text.encode())}  {name}\n" for name, text in files.items())
    try:
        if other := next((name for name in files if name != SUMS and _is_other(folder, name)), None):
            raise UserError(f"--out {out}: {other} is not as pimloom wrote it; move it, or name another folder")
        with tempfile.TemporaryDirectory(prefix=".pimloom-", dir=folder.absolute().parent) as text:
            fresh = Path(text) / "made"
            fresh.mkdir()
            for name, content in files.items():
                (fresh / name).write_text(content, encoding="utf-8")
            if folder.exists():
                for name in files:
                    (fresh / name).replace(folder / name)
            else:
                shutil.move(fresh, folder)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}; choose another folder") from None


def _is_other(folder: Path, name: str) -> bool:
    """Whether a file stands there that is not as it was written."""
    file, sums = folder / name, folder / SUMS
    if not file.exists():
        return False
    written = sums.read_text(encoding="utf-8").splitlines() if sums.is_file() else []
    return f"{_digest(file.read_bytes())}  {name}" not in written


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
