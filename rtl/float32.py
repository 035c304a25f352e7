"""IEEE 754 binary32 in gates, by number rules 1 to 3 of `cycle_sim/asic_math.py`.

Any 32 bits may come in: a subnormal counts as the zero of its sign, every NaN alike. What goes out is settled:
rounded once to nearest even, a magnitude below 2**-126 a zero of its sign, overflow an infinity, NaN 0x7fc00000.
"""

from struct import pack, unpack
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import StructLayout, View
from amaranth.lib.wiring import Component, In, Out

FRACTION, EXPONENT = 23, 8
WIDTH = 1 + EXPONENT + FRACTION
BIAS = 2 ** (EXPONENT - 1) - 1
TOP = 2**EXPONENT - 1  # exponent field of infinities and NaN
INFINITY = TOP << FRACTION
NAN = INFINITY | 1 << FRACTION - 1


# Fields, of float32 and of bfloat16, which differ in the width of the fraction.


def fields(x: Value) -> View:
    """The bits of a number as a view with `fraction`, `exponent` and `sign`."""
    return View(StructLayout({"fraction": len(x) - EXPONENT - 1, "exponent": EXPONENT, "sign": 1}), x)


def is_zero(x: Value) -> Value:
    """High where the number is zero or subnormal, of either sign."""
    return fields(x).exponent == 0


def is_infinite(x: Value) -> Value:
    """High where the number is infinite, of either sign."""
    return (fields(x).exponent == TOP) & (fields(x).fraction == 0)


def is_nan(x: Value) -> Value:
    """High where the bits are any NaN (not a number)."""
    return (fields(x).exponent == TOP) & (fields(x).fraction != 0)


def significand(x: Value) -> Value:
    """The fraction with its hidden one; 0 if x is zero or subnormal."""
    return Mux(is_zero(x), 0, Cat(fields(x).fraction, Const(1, 1)))


def constant(x: float) -> Const:
    """The bits of the float32 that is nearest to a number of Python."""
    return Const(unpack("<I", pack("<f", x))[0], WIDTH)


def settle(x: Value) -> Value:
    """float32 as `asic_math.settle`: a subnormal to the zero of its sign, any NaN to the one NaN."""
    return Mux(is_nan(x), NAN, Mux(is_zero(x), Cat(Const(0, WIDTH - 1), x[-1]), x))


def negate(x: Value) -> Value:
    """-x; of a NaN a NaN, perhaps not the one."""
    return Cat(x[:-1], ~x[-1])


def scale(m: Module, x: Value, k: Value) -> Signal:
    """x * 2**k for float32 x and signed k of any width, as `asic_math.scale`; combinational."""
    exponent = Signal(signed(max(len(k), EXPONENT + 1) + 1))
    m.d.comb += exponent.eq(fields(x).exponent + k)
    exact = Cat(Const(0, 2), significand(x))
    return rounded(m, Exact(x[-1], exponent, exact, nan=is_nan(x), infinite=is_infinite(x), zero=is_zero(x)))


# From an exact result to float32.


class Exact(NamedTuple):
    """A result before rounding: significand * 2**(exponent - BIAS), the significand's top bit being worth one.

    exponent is signed. The significand has FRACTION + 3 bits or more; its top bit is set unless a flag is. A lowest
    bit that stands for all lower ones (sticky) rounds as the exact value does. nan goes before zero, zero before
    infinite.
    """

    sign: Value
    exponent: Value
    significand: Value
    nan: Value
    infinite: Value
    zero: Value


def rounded(m: Module, exact: Exact) -> Signal:
    """The settled float32; combinational. It is flushed before it is rounded (rule 2)."""
    tail = len(exact.significand) - FRACTION - 1
    fraction, half, rest = exact.significand[tail:-1], exact.significand[tail - 1], exact.significand[: tail - 1]
    magnitude, word = Signal(WIDTH - 1, name="magnitude"), Signal(WIDTH, name="word")
    m.d.comb += magnitude.eq(Cat(fraction, exact.exponent[:EXPONENT]) + (half & (fraction[0] | rest.any())))
    tiny = ~exact.nan & (exact.zero | ~exact.infinite & (exact.exponent < 1))
    top = exact.nan | ~exact.zero & (exact.infinite | (exact.exponent >= TOP))
    # Elsewhere a carry out of the fraction makes at most an infinity.
    m.d.comb += [
        fields(word).fraction.eq(Mux(tiny | top, exact.nan << FRACTION - 1, magnitude[:FRACTION])),
        fields(word).exponent.eq(Mux(tiny, 0, Mux(top, TOP, magnitude[FRACTION:]))),
        fields(word).sign.eq(exact.sign & ~exact.nan),
    ]
    return word


