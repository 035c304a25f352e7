"""Study `duplex`: decode steps of a grid of models beside the authors' simulator and the paper."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pimloom.arch.duplex import load_duplex
from pimloom.arch.files import prepare_folder
from pimloom.arch.version import __version__
from pimloom.reports.duplex.edap import OP_PER_BYTE, UNITS, figure, normalised
from pimloom.reports.duplex.gates import gates, routers
from pimloom.reports.duplex.grid import GRID, GridPoint, GridRow
from pimloom.reports.duplex.load import LOAD, SYSTEMS, Loaded, loaded, loads, orders
from pimloom.reports.duplex.measured import (
    BASE,
    HERE,
    TOLERANCES,
    as_s,
    over,
    own,
    point_of,
    ratios_of_s,
    rows_of,
)
from pimloom.reports.duplex.orders import means, products, signs
from pimloom.reports.figures import grouped_bars, lines
from pimloom.reports.page import Claim, ClaimLine, Column, Figure, Page, Section, TableData
from pimloom.reports.reproduction import (
    PREDICTED,
    Rows,
    assumptions,
    claim,
    compared,
    counting,
    gated,
    passed_cards,
    reproduction_section,
    write_study,
)
from pimloom.systems.devices.duplex.variants import VARIANTS

Progress = Callable[[int, int], None]
OF_PAPER = 0.05  # [design] of a ratio that the paper prints
OF_EDAP = 0.15  # [design] absolute
MEETING = (GridPoint("mixtral-8x7b", 32, 1024), GridPoint("glam-143b", 128, 512))  # where contention is told
PARTS = ("qkv", "attention", "projection", "ffn", "experts", "communication")
Found = dict[tuple[GridPoint, str], GridRow]


def run_study(out: str | Path, progress: Progress) -> Path:
    """Run all and write the report into folder `out`; returns the page. Raises GateError, when all is written, if units
    in banks are not ahead on GLaM."""
    folder = prepare_folder(out)
    count = counting(len(GRID) * len(VARIANTS) + 2 * len(MEETING) + len(SYSTEMS), progress)
    found: Found = {}
    for row in as_s():
        found[row.point, row.system] = row
        count()
    found = dict(sorted(found.items(), key=lambda one: GRID.index(one[0][0])))
    meeting: dict[tuple[GridPoint, bool], list[GridRow]] = {}
    for point in MEETING:
        for contention in (False, True):
            meeting[point, contention] = own(point, contention=contention)
            count()
    load = dict[str, Loaded]()
    for served in loaded():
        load[served.system] = served
        count()
    ours = _ratios(found)
    checks = [*gates(), *routers(), *_paper(found), *means(ours), *_order(found), *signs(ours), *_means(found)]
    checks += [*products(), *_edap(), *_grid(found), *orders(load)]
    points = [_flat(row) for row in found.values()]
    written = write_study(folder, _page(found, meeting, load, checks), points, points, checks)
    return gated(written, checks)


def _ratios(found: Found) -> dict[tuple[GridPoint, str], dict[str, float]]:
    return {(point, system): over(row, found[point, BASE]) for (point, system), row in found.items() if system != BASE}


def _order(found: Found) -> list[dict[str, object]]:
    """On GLaM, with a key and value for each head, units in banks beat every Duplex."""
    checks = list[dict[str, object]]()
    for point in dict.fromkeys(point for point, _ in found if point[0] == "glam-143b"):
        bank = found[point, "Bank-PIM"].tokens_per_s
        others = max(row.tokens_per_s for (at, name), row in found.items() if at == point and name.startswith("Duplex"))
        checks.append({
            "check": f"{_named(point)}: Bank-PIM over the best Duplex", "verdict": "pass" if bank > others else "FAIL",
            "ours": f"{bank / others:.3f}", "published": "above 1", "unit": "×",
            "deviation": 0.0 if bank > others else 100 * (bank / others - 1), "tolerance": "order", "tag": "derived",
            "basis": PREDICTED,
        })  # fmt: skip
    return checks


def _means(found: Found) -> list[dict[str, object]]:
    """Over all points, beside those of the simulator; the paper's, in `orders`, are of a wider grid, with prompts."""
    ours, theirs, checks = _ratios(found), ratios_of_s(), list[dict[str, object]]()
    for system in dict.fromkeys(system for _, system in theirs):
        for kind in ("throughput", "energy"):
            mean, other = (fmean(of[kind] for at, of in one.items() if at[1] == system) for one in (ours, theirs))
            said = f"mean of the grid: {system}, {kind} over {BASE}"
            checks.append(_check(said, mean, other, TOLERANCES[kind], "derived"))
    return checks


