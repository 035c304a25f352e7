"""Sweep files: what each form of an axis means, the points of a grid, and the one line for each kind of bad file."""

import doctest
import json
import math
import time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.sweeping.definition import axes, ranges
from pimloom.sweeping.definition.grid import count_points, grid_points
from pimloom.sweeping.definition.load_sweep import load_sweep, read_sweep, sweep_from, text_of
from pimloom.sweeping.definition.sweep import Axis, Scalar, Sweep

EXAMPLE = """\
# sweep.yaml
system: neupims                       # or pim_gpt, npu_pim, …
workload: {model: [gpt2-xl, llama-3-8b], batch: [1, 16, 64, 256], prompt: 128, generate: 256}
axes:
  dram.channels:        [8, 16, 32, 64]
  pim.macs_per_bank:    [8, 16, 32]
  dram.timing.tCCD_L:   {from: 1, to: 4, step: 1}
  npu.clock_mhz:        {log: [100, 2000], points: 8}
constraints: ["area_mm2 < 800", "power_w < 75"]
objectives:  {tokens_per_s: max, energy_per_token_j: min}
method: grid                          # grid | random | nsga2 | tpe   (budget: 2000)
"""


def test_the_example(tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    path.write_text(EXAMPLE)
    sweep = load_sweep(path)
    assert sweep == Sweep(
        name="first",
        system="neupims",
        workload={"prompt": 128, "generate": 256},
        set={},
        axes=(
            Axis("workload.model", ("gpt2-xl", "llama-3-8b")),
            Axis("workload.batch", (1, 16, 64, 256)),
            Axis("dram.channels", (8, 16, 32, 64)),
            Axis("pim.macs_per_bank", (8, 16, 32)),
            Axis("dram.timing.tCCD_L", (1, 2, 3, 4)),
            Axis("npu.clock_mhz", (100.0, 153.413, 235.355, 361.064, 553.918, 849.781, 1303.67, 2000.0)),
        ),
        constraints=("area_mm2 < 800", "power_w < 75"),
        objectives={"tokens_per_s": "max", "energy_per_token_j": "min"},
        method="grid",
        budget=None,
        batch=32,
        seed=0,
    )
    assert count_points(sweep) == 2 * 4 * 4 * 3 * 4 * 8
    places = [axis.place for axis in sweep.axes]
    points = list(grid_points(sweep))
    assert len(points) == 3072 == len({tuple(point.items()) for point in points})
    assert list(points[0]) == places
    assert [point["npu.clock_mhz"] for point in points[:9]] == [*sweep.axes[-1].values, 100.0]
    assert points[-1] == {axis.place: axis.values[-1] for axis in sweep.axes}


def test_doctests() -> None:
    assert doctest.testmod(ranges).failed == 0


def axis(written: str, place: str = "a.b", rest: str = "") -> Axis:
    return read_sweep(f"system: x\naxes:\n  {place}: {written}\n{rest}", "s.yaml").axes[0]


@pytest.mark.parametrize(
    ("written", "values", "unit"),
    [
        ("[3, 1, 2]", (3, 1, 2), None),
        ("[1, 2.5]", (1.0, 2.5), None),
        ("[true, false]", (True, False), None),
        ("[open, closed]", ("open", "closed"), None),
        ("[2 nCK, 4 nCK]", (2, 4), "nCK"),
        ("[2 ns, 2.5 ns]", (2.0, 2.5), "ns"),
        ("[2 nCK, 3 ns]", ("2 nCK", "3 ns"), None),
        ("[2nCK, 4nCK]", ("2nCK", "4nCK"), None),
        ('["[4 nCK, 7.5 ns]"]', ("[4 nCK, 7.5 ns]",), None),
        ("[<b>bold</b>]", ("<b>bold</b>",), None),
        ("{values: [2, 4], unit: nCK}", (2, 4), "nCK"),
        ("{from: 1, to: 4, step: 1}", (1, 2, 3, 4), None),
        ("{from: 1, to: 6, step: 2, unit: nCK}", (1, 3, 5), "nCK"),
        ("{from: 0, to: 1, step: 0.1}", (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), None),
        ("{from: -0.2, to: 0.1, step: 0.1}", (-0.2, -0.1, 0.0, 0.1), None),
        ("{from: 5, to: 5, step: 3}", (5,), None),
        ("{from: 9007199254740992, to: 9007199254740993, step: 1}", (2**53, 2**53 + 1), None),
        ("{from: 0.0, to: 2.0, step: 1}", (0, 1, 2), None),
        ("{log: [1, 1024], points: 11}", tuple(2**i for i in range(11)), None),
        ("{log: [0.3, 0.7], points: 2, unit: ns}", (0.3, 0.7), "ns"),
        ("{log: [1, 1e30], points: 3}", (1.0, 1e15, 1e30), None),
        ("{linear: [0, 1], points: 4}", (0.0, 0.333333333333, 0.666666666667, 1.0), None),
        ("{linear: [10, 40], points: 4}", (10, 20, 30, 40), None),
    ],
)
def test_values_of_an_axis(written: str, values: tuple[Scalar, ...], unit: str | None) -> None:
    assert axis(written) == Axis("a.b", values, unit)
    assert [type(value) for value in axis(written).values] == [type(value) for value in values]


def test_a_text_of_the_workload_keeps_its_unit() -> None:
    assert axis("[7 b, 13 b]", "workload.model") == Axis("workload.model", ("7 b", "13 b"))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{from: 1, to: 4}", Axis("a.b", (), None, 1.0, 4.0)),
        ("{linear: [1, 4], unit: ns}", Axis("a.b", (), "ns", 1.0, 4.0)),
        ("{log: [0.1, 4]}", Axis("a.b", (), None, 0.1, 4.0, log=True)),
    ],
)
def test_a_continuous_range(written: str, expected: Axis) -> None:
    assert axis(written, rest="method: random\nbudget: 5\n") == expected


