"""The YAML of docs/systems.md is what its examples are, and runs."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch.composition import UNITS as TYPES
from pimloom.arch.composition import ComposedSystem, Overlap, PartMemory, PlainMemory, Wire
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.workload.batch import Batch

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "systems"
SNIPPETS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "systems.md").read_text(), re.DOTALL)
NAMES = ("phone", "pim_card", "hbm3_npu")


@pytest.mark.parametrize(("text", "name"), list(zip(SNIPPETS, NAMES, strict=True)), ids=NAMES)
def test_a_snippet_is_its_example(text: str, name: str, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "lpddr5_pim.yaml", tmp_path)
    (tmp_path / f"{name}.yaml").write_text(text)
    files = [folder / f"{name}.yaml" for folder in (tmp_path, EXAMPLES)]
    found, whole = (load_system(str(file)).of_kind(ComposedSystem) for file in files)
    assert (found.description, found.runs, found.overlap) == (whole.description, whole.runs, whole.overlap)
    for key in ("memories", "units", "links"):
        mine, theirs = getattr(found, key), getattr(whole, key)
        assert mine.keys() == theirs.keys()
        for one in mine:
            left_out = {"power_w", "pj_per_bit"}
            fields = set(type(mine[one]).__struct_fields__) - left_out
            assert all(getattr(mine[one], field) == getattr(theirs[one], field) for field in fields)
    if name != "hbm3_npu":
        made = device_of(load_system(str(tmp_path / f"{name}.yaml")), load_llm("gpt2"), Share(1, 2, outside=True))
        assert made.step(Batch.decode([64])).end_ps > 0


def test_every_key_has_a_meaning() -> None:
    structs: list[Any] = [ComposedSystem, Overlap, PartMemory, PlainMemory, Wire, *TYPES.values()]
    known = {name for struct in structs for name in struct.MEANING}
    assert {name for struct in structs for name in struct.__struct_fields__} - known == {"description", "kind"}
