"""The ASIC's arithmetic: its error bounds (pim_gpt.md 3.5) and every one of its number rules."""

import math
import zlib
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import erfc

from pimloom.arch.asic import TAYLOR
from pimloom.cycle_sim import asic_math as asic

TINY = 2.0**-126
HUGE = (2 - 2**-7) * 2.0**127  # the largest bfloat16
ALL_BF16 = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
FINITE_BF16 = np.sort(ALL_BF16.astype(np.float32))
FINITE_BF16 = FINITE_BF16[np.isfinite(FINITE_BF16)]
UNARY = ["exp", "reciprocal", "rsqrt", "gelu", "silu"]


def relative_error(got, exact):
    return np.max(np.abs(got.astype(np.float64) / exact - 1))


def every(step, start, stop):
    """Every step-th float32 from start up to stop."""
    first, last = f32([start, stop]).view(np.int32)
    return np.arange(first, last, step, dtype=np.int32).view(np.float32)


def f32(x):
    return np.array(x, np.float32)


def bits(x):
    return f32(x).view(np.uint32)


# Rounding.


def nearest_float32(exact: Fraction) -> float:
    """Rules 1 to 3 for a finite exact result, in integers."""
    if abs(exact) < Fraction(TINY):
        return 0.0
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    ulp = Fraction(2) ** (exponent - 23)
    rounded = round(exact / ulp) * ulp  # Python rounds halves to even
    return math.copysign(math.inf, exact) if abs(rounded) >= 2**128 else float(rounded)


floats = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
near_one = st.integers(2**23, 2**24).map(lambda n: n / 2**23)


@settings(deadline=None)
@given(floats | near_one, floats | near_one)
@example(1 - 2**-24, TINY)  # IEEE would round this product up to 2**-126; rule 2 says zero
@example(-TINY, 1.5 * TINY)
@example(1 + 2**-23, 1 + 2**-23)
@example(2.0**127, 2.0**127)
def test_add_and_mul_round_once_to_nearest_even(a, b):
    x, y = f32(a), f32(b)
    assert asic.add(x, y) == nearest_float32(Fraction(a) + Fraction(b))
    assert asic.mul(x, y) == nearest_float32(Fraction(a) * Fraction(b))


def test_zeros_keep_the_sign_of_what_was_flushed():
    settled = asic.settle(f32([-1e-40, 1e-40, -0.0]))
    assert bits(settled).tolist() == [0x80000000, 0, 0x80000000]
    assert bits(asic.mul(f32(-TINY), 0.5)) == 0x80000000
    assert bits(asic.add(f32(TINY), -1.5 * TINY)) == 0x80000000
    assert bits(asic.add(f32(1), -1)) == 0


def test_there_is_one_nan():
    payloads = np.array([0x7F800001, 0xFFC12345, 0xFFFFFFFF], np.uint32).view(np.float32)
    infinity = f32(np.inf)
    assert set(bits(asic.settle(payloads))) == {0x7FC00000}
    assert bits(asic.add(infinity, -infinity)) == bits(asic.mul(infinity, 0)) == 0x7FC00000
    assert set(asic.to_bf16(payloads).view(np.uint16)) == {0x7FC0}


def test_bf16_rounds_to_nearest_even():
    ties = f32([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-23, 3.4e38, 1e-39])
    assert asic.to_bf16(ties).astype(float).tolist() == [1.0, 1 + 2**-6, 1 + 2**-7, math.inf, 0.0]


# Sums.


def sum_by_recursion(x):
    half = len(x) // 2
    return x[0] if len(x) == 1 else np.float32(sum_by_recursion(x[:half]) + sum_by_recursion(x[half:]))


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 700, 1024])
def test_tree_sum_adds_groups_of_256_in_order(n):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    total = np.float32(0)
    for start in range(0, n, 256):
        total = np.float32(total + sum_by_recursion(np.pad(x[start : start + 256], (0, 256))[:256]))
    assert asic.tree_sum(x) == total
    assert abs(float(total) - math.fsum(x)) <= (8 + math.ceil(n / 256)) * 2**-24 * np.abs(x).sum() * 1.01