@given(st.decimals(-1000, 1000, places=3), st.decimals("0.001", 50, places=3), st.integers(0, 200), st.floats(0, 0.99))
def test_a_stepped_range_is_the_decimals_one_would_write(low: Decimal, step: Decimal, count: int, rest: float) -> None:
    high = low + count * step + (step * Decimal(rest)).quantize(Decimal("0.0001"))
    values = ranges.stepped(float(low), float(high), float(step))
    if low + (count + 1) * step > high:
        assert values == tuple(float(low + i * step) for i in range(count + 1))
    assert ranges.count_steps(float(low), float(high), float(step)) == len(values)


@given(st.floats(1e-6, 1e6), st.floats(1.5, 1e6), st.integers(2, 50))
def test_a_logarithmic_range_has_its_ends_and_equal_ratios(low: float, ratio: float, points: int) -> None:
    high = low * ratio
    values = ranges.log_spaced(low, high, points)
    assert (values[0], values[-1], len(values)) == (low, high, points)
    for value, exact in zip(values, np.geomspace(low, high, points), strict=True):
        assert math.isclose(value, exact, rel_tol=1e-5)


LINKED = "{values: [8, 16], set: {d.lanes: [8, 16], d.nBL: [1 nCK, 2 nCK], 'e[0].f': [null, true]}}"


def test_a_linked_axis_sets_several_places() -> None:
    found = axis(LINKED, "macs_per_bank", "constraints: [macs_per_bank < 16]\nset: {d.rows: 4}\n")
    texts = {"d.lanes": ("8", "16"), "d.nBL": ("1 nCK", "2 nCK"), "e[0].f": ("null", "true")}
    assert found == Axis("macs_per_bank", (8, 16), sets=texts) != Axis("macs_per_bank", (8, 16))
    assert found.sets_at(16) == {"d.lanes": "16", "d.nBL": "2 nCK", "e[0].f": "true"}
    assert found.column == "macs_per_bank" and hash(found) == hash(found)
    assert axis("{values: [8, 16], set: {a.b: [1, 2]}, unit: GB/s}", "speed").column == "speed [GB/s]"
    assert axis("{values: [small, large], set: {a.b: [1, 2]}}", "size").values == ("small", "large")


def test_a_linked_axis_of_a_mapping() -> None:
    axes = {"m": {"values": range(1, 3), "set": {"a.b": np.array([4, 8])}}}
    assert sweep_from({"system": "x", "axes": axes}).axes[0].sets == {"a.b": ("4", "8")}


