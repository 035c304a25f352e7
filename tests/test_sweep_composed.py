"""Sweeps of composed systems, and of prompts on NPUs and rooflines: each row is that of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.cycle_sim.runs import Known
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.sweep import Axis, Sweep
from pimloom.sweeping.point.digests import key_of
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.results import ENERGY_COLUMNS, OF_PIM
from pimloom.sweeping.point.row import result_columns
from pimloom.sweeping.point.shared import Base, base_of

OF_ROWS = ("lm_head", *(column.name for column in ENERGY_COLUMNS))  # no fields of a result
SYSTEMS = Path(__file__).parents[1] / "examples/systems"
PHONE, CARD = str(SYSTEMS / "phone.yaml"), str(SYSTEMS / "pim_card.yaml")
WORK: dict[str, Any] = {"model": "gpt2", "prompt": 16, "generate": 3, "layers": 2}


def sweep(system: str, axes: tuple[Axis, ...], **work: Any) -> Sweep:
    return Sweep("test", system, WORK | work, {}, axes, (), {"tokens_per_s": "max"}, "grid", None, 1, 0)


def row_of(base: Base, point: Mapping[str, Any]) -> dict[str, Any]:
    row = evaluate(base, point, Known()).row
    assert row["error"] is None, row["error"]
    return row


def same(row: Mapping[str, Any], base: Base, ran: Any) -> None:
    assert row["spec_digest"] == ran.spec_digest
    for column in result_columns(base):
        of, _, part = column.name.partition(".")
        if of not in ("area_mm2", "area_by_part_mm2", *OF_ROWS):
            value = getattr(ran, of)
            parts = {name.replace(" ", "_"): each for name, each in (value or {}).items()} if part else {}
            there = parts.get(part, 0.0 if part in OF_PIM and parts else None)  # without PIM
            assert row[column.name] == (there if part else value), column
            kind = int if column.integer else str if column.text else float
            assert row[column.name] is None or type(row[column.name]) is kind


@pytest.mark.parametrize(
    ("system", "settings"),
    [
        (PHONE, {"memories.dram.channels": 2, "memories.dram.timing.tRCDMAC": "20 nCK", "units.npu.peak_tflops": 5}),
        (CARD, {"links.pcie.gbps": 100, "overlap.heads": "whole", "memories.ddr4.gb_s": 50}),
    ],
)
def test_a_row_of_a_composed_system_is_that_of_its_run(system: str, settings: dict[str, Any]) -> None:
    axes = tuple(
        Axis(place, (int(value.split()[0]),), "nCK") if str(value).endswith("nCK") else Axis(place, (value,))
        for place, value in settings.items()
    )
    base = base_of(sweep(system, axes))
    check_points(base, sweep(system, axes))
    row = row_of(base, {axis.place: axis.values[0] for axis in axes})
    same(row, base, pimloom.run(system, **WORK, set=settings))


@pytest.mark.parametrize(("system", "work"), [("npu_only", {"batch": 3, "chunk": 8}), ("gpu_a100", {"chunk": 8})])
def test_with_a_chunk_prompts_are_simulated(system: str, work: dict[str, Any]) -> None:
    base = base_of(sweep(system, (Axis("workload.tp", (1, 2)),), **work))
    for tp in (1, 2):
        same(row_of(base, {"workload.tp": tp}), base, pimloom.run(system, **WORK, **work, tp=tp))


def test_a_roofline_has_its_energy_with_prompts_too() -> None:
    """So it can be an objective; the area of a roofline is not known."""
    base = base_of(sweep("gpu_a100", (Axis("workload.batch", (1, 2)),), chunk=8))
    row, ran = row_of(base, {"workload.batch": 2}), pimloom.run("gpu_a100", **WORK, batch=2, chunk=8)
    for name in ("energy_j", "energy_per_token_j", "power_w", "prompt_energy_j"):
        assert row[name] == getattr(ran, name) > 0
    assert row["energy_by_cause_j.power_x_time"] == pytest.approx(ran.energy_j, rel=1e-12)
    assert "area_mm2" not in row
    npu = {column.name for column in result_columns(base_of(sweep("npu_only", (), chunk=8)))}
    assert {"energy_j", "area_mm2", "energy_by_cause_j.npu_mac"} <= npu and "energy_by_cause_j.power_x_time" not in npu


def test_energies_are_columns_by_unit_memory_and_link() -> None:
    names = {column.name for column in result_columns(base_of(sweep(CARD, ())))}
    causes = ("pim", "host", "card", "ddr4", "pcie", "peers", "background")
    assert {f"energy_by_cause_j.{name}" for name in causes} <= names


def test_a_part_is_an_axis_and_its_text_decides_the_key(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text((SYSTEMS / "lpddr5_pim.yaml").read_text())
    place = "memories.dram.part"
    asked = sweep(PHONE, (Axis(place, (str(mine), str(SYSTEMS / "lpddr5_pim.yaml"))),))
    base, point = base_of(asked), {place: str(mine)}
    check_points(base, asked)
    key, took = key_of(base, point), row_of(base, point)
    again = msgspec.json.decode(msgspec.json.encode(base), type=Base)
    mine.write_text(mine.read_text().replace("tRCDMAC: 15 nCK", "tRCDMAC: 30 nCK"))
    assert row_of(again, point)["latency_s"] == took["latency_s"]  # no file is read again
    changed = base_of(asked)
    assert key_of(changed, point) != key
    assert key_of(changed, {place: asked.axes[0].values[1]}) == key_of(base, {place: asked.axes[0].values[1]})
    assert row_of(changed, point)["latency_s"] > took["latency_s"]


def test_the_text_of_a_part_that_is_no_axis_decides_the_key(tmp_path: Path) -> None:
    for name in ("phone.yaml", "lpddr5_pim.yaml"):
        (tmp_path / name).write_text((SYSTEMS / name).read_text())
    asked = sweep(str(tmp_path / "phone.yaml"), ())
    key = key_of(base_of(asked), {})
    part = tmp_path / "lpddr5_pim.yaml"
    part.write_text(part.read_text().replace("tRCDMAC: 15 nCK", "tRCDMAC: 30 nCK"))
    assert key_of(base_of(asked), {}) != key


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ((Axis("memories.dram.chanels", (2, 4)),), "memories.dram.chanels: no such key"),
        ((Axis("memories.ram.channels", (2, 4)),), "memories.ram"),
        ((Axis("memories.dram.channels", ("a", "b")),), "memories.dram.channels: expected int"),
        ((Axis("memories.dram.timing.tRCDMAC", ("x", "y")),), "memories.dram.timing.tRCDMAC: "),
        ((Axis("units.npu.power_w", (-1, -2)),), "units.npu.power_w: "),
        ((Axis("memories.dram.part", ("gddr6_aim2",)),), "unknown part 'gddr6_aim2'; nearest: gddr6_aim"),
        ((Axis("workload.requests", ("alpaca",)),), "workload.requests: unknown key"),
        ((Axis("workload.chunk", (0, 1)),), "workload.chunk: expected an int from 1"),
    ],
)
def test_what_no_point_can_have_is_refused_before_the_start(axes: tuple[Axis, ...], said: str) -> None:
    asked = sweep(PHONE, axes)
    with pytest.raises(UserError) as error:
        check_points(base_of(asked), asked)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_is_no_system_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("description: x\nkind: composed\nmemories: {dram: {part: 3, channels: 1}}\n")
    with pytest.raises(UserError, match=r"broken.yaml"):
        base_of(sweep(str(broken), ()))
