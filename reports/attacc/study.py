"""Study `attacc`: commands, cycles and decode steps beside those of the authors' simulator, what slips are worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.files import prepare_folder
from pimloom.arch.system import load_system
from pimloom.arch.units import S_PER_MS
from pimloom.arch.version import __version__
from pimloom.reports.attacc import further
from pimloom.reports.attacc.measured import HERE, counts_of, cycles_of, rows_of, step_of
from pimloom.reports.figures import lines, stacked_bars
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
from pimloom.systems.devices.attacc.outcome import AttAccOutcome

CYCLES = {"bank": 0.03, "bg": 0.05, "buffer": 0.05}  # tolerances [design]
STEP, ENERGY = 0.02, 0.01  # [design]
BATCHES = (1, 4, 16, 32, 48)
GROUPS = {  # parts of a step, and what they are drawn as
    "attention": ("score", "softmax", "context"),
    "matrices": ("qkv", "projection", "up", "gate", "down"),
    "links": ("all-reduce 1", "all-reduce 2", "transfer"),
    "others": ("activation", "norm 1", "norm 2"),
}
Progress = Callable[[int, int], None]


class Run(NamedTuple):
    """A decode step that was measured; ours as released, and without the slips if the requests fit."""

    row: dict[str, str]
    released: AttAccOutcome
    physical: AttAccOutcome | None


def run_study(out: str | Path, progress: Progress) -> Path:
    """Run all and write the report into folder `out`; returns the page. Raises GateError, when all is written, if a
    hard gate does not hold."""
    folder = prepare_folder(out)
    counts, cycles, steps = rows_of("counts.csv"), rows_of("cycles.csv"), rows_of("steps.csv")
    count = counting(len(counts) + len(cycles) + len(steps) + len(BATCHES) + 1, progress)
    checks: list[dict[str, object]] = []
    for row in counts:
        checks += _counts(row)
        count()
    found = []
    for row in cycles:
        found.append((row, cycles_of(row)))
        checks.append(_cycles(*found[-1]))
        count()
    runs = []
    for row in steps:
        runs.append(Run(row, step_of(row, "released"), _corrected(row)))
        checks += _step(runs[-1])
        count()
    checks += further.checks(found, runs[2].released)
    count()
    over_batch = []
    for batch in BATCHES:
        over_batch.append((batch, _throughput(steps[3], batch), _throughput(steps[6], batch)))
        count()
    both = [(run.row["name"], found) for run in runs for found in (run.released, run.physical) if found]
    points = [{"name": name, **_flat(found)} for name, found in both]
    written = write_study(folder, _page(runs, checks, over_batch), points, [f.to_dict() for _, f in both], checks)
    return gated(written, checks)


def _corrected(row: dict[str, str]) -> AttAccOutcome | None:
    try:
        return step_of(row, "physical")
    except UserError:  # the authors' code does not ask whether requests fit
        return None


def _throughput(row: dict[str, str], batch: int) -> float:
    return batch / step_of({**row, "batch": str(batch), "generated": "16", "prompt": "1024"}, "physical").mean_s


def _counts(row: dict[str, str]) -> list[dict[str, object]]:
    found, what = counts_of(row), f"{row['heads']} heads of {row['head_dim']}, {row['context']} tokens"
    kinds = ("MAC", "SFM", "MVGB", "MVSB", "WRGB")
    return [_check(f"{kind}: {what}", found[kind], row[kind], "commands", 0, "FAIL", "derived") for kind in kinds]


def _cycles(row: dict[str, str], ours: int) -> dict[str, object]:
    limit = "" if row["limited"] == "yes" else ", no power limit"
    what = f"{row['placement']}{limit}: {row['heads']} heads of {row['head_dim']}, {row['context']} tokens"
    return _check(what, ours, row["cycles"], "CK", CYCLES[row["placement"]])


def _step(run: Run) -> list[dict[str, object]]:
    row, ours = run.row, run.released
    found = [_check(f"{row['name']}: step", ours.mean_s / S_PER_MS, row["step_ms"], "ms", STEP)]
    if row["step_j"]:
        found.append(_check(f"{row['name']}: energy", ours.mean_j, row["step_j"], "J", ENERGY))
    return found


def _check(
    what: str, ours: float, theirs: str, unit: str, tolerance: float, miss: str = "deviates", basis: str = PREDICTED
) -> dict[str, object]:
    said = f"{tolerance:.0%}" if tolerance else "exact"
    return compared(what, ours, float(theirs), unit, tolerance, said, miss, "derived", basis=basis)


def _page(runs: Sequence[Run], checks: Rows, over_batch: Sequence[tuple[int, float, float]]) -> Page:
    system = load_system("attacc")
    return Page(
        "AttAcc: stacks of HBM that attend",
        "Decode steps of GPUs that leave attention to stacks beside them: commands one by one, beside the authors' "
        "simulator.",
        [
            reproduction_section(INTRO, checks, "tolerance"),
            Section("Throughput over batch", "batch", BATCH, [_batches(over_batch)]),
            Section("Where the time goes", "time", TIME, [_parts(runs)]),
            Section("What the slips are worth", "slips", SLIPS, [_slips(runs)]),
            Section("What the paper claims", "headline", HEADLINE, [headline(checks)]),
            assumptions(HERE),
        ],
        passed_cards(checks, against),
        {
            "pimloom": __version__,
            "system": f"attacc, digest {system.digest}",
            "made by": "pimloom report attacc",
        },
        _claim(runs, checks),
    )


def against(check: Mapping[str, object]) -> str:
    """The reference of a check: the paper, the authors' source, or runs of their simulator."""
    if str(check["check"]).startswith(further.GAIN):
        return "the paper, by a third party's notes"
    return "the source" if check["tag"] == "secondary" else "runs of the simulator"


