"""A report that ends early leaves no folder of its own."""

from pathlib import Path

import pytest

from pimloom.arch.files import prepare_folder
from pimloom.commands.report import make_report


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_folders_that_it_made_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    def run_study(out: Path, progress: object) -> None:
        prepare_folder(out)
        raise error

    monkeypatch.setattr("pimloom.reports.cent.study.run_study", run_study)
    (tmp_path / "there").mkdir()
    for folder in ("new", "some/more", "there"):
        with pytest.raises(error):
            make_report("cent", tmp_path / folder, True, {})
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