@pytest.mark.parametrize(
    ("name", "written", "rest", "said"),
    [
        ("m", "{values: [8], set: {a: [8, 16]}}", "", "m.set.a: expected a list of 1, one for each of `values`, got 2"),
        ("m", "{values: [8], set: {a: 8}}", "", "m.set.a: expected a list of 1, one for each of `values`, got 8"),
        (
            "m",
            "{values: [8], set: {a: [[8]]}}",
            "",
            "m.set.a[0]: expected one value, a list as text in quotes, got [8]",
        ),
        ("m", "{values: [8], set: {}}", "", "m.set: expected a mapping, place -> list of 1, got {}"),
        ("m", "{values: [8], set: [a]}", "", "m.set: expected a mapping, place -> list of 1, got [a]"),
        ("m", "{values: [8], set: {../a: [8]}}", "", "m.set.../a: expected a place such as dram.timing.tCCD_L, got"),
        (
            "m",
            "{values: [8], set: {workload.batch: [8]}}",
            "",
            "m.set.workload.batch: is no place of the system; a key",
        ),
        ("m", "{values: [8, 8], set: {a: [8, 8]}}", "", "m.values[1]: 8 stands twice, first at [0]"),
        ("m", "{set: {a: [8]}}", "", "m: missing key 'values' (expected a list, one value for each of those in `set`)"),
        (
            "m",
            "{from: 1, to: 2, set: {a: [8]}}",
            "",
            "m: unknown key 'from' beside 'set', expected one of values, unit, s",
        ),
        (
            "m.n",
            "{values: [8], set: {a: [8]}}",
            "",
            "m.n: expected a name of its own for an axis with `set`, without dot",
        ),
        (
            "m[0]",
            "{values: [8], set: {a: [8]}}",
            "",
            "m[0]: expected a name of its own for an axis with `set`, without",
        ),
        (
            "max",
            "{values: [8], set: {a: [8]}}",
            "",
            "max: expected a name of its own for an axis with `set`, without do",
        ),
        (
            "workload.m",
            "{values: [8], set: {a: [8]}}",
            "",
            "workload.m: a key of the workload stands alone, expected a",
        ),
        ("m", "{values: [8], set: {a: [8]}}", "  a: [1]\n", "m.set.a: a is an axis too, expected it once"),
        (
            "m",
            "{values: [8], set: {a: [8]}}",
            "  n: {values: [8], set: {a: [8]}}\n",
            "n.set.a: a is set by the axis m too, expected it once",
        ),
    ],
)
def test_a_bad_linked_axis(name: str, written: str, rest: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        axis(written, name, rest)
    assert str(caught.value).partition(": at $.axes.")[2].startswith(said)


def test_what_a_linked_axis_sets_is_not_fixed() -> None:
    with pytest.raises(UserError, match=r"s.yaml:4: at \$.set.a.b: a.b is an axis too"):
        axis("{values: [8], set: {a.b: [8]}}", "m", "set: {a.b: 1}\n")


SAID = [
    (
        "{from: 0, to: 1e15, step: 1e-6}",
        "a.b: about 10^21 points, expected at most 10,000,000; here alone are about 10^21 values:"
        " choose fewer, or method: random",
    ),
    (
        "{from: 0, to: 1e300, step: 1e-300}",
        "a.b: about 10^600 points, expected at most 10,000,000; here alone are about 10^600 values:"
        " choose fewer, or method: random",
    ),
    ("{linear: [0, 1], points: 1000001}", "a.b: 1,000,001 values, expected at most 1,000,000"),
    ("[]", "a.b: expected a list of at least 1, got []"),
    ("[[1]]", "a.b[0]: expected a number, true, false or a text of at most 200 printable characters, got [1]"),
    ("[1, 2, 1.0]", "a.b[2]: 1.0 stands twice, first at [0]"),
    ("[2 nCK, 2.0 nCK]", "a.b[1]: 2.0 nCK stands twice, first at [0]"),
    ("[1, true]", "a.b[1]: expected a number as before it, got true"),
    ("[true, 1]", "a.b[1]: expected true or false as before it, got 1"),
    ("[1, auto]", "a.b[1]: expected a number as before it, got auto"),
    ("[1, null]", "a.b[1]: expected a number, true, false or a text of at most 200 printable characters, got null"),
    ("[.nan]", "a.b[0]: expected a finite number, got .nan"),
    ("8", f"a.b: {axes._EXPECTED}; one value belongs in `set`, got 8"),
    ("{}", f"a.b: {axes._EXPECTED}, got no keys"),
    ('{"a\\e": 1}', f"a.b: {axes._EXPECTED}, got the keys a\\x1b"),
    ("{from: 1, to: 2, stp: 1}", "a.b: unknown key 'stp' beside 'from', expected one of from, to, step, unit"),
    ("{from: 1, to: 2, log: [1, 2]}", "a.b: unknown key 'log' beside 'from', expected one of from, to, step, unit"),
    ("{from: 1, step: 1}", "a.b: missing key 'to' (expected a number)"),
    ("{from: 4, to: 1, step: 1}", "a.b: expected from <= to, got from 4 to 1"),
    ("{from: 1, to: 4, step: 0}", "a.b: expected a step > 0, got 0"),
    ("{from: 1, to: 4, step: true}", "a.b.step: expected a number (its unit stands beside it as unit:), got true"),
    ("{from: 1 nCK, to: 4}", "a.b.from: expected a number (its unit stands beside it as unit:), got 1 nCK"),
    ("{from: 1e15, to: 1000000000000002, step: 0.01}", "a.b: a step of 0.01 is too fine beside 1000000000000002"),
    ("{log: [0, 4], points: 3}", "a.b: expected a range of log above 0, got 0"),
    ("{log: [1, 2, 3], points: 3}", "a.b.log: expected a list of 2, [low, high], got [1, 2, 3]"),
    ("{log: [4, 1], points: 3}", "a.b: expected the lower end first, got 4 and 1"),
    ("{log: [1, 4], points: 1}", "a.b: expected at least 2 points, got 1"),
    ("{log: [1, 4], points: 2.5}", "a.b.points: expected int >= 2, got 2.5"),
    ("{log: [1, 1.00001], points: 30}", "a.b: 30 points are too many: at 6 significant digits some are equal"),
    ("{log: [1, 4]}", "a.b: a grid needs values: expected a list, or a range with its step or points"),
    ("{values: [a], unit: nCK}", "a.b.values: expected numbers beside unit: nCK, got [a]"),
    ("{values: [1], unit: 'n K'}", "a.b.unit: expected a unit such as nCK, got 'n K'"),
]


@pytest.mark.parametrize(("written", "said"), SAID)
def test_a_bad_axis(written: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        axis(written)
    assert str(caught.value).startswith(f"s.yaml:3: at $.axes.{said}")


ONE = "system: x\naxes: {a.b: [1]}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.yaml: the file is empty"),
        ("[1]", "s.yaml:1: at $: expected a mapping, got [1]"),
        ("axes: {a: [1]}\n", "s.yaml:1: at $: missing key 'system' (expected text or a list of at least 1)"),
        ("system: x\n", "s.yaml:1: at $: expected at least one axis: a list or a range in `axes`, or a list in"),
        ("system: x\naxes: [a]\n", "s.yaml:2: at $.axes: expected a mapping, got [a]"),
        ("system: x\naxes: {a: [1], a: [2]}\n", "s.yaml:2: at $.axes: duplicate key 'a', first on line 2"),
        (
            "system: x\naxes: {../x: [1]}\n",
            "s.yaml:2: at $.axes.../x: expected a place such as dram.timing.tCCD_L, got",
        ),
        ('system: x\naxes: {"a\\e": [1]}\n', "s.yaml:2: at $.axes.a\\x1b: expected a place such as"),
        ("system: x\naxes: {a: &a [1], b: *a}\n", "s.yaml:2: anchors and aliases are not allowed"),
        ("system: x\naxes: !!set {a: [1]}\n", "s.yaml:2: tags are not allowed, got !!set"),
        ("system: x\nworkload: {b: 1}\naxes: {workload.b: [1]}\n", "s.yaml:3: at $.axes.workload.b: workload.b stands"),
        ("system: x\nworkload: {b: [1]}\naxes: {workload.b: [1]}\n", "s.yaml:3: at $.axes.workload.b: workload.b"),
        ("system: x\nworkload: {b: null, c: [1]}\n", "s.yaml:2: at $.workload.b: expected a number, a text, true or"),
        ("system: x\nworkload: {b: {from: 1, to: 2}}\n", "s.yaml:2: at $.workload.b: a grid needs values"),
        (ONE + "metod: grid\n", "s.yaml:3: at $: unknown key 'metod', expected one of system, workload, axes"),
        (ONE + "method: magic\n", "s.yaml:3: at $.method: expected one of grid, nsga2, random, tpe, got magic"),
        (ONE + "set: {a.b: 1}\n", "s.yaml:3: at $.set.a.b: a.b is an axis too, expected it in one of"),
        (ONE + "set: {c: [1]}\n", "s.yaml:3: at $.set.c: expected one value, a list as text in quotes, got [1]"),
        (ONE + "budget: 5\n", "s.yaml:3: at $.budget: a grid takes all its points, expected no budget"),
        (ONE + "batch: 5\n", "s.yaml:3: at $.batch: a grid takes all its points, expected no batch"),
        (ONE + "method: random\n", "s.yaml:1: at $: missing key 'budget' (expected the number of points that"),
        (ONE + "method: tpe\nbudget: 0\n", "s.yaml:4: at $.budget: expected int >= 1 and <= 10000000"),
        (ONE + "method: tpe\nbudget: 5\n", "s.yaml:1: at $: missing key 'objectives'"),
        (ONE + "method: nsga2\nbudget: 5\nbatch: 1\nobjectives: {a.b: min}\n", "s.yaml:5: at $.batch: expected a pop"),
        (ONE + "seed: -1\n", "s.yaml:3: at $.seed: expected int >= 0"),
        (ONE + "name: ''\n", "s.yaml:3: at $.name: expected 1 to 100 printable characters, got ''"),
        (ONE + 'name: "a\\n../b"\n', "s.yaml:3: at $.name: expected 1 to 100 printable characters, got"),
        (ONE + "constraints: a.b < 1\n", "s.yaml:3: at $.constraints: expected a list, got a.b < 1"),
        (ONE + "constraints: [1]\n", "s.yaml:3: at $.constraints[0]: expected text, got 1"),
        (ONE + "constraints: [1 < 2]\n", "s.yaml:3: at $.constraints[0]: expected a comparison that reads a column"),
        (ONE + "constraints:\n- a < 1\n- x[0] < 1\n", "s.yaml:5: at $.constraints[1]: 'x[0] < 1': column 2: got '['"),
        (ONE + "objectives:\n  a.b: up\n", "s.yaml:4: at $.objectives.a.b: expected one of min, max, got up"),
        (ONE + "objectives: {a.__class__: min}\n", "s.yaml:3: at $.objectives: 'a.__class__': column 2: got '.'"),
        (
            ONE + "objectives: {1 + 1: min}\n",
            "s.yaml:3: at $.objectives.1 + 1: expected an expression that reads a col",
        ),
        (ONE + "#" * 2**20, "s.yaml: is larger than 1 MiB; split it into several sweeps, or give ranges"),
    ],
)
def test_a_bad_file(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        if text:
            read_sweep(text, "s.yaml")
        (tmp_path / "s.yaml").touch()
        load_sweep(tmp_path / "s.yaml")
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(said)
    assert str(caught.value).isprintable()


HUGE = ", ".join(f"a{i}: {{from: 1, to: 1000000, step: 1}}" for i in range(200))


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("", "s.yaml:2: at $.axes.a0: about 10^1200 points, expected at most 10,000,000; here alone are 1,000,000"),
        ("method: random\nbudget: 5\n", "s.yaml:2: at $.axes.a0: 200,000,000 values of all axes, expected at most"),
    ],
)
def test_huge_ranges_are_counted_and_not_made(rest: str, said: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UserError) as caught:
        read_sweep(f"system: x\naxes: {{{HUGE}}}\n{rest}", "s.yaml")
    assert str(caught.value).startswith(said)
    assert time.perf_counter() - start < 60