def test_the_tree_joins_neighbours():
    big = 2.0**24
    assert asic.tree_sum([big, -big, 1, 1]) == 2  # halves first would give 1
    assert asic.tree_sum([big, 1, 1, -big]) == 1  # one after the other would give 0


def test_partials_are_added_in_order_and_rounded_once():
    partials = np.array([[2.0**24], [1], [-(2.0**24)]])
    assert asic.accumulate_partials(partials, [3]) == 3
    assert asic.accumulate_partials(partials[::-1], [3]) == 4
    halves = np.full((4, 2), 1 + 2**-7)  # 4 + 2**-5 is a tie in bfloat16; rounded earlier, it would not be
    assert asic.accumulate_partials_bf16(halves, [0, 2**-5]).astype(float).tolist() == [4.03125, 4.0625]


# exp.


def test_exp_meets_the_published_bound_in_float64():
    x = np.linspace(-20, 0, 400_001)
    assert 3.15e-6 < relative_error(asic.exp(x, np.float64), np.exp(x)) < 3.25e-6  # 3.2e-6 to its digits


def test_exp_in_float32_loses_little_and_holds_the_bound_everywhere():
    x = np.linspace(math.log(TINY) + 1e-5, 88.72, 400_001).astype(np.float32)
    assert relative_error(asic.exp(x), np.exp(x.astype(np.float64))) < 3.4e-6


@pytest.mark.parametrize(("low", "error"), [(-1, 0.0033), (-2, 0.51), (-3, 14.10)])
def test_six_taylor_terms_need_the_range_reduction(low, error):
    x = np.linspace(low, 0, 10_001)
    assert relative_error(asic.horner(x, TAYLOR), np.exp(x)) == pytest.approx(error, rel=0.01)


def test_exp_is_monotone_on_all_bf16():
    y = asic.exp(FINITE_BF16)
    assert (y[1:] >= y[:-1]).all()


def test_exp_special_values():
    x = [-np.inf, -128, -87.4, -0.0, 0, 1e-40, 88.8, np.inf, np.nan]
    assert bits(asic.exp(x)).tolist() == bits([0, 0, 0, 1, 1, 1, np.inf, np.inf, np.nan]).tolist()


# reciprocal and rsqrt.


@pytest.mark.parametrize(("iterations", "error"), [(0, 5.9e-2), (1, 3.5e-3), (2, 1.2e-5), (3, 1.4e-10)])
def test_reciprocal_converges_as_published(iterations, error):
    d = np.linspace(0.5, 1, 100_001)
    assert relative_error(asic.reciprocal(d, iterations, np.float64), 1 / d) == pytest.approx(error, rel=0.03)


@pytest.mark.parametrize(("iterations", "bound"), [(0, 5.9e-2), (1, 3.5e-3), (2, 1.22e-5), (3, 1.5e-7)])
def test_reciprocal_in_float32(iterations, bound):
    d = every(29, 0.5, 1)
    assert relative_error(asic.reciprocal(d, iterations), 1 / d.astype(np.float64)) < bound


def test_reciprocal_only_moves_the_exponent_and_the_sign():
    d = every(99_991, 0.5, 1)
    for k in range(-125, 126):
        assert (asic.reciprocal(-d * np.float32(2.0**k)) == -asic.reciprocal(d) * np.float32(2.0**-k)).all()


def test_reciprocal_special_values():
    x = [0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 1, 2.0**126, 2.0**127, -(2.0**127)]
    expected = [np.inf, -np.inf, np.inf, -np.inf, 0.0, -0.0, np.nan, 1, TINY, 0.0, -0.0]
    assert bits(asic.reciprocal(x)).tolist() == bits(expected).tolist()


@pytest.mark.parametrize(("steps", "error"), [(0, 3.44e-2), (1, 1.752e-3)])
def test_rsqrt_before_and_after_its_step(steps, error):
    x = every(37, 0.5, 2)
    exact = 1 / np.sqrt(x.astype(np.float64))
    assert relative_error(asic.rsqrt(x, steps), exact) == pytest.approx(error, rel=1e-3)


def test_rsqrt_holds_its_bound_at_every_exponent():
    x = FINITE_BF16[FINITE_BF16 >= TINY]
    error = asic.rsqrt(x) * np.sqrt(x.astype(np.float64)) - 1
    assert error.min() > -1.753e-3
    assert error.max() < 2e-7


