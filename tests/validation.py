"""`docs/validation.md`: what each model was checked against, blind or fitted, in how many cases, with what worst error.

`python -m tests.validation` writes the page. Cases are counted in the tables and the reference data that the tests
read; a bound is the constant that a test asserts. Checks of studies are recorded in `tests/recorded_checks.csv`:
`python -m tests.validation FOLDER` records them again from FOLDER/STUDY/results.json, which `pimloom report STUDY --out
FOLDER/STUDY` writes. A test runs the studies and compares. Each row names its test or command.
"""

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pimloom.reports.attacc.study
import pimloom.reports.cent.study
import pimloom.reports.duplex.study
import pimloom.reports.neupims.study
import pimloom.reports.pim_gpt.study
from pimloom.reports.attacc.measured import rows_of as attacc_rows
from pimloom.reports.reproduction import BASES, against_paper
from pimloom.reports.reproduction import rows_of as csv_rows
from tests import test_mfu, test_neupims_golden, test_serving_real
from tests.aim_programs import MEASURED
from tests.reference_data import data_folder, folders

PAGE = Path(__file__).parent.parent / "docs" / "validation.md"
EQUAL = "none: equal"


RECORDED = Path(__file__).parent / "recorded_checks.csv"
NOT_JUDGED = "report only"
RELEASED = (
    "the released simulator",
    "runs of the simulator",
    "the simulator",
    "shipped results",
)  # with --fidelity released
STUDIES: Mapping[str, tuple[str, Callable[[Mapping[str, object]], str]]] = {  # name on the page; reference of a check
    "pim-gpt": ("PIM-GPT", pimloom.reports.pim_gpt.study.against),
    "neupims": ("NeuPIMs", pimloom.reports.neupims.study.against),
    "attacc": ("AttAcc", pimloom.reports.attacc.study.against),
    "cent": ("CENT", pimloom.reports.cent.study.against),
    "duplex": ("Duplex", pimloom.reports.duplex.study.against),
    "infinitehbd": ("InfiniteHBD", against_paper),
}


class Recorded(NamedTuple):
    """A check of a study. against: what it compares with; deviation: of our value [%], empty if not numeric."""

    study: str
    check: str
    against: str
    basis: str
    verdict: str
    deviation: str


class Check(NamedTuple):
    """A row of the page. against: what the model was checked against; basis: one of BASES; cases: their number, or
    `random`; worst: the largest error, measured or allowed by the test; test: the test file, or the study's command."""

    model: str
    against: str
    basis: str
    cases: str
    worst: str
    test: str


def _within(share: float) -> str:
    return f"at most {100 * share:g} %"


def _folders(*places: str) -> str:
    return str(sum(len(folders(place)) for place in places))


def recorded_of(study: str, folder: Path) -> list[Recorded]:
    """The checks in the `results.json` of a study, in their order, with deviations rounded to 0.01 %."""
    checks = json.loads((folder / "results.json").read_text(encoding="utf-8"))["checks"]
    return [
        Recorded(
            study, check["check"], STUDIES[study][1](check), check["basis"], check["verdict"],
            "" if check["deviation"] is None else f"{float(check['deviation']) + 0.0:.2f}".replace("-0.00", "0.00"),
        )
        for check in checks
    ]  # fmt: skip


def record(folder: Path) -> None:
    """Record the checks of the studies whose results are in the folder. Records of other studies do not change."""
    there = [study for study in STUDIES if (folder / study / "results.json").exists()]
    found = {study: recorded_of(study, folder / study) for study in there}
    kept = {study: [row for row in recorded() if row.study == study] for study in STUDIES}
    with RECORDED.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(Recorded._fields)
        out.writerows(row for study in STUDIES for row in found.get(study, kept[study]))


def recorded() -> list[Recorded]:
    """All recorded checks."""
    if not RECORDED.exists():
        return []
    return [Recorded(**row) for row in csv_rows(RECORDED.parent, RECORDED.name)]


def _study(study: str) -> list[Check]:
    """The rows of a study: one for each basis and reference of its checks."""
    groups = dict[tuple[str, str], list[Recorded]]()
    for row in recorded():
        if row.study == study:
            groups.setdefault((row.basis, row.against), []).append(row)
    return [
        Check(
            STUDIES[study][0] + ", `released`" * (against in RELEASED), against, basis,
            str(len(groups[basis, against])), _worst(groups[basis, against]), f"pimloom report {study}",
        )
        for basis in BASES
        for against in dict.fromkeys(key[1] for key in groups if key[0] == basis)
    ]  # fmt: skip


