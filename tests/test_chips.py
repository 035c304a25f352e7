"""Currents of a part are one device's: so many devices, ranks and channels draw so many times as much."""

import json
from pathlib import Path
from typing import Any

import pytest

from pimloom.workload.batch import Batch
from tests.command import call
from tests.test_composed import run, toy

MODEL = {
    "model_type": "gpt2", "n_layer": 1, "n_embd": 256, "n_head": 2, "n_positions": 128, "vocab_size": 100,
    "activation_function": "gelu_new", "tie_word_embeddings": True,
}  # fmt: skip
OWN = ("mac", "asic", "interface", "npu_mac", "npu_vector", "npu_scratchpad", "npu_static", "link")


def energies(folder: Path, *arguments: str) -> dict[str, float]:
    (folder / "model.json").write_text(json.dumps(MODEL))
    model = [] if arguments[0] == "trace" else ["--model", str(folder / "model.json")]
    done = call(*arguments, *model, "--json", "-", "--quiet")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found.get("energy_by_cause_j") or found["energy_by_cause_pj"]


@pytest.mark.parametrize("arguments", [
    ("run", "pim_gpt", "--generate", "2"),
    ("run", "npu_only", "--prompt", "8", "--generate", "2", "--batch", "2"),
    ("trace", "gddr6_pim_gpt", "--pattern", "random", "--requests", "500"),
])  # fmt: skip
def test_eight_devices_draw_eight_times_as_much(arguments: tuple[str, ...], tmp_path: Path) -> None:
    one, eight = (energies(tmp_path, *arguments, "--set", f"dram.devices={n}") for n in (1, 8))
    assert {"activate", "read", "refresh"} & {cause for cause in one if cause not in OWN}
    for cause, joules in one.items():
        assert eight[cause] == pytest.approx((1 if cause in OWN else 8) * joules), cause


def test_a_composed_memory_draws_for_all_its_devices_ranks_and_channels(tmp_path: Path) -> None:
    """Standby by hand: IDD3N while PIM works, IDD2N else; refresh (IDD5B - IDD3N) for tRFC of every tREFI."""
    batch = Batch.decode([64, 30])
    places: dict[str, Any] = {"memories__card__devices": "8"}
    one, eight = run(toy(tmp_path), batch), run(toy(tmp_path), batch, **places)
    assert one.device_j and eight.device_j
    busy = sum(span.end_ps - span.start_ps for span in one.spans if span.resource == "pim")
    volt_pj = 1.25 * 1e-3 * 1e-12 * 8  # of eight channels: mA x V x ps
    standby = volt_pj * (142 * busy + 92 * (one.end_ps - busy))
    refresh = volt_pj * (277 - 142) * one.end_ps * 455 / 6825
    assert one.device_j["background"] == pytest.approx(standby)
    assert one.device_j["refresh"] == pytest.approx(refresh)
    for cause, joules in one.device_j.items():
        assert eight.device_j[cause] == pytest.approx((8 if cause in ("background", "refresh") else 1) * joules), cause


def test_ranks_of_a_composed_memory_count(tmp_path: Path) -> None:
    """DDR4 in two ranks of half the rows each; refresh and standby take the time of a run that is almost as long."""
    batch, changes = Batch.decode([64]), (("gddr6_pim_gpt", "ddr4_3200"), ("at: bank,", "at: logic_die,"))
    halves: dict[str, Any] = {"memories__card__organization__ranks": "2", "memories__card__organization__rows": "32768"}
    one, two = (run(toy(tmp_path, *changes), batch, **more) for more in (dict[str, Any](), halves))
    assert one.device_j and two.device_j
    for cause in ("background", "refresh"):
        assert two.device_j[cause] == pytest.approx(2 * one.device_j[cause], rel=0.01)
