"""An empty name of a file or folder, which Python takes for the current folder, and of a system."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.cli import COMMANDS, GROUPS, command
from pimloom.options import PATHS
from tests.command import call


def params_of(found: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in getattr(found, "commands", {}).items():
        yield from params_of(inner, (*words, name))
    if not hasattr(found, "commands"):
        yield from ((words, param) for param in found.params)


EVERY = [pair for name in COMMANDS | GROUPS for pair in params_of(command(name), (name,))]


def test_each_path_has_a_metavar_of_paths() -> None:
    """`fabric waste --csv`, and all others that are read as a Path."""
    paths = [(words, param) for words, param in EVERY if param.type.name in ("path", "Path")]
    assert len(paths) > 20
    assert {param.metavar for _, param in paths} <= set(PATHS), [
        (w, p.name) for w, p in paths if p.metavar not in PATHS
    ]


@pytest.mark.parametrize(
    ("words", "param"),
    [pair for pair in EVERY if pair[1].metavar in PATHS and pair[1].opts[0].startswith("--")],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value.opts[0],
)
def test_an_empty_path_is_refused(words: tuple[str, ...], param: Any) -> None:
    done = call(*words, param.opts[-1], "")
    named = f": Invalid value for '{param.opts[-1]}': expected {PATHS[param.metavar]}, got an empty name"
    assert (done.code, done.out) == (2, "") and (named in done.err or ": Missing" in done.err), done


def test_an_empty_path_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="^html: expected a folder, got ''$"):
        pimloom.compare(["gpu_a100"], model="gpt2", generate=1, html="")
    with pytest.raises(UserError, match="^trace: expected a file, got ''$"):
        pimloom.serve("gpu_a100", model="gpt2", trace="")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("systems", ["gpu_a100,,gpu_h100", "gpu_a100,", ",gpu_a100", ""])
def test_an_empty_name_of_a_system_is_refused(systems: str) -> None:
    done = call("compare", systems, "--model", "gpt2", "--generate", "1")
    said = f"pimloom: {systems or repr(systems)}: expected names with a comma between two, got an empty name\n"
    assert (done.code, done.out, done.err) == (2, "", said)