def _worst(rows: Sequence[Recorded]) -> str:
    """The largest deviation with its check, of judged and of other checks; how many judged ones pass."""
    judged = [row for row in rows if row.verdict != NOT_JUDGED]
    parts = list[str]()
    if judged:
        passed = sum(row.verdict == "pass" for row in judged)
        parts.append(f"{_largest(judged)}; {passed} of {len(judged)} within tolerance")
    if len(judged) < len(rows):
        others = [row for row in rows if row.verdict == NOT_JUDGED]
        parts.append(f"not judged: {len(others)}, {_largest(others)}")
    return "; ".join(parts)


def _largest(rows: Sequence[Recorded]) -> str:
    numbers = [row for row in rows if row.deviation]
    if not numbers:
        return "not numeric"
    row = max(numbers, key=lambda row: abs(float(row.deviation)))
    off = float(row.deviation)
    return f"{off:+.1f} % ({row.check.replace('|', '/')})" if f"{off:.1f}".strip("-") != "0.0" else "below 0.05 %"


def _neupims_runs() -> str:
    path = data_folder() / "neupims"
    return str(len(csv_rows(path, "summary.csv"))) if path.is_dir() else "0"


def _pim_gpt() -> list[Check]:
    return [
        Check("PIM-GPT", "naive oracle: a machine that ticks every clock", "predicted", "random", EQUAL,
              "tests/test_machine.py"),
        Check("PIM-GPT", "float32 arithmetic: a decoder block in BF16", "predicted", "random", "BF16's rounding",
              "tests/test_functional.py"),
        *_study("pim-gpt"),
    ]  # fmt: skip


def _neupims() -> list[Check]:
    channel = len(test_neupims_golden.SOME)
    return [
        Check("NeuPIMs, `released`", "authors' simulator, request for request", "predicted", _neupims_runs(), EQUAL,
              "tests/test_neupims_released.py"),
        Check("NeuPIMs, channel", "authors' simulator, clock for clock", "predicted", str(channel), EQUAL,
              "tests/test_neupims_golden.py"),
        Check("NeuPIMs, `physical`", "naive oracle of its rules", "predicted", "random", EQUAL,
              "tests/test_neupims_random.py"),
        *_study("neupims"),
    ]  # fmt: skip


def _attacc() -> list[Check]:
    return [
        Check("AttAcc, constants and distances of commands", "authors' code", "echoed",
              str(len(attacc_rows("constants.csv")) + len(attacc_rows("rules.csv"))), EQUAL,
              "tests/test_attacc_rules.py"),
        *_study("attacc"),
    ]  # fmt: skip


def _cent() -> list[Check]:
    return [
        Check("CENT, a layer", "authors' generator and AiM simulator", "predicted", "1", EQUAL, "tests/test_cent.py"),
        *_study("cent"),
    ]


def _duplex() -> list[Check]:
    return [
        Check("Duplex, steps with an ideal memory", "plain arithmetic", "predicted", "random", EQUAL,
              "tests/test_duplex_decode.py"),
        *_study("duplex"),
    ]  # fmt: skip


def _fabrics() -> list[Check]:
    return [
        Check("Waste, placement and faults of fabrics", "naive oracle: exhaustive search of small fabrics", "predicted",
              "random", EQUAL, "tests/test_fabric_optimum.py"),
        *_study("infinitehbd"),
        Check("OCS transceiver", "naive oracle that ticks every clock, and RTL", "predicted", "random", EQUAL,
              "tests/test_ocs.py"),
    ]  # fmt: skip


def _memory() -> list[Check]:
    return [
        Check("AiM on its DMA", "AiM simulator, clock for clock", "predicted", str(len(MEASURED)), EQUAL,
              "tests/test_aim_golden.py"),
        Check("DRAMsim3's controller", "DRAMsim3, command for command", "predicted", _folders("dramsim3"), EQUAL,
              "tests/test_memory_reference.py"),
        Check("Ramulator's controllers", "Ramulator 2.1, command for command", "predicted",
              _folders("ramulator2"), EQUAL, "tests/test_memory_reference.py"),
        Check("Our own controller", "naive oracle that ticks every clock", "predicted", "random", EQUAL,
              "tests/test_controller_oracle.py"),
    ]  # fmt: skip


def _serving() -> list[Check]:
    programs = {
        "vLLM v0": "vllm_v0", "vLLM v1": "vllm_v1", "schedulers of Vidur": "vidur", "pools of DistServe": "distserve",
        "pools of Splitwise": "splitwise",
    }  # fmt: skip
    gap, real = test_serving_real.GAP, folders("serving/vllm_real")
    of_ours = sum("rtx4090" in case.name for case in real)
    return [
        *(
            Check(f"Serving: {name}", "the program itself, batch for batch", "predicted", _folders(f"serving/{place}"),
                  EQUAL, "tests/test_serving_reference.py")
            for name, place in programs.items()
        ),
        Check("Serving: all schedulers", "naive oracle of their English rules", "predicted", "random", EQUAL,
              "tests/test_schedulers.py"),
        Check("GPU roofline under vLLM", "measured hardware (RTX 4090)", "predicted", str(of_ours),
              f"times at most {100 * gap:g} % too short", "tests/test_serving_real.py"),
    ]  # fmt: skip


