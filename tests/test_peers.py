"""The study that puts all systems side by side."""

import csv
import json
import re
from pathlib import Path

import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.names import list_names
from pimloom.arch.system import load_system
from pimloom.reports.peers import study
from pimloom.reports.peers.steps import Workload, step_on
from pimloom.systems.devices.device import Share, device_of
from pimloom.workload.batch import Batch

FEW = ("attacc", "attacc_gpu", "gpu_a100", "pim_gpt", "t4")
WORK = (Workload("gpt3-xl", 1, 64), Workload("gpt3-xl", 8, 64), Workload("llama-2-7b", 1, 64))


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_workload_meets_every_system(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    page = study.run_study(tmp_path, lambda done, total: seen.append((done, total)), WORK, FEW)
    found = rows(tmp_path)
    assert seen[-1] == (15, 15) and len(found) == 15
    assert all(bool(row["step_ms"]) != bool(row["reason"]) for row in found)
    refused = {(row["system"], row["model"], row["batch"]) for row in found if row["reason"]}
    assert refused == {("pim_gpt", "gpt3-xl", "8"), ("pim_gpt", "llama-2-7b", "1")}
    for row in found:
        if row["step_ms"]:
            parts = [float(value) for name, value in row.items() if name.endswith("[mJ]") and value]
            assert float(row["mj_per_token"]) == pytest.approx(sum(parts))
            assert float(row["tokens_per_s"]) == pytest.approx(1e3 * int(row["batch"]) / float(row["step_ms"]))
    assert json.loads((tmp_path / "results.json").read_text())["checks"] == []
    text = page.read_text()
    fastest = min((row for row in found[:5] if row["step_ms"]), key=lambda row: float(row["step_ms"]))
    assert re.search(f"{fastest['system']}, of [^<]*, has the shortest step", text) and "at most 1 at once" in text
    energies = text[text.index("Energy of a token over the same cells") :]
    energies = energies[: energies.index("</table>")]
    assert energies.count(">attacc ≥") == len(WORK) and "5 of 12" in energies and "10 of 12" in energies


def test_who_attends_for_nothing_does_not_need_the_least(tmp_path: Path) -> None:
    """What the processors draw that attend on `attacc_host` is not known: its energy is a lower bound. It is less than
    that of the same box whose GPUs attend, and the ranking stays open."""
    work = Workload("gpt3-xl", 8, 512)
    page = study.run_study(tmp_path, lambda done, total: None, (work,), ("attacc_host", "attacc_gpu"))
    host, gpus = (float(row["mj_per_token"]) for row in rows(tmp_path))
    assert host < gpus and "Which system needs the least energy is open in 1 of 1 workload." in page.read_text()


def test_a_step_is_that_of_the_device() -> None:
    system, llm = load_system("attacc"), load_llm("llama-2-7b")
    run = device_of(system, llm, Share(1, 32, outside=False)).step(Batch.decode([300] * 8))
    found = step_on(system, llm, Workload("llama-2-7b", 8, 300))
    assert found.step_ms == pytest.approx(run.time_s * 1e3) and found.mj_per_token == pytest.approx(
        (run.energy_j or 0.0) / 8 * 1e3
    )


def test_all_systems_that_ship_take_a_step_or_say_why() -> None:
    for name in list_names("systems"):
        found = step_on(load_system(name), load_llm("gpt2"), Workload("gpt2", 1, 8))
        assert (found.step_ms is None) == (found.reason is not None) and "\n" not in (found.reason or "")