def test_a_large_grid_gives_its_first_points_at_once() -> None:
    sweep = read_sweep("system: x\naxes: {" + ", ".join(f"a{i}: [1, 2]" for i in range(23)) + "}\n", "s")
    assert count_points(sweep) == 2**23
    assert [point["a22"] for point in islice(grid_points(sweep), 3)] == [1, 2, 1]


def test_what_a_search_may_say() -> None:
    text = (
        "system: x\nname: <i>first</i> try\naxes: {a.b: {from: 1, to: 2, unit: ns}, c: [1, 2]}\n"
        "set: {d.e: 2 nCK, f: true, g: 0.5, h: null, i: '[4 nCK, 7.5 ns]'}\n"
        "constraints: [\"workload.model != 'x'\", 1 < a.b <= 2]\nobjectives:\n  latency_s * `links[0].x`: min\n"
        "method: nsga2\nbudget: 40\nseed: 7\n"
    )
    sweep = read_sweep(text, "s")
    assert sweep.name == "<i>first</i> try"
    assert sweep.set == {"d.e": "2 nCK", "f": "true", "g": "0.5", "h": "null", "i": "[4 nCK, 7.5 ns]"}
    assert (sweep.budget, sweep.batch, sweep.seed) == (40, 50, 7)
    assert sweep.objectives == {"latency_s * `links[0].x`": "min"}
    assert sweep.column_of == {"a.b": "a.b [ns]", "c": "c"}
    assert count_points(sweep) == 40


