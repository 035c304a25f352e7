"""Ground truth of any folder is found, and what is not there is skipped with a reason."""

from pathlib import Path

import pytest

from tests import reference_data


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIMLOOM_DATA", str(tmp_path))
    return tmp_path


def marks(parameter) -> set[str]:
    return {mark.name for mark in parameter.marks}


def test_the_folder_beside_the_checkout_unless_the_variable_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIMLOOM_DATA", raising=False)
    root = Path(__file__).resolve().parent.parent
    assert reference_data.data_folder() == root.parent / "shared" / "data"
    monkeypatch.setenv("PIMLOOM_DATA", "/some/where")
    assert reference_data.data_folder() == Path("/some/where")
    monkeypatch.setenv("PIMLOOM_DATA", "")
    assert reference_data.data_folder() == root.parent / "shared" / "data"


def test_every_folder_of_a_set_is_a_case(elsewhere: Path) -> None:
    for name in ("zeta", "a case of yours"):
        (elsewhere / "dramsim3" / name).mkdir(parents=True)
    (elsewhere / "dramsim3" / "README.md").touch()
    found = reference_data.reference_cases("dramsim3", slow=lambda case: case.name == "zeta")
    assert [parameter.values for parameter in found] == [
        (elsewhere / "dramsim3" / "a case of yours",),
        (elsewhere / "dramsim3" / "zeta",),
    ]
    assert [parameter.id for parameter in found] == ["a case of yours", "zeta"]
    assert [marks(parameter) for parameter in found] == [{"reference"}, {"reference", "slow"}]


@pytest.mark.parametrize("made", [False, True])
def test_what_is_missing_is_one_skipped_case_that_says_where(made: bool, elsewhere: Path) -> None:
    if made:
        (elsewhere / "ramulator2").mkdir()
    (only,) = reference_data.reference_cases("ramulator2")
    assert marks(only) == {"reference", "skip"}
    (skip,) = (mark for mark in only.marks if mark.name == "skip")
    said = f"no ramulator2 in {elsewhere}; PIMLOOM_DATA names the folder of the reference data"
    assert skip.kwargs["reason"] == said
    with pytest.raises(pytest.skip.Exception, match="^no ramulator2 in "):
        reference_data.needed("ramulator2")


def test_a_file_that_is_there(elsewhere: Path) -> None:
    (elsewhere / "trace.json").touch()
    assert reference_data.needed("trace.json") == elsewhere / "trace.json"
    assert reference_data.missing("trace.json") is None


def test_tests_that_use_the_data_bear_the_marker(request: pytest.FixtureRequest, reference_data: Path) -> None:
    assert request.node.get_closest_marker("reference")
