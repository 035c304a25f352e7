"""The page that says what was checked is made of the tests, and names tests that are there."""

from pathlib import Path

import pytest

from tests import validation
from tests.reference_data import missing

ROOT = Path(__file__).parent.parent


@pytest.mark.reference
def test_the_page_is_what_the_tests_make_of_it() -> None:
    for place in ("dramsim3", "ramulator2", "neupims", "serving"):
        if why := missing(place):
            pytest.skip(f"cases of the page are counted in the reference data: {why}")
    assert validation.PAGE.read_text() == validation.page(), "run python -m tests.validation"


def test_every_row_names_a_test_and_says_how_many_cases() -> None:
    for check in validation.checks():
        assert (ROOT / check.test).is_file(), check
        assert check.cases == "drawn" or check.cases == "all properties" or check.cases.isdecimal(), check
        assert check.basis in ("blind", "derived", "fitted", "echoed") and check.worst, check


@pytest.mark.parametrize("model", [
    "PIM-GPT", "NeuPIMs", "AttAcc", "CENT", "Duplex", "InfiniteHBD", "AiM", "Serving", "GPU roofline", "Training",
    "RTL", "OCS",
])  # fmt: skip
def test_every_model_has_checks_and_says_what_was_never_checked(model: str) -> None:
    assert any(check.model.startswith(model) for check in validation.checks()) and validation.NEVER[model]


def test_what_nobody_checked_is_not_called_blind_against_a_simulator() -> None:
    physical = [check for check in validation.checks() if "`physical`" in check.model]
    assert physical and all(check.against.startswith(("paper", "naive oracle")) for check in physical)
    assert "`physical`" in validation.NEVER["NeuPIMs"]