def _grid(found: Found) -> list[dict[str, object]]:
    ours = _ratios(found)
    return [
        _check(_said(point, system, kind), ours[point, system][kind], theirs, TOLERANCES[kind], "derived")
        for (point, system), of in ratios_of_s().items()
        for kind, theirs in of.items()
    ]


def _paper(found: Found) -> list[dict[str, object]]:
    """Beside what the authors' simulator comes to."""
    ours, checks = _ratios(found), list[dict[str, object]]()
    for row in rows_of("paper.csv"):
        at, kind = (point_of(row), row["system"]), row["kind"]
        what = f"{_said(*at, kind)}, paper; their simulator {float(row['simulator']):.3f}"
        checks.append(_check(what, ours[at][kind], float(row["paper"]), OF_PAPER, "paper"))
    return checks


def _edap() -> list[dict[str, object]]:
    """Values of the paper's figure 8; of units on DRAM dies it does not print the area, which is ours."""
    ours = normalised(list(figure(load_duplex())))
    found = list[dict[str, object]]()
    for row in rows_of("edap.csv"):
        value, theirs = ours[row["units"], int(row["op_per_byte"])], float(row["paper"])
        found.append({
            "check": f"figure 8: {row['units'].replace('_', ' ')} at {row['op_per_byte']} Op/B",
            "verdict": "pass" if abs(value - theirs) <= OF_EDAP else "deviates",
            "ours": f"{value:.2f}", "published": f"{theirs:.2f}", "unit": "of the worst",
            "deviation": 100 * (value / theirs - 1), "tolerance": f"{OF_EDAP} absolute", "tag": "paper",
            "basis": PREDICTED,
        })  # fmt: skip
    return found


def _check(what: str, ours: float, theirs: float, tolerance: float, tag: str) -> dict[str, object]:
    return compared(what, ours, theirs, "×", tolerance, f"{tolerance:.0%}", "deviates", tag, ".3f", basis=PREDICTED)


def _said(point: GridPoint, system: str, kind: str) -> str:
    return f"{_named(point)}: {system}, {kind} over {BASE}"


def _named(point: GridPoint) -> str:
    model, batch, length = point
    return f"{model} {batch}/{length}"


def _page(
    found: Found,
    meeting: Mapping[tuple[GridPoint, bool], Sequence[GridRow]],
    load: Mapping[str, Loaded],
    checks: Rows,
) -> Page:
    return Page(
        "Duplex: experts and attention on the logic die",
        "Decode steps of models with experts on an H100-class processor and HBM stacks that compute, beside the "
        "authors' simulator and the paper.",
        [
            Section("Throughput", "throughput", THROUGHPUT, [_throughput(found), _of_gpu(found)]),
            Section("Energy, delay and area", "edap", EDAP, [_products()]),
            Section("Where the time goes", "time", TIME, [_parts(found)]),
            Section("Two processors on one channel", "contention", CONTENTION, [_contention(meeting)]),
            Section("Requests that arrive", "load", LOAD, [loads(load)]),
            reproduction_section(INTRO, checks, "tolerance"),
            assumptions(HERE),
        ],
        passed_cards(checks, against),
        {"pimloom": __version__, "device": "duplex, part hbm3_duplex_5200", "made by": "pimloom report duplex"},
        _claim(found),
    )


def against(check: Mapping[str, object]) -> str:
    """The reference of a check: the paper, the authors' code, or their later simulator and arithmetic."""
    kinds = {"paper": "the paper", "secondary": "the authors' code"}
    return kinds.get(str(check["tag"]), "the authors' simulator, and arithmetic")


INTRO = (
    "Ratios to the GPU of the same point, batch and length of prompts and answers. Our memory is simulated command by "
    "command, as theirs is, at the rate of the pins; the router and tRFC are those of their simulator, in which both "
    "processors do not meet. Of what the paper says of serving only the order of its load study is here."
)
THROUGHPUT = (
    "Tokens a second over those of the GPU. Where keys and values have a head each and experts see few tokens, "
    "bandwidth is all that counts and units in banks are ahead; where they see many, these run out of arithmetic."
)
EDAP = (
    "A matrix of 16,384 x 4,096 by operations for each byte of it, each over the worst. Units in banks are the best up "
    "to 4, Logic-PIM from 8 on, as in the paper. Not all values are the paper's: the area of units on DRAM dies, "
    "which it does not print, is ours, and puts units in bank groups, the worst, about twice as far behind."
)
TIME = "Medians of the decode steps, ours and theirs."
CONTENTION = (
    "Ordinary reads fill the column commands of a channel; if bundles are read through the same command buses, "
    "co-processing gains little. With the paper's router."
)


