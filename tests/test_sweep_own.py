"""Sweeps of AttAcc and CENT: every row is what `pimloom.run` gives with the same settings."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.place import check_place, check_value
from pimloom.arch.system import load_system
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.definition.sweep import Axis, Sweep
from pimloom.sweeping.folder import read_source
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of

BOX: dict[str, Any] = {"model": "gpt3-175b", "prompt": 700, "generate": 4, "batch": 3}
LINE: dict[str, Any] = {"model": "llama-2-7b", "context": 40, "every": 20}


def swept(system: str, work: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a point, each setting an axis of one value."""
    axes = tuple(Axis(place, (value,)) for place, value in settings.items())
    sweep = Sweep("test", system, work, {}, axes, (), {"latency_s": "min"}, "grid", None, 1, 0)
    base = base_of(sweep)
    check_points(base, sweep)
    return evaluate(base, {axis.place: axis.values[0] for axis in axes}).row


@pytest.mark.parametrize(
    ("work", "settings"),
    [
        ({}, {"stacks.placement": "bg", "stacks.each": 4}),
        ({"prompt": 0}, {"gpus": 6, "gpu.memory_gb_s": 2000.5}),
        ({"generate": 1}, {"dram.part": "hbm3_attacc_6400"}),
        ({"every": 2}, {"dram.timing.nCCDAB": "7 nCK", "stacks.pipelined": False}),
        ({"fidelity": "released"}, {"stacks.co_processing": False}),
        ({"prompt": 5000}, {"gpu.memory_bytes": 10**11}),  # beyond the positions of the model: simulated all the same
        ({}, {"stacks.each": 0, "stacks.pipelined": False, "stacks.co_processing": False}),
    ],
)
def test_a_row_of_attacc_is_its_run(work: dict[str, Any], settings: dict[str, Any]) -> None:
    row, found = swept("attacc", BOX | work, settings), run("attacc", BOX | work, settings)
    assert row["error"] is None and row["spec_digest"] == found.spec_digest
    for name in (
        "latency_s", "prefill_s", "prefill_j", "step_s", "step_j", "tokens_per_s", "energy_per_token_j", "gpus",
        "stacks", "fits",
    ):  # fmt: skip
        assert row[name] == getattr(found, name), name
    for field in ("step_by_part_s", "step_by_part_j"):
        parts = {name.replace(" ", "_"): value for name, value in getattr(found, field).items()}
        assert {k.partition(".")[2]: v for k, v in row.items() if k.startswith(field) and v is not None} == parts
    steps = found.generated_tokens - (1 if found.prompt_tokens else 0)
    assert row["energy_j"] == pytest.approx(found.prefill_j + steps * (found.step_j or 0), rel=1e-15)
    assert row["power_w"] * row["latency_s"] == pytest.approx(row["energy_j"], rel=1e-12)


@pytest.mark.parametrize(
    ("work", "settings"),
    [
        ({"pp": 32, "every": 40}, {"devices": 32, "link.lanes": 100}),
        ({"tp": 8}, {"devices": 8, "aim.dram.timing.tRCDMAC": "40 nCK", "near_memory.exp_cyc": 9.0}),
        (
            {"fidelity": "released", "every": 40, "tp": 4},
            {"devices": 8, "aim.queue_entries": 20, "aim.drain_from": 16, "energy.shared_buffer.read_mw": 5},
        ),
        ({"pp": 8, "every": 40}, {"aim.refresh": "all_bank", "aim": "gddr6_aim"}),
    ],
)
def test_a_row_of_cent_is_its_run(work: dict[str, Any], settings: dict[str, Any]) -> None:
    row, found = swept("cent", LINE | work, settings), run("cent", LINE | work, settings)
    assert row["error"] is None and row["spec_digest"] == found.spec_digest
    for name in ("latency_s", "tokens_per_s", "energy_per_token_j", "power_w", "ends_s", "host_s", "used_devices",
                 "stages", "tensor", "layers_per_device", "channels_per_layer"):  # fmt: skip
        assert row[name] == getattr(found, name), name
    assert {k.partition(".")[2]: v for k, v in row.items() if k.startswith("energy_by_cause_j.")} == (
        found.energy_by_cause_j
    )
    for name in ("token_s", "pim_s", "link_s", "near_memory_s"):
        at, values = zip(*((point.context, getattr(point, name)) for point in found.points), strict=True)
        every = values if found.fidelity == "released" else np.interp(range(1, 41), at, values)
        assert row[name] == pytest.approx(np.mean(every))
    assert row["energy_j"] == pytest.approx(40 * found.energy_per_token_j)


