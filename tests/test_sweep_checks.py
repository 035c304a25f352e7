"""What is refused before a sweep begins: what no point of it could be. All else is rows, some with an error."""

import re
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import HERE, resolve
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.point.shared import base_of

WORKLOAD = {"model": "gpt2", "generate": 1}


def mapping(axes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"system": "pim_gpt", "workload": WORKLOAD, "axes": axes, "objectives": {"latency_s": "min"}} | more


def check(axes: dict[str, Any], **more: Any) -> None:
    sweep = sweep_from(mapping(axes, **more))
    check_points(base_of(sweep), sweep)


SEARCH = {"method": "random", "budget": 4}


@pytest.mark.parametrize("place", ["npu.adders", "dram.organization.rows", "workload.batch"])
def test_a_range_of_fractions_needs_a_place_that_takes_them(place: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"{place}: takes integers; write {{from: 16, to: 256, step: 1}}")):
        check({place: {"linear": [16, 256]}}, **SEARCH)
    check({"npu.clock_mhz": {"linear": [16, 256]}, "dram.timing.tRC": {"linear": [34, 36], "unit": "ns"}}, **SEARCH)


def test_a_range_needs_a_place_of_numbers() -> None:
    with pytest.raises(UserError, match=r"^dram\.refresh: expected true or false, got 0\.\d+; write a list$"):
        check({"dram.refresh": {"linear": [0, 1]}}, **SEARCH)
    clocks = "dram.timing.tCCD_L: takes integers; write {from: 1, to: 4, step: 1, unit: nCK} or a list"
    with pytest.raises(UserError, match=re.escape(clocks)):
        check({"dram.timing.tCCD_L": {"linear": [1, 4], "unit": "nCK"}}, **SEARCH)


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"dram.channels": ["four"]}, "dram.channels: expected int >= 1 and <= 1024, got four$"),
        ({"npu.adders": [0, -1]}, "npu.adders: expected int >= 1, got 0, and no other value of this axis is possible"),
        (
            {"dram.timing.tCCD_L": [1, 2]},
            "dram.timing.tCCD_L: expected a time with its unit, such as 12 ns, got 1, and",
        ),
        ({"npu.adders": [0, 64], "dram.channels": [8]}, ""),
        ({"npu.adders": {"from": -(10**5), "to": 0, "step": 1}}, ""),  # trying all would take minutes
        ({"dram.timing.tCCD_L": ["2 ns", "2 nCK"], "dram.refresh": [True, False]}, ""),
    ],
)
def test_an_axis_needs_a_value_that_its_place_takes(axes: dict[str, list[Any]], said: str) -> None:
    with nullcontext() if not said else pytest.raises(UserError, match="^" + re.escape(said).replace(r"\$", "$")):
        check(axes)


RFC_100 = {"values": ["many"], "set": {"dram.timing.tRFC": ["100 ns"]}}


@pytest.mark.parametrize(
    ("system", "axes", "fixed"),
    [
        ("pim_gpt", {"dram.timing.tRFC": ["50 ns", "100 ns"], "dram.timing.tREFI": ["300 ns", "400 ns"]}, {}),
        ("pim_gpt", {"dram.timing.tRFC": ["200 ns", "50 ns"]}, {"dram.timing.tREFI": "300 ns"}),
        ("pim_gpt", {"dram.timing.tREFI": ["300 ns", "300.5 ns"], "refresh": RFC_100}, {}),
        ("pim_gpt", {"dram.timing.tRAS": ["20 ns", "22 ns"], "dram.timing.tRC": ["33 ns", "34 ns"]}, {}),
        ("pim_gpt", {"dram.current.IDD3N": ["100 mA", "110 mA"], "dram.current.IDD4R": ["120 mA", "130 mA"]}, {}),
        ("npu_only", {"dram.row_buffers": ["dual", "blocked"], "dram.lanes": [8, 16]}, {}),
        ("neupims", {"dram.row_buffers": ["none", "dual"]}, {"dram.lanes": "0"}),
        ("neupims", {"dram.lanes": [0, 16]}, {"dram.row_buffers": "none"}),
    ],
)
def test_values_that_are_right_together_begin_a_sweep(system: str, axes: dict[str, Any], fixed: dict[str, str]) -> None:
    served = {"model": "gpt3-7b", "batch": 4, "generate": 1}
    workload = WORKLOAD if system == "pim_gpt" else served
    sweep = sweep_from(mapping(axes, system=system, set=fixed, workload=workload))
    base, grid = base_of(sweep), Grid(sweep)
    check_points(base, sweep)
    right = 0
    for number in range(grid.size):
        with suppress(UserError):
            resolve(base.system, base.settings(grid.point(number)), base.part)
            right += 1
    assert right


