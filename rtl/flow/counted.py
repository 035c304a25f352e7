"""What Yosys and nextpnr count of a block, in a folder that holds its Verilog and their scripts."""

import json
import re
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from pimloom.rtl.flow.registered import registered_verilog
from pimloom.rtl.flow.yowasp import NEXTPNR, YOSYS, ToolError, Tools

LIBRARY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")  # Debian: qflow-tech-osu018
GENERIC = "generic gates"
FPGA = "ECP5 LFE5U-85F-6"
ROOM = {"lut4": 83640, "ff": 83640, "dsp": 156, "bram": 208}  # on this FPGA, as nextpnr reports it
LUTS_OF = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}  # cells that take lookup tables

OF_LIBRARY = ("area_um2", "nand2_equivalents", "path_ps")  # what generic gates do not have

Counts = dict[str, Any]


def cells(at_hand: Tools, folder: Path, inner: Container[str] = ()) -> Counts:
    """Cells of the library, their area and the longest path. inner: pieces beside the block, which only keep their
    number (`inner`); so in all below."""
    at_hand.run(YOSYS, "cells.ys", folder=folder)
    counts, area = _gate_counts(folder, LIBRARY.stem, inner)
    timed = folder / "stats.txt"  # absent where there is no logic
    return counts | {
        "area_um2": area,
        "nand2_equivalents": area / _area_of("NAND2X1", (folder / "cells.lib").read_text()),
        "path_ps": float(timed.read_text().split()[-1]) if timed.exists() else 0.0,
    }


def gates(at_hand: Tools, folder: Path, inner: Container[str] = ()) -> Counts:
    """Generic gates, where there is no library."""
    at_hand.run(YOSYS, "gates.ys", folder=folder)
    return _gate_counts(folder, GENERIC, inner)[0] | dict.fromkeys(OF_LIBRARY)


def _gate_counts(folder: Path, library: str, inner: Container[str]) -> tuple[Counts, float]:
    """Cells, registers and bits of memory, and the area of all cells."""
    stat = _stat(folder)
    own, pieces = _apart(stat["num_cells_by_type"], inner)
    kinds = {kind: count for kind, count in own.items() if not kind.startswith("memory_")}
    if library != GENERIC and (strange := [kind for kind in kinds if kind.startswith("$")]):
        raise ToolError(f"{library} has no cell for {', '.join(strange)}")
    counts = {
        "library": library,
        "cells": sum(kinds.values()),
        "flip_flops": sum(count for kind, count in kinds.items() if "DFF" in kind),
        "memory_bits": _memory_bits(folder),
        **pieces,
    }
    return counts, stat.get("area", 0.0)


def _apart(kinds: dict[str, int], inner: Container[str]) -> tuple[dict[str, int], Counts]:
    """The block's own cells, and how many it has of each piece, where it has any."""
    pieces = {kind: count for kind, count in kinds.items() if kind in inner}
    return {kind: count for kind, count in kinds.items() if kind not in inner}, {"inner": pieces} if inner else {}


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


def fpga(at_hand: Tools, folder: Path, inner: Container[str] = ()) -> Counts:
    """What the block takes of the FPGA, and its clock rate there."""
    at_hand.run(YOSYS, "fpga.ys", folder=folder)
    own, pieces = _apart(_stat(folder)["num_cells_by_type"], inner)
    counts = _taken(own)
    fits = all(counts[what] <= room for what, room in ROOM.items())
    return counts | {"fpga": FPGA, "fmax_mhz": _fmax_mhz(at_hand, folder) if fits else None, **pieces}


def fpga_of_piece(at_hand: Tools, folder: Path, inner: Container[str]) -> Counts:
    """The same for a piece, with registers between it and the others."""
    block, beside = ((folder / file).read_text() for file in ("block.v", "walls.v"))
    (folder / "registered.v").write_text(registered_verilog(block, beside))
    return fpga(at_hand, folder, inner)


def _taken(kinds: dict[str, int]) -> Counts:
    return {
        "lut4": sum(luts * kinds.get(kind, 0) for kind, luts in LUTS_OF.items()),
        "ff": kinds.get("TRELLIS_FF", 0),
        "dsp": kinds.get("MULT18X18D", 0),
        "bram": kinds.get("DP16KD", 0),
    }


def of_piece(
    run: Callable[[Tools, Path, Container[str]], Counts], at_hand: Tools, folder: Path, inner: Container[str]
) -> Counts:
    """What a piece costs without the others in it, and how many of each it has (`inner`); nothing where it only
    connects them, which is asked first, as tools take long over wide wires."""
    if inner:
        at_hand.run(YOSYS, "wiring.ys", folder=folder)
        own, pieces = _apart(_stat(folder)["num_cells_by_type"], inner)
        if not own:
            return _nothing(run) | pieces
    return {"inner": {}} | run(at_hand, folder, inner)


def _nothing(run: Callable[..., Counts]) -> Counts:
    if run is fpga_of_piece:
        return _taken({}) | {"fpga": FPGA}
    counts = {"cells": 0, "flip_flops": 0, "memory_bits": 0}
    if run is gates:
        return {"library": GENERIC, **counts} | dict.fromkeys(OF_LIBRARY)
    return {"library": LIBRARY.stem, **counts} | dict.fromkeys(OF_LIBRARY, 0.0)


def _fmax_mhz(at_hand: Tools, folder: Path) -> float:
    at_hand.run(NEXTPNR, *(folder / "place").read_text().split(), folder=folder)
    clocks = json.loads((folder / "report.json").read_text())["fmax"]
    return min(clock["achieved"] for clock in clocks.values())


def _stat(folder: Path) -> Counts:
    """What Yosys counted in the one module it was asked about."""
    (module,) = json.loads((folder / "stat.json").read_text())["modules"].values()
    return module