def _claim(results: Found) -> Claim:
    ours = _ratios(results)
    said, held = [], list[bool | None]()
    for row in rows_of("paper.csv"):
        value, theirs = ours[point_of(row), row["system"]][row["kind"]], float(row["paper"])
        held.append(abs(value / theirs - 1) <= OF_PAPER)
        what = _said(point_of(row), row["system"], row["kind"])
        devices = results[point_of(row), row["system"]].devices
        said.append(ClaimLine(f"{what}, {devices} devices each", f"{value:.3f}", f"{theirs:.3f}", "×"))
    within = f"within {OF_PAPER:.0%} of the paper"
    found = claim(said, held, f"All lie {within}.", f"Not all lie {within}: see below.")
    return replace(found, heading=f"{len(said)} points of the paper's figures: model, batch/length")


def _throughput(found: Found) -> Figure:
    ours, points = _ratios(found), list(GRID)
    names = [variant.name for variant in VARIANTS if variant.name != BASE]
    series = {name: [ours[point, name]["throughput"] for point in points] for name in names}
    labels = [f"{model.partition('-')[0]} {batch}/{length}" for model, batch, length in points]
    return grouped_bars(
        "Throughput over the GPU", labels, series, xlabel="model, batch/length", ylabel="throughput over the GPU [×]"
    )


def _of_gpu(found: Found) -> TableData:
    """What the ratios are over."""
    kinds = {"tokens_per_s": "tokens/s", "mj_per_token": "mJ", "step_ms": "ms"}
    rows = []
    for row in rows_of("gpu.csv"):
        ours = found[point_of(row), BASE]
        pairs = {kind: f"{getattr(ours, kind):,.5g} / {float(row[kind]):,.5g}" for kind in kinds}
        rows.append({"point": _named(point_of(row)), **pairs})
    names = {"tokens_per_s": "throughput", "mj_per_token": "energy of a token", "step_ms": "step"}
    columns = [Column(kind, names[kind], unit, align="right") for kind, unit in kinds.items()]
    return TableData("The GPU alone: ours / the authors' simulator", [Column("point", "model"), *columns], rows)


def _products() -> Figure:
    ours = normalised(list(figure(load_duplex())))
    series = {units.replace("_", " "): [(float(ops), ours[units, ops]) for ops in OP_PER_BYTE] for units in UNITS}
    for row in rows_of("edap.csv"):
        name = f"{row['units'].replace('_', ' ')}, published"
        series.setdefault(name, []).append((float(row["op_per_byte"]), float(row["paper"])))
    return lines(
        "Energy x delay x area", series, xlabel="operations for each byte [Op/B]", ylabel="over the worst [1]",
        log_x=True, caption="Ours, and the labels printed in figure 8 of the paper.",
    )  # fmt: skip


def _parts(found: Found) -> TableData:
    rows = []
    for row in rows_of("parts.csv"):
        ours: dict[str, Any] = dict(found[point_of(row), row["system"]].parts_us)
        both = {part: f"{ours.get(part, 0.0):,.1f} / {float(row[part]):,.1f}" for part in PARTS}
        rows.append({"point": _named(point_of(row)), "system": row["system"], **both})
    columns = [Column(part, part, "µs", align="right") for part in PARTS]
    columns = [Column("point", "model"), Column("system", "system"), *columns]
    return TableData("Parts of a step: ours / the authors' simulator", columns, rows)


def _contention(meeting: Mapping[tuple[GridPoint, bool], Sequence[GridRow]]) -> TableData:
    rows = []
    for point in MEETING:
        apart, together = meeting[point, False], meeting[point, True]
        for a, b in zip(apart, together, strict=True):
            if a.system.startswith("Duplex"):
                gains = {"apart": over(a, apart[0]), "together": over(b, together[0])}
                said = {name: gain["throughput"] for name, gain in gains.items()}
                rows.append({"point": _named(point), "system": a.system, **said})
    return TableData(
        "Throughput over the GPU",
        [
            Column("point", "model"),
            Column("system", "system"),
            Column("apart", "without contention", "×", format=".3f"),
            Column("together", "with contention", "×", format=".3f"),
        ],
        rows,
    )


def _flat(row: GridRow) -> dict[str, object]:
    model, batch, length = row.point
    return {
        "model": model, "batch": batch, "length": length, "system": row.system, "devices": row.devices,
        "tokens_per_s": row.tokens_per_s, "mj_per_token": row.mj_per_token, "step_ms": row.step_ms,
    }  # fmt: skip
