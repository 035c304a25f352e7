# amaranth: UnusedElaboratable=no
"""The ASIC's function units in gates against `cycle_sim/asic_math.py`, bit for bit."""

import shutil

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, connect, flipped

from pimloom.arch.asic import ADDERS
from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl.asic.layernorm import Layernorm
from pimloom.rtl.asic.pipeline import Pipeline, add, mul
from pimloom.rtl.asic.rmsnorm import Rmsnorm
from pimloom.rtl.asic.softmax import Softmax
from pimloom.rtl.asic.sum import AccumulatePartials, TreeSum
from pimloom.rtl.asic.unary import Exp, Gelu, Reciprocal, Rsqrt, Silu
from pimloom.rtl.blocks import LONGEST
from pimloom.rtl.flow.scenes.functions import bits, layernorm, partials, rmsnorm, softmax, sums, words
from pimloom.rtl.flow.scenes.scene import Scene, mismatches, play, stream_scene
from pimloom.rtl.flow.scenes.values import BF16, NASTY
from pimloom.rtl.verilog import to_verilog
from tests.slow import slow

ALL = np.arange(2**16, dtype=np.uint32)
UNARY = {"exp": Exp, "reciprocal": Reciprocal, "rsqrt": Rsqrt, "gelu": Gelu, "silu": Silu}


class Units(Component):
    """Units side by side; `<unit>_<port>` is a port of a unit."""

    def __init__(self, **units):
        self.units = units
        ports = [(unit, port) for unit in units for port in units[unit].signature.members]
        super().__init__({f"{unit}_{port}": units[unit].signature.members[port] for unit, port in ports})

    def elaborate(self, platform):
        m = Module()
        for name, unit in self.units.items():
            m.submodules[name] = unit
            for port in unit.signature.members:
                connect(m, flipped(getattr(self, f"{name}_{port}")), getattr(unit, port))
        return m


def bf16(x):
    """Nearest bfloat16, unsettled: subnormals stay."""
    return np.asarray(x, np.float32).astype(BF16)


# What goes in, and what must come out: (payloads by source, payloads by sink).


def unary(inputs):
    """Every unit's bfloat16 and, above it, the float32 from which that is rounded."""
    x = inputs.astype(np.uint16).view(BF16)
    narrow = {name: bits(getattr(asic, f"{name}_bf16")(x)) for name in UNARY}
    wide = {name: bits(getattr(asic, name)(x)).astype(np.uint64) << 16 for name in UNARY}
    return {f"{name}_i": words(inputs) for name in UNARY}, {f"{name}_o": narrow[name] | wide[name] for name in UNARY}


def vectors(rng, dtype):
    """Vectors of many lengths, then nasty ones."""
    plain = [rng.normal(1, 4, n) for n in (1, 2, 3, 255, 256, 257, 1000, 1024)]
    wide = [rng.normal(0, 1, n) * 2.0 ** rng.integers(-140, 127, n) for n in (5, 100, 513)]
    flat = [rng.normal(0, 3e-3, n) for n in (64, 300)]  # where the eps of layernorm tells
    return [np.asarray(x, np.float32).astype(dtype) for x in plain + wide + flat + NASTY]


def stimulus(seed, inputs):
    rng = np.random.default_rng(seed)
    rows, wide, narrow = vectors(rng, BF16), vectors(rng, np.float32), vectors(rng, BF16)
    terms = [*narrow, *(bf16(rng.normal(size=n)) for n in range(1, 40))]
    sources, sinks = unary(inputs)
    for name, pair in {
        "sum1": sums(wide, lanes=1),
        "sum4": sums(wide, lanes=4),
        "partials": partials(terms),
        "softmax": softmax(rows),
        "layernorm": layernorm(rows, rng),
        "rmsnorm": rmsnorm(rows, rng),
    }.items():
        for merged, ports in zip((sources, sinks), pair, strict=True):
            merged |= {f"{name}_{port}": payloads for port, payloads in ports.items()}
    return sources, sinks


def scene(seed, inputs, pace) -> Scene:
    sources, sinks = stimulus(seed, inputs)
    return stream_scene(sources, sinks, 0, lambda port, i: f"{port}[{i}]", (pace,))


# The tests.


@pytest.fixture(scope="module")
def units():
    unary = {name: unit(wide=True) for name, unit in UNARY.items()}
    sums = {"sum1": TreeSum(), "sum4": TreeSum(4), "partials": AccumulatePartials()}
    return unary | sums | {"softmax": Softmax(LONGEST), "layernorm": Layernorm(LONGEST), "rmsnorm": Rmsnorm(LONGEST)}


@pytest.fixture(scope="module")
def verilog(units):
    return to_verilog(Units(**units), "units")


@pytest.fixture(scope="module")
def full_speed(verilog):
    """Some bfloat16 through the unary units, and vectors back to back, with no clock lost by the bench."""
    given = scene(1, ALL[5::16], pace=1.0)
    return given, play(verilog, "units", given)


