"""Study `neupims`: throughput, ablation and departures of NeuPIMs and its baselines beside the published values."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import asdict

from pimloom.arch.files import prepare_folder
from pimloom.arch.system import load_system
from pimloom.arch.version import __version__
from pimloom.reports.neupims import device, sections, timeline
from pimloom.reports.neupims.checks import Findings, published, reproduction_rows
from pimloom.reports.neupims.needed import needed
from pimloom.reports.neupims.points import CONTENDERS, DEFAULT, FULL, Point, Scope, all_points, run_points, there
from pimloom.reports.page import Card, Claim, ClaimLine, Column, Page
from pimloom.reports.reproduction import (
    Progress,
    assumptions,
    claim,
    counting,
    passed_cards,
    reproduction_section,
    write_study,
)
from pimloom.systems.devices.npu_pim.served import Served

TITLE = "NeuPIMs: a reproduction"


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
    points = all_points(scope)
    found = Findings(scope, run_points(points, scope.seed, done=counting(len(points), progress)))
    checks, recorded = reproduction_rows(found), timeline.record(scope)
    page = build_page(found, checks, recorded)
    rows = [flat_row(point, found.results[point]) for point in points]
    more = {"timeline.json": timeline.trace(recorded)}
    return write_study(folder, page, rows, results_json(found, points), checks, more)


def build_page(found: Findings, checks: list[dict[str, object]], recorded: timeline.Recorded) -> Page:
    """The whole report."""
    cell = found.scope.departures
    cards = passed_cards(checks, against)
    mine = found.served(Point("served", cell))
    if mine:
        cards.append(Card("NeuPIMs", round(mine.tokens_per_s), "tokens/s", f"{cell.text}, {mine.tp} devices"))
    return Page(
        TITLE,
        "NPU and PIM together for batched LLM inference (Heo et al., ASPLOS 2024): NPU-only, NPU+PIM and NeuPIMs "
        "simulated command by command, one decode iteration of a batch at a time.",
        [
            reproduction_section(
                INTRODUCTION,
                checks,
                "tolerance",
                Column("version", "whose"),
                note=" Means are over all cells of the throughput table.",
            ),
            sections.throughput(found),
            sections.ablation(found),
            sections.departures(found),
            needed(found),
            timeline.section(recorded),
            device.utilisation(found),
            device.energy(found),
            device.area(),
            assumptions(Path(__file__).parent),
        ],
        cards,
        _facts(found),
        headline(found),
    )


def against(check: Mapping[str, object]) -> str:
    """What a check compares with: the paper, or the simulator that its authors released."""
    return "the released simulator" if check["version"] == "released simulator" else "the paper"


def headline(found: Findings) -> Claim:
    """The mean ratios of the abstract beside our means over the same table of cells."""
    paper, lines, held = published(), list[ClaimLine](), list[bool | None]()
    for who in ("gpu", "npu", "pim"):
        line, ours = paper[f"over_{who}"], found.mean_over("served", who)
        text = "could not be run" if ours is None else f"{ours:.2f}"
        lines.append(ClaimLine(f"{line.quantity}, mean", text, line.text, line.unit if ours is not None else ""))
        held.append(None if ours is None else line.meets([ours]))
    cells = f"over {len(found.scope.cells)} cells of models, data sets and batches, physical"
    near = f"Our means {cells}, lie within a tenth of the published ones."
    return claim(lines, held, near, f"Not all means {cells}, lie within a tenth of the published ones: {WHY}")


def _facts(found: Findings) -> dict[str, object]:
    systems = dict.fromkeys(c.system for who, c in CONTENDERS.items() if there(who))
    return {
        "pimloom": __version__,
        "systems": ", ".join(f"{name} {load_system(name).digest}" for name in systems),
        "seed": f"{found.scope.seed} (of the request lists)",
        "made by": "pimloom report neupims" + (" --full" if found.scope == FULL else ""),
    }


WHY = (
    "our GPU is a roofline, an upper bound of the measured one, and no rule of the specification makes our baselines "
    "as slow as the published ratios need (see “What the published ratios would need”)."
)
INTRODUCTION = (
    "A check passes or deviates by the tolerance in its row, chosen before the first run; the rest is reported "
    "without a verdict, because a definition or a machine is not known. `physical` repairs the known faults of the "
    "released simulator but for made-up addresses and unlimited pads; "
    "`released` has them, and its rows compare us with that simulator's ratios, which are of the "
    "authors' lists where ours are drawn. Evidence says how the published value is known. A second gate is the test "
    "suite: clock for clock against the released simulator on the authors' own lists "
    "(`tests/test_neupims_released.py`, `docs/npu_pim.md`)."
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
