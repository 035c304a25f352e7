"""The `pimloom` command as a test calls it: in this process, which is quick, or as a process of its own."""

import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from signal import SIGINT, SIGTERM, getsignal, signal
from typing import NamedTuple
from unittest.mock import patch

import typer.main

from pimloom.cli import main

STEERING = ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
GITHUB = ("GITHUB_ACTIONS", "PY_COLORS", "FORCE_TERMINAL")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in STEERING + GITHUB} | {"COLUMNS": "80"}
PIMLOOM = (sys.executable, "-m", "pimloom")
BUILT = cache(typer.main.get_command)  # else every call would build all commands anew


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def call(*arguments: str | Path) -> Done:
    """Run `pimloom ARGUMENTS` in this process, without a terminal."""
    out, err, code = StringIO(), StringIO(), 0
    before = {number: getsignal(number) for number in (SIGINT, SIGTERM)}
    try:
        with (
            patch.object(sys, "argv", ["pimloom", *map(str, arguments)]),
            patch.object(typer.main, "get_command", BUILT),
            patch.dict(os.environ, ENVIRONMENT, clear=True),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            main()
    except SystemExit as end:
        assert isinstance(end.code, int)
        code = end.code
    finally:
        for number, handler in before.items():
            signal(number, handler)
    return Done(code, out.getvalue(), without_notice(err.getvalue()))


def without_notice(err: str) -> str:
    """Less the line that only the first run of an engine has."""
    return re.sub(r"pimloom: note: compiling .*\n", "", err)


def spawn(*arguments: str | Path, **environment: str) -> Done:
    """Run `pimloom ARGUMENTS` as a process."""
    command = [*PIMLOOM, *map(str, arguments)]
    done = subprocess.run(command, env=ENVIRONMENT | environment, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, without_notice(done.stderr))


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, every folder with None."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}
