"""exp, 1 / x, 1 / sqrt(x), GELU and SiLU of a stream: the lines of `cycle_sim/asic_math.py`, in gates.

The functions make float32 wires from float32 wires; the units have bfloat16 ports and take one element a clock.
Adders and multipliers only: no divider, no table. NaN, infinities and subnormals go as in asic_math, bit for bit.
"""

import math
from collections.abc import Callable, Sequence

from amaranth.hdl import Cat, Const, Mux, Value

from pimloom.arch.asic import (
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
from pimloom.rtl import bf16
from pimloom.rtl.asic.pipeline import Operand, Pipeline, Wire, add, clocked, combine, mul, scale, to_bf16, widen
from pimloom.rtl.float32 import (
    BIAS,
    EXPONENT,
    FRACTION,
    INFINITY,
    NAN,
    WIDTH,
    constant,
    fields,
    is_infinite,
    is_nan,
    is_zero,
)

POWER = EXPONENT + 1  # bits of a signed power of two


def exp(x: Wire) -> Wire:
    """e to the power of a float32, by a Taylor series; 17 clocks."""
    x = combine(_clip, x)
    magic = 1.5 * 2.0**FRACTION
    shifted = add(mul(x, INVERSE_LN2), magic)
    k = add(shifted, -magic)
    r = add(add(x, mul(k, -LN2_HIGH)), mul(k, -LN2_LOW))
    integer_k = combine(lambda bits: bits[:POWER].as_signed(), shifted)  # two's complement, for magic ends in zeros
    return scale(horner(r, TAYLOR), integer_k)


def _clip(x: Value) -> Value:
    limit = constant(EXP_CLAMP)
    return Mux((x[:-1] > limit[:-1]) & ~is_nan(x), Cat(limit[:-1], x[-1]), x)


def horner(x: Wire, coefficients: Sequence[float]) -> Wire:
    """The polynomial with `coefficients`, highest order first, at x; 2 clocks for each after the first."""
    total: Operand = coefficients[0]
    for coefficient in coefficients[1:]:
        total = add(mul(total, x), coefficient)
    assert isinstance(total, Wire)
    return total


def reciprocal(x: Wire) -> Wire:
    """One over a float32, by Newton's method; 12 clocks."""
    sign, minus_e, d = combine(lambda bits: bits[-1], x), combine(_minus_e, x), combine(_d, x)
    y = add(mul(d, RECIPROCAL_GUESS[0]), RECIPROCAL_GUESS[1])
    for _ in range(RECIPROCAL_STEPS):
        y = mul(y, add(-mul(d, y), 2.0))
    return combine(lambda bits, sign_: Cat(bits[:-1], sign_), scale(y, minus_e), sign)


def _d(x: Value) -> Value:
    """abs(x) = d 2**e with d in [0.5, 1); NaN for NaN."""
    return Cat(x[:FRACTION], Mux(is_nan(x), constant(math.nan), constant(0.5))[FRACTION:])


def _minus_e(x: Value) -> Value:
    """-e, which makes 1 / inf zero by itself; for zero a power so large that the result is infinite."""
    return Mux(is_zero(x), 2**EXPONENT - 1, BIAS - 1 - fields(x).exponent)[:POWER].as_signed()


def rsqrt(x: Wire) -> Wire:
    """One over the square root of a float32, by Newton's method; 6 clocks."""
    y = clocked(combine(lambda bits: (Const(RSQRT_MAGIC, WIDTH) - bits[1:-1])[:WIDTH], x))
    for _ in range(RSQRT_STEPS):
        y = mul(y, add(mul(mul(mul(x, y), y), -0.5), 1.5))
    zero, infinite = combine(is_zero, x), combine(is_infinite, x)
    invalid = combine(lambda bits: bits[-1] & ~is_zero(bits), x)  # NaN comes through as it is
    return combine(_rsqrt_special, y, zero, infinite, invalid)


def _rsqrt_special(y: Value, zero: Value, infinite: Value, invalid: Value) -> Value:
    return Mux(zero, INFINITY, Mux(invalid, NAN, Mux(infinite, 0, y)))


def gelu(x: Wire) -> Wire:
    """x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x**3); 35 clocks."""
    minus_2u = mul(x, add(mul(mul(x, x), -GELU_CUBIC), -GELU_LINEAR))
    gate = reciprocal(add(exp(minus_2u), 1.0))
    return combine(_closed, mul(x, gate), combine(is_zero, gate), x)


def silu(x: Wire) -> Wire:
    """x / (1 + exp(-x)); 31 clocks."""
    gate = reciprocal(add(exp(-x), 1.0))
    return combine(_closed, mul(x, gate), combine(is_zero, gate), x)


def _closed(y: Value, closed: Value, x: Value) -> Value:
    return Mux(closed, Cat(Const(0, WIDTH - 1), x[-1]), y)  # 0 times -inf is 0 here


class Unary(Pipeline):
    """bfloat16 in, bfloat16 out, one a clock: `function`, rounded once at the exit.

    wide: o has two fields, `x` as ever and `wide`, the float32 from which it is rounded.
    """

    def __init__(self, function: Callable[[Wire], Wire], wide: bool) -> None:
        def body(x: Wire) -> Wire | dict[str, Wire]:
            y = function(widen(x))
            return {"x": to_bf16(y), "wide": y} if wide else to_bf16(y)

        both = {"x": bf16.WIDTH, "wide": WIDTH}
        super().__init__(bf16.WIDTH, both if wide else bf16.WIDTH, body)


class Exp(Unary):
    """e**x; latency 18 clocks, 9 adders, 8 multipliers."""

    def __init__(self, wide: bool = False) -> None:
        super().__init__(exp, wide)


class Reciprocal(Unary):
    """1 / x; latency 13 clocks, 4 adders, 7 multipliers."""

    def __init__(self, wide: bool = False) -> None:
        super().__init__(reciprocal, wide)


class Rsqrt(Unary):
    """1 / sqrt(x); latency 7 clocks, 1 adder and an integer subtractor, 4 multipliers."""

    def __init__(self, wide: bool = False) -> None:
        super().__init__(rsqrt, wide)


class Gelu(Unary):
    """GELU in tanh form; latency 36 clocks, 15 adders, 19 multipliers."""

    def __init__(self, wide: bool = False) -> None:
        super().__init__(gelu, wide)


class Silu(Unary):
    """SiLU; latency 32 clocks, 14 adders, 16 multipliers."""

    def __init__(self, wide: bool = False) -> None:
        super().__init__(silu, wide)
