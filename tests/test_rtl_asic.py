# amaranth: UnusedElaboratable=no
"""The ASIC's function units in gates against `cycle_sim/asic_math.py`, bit for bit."""

import shutil
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, connect, flipped

from pimloom.arch.asic import ADDERS
from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl.asic_layernorm import Layernorm
from pimloom.rtl.asic_pipeline import Pipeline, add, mul
from pimloom.rtl.asic_softmax import Softmax
from pimloom.rtl.asic_sum import AccumulatePartials, TreeSum
from pimloom.rtl.asic_unary import Exp, Gelu, Reciprocal, Rsqrt
from pimloom.rtl.emit import to_verilog
from pimloom.rtl_flow.simulator import FLAGS, simulate

BENCH = "tests.rtl_benches.bench_asic"
ALL = np.arange(2**16, dtype=np.uint32)
UNARY = {"exp": Exp, "reciprocal": Reciprocal, "rsqrt": Rsqrt, "gelu": Gelu}
EPS = 1e-5
OWN_FLAGS = {"icarus": ["-g2005"]}  # -g2012 never evaluates an `always @*` whose inputs keep their initial values


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


# Numbers as bits.


def bf16(x):
    """Nearest bfloat16, unsettled: subnormals stay."""
    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16)


def bits(x):
    """bfloat16 or float32 as uint32."""
    return x.view(np.uint16 if x.dtype == ml_dtypes.bfloat16 else np.uint32).astype(np.uint32)


def ends(vectors):
    """`last` of every element."""
    return np.concatenate([np.arange(len(vector)) == len(vector) - 1 for vector in vectors]).astype(np.uint32)


def words(*columns):
    return np.stack(columns, axis=-1).astype(np.uint32)


# What goes in, and what must come out: (payloads by source, payloads by sink).


def unary(inputs):
    """Every unit's bfloat16 and, above it, the float32 from which that is rounded."""
    x = inputs.astype(np.uint16).view(ml_dtypes.bfloat16)
    narrow = {name: bits(getattr(asic, f"{name}_bf16")(x)) for name in UNARY}
    wide = {name: bits(getattr(asic, name)(x)).astype(np.uint64) << 16 for name in UNARY}
    return {f"{name}_i": words(inputs) for name in UNARY}, {f"{name}_o": narrow[name] | wide[name] for name in UNARY}


def vectors(rng, dtype):
    """Vectors of many lengths, then nasty ones."""
    inf, nan = np.inf, np.nan
    nasty = [[3, -inf, 3, -inf], [-inf] * 4, [nan, 0, -inf], [0, inf, 1], [inf, -inf], [7] * 300]
    nasty += [[-0.0], [nan], [1e-40, -1e-40, -0.0], [3e38, 3e38, -3e38], [-3e38] * 3 + [1], [88, -40, -87.5, 0, 88]]
    plain = [rng.normal(1, 4, n) for n in (1, 2, 3, 255, 256, 257, 1000, 1024)]
    wide = [rng.normal(0, 1, n) * 2.0 ** rng.integers(-140, 127, n) for n in (5, 100, 513)]
    flat = [rng.normal(0, 3e-3, n) for n in (64, 300)]  # where the eps of layernorm tells
    return [np.asarray(x, np.float32).astype(dtype) for x in plain + wide + flat + nasty]


def sums(rng):
    every = vectors(rng, np.float32)
    fours = [np.pad(x, (0, -len(x) % 4)).reshape(-1, 4) for x in every]
    total = bits(np.array([asic.tree_sum(x) for x in every]))
    one = words(bits(np.concatenate(every)), ends(every))
    four = words(*bits(np.concatenate(fours)).T, ends(fours))
    return {"sum1_i": one, "sum4_i": four}, {"sum1_o": total, "sum4_o": total}


def partials(rng):
    terms = [*vectors(rng, ml_dtypes.bfloat16), *(bf16(rng.normal(size=n)) for n in range(1, 40))]
    total = [asic.accumulate_partials_bf16(x[:-1, None], x[-1:]) for x in terms]
    packed = bits(np.concatenate(terms)) | ends(terms) << 16
    return {"partials_i": packed[:, None]}, {"partials_o": bits(np.concatenate(total))}


def softmax(rows):
    last = ends(rows) << 16
    shares = np.concatenate([asic.softmax_bf16(row) for row in rows])
    return {"softmax_i": words(bits(np.concatenate(rows)) | last)}, {"softmax_o": bits(shares) | last}


def layernorm(rng, rows):
    last = ends(rows) << 16
    gamma, beta = ([bf16(rng.normal(1, 2, len(row))) for row in rows] for _ in range(2))
    normal = [asic.layernorm_bf16(*each, eps=EPS) for each in zip(rows, gamma, beta, strict=True)]
    affine = bits(np.concatenate(gamma)) | bits(np.concatenate(beta)) << 16
    inverse_n = bits(np.array([1 / len(row) for row in rows], np.float32))
    given = {"i": words(bits(np.concatenate(rows)) | last), "affine": words(affine), "inverse_n": words(inverse_n)}
    return {f"layernorm_{port}": payloads for port, payloads in given.items()}, {
        "layernorm_o": bits(np.concatenate(normal)) | last
    }


