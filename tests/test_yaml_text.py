"""Texts that libyaml reads are those that PyYAML reads, to the last note and to the word that is said of them."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pimloom.arch
from pimloom.arch import yaml_text
from pimloom.arch.error import UserError

TEXTS = [path.read_text() for path in sorted(Path(pimloom.arch.__file__).parent.rglob("*.yaml"))]
ODD = st.sampled_from(
    [":", ": ", "- ", "\n", "\n  ", "#", " # c", "'", '"', "{", "}", "[", "]", ",", "|", ">-\n", "é", "\\"]
)


def read(text: str) -> object:
    try:
        return yaml_text.compose("x.yaml", text)
    except UserError as error:
        return str(error)


def read_slowly(text: str) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_text, "_ALIKE", re.compile("(?!)"))
        return read(text)


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """Some lines of a file of ours, with something odd in up to three places."""
    lines = draw(st.sampled_from(TEXTS)).split("\n")
    first = draw(st.integers(0, len(lines) - 1))
    text = "\n".join(lines[first : first + draw(st.integers(1, 12))])
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(ODD) + text[at + draw(st.integers(0, 2)) :]
    return text


@given(spoilt())
@example("-")
@example("a\t: ?\n")
@example("---\n#")
@example("{a ? b: c}")
@example("a: |#c\n  x\nb: 1\n")
@example("a:\n  >-2#\n")
def test_both_readers_read_the_same(text: str) -> None:
    assert read(text) == read_slowly(text)


def test_files_are_read_quickly() -> None:
    assert sum(yaml_text._ALIKE.fullmatch(text) is not None for text in TEXTS) > len(TEXTS) // 2
