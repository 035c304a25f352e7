"""The chapters on what an NPU's and a channel's blocks cost each, and on power from a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_system
from pimloom.arch.units import UM2_PER_MM2
from pimloom.energy.area import second_row_buffer
from pimloom.energy.gate_area import NAND2_UM2, Gates, gates
from pimloom.energy.logic_area import DRAM_PENALTY
from pimloom.reports.page import Column, Section, TableData
from pimloom.reports.rtl.published import published

Rows = Sequence[Mapping[str, Any]]

NAND2_OF_180 = 24  # [secondary] um2, osu018_stdcells.lib, NAND2X1
TO_7_NM = (7 / 45) ** 2  # [assumed] lengths scale with the node's name
NPU = "neupims"


def costs(rows: Rows) -> Section:
    """A table of our blocks, each per bank, per array or per channel; and one beside published areas.

    rows: of this run's synthesis, whose figures replace those of energy/gates.csv.
    """
    lines = _of_this_run(rows)
    ours = TableData(
        "Blocks of an NPU and of its channels",
        [
            Column("block", "block"),
            Column("of", "one is"),
            Column("nand2", "NAND2 equivalents", "1", format=",.0f"),
            Column("at_180", "area at 180 nm", "mm²", format=".4f"),
            Column("at_45", "area at 45 nm", "mm²", format=".5f"),
            Column("command", "figure of"),
        ],
        [
            line._asdict()
            | {
                "at_180": line.nand2 * NAND2_OF_180 / UM2_PER_MM2,
                "at_45": line.nand2 * NAND2_UM2 / UM2_PER_MM2,
            }
            for line in lines.values()
        ],
        "NAND2 equivalents at 180 nm, of this run where it has the command's block, else from energy/gates.csv, which "
        "sweeps use. At 45 nm each takes the room of a NAND2 "
        f"of an open library, {NAND2_UM2:.3f} µm². Registers and control are in it; pads, wires, clock trees are not.",
    )
    beside = TableData(
        "Beside published areas",
        [
            Column("what", "what"),
            Column("ours", "ours", format=".5g"),
            Column("paper", "published", format=".5g"),
            Column("unit", "unit"),
            Column("ratio", "ours / published", format=".2f"),
            Column("how", "how ours came about"),
            Column("tag", "evidence"),
        ],
        _beside(lines),
        "No verdict: nodes, number formats and what is in a unit differ, and each step from ours to theirs is named. "
        "Nothing is tuned.",
    )
    return Section("What each block costs", "blocks", "", [ours, beside])


def _of_this_run(rows: Rows) -> dict[str, Gates]:
    """The lines of gates.csv, with this run's NAND2 equivalents where one of its rows is what the command prints."""
    made = {(row["block"], part): row["nand2_equivalents"] for row in rows for part in (row["part"], None)}
    found = dict(gates())
    for name, line in found.items():
        words = line.command.split()
        part = words[-1] if words[-2:-1] == ["--part"] else None
        if ("--rows" not in words) and (nand2 := made.get((name, part))) is not None:
            found[name] = line._replace(nand2=nand2)
    return found


def _beside(lines: Mapping[str, Gates]) -> list[dict[str, Any]]:
    paper = published()
    at_45 = {name: line.nand2 * NAND2_UM2 / UM2_PER_MM2 for name, line in lines.items()}
    loaded = load_system(NPU)
    spec = loaded.of_kind(NpuPimSystem)
    assert spec.bank is not None
    row_buffer = second_row_buffer(loaded.memory, spec.bank)
    found = [
        (
            "one GEMV unit of a bank, 16 multipliers and adders",
            at_45["pim_unit"] * DRAM_PENALTY,
            "attacc_unit",
            "pim_unit at 45 nm, x 1.5 for the DRAM process; theirs is double buffered, its node unknown",
        ),
        (
            "one multiply-accumulate of an array",
            at_45["ws_element"] * TO_7_NM,
            "duplex_mac",
            "ws_element at 45 nm, x (7 / 45)²; theirs is FP16 with its share of buffers",
        ),
        (
            "second row buffer, one stripe a bank",
            100 * row_buffer.stripe_a_bank,
            "neupims_row_buffer",
            "energy/area.py, lengths of a bank; no gates; theirs doubles the row buffer in CACTI",
        ),
        (
            "second row buffer, one stripe a subarray",
            100 * row_buffer.stripe_a_subarray,
            "neupims_row_buffer",
            "energy/area.py, the most that it can take",
        ),
    ]
    return [
        {
            "what": what,
            "ours": ours,
            "paper": paper[line].value,
            "unit": paper[line].unit,
            "ratio": ours / value if (value := paper[line].value) else None,
            "how": how,
            "tag": paper[line].tag,
        }
        for what, ours, line, how in found
    ]


def power(rows: Rows) -> Section:
    """Power from switching, of the blocks that were run so."""
    table = TableData(
        "Power from a run",
        [
            Column("block", "block"),
            Column("operations", "operations", "1"),
            Column("clocks", "clocks", "1"),
            Column("activity", "changes a net and clock", "1", format=".3f"),
            Column("clock_mhz", "clock", "MHz", format=",.0f"),
            Column("switching_mw", "switching", "mW", format=",.3f"),
            Column("internal_mw", "internal", "mW", format=",.3f"),
            Column("leakage_mw", "leakage", "mW", format=".2g"),
            Column("power_mw", "power at 180 nm", "mW", format=",.3f"),
            Column("energy_per_operation_nj", "an operation at 180 nm", "nJ", format=".4f"),
            Column("mismatches", "mismatches", "1"),
        ],
        rows,
        "The mapped cells in the run of `rtl verify`, whose results are the model's; no wires, clock tree, glitches. "
        "Its stimuli hold more special values and more changes than a run of a model has.",
    )
    intro = "" if rows else "Not part of this run; see `pimloom rtl power`."
    return Section("Power", "power", intro, [table] if rows else [])
