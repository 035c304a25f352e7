"""`docs/validation.md`: what each model was checked against, blind or fitted, in how many cases, with what worst error.

`python -m tests.validation` writes the page. Cases are counted in the tables and the reference data that the tests
walk; a bound is the constant that a test asserts. Nothing is typed twice: a row names the test that holds it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pimloom.reports.attacc.measured import rows_of as attacc_rows
from pimloom.reports.attacc.study import ENERGY, STEP
from pimloom.reports.cent.study import SOFT
from pimloom.reports.duplex.measured import TOLERANCES
from pimloom.reports.duplex.measured import rows_of as duplex_rows
from pimloom.reports.duplex.study import OF_PAPER
from pimloom.reports.published import read_published
from pimloom.reports.reproduction import BASES
from pimloom.reports.reproduction import rows_of as csv_rows
from pimloom.reports.studies import HERE
from tests import test_attacc_cycles, test_cent, test_mfu, test_neupims_golden, test_serving_real
from tests.aim_programs import MEASURED
from tests.reference_data import data_folder, folders

PAGE = Path(__file__).parent.parent / "docs" / "validation.md"
EQUAL = "none: equal"


class Check(NamedTuple):
    """model; against: what it was checked with; basis: blind, or as a check of a study is called; cases: how many;
    worst: the largest error, as the test bounds it; test: the file, and the function if one holds it."""

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


def _published(study: str) -> list[Check]:
    """Of a paper: how many figures of each basis its study has; their errors are in its report."""
    lines = read_published(HERE / study).values()
    named = {"pim_gpt": "PIM-GPT", "neupims": "NeuPIMs, `physical`", "infinitehbd": "InfiniteHBD"}[study]
    command = f"`pimloom report {study.replace('_', '-')}`"
    found = []
    for basis in BASES:
        some = [line for line in lines if line.basis == basis and "simulator" not in f"{line.version}{line.quantity}"]
        if some:
            what = "blind" if basis == "predicted" else basis
            found.append(Check(named, "paper", what, str(len(some)), f"in {command}", "tests/test_headline.py"))
    return found


def _neupims_runs() -> str:
    path = data_folder() / "neupims"
    return str(len(csv_rows(path, "summary.csv"))) if path.is_dir() else "0"


def _pim_gpt() -> list[Check]:
    return [
        Check("PIM-GPT", "naive oracle: a machine that ticks every clock", "blind", "drawn", EQUAL,
              "tests/test_machine.py"),
        Check("PIM-GPT", "float32 arithmetic: a decoder block in BF16", "blind", "drawn", "BF16's rounding",
              "tests/test_functional.py"),
        *_published("pim_gpt"),
    ]  # fmt: skip


def _neupims() -> list[Check]:
    channel = len(test_neupims_golden.SOME)
    return [
        Check("NeuPIMs, `released`", "authors' simulator, request for request", "blind", _neupims_runs(), EQUAL,
              "tests/test_neupims_released.py"),
        Check("NeuPIMs, channel", "authors' simulator, clock for clock", "blind", str(channel), EQUAL,
              "tests/test_neupims_golden.py"),
        Check("NeuPIMs, `physical`", "naive oracle of its rules", "blind", "drawn", EQUAL,
              "tests/test_neupims_random.py"),
        *_published("neupims"),
    ]  # fmt: skip


def _attacc() -> list[Check]:
    steps = attacc_rows("steps.csv")
    worst = max(test_attacc_cycles.WITHIN.values())
    return [
        Check("AttAcc, cycles of a stack", "authors' simulator, run fresh", "blind",
              str(len(test_attacc_cycles.MEASURED)), _within(worst), "tests/test_attacc_cycles.py"),
        Check("AttAcc, `released`, times of steps", "authors' simulator, end to end", "blind", str(len(steps)),
              _within(STEP), "tests/test_attacc_step.py"),
        Check("AttAcc, `released`, energies of steps", "authors' simulator, end to end", "blind",
              str(sum(bool(row["step_j"]) for row in steps)), _within(ENERGY), "tests/test_attacc_step.py"),
        Check("AttAcc, constants and distances of commands", "authors' code", "echoed",
              str(len(attacc_rows("constants.csv")) + len(attacc_rows("rules.csv"))), EQUAL,
              "tests/test_attacc_rules.py"),
    ]  # fmt: skip


def _cent() -> list[Check]:
    return [
        Check("CENT, a layer", "authors' generator and AiM simulator", "blind", "1", EQUAL, "tests/test_cent.py"),
        Check("CENT, `released`", "results that the authors ship", "blind", str(len(test_cent.SHIPPED)), _within(SOFT),
              "tests/test_cent.py"),
    ]  # fmt: skip


def _duplex() -> list[Check]:
    ratios = duplex_rows("ratios.csv")
    kinds = " and ".join(f"{100 * share:g} % of {kind}" for kind, share in TOLERANCES.items())
    return [
        Check("Duplex, decode steps over the GPU", "authors' later simulator", "blind", str(len(ratios)),
              f"in `pimloom report duplex`; tolerances {kinds}", "tests/test_duplex_decode.py"),
        Check("Duplex, decode steps over the GPU", "paper", "blind", str(len(duplex_rows("paper.csv"))),
              f"in `pimloom report duplex`; tolerance {100 * OF_PAPER:g} %", "tests/test_duplex_report.py"),
        Check("Duplex, steps with an ideal memory", "plain arithmetic", "blind", "drawn", EQUAL,
              "tests/test_duplex_decode.py"),
    ]  # fmt: skip


def _fabrics() -> list[Check]:
    return [
        Check("Waste, placement and faults of fabrics", "naive oracle: exhaustive search of small fabrics", "blind",
              "drawn", EQUAL, "tests/test_fabric_optimum.py"),
        *_published("infinitehbd"),
        Check("OCS transceiver", "naive oracle that ticks every clock, and RTL", "blind", "drawn", EQUAL,
              "tests/test_ocs.py"),
    ]  # fmt: skip


def _memory() -> list[Check]:
    return [
        Check("AiM on its DMA", "AiM simulator, clock for clock", "blind", str(len(MEASURED)), EQUAL,
              "tests/test_aim_golden.py"),
        Check("DRAMsim3's controller", "DRAMsim3, command for command", "blind", _folders("dramsim3"), EQUAL,
              "tests/test_memory_reference.py"),
        Check("Ramulator's controllers", "Ramulator 2.1, command for command", "blind", _folders("ramulator2"), EQUAL,
              "tests/test_memory_reference.py"),
        Check("Our own controller", "naive oracle that ticks every clock", "blind", "drawn", EQUAL,
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
            Check(f"Serving: {name}", "the program itself, batch for batch", "blind", _folders(f"serving/{place}"),
                  EQUAL, "tests/test_serving_reference.py")
            for name, place in programs.items()
        ),
        Check("Serving: all schedulers", "naive oracle of their English rules", "blind", "drawn", EQUAL,
              "tests/test_schedulers.py"),
        Check("GPU roofline under vLLM", "measured hardware (RTX 4090)", "blind", str(of_ours),
              f"times at most {100 * gap:g} % too short", "tests/test_serving_real.py"),
    ]  # fmt: skip


def _others() -> list[Check]:
    return [
        Check("Training: step, memory, search", "formulas by hand and brute force", "blind", "drawn", EQUAL,
              "tests/test_training.py"),
        Check("Training: MFU of Llama 3.1 405B", "the formulas of its specification, in other code", "blind",
              str(len(test_mfu.TABLE)), _within(0.01), "tests/test_mfu.py"),
        Check("RTL", "the model: co-simulation of every block", "blind", "drawn", EQUAL, "tests/test_rtl_verify.py"),
        Check("RTL", "formal proofs of its properties", "blind", "all properties", EQUAL, "tests/test_rtl_proofs.py"),
        Check("Composed systems", "units by themselves, timelines by hand", "blind", "drawn", EQUAL,
              "tests/test_composed_timeline.py"),
    ]  # fmt: skip


NEVER: Mapping[str, str] = {
    "PIM-GPT": "measured hardware; a simulator of its authors (none is published). T4 and Xeon are rooflines with an "
    "assumed cost of a kernel, not the measured baselines",
    "NeuPIMs": "`physical`: no program or machine behaves like it, because it corrects known errors of the released "
    "simulator; its energy and area",
    "AttAcc": "`physical`; measured hardware; the paper's own mix of requests",
    "CENT": "`physical`; measured hardware; batches of different lengths; static power of its host",
    "Duplex": "prompts of the paper's grid; contention of both processors; requests that arrive over time, except "
    "their order",
    "InfiniteHBD": "the text of the paper, which was not available; its simulator; costs from independent prices",
    "AiM": "refresh, which its simulator does not do; the device itself; energy",
    "Controllers": "measured hardware; energy, except that of DRAMsim3",
    "Serving": "interpolated prices on measured hardware; energy of a served trace",
    "GPU roofline": "single kernels on A100 and H100; energy, which is power x time",
    "Training": "a measured run",
    "RTL": "silicon; a 28 nm library (ours is not)",
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


def page() -> str:
    """The text of the page."""
    lines = [
        "# Validation",
        "",
        "What each model was checked against. *Blind*: the model is built without the value that it is compared with. "
        "*Derived*, *fitted* and *echoed*: as in the tables of the studies ([CONVENTIONS](../CONVENTIONS.md)); such a "
        "check can hardly fail. *Cases*: the number of cases in the tests; *drawn*: random cases. "
        "`python -m tests.validation` writes this page from the tests, and a test compares the two.",
    ]
    for name, rows in SECTIONS.items():
        lines += ["", f"## {name}", "", "| model | checked against | kind | cases | worst error | test |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(row[:5])} | `{row.test}` |" for row in rows()]
    lines += ["", "## What has never been checked", "", "| model | against |", "|---|---|"]
    lines += [f"| {name} | {what} |" for name, what in NEVER.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
