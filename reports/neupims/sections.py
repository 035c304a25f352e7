"""The chapters of the NeuPIMs report on throughput, ablation and departures."""

from collections.abc import Mapping

from pimloom.arch.neupims import Faults
from pimloom.reports.figures import grouped_bars
from pimloom.reports.neupims.checks import Findings
from pimloom.reports.neupims.points import BARS, CONTENDERS, FIDELITIES, STEPS, Cell, Point, there, touched
from pimloom.reports.page import Column, Figure, Notes, Section, TableData

Row = Mapping[str, object]
RATIOS = (("npu", "over NPU-only"), ("pim", "over NPU+PIM"))


def throughput(found: Findings) -> Section:
    """All systems over models, batches and data sets."""
    cells = found.scope.cells
    bars = [who for who in BARS if there(who)]

    def rate(who: str, cell: Cell) -> float | None:
        served = found.served(Point(who, cell))
        return served.tokens_per_s if served else None

    charts: list[Figure | TableData | Notes] = []
    for model in dict.fromkeys(cell.model for cell in cells):
        mine = [cell for cell in cells if cell.model == model]
        series = {CONTENDERS[who].title: [_thousands(rate(who, cell)) for cell in mine] for who in bars}
        charts.append(
            grouped_bars(
                f"Throughput of {model}",
                [f"{cell.data} {cell.batch}" for cell in mine],
                series,
                xlabel="data set and batch [requests]",
                ylabel="throughput [1000 tokens/s]",
                caption="Physical. Bars that are missing could not be run; see below.",
            )
        )
    rows: list[Row] = [
        {"model": c.model, "data": c.data, "batch": c.batch, "context": _context(found, c)}
        | {who: rate(who, c) for who in bars}
        | {f"over_{who}": found.over("served", who, c) for who in bars if who != "served"}
        for c in cells
    ]
    table = TableData(
        "Throughput, physical",
        [
            Column("model", "model"),
            Column("data", "data set"),
            Column("batch", "batch", "requests"),
            Column("context", "mean context", "tokens", format=",.1f"),
            *(Column(who, CONTENDERS[who].title, "tokens/s", format=",.0f") for who in bars),
            *(
                Column(f"over_{who}", f"over {CONTENDERS[who].title}", "×", format=".2f")
                for who in bars
                if who != "served"
            ),
        ],
        rows,
        "One decode iteration of all layers; requests are the same for all systems. GPU-only is a roofline, an upper "
        "bound of the measured A100 that the paper has. Over …: NeuPIMs over it.",
    )
    return Section("Throughput", "throughput", _devices(), [*charts, table, *_refused(found)])


def _devices() -> str:
    return (
        "Devices are those of the authors' configurations: TP 4 for 7B and 13B, TP 4 and PP 2 for 30B, TP 8 and PP 4 "
        "for 175B; on GPUs all of them share each layer. NPU+PIM places requests round robin, NeuPIMs by Algorithm 2, "
        "as the paper has it, with two sub-batches from batch 256 on, as the authors' README says, else with one."
    )


