# amaranth: UnusedElaboratable=no
"""What is proved of the arithmetic without clocks: a second formulation, written from the rules of `asic_math.py`.

Where the gates round by guard and sticky bits, what is left over is compared with a half here; where they shift by a
count of zeros, a number is moved up step by step. The product of two integers is taken as the solver has it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import Component

from pimloom.rtl import bf16, float32
from pimloom.rtl.float32 import BIAS, FRACTION, INFINITY, NAN, TOP, WIDTH, fields, significand
from pimloom.rtl.formal.checker import wire
from pimloom.rtl.formal.question import Claim

ROOM = 27  # bits below the larger significand; farther away, the smaller number does not matter


class Operands:
    """A unit with two operands between any bits, `low` of them, the lowest, being 0."""

    def __init__(self, make: Callable[[], Component], low: int, m: Module, twin: str | None, bits: int) -> None:
        self.m = m
        m.submodules.unit = self.unit = unit = make()
        self.a, self.b = (wire(m, Cat(Const(0, low), AnySeq(len(unit.a) - low)), name) for name in "ab")
        m.d.comb += [unit.a.eq(self.a), unit.b.eq(self.b)]
        self.o = wire(m, unit.o ^ (unit.o[20:22] == 3) if twin else unit.o, "o")

    def word(self, sign: Value, exponent: Value, exact: Value, zero: Value, special: Value, nan: Value) -> Value:
        """The settled float32 of exact * 2**(exponent - BIAS), its top bit being worth one: nearest, ties to even."""
        m, tail = self.m, len(exact) - FRACTION - 1
        left, half = exact[:tail], 1 << tail - 1
        up = (left > half) | ((left == half) & exact[tail])
        kept = wire(m, exact[tail:] + up, "kept")
        over = kept[FRACTION + 1]
        grown = wire(m, exponent + over, "grown")
        number = Cat(Mux(over, 0, kept[:FRACTION]), grown[: float32.EXPONENT])
        size = Mux(special | (grown >= TOP) & ~zero, INFINITY, Mux(zero | (exponent < 1), 0, number))
        return Mux(nan, NAN, Cat(size[: WIDTH - 1], sign))


def _kinds(x: Value) -> tuple[Value, Value, Value]:
    """Whether x is zero, infinite, not a number."""
    top = fields(x).exponent == TOP
    some = fields(x).fraction != 0
    return fields(x).exponent == 0, top & ~some, top & some


def product(s: Operands) -> Iterator[Value]:
    """For any two operands the product is the exact one, rounded once to nearest even: flushed below 2**-126, infinite
    from 2**128 on; NaN for NaN and for infinity times zero."""
    m, a, b = s.m, s.a, s.b
    (a_zero, a_inf, a_nan), (b_zero, b_inf, b_nan) = _kinds(a), _kinds(b)
    x, y = significand(a), significand(b)
    exact = wire(m, x * y, "exact")
    exact = Cat(Const(0, 2 * FRACTION + 2 - len(exact)), exact)  # of bfloat16: nothing is below
    exponent = Signal(signed(float32.EXPONENT + 4))
    m.d.comb += exponent.eq(fields(a).exponent + fields(b).exponent - BIAS + exact[-1])
    normal = wire(m, Mux(exact[-1], exact, exact << 1)[: len(exact)], "normal")
    zero, nan = a_zero | b_zero, a_nan | b_nan | a_inf & b_zero | a_zero & b_inf
    yield s.o == s.word(a[-1] ^ b[-1], exponent, normal, zero, a_inf | b_inf, nan)


def product_seen(s: Operands) -> Iterator[Value]:
    """A number, infinity out of numbers, zero out of none, NaN."""
    inside = (fields(s.a).exponent != TOP) & (fields(s.b).exponent != TOP)
    yield inside & (fields(s.o).exponent != 0) & (fields(s.o).fraction != 0)
    yield inside & (s.o == INFINITY)
    yield ~fields(s.a).exponent.all() & (s.o == 0) & (fields(s.a).exponent != 0)
    yield s.o == NAN


def total(s: Operands) -> Iterator[Value]:
    """For any two operands that are bfloat16 the float32 sum is the exact one, rounded once to nearest even;
    opposite numbers give +0, zeros of one sign that zero, opposite infinities NaN."""
    m, a, b = s.m, s.a, s.b
    first = fields(a).exponent >= fields(b).exponent
    large, small = wire(m, Mux(first, a, b), "large"), wire(m, Mux(first, b, a), "small")
    (_, l_inf, l_nan), (s_zero, s_inf, s_nan) = _kinds(large), _kinds(small)
    apart = wire(m, fields(large).exponent - fields(small).exponent, "apart")[: float32.EXPONENT]
    far = (apart >= ROOM) | s_zero
    x = Cat(Const(0, ROOM), significand(large), Const(0, 2))
    y = wire(m, Mux(far, 0, Cat(Const(0, ROOM), significand(small), Const(0, 2)) >> apart[:5])[: len(x)], "aligned")
    less = large[-1] ^ small[-1]
    signed_sum = wire(m, Mux(less, x - y, x + y)[: len(x)], "signed_sum")
    below = signed_sum[-1]
    size = wire(m, Mux(below, -signed_sum, signed_sum)[: len(x) - 1], "size")
    exponent = Signal(signed(float32.EXPONENT + 3))
    m.d.comb += exponent.eq(fields(large).exponent + 1)
    up: Value = size
    for step in (32, 16, 8, 4, 2, 1):
        high = up[-step:] == 0
        up = wire(m, Mux(high, up << step, up)[: len(size)], f"up_{step}")
        moved = Signal(signed(float32.EXPONENT + 3), name=f"exponent_{step}")
        m.d.comb += moved.eq(exponent - Mux(high, step, 0))
        exponent = moved
    nothing = size == 0
    sign = Mux(nothing, large[-1] & small[-1], large[-1] ^ below)
    nan = l_nan | s_nan | l_inf & s_inf & less
    yield s.o == s.word(sign, exponent, up, nothing, l_inf | s_inf, nan)


def total_seen(s: Operands) -> Iterator[Value]:
    """A number, a difference of near ones, infinity out of numbers, NaN."""
    numbers = (fields(s.a).exponent != TOP) & (fields(s.b).exponent != TOP)
    yield numbers & (fields(s.o).exponent != 0) & (fields(s.o).fraction != 0)
    yield numbers & (fields(s.a).exponent == 40) & (fields(s.o).exponent == 35)
    yield numbers & (s.o == INFINITY)
    yield s.o == NAN


class Tree:
    """A tree of 8 with clocks, whose adders are a stand-in that is neither commutative nor associative; and the same
    sum without clocks, of what came in `latency` clocks ago."""

    def __init__(self, m: Module, twin: str | None, bits: int) -> None:
        self.m = m
        m.submodules.tree = self.tree = tree = bf16.Tree(8, 2)
        for i in range(tree.width):
            m.d.comb += tree.x[i].eq(AnySeq(WIDTH))
        level: list[Value] = [tree.x[i] for i in range(tree.width)]
        if twin:
            level[0], level[1] = level[1], level[0]
        while len(level) > 1:
            level = [wire(m, stand_in(a, b), "sum") for a, b in zip(level[0::2], level[1::2], strict=True)]
        self.past = [level[0]]
        for clock in range(tree.latency):
            register = Signal(WIDTH, name=f"past_{clock}")
            m.d.sync += register.eq(self.past[-1])
            self.past.append(register)
        self.clock = Signal(range(tree.latency + 2))
        m.d.sync += self.clock.eq(self.clock + (self.clock <= tree.latency))


def stand_in(a: Value, b: Value) -> Value:
    """Of two words one, from which either can be told, given the other."""
    return (a + a.rotate_left(3) ^ b.rotate_left(7))[:WIDTH]


def tree_order(s: Tree) -> Iterator[Value]:
    """Numbers 2i and 2i + 1 meet at each level, in this order, and their sum comes out `latency` clocks later, one a
    clock; whatever an adder does."""
    yield (s.clock <= s.tree.latency) | (s.tree.o == s.past[-1])


def tree_order_seen(s: Tree) -> Iterator[Value]:
    """Two sums one after the other."""
    yield (s.clock > s.tree.latency) & (s.tree.o != s.past[-2]) & (s.tree.o != 0)


WRONG = "wrong in some bit"
SETUPS: dict[str, Any] = {
    # of all float32 the solver did not end within minutes
    "float32_add": partial(Operands, float32.Add, bf16.DROPPED),
    "float32_mul": partial(Operands, float32.Mul, 0),
    "bf16_mul": partial(Operands, bf16.Mul, 0),
    "bf16_tree": Tree,
}
CLAIMS: dict[str, dict[str, Claim]] = {
    "float32_add": {"sum": Claim(total, total_seen, (WRONG,))},
    "float32_mul": {"product": Claim(product, product_seen, (WRONG,))},
    "bf16_mul": {"product": Claim(product, product_seen, (WRONG,))},
    "bf16_tree": {"order": Claim(tree_order, tree_order_seen, (WRONG,), depth=8)},
}
