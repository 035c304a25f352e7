"""The gates of float32 and bfloat16 against the number rules of `asic_math`, and against numpy where IEEE agrees."""

import shutil
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator

from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl import bf16, float32
from pimloom.rtl.flow.scenes.scene import ROWS
from pimloom.rtl.flow.scenes.values import (
    EDGE_PAIRS,
    EDGES,
    PRODUCTS,
    SIGN,
    SUMS,
    TINY,
    near_each_other,
    partners,
    sweep,
)
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.verilog import to_verilog
from tests.slow import slow

HUGE = (2 - 2.0**-24) * 2.0**127  # rounds to infinity, all below does not
WORDS = 64
FEW = 16  # as a netlist that is made in a third of the time
RESULTS = ("total", "product", "narrow", "short", "scaled")


class Harness(Component):
    """A row of `words` words of a and b through one of each unit, a word a clock."""

    def __init__(self, words: int = WORDS) -> None:
        bits = self.bits = 32 * words
        super().__init__({"a": In(bits), "b": In(bits)} | {name: Out(bits) for name in RESULTS})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, rest_a, rest_b = Signal(range(self.bits // 32)), Signal(self.bits), Signal(self.bits)
        words_a, words_b = Signal.like(rest_a), Signal.like(rest_b)
        m.d.comb += [words_a.eq(rest_a), words_b.eq(rest_b)]
        with m.If(count == 0):
            m.d.comb += [words_a.eq(self.a), words_b.eq(self.b)]
        m.d.sync += [count.eq(count + 1), rest_a.eq(words_a >> 32), rest_b.eq(words_b >> 32)]
        for name, result in zip(RESULTS, self._results(m, words_a[:32], words_b[:32]), strict=True):
            port, padding = getattr(self, name), Const(0, 32 - len(result))
            m.d.sync += port.eq(Cat(port[32:], result, padding))
        return m

    def _results(self, m, a, b):
        m.submodules.add, m.submodules.mul, m.submodules.narrow = units = float32.Add(), float32.Mul(), bf16.Mul()
        m.submodules.short = short = bf16.Round()
        for unit in units:
            drop = 32 - len(unit.a)
            m.d.comb += [unit.a.eq(a[drop:]), unit.b.eq(b[drop:])]
        m.d.comb += short.a.eq(a)
        return [*(u.o for u in units), short.o, float32.scale(m, a, b[:10].as_signed())]


# What goes in: 2**20 pairs for sums, as many for products; a takes all 2**16 upper halves with 16 lower ones.


@cache
def pairs():
    """a, b uint32[2**21 and some]: those for sums, those for products, all pairs of edges, ones to fill up."""
    rng = np.random.default_rng(1)
    a = [sweep(rng), sweep(rng), EDGE_PAIRS[:, 0]]
    b = [partners(rng, a[0], SUMS), partners(rng, a[1], PRODUCTS), EDGE_PAIRS[:, 1]]
    ones = np.full(-len(EDGE_PAIRS) % WORDS, 0x3F800000, np.uint32)
    return np.concatenate([*a, ones]), np.concatenate([*b, ones])


def run(simulator, rows, words=WORDS):
    a, b = (x.reshape(-1, words)[rows] for x in pairs())
    given = {"a": a, "b": b, "clocks": np.array(words), "results": np.array(RESULTS)}
    left = simulate(to_verilog(Harness(words), "harness"), "harness", ROWS, given, simulator=simulator)
    return {name: left[name].reshape(-1) for name in RESULTS}


@cache
def gates():
    return run("verilator", slice(None))


# The model.


def f32(words):
    return asic.settle(words.view(np.float32))


def upper(words):
    return f32(words & np.uint32(0xFFFF0000))


def signed10(words):
    return ((words & 1023).astype(np.int32) ^ 512) - 512


MODEL = {
    "total": lambda a, b: asic.add(f32(a), f32(b)),
    "product": lambda a, b: asic.mul(f32(a), f32(b)),
    "narrow": lambda a, b: asic.mul(upper(a), upper(b)),
    "short": lambda a, b: asic.to_bf16(a.view(np.float32)),
    "scaled": lambda a, b: asic.scale(f32(a), signed10(b)),
}


def compare(got, expected):
    expected = expected.view(f"u{expected.dtype.itemsize}")
    wrong = np.flatnonzero(got != expected)
    assert not len(wrong), [(int(i), hex(got[i]), hex(expected[i])) for i in wrong[:5]]


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_the_gates_are_the_model_bit_for_bit(name):
    compare(gates()[name], MODEL[name](*pairs()))


def settled(*numbers):
    """Where all are normal numbers, zeros or infinite."""
    return np.logical_and.reduce([(x == 0) | (np.abs(x) >= TINY) for x in numbers])


@pytest.mark.slow
@np.errstate(all="ignore")
def test_the_gates_are_ieee_but_for_nan_and_subnormals():
    a, b = (x.view(np.float32) for x in pairs())
    high_a, high_b = ((x & np.uint32(0xFFFF0000)).view(np.float32) for x in pairs())
    exact = high_a.astype(np.float64) * high_b.astype(np.float64)
    ieee = {"total": (a, b, a + b), "product": (a, b, a * b), "narrow": (high_a, high_b, exact.astype(np.float32))}
    for name, (x, y, expected) in ieee.items():
        where = settled(x, y, expected) & ~((np.abs(expected) == TINY) & (name == "product"))
        assert where.sum() > 10**6
        compare(gates()[name][where], expected[where])
    compare(gates()["short"][settled(a)], a[settled(a)].astype(ml_dtypes.bfloat16))


def kinds(a, b, exact):
    """How often each special case occurs; exact: the results in float64."""
    finite = np.isfinite(a) & np.isfinite(b)
    size, bits = np.abs(exact), exact.view(np.uint64)
    masks = {
        "tie": finite & (size >= TINY) & (size < HUGE) & (bits % 2**29 == 2**28),
        "nearly a tie": finite
        & (np.abs((bits % 2**29).astype(np.int64) - 2**28 - 0.5) < 2**10)
        & (bits % 2**29 != 2**28),
        "flushed": finite & (size > 0) & (size < TINY),
        "nearly flushed": (size >= TINY) & (size < 2 * TINY),
        "overflow": finite & (size >= HUGE),
        "nearly overflow": (size < HUGE) & (size >= 2.0**127),
        "subnormal": np.logical_or(*((x != 0) & (np.abs(x) < TINY) for x in (a, b))),
        "NaN": np.isnan(a) | np.isnan(b),
        "NaN made": ~(np.isnan(a) | np.isnan(b)) & np.isnan(exact),
        "infinity": np.isinf(a) | np.isinf(b),
        "a zero": (a == 0) ^ (b == 0),
        "zeros": (a == 0) & (b == 0),
    }
    return {name: int(mask.sum()) for name, mask in masks.items()}


@np.errstate(all="ignore")
def test_every_special_case_occurs():
    a, b = (x.view(np.float32) for x in pairs())
    wide = a.astype(np.float64), b.astype(np.float64)
    sums, products = kinds(a, b, wide[0] + wide[1]), kinds(a, b, wide[0] * wide[1])
    rare = {"zeros", "NaN made"}  # from the pairs of edges
    assert min(n for kinds in (sums, products) for name, n in kinds.items() if name not in rare) > 1000, (
        sums,
        products,
    )
    assert min(n for kinds in (sums, products) for n in kinds.values()) > 1, (sums, products)
    assert ((a == -b) & (np.abs(a) >= TINY)).sum() > 50_000
    up = np.abs(wide[0] * wide[1])
    assert ((up < TINY) & (up.astype(np.float32) == np.float32(TINY))).sum() > 100  # rounded first, they would stay


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
def test_the_gates_in_icarus_are_the_model():
    n = len(pairs()[0]) // FEW
    some = [*range(400, 420), *range(n // 2 + 400, n // 2 + 420), *range(n - 40, n)]  # of sums, of products, of edges
    left = run("icarus", some, FEW)
    for name in RESULTS:
        compare(left[name], MODEL[name](*(x.reshape(-1, FEW)[some].reshape(-1) for x in pairs())))


# The rest in Amaranth's own simulator.


@pytest.mark.parametrize(("name", "build"), [("total", float32.Add), ("product", float32.Mul), ("narrow", bf16.Mul)])
def test_a_registered_unit_is_a_clock_later(name, build):
    unit, (a, b) = build(registered=True), (x[-500:] for x in pairs())
    assert unit.latency == 1
    got, drop = np.zeros(len(a), np.uint32), 32 - len(unit.a)

    async def bench(ctx):
        for i in range(len(a)):
            ctx.set(unit.a, int(a[i] >> drop))
            ctx.set(unit.b, int(b[i] >> drop))
            got[i] = ctx.get(unit.o)
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    compare(got[1:], MODEL[name](a, b)[:-1])


class Small(Component):
    """Helpers that are but wires, and 1 / 3 (below a tie of bits)."""

    def __init__(self) -> None:
        super().__init__({"a": In(32), "minus": Out(32), "wide": Out(32), "third": Out(32), "infinite": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.minus.eq(float32.negate(self.a)), self.wide.eq(bf16.widen(self.a[16:]))]
        m.d.comb += [self.third.eq(float32.constant(1 / 3)), self.infinite.eq(float32.is_infinite(self.a))]
        return m


def test_small_helpers():
    small = Small()

    async def bench(ctx):
        for a in EDGES:
            ctx.set(small.a, int(a))
            assert ctx.get(small.minus) == a ^ SIGN
            assert ctx.get(small.wide) == upper(a[None]).view(np.uint32)
            assert ctx.get(small.third) == np.float32(1 / 3).view(np.uint32)
            assert ctx.get(small.infinite) == np.isinf(a.view(np.float32))

    simulator = Simulator(small)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(("width", "clocks", "latency"), [(2, 2, 2), (4, 1, 2), (8, 0, 0), slow(8, 1, 3), (8, 2, 6)])
def test_the_tree_is_pairwise_and_as_late_as_it_says(width, clocks, latency):
    tree, x = bf16.Tree(width, clocks), near_each_other(np.random.default_rng(2), 100, width)
    assert tree.latency == latency
    got = np.zeros(len(x), np.uint32)

    async def bench(ctx):
        for i, row in enumerate(x.tolist()):
            ctx.set(tree.x, row)
            got[i] = ctx.get(tree.o)
            if latency:
                await ctx.tick()

    simulator = Simulator(tree)
    if latency:
        simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    compare(got[latency:], asic.pairwise(f32(x))[: len(x) - latency])
