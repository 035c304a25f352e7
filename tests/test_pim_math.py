"""The MAC unit of a bank against exact fractions, and bit for bit against scalars in the stated order."""

from fractions import Fraction
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pimloom.cycle_sim import pim_math as pim
from pimloom.cycle_sim.asic_math import settle

UNIT = Fraction(1, 2**24)
TINY = Fraction(1, 2**126)
BF16 = ml_dtypes.bfloat16
ONES = np.ones(16, BF16)


def random_bf16(rng, *shape):
    return rng.normal(size=shape).astype(BF16)


def scalar_column(acc, weights, inputs):
    """One MAC command in numpy scalars: the tree spelled out."""
    level = [np.float32(w) * np.float32(x) for w, x in zip(weights, inputs, strict=True)]
    while len(level) > 1:
        level = [level[2 * i] + level[2 * i + 1] for i in range(len(level) // 2)]
    return np.float32(acc) + level[0]


# Any sign and fraction, exponents from subnormal up to 2**60: flushes and cancellation, but no overflow.
def vector(seed, several, exponents):
    """Of so many sizes, or zero in part; hypothesis draws word by word ten times slower."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, (exponents << 7) + 1, several) * (rng.random(several) < rng.choice([0.5, 1]))
    return (rng.choice(sizes, 16) | rng.integers(0, 2, 16) << 15).astype(np.uint16).view(BF16)


several = st.sampled_from([1, 3, 16, 100])
vectors = st.builds(vector, st.integers(0, 2**32), several, st.sampled_from([1, 4, 16, 127 + 60]))  # 1: subnormal
accumulators = st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-(2.0**-100), 2.0**-100, width=32)


@settings(max_examples=100, deadline=None)
@given(acc=accumulators, weights=vectors, inputs=vectors)
def test_mac_column_is_within_its_bound_of_the_exact_sum(acc, weights, inputs):
    pairs = [(Fraction(float(w)), Fraction(float(x))) for w, x in zip(weights, inputs, strict=True)]
    rounded = ((1 + UNIT) ** 5 - 1) * (abs(Fraction(acc)) + sum(abs(w * x) for w, x in pairs))
    # An operand, a result or acc below 2**-126 is lost; the factor 2 is for what is then rounded.
    flushed = 2 * TINY * (33 + sum(abs(w) + abs(x) for w, x in pairs))
    exact = Fraction(acc) + sum(w * x for w, x in pairs)
    assert abs(Fraction(float(pim.mac_column(acc, weights, inputs))) - exact) <= rounded + flushed


def test_mac_column_is_the_stated_tree_bit_for_bit():
    rng = np.random.default_rng(1)
    acc = rng.normal(size=500).astype(np.float32)
    weights, inputs = random_bf16(rng, 500, 16), random_bf16(rng, 16)
    expected = [scalar_column(a, w, inputs) for a, w in zip(acc, weights, strict=True)]
    assert (pim.mac_column(acc, weights, inputs) == expected).all()


def test_products_are_exact_and_small_ones_vanish():
    weights = np.zeros((3, 16), BF16)
    weights[:, 5] = [1 + 2**-7, 2.0**-64, -(2.0**-130)]
    inputs = np.zeros(16, BF16)
    inputs[5] = 1 + 2**-7
    assert pim.column_sum(weights, inputs).tolist() == [(1 + 2**-7) ** 2, 2.0**-64 * (1 + 2**-7), 0]
    inputs[5] = 2.0**-64
    assert pim.column_sum(weights, inputs).tolist() == [2.0**-64 * (1 + 2**-7), 0, 0]


def test_infinity_and_nan_reach_only_their_bank():
    weights = np.ones((4, 16), BF16)
    weights[1, 3], weights[2, 4], weights[3, 3:5] = np.inf, np.nan, [np.inf, -np.inf]
    got = pim.mac_column(np.zeros(4, np.float32), weights, ONES)
    assert got[:2].tolist() == [16, np.inf]
    assert got[2:].view(np.uint32).tolist() == [0x7FC00000] * 2


@pytest.mark.parametrize("n", [1, 16, 40, 1024])
@pytest.mark.parametrize("accumulator", ["float32", "bf16"])
def test_gemv_runs_the_columns_in_order(n, accumulator):
    rng = np.random.default_rng(n)
    weights, inputs = random_bf16(rng, 8, n), random_bf16(rng, n)
    wide = [np.pad(x.astype(np.float32), [(0, 0)] * (x.ndim - 1) + [(0, -n % 16)]) for x in (weights, inputs)]
    acc = np.zeros(8, np.float32)
    for start in range(0, n, 16):
        column = slice(start, start + 16)
        acc = pim.mac_column(acc, wide[0][:, column], wide[1][column], accumulator)
    assert (pim.gemv_bank(weights, inputs, accumulator) == acc).all()
    assert acc.dtype == np.float32


def of_size(rng, power, shape):
    """About 2**power, or 0."""
    size = np.ldexp(rng.uniform(1, 2, size=shape), power + rng.integers(-3, 4, size=shape))
    return size * rng.integers(-1, 2, size=shape)


@given(
    powers=st.tuples(st.integers(-131, 52), st.integers(-75, 52), st.integers(-128, 101)),
    accumulator=st.sampled_from(["float32", "bf16"]),
    seed=st.integers(0, 99),
)
@example((-85, -46, 0), "float32", 0)
@example((-46, -85, 0), "bf16", 0)
def test_columns_at_once_are_columns_one_by_one(powers, accumulator, seed):
    """Also where no rule for small values is needed, and around where they begin to be."""
    rng = np.random.default_rng(seed)
    weights, inputs = (of_size(rng, power, (3, 8, 16)).astype(BF16) for power in powers[:2])
    acc = settle((of_size(rng, powers[2], 3) * (1, 1, 0)).astype(np.float32))
    together = pim.mac_columns(acc, weights, inputs, accumulator)
    for i in range(8):
        acc = pim.mac_column(acc, weights[:, i], inputs[:, i], accumulator)
    assert (together.view(np.uint32) == acc.view(np.uint32)).all()


def test_an_accumulator_that_nearly_cancels_a_column_vanishes():
    weights, inputs = np.zeros((1, 16), BF16), np.zeros((1, 16), BF16)
    weights[0, :2], inputs[0, :2] = [(1 + 2**-7) * 2**-50, (1 + 2**-6) * 2**-50], [(1 + 2**-7) * 2**-50, -(2**-50)]
    acc = np.float32(-(1 + 2**-23) * 2**-114)  # the column is 2**-114
    assert pim.mac_columns(acc, weights, inputs) == 0
    assert pim.mac_columns(acc * 2, weights, inputs) == -(1 + 2**-22) * 2**-114


@pytest.mark.parametrize("n", [16, 1024, 8192])
def test_gemv_is_within_its_bound_of_float64(n):
    rng = np.random.default_rng(n)
    weights, inputs = random_bf16(rng, 16, n), random_bf16(rng, n)
    products = weights.astype(np.float64) * inputs.astype(np.float64)
    bound = (4 + n / 16) * 2**-24 * 1.001 * np.abs(products).sum(axis=1)
    assert (np.abs(pim.gemv_bank(weights, inputs) - products.sum(axis=1)) <= bound).all()


def test_the_narrow_accumulator_rounds_after_each_column():
    weights = np.zeros((1, 48), BF16)
    weights[0, ::16] = [256, 1, 1]  # 257 is a tie in bfloat16 and falls back to 256
    ones = np.ones(48, BF16)
    assert pim.gemv_bank(weights, ones) == 258
    assert pim.gemv_bank(weights, ones, accumulator="bf16") == 256


def test_read_result_rounds_once_to_bf16():
    result = pim.read_result(np.array([257, 259, 1e-39], np.float32))
    assert result.dtype == BF16
    assert result.astype(float).tolist() == [256, 260, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pim.column_sum(ONES[:15], ONES), r"weights must end in 16 lanes, not have shape \(15,\)"),
        (lambda: pim.column_sum(ONES, ONES[:8]), r"inputs must end in 16 lanes, not have shape \(8,\)"),
        (lambda: pim.gemv_bank(np.ones((4, 32)), ONES), r"rows of weights \(4, 32\), not \(16,\)"),
        (lambda: pim.mac_column(0, ONES, ONES, cast(Any, "fp8")), "must be 'float32' or 'bf16', not 'fp8'"),
    ],
)
def test_wrong_shapes_and_names_are_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