def _others() -> list[Check]:
    return [
        Check("Training: step, memory, search", "formulas by hand and brute force", "predicted", "random", EQUAL,
              "tests/test_training.py"),
        Check("Training: MFU of Llama 3.1 405B", "the formulas of its specification, in other code", "predicted",
              str(len(test_mfu.TABLE)), _within(0.01), "tests/test_mfu.py"),
        Check("RTL", "the model: co-simulation of every block", "predicted", "random", EQUAL,
              "tests/test_rtl_verify.py"),
        Check("RTL", "formal proofs of its properties", "predicted", "all properties", EQUAL,
              "tests/test_rtl_proofs.py"),
        Check("Composed systems", "units by themselves, timelines by hand", "predicted", "random", EQUAL,
              "tests/test_composed_timeline.py"),
    ]  # fmt: skip


NEVER: Mapping[str, str] = {
    "PIM-GPT": "measured hardware; a simulator of its authors (none is published). T4 and Xeon are rooflines with an "
    "assumed cost per kernel, not the measured baselines",
    "NeuPIMs": "`physical` as a whole: it corrects known errors of the released simulator, so no program or machine "
    "behaves like it; its energy and area",
    "AttAcc": "`physical`; measured hardware; the paper's own mix of requests",
    "CENT": "`physical`; measured hardware; batches of different lengths; static power of its host",
    "Duplex": "prompts of the paper's grid; contention between both processors; times of requests that arrive over "
    "time (only the order of the systems is checked)",
    "InfiniteHBD": "the text of the paper, which was not available; its simulator; cost with independent prices",
    "AiM": "refresh, which its simulator does not model; the device itself; energy",
    "Controllers": "measured hardware; energy, except that of DRAMsim3",
    "Serving": "interpolated prices on measured hardware; energy of a served trace",
    "GPU roofline": "single kernels on A100 and H100; energy, which is power x time",
    "Training": "a measured run",
    "RTL": "silicon; a 28 nm library (the library used has another node)",
    "OCS": "a real transceiver",
    "Composed systems": "a whole system against another program or a machine; their energies",
}
SECTIONS: Mapping[str, Callable[[], Sequence[Check]]] = {
    "PIM-GPT": _pim_gpt,
    "NeuPIMs": _neupims,
    "AttAcc": _attacc,
    "CENT": _cent,
    "Duplex": _duplex,
    "Fabrics and InfiniteHBD": _fabrics,
    "Memory": _memory,
    "Serving and GPUs": _serving,
    "Training, RTL, composed systems": _others,
}


def checks() -> list[Check]:
    """All rows, in the order of the page."""
    return [check for rows in SECTIONS.values() for check in rows()]


NEVER_IN = {  # section: models of NEVER
    "PIM-GPT": ("PIM-GPT",), "NeuPIMs": ("NeuPIMs",), "AttAcc": ("AttAcc",), "CENT": ("CENT",), "Duplex": ("Duplex",),
    "Fabrics and InfiniteHBD": ("InfiniteHBD", "OCS"), "Memory": ("AiM", "Controllers"),
    "Serving and GPUs": ("Serving", "GPU roofline"),
    "Training, RTL, composed systems": ("Training", "RTL", "Composed systems"),
}  # fmt: skip


def page() -> str:
    """The text of the page."""
    lines = [
        "# Validation",
        "",
        "Each section has a table of the checks of its models, and a list of what they were never checked against.",
        "",
        "| column | meaning |",
        "|---|---|",
        "| kind | "
        + "; ".join(f"*{basis}*: {meaning}" for basis, meaning in BASES.items())
        + ". Only predicted checks are blind; the others can hardly fail |",
        "| cases | the number of cases; *random*: the test draws them |",
        "| worst error | how far our value lies outside the reference value or range, with its case; or the largest "
        "error that the test allows. *not judged*: the reference is a value of something else |",
        "| test or command | the test that asserts the error, or the study that measures it, misses included |",
        "",
        "`python -m tests.validation` writes this page. Checks of studies are stored in `tests/recorded_checks.csv`; a "
        "test compares them with the results of `pimloom report`.",
    ]
    for name, rows in SECTIONS.items():
        lines += ["", f"## {name}", "", "| model | checked against | kind | cases | worst error | test or command |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(row[:5])} | `{row.test}` |" for row in rows()]
        lines += ["", "Never checked:", ""]
        lines += [f"- {model}: {NEVER[model]}" for model in NEVER_IN[name]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record(Path(sys.argv[1]))
    PAGE.write_text(page())