def test_rsqrt_special_values():
    x = [0.0, -0.0, -1e-40, -1, -np.inf, np.inf, np.nan]
    expected = [np.inf, np.inf, np.inf, np.nan, np.nan, 0, np.nan]
    assert bits(asic.rsqrt(x)).tolist() == bits(expected).tolist()


# gelu, softmax and layernorm.


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def test_gelu_follows_the_tanh_form():
    x = every(4_999, 1e-6, 16)
    x = np.concatenate([x, -x])
    exact = gelu_tanh(x.astype(np.float64))
    assert relative_error(asic.gelu(x[x > -4]), exact[x > -4]) < 5e-6
    assert np.abs(asic.gelu(x[x <= -4]) - exact[x <= -4]).max() < 1e-9


def test_gelu_is_near_the_exact_gelu():
    x = np.linspace(-8, 8, 4_001).astype(np.float32)
    exact = x.astype(float) / 2 * erfc(-x.astype(float) / np.sqrt(2))
    assert np.abs(asic.gelu(x) - exact).max() < 5e-4  # the tanh form itself is 4.7e-4 off


def test_gelu_special_values():
    x = [-np.inf, -3e38, -30, -0.0, 0.0, 30, 3e38, np.inf, np.nan]
    expected = [-0.0, -0.0, -0.0, -0.0, 0.0, 30, 3e38, np.inf, np.nan]
    assert bits(asic.gelu(x)).tolist() == bits(expected).tolist()


def test_silu_follows_its_formula():
    x = every(4_999, 1e-6, 86)
    x = np.concatenate([x, -x])
    assert relative_error(asic.silu(x), x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))) < 3.4e-6


def test_silu_special_values():
    x = [-np.inf, -3e38, -89, -0.0, 0.0, 30, 3e38, np.inf, np.nan]
    expected = [-0.0, -0.0, -0.0, -0.0, 0.0, 30, 3e38, np.inf, np.nan]
    assert bits(asic.silu(x)).tolist() == bits(expected).tolist()


def test_relu_keeps_what_is_above_zero():
    x = [-np.inf, -1.5, -0.0, 0.0, 1e-40, 1.5, np.inf, np.nan]
    assert bits(asic.relu(x)).tolist() == bits([0.0, 0.0, 0.0, 0.0, 0.0, 1.5, np.inf, np.nan]).tolist()


@pytest.mark.parametrize("cap", [30.0, 50.0])
def test_a_soft_cap_is_a_scaled_tanh(cap):
    x = np.linspace(-12 * cap, 12 * cap, 40_001).astype(np.float32)
    assert np.abs(asic.softcap(x, cap) - cap * np.tanh(x.astype(np.float64) / cap)).max() < 1.7e-6 * cap
    assert asic.softcap([-np.inf, 0, np.inf], cap).tolist() == [-cap, 0, cap] and np.isnan(asic.softcap(np.nan, cap))


def test_a_rotation_turns_pairs_half_of_the_rotated_part_apart():
    """By 90 and 180 degrees, where products are exact; elements 4 and 5 are not rotated."""
    x = f32([[1, 2, 3, 4, 5, 6], [0.5, 0, -1, 8, 9, 9]])
    turned = asic.rotate(x, f32([0, -1]), f32([1, 0]))
    assert turned.tolist() == [[-3, -2, 1, -4, 5, 6], [1, 0, 0.5, -8, 9, 9]]
    angles = np.random.default_rng(1).uniform(0, 7, 3)
    both = asic.rotate(x, f32(np.cos(angles)), f32(np.sin(angles))).astype(np.float64)
    pairs = (x[:, :3] + 1j * x[:, 3:]) * np.exp(1j * angles)
    assert np.abs(both - np.concatenate([pairs.real, pairs.imag], axis=1)).max() < 2e-6


