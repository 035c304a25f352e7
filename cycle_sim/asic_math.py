"""The ASIC's arithmetic bit for bit: adders, multipliers, comparators, exponent fields; no divider, no LUT.

Number rules, which hardware must copy to be bit-exact:

1. Inside a unit every value is float32. Each `add` and `mul` rounds once, to nearest even; nothing is fused.
2. There are no subnormals. An input, sum or product whose exact magnitude is below 2**-126 is a zero of the
   same sign; this is decided before rounding. Opposite numbers add to +0.
3. There is one NaN, 0x7fc00000 (bfloat16 0x7fc0). Overflow gives infinity.
4. A constant is the float32 nearest to the Python float in `arch/asic.py` or written here. Expressions associate as
   written.
5. bfloat16 exists only at the ports of a unit (`*_bf16`): widened on entry, on exit rounded once, to even.

The PIM-GPT text names the methods (Taylor, Newton-Raphson, fast inverse square root); details are [design].
`dtype=np.float64` evaluates the same algorithm in double precision, to separate its error from rounding.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce, wraps
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pimloom.arch.asic import (
    ADDERS,
    EXP_CLAMP,
    GELU_CUBIC,
    GELU_LINEAR,
    INVERSE_LN2,
    LN2_HIGH,
    LN2_LOW,
    RECIPROCAL_GUESS,
    RECIPROCAL_STEPS,
    RSQRT_MAGIC,
    RSQRT_STEPS,
    TAYLOR,
)

Array: TypeAlias = NDArray[Any]
_quiet = np.errstate(all="ignore")  # infinities and NaN are values here, not accidents


# Rules 2, 3 and 5.


@cache
def _tiny(dtype: np.dtype[Any]) -> Any:
    return np.finfo(dtype).tiny


@_quiet
def settle(value: ArrayLike, dtype: DTypeLike = np.float32) -> Array:
    """Round exact values of any shape once to `dtype`: subnormals to signed zero, any NaN to the one NaN."""
    return _settle(np.asarray(value), np.dtype(dtype))


def _settle(value: Array, dtype: np.dtype[Any]) -> Array:
    rounded: Array = np.array(value, dtype)
    if not (large := np.abs(value) >= _tiny(dtype)).all():  # something is small, or NaN
        rounded *= large  # 0 keeps the sign, and NaN is not large
        rounded[np.isnan(rounded)] = np.nan
    return rounded


def to_bf16(x: ArrayLike) -> Array:
    """Round float32 of any shape to bfloat16 (nearest even, 2**-8 relative); subnormals to signed zero."""
    return settle(np.asarray(x, np.float32)).astype(ml_dtypes.bfloat16)


def bf16_ports(unit: Callable[..., Array]) -> Callable[..., Array]:
    """Give a unit bfloat16 ports: positional arrays are rounded on entry, the result once on exit."""

    @wraps(unit)
    def wrapped(*arrays: ArrayLike, **options: Any) -> Array:
        return to_bf16(unit(*(to_bf16(array) for array in arrays), **options))

    return wrapped


def _enter(x: ArrayLike, dtype: DTypeLike = np.float32) -> Array:
    return settle(np.asarray(x, dtype), dtype)


# The three datapath elements; the first operand sets the precision.


@_quiet
def add(a: Array, b: ArrayLike) -> Array:
    """a + b of settled arrays, rounded once; broadcasts."""
    return _settle(a + np.asarray(b, a.dtype), a.dtype)


@_quiet
def mul(a: Array, b: ArrayLike) -> Array:
    """a * b of settled arrays, rounded once; broadcasts."""
    # Through float64, where the product of two float32 is exact: rule 2 looks at it before rounding.
    return _settle(np.multiply(a, np.asarray(b, a.dtype), dtype=np.float64), a.dtype)


@_quiet
def scale(x: Array, k: Array) -> Array:
    """x * 2**k: the integer k (same shape) added to the exponent; overflow and flush as in `mul`."""
    return _settle(np.ldexp(x.astype(np.float64), k), x.dtype)


# Sums.


def pairwise(x: Array) -> Array:
    """Sum over the last axis (a power of two long) by a binary tree: at each level 2i and 2i+1 meet."""
    while x.shape[-1] > 1:
        x = add(x[..., 0::2], x[..., 1::2])
    return x[..., 0]


def tree_sum(x: ArrayLike, width: int = ADDERS) -> Array:
    """Sum over the last axis, n long: float32[..., n] to float32[...].

    Groups of `width` (a power of two), the last filled up with +0, each go through the tree of `pairwise`;
    their sums are added in order to an accumulator that starts at +0.
    Error at most (log2(width) + ceil(n / width)) * 2**-24 * sum(abs(x)) to first order, if nothing overflows.
    """
    x = _enter(x)
    groups = -(-x.shape[-1] // width)
    padded = np.zeros((*x.shape[:-1], groups * width), x.dtype)
    padded[..., : x.shape[-1]] = x
    sums = pairwise(padded.reshape(*x.shape[:-1], groups, width))
    return _in_order(np.moveaxis(sums, -1, 0))


def accumulate_partials(partials: ArrayLike, bias: ArrayLike = 0.0, /) -> Array:
    """The results of a chunked product: float32[chunks, ...] and bias[...] to float32[...].

    In order: +0, partials[0], partials[1], ..., bias. `accumulate_partials_bf16` rounds once, after the bias.
    """
    return add(_in_order(_enter(partials)), _enter(bias))


def _in_order(terms: Array) -> Array:
    return reduce(add, terms, np.zeros(terms.shape[1:], terms.dtype))


# Function units.


def exp(x: ArrayLike, /, dtype: DTypeLike = np.float32) -> Array:
    """e**x, any shape, any x: k = round(x / ln 2), 6 Taylor terms in r = x - k ln 2, then k to the exponent.

    Relative error at most 3.25e-6 in float64 (pim_gpt.md 3.5: 3.2e-6 on [-20, 0]) and 3.4e-6 in float32 where
    the result is normal (measured). Below 2**-126 it is 0, beyond float32 inf; exp(-inf) = 0, exp(0) = 1.
    Beware: where k steps, a larger float32 x may give a result smaller by 2e-6; bfloat16 x are too far apart.
    """
    x = np.clip(_enter(x, dtype), -EXP_CLAMP, EXP_CLAMP)
    magic = 1.5 * 2.0 ** np.finfo(x.dtype).nmant  # adding it pushes the fraction out: round to nearest even
    k = add(add(mul(x, INVERSE_LN2), magic), -magic)
    r = add(add(x, mul(k, -LN2_HIGH)), mul(k, -LN2_LOW))  # Cody and Waite's two steps; the first is exact
    return scale(horner(r, TAYLOR), np.nan_to_num(k).astype(np.int32))


def horner(x: Array, coefficients: Sequence[float]) -> Array:
    """The polynomial with `coefficients`, highest order first, at x: multiply, add, multiply, add, …"""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = add(mul(total, x), coefficient)
    return total


def reciprocal(x: ArrayLike, /, iterations: int = RECIPROCAL_STEPS, dtype: DTypeLike = np.float32) -> Array:
    """1 / x, any shape: x = ±d 2**e, d in [0.5, 1); y = 48/17 - 32/17 d, then three times y = y (2 - d y).

    Relative error 5.9e-2, 3.5e-3, 1.2e-5, 1.4e-10 after 0, 1, 2, 3 iterations in float64 (pim_gpt.md 3.5); in
    float32 it ends at 1.5e-7 (measured). ±0 gives ±inf, ±inf gives ±0; a result below 2**-126 is ±0.
    """
    x = _enter(x, dtype)
    d, e = np.frexp(np.abs(x))
    y = add(mul(d, RECIPROCAL_GUESS[0]), RECIPROCAL_GUESS[1])
    for _ in range(iterations):
        y = mul(y, add(-mul(d, y), 2.0))
    y = np.where(x == 0, np.inf, np.where(np.isinf(x), 0.0, scale(y, -e)))
    return np.copysign(y, x).astype(x.dtype)


def rsqrt(x: ArrayLike, /, steps: int = RSQRT_STEPS) -> Array:
    """1 / sqrt(x), any shape: a guess from the bits of x, then one Newton step y (1.5 - 0.5 x y y).

    Relative error 3.4 % before and 0.175 % after the step (pim_gpt.md 3.5); after it the result is too small,
    or too large by at most 2e-7 (measured).
    ±0 gives +inf, +inf gives +0, x < 0 gives NaN.
    """
    x = _enter(x)
    y = (RSQRT_MAGIC - (np.abs(x).view(np.int32) >> 1)).view(np.float32)
    for _ in range(steps):
        y = mul(y, add(mul(mul(mul(x, y), y), -0.5), 1.5))  # x y first: it can neither overflow nor flush
    y = np.where(x > 0, y, np.float32(np.nan))
    return np.where(x == 0, np.float32(np.inf), np.where(x == np.inf, np.float32(0), y))


def gelu(x: ArrayLike, /) -> Array:
    """GELU's tanh form, any shape: 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x**3).

    Computed as x / (1 + exp(-2u)): the same with tanh(u) = 1 - 2 / (1 + exp(2u)), but there 1 + tanh(u)
    cancels to rounding noise when x is very negative. Relative error at most 5e-6 for x >= -4, absolute error
    1e-9 below, both against the tanh form in float64 (measured). gelu(-inf) = -0.
    """
    x = _enter(x)
    minus_2u = mul(x, add(mul(mul(x, x), -GELU_CUBIC), -GELU_LINEAR))
    gate = reciprocal(add(exp(minus_2u), 1.0))
    return np.where(gate == 0, np.copysign(np.float32(0), x), mul(x, gate))  # 0 times -inf is 0 here


def silu(x: ArrayLike, /) -> Array:
    """SiLU, any shape: x / (1 + exp(-x)), from the pieces of `gelu`.

    Relative error at most 3.4e-6 for x > -87, against float64 (measured); -0 from there on.
    """
    x = _enter(x)
    gate = reciprocal(add(exp(-x), 1.0))
    return np.where(gate == 0, np.copysign(np.float32(0), x), mul(x, gate))  # 0 times -inf is 0 here


def relu(x: ArrayLike, /) -> Array:
    """max(x, 0), any shape: -0 and all below give +0; NaN stays."""
    x = _enter(x)
    return np.where(x <= 0, np.float32(0), x)


def softcap(x: ArrayLike, /, cap: float) -> Array:
    """cap tanh(x / cap), any shape, as cap - 2 cap / (1 + exp(2x / cap)).

    Absolute error at most 1.7e-6 cap (measured): near 0 terms cancel. 2 / cap is a constant, rounded to float32.
    """
    share = reciprocal(add(exp(mul(_enter(x), 2.0 / cap)), 1.0))
    return add(mul(share, -2.0 * cap), cap)


def rotate(x: ArrayLike, cos: ArrayLike, sin: ArrayLike, /) -> Array:
    """Rotary embedding of heads float32[..., n] by cos[r / 2], sin[r / 2], r <= n: elements i and i + r / 2 turn.

    Two products and a sum for each element; those behind r stay (Hugging Face's `rotate_half`).
    """
    x, cos, sin = _enter(x), _enter(cos), _enter(sin)
    half = cos.shape[-1]
    a, b = x[..., :half], x[..., half : 2 * half]
    turned = add(mul(a, cos), -mul(b, sin)), add(mul(b, cos), mul(a, sin))
    return np.concatenate([*turned, x[..., 2 * half :]], axis=-1)


# Vector operations.


def softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """Softmax along `axis`, any shape: maximum, exp, `tree_sum`, one reciprocal, multiply.

    Relative error at most 1e-5 for rows up to 1024 long, where the exponential is normal: 3.4e-6 from `exp`,
    5.2e-6 from rounding x - max(x) near -87, the rest from the sum. A -inf is a masked place and gives 0;
    NaN, +inf or nothing but -inf makes the whole row NaN.
    """
    x = np.moveaxis(_enter(x), axis, -1)
    weights = exp(add(x, -x.max(axis=-1, keepdims=True)))
    shares = mul(weights, reciprocal(tree_sum(weights))[..., None])
    return np.moveaxis(shares, -1, axis)


def layernorm(x: ArrayLike, gamma: ArrayLike, beta: ArrayLike, /, eps: float = 1e-5) -> Array:
    """((x - mean) rsqrt(var + eps)) gamma + beta over the last axis: float32[..., n], gamma[n], beta[n].

    Three passes: mean, variance of the centred values, normalise. 1 / n is a constant, rounded to float32.
    The error is that of `rsqrt`: 0.175 % of abs(normalised * gamma), plus rounding.
    """
    x = _enter(x)
    inverse_n = 1 / x.shape[-1]
    centred = add(x, -mul(tree_sum(x), inverse_n)[..., None])
    variance = mul(tree_sum(mul(centred, centred)), inverse_n)
    normalised = mul(centred, rsqrt(add(variance, eps))[..., None])
    return add(mul(normalised, _enter(gamma)), _enter(beta))


def rmsnorm(x: ArrayLike, gamma: ArrayLike, /, eps: float = 1e-6) -> Array:
    """x rsqrt(mean of squares + eps) gamma over the last axis: float32[..., n], gamma[n].

    LayerNorm's second and third pass without centring; its error, too.
    """
    x = _enter(x)
    squares = mul(tree_sum(mul(x, x)), 1 / x.shape[-1])
    return mul(mul(x, rsqrt(add(squares, eps))[..., None]), _enter(gamma))


exp_bf16 = bf16_ports(exp)
reciprocal_bf16 = bf16_ports(reciprocal)
rsqrt_bf16 = bf16_ports(rsqrt)
gelu_bf16 = bf16_ports(gelu)
silu_bf16 = bf16_ports(silu)
relu_bf16 = bf16_ports(relu)
softcap_bf16 = bf16_ports(softcap)
rotate_bf16 = bf16_ports(rotate)
rmsnorm_bf16 = bf16_ports(rmsnorm)
softmax_bf16 = bf16_ports(softmax)
layernorm_bf16 = bf16_ports(layernorm)
accumulate_partials_bf16 = bf16_ports(accumulate_partials)