def leading_zeros(x: Value) -> Value:
    """Zeros above the highest one of x, which is 2**n > 1 wide: n bits; all ones if x is 0."""
    if len(x) == 2:
        return ~x[1]
    low, high = x[: len(x) // 2], x[len(x) // 2 :]
    return Cat(Mux(high == 0, leading_zeros(low), leading_zeros(high)), high == 0)


def held(m: Module, registered: bool, *values: Value) -> list[Value]:
    """The values themselves, or a clock later out of registers, which hold anything after a reset."""
    if not registered:
        return list(values)
    registers = [Signal.like(value, name="held", reset_less=True) for value in values]
    m.d.sync += [register.eq(value) for register, value in zip(registers, values, strict=True)]
    return registers


# Adder and multiplier.


class Add(Component):
    """o = a + b. Opposite numbers give +0, equal zeros their own sign, inf - inf NaN.

    Latency 0; 1 clock if `registered`, the register lying between the sum and its normalisation. A pair a clock.
    """

    def __init__(self, registered: bool = False) -> None:
        self.registered, self.latency = registered, int(registered)
        super().__init__({"a": In(WIDTH), "b": In(WIDTH), "o": Out(WIDTH)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        large, small = Signal(WIDTH, name="large"), Signal(WIDTH, name="small")
        pair = Cat(self.a, self.b)
        m.d.comb += Cat(small, large).eq(Mux(self.a[:-1] < self.b[:-1], pair, Cat(self.b, self.a)))
        subtract, exponent = large[-1] ^ small[-1], fields(large).exponent
        nan = (exponent == TOP) & ((fields(large).fraction != 0) | (subtract & (fields(small).exponent == TOP)))
        sum_, nan, infinite, next_exponent, sign, both = held(
            m,
            bool(self.latency),
            self._sum(m, large, small, subtract),
            nan,
            exponent == TOP,
            exponent + 1,
            large[-1],
            large[-1] & small[-1],
        )
        zeros, normal = leading_zeros(sum_), Signal.like(sum_, name="normal")
        nonzero = sum_.any()
        zero = ~nonzero
        shifted = Signal(signed(EXPONENT + 2))
        m.d.comb += [normal.eq(sum_ << zeros), shifted.eq(next_exponent - zeros)]
        m.d.comb += self.o.eq(rounded(m, Exact(Mux(zero, both, sign), shifted, normal, nan, infinite, zero)))
        return m

    def _sum(self, m: Module, large: Value, small: Value, subtract: Value) -> Signal:
        """abs(large ± small), the large significand one bit below the top, the lowest bits sticky."""
        distance, far = Signal(EXPONENT, name="distance"), FRACTION + 3  # so far away, the smaller one is but sticky
        aligned, sum_ = Signal(far + FRACTION + 1, name="aligned"), Signal(2 ** (FRACTION + 4).bit_length(), name="sum")
        m.d.comb += distance.eq(fields(large).exponent - fields(small).exponent)
        shift = Mux(distance > far, far, distance[: far.bit_length()])
        m.d.comb += aligned.eq(Cat(Const(0, far), significand(small)) >> shift)
        sticky, kept = aligned[: FRACTION + 1].any(), aligned[FRACTION + 1 :]
        addend = Cat(sticky, kept, Const(0, 1))
        total = Cat(Const(0b0001, 4), significand(large)) + Cat(subtract, addend ^ subtract.replicate(len(addend)))
        m.d.comb += sum_.eq(Cat(Const(0, len(sum_) - len(addend)), total[1 : len(addend) + 1]))
        return sum_


class Mul(Component):
    """o = a * b. Infinity times zero is NaN.

    Latency 0; 1 clock if `registered`, the register lying between the product and its rounding. A pair a clock.
    """

    def __init__(self, registered: bool = False) -> None:
        self.registered, self.latency = registered, int(registered)
        super().__init__({"a": In(WIDTH), "b": In(WIDTH), "o": Out(WIDTH)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(product(m, self.a, self.b, bool(self.latency)))
        return m


def product(m: Module, a: Value, b: Value, registered: bool) -> Signal:
    """float32 of a * b, both float32 or both bfloat16; latency as in `Mul`."""
    exponent = Signal(signed(EXPONENT + 2))
    m.d.comb += exponent.eq(fields(a).exponent + fields(b).exponent - BIAS)
    nan = is_nan(a) | is_nan(b) | (is_infinite(a) & is_zero(b)) | (is_zero(a) & is_infinite(b))
    infinite = is_infinite(a) | is_infinite(b)
    zero = is_zero(a) | is_zero(b)
    exact = significand(a) * significand(b)
    sign = a[-1] ^ b[-1]
    exact, exponent, sign, nan, infinite, zero = held(m, registered, exact, exponent, sign, nan, infinite, zero)
    padded, normal = (
        Cat(Const(0, max(0, FRACTION + 3 - len(exact))), exact),
        Signal(max(len(exact), FRACTION + 3), name="normal"),
    )
    m.d.comb += normal.eq(Mux(exact[-1], padded, padded << 1))
    raised = exponent + exact[-1]
    return rounded(m, Exact(sign, raised, normal, nan, infinite, zero))