@pytest.mark.parametrize("n", [1, 16, 768, 2048])
def test_rmsnorm_against_float64(n):
    rng = np.random.default_rng(n)
    x, gamma = (rng.normal(1, 3, shape).astype(np.float32) for shape in [(50, n), n])
    wide = x.astype(np.float64)
    right = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6) * gamma
    assert (np.abs(asic.rmsnorm(x, gamma) - right) <= 1.76e-3 * np.abs(right)).all()
    small = np.full((1, 4), 1e-3, np.float32)  # eps is half of what is below the root
    assert asic.rmsnorm(small, np.ones(4)) == pytest.approx(2**-0.5, rel=2e-3)
    narrow, wide = asic.rmsnorm_bf16(x, gamma), asic.rmsnorm(asic.to_bf16(x), asic.to_bf16(gamma))
    assert (narrow.view(np.uint16) == asic.to_bf16(wide).view(np.uint16)).all()


@pytest.mark.parametrize("n", [1, 2, 100, 1024])
def test_softmax_against_float64(n):
    x = np.random.default_rng(n).normal(scale=10, size=(50, n)).astype(np.float32)
    weights = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    shares = asic.softmax(x)
    assert relative_error(shares, weights / weights.sum(axis=-1, keepdims=True)) < 1e-5
    assert np.abs(shares.sum(axis=-1, dtype=np.float64) - 1).max() < 1e-6
    assert np.abs(asic.softmax_bf16(x).astype(np.float64).sum(axis=-1) - 1).max() < 2**-8
    assert (asic.softmax(x.T, axis=0) == shares.T).all()


def test_softmax_masks_with_minus_infinity():
    shares = asic.softmax([[3, -np.inf, 3, -np.inf], [-np.inf] * 4, [np.nan, 0, 0, 0], [np.inf, 0, 0, 0]])
    assert shares[0].tolist() == [0.5, 0, 0.5, 0]
    assert np.isnan(shares[1:]).all()


@pytest.mark.parametrize("n", [1, 16, 768, 2048])
def test_layernorm_against_float64(n):
    rng = np.random.default_rng(n)
    x, gamma, beta = (rng.normal(1, 3, shape).astype(np.float32) for shape in [(50, n), n, n])
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-5) * gamma
    # 0.175 % from rsqrt, always inwards; the rest is float32 rounding of numbers around 10.
    error = np.abs(asic.layernorm(x, gamma, beta) - (scaled + beta))
    assert (error <= 1.753e-3 * np.abs(scaled) + 1e-5).all()
    wide = asic.layernorm(asic.to_bf16(x), asic.to_bf16(gamma), asic.to_bf16(beta))
    narrow = asic.layernorm_bf16(x, gamma, beta).astype(np.float32)
    assert (np.abs(narrow - wide) <= 2**-8 * np.abs(wide)).all()


# The bfloat16 ports.


@pytest.mark.parametrize("name", UNARY)
def test_bf16_ports_round_the_float32_result_once(name):
    wide = getattr(asic, name)(ALL_BF16.astype(np.float32))
    narrow = getattr(asic, name + "_bf16")(ALL_BF16)
    assert (asic.to_bf16(wide).view(np.uint16) == narrow.view(np.uint16)).all()


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("exp", -HUGE, 88.72),
        ("reciprocal", TINY, HUGE),
        ("rsqrt", TINY, HUGE),
        ("gelu", -HUGE, HUGE),
        ("silu", -HUGE, HUGE),
    ],
)
def test_finite_bf16_in_the_domain_give_finite_bf16(name, low, high):
    x = FINITE_BF16[(low <= FINITE_BF16) & (high >= FINITE_BF16)]
    y = getattr(asic, name + "_bf16")(x).astype(np.float32)
    assert np.isfinite(y).all()
    assert not ((y != 0) & (np.abs(y) < TINY)).any()


@pytest.mark.parametrize(
    ("name", "crc"),
    [
        ("exp", 0xA3BDB3B1),
        ("reciprocal", 0x93326CA6),
        ("rsqrt", 0xE2EA37A6),
        ("gelu", 0x5819D082),
        ("silu", 0x2C4E5066),
    ],
)
def test_the_bits_of_all_bf16_inputs_are_a_contract(name, crc):
    """A change here is a change of the hardware: it must be wanted, and the RTL must follow."""
    assert zlib.crc32(bits(getattr(asic, name)(ALL_BF16)).astype("<u4").tobytes()) == crc