INTRO = (
    "Counts of commands follow from the closed form and are those of the generated streams. Cycles are compared with "
    "fresh runs of the simulator, steps with its end-to-end runs, both as released; constants and distances of "
    "commands with those of its source. Gains that the paper states, by a third party's notes, stand beside ours of "
    "equal requests: the mix of requests behind the paper's is not known."
)
BATCH = (
    "GPT-3 175B behind prompts of 1,024 tokens, without the slips. Matrices are read once for all requests, keys and "
    "values for each: the more requests, the more the stacks are worth."
)
TIME = "As released. The stacks take attention off the GPUs; what is left is matrices and links."
SLIPS = (
    "As released wires take pJ/bit times bytes, probabilities times values cost nothing on the stacks, first heads of "
    "a pair count twice, each stack draws what the fullest one does, and a GPU's memory is slower where its blocks do "
    "not fill the multiprocessors."
)
HEADLINE = (
    "From a third party's notes; the mix of requests behind them is not known. Ours are of 2,048 + 128 tokens, on each "
    "system with as many requests as fit; what DGX_Large is the notes do not say, so that it has none of ours."
)


def _claim(runs: Sequence[Run], checks: Rows) -> Claim:
    """Beside the authors' simulator, and beside the paper as far as ours has such a model."""
    gpu, ours = runs[3], runs[6]
    gain = gpu.released.mean_s / ours.released.mean_s
    theirs = float(gpu.row["step_ms"]) / float(ours.row["step_ms"])
    what = (
        "the authors' simulator: GPT-3 175B, batch 54 (more than eight GPUs hold, which it does not ask): stacks with "
    )
    said = [ClaimLine(f"{what}all options over eight GPUs", f"{gain:.3f}", f"{theirs:.3f}", "×")]
    held = [abs(gain / theirs - 1) <= STEP]
    for check in checks:
        if "over DGX_Base" in str(check["check"]):
            name = str(check["check"]).removeprefix(further.GAIN)
            unit = "×" if check["tolerance"] else ""
            said.append(ClaimLine(f"the paper: {name}", str(check["ours"]), str(check["published"]), unit))
            held.append(check["verdict"] == "pass")
    why = f"The authors' simulator is {'met' if held[0] else 'missed'}; the paper's gains, of an unknown mix of "
    why += "requests, are not all met by equal requests."
    found = claim(said, held, "The simulator is met, and so are the paper's gains.", why)
    heading = "Gains: of the authors' simulator, and of the paper as a third party notes them"
    return replace(found, heading=heading, theirs="theirs")


