"""Quantities with units: exact rounding, and the sentence for each kind of bad text."""

import doctest
import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch import units
from pimloom.arch.units import Milliampere, Time, Volt, ceil_div, mhz_to_ps


def test_doctests() -> None:
    result = doctest.testmod(units)
    assert result.attempted >= 7
    assert result.failed == 0


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("12 ns", Time(ps=12_000)),
        ("12ns", Time(ps=12_000)),
        ("3.9 us", Time(ps=3_900_000)),
        ("64 ms", Time(ps=64_000_000_000)),
        ("250 ps", Time(ps=250)),
        ("0.533 ns", Time(ps=533)),
        ("1e2 ns", Time(ps=100_000)),
        ("0 ns", Time()),
        ("24 nCK", Time(ck=24)),
        (["4 nCK", "7.5 ns"], Time(ck=4, ps=7_500)),
        (["7.5 ns", "4 nCK"], Time(ck=4, ps=7_500)),
    ],
)
def test_time_is_read_exactly(text: object, time: Time) -> None:
    assert Time.parse(text) == time


UNIT = "expected a time with its unit, such as 12 ns, got "
PAIR = "expected a time in nCK and one in ns, such as [4 nCK, 7.5 ns], got "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (12, UNIT + "12"),
        ("12", UNIT + "12"),
        ("12 NS", UNIT + "12 NS"),
        ("12 mA", UNIT + "12 mA"),
        ("nan ns", UNIT + "nan ns"),
        ("inf ns", UNIT + "inf ns"),
        ("1e999 ns", UNIT + "1e999 ns"),
        ("٣ ns", UNIT + "٣ ns"),
        ("12 ns\n", UNIT + "12 ns"),
        (None, UNIT + "nothing"),
        (True, UNIT + "True"),
        ("9" * 41 + " ns", UNIT + "9" * 40 + "..."),
        ("-3 ns", "expected a time >= 0, got -3 ns"),
        ("0.0005 ns", "expected a whole number of ps, got 0.0005 ns"),
        ("1.5 nCK", "expected a whole number of nCK, got 1.5 nCK"),
        ("1e19 ps", "expected a time below 2^63 ps, got 1e19 ps"),
        (["4 nCK"], PAIR + "[4 nCK]"),
        (["4 nCK", "5 nCK"], PAIR + "[4 nCK, 5 nCK]"),
        (["4 ns", "5 ns"], PAIR + "[4 ns, 5 ns]"),
        (["4 nCK", 7], PAIR + "[4 nCK, 7]"),
        (["4 nCK", ["1 nCK", "2 ns"]], PAIR + "[4 nCK, [1 nCK, 2 ns]]"),
    ],
)
def test_bad_time_says_what_is_wrong(text: object, said: str) -> None:
    with pytest.raises(ValueError) as error:
        Time.parse(text)
    assert str(error.value) == said


@given(st.integers(0, 64), st.integers(0, 10**9), st.integers(1, 10**5))
def test_cycles_are_the_ceiling_of_the_exact_quotient(ck: int, ps: int, tCK_ps: int) -> None:
    assert Time(ck, ps).cycles(tCK_ps) == max(ck, math.ceil(Fraction(ps, tCK_ps)))


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from([400, 533, 571, 625, 1000, 1250]))
def test_decimal_text_is_not_rounded_on_the_way(ns: int, ps: int, tCK_ps: int) -> None:
    time = Time.parse(f"{ns}.{ps:03d} ns")
    assert time.cycles(tCK_ps) == math.ceil(Fraction(1000 * ns + ps, tCK_ps))


def test_cycles_at_an_exact_multiple_and_one_ps_above() -> None:
    assert Time(ps=12_000).cycles(500) == 24
    assert Time(ps=12_001).cycles(500) == 25
    with pytest.raises(ValueError, match="got 0"):
        Time(ps=1).cycles(0)


def test_time_is_a_frozen_value() -> None:
    time = Time(ck=4, ps=7_500)
    assert pickle.loads(pickle.dumps(time)) == time
    assert repr(time) == "Time(ck=4, ps=7500)"
    with pytest.raises(AttributeError):
        time.ck = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match="got -1 nCK, 0 ps"):
        Time(ck=-1)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Milliampere, "122 mA", 122.0),
        (Milliampere, "0.53 A", 530.0),
        (Milliampere, "6200uA", 6.2),
        (Milliampere, "0 mA", 0.0),
        (Volt, "1.25 V", 1.25),
        (Volt, "1250 mV", 1.25),
    ],
)
def test_measures_are_read_in_any_of_their_units(kind: type[Volt], text: str, value: float) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (Milliampere, 122, "expected a current with its unit, such as 122 mA, got 122"),
        (Milliampere, "122 V", "expected a current with its unit, such as 122 mA, got 122 V"),
        (Milliampere, "nan mA", "expected a current with its unit, such as 122 mA, got nan mA"),
        (Milliampere, "-1 mA", "expected a current >= 0, got -1 mA"),
        (Volt, 1.25, "expected a voltage with its unit, such as 1.25 V, got 1.25"),
        (Volt, ["1 V"], "expected a voltage with its unit, such as 1.25 V, got [1 V]"),
    ],
)
def test_bad_measure_says_what_is_wrong(kind: type[Volt], text: object, said: str) -> None:
    with pytest.raises(ValueError) as error:
        kind.parse(text)
    assert str(error.value) == said


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**20))
def test_ceil_div(a: int, b: int) -> None:
    assert ceil_div(a, b) == math.ceil(Fraction(a, b))


@pytest.mark.parametrize("mhz", [0, -1, math.nan, math.inf, 1e7])
def test_impossible_frequencies(mhz: float) -> None:
    with pytest.raises(ValueError, match="expected a frequency"):
        mhz_to_ps(mhz)
