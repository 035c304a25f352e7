"""Sweeps of Duplex systems: rows are those of runs, and what cannot be swept is said."""

from pathlib import Path
from typing import Any

import pytest

import pimloom
from tests.command import call

QUICK = {"memory": "ideal", "contention": "false"}
SWEEP = """
system: duplex
workload: {model: mixtral-8x7b, prompt: 40, generate: 3, batch: 4}
set: {memory: ideal, contention: false}
axes:
  pim: [logic, bank]
  device.stacks: [5, 6]
"""


def test_points_of_a_sweep_are_runs(tmp_path: Path) -> None:
    (tmp_path / "duplex.yaml").write_text(SWEEP)
    table = pimloom.sweep(tmp_path / "duplex.yaml", out=tmp_path / "out")
    assert len(table) == 4 and table["error"].isna().all()
    for row in table.to_dict("records"):
        settings = QUICK | {"pim": row["pim"], "device.stacks": row["device.stacks"]}
        run: Any = pimloom.run("duplex", model="mixtral-8x7b", prompt=40, generate=3, batch=4, set=settings)
        assert row["latency_s"] == run.latency_s and row["energy_j"] == run.energy_j
        assert row["energy_by_cause_j.links"] == run.energy_by_cause_j["links"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("device.stacks: [5, 6]|device.stack: [5]", "device.stack: no such key in duplex.yaml; nearest: stacks"),
        (
            "pim: [logic, bank]|device: [my.yaml, duplex]",
            "my.yaml: sweeps take a device and its part by name; set",
        ),
        ("batch: 4|batch: 4, tp: 2", "workload.tp: unknown key, expected one of model, batch, prompt, generate, every"),
        (
            "device.stacks: [5, 6]|device.part.timing.tRFX: [5]",
            "device.part.timing.tRFX: no such key in hbm3",
        ),
    ],
)
def test_sweeps_say_what_a_duplex_system_has_not(tmp_path: Path, changed: str, said: str) -> None:
    before, after = changed.split("|")
    (tmp_path / "duplex.yaml").write_text(SWEEP.replace(before, after))
    done = call("sweep", tmp_path / "duplex.yaml", "--out", tmp_path / "out")
    assert done.code == 2 and said in done.err and not (tmp_path / "out").exists()