def run(system: str, work: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    texts = {place: str(value).lower() if isinstance(value, bool) else value for place, value in settings.items()}
    return pimloom.run(system, set=texts, **work)


def test_a_request_of_cent_is_prompt_and_answer() -> None:
    whole = {key: value for key, value in LINE.items() if key != "context"}
    rows = [swept("cent", work | {"tp": 8}, {"devices": 8}) for work in (LINE, whole | {"prompt": 30, "generate": 10})]
    assert rows[0]["spec_digest"] == rows[1]["spec_digest"] and rows[0]["latency_s"] == rows[1]["latency_s"]


@pytest.mark.parametrize("system", ["attacc", "attacc_host", "cent"])
def test_every_field_of_a_system_can_be_an_axis(system: str) -> None:
    """Each place takes its own value, and the last one no mapping."""
    loaded, work = load_system(system), LINE if system == "cent" else BOX
    places, part = dict(leaves(loaded.spec)), loaded.part
    below = "aim.dram." if system == "cent" else "dram."
    if part is not None:
        places |= {f"{below}{place}": value for place, value in leaves(part.organization, "organization.")}
        places |= {f"{below}timing.{name}": f"{part.cycles(name)} nCK" for name in part.timing}
    if loaded.aim:
        places |= {f"aim.{place}": value for place, value in leaves(loaded.aim.spec)}
    base = base_of(Sweep("test", system, work, {}, (), (), {}, "grid", None, 1, 0))
    for place, value in places.items():
        check_place(base.system, place, list(base.parts.values()))
        value = list(value) if isinstance(value, tuple) else value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        check_value(base.system, place, text, list(base.parts.values()))
    with pytest.raises(UserError, match=re.escape(f"--set {place}: ")):
        check_value(base.system, place, "{}", list(base.parts.values()))


def leaves(struct: Any, at: str = "") -> list[tuple[str, Any]]:
    found = []
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if hasattr(value, "__struct_fields__"):
            found += leaves(value, f"{at}{name}.")
        elif name not in ("description", "kind") and value is not None:
            found.append((f"{at}{name}", value))
    return found


def test_rows_of_a_grid_some_with_errors() -> None:
    """A file as a user writes it, point by point."""
    work = {"model": "gpt3-175b", "prompt": 512, "generate": 2}
    file = {
        "system": "attacc", "workload": work | {"batch": [1, 9999]}, "set": {"stacks.co_processing": "false"},
        "axes": {"stacks.placement": ["bank", "buffer"], "gpus": [5, 8]},
    }  # fmt: skip
    sweep, _ = read_source(file)
    base = base_of(sweep)
    check_points(base, sweep)
    rows = {tuple(point.values()): evaluate(base, point).row for point in map(Grid(sweep).point, range(8))}
    assert sum(row["error"] is None for row in rows.values()) == 2
    said = {key: row["error"] for key, row in rows.items()}
    assert said[(1, "bank", 5)] == "gpus: expected a divisor of the heads of the model, 96, got 5; nearest: 4 or 6"
    assert "keys and values of 5,139,486 tokens need" in said[(9999, "bank", 8)]
    score = "step_by_part_s.score"
    assert rows[(1, "bank", 8)][score] < rows[(1, "buffer", 8)][score]


@pytest.mark.parametrize(
    ("system", "changed", "said"),
    [
        ("cent", {"batch": 2}, "workload.batch: unknown key, expected one of model, prompt, generate, context, every"),
        ("cent", {"prompt": 2}, "workload.prompt: the context is prompt and answer together; leave one of the two out"),
        ("attacc", {"tp": 2}, "workload.tp: unknown key, expected one of model, batch, prompt, generate, every, fid"),
        ("cent", {"aim.dram.timing.tRFX": 2}, "--set aim.dram.timing.tRFX: no such key in gddr6_aim_isr.yaml"),
        ("cent", {"aim.channel": 2}, "--set aim.channel: no such key in gddr6_aim.yaml; nearest: channels"),
        ("cent", {"aim": "my.yaml"}, "my.yaml: sweeps take a device and its part by name; set their fields instead"),
        ("attacc", {"stacks.placement": "die"}, "stacks.placement: expected one of bank, bg, buffer, got die"),
    ],
)
def test_what_a_sweep_refuses_before_it_starts(system: str, changed: dict[str, Any], said: str) -> None:
    places = {key: value for key, value in changed.items() if "." in key or key == "aim"}
    work = (BOX if system == "attacc" else LINE) | {k: v for k, v in changed.items() if k not in places}
    with pytest.raises(UserError) as refused:
        swept(system, work, places)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("system", "work", "settings", "said"),
    [
        ("cent", {"context": 5000}, {}, "workload.context 5000: llama-2-7b has positions for 4,096 tokens; take fewer"),
        ("cent", {"pp": 3}, {"devices": 8}, "workload.pp 3: expected 32 stages, one a layer, or stages x work"),
        ("cent", {}, {"devices": 1, "aim.channels": 8}, "devices 1: 32 layers need a channel each; take 4 dev"),
        ("cent", {"model": "llama-2-70b"}, {"devices": 3}, "devices or more (devices), or a shorter context"),
        ("attacc", {}, {"stacks.each": 0}, "stacks.each: stacks.pipelined and stacks.co_processing need stacks; set"),
        ("attacc", {}, {"stacks.each": 0, "stacks.power_limited": False}, "stacks.power_limited: attacc has no stacks"),
    ],
)
def test_a_point_that_cannot_be_is_a_row(
    system: str, work: dict[str, Any], settings: dict[str, Any], said: str
) -> None:
    row = swept(system, (BOX if system == "attacc" else LINE) | work, settings)
    assert said in row["error"] and row["latency_s"] is None
