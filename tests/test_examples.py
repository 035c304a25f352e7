"""The examples run as they stand, in an empty folder."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
WRITES = {"grid.py": ["channels.svg"], "search.py": [], "cluster.py": ["designs"]}


def test_every_script_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(WRITES)


def test_an_example_runs_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "grid.py"), run_name="__main__")
    out, err = capfd.readouterr()
    assert "tokens" in out and "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == WRITES["grid.py"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITES)
def test_example_runs(name: str, tmp_path: Path) -> None:
    environment = os.environ | {"MPLBACKEND": "Agg"}
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert "tokens" in done.stdout or "points" in done.stdout
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == WRITES[name]
