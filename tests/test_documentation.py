"""What the documentation names is there: commands and their options, files, links; and lines of Python run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command import BUILT, ENVIRONMENT

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONVENTIONS.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("*.md"))
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
ROOMS = "arch|cycle_sim|docs|energy|examples|mappers|pimloom|reports|rtl|systems|tests|workload"
PATH = re.compile(rf"`((?:{ROOMS})/[\w./*-]+)`")


def lines(page: Path, word: str) -> list[str]:
    """The lines of a page's blocks of code that begin so, what stands behind `#` left out."""
    code = "\n".join(found[1] for found in BLOCK.finditer(page.read_text())).replace("\\\n", " ")
    return [line.strip() for line in code.splitlines() if line.strip().startswith(word)]


COMMANDS = [(page.name, line) for page in PAGES for line in lines(page, "pimloom ")]


def parse(command: Any, words: list[str], name: str, parent: Any = None) -> None:
    """Let the command line's own parser read the words, and run nothing. Raises its usage errors."""
    context = command.make_context(name, words, parent=parent)
    left = [*context._protected_args, *context.args]
    if hasattr(command, "resolve_command") and left:
        found, below, rest = command.resolve_command(context, left)
        parse(below, rest, found, context)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda text: text[:60])
def test_a_command_is_one_that_can_be_given(page: str, line: str) -> None:
    from pimloom.cli import app

    parse(BUILT(app), shlex.split(line, comments=True)[1:], "pimloom")


def test_there_are_commands_and_a_wrong_one_is_noticed() -> None:
    from pimloom.cli import app

    assert len(COMMANDS) > 40
    for wrong in ("run pim_gpt --model gpt2 --genrate 3", "fabric wast", "rtl emit", "run pim_gpt --generate 3"):
        with pytest.raises(Exception, match=r"(?i)no such|missing|expected|not a valid|no such command"):
            parse(BUILT(app), wrong.split(), "pimloom")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    lost = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    lost += [path for path in PATH.findall(text) if "NAME" not in path and not list(ROOT.glob(path.rstrip("/")))]
    assert not lost


@pytest.mark.slow
@pytest.mark.parametrize("line", lines(ROOT / "README.md", "python -c "))
def test_lines_of_python_run(line: str, tmp_path: Path) -> None:
    words = [sys.executable, *shlex.split(line, comments=True)[1:]]
    done = subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr
    if line.rstrip('"').endswith("_per_s)"):
        assert float(done.stdout) > 0
