"""The chapters of the NeuPIMs report on one device: utilisation, energy, area."""

from pimloom.reports.figures import grouped_bars, stacked_bars
from pimloom.reports.neupims.checks import Findings, area_percent, published
from pimloom.reports.neupims.points import BARS, COMPARED, CONTENDERS, Cell, Point, there
from pimloom.reports.page import Column, Figure, Section, TableData
from pimloom.systems.devices.npu_pim.usage import Usage, grouped_j, memory_w

USES = {
    "arrays": "multiply-accumulates",
    "gemm": "operators on the arrays",
    "comp": "COMPs",
    "attention": "operators on PIM, at least",
    "bus": "data bus",
}
ON_PIM = ("comp", "attention")
PARTS = ("npu", "pim")
DEFINED = (
    "All over the time of an iteration, of one device, all-reduces included. Multiply-accumulates: done / (arrays × "
    "128 × 128 × clocks). Operators on the arrays: time in which a GEMM (NPU-only: or its attention) runs; on PIM: the "
    "longer of logit and attend of a stage, which overlap. COMPs: commands × their 2 clocks / (channels × clocks). "
    "Data bus: reads and writes × their 2 clocks / (channels × clocks)."
)


def utilisation(found: Findings) -> Section:
    """NPU, PIM and memory bandwidth."""
    known = [who for who in COMPARED if there(who)]
    at, served = found.scope.utilisation, [who for who in BARS if who in known or who == "served"]
    rows = [_uses(at, f"{at.text} (one stage)", who, found.use(who)) for who in known]
    rows += [_uses(c, c.text, who, found.usage_of(Point(who, c))) for c in found.scope.cells for who in served]
    rows = [row for row in rows if row["arrays"] is not None]
    table = TableData(
        "Utilisation, physical",
        [
            Column("cell", "model, data set, batch"),
            Column("who", "system"),
            *(Column(name, title, "%", format=".1f") for name, title in USES.items()),
        ],
        rows,
        DEFINED + " Systems and pipelines that could not be run, or whose counts are not known, are left out.",
    )
    lines = published()
    paper = {(who, part): lines[f"{part}_use_{who}"].low for who in ("pim", "neupims") for part in PARTS}
    npu, pim = (f"{paper['pim', part]:g} % (NPU+PIM) and {paper['neupims', part]:g} % (NeuPIMs)" for part in PARTS)
    intro = (
        f"Published for 30B, ShareGPT, batch 256: NPU {npu}, PIM {pim}, the third of them about. How the paper counts "
        "is not known, so each unit is shown in two ways and nothing is checked."
    )
    return Section("Utilisation", "utilisation", intro, [*_use_chart(found, known), table])


def _uses(cell: Cell, text: str, who: str, use: Usage | None) -> dict[str, object]:
    return {"cell": text, "who": _title(who), **_shares(who, use)}


def _shares(who: str, use: Usage | None) -> dict[str, float | None]:
    """Per cent by kind of use; None of what a system does not have."""
    there = [name for name in USES if use and not (who == "npu" and name in ON_PIM)]
    return dict.fromkeys(USES) | {name: 100 * getattr(use, name) for name in there}


def _title(who: str) -> str:
    return CONTENDERS["served" if who == "neupims" else who].title


def _use_chart(found: Findings, known: list[str]) -> list[Figure]:
    cell = found.scope.departures
    uses = {who: found.usage_of(Point(who, cell)) for who in known}
    drawn = {_title(who): list(_shares(who, use).values()) for who, use in uses.items() if use}
    if not drawn:
        return []
    return [
        grouped_bars(
            f"Utilisation: {cell.text}",
            list(USES.values()),
            drawn,
            xlabel="what is used",
            ylabel="share of the iteration [%]",
            caption="Physical; definitions below the table.",
        )
    ]


def energy(found: Findings) -> Section:
    """Energy of a token, and the memory's power."""
    bars = [who for who in BARS if there(who)]
    rows: list[dict[str, object]] = []
    for cell in found.scope.cells:
        for who in bars:
            served = found.served(Point(who, cell))
            if served is None or served.iteration_energy_by_cause_j is None or not served.iteration_energy_j:
                continue
            token = 1e3 * served.tp / served.batch
            groups = grouped_j(served.iteration_energy_by_cause_j)
            parts: dict[str, object] = {name: token * j if j else None for name, j in groups.items()}
            watts = None if who == "gpu" else memory_w(served)
            rows.append(
                {"cell": cell.text, "who": CONTENDERS[who].title, "total": token * served.iteration_energy_j, **parts}
                | {"memory_w": watts, "power": served.power_w}
            )
    table = TableData(
        "Energy of a token, all devices, physical",
        [
            Column("cell", "model, data set, batch"),
            Column("who", "system"),
            Column("total", "energy per token", "mJ", format=",.2f"),
            *(Column(name, name, "mJ", format=",.2f") for name in grouped_j({})),
            Column("memory_w", "memory, one device", "W", format=",.1f"),
            Column("power", "one device", "W", format=",.1f"),
        ],
        rows,
        "Static is an assumed idle power of 90 W a device; the GPU takes its data-sheet power all the time. Pipelines "
        "are left out: their energy is not counted.",
    )
    return Section("Energy", "energy", ENERGY, [*_energy_chart(found, bars), table])


ENERGY = (
    "Memory from the part's currents, as NeuPIMs' own model has it; arrays, vector units and scratchpads from "
    "tabulated energies of 45 nm. Published are only the ratios of Table 5: 1.8 × the memory power of NPU-only, and "
    "25 % less energy at 2.4 × the speed."
)


def _energy_chart(found: Findings, bars: list[str]) -> list[Figure]:
    cell = found.scope.departures
    names, parts = list[str](), list[dict[str, float]]()
    for who in bars:
        served = found.served(Point(who, cell))
        if served and served.iteration_energy_by_cause_j:
            scale = 1e3 * served.tp / served.batch
            names.append(CONTENDERS[who].title)
            parts.append({k: scale * j for k, j in grouped_j(served.iteration_energy_by_cause_j).items()})
    if not names:
        return []
    series = {group: [part[group] for part in parts] for group in parts[0] if any(part[group] for part in parts)}
    return [
        stacked_bars(
            f"Energy of a token: {cell.text}",
            names,
            series,
            xlabel="system",
            ylabel="energy [mJ]",
            caption="Physical, all devices. About half is an assumed idle power.",
        )
    ]


def area() -> Section:
    """The second row buffer."""
    least, most = area_percent()
    line = published()["area"]
    rows: list[dict[str, object]] = [
        {
            "what": "one more stripe of sense amplifiers for each bank: the least",
            "share": least,
            "tag": "assumed lengths",
        },
        {"what": "one more for each subarray of a bank: the most", "share": most, "tag": "assumed lengths"},
        {"what": f"published: {line.source}", "share": line.low, "tag": line.tag},
    ]
    table = TableData(
        "Area of the second row buffer",
        [Column("what", "estimate"), Column("share", "of a bank", "%", format=".2f"), Column("tag", "evidence")],
        rows,
        "`energy/area.py`. The published value lies between the two, which says no more than that.",
    )
    return Section("Area", "area", "", [table])