@pytest.mark.parametrize("values", [["10 ns", "11 ns"], [f"{i} ps" for i in range(1000, 1200)]])
def test_fixed_values_that_no_point_can_have_are_refused(values: list[str]) -> None:
    axes = {"dram.timing.tRAS": values, "npu.adders": [64, 128]}
    with pytest.raises(UserError, match=r"tRC: expected at least tRAS \+ tRP = \d+ nCK, got 1 nCK"):
        check(axes, set={"dram.timing.tRC": "1 nCK"})


@pytest.mark.parametrize(
    "axes", [{"npu.adders": [0, 64]}, {"dram.timing.tRAS": ["10", "10 ns"]}, {"npu.adders": list(range(-70, 10))}]
)
def test_what_is_refused_is_what_is_fixed(axes: dict[str, Any]) -> None:
    """Some values of the axes are wrong, too, but those would be rows with an error."""
    with pytest.raises(UserError, match=r"^--set dram\.timing\.tRC: expected at least"):
        check(axes, set={"dram.timing.tRC": "1 nCK"})
    with pytest.raises(UserError, match=r"^--set npu\.multipliers: expected int >= 1, got 0$"):
        check(axes, set={"npu.multipliers": "0"})


def test_of_a_small_grid_one_right_point_is_enough() -> None:
    long = [f"{time} ns" for time in range(40, 47)]
    for at in range(8):
        times = [*long[:at], "10 nCK", *long[at:]]
        check({"dram.timing.tRAS": times, "dram.timing.tRP": times}, set={"dram.timing.tRC": "20 nCK"})


def test_a_search_is_tried_where_it_would_ask() -> None:
    """Six digits: nearly all of them times of whole picoseconds, and right beside this tRFC."""
    reach = {"dram.timing.tREFI": {"linear": [6825, 9100.1], "unit": "ns"}}
    fixed = {"dram.timing.tRFC": "3500 ns"}
    check(
        reach | {"npu.clock_mhz": {"linear": [500, 1000]}, "npu.power_mw": {"linear": [100, 200]}}, set=fixed, **SEARCH
    )
    with pytest.raises(UserError, match=r"tREFI: expected at least 2 tRFC"):
        check({"dram.timing.tREFI": {"linear": [6825, 6900], "unit": "ns"}}, set=fixed, **SEARCH)


def test_one_of_two_parts_that_has_a_place_is_enough() -> None:
    axes = {"dram.part": ["gddr6_aim", "gddr6_pim_gpt"], "dram.current.IDD0": ["120 mA", "130 mA"]}
    for parts in (axes["dram.part"], axes["dram.part"][::-1]):
        check(axes | {"dram.part": parts})
        check(axes | {"dram.part": parts, "dram.current.IDD0": ["120", "130 mA"]})
        with pytest.raises(UserError, match=r"^dram\.current\.IDD0: expected a current with its unit"):
            check(axes | {"dram.part": parts, "dram.current.IDD0": ["120", "130"]})


def test_what_an_axis_replaces_may_be_wrong_in_the_file(tmp_path: Path) -> None:
    """Only what stands at the same place is judged."""
    text = (HERE / "systems" / "pim_gpt.yaml").read_text()
    assert "channels: 8" in text
    (tmp_path / "mine.yaml").write_text(text.replace("channels: 8", "channels: 0"))
    axes, system = {"npu.adders": [64, 128], "dram.channels": [8, 16]}, str(tmp_path / "mine.yaml")
    sweep = sweep_from(mapping(axes, system=system))
    check_points(base_of(sweep), sweep)
    alone = sweep_from(mapping({"npu.adders": [64, 128]}, system=system))
    with pytest.raises(UserError, match=r"channels: expected int >= 1 and <= 1024, got 0"):
        check_points(base_of(alone), alone)
    with pytest.raises(UserError, match=r"tRC: expected at least"):
        check(axes, system=system, set={"dram.timing.tRC": "1 nCK"})
