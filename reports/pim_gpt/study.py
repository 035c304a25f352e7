"""Study `pim-gpt`: the eight GPT models on PIM-GPT, our figures beside the published ones."""

from collections.abc import Mapping
from pathlib import Path

from pimloom.arch.error import GateError
from pimloom.arch.files import prepare_folder
from pimloom.arch.system import load_system
from pimloom.arch.units import S_PER_US
from pimloom.arch.version import __version__
from pimloom.reports.page import Card, Claim, ClaimLine, Page
from pimloom.reports.pim_gpt import sections
from pimloom.reports.pim_gpt.baselines import baselines
from pimloom.reports.pim_gpt.checks import Findings, published, reproduction_rows
from pimloom.reports.pim_gpt.points import MODELS, TOKENS, Point, all_points, run_points
from pimloom.reports.published import span
from pimloom.reports.reproduction import (
    Progress,
    assumptions,
    claim,
    counting,
    passed_cards,
    reproduction_section,
    write_study,
)
from pimloom.systems.devices.result import Result

TITLE = "PIM-GPT: a reproduction"


def run_study(out: str | Path, progress: Progress = lambda done, total: None) -> Path:
    """Simulate everything and write `index.html`, `results.csv`, `results.json` into folder `out`; returns the page.

    `progress(done, total)` counts simulations. Raises UserError if the folder cannot be written, and
    GateError, when all is written, if a hard gate does not hold.
    """
    folder, points = prepare_folder(out), all_points()
    found = Findings(run_points(points, done=counting(len(points), progress)))
    checks = reproduction_rows(found)
    rows = [flat_row(point, found.results[point]) for point in points]
    page = write_study(folder, build_page(found, checks), rows, results_json(found, points), checks)
    if failed := [str(check["check"]) for check in checks if check["verdict"] == "FAIL"]:
        raise GateError(f"a hard gate does not hold: {', '.join(failed)}; see {page}")
    return page


def build_page(found: Findings, checks: list[dict[str, object]]) -> Page:
    """The whole report."""
    base, small = found.base("gpt3-xl"), found.base("gpt2")
    cards = [
        *passed_cards(checks, against),
        Card("Time of a token, GPT2-small", small.time_per_token_s / S_PER_US, "µs", "exact engine, refresh on"),
        Card("Time of a token, GPT3-XL", base.time_per_token_s / S_PER_US, "µs", f"at {base.power_w or 0:.1f} W"),
    ]
    return Page(
        TITLE,
        "A hybrid processing-in-memory accelerator for GPT inference (Wu, Wang, Lu; npj Unconv. Comput. 1, 4): eight "
        "GDDR6 PIM channels and one ASIC, simulated command by command.",
        [
            reproduction_section(INTRODUCTION, checks, "class and tolerance"),
            sections.latency(found),
            sections.energy(found),
            sections.locality(found),
            baselines(found),
            sections.sensitivity(found),
            sections.capacity(found),
            assumptions(Path(__file__).parent),
        ],
        cards,
        {
            "pimloom": __version__,
            "system": f"pim_gpt, digest {load_system('pim_gpt').digest}",
            "workload": f"batch 1, no prompt, {TOKENS} generated tokens",
            "seed": "0 (nothing here is random)",
            "made by": "pimloom report pim-gpt",
        },
        headline(found),
    )


def against(check: Mapping[str, object]) -> str:
    """What a check compares with: AiM's simulator, or the paper."""
    return "the AiM simulator" if str(check["id"]).startswith("aim_") else "the paper"


def headline(found: Findings) -> Claim:
    """The ratios of the abstract."""
    paper, lines, held = published(), list[ClaimLine](), list[bool | None]()
    for short, baseline, what in (("t4", "t4", "T4"), ("cpu", "xeon_6154", "Xeon Gold 6154")):
        speed = [found.speedup(m, baseline, launch) for m in MODELS for launch in (False, True)]
        efficiency = [found.efficiency(m, baseline) for m in MODELS]
        for name, id, ours in (("speed-up", "speedup", speed), ("energy efficiency", "energy", efficiency)):
            line = paper[f"{id}_{short}"]
            lines.append(ClaimLine(f"{name} over {what}", span(ours, ".0f"), line.text, line.unit, line.basis))
            held.append(line.meets(ours))
    return claim(lines, held, f"All ranges end within a tenth of the published ones; {HOW}", HOW)


HOW = (
    "Our T4 and Xeon are rooflines of data-sheet figures, without and with an assumed cost per kernel, since how the "
    "paper measured them is unknown."
)
INTRODUCTION = (
    "Hard gates must hold exactly or to the printed digit; soft checks compare simulated figures with published ones "
    "within a stated tolerance; the rest is reported without a verdict, because its baseline is not known. Evidence "
    "says how the published value is known: read in the paper, in a third party's text, recalled, or derived.\n\n"
    "The test suite holds three more gates of the specification: six AiM golden runs (`tests/test_aim_golden.py`), the "
    "event-driven machine against a clock-by-clock one (`tests/test_machine.py`), and a decoder block in bfloat16 "
    "against float32 (`tests/test_functional.py`)."
)


def flat_row(point: Point, result: Result) -> dict[str, object]:
    """One line of results.csv: nested fields joined with a dot, units at the end of every name."""
    row: dict[str, object] = {"setting": " ".join(f"{k}={v}" for k, v in point.overrides)}
    for name, value in result.as_dict().items():
        if name in ("energy_by_cause_j", "energy_by_cell", "time_by_step_s", "command_counts"):
            continue  # in results.json
        if isinstance(value, dict):
            row |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            row[name] = value
    return row


def results_json(found: Findings, points: list[Point]) -> list[dict[str, object]]:
    """All results with their settings."""
    return [{"setting": dict(point.overrides), **found.results[point].as_dict()} for point in points]