def _batches(over_batch: Sequence[tuple[int, float, float]]) -> Figure:
    series = {
        "eight GPUs": [(batch, gpu) for batch, gpu, _ in over_batch],
        "with 40 stacks": [(batch, stacks) for batch, _, stacks in over_batch],
    }
    return lines("Throughput of decode", series, xlabel="batch [requests]", ylabel="throughput [tokens/s]")


def _parts(runs: Sequence[Run]) -> Figure:
    shown = [run for run in runs if run.row["batch"] == "54"]
    series = {
        group: [1e3 * sum(run.released.step_by_part_s.get(part, 0.0) for part in parts) for run in shown]
        for group, parts in GROUPS.items()
    }
    names = [run.row["name"].removesuffix(", batch 54") for run in shown]
    return stacked_bars("A decode step of GPT-3 175B, batch 54", names, series, xlabel="system", ylabel="time [ms]")


def _slips(runs: Sequence[Run]) -> TableData:
    rows = []
    for run in runs:
        a, b = run.released, run.physical
        rows.append({
            "name": run.row["name"], "released_ms": a.mean_s / S_PER_MS,
            "corrected_ms": b.mean_s / S_PER_MS if b else None, "released_j": a.mean_j,
            "corrected_j": b.mean_j if b else None, "energy": 100 * (b.mean_j / a.mean_j - 1) if b else None,
        })  # fmt: skip
    return TableData(
        "As released and corrected",
        [
            Column("name", "run"),
            Column("released_ms", "step, as released", "ms", format=",.2f"),
            Column("corrected_ms", "corrected", "ms", format=",.2f"),
            Column("released_j", "energy of a step, as released", "J", format=",.2f"),
            Column("corrected_j", "corrected", "J", format=",.2f"),
            Column("energy", "difference of energy", "%", format="+.1f"),
        ],
        rows,
        "A dash: keys and values of these requests do not fit beside the weights; the authors' code does not ask.",
    )


def headline(checks: Rows) -> TableData:
    """The paper's gains; ours are rows of the checks, named by the model."""
    rows = []
    for row in rows_of("headline.csv"):
        of_model = further.GAIN + further.said_of(row["model"])
        own = [check for check in checks if str(check["check"]).startswith(of_model)]
        over, saved = own or ({"ours": None, "verdict": None},) * 2
        rows.append({
            "model": row["model"], "ours": over["ours"], "over_base": float(row["over_base"]),
            "over_verdict": over["verdict"], "over_large": float(row["over_large"]), "saved": saved["ours"],
            "energy_saved_percent": float(row["energy_saved_percent"]), "saved_verdict": saved["verdict"],
        })  # fmt: skip
    return TableData(
        "Gains of the paper, and ours",
        [
            Column("model", "model"),
            Column("ours", "over eight GPUs, ours", "×", align="right"),
            Column("over_base", "over DGX_Base, the paper", "×", format=".2f"),
            Column("over_verdict", "verdict", verdict=True),
            Column("over_large", "over DGX_Large, the paper", "×", format=".2f"),
            Column("saved", "energy of a token saved, ours", "%", align="right"),
            Column("energy_saved_percent", "the paper", "%", format=".1f"),
            Column("saved_verdict", "verdict", verdict=True),
        ],
        rows,
        "Does not fit: at 16 bits the weights are more than eight GPUs hold.",
    )


def _flat(found: AttAccOutcome) -> dict[str, object]:
    kept = ("system", "model", "fidelity", "gpus", "stacks", "batch", "prompt_tokens", "generated_tokens", "step_s",
            "step_j", "tokens_per_s", "prefill_s")  # fmt: skip
    return {name: getattr(found, name) for name in kept}