@pytest.mark.slow
def test_bit_for_bit(full_speed):
    assert not mismatches(*full_speed)


@pytest.mark.slow
def test_every_bit(verilog):
    given = scene(1, ALL, pace=1.0)
    assert not mismatches(given, play(verilog, "units", given))


@pytest.mark.slow
def test_any_pace_of_both_sides(verilog):
    given = scene(2, np.random.default_rng(3).permutation(ALL)[:5000], pace=0.6)
    assert not mismatches(given, play(verilog, "units", given))


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_unary_units_take_an_element_a_clock(units, full_speed, name):
    *_, left = full_speed
    assert (np.diff(left[f"{name}_i.clock"]) == 1).all()
    assert set(left[f"{name}_o.clock"] - left[f"{name}_i.clock"]) == {units[name].latency}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum1", "sum4", "partials"])
def test_sums_come_a_fixed_time_after_the_last_element(units, full_speed, name):
    scene, left = full_speed
    *_, last = scene.given[f"in.{name}_i"].T
    taken = left[f"{name}_i.clock"]
    assert (np.diff(taken) == 1).all()
    assert set(left[f"{name}_o.clock"] - taken[last >> (16 * (name == "partials")) == 1]) == {units[name].latency}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "layernorm", "rmsnorm"])
def test_vectors_take_their_passes(units, full_speed, name):
    scene, left = full_speed
    last = np.flatnonzero(scene.given[f"in.{name}_i"][:, 0] >> 16)
    n = np.diff(last, prepend=-1)
    clocks = left[f"{name}_o.clock"][last] - left[f"{name}_i.clock"][last - n + 1]
    assert clocks.tolist() == [units[name].latency(size) for size in n.tolist()]


@pytest.mark.parametrize(
    ("name", "latency", "adders", "multipliers"),
    [
        ("exp", 18, 9, 8),
        ("reciprocal", 13, 4, 7),
        ("rsqrt", 7, 1, 4),
        ("gelu", 36, 15, 19),
        ("silu", 32, 14, 16),
        ("sum1", 9, 9, 0),
        ("sum4", 9, 10, 0),
        ("partials", 2, 1, 0),
        ("softmax", 42, 23, 16),  # and 3 n clocks
        ("layernorm", 35, 13, 8),
        ("rmsnorm", 21, 11, 8),  # and 2 n
    ],
)
def test_the_docstrings_numbers(units, name, latency, adders, multipliers):
    unit = units[name]
    clocks = unit.latency(0) if name in ("softmax", "layernorm", "rmsnorm") else unit.latency
    assert (clocks, unit.adders, unit.multipliers) == (latency, adders, multipliers)


def test_a_whole_tree_has_the_adders_of_the_array():
    assert TreeSum(256).adders == ADDERS


@pytest.mark.parametrize("lanes", [0, 3, 512])
def test_lanes_are_a_power_of_two(lanes):
    with pytest.raises(ValueError, match="are powers of two"):
        TreeSum(lanes)


def test_wires_meet_and_share_their_delays():
    def body(x, y):
        total = add(mul(mul(x, 2.0), x), y)
        assert x.at(1) is x.at(1)
        assert [wire.stage for wire in (x, total, -total)] == [0, 3, 3]
        return total

    assert Pipeline({"x": 32, "y": 32}, 32, body).latency == 3


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not installed (iverilog)")
def test_icarus_agrees():
    """A sum over a tree and a unit with two of them, side by side."""
    rng = np.random.default_rng(4)
    pairs = {
        "layernorm": layernorm([bf16(rng.normal(0, 3, n)) for n in (1, 5, 8)], rng),
        "tree": sums([rng.normal(size=8 * n).astype(np.float32) for n in (3, 1)], lanes=4, width=8),
    }
    sources, sinks = (
        {f"{name}_{port}": payloads for name, pair in pairs.items() for port, payloads in pair[side].items()}
        for side in (0, 1)
    )
    given = stream_scene(sources, sinks, 0, lambda port, i: f"{port}[{i}]", (0.7,))
    verilog = to_verilog(Units(layernorm=Layernorm(length=8), tree=TreeSum(lanes=4, width=8)), "units")
    assert not mismatches(given, play(verilog, "units", given, "icarus"))


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not installed (iverilog)")
@pytest.mark.parametrize("name", [*map(slow, UNARY)])  # test_rtl_verify.py has `rsqrt` each day
def test_icarus_agrees_on_unary_units(name):
    numbers = ALL[37::701]
    sources, sinks = unary(numbers)
    given, taken = {"i": sources[f"{name}_i"]}, {"o": sinks[f"{name}_o"]}
    scene = stream_scene(given, taken, 0, lambda port, i: f"{port}[{i}]", (0.7,))
    assert not mismatches(scene, play(to_verilog(UNARY[name](wide=True), name), name, scene, "icarus"))
