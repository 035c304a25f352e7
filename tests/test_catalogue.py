"""The list of names, and what it says of a file that cannot be listed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch import names
from pimloom.arch.error import UserError
from pimloom.arch.optics import load_optics
from pimloom.arch.policy import load_policy
from pimloom.arch.system import load_part, load_system
from pimloom.arch.topology import topologies
from pimloom.arch.training import load_training
from pimloom.reports.terminal.catalogue import catalogue


def test_the_lines_are_those_of_what_is_loaded() -> None:
    found = catalogue()
    loaded: dict[str, Any] = {"parts": load_part, "optics": load_optics, "gpus": load_training}
    for kind, load in loaded.items():
        assert found[kind] == {name: load(name).value.description for name in found[kind]}
    assert found["systems"] == {name: load_system(name).spec.description for name in found["systems"]}
    for name, line in found["controllers"].items():
        p = load_policy(name).value
        assert line == f"{p.structure}, {p.scheduler}, {p.page} page, refresh {p.refresh}"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("parts/ddr4_3200.yaml", "kind: dram\n", "ddr4_3200.yaml"),
        ("controllers/default.yaml", "structure: queued\n", "default.yaml"),
        ("systems/t4.yaml", "description: [\n", "t4.yaml"),
    ],
)
def test_a_file_with_a_fault_is_named(
    file: str, text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "arch"
    for folder in names.BELONGS:
        if (names.HERE / folder).exists():
            shutil.copytree(names.HERE / folder, here / folder)
    (here / file).write_text(text)
    monkeypatch.setattr(names, "HERE", here)
    with pytest.raises(UserError, match=said):
        catalogue()


def test_a_ring_is_named_in_one_way() -> None:
    assert len(topologies("infinitehbd-k2,infinitehbd-k2,infinitehbd-k12")) == 2
    wrong = {
        "infinitehbd-k02": "no such architecture",
        "infinitehbd-k1": "expected K of 2 or more",
        "all,nvl72": "all stands alone",
    }
    for name, said in wrong.items():
        with pytest.raises(UserError, match=said):
            topologies(name)
