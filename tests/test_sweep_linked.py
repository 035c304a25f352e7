"""Linked axes: a point is a run with all that they set, and its key is what they set, not what other points do."""

from typing import Any

import msgspec
import numpy as np
import pytest

import pimloom
from pimloom.arch.system import load_system
from pimloom.energy.pim import command_energy_pj
from pimloom.sweeping.definition.grid import grid_points
from pimloom.sweeping.definition.load_sweep import load_sweep
from pimloom.sweeping.definition.sweep import Axis
from pimloom.sweeping.point.digests import digest_of, key_of
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import Base, base_of, resolved
from tests.test_sweep_evaluate import CLOCK, HERE, KNOWN, linked, sweep

MODELS = Axis("workload.model", ("gpt2", "gpt2-medium"))
MACS = {
    "dram.pim_unit.lanes": ("16", "32"),
    "dram.organization.access_bits": ("256", "512"),
    "dram.organization.columns": ("64", "32"),
    "dram.timing.nBL": ("2 nCK", "4 nCK"),
}


def test_a_linked_point_is_a_run_with_all_that_it_sets():
    base = base_of(sweep(workload={"generate": 2}, axes=[linked(MACS, "macs_per_bank", (16, 32)), CLOCK, MODELS]))
    sent = msgspec.json.decode(msgspec.json.encode(base), type=Base)
    assert sent == base
    unordered = msgspec.structs.replace(base, units=dict(reversed(base.units.items())))
    found = {}
    for i, lanes in enumerate((16, 32)):
        point: dict[str, Any] = {"macs_per_bank": lanes, "npu.clock_mhz": 500, "workload.model": "gpt2"}
        row = evaluate(sent, point, KNOWN).row
        said = {place: texts[i] for place, texts in MACS.items()} | {"npu.clock_mhz": "500"}
        result = pimloom.run("pim_gpt", model="gpt2", generate=2, set=said)
        assert row["error"] is None and row["spec_digest"] == result.spec_digest and row["macs_per_bank"] == lanes
        assert (row["latency_s"], row["energy_j"]) == (result.latency_s, result.energy_j)
        assert row["point"] == key_of(base, point) == key_of(unordered, point)
        found[lanes] = row["latency_s"]
    assert found[32] < found[16]
    assert "macs_per_bank: expected one of 16, 32, got 8" in evaluate(base, {**point, "macs_per_bank": 8}).row["error"]


def test_the_example_of_a_linked_axis() -> None:
    def energy(system: Any) -> Any:
        return command_energy_pj(system.part, system.spec.energy)

    example = load_sweep(HERE / "examples/macs_per_bank.yaml")
    base = base_of(example)
    usual: Any = load_system("pim_gpt")
    for point in grid_points(example):
        found: Any = resolved(base, point, base.work(point))
        lanes: Any = point["macs_per_bank"]
        assert found.part.pim_unit.lanes == lanes and found.spec.dram.channels == point["dram.channels"]
        each, one = energy(found), energy(usual)
        for cause in ("read", "mac", "interface"):
            command = "WRGB" if cause == "interface" else "MACab"
            assert each[command][cause] / lanes == pytest.approx(one[command][cause] / 16, rel=1e-12)
        if lanes == 16:
            assert found.part == usual.part


def test_the_key_of_a_linked_point_is_what_it_sets_and_not_what_other_points_do():
    def key(sets, values=(16, 32), value=16, **more):
        base = base_of(sweep(axes=[linked(sets, "macs_per_bank", values)], **more))
        assert base.named == ("macs_per_bank",)
        assert digest_of(base, {"macs_per_bank": 99}) != digest_of(base, {"macs_per_bank": np.int64(value)})  # type: ignore[dict-item]
        assert digest_of(base, {"macs_per_bank": float(value)}) == digest_of(base, {"macs_per_bank": value})
        return key_of(base, {"macs_per_bank": value})

    first = key(MACS)
    assert first == key(dict(reversed(MACS.items()))) == key({p: t[:1] for p, t in MACS.items()}, (16,))
    assert first == key({p: t[::-1] for p, t in MACS.items()}, (32, 16))
    others = [MACS | {"dram.timing.nBL": ("2nCK", "4 nCK")}, MACS | {"npu.adders": ("64", "64")}]
    assert len({first, *map(key, others), key(MACS, value=32)}) == 4


def test_a_linked_axis_may_choose_the_part(tmp_path):
    path = tmp_path / "part.yaml"
    text, keys = (HERE / "arch/parts/gddr6_pim_gpt.yaml").read_text(), []
    for refresh in (6825, 6900):
        path.write_text(text.replace("tREFI: 6825", f"tREFI: {refresh}"))
        axis = linked({"dram.part": ("gddr6_pim_gpt", str(path)), "dram.channels": ("8", "4")}, "memory", ("a", "b"))
        base = base_of(sweep(axes=[axis]))
        keys += [key_of(base, {"memory": name}) for name in "ab"]
    path.unlink()
    assert keys[0] == keys[2] and len(set(keys)) == 3, "a part's text is in the digest of the points that have it"
    row = evaluate(base, {"memory": "b"}).row
    assert row["error"] is None and row["memory"] == "b"
    assert row["latency_s"] > evaluate(base, {"memory": "a"}).row["latency_s"]
