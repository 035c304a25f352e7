"""Which interpreter `make setup` makes .venv with."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parent.parent / ".ci" / "setup"
OLD = "echo Python 3.8"


def built(flags: str = "", prefix: str = "/somewhere", headers: str | None = None) -> str:
    """An interpreter like ours that says it was configured with these flags, for there, with its headers or others."""
    told = f"import sys, sysconfig; sys.base_prefix = {prefix!r}"
    told += f"; sysconfig.get_config_vars()['CONFIG_ARGS'] = {flags!r}"
    if headers:
        told += f"; sysconfig.get_path = lambda name: {headers!r}"
    ours = shlex.quote(sys.executable)
    return f'[ "$1" = -c ] || exec {ours} "$@"\nexec {ours} -c {shlex.quote(told + "; exec(sys.argv[1])")} "$2"'


PLAIN = built("'--prefix=/somewhere' '--enable-shared'")  # as pyenv has it
FAST = built("'--enable-optimizations' '--with-lto'")
DISTRIBUTION = built("'--prefix=/usr' '--without-ensurepip'", prefix="/usr")
HEADLESS = built("'--enable-optimizations'", headers="/nowhere")


def chosen(
    folder: Path, interpreters: dict[str, str], wanted: str | None = None, script: Path = SETUP
) -> subprocess.CompletedProcess[str]:
    """What `.ci/setup python` says where these are found first."""
    for name in ("python3", "python3.13", "python3.12", "python3.11"):  # the machine's own are hidden
        file = folder / name
        file.write_text(f"#!/bin/sh\n{interpreters.get(name, OLD)}\n")
        file.chmod(0o755)
    given = {k: v for k, v in os.environ.items() if k != "PYTHON"} | ({"PYTHON": wanted} if wanted else {})
    given["PATH"] = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(["bash", script, "python"], check=False, capture_output=True, text=True, env=given)


@pytest.mark.parametrize(
    ("interpreters", "name"),
    [
        ({"python3": FAST, "python3.13": FAST}, "python3"),
        ({"python3": PLAIN, "python3.12": FAST}, "python3.12"),
        ({"python3": OLD, "python3.13": PLAIN, "python3.11": FAST}, "python3.11"),
        ({"python3": DISTRIBUTION, "python3.13": FAST}, "python3"),
        ({"python3": PLAIN, "python3.13": HEADLESS, "python3.12": DISTRIBUTION}, "python3.12"),
    ],
)
def test_the_first_that_is_built_with_optimizations(tmp_path: Path, interpreters: dict[str, str], name: str) -> None:
    run = chosen(tmp_path, interpreters)
    assert run.returncode == 0
    assert run.stdout.endswith(f"the interpreter for .venv is {tmp_path / name}\n")
    passed_over = PLAIN in interpreters.values()
    assert ("is built without optimizations (PYTHON=" in run.stdout) == passed_over


def test_one_that_is_named_is_taken(tmp_path: Path) -> None:
    run = chosen(tmp_path, {"python3": FAST, "python3.12": PLAIN}, wanted="python3.12")
    assert run.stdout == f"setup: the interpreter for .venv is {tmp_path / 'python3.12'}\n"


def test_one_that_is_named_and_too_old_is_refused(tmp_path: Path) -> None:
    run = chosen(tmp_path, {"python3": FAST}, wanted="python3.11")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "setup: PYTHON is python3.11, expected Python 3.11 to 3.13; it says: Python 3.8\n"


@pytest.mark.parametrize(("named", "says"), [("true", ""), ("/nowhere/python3", "No such file or directory")])
def test_what_is_no_python_is_refused(tmp_path: Path, named: str, says: str) -> None:
    run = chosen(tmp_path, {"python3": FAST}, wanted=named)
    assert (run.returncode, run.stdout) == (2, "") and says in run.stderr
    assert run.stderr.startswith(f"setup: PYTHON is {named}, expected Python 3.11 to 3.13; it says: ")


def test_the_distributions_comes_last_and_where_none_is_built_so_the_first(tmp_path: Path) -> None:
    last, script = tmp_path / "distribution", tmp_path / ".ci" / "setup"
    script.parent.mkdir()
    script.write_text(SETUP.read_text().replace(" /usr/bin/python3;", f" {last};"))
    interpreters = {"python3": OLD, "python3.12": PLAIN, "python3.11": PLAIN}
    for kind, name in ((DISTRIBUTION, "distribution"), (HEADLESS, "python3.12"), (OLD, "python3.12")):
        last.write_text(f"#!/bin/sh\n{kind}\n")
        last.chmod(0o755)
        run = chosen(tmp_path, interpreters, script=script)
        assert run.stdout.endswith(f"setup: the interpreter for .venv is {tmp_path / name}\n")
    none = chosen(tmp_path, {}, script=script)
    assert none.returncode == 2
    assert none.stderr.startswith("setup: Python 3.11, 3.12 or 3.13 is needed, but found")
