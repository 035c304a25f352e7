"""Lists and mappings as values of `set` in Python: what YAML reads back is what was given."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pimloom
from pimloom.arch.document import SET, Document
from pimloom.arch.error import UserError
from pimloom.typed import settings

WORDS = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), max_size=8)
SCALARS = st.integers(-(2**60), 2**60) | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = WORDS.filter(lambda word: not word or word[0].isalpha() and word not in ("null", "true", "false"))
LISTS = st.recursive(SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=4), max_leaves=8).filter(
    lambda value: isinstance(value, list)
)


@given(LISTS)
def test_a_list_is_read_back_as_it_was_given(value: list[Any]) -> None:
    (said,) = settings({"a.b": value})
    place, _, text = said.partition("=")
    assert place == "a.b" and Document(SET, text, place).tree == value


def test_other_kinds() -> None:
    said = settings({"a": (1, 2), "b": np.array([[1, 2], [3, 4]]), "c": [{"x": 1, "y, z": "p: q"}], "d": range(3)})
    assert said == ["a=[1, 2]", "b=[[1, 2], [3, 4]]", 'c=[{x: 1, "y, z": "p: q"}]', "d=[0, 1, 2]"]


def test_counts_of_experts_as_a_list_are_those_of_the_text() -> None:
    options: dict[str, Any] = {"model": "mixtral-8x7b", "prompt": 4, "generate": 1, "layers": 1}
    runs = [
        pimloom.run("duplex", **options, set={"memory": "ideal", "contention": False, "routing.counts": counts})
        for counts in ([5, 1, 1, 1, 1, 1, 1, 1], "[5,1,1,1,1,1,1,1]", np.ones(8, int))
    ]
    assert runs[0] == runs[1] and runs[0].spec_digest != runs[2].spec_digest


@pytest.mark.parametrize("value", [{1, 2}, [{1}], [2**200], ["a\nb"], b"ab", object(), [[[[[[[[[[1]]]]]]]]]]])
def test_what_is_none_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="set: routing.counts: expected a "):
        pimloom.run("duplex", model="mixtral-8x7b", set={"routing.counts": value})


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UserError, match="set: a: expected a number, a text, a bool, or a list of them"):
        settings({"a": endless})
