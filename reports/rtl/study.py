"""Study `rtl`: what the hardware costs in gates, beside published area and power.

The rooms do not enter `rtl/`, so the rows come as values: `pimloom/rtl_report.py` makes them and calls `write_report`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pimloom.arch.files import prepare_folder, together, write_atomic, write_json, write_table_csv
from pimloom.arch.system import PimSystem, load_system
from pimloom.arch.units import UM2_PER_MM2
from pimloom.arch.version import __version__
from pimloom.reports.page import Card, Claim, ClaimLine, Page, Section, render
from pimloom.reports.reproduction import claim
from pimloom.reports.rtl import blocks, sections
from pimloom.reports.rtl.published import published

TITLE = "The hardware in gates"
SYSTEM = "pim_gpt"
CARDS = ("sequencer", "pim_unit", "float32_mul", "float32_add")

Rows = Sequence[Mapping[str, Any]]


def write_report(out: str | Path, synthesis: Rows, coverage: Rows = (), proofs: Rows = (), power: Rows = ()) -> Path:
    """Write `index.html`, `results.csv` and `results.json` into folder `out`; returns the page.

    Rows are `pimloom rtl synth`'s, `verify`'s, `prove`'s and `power`'s, on the part of system pim_gpt. Raises
    UserError if the folder cannot be written.
    """
    page = render(build_page(synthesis, coverage, proofs, power))
    paper = [one._asdict() for one in published().values()]
    rows = {"synthesis": synthesis, "verification": coverage, "proofs": proofs, "power": power, "published": paper}
    with together():
        folder = prepare_folder(out)
        write_table_csv(folder / "results.csv", synthesis)
        write_json(folder / "results.json", {name: [dict(row) for row in each] for name, each in rows.items()})
        write_atomic(folder / "index.html", page)
    return folder / "index.html"


def build_page(synthesis: Rows, coverage: Rows = (), proofs: Rows = (), power: Rows = ()) -> Page:
    """The whole report."""
    loaded = load_system(SYSTEM)
    system, part = loaded.of_kind(PimSystem), loaded.memory
    chapters: list[Section] = [
        sections.cells(synthesis),
        sections.beside_the_papers(synthesis, system, part),
        blocks.costs(synthesis),
        blocks.power(power),
        sections.fpga(synthesis, system, part),
        sections.verification(coverage, proofs),
        sections.assumptions(),
    ]
    return Page(
        TITLE,
        "Blocks of the RTL room, read from the same tables as the models: their size in standard cells and on an FPGA, "
        "beside the published area and power of PIM-GPT's ASIC and MAC units.",
        chapters,
        _cards(synthesis),
        {
            "pimloom": __version__,
            "part": f"{system.dram.part}, of system {SYSTEM}, digest {loaded.digest}",
            "cells": synthesis[0]["library"],
            "FPGA": synthesis[0]["fpga"],
            "seed": "1 (placement)",
            "made by": "pimloom report rtl",
        },
        _headline(synthesis, system),
    )


def _headline(synthesis: Rows, system: PimSystem) -> Claim:
    """The area of the ASIC, of which we have the arithmetic alone, in another process."""
    area, paper = {row["block"]: row["area_um2"] for row in synthesis}, published()["asic_area"]
    parts = [(system.npu.adders, area.get("float32_add")), (system.npu.multipliers, area.get("float32_mul"))]
    known = [count * each for count, each in parts if each is not None]
    ours = f"{sum(known) / UM2_PER_MM2:.2f}" if len(known) == len(parts) else "not synthesised"
    line = ClaimLine("core area of PIM-GPT's ASIC", ours, f"{paper.value:g}", paper.unit if known else "")
    return claim([line], [None], "", WHY)


WHY = (
    "Ours are its adders and multipliers alone in an open library of 180 nm where the ASIC is 28 nm, and no density of "
    "a 28 nm library was at hand to scale by."
)


def _cards(synthesis: Rows) -> list[Card]:
    """Sizes of the blocks that a reader asks for first."""
    size = {row["block"]: row["nand2_equivalents"] for row in synthesis}
    known = [block for block in CARDS if size.get(block)] or [block for block in size if size[block]][: len(CARDS)]
    return [Card(block, round(size[block]), "NAND2", "gate equivalents") for block in known]