def test_a_mapping_says_what_a_file_says(tmp_path: Path) -> None:
    mapping: dict[str, Any] = {
        "name": "first",
        "system": "neupims",
        "workload": MappingProxyType(
            {"model": ("gpt2-xl", "llama-3-8b"), "batch": np.array([1, 16, 64, 256]), "prompt": np.int64(128)}
            | {"generate": 256}
        ),
        "axes": {
            "dram.channels": [8, 16, 32, 64],
            "pim.macs_per_bank": [8, 16, 32],
            "dram.timing.tCCD_L": range(1, 5),
            "npu.clock_mhz": {"log": [100, 2000], "points": 8},
        },
        "constraints": ["area_mm2 < 800", "power_w < 75"],
        "objectives": {"tokens_per_s": "max", "energy_per_token_j": "min"},
    }
    path = tmp_path / "first.yaml"
    path.write_text(EXAMPLE)
    assert sweep_from(mapping) == load_sweep(path)
    assert read_sweep(text_of(mapping), "other") == load_sweep(path)


_ODD = "a1e.~#:'\"\\[]{}&*!|>%@`-é \t\n\x1b\x7f\x85\u2028\ufeff\U0001f600"


@given(st.lists(st.text(_ODD, min_size=1, max_size=9), min_size=1, max_size=3, unique=True))
def test_texts_of_a_mapping_stay_texts(texts: list[str]) -> None:
    try:
        axis = sweep_from({"system": "x", "workload": {"model": texts}}).axes[0]
    except UserError as error:
        assert not all(text.isprintable() for text in texts), error
    else:
        assert axis.values == tuple(texts)


