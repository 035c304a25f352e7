"""The chapters of the RTL report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pimloom.arch.optics import load_optics
from pimloom.arch.part import Part
from pimloom.arch.system import PimSystem, list_names
from pimloom.arch.units import PS_PER_US, UM2_PER_MM2
from pimloom.reports.figures import grouped_bars
from pimloom.reports.page import Column, Figure, Notes, Section, TableData
from pimloom.reports.rtl.published import Published, beside_litedram, published

Rows = Sequence[Mapping[str, Any]]

COMMAND_BLOCKS = ("sequencer", "timer")
UW_PER_MW = 1000


class Beside(NamedTuple):
    """A published figure for so many of our blocks."""

    what: str
    units: Mapping[str, int]
    area: Published
    power: Published


def cells(rows: Rows) -> Section:
    """Standard cells: a chart of gate equivalents, and the table."""
    library = rows[0]["library"]
    mapped = rows[0]["nand2_equivalents"] is not None
    measure, words = ("nand2_equivalents", "NAND2 equivalents") if mapped else ("cells", "generic gates")
    chart = grouped_bars(
        "Size of the blocks",
        [row["block"] for row in rows],
        {words: [row[measure] or None for row in rows]},
        xlabel="block",
        ylabel=f"{words} [1]",
        caption="The scale is logarithmic.",
        log_y=True,
    )
    table = TableData(
        "Standard cells",
        [
            Column("block", "block"),
            Column("cells", "cells", "1"),
            Column("flip_flops", "flip-flops", "1"),
            Column("memory_bits", "memory", "bits"),
            Column("nand2_equivalents", "NAND2 equivalents", "1", format=",.0f"),
            Column("area_um2", "area at 180 nm", "µm²", format=",.0f"),
            Column("path_ps", "longest path at 180 nm", "ps", format=",.0f"),
        ],
        rows,
        f"Library: {library}. Cells only, memories beside; the path is without wires, setup and clock-to-output.",
    )
    return Section("Standard cells", "cells", "", [chart, table])


def beside_the_papers(rows: Rows, system: PimSystem, part: Part) -> Section:
    """Our gates beside published area and power; without a verdict, as the processes differ."""
    size = {row["block"]: row["nand2_equivalents"] for row in rows}
    lines = [line for line in _beside(system, part) if all(size.get(block) is not None for block in line.units)]
    paper = [one._asdict() | {"value": _printed(one.value)} for one in published().values()]
    tables = [
        TableData(
            "Our gates for what is published",
            [
                Column("what", "what"),
                Column("gates", "ours", "NAND2 equivalents", format=",.0f"),
                Column("area", "published area", "mm²", format=".2f"),
                Column("room", "room per gate equivalent", "µm²", format=".2f"),
                Column("power", "published power", "mW", format=".2f"),
                Column("drive", "power per gate equivalent", "µW", format=".2f"),
                Column("tag", "evidence"),
            ],
            [_line(line, size) for line in lines],
            "Room and power per gate equivalent are quotients of the columns beside them [derived]: published figures "
            "at 28 nm over our gates.",
        ),
        TableData(
            "Published figures",
            [
                Column("quantity", "quantity"),
                Column("value", "value", align="right"),
                Column("unit", "unit"),
                Column("technology", "technology"),
                Column("tag", "evidence"),
                Column("source", "source"),
            ],
            paper,
            "Evidence as everywhere in pimloom: read in the paper, in a third party's text, recalled, or derived.",
        ),
    ]
    return Section("Beside the published figures", "published", TECHNOLOGY, tables if lines else tables[1:])


TECHNOLOGY = (
    "The published ASIC is 28 nm, ours is mapped to an open 180 nm library, so areas, paths and powers cannot be held "
    "against each other and no verdict is given. What carries over is the number of gate equivalents. No published "
    "density of a 28 nm library was at hand, so none is used to scale: instead, the published area is divided by our "
    "gates, which says how much room each of them would have had."
)


def _beside(system: PimSystem, part: Part) -> list[Beside]:
    """What of ours a published figure is about."""
    paper, npu = published(), system.npu
    banks = part.organization.bank_groups * part.organization.banks_per_group
    return [
        *(
            Beside(
                f"ASIC: {npu.adders} float32 adders, {npu.multipliers} {form} multipliers",
                {"float32_add": npu.adders, multiplier: npu.multipliers},
                paper["asic_area"],
                paper["asic_power"],
            )
            for form, multiplier in (("float32", "float32_mul"), ("bfloat16", "bf16_mul"))
        ),
        Beside(f"MAC units of a channel: {banks}", {"pim_unit": banks}, paper["mac_area"], paper["mac_power"]),
    ]


def _printed(value: float | None) -> str:
    """A published value with the digits it was published with."""
    return "unknown" if value is None else f"{value:,.15g}"


def _line(line: Beside, size: Mapping[str, float]) -> dict[str, object]:
    gates = sum(count * size[block] for block, count in line.units.items())
    area, power = line.area.value, line.power.value
    return {
        "what": line.what,
        "gates": gates,
        "area": area,
        "room": None if area is None else area * UM2_PER_MM2 / gates,
        "power": power,
        "drive": None if power is None else power * UW_PER_MW / gates,
        "tag": f"area {line.area.tag}, power {line.power.tag}",
    }


def fpga(rows: Rows, system: PimSystem, part: Part) -> Section:
    """FPGA resources, and clock rates beside the needed ones."""
    rates = [
        {**row, "needed": needed_mhz(row["block"], system, part), "bound": _bound_mhz(row["path_ps"])} for row in rows
    ]
    resources = TableData(
        "FPGA resources and clock rates",
        [
            Column("block", "block"),
            Column("lut4", "LUT4", "1"),
            Column("ff", "flip-flops", "1"),
            Column("dsp", "MULT18X18D", "1"),
            Column("bram", "DP16KD", "1"),
            Column("fmax_mhz", "Fmax", "MHz", format=",.1f"),
            Column("bound", "1 / path at 180 nm", "MHz", format=",.0f"),
            Column("needed", "needed by the system", "MHz", format=",.0f"),
        ],
        rates,
        f"{rows[0]['fpga']}, out of context. A dash: the block, or a module of it, is larger than the FPGA. "
        f"Beside sequencer_axi: {beside_litedram()}.",
    )
    return Section("FPGA and clock rates", "fpga", "", [_rate_chart(rates), resources])


def _rate_chart(rates: Rows) -> Figure:
    series = {"ECP5, Fmax": "fmax_mhz", "180 nm, 1 / path": "bound", "needed by the part and the ASIC": "needed"}
    known = {name: [row[key] for row in rates] for name, key in series.items()}
    return grouped_bars(
        "Clock rates",
        [row["block"] for row in rates],
        {name: values for name, values in known.items() if any(v is not None for v in values)},
        xlabel="block",
        ylabel="clock rate [MHz]",
        caption="What an FPGA and an old process reach, and what the part's command clock, its MAC rate and the ASIC "
        "ask of 28 nm. The scale is logarithmic.",
        log_y=True,
    )


def needed_mhz(block: str, system: PimSystem, part: Part) -> float:
    """Clock that the modelled system asks of a block: of commands, of MACs, of the ASIC, or an optical part's own."""
    if block.startswith("ocs"):
        return load_optics(list_names("optics")[0]).value.clock_mhz
    if block.startswith(COMMAND_BLOCKS):
        return PS_PER_US / part.tCK_ps
    if block.startswith(("pim", "bf16")):
        return PS_PER_US / (part.tCK_ps * part.cycles("tCCD_L"))
    return float(system.npu.clock_mhz)


