"""A block as a folder: Verilog, a bench that runs by itself, assertions, constraints, a core file, a view of waves."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from amaranth.lib.wiring import Component

from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.emit import beside
from pimloom.rtl.flow.emit.bench import bench, makefile, ports, run, vectors
from pimloom.rtl.flow.emit.constraints import constraints
from pimloom.rtl.flow.emit.design import Design
from pimloom.rtl.flow.emit.formal import WITH_SBY, formal, sby
from pimloom.rtl.flow.emit.handshakes import handshakes
from pimloom.rtl.flow.emit.listing import FILES, SUMS
from pimloom.rtl.flow.emit.record import record
from pimloom.rtl.flow.emit.rules import assertions
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu_pim.channel import NpuPimChannel

MOST_ELEMENTS = 256  # of an array that is run for its bench


def files_of(design: Design) -> dict[str, str]:
    """Names and texts of all that lies in the folder, but for `SUMS`.

    Raises GateError where block and model differ in what is recorded.
    """
    block, top, component = design.block, design.top, design.component
    texts = {"{}.v": design.verilog, "{}.vlt": beside.waivers(top), "{}.sdc": constraints(design)}
    if "rules" in BLOCKS[block].checks and getattr(component, "phases", 1) == 1:  # they count clocks, not CK
        texts["{}_rules.sv"] = _rules(design)
    if "handshakes" in BLOCKS[block].checks:
        texts["{}_handshakes.sv"] = handshakes(component, top)
    asserted = [name.format(top) for name in texts if name.endswith(".sv")]
    if asserted and block in WITH_SBY:
        checks = [text for name, text in texts.items() if name.endswith(".sv")]
        texts |= {"{}_formal.sv": formal(component, top, checks), "{}.sby": sby(top, asserted)}
    why = without_bench(block, component)
    if not why:
        made = record(design)
        texts |= {"test_{}.py": bench(top, made), "vectors.txt": vectors(made), "ports.vlt": ports(top, made)}
    texts |= {"run.py": run(top, asserted, why), "Makefile": makefile(top), "{}.gtkw": beside.view(design)}
    texts["{}.core"] = beside.core(design, [name.format(top) for name in texts])
    return {name.format(top): texts[name] for name in FILES if name in texts}


def without_bench(block: str, component: Component) -> str:
    """Why no bench lies beside the block, or nothing."""
    if isinstance(component, SequencerAxi) and component.powering:
        return "a power-up sequence takes a million clocks"
    if isinstance(component, SequencerAxi) and component.data:
        return "there is no DRAM at its data pins"
    shape = getattr(component, "shape", None)
    if isinstance(shape, ArrayShape) and shape.rows * shape.columns > MOST_ELEMENTS and block != "npu_tiles":
        return f"a waveform of more than {MOST_ELEMENTS} elements takes gigabytes"
    return ""


def _rules(design: Design) -> str:
    component, top = design.component, design.top
    if isinstance(component, NpuPimChannel):
        plan, part = component.plan, component.spec.device()
        return assertions(part, design.part_name, plan.table, top, plan.command(), "bus")
    assert isinstance(design.part, Part)
    return assertions(design.part, design.part_name, component.table, top)


def check_free(out: str | Path, names: Iterable[str]) -> None:
    """Raises UserError where the folder holds another block, or a file of these names that is not as it was written."""
    folder, names = Path(out), list(names)
    try:
        if (own := _top(folder)) and f"{own}.v" not in names:
            raise UserError(f"--out {out}: holds {own}; name another folder")
        if other := next((name for name in names if name != SUMS and _is_other(folder, name)), None):
            raise UserError(f"--out {out}: {other} is not as pimloom wrote it; move it, or name another folder")
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}; choose another folder") from None


def write_folder(out: str | Path, texts: Mapping[str, str]) -> list[str]:
    """Write files into a folder, made if it is missing, and return their names.

    `SUMS` has their digests, so that a later call replaces only files that are still as they were written. Raises
    UserError where another file has a name of these, or the folder cannot be written.
    """
    folder = Path(out)
    sums = "".join(f"{_digest(text.encode())}  {name}\n" for name, text in texts.items())
    files = {**texts, SUMS: sums}
    try:
        check_free(out, files)
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
    return list(files)


def _top(folder: Path) -> str:
    """The top module of the folder, or nothing."""
    return next((name.removesuffix(".v") for name in _written(folder).values() if name.endswith(".v")), "")


def _written(folder: Path) -> dict[str, str]:
    """Names of files as they were written, by the lines of `SUMS`."""
    sums = folder / SUMS
    lines = sums.read_text(encoding="utf-8").splitlines() if sums.is_file() else []
    return {line: line.partition("  ")[2] for line in lines}


def _is_other(folder: Path, name: str) -> bool:
    """Whether a file stands there that is not as it was written."""
    file = folder / name
    return file.exists() and f"{_digest(file.read_bytes())}  {name}" not in _written(folder)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