@pytest.mark.parametrize("text", ["1e5", "no", "null", "0x10", "1", "", "~", "# a", "a: b", "- a", "12:30", "'", '"'])
def test_a_text_that_looks_like_something_else(text: str) -> None:
    assert sweep_from({"system": text + ".", "axes": {"a": [text + "'"]}, "set": {"b": text}}).set == {"b": text}


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"system": "x", "axes": {"a": [math.nan]}}, "sweep: expected a mapping of texts, finite numbers and lists: "),
        ({"system": "x", "axes": {"a": [1j]}}, "sweep: expected a mapping of texts, finite numbers and lists: "),
        ({"system": "x", "axes": {("a",): [1]}}, "sweep: expected a mapping of texts, finite numbers and lists: "),
        ({"system": "x", "axes": {"a": []}}, "sweep:4: at $.axes.a: expected a list of at least 1, got []"),
        ({"system": "x", "axes": {"a": [{}]}}, "sweep:5: at $.axes.a[0]: expected a number, true, false or a text"),
        ("system", "sweep:1: at $: expected a mapping"),
    ],
)
def test_a_bad_mapping(mapping: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        sweep_from(mapping)
    assert str(caught.value).startswith(said)


def test_a_mapping_that_holds_itself() -> None:
    own: dict[str, Any] = {"system": "x"}
    own["axes"] = own
    with pytest.raises(UserError, match="sweep: expected a mapping of texts"):
        sweep_from(own)


def test_a_file_is_data_only() -> None:
    assert json.loads(text_of({"system": "x"})) == {"system": "x"}
    bomb = "system: x\naxes: " + "{a: " * 3000 + "}" * 3000
    with pytest.raises(UserError, match="nested too deeply"):
        read_sweep(bomb, "s.yaml")
