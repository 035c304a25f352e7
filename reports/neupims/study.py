"""Study `neupims`: throughput, ablation and departures of NeuPIMs and its baselines beside the published values."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import asdict

from pimloom import __version__
from pimloom.arch.system import load_system
from pimloom.reports.files import prepare_folder, write_atomic, write_json, write_table_csv
from pimloom.reports.neupims import device, sections, timeline
from pimloom.reports.neupims.checks import Findings, reproduction_rows
from pimloom.reports.neupims.needed import needed
from pimloom.reports.neupims.points import CONTENDERS, DEFAULT, FULL, Point, Scope, all_points, run_points, there
from pimloom.reports.npu_pim.serve import Served
from pimloom.reports.page import Card, Column, Page, Section, TableData, render

TITLE = "NeuPIMs, reproduced"
Progress = Callable[[int, int], None]


def run_study(
    out: str | Path,
    progress: Progress = lambda done, total: None,
    *,
    full: bool = False,
    scope: Scope | None = None,
) -> Path:
    """Simulate everything and write `index.html`, `results.csv`, `results.json` and `timeline.json` into folder `out`.

    `progress(done, total)` counts simulations. full: all models and batches of the paper, hours; scope: something else
    altogether. Returns the page. Raises UserError if the folder cannot be written.
    """
    folder, scope = prepare_folder(out), scope or (FULL if full else DEFAULT)
    points, done = all_points(scope), 0

    def count() -> None:
        nonlocal done
        done += 1
        progress(done, len(points))

    found = Findings(scope, run_points(points, scope.seed, done=count))
    checks, recorded = reproduction_rows(found), timeline.record(scope)
    page = render(build_page(found, checks, recorded))
    write_table_csv(folder / "results.csv", [flat_row(point, found.results[point]) for point in points])
    write_json(folder / "results.json", {"results": results_json(found, points), "checks": checks})
    write_atomic(folder / "timeline.json", timeline.trace(recorded))
    write_atomic(folder / "index.html", page)
    return folder / "index.html"


def build_page(found: Findings, checks: list[dict[str, object]], recorded: timeline.Recorded) -> Page:
    """The whole report."""
    known = [check["verdict"] for check in checks if check["verdict"] != "report only"]
    cell = found.scope.departures
    cards = [Card("Checks passed", f"{known.count('pass')} of {len(known)}", "", "the others deviate and are shown")]
    for who in ("pim", "npu"):
        ratio = found.over("served", who, cell)
        if ratio is not None:
            cards.append(Card(f"NeuPIMs over {CONTENDERS[who].title}", f"{ratio:.2f}", "×", f"{cell.text}, physical"))
    mine = found.served(Point("served", cell))
    if mine:
        cards.append(Card("NeuPIMs", round(mine.tokens_per_s), "tokens/s", f"{cell.text}, {mine.tp} devices"))
    return Page(
        TITLE,
        "NPU and PIM together for batched LLM inference (Heo et al., ASPLOS 2024): NPU-only, NPU+PIM and NeuPIMs "
        "simulated command by command, one decode iteration of a batch at a time.",
        [
            Section("Reproduction", "reproduction", INTRODUCTION, [reproduction_table(checks)]),
            sections.throughput(found),
            sections.ablation(found),
            sections.departures(found),
            needed(found),
            timeline.section(recorded),
            device.utilisation(found),
            device.energy(found),
            device.area(),
            sections.assumptions(),
        ],
        cards,
        _facts(found),
    )


def _facts(found: Findings) -> dict[str, object]:
    systems = dict.fromkeys(c.system for who, c in CONTENDERS.items() if there(who))
    return {
        "pimloom": __version__,
        "systems": ", ".join(f"{name} {load_system(name).digest}" for name in systems),
        "seed": f"{found.scope.seed} (of the request lists)",
        "made by": "pimloom report neupims" + (" --full" if found.scope == FULL else ""),
    }


INTRODUCTION = (
    "A check passes or deviates by the tolerance in its row, chosen before the first run; the rest is reported "
    "without a verdict, because a definition or a machine is not known. `physical` repairs the known faults of the "
    "released simulator but for made-up addresses and unlimited pads; "
    "`released` has them, and its rows compare us with that simulator's ratios, which are of the "
    "authors' lists where ours are drawn. Evidence says how the published value is known. A second gate is the test "
    "suite: stage by stage against the released simulator on the authors' own lists (`tests/test_npu_pim.py`, "
    "`docs/npu_pim.md`)."
)


def reproduction_table(checks: list[dict[str, object]]) -> TableData:
    """Our value, the published value, the deviation and the verdict."""
    return TableData(
        "Our values beside the published ones",
        [
            Column("check", "check"),
            Column("verdict", "verdict", verdict=True),
            Column("ours", "ours", align="right"),
            Column("published", "published", align="right"),
            Column("unit", "unit"),
            Column("deviation", "deviation", "%", format="+.1f"),
            Column("tolerance", "tolerance"),
            Column("version", "whose"),
            Column("tag", "evidence"),
        ],
        checks,
        "Deviation: how far our value, or the worse end of our range, lies outside the published value or range. "
        "Means are over all cells of the throughput table.",
    )


NESTED = ("stages_cyc", "operators_cyc", "commands", "energy_pj_by_cause", "iteration_energy_by_cause_j")


def flat_row(point: Point, found: Served | str) -> dict[str, object]:
    """One line of results.csv; what has parts is in results.json."""
    row: dict[str, object] = {
        "contender": CONTENDERS[point.who].title,
        "system": CONTENDERS[point.who].system,
        "model": point.cell.model,
        "data_set": point.cell.data,
        "batch": point.cell.batch,
        "fidelity": point.fidelity,
        "switched_fault": point.flip or None,
        "one_pipeline_stage": point.one_stage,
        "error": found if isinstance(found, str) else None,
    }
    names = [name for name in Served.__struct_fields__ if name not in NESTED and name not in row]
    return row | {name: None if isinstance(found, str) else getattr(found, name) for name in names}


def results_json(found: Findings, points: list[Point]) -> list[dict[str, object]]:
    """All results with what they are of."""
    rows = []
    for point in points:
        result = found.results[point]
        what: dict[str, object] = {"contender": point.who, "data_set": point.cell.data, "switched_fault": point.flip}
        what |= {"one_pipeline_stage": point.one_stage, "fidelity": point.fidelity}
        if isinstance(result, str):
            rows.append(what | {"error": result, "model": point.cell.model, "batch": point.cell.batch})
        else:
            rows.append(asdict(result) | what | {"error": None})
    return rows
