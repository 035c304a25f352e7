"""Constraints and objectives: what they mean, on a row and on a table alike; nothing else can be said in them."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.sweeping.definition.expression import Constraint, Expression, check_names, parse, parse_constraint

ROW = {"a": 6, "b": 4.0, "power_w": 2, "x.y_z.mac": 8, "links[0].gbps": 16, "on": True, "m": "gpt2", "none": None}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("2 - 3 - 4", -5),
        ("16 / 4 / 2", 2),
        ("-2 ^ 2", -4),
        ("2 ** 3 ** 2", 512),
        ("2 ^ -1", 0.5),
        ("-(a - b) * -1", 2),
        ("2 * -b", -8),
        ("a/power_w", 3),
        ("x.y_z.mac - `links[0].gbps`", -8),
        (".5e1 + 1. + 1E-1", 6.1),
        ("min(a, b, 5) + max(a, b)", 10),
        ("abs(-a) + sqrt(16) + log10(1000) + exp(0)", 14),
        ("on + 1", 2),
    ],
)
def test_value(text: str, value: float) -> None:
    assert parse(text, "here").value(ROW) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    ["none + 1", "missing", "m", "a / 0", "1 / (1 / 0)", "0 * (1 / 0)", "sqrt(0 - 1)", "log10(0)", "(0 - 8) ^ 0.5"]
    + ["9**9**9**9", "2 ^ -(9**9**9**9)", "none ^ 0", "1 ^ none", "min(1, none)", "max(none, 1)", "exp(1000) * 0"],
)
def test_a_value_that_is_not_known_is_none_and_fails_every_constraint(text: str) -> None:
    assert parse(text, "here").value(ROW) is None
    assert math.isnan(parse(text, "here").values(pd.DataFrame([ROW]))[0])
    for sign in ("<", "<=", ">", ">=", "==", "!="):
        constraint = parse_constraint(f"{text} {sign} 1", "here")
        assert constraint.violation(ROW) == math.inf
        assert not constraint.holds(ROW)
        assert not constraint.holds_all(pd.DataFrame([ROW]))[0]


def test_numbers_that_are_not_finite_or_too_large_are_not_known() -> None:
    for cell in (math.inf, -math.inf, math.nan, 10**400, "6", pd.NA, [6]):
        assert parse("a + 1", "here").value({"a": cell}) is None
    assert parse("a", "here").value({"a": np.int64(3)}) == 3
    assert parse("a", "here").value({"a": np.bool_(True)}) == 1


def test_a_text_is_at_most_as_deep_and_long_as_allowed() -> None:
    assert parse("(" * 50 + "a" + ")" * 50, "here").value(ROW) == 6
    assert parse("+".join(["a"] * 500), "here").value(ROW) == 3000
    assert parse("-" * 998 + "a", "here").value(ROW) == 6
    assert parse("^".join(["1"] * 500), "here").value(ROW) == 1
    assert parse("a + `" + "(" * 60 + "`", "here").names == {"a", "(" * 60}


WORDS = "numbers, columns, + - * / ^, comparisons and parentheses (a name with other characters stands in backticks)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__import__('os').system('ls')", f"column 1: got '_', expected {WORDS}"),
        ("a.__class__", f"column 2: got '.', expected {WORDS}"),
        ("().__class__", "column 2: expected a number, a column or '(', got ')'"),
        ("x[0]", f"column 2: got '[', expected {WORDS}"),
        ("a; b", f"column 2: got ';', expected {WORDS}"),
        ("lambda: 0", f"column 7: got ':', expected {WORDS}"),
        ("{1}", f"column 1: got '{{', expected {WORDS}"),
        ("f'{a}'", "column 2: expected an operator or the end, got \"'{a}'\""),
        ("open(1)", "column 1: unknown function 'open', expected one of abs, exp, log10, max, min, sqrt"),
        (
            "a + sqr(1)",
            "column 5: unknown function 'sqr', expected one of abs, exp, log10, max, min, sqrt; nearest: sqrt",
        ),
        ("a.b(1)", "column 1: unknown function 'a.b', expected one of abs, exp, log10, max, min, sqrt; nearest: abs"),
        ("sqrt(1, 2)", "column 1: sqrt takes 1 value, got 2"),
        ("min()", "column 5: expected a number, a column or '(', got ')'"),
        ("a +", "column 4: expected a number, a column or '(', got the end"),
        ("", "column 1: expected a number, a column or '(', got the end"),
        ("a b", "column 3: expected an operator or the end, got 'b'"),
        ("(a", "column 3: expected an operator or ')', got the end"),
        ("a < 3", "column 3: expected an operator or the end, got '<'"),
        ("a = 3", "column 3: got '=', expected a comparison such as == or !="),
        ("`a", "column 1: a ` that does not end"),
        ("1e999", "column 1: expected a finite number"),
        ("\u0663 + 1", f"column 1: got '\u0663', expected {WORDS}"),
        ("(" * 51 + "a" + ")" * 51, "column 51: expected at most 50 parentheses inside one another"),
    ],
)
def test_error(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "s.yaml:3: at $.objectives")
    start, _, end = str(caught.value).partition(": column ")
    assert "column " + end == said
    assert start.startswith("s.yaml:3: at $.objectives: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "'a': expected a comparison such as power_w < 75"),
        ("a <", "'a <': column 4: expected a number, a column or '(', got the end"),
        ("a < 1 or b", "'a < 1 or b': column 7: expected an operator or a comparison or the end, got 'or'"),
        ("a < 'x'", "expected a text beside one column and == or !=, such as workload.model != 'gpt2'"),
        ("a + 1 == 'x'", "expected a text beside one column and == or !=, such as workload.model != 'gpt2'"),
        ("1 == 'x'", "expected a text beside one column and == or !=, such as workload.model != 'gpt2'"),
        ("a == b == 'x'", "expected a text beside one column and == or !=, such as workload.model != 'gpt2'"),
        ("'x' == 'x'", "expected a text beside one column and == or !=, such as workload.model != 'gpt2'"),
        ("'x' + 1 < 2", "column 5: expected a comparison or the end, got '+'"),
        ("m == 'x", "column 6: a ' that does not end"),
    ],
)
def test_constraint_error(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_constraint(text, "here")
    assert str(caught.value).startswith("here: ")
    assert str(caught.value).endswith(said)


@pytest.mark.parametrize("text", ["(" * 10**6, "9" * 10**6, "`" + "a" * 10**6, "-" * 10**6, "a" + "**9" * 10**5])
def test_a_long_text_is_refused_at_once_and_not_printed(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UserError) as caught:
        parse(text, "here")
    assert str(caught.value) == f"here: expected at most 1000 characters of expression, got {len(text)}"
    assert time.perf_counter() - start < 60


@given(st.text(alphabet="ab.1e+-*/^()<>=!`\"'_[] ,\n\x1bé", max_size=30))
def test_any_text_is_parsed_or_refused_in_one_line(text: str) -> None:
    for parser in (parse, parse_constraint):
        try:
            parsed: Expression | Constraint = parser(text, "here")
        except UserError as error:
            assert str(error).isprintable()
            assert str(error).startswith("here: ")
        else:
            assert parsed.text == text


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        ("a < 7", -1),
        ("a < 6", math.ulp(0)),
        ("a <= 6", 0),
        ("a > 6", math.ulp(0)),
        ("a >= 6", 0),
        ("a >= 9", 3),
        ("a == 6", 0),
        ("a == 8", 2),
        ("a != 6", 1),
        ("a != 8", -2),
        ("1 < a <= 5", 1),
        ("5 < a <= 8", -1),
        ("b < a < 5 < 9", 1),
        ("m == 'gpt2'", 0),
        ('"gpt2-xl" == m', 1),
        ("m != 'gpt2-xl'", -1),
        ("m != 'gpt2'", 1),
        ("none == 'gpt2'", math.inf),
        ("a != 'gpt2'", math.inf),
        ("a ^ 400 < 1", math.inf),
        ("-1e308 < 1e308", -math.inf),
    ],
)
def test_violation(text: str, violation: float) -> None:
    constraint = parse_constraint(text, "here")
    assert constraint.violation(ROW) == violation
    assert constraint.holds(ROW) == (violation <= 0) == constraint.holds_all(pd.DataFrame([ROW]))[0]


def test_an_axis_is_named_without_its_unit() -> None:
    column_of = {"t": "t [nCK]"}
    row = {"t [nCK]": 3}
    assert parse("2 * t", "here").value(row, column_of) == 6
    assert parse("2 * t", "here").values(pd.DataFrame([row]), column_of).tolist() == [6]
    assert parse_constraint("t < 3", "here").violation(row, column_of) > 0
    assert parse_constraint("t <= 3", "here").holds_all(pd.DataFrame([row]), column_of).tolist() == [True]


def test_names() -> None:
    assert parse("a / `b c` + min(d.e, a)", "here").names == {"a", "b c", "d.e"}
    assert parse_constraint("1 < a < b", "here").names == {"a", "b"}
    assert parse_constraint("m == 'x'", "here").names == {"m"}
    check_names(parse("a + power_w", "here"), ROW)
    with pytest.raises(UserError) as caught:
        check_names(parse_constraint("power < 75", "here"), ["power_w", "latency_s"])
    assert str(caught.value) == (
        "here: 'power < 75': unknown column 'power', expected a result or an axis; nearest: power_w"
    )


Naive = Callable[[dict[str, Any]], float]
_CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(-4, 4), st.sampled_from(["x", "gpt2"]), st.floats(), st.just(10**400)
)


def _naive_number(cell: object) -> float:
    try:
        return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else math.nan
    except OverflowError:
        return math.nan


def _naive(operation: Callable[..., float], *sides: Naive) -> Naive:
    def value(row: dict[str, Any]) -> float:
        known = [side(row) for side in sides]
        try:
            result = operation(*known)
        except (OverflowError, ZeroDivisionError):
            return math.nan
        return result if all(map(math.isfinite, [*known, result])) else math.nan

    return value


def _power(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.power(x, y))  # its last bit is the library's; a root of a negative number is NaN


_LEAVES = st.one_of(
    st.sampled_from("abc").map(lambda name: (name, lambda row: _naive_number(row[name]))),
    st.integers(0, 9).map(lambda number: (str(number), lambda row: float(number))),
    st.floats(0, 1e300).map(lambda number: (repr(number), lambda row: number)),
)


def _base(text: str, sign: str) -> str:
    return f"({text})" if sign == "^" and text.startswith("-") else text  # a sign binds less than ^


def _combined(parts: st.SearchStrategy) -> st.SearchStrategy:
    signs: dict[str, Callable[[float, float], float]] = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "/": lambda x, y: x / y,
        "^": _power,
    }
    calls: dict[str, Callable[[float, float], float]] = {"min": min, "max": max}
    return st.one_of(
        st.tuples(parts, st.sampled_from(list(signs)), parts).map(
            lambda t: (f"({_base(t[0][0], t[1])} {t[1]} {t[2][0]})", _naive(signs[t[1]], t[0][1], t[2][1]))
        ),
        st.tuples(st.sampled_from(list(calls)), parts, parts).map(
            lambda t: (f"{t[0]}({t[1][0]}, {t[2][0]})", _naive(calls[t[0]], t[1][1], t[2][1]))
        ),
        parts.map(lambda t: (f"-{t[0]}", _naive(lambda x: -x, t[1]))),
    )


_EXPRESSIONS = st.recursive(_LEAVES, _combined, max_leaves=5)
_ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys("abc", _CELLS)), min_size=1, max_size=4)


@given(_EXPRESSIONS, _ROWS)
def test_row_table_and_naive_values_agree(expression: tuple[str, Naive], rows: list[dict[str, Any]]) -> None:
    text, naive = expression
    parsed = parse(text, "here")
    in_table = parsed.values(pd.DataFrame(rows, dtype=object))
    assert in_table.dtype == np.float64
    for row, cell in zip(rows, in_table, strict=True):
        alone = parsed.value(row)
        assert alone == cell or alone is None and math.isnan(cell)
        expected = naive(row)
        assert alone == expected or alone is None and math.isnan(expected)


@settings(max_examples=50)
@given(
    st.lists(_EXPRESSIONS, min_size=2, max_size=3),
    st.lists(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), min_size=2, max_size=2),
    _ROWS,
)
def test_a_constraint_holds_where_all_its_comparisons_do(
    sides: list[tuple[str, Naive]], signs: list[str], rows: list[dict[str, Any]]
) -> None:
    pairs = list(zip(sides, signs, sides[1:], strict=False))
    text = sides[0][0] + "".join(f" {sign} {right[0]}" for _, sign, right in pairs)
    constraint = parse_constraint(text, "here")
    in_table = constraint.holds_all(pd.DataFrame(rows, dtype=object))
    assert in_table.dtype == bool
    compare: dict[str, Callable[[float, float], bool]] = {
        "<": lambda x, y: x < y,
        "<=": lambda x, y: x <= y,
        ">": lambda x, y: x > y,
        ">=": lambda x, y: x >= y,
        "==": lambda x, y: x == y,
        "!=": lambda x, y: x != y,
    }
    for row, cell in zip(rows, in_table, strict=True):
        values = [parse(side[0], "here").value(row) for side in sides]
        expected = all(
            x is not None and y is not None and compare[sign](x, y)
            for x, sign, y in zip(values, signs, values[1:], strict=False)
        )
        assert constraint.holds(row) == cell == expected
        assert (constraint.violation(row) <= 0) == expected


def test_a_table_of_typed_columns() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan], "on": [True, False], "m": ["x", None]}, index=[7, 9])
    frame["n"] = pd.array([3, None], dtype="Int64")
    assert parse("a + on", "here").values(frame).to_dict() == {7: 2.0, 9: 2.0}
    assert parse("a / b", "here").values(frame).isna().tolist() == [False, True]
    assert parse("n", "here").values(frame).isna().tolist() == [False, True]
    assert parse("3", "here").values(frame).tolist() == [3, 3]
    assert parse_constraint("m != 'y'", "here").holds_all(frame).to_dict() == {7: True, 9: False}
    assert parse("a", "here").values(frame.iloc[:0]).tolist() == []
    assert parse_constraint("m == 'x'", "here").holds_all(frame.iloc[:0]).tolist() == []
