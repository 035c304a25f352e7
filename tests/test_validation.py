"""docs/validation.md is generated from the tests and the recorded checks, and names existing tests."""

from pathlib import Path

import pytest

from pimloom.reports.reproduction import BASES
from tests import validation
from tests.command import call
from tests.reference_data import missing

ROOT = Path(__file__).parent.parent


FAST = ("attacc",)  # seconds; the others take minutes


@pytest.mark.parametrize("study", [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in validation.STUDIES
])  # fmt: skip
def test_what_is_recorded_is_what_the_study_finds(study: str, tmp_path: Path) -> None:
    done = call("report", study, "--out", tmp_path, "--quiet")
    assert done.code == 0, done.err
    mine = [row for row in validation.recorded() if row.study == study]
    assert validation.recorded_of(study, tmp_path) == mine, f"run pimloom report {study}, and see tests/validation.py"


def test_the_worst_error_is_of_all_checks_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Misses and values that are not judged stand in the row, whatever their sign."""
    rows = [
        validation.Recorded("cent", what, "shipped results", "predicted", verdict, off)
        for what, verdict, off in (("a", "pass", "1.00"), ("b", "deviates", "-40.50"), ("c", "report only", "90.00"),
                                   ("d", "pass", ""))
    ]  # fmt: skip
    monkeypatch.setattr(validation, "recorded", lambda: rows)
    (check,) = validation._study("cent")
    assert (check.model, check.cases) == ("CENT, `released`", "4")
    assert check.worst == "-40.5 % (b); 2 of 3 within tolerance; not judged: 1, +90.0 % (c)"


@pytest.mark.reference
def test_the_page_is_what_the_tests_make_of_it() -> None:
    for place in ("dramsim3", "ramulator2", "neupims", "serving"):
        if why := missing(place):
            pytest.skip(f"cases of the page are counted in the reference data: {why}")
    assert validation.PAGE.read_text() == validation.page(), "run python -m tests.validation"


def test_every_row_names_a_test_and_says_how_many_cases() -> None:
    for check in validation.checks():
        study = check.test.removeprefix("pimloom report ")
        assert study in validation.STUDIES if study != check.test else (ROOT / check.test).is_file(), check
        assert check.cases == "random" or check.cases == "all properties" or check.cases.isdecimal(), check
        assert check.basis in BASES and check.worst and "in `pimloom" not in check.worst, check


@pytest.mark.parametrize("model", [
    "PIM-GPT", "NeuPIMs", "AttAcc", "CENT", "Duplex", "InfiniteHBD", "AiM", "Serving", "GPU roofline", "Training",
    "RTL", "OCS",
])  # fmt: skip
def test_every_model_has_checks_and_says_what_was_never_checked(model: str) -> None:
    assert any(check.model.startswith(model) for check in validation.checks()) and validation.NEVER[model]


def test_every_study_is_recorded_and_every_model_is_in_a_section() -> None:
    assert {row.study for row in validation.recorded()} == set(validation.STUDIES)
    assert sorted(sum(validation.NEVER_IN.values(), ())) == sorted(validation.NEVER)


def test_what_nobody_checked_is_not_called_blind_against_a_simulator() -> None:
    physical = [check for check in validation.checks() if "`physical`" in check.model]
    assert physical and all(check.against.startswith(("paper", "naive oracle")) for check in physical)
    assert "`physical`" in validation.NEVER["NeuPIMs"]