def _bound_mhz(path_ps: float | None) -> float | None:
    return PS_PER_US / path_ps if path_ps else None


def verification(coverage: Rows, proofs: Rows) -> Section:
    """Co-simulation and proofs, as far as they were run."""
    simulated = TableData(
        "Co-simulation with the model",
        [
            Column("block", "block"),
            Column("commands", "compared", "1"),
            Column("mismatches", "mismatches", "1"),
            Column("rules_bound", "rules that bound", "1"),
            Column("rules_total", "rules", "1"),
            Column("cycles", "clocks", "1"),
        ],
        [_without_zero_rules(row) for row in coverage],
        "Compared: commands, clock for clock, or results, bit for bit. A rule binds when it alone decides the clock of "
        "a command at least once.",
    )
    proved = TableData(
        "Proofs",
        [
            Column("block", "block"),
            Column("property", "property"),
            Column("statement", "statement"),
            Column("timings", "for"),
            Column("how", "result"),
            Column("covered", "situations reached"),
            Column("twin_failed", "broken twins fail"),
        ],
        [_proof(row) for row in proofs],
        "For any inputs; of a sequencer for any waits, or the part's own. A proof counts only if the situations that "
        "it is about can be reached, and if it fails on twins of the block that are broken on purpose.",
    )
    tables = [table for table in (simulated, proved) if table.rows]
    missing = [f"`pimloom rtl {name}`" for name, rows in (("verify", coverage), ("prove", proofs)) if not rows]
    intro = f"Not part of this run; see {' and '.join(missing)}." if missing else ""
    return Section("Verification", "verification", intro, tables)


def _proof(row: Mapping[str, Any]) -> dict[str, Any]:
    how = f"{row['result']}: {row['method']} of {row['depth']} clock{'s' * (row['depth'] > 1)}, {row['solver']}"
    return {**row, "statement": row["statement"].replace("`", ""), "how": how}


def _without_zero_rules(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row} | ({} if row["rules_total"] else {"rules_bound": None, "rules_total": None})


def assumptions() -> Section:
    """The assumptions page."""
    text = (Path(__file__).parent / "ASSUMPTIONS.md").read_text(encoding="utf-8").replace("**", "")
    parts = [part.replace("\n", " ") for part in text.split("\n\n") if not part.startswith(("#", "- "))]
    items = [line[2:] for line in text.splitlines() if line.startswith("- ")]
    return Section("Assumptions", "assumptions", "\n\n".join(parts), [Notes("What the figures leave out", items)])