def _thousands(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _context(found: Findings, cell: Cell) -> float | None:
    for who in BARS:
        if served := found.served(Point(who, cell)):
            return served.tokens / served.batch
    return None


def _refused(found: Findings) -> list[Notes]:
    """Sentences of machines that could not run."""
    notes = []
    for said, points in found.refusals().items():
        where = "; ".join(_where(point) for point in points[:6]) + ("; …" if len(points) > 6 else "")
        notes.append(f"{said} ({where})")
    return [Notes("What could not be run", notes)] if notes else []


def _where(point: Point) -> str:
    flip = f", {point.flip} switched" if point.flip else ""
    return f"{CONTENDERS[point.who].title}, {point.cell.text}, {point.fidelity}{flip}"


def ablation(found: Findings) -> Section:
    """From NPU+PIM to NeuPIMs, one idea after the other, released and physical."""
    blocks: list[Figure | TableData] = []
    for fidelity in FIDELITIES:
        cells = found.scope.ablation
        rates = {
            CONTENDERS[who].title: [_relative(found, who, cell, fidelity) for cell in cells]
            for who in STEPS
            if there(who)
        }
        blocks.append(
            grouped_bars(
                f"Ablation, {fidelity}",
                [cell.text for cell in cells],
                rates,
                xlabel="model, data set and batch [requests]",
                ylabel="throughput over NPU+PIM [×]",
                caption=CAPTIONS[fidelity],
            )
        )
    rows = [
        {"fidelity": f, "cell": cell.text}
        | {name: found.over(mine, other, cell, f) for name, (mine, other) in IDEAS.items()}
        for f in FIDELITIES
        for cell in found.scope.ablation
    ]
    table = TableData(
        "What each idea is worth",
        [
            Column("fidelity", "fidelity"),
            Column("cell", "model, data set, batch"),
            *(Column(name, name, "×", format=".2f") for name in IDEAS),
        ],
        rows,
        "Each column divides the throughput with an idea by that without it, the ideas before it being there.",
    )
    intro = (
        "Dual row buffers, then bin packing in the place of round robin, then two sub-batches. The released "
        "simulator's own ratios on the authors' lists are in the reproduction table."
    )
    return Section("Ablation", "ablation", intro, [*blocks, table])


IDEAS = {
    "dual row buffers": ("drb", "pim"),
    "bin packing": ("packed", "drb"),
    "interleaving": ("neupims", "packed"),
    "all three": ("neupims", "pim"),
    "PIM (NPU+PIM over NPU-only)": ("pim", "npu"),
}
CAPTIONS = {
    "physical": "All faults of the released simulator repaired.",
    "released": "With the faults of the released simulator.",
}


def _relative(found: Findings, who: str, cell: Cell, fidelity: str) -> float | None:
    return found.over(who, "pim", cell, fidelity)


def departures(found: Findings) -> Section:
    """What each single fault is worth in the headline ratios."""
    cell, known = found.scope.departures, [who for who, _ in RATIOS if there(who)]
    ways = FIDELITIES if found.scope.both_ways else FIDELITIES[:1]
    rows = []
    for fidelity in FIDELITIES:
        rows.append({"way": fidelity, "fault": "none switched", "meaning": "as it is"} | _ratios(found, fidelity, ""))
        for fault in found.scope.faults if fidelity in ways else ():
            row = {"way": fidelity, "fault": fault, "meaning": Faults.MEANING[fault]}
            rows.append(row | _ratios(found, fidelity, fault))
    columns = [Column("fault", "fault switched"), Column("way", "all others as in")]
    for who, title in RATIOS:
        if who in known:
            columns.append(Column(who, f"NeuPIMs {title}", "×", format=".2f"))
            columns.append(Column(f"{who}_change", "change", "%", format="+.1f"))
    table = TableData(
        "What each departure is worth",
        [*columns, Column("meaning", "what the released simulator does")],
        rows,
        f"{cell.text}. In `physical` the one fault is turned on, in `released` the one fault is repaired"
        + ("." if found.scope.both_ways else " (`--full` shows these rows).")
        + " Change: of the ratio, against no fault switched.",
    )
    charts = _departure_charts(found, known)
    intro = (
        "The released simulator departs from physics and from the paper in known ways, each of which is a switch. Two "
        "machines are divided by each other here, so a fault shows that is worth more to one of them."
    )
    return Section("Departures", "departures", intro, [*charts, table])


LARGE, SMALL = 20.0, 1.0  # change of a ratio [%]: drawn by itself; not drawn


def _departure_charts(found: Findings, known: list[str]) -> list[Figure]:
    """Faults that change a ratio much, and those that change it a little: one scale would hide the latter."""
    worth = {fault: _ratios(found, "physical", fault) for fault in found.scope.faults}
    most = {f: max((abs(_number(row[f"{who}_change"])) for who in known), default=0) for f, row in worth.items()}
    large, small = [f for f in most if most[f] >= LARGE], [f for f in most if SMALL <= most[f] < LARGE]
    drawn = {f"at least {LARGE:g} %": large, f"{SMALL:g} to {LARGE:g} %": small}
    return [
        grouped_bars(
            f"Departures that move a ratio by {by}",
            faults,
            {f"NeuPIMs {t}": [_known(worth[f][f"{w}_change"]) for f in faults] for w, t in RATIOS if w in known},
            xlabel="fault turned on alone",
            ylabel="change of the ratio [%]",
            caption=f"{found.scope.departures.text}, physical otherwise.",
        )
        for by, faults in drawn.items()
        if faults
    ]


def _number(value: object) -> float:
    return value if isinstance(value, float) else 0.0


def _known(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _ratios(found: Findings, fidelity: str, fault: str) -> dict[str, float | None]:
    cell, row = found.scope.departures, dict[str, float | None]()
    with_fault = touched(fault) if fault else ()

    def point(who: str, flip: str) -> Point:
        return Point(who, cell, fidelity, flip if who in with_fault else "")

    for who, _ in RATIOS:
        ratio = found.ratio(point("neupims", fault), point(who, fault))
        plain = found.ratio(point("neupims", ""), point(who, ""))
        row[who] = ratio
        row[f"{who}_change"] = 100 * (ratio / plain - 1) if ratio and plain else None
    return row