def stimulus(seed, inputs):
    rng = np.random.default_rng(seed)
    rows = vectors(rng, ml_dtypes.bfloat16)
    pairs = [unary(inputs), sums(rng), partials(rng), softmax(rows), layernorm(rng, rows)]
    return merged(source for source, _ in pairs), merged(sink for _, sink in pairs)


def merged(parts):
    return {name: payloads for part in parts for name, payloads in part.items()}


def run(verilog, sources, sinks, pace, simulator="verilator"):
    """What the bench leaves."""
    given = {f"in.{name}": payloads for name, payloads in sources.items()}
    given |= {f"out.{name}": np.array(len(payloads)) for name, payloads in sinks.items()}
    with patch.dict(FLAGS, OWN_FLAGS):
        return simulate(verilog, "units", BENCH, given | {"pace": np.array(pace)}, simulator=simulator)


def differences(left, sinks):
    """The sinks that got other bits than they should, each with the first place."""
    wrong = {}
    for name, want in sinks.items():
        got = left[name]
        if len(got) != len(want):
            wrong[name] = f"{len(got)} instead of {len(want)}"
        elif len(where := np.flatnonzero(got != want)):
            wrong[name] = f"{len(where)} differ; [{where[0]}] is {got[where[0]]:#x}, should be {want[where[0]]:#x}"
    return wrong


# The tests.


@pytest.fixture(scope="module")
def units():
    unary = {name: unit(wide=True) for name, unit in UNARY.items()}
    sums = {"sum1": TreeSum(), "sum4": TreeSum(4), "partials": AccumulatePartials()}
    return unary | sums | {"softmax": Softmax(), "layernorm": Layernorm(eps=EPS)}


@pytest.fixture(scope="module")
def verilog(units):
    return to_verilog(Units(**units), "units")


@pytest.fixture(scope="module")
def full_speed(verilog):
    """All bfloat16 through the unary units, and vectors back to back, with no clock lost by the bench."""
    sources, sinks = stimulus(1, ALL)
    return sources, sinks, run(verilog, sources, sinks, 1.0)


def test_every_bit(full_speed):
    _, sinks, left = full_speed
    assert not differences(left, sinks)


def test_any_pace_of_both_sides(verilog):
    sources, sinks = stimulus(2, np.random.default_rng(3).permutation(ALL)[:5000])
    assert not differences(run(verilog, sources, sinks, 0.6), sinks)


@pytest.mark.parametrize("name", UNARY)
def test_unary_units_take_an_element_a_clock(units, full_speed, name):
    *_, left = full_speed
    assert (np.diff(left[f"{name}_i.clock"]) == 1).all()
    assert set(left[f"{name}_o.clock"] - left[f"{name}_i.clock"]) == {units[name].latency}


@pytest.mark.parametrize("name", ["sum1", "sum4", "partials"])
def test_sums_come_a_fixed_time_after_the_last_element(units, full_speed, name):
    sources, _, left = full_speed
    *_, last = sources[f"{name}_i"].T
    taken = left[f"{name}_i.clock"]
    assert (np.diff(taken) == 1).all()
    assert set(left[f"{name}_o.clock"] - taken[last >> (16 * (name == "partials")) == 1]) == {units[name].latency}


@pytest.mark.parametrize("name", ["softmax", "layernorm"])
def test_vectors_take_three_passes(units, full_speed, name):
    sources, _, left = full_speed
    last = np.flatnonzero(sources[f"{name}_i"][:, 0] >> 16)
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
        ("sum1", 9, 9, 0),
        ("sum4", 9, 10, 0),
        ("partials", 2, 1, 0),
        ("softmax", 42, 23, 16),  # and 3 n clocks
        ("layernorm", 35, 13, 8),
    ],
)
def test_the_docstrings_numbers(units, name, latency, adders, multipliers):
    unit = units[name]
    clocks = unit.latency(0) if name in ("softmax", "layernorm") else unit.latency
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
    rng = np.random.default_rng(4)
    sources, sinks = layernorm(rng, [bf16(rng.normal(0, 3, n)) for n in (1, 5, 8)])
    x = [rng.normal(size=(n, 8)).astype(np.float32) for n in (3, 1)]
    sources["tree_i"] = words(*bits(np.concatenate(x)).T, ends(x))
    sinks["tree_o"] = bits(np.array([asic.tree_sum(each.ravel(), 8) for each in x]))
    verilog = to_verilog(Units(layernorm=Layernorm(length=8, eps=EPS), tree=TreeSum(lanes=8, width=8)), "units")
    assert not differences(run(verilog, sources, sinks, 0.7, "icarus"), sinks)
