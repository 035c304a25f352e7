"""Files and folders that the user has no right to read: the error names them, whichever option they come by."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.inputs import unreadable
from tests.command import call

NOBODY = 65534


@contextmanager
def as_another_user() -> Iterator[None]:
    """Permission bits do not bind root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder without rights, `ro`, in the current folder."""
    with tempfile.TemporaryDirectory() as here:
        os.chmod(here, 0o755)
        monkeypatch.chdir(here)
        folder = Path("ro")
        folder.mkdir(mode=0)
        with as_another_user():
            yield folder
        folder.chmod(0o755)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("serve gpu_a100 --model gpt2 --trace ro/x.csv", "ro/x.csv"),
        ("serve gpu_a100 --model ro/config.json --arrivals burst --requests 2", "ro/config.json"),
        ("run ro/s.yaml --model gpt2", "ro/s.yaml"),
        ("compare gpu_a100,ro/s.yaml --model gpt2 --prompt 2 --generate 2", "ro/s.yaml"),
        ("sweep ro/s.yaml", "ro/s.yaml"),
        ("sweep status ro/d", "ro/d"),
    ],
)
def test_inputs_in_a_folder_without_rights(closed: Path, command: str, path: str) -> None:
    done = call(*command.split())
    assert done.code == 2 and not done.out
    assert re.fullmatch(rf"pimloom: {path}(/\S+)?: cannot be read: permission denied\n", done.err), done.err


def test_the_same_in_python(closed: Path) -> None:
    with pytest.raises(UserError, match=r"^ro/x\.json: cannot be read: permission denied$"):
        pimloom.serve("gpu_a100", model="ro/x.json", arrivals="burst", requests=2)


def test_outputs_in_a_folder_without_rights_are_not_inputs(closed: Path) -> None:
    done = call("compare", "gpu_a100", "--model", "gpt2", "--prompt", "2", "--generate", "2", "--json", "ro/x.json")
    assert (done.code, done.err) == (2, "pimloom: --json ro/x.json: not writable; choose another place\n")
    done = call("compare", "gpu_a100", "--model", "gpt2", "--prompt", "2", "--generate", "2", "--html", "ro/x")
    assert done.code == 2 and done.err.startswith("pimloom: --html ro/x: cannot write to ro/x: permission denied")


def test_an_output_that_cannot_be_made_is_no_input(tmp_path: Path) -> None:
    assert unreadable(PermissionError(13, "Permission denied", str(tmp_path / "none"))) is None
    assert unreadable(PermissionError(13, "Permission denied", str(tmp_path))) is None
    assert unreadable(FileNotFoundError(2, "No such file", "none")) is None
