# amaranth: UnusedElaboratable=no
"""Every command of `pimloom rtl` with every part: it works, or one line says why the part cannot have the block."""

from math import prod
from pathlib import Path

import pytest

import pimloom.arch
from pimloom.arch.error import UserError
from pimloom.arch.system import list_names, load_part
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.lookup import build, left_out, load_device
from tests.command import call
from tests.slow import slow

MEMORY_BLOCKS = {name for name, block in BLOCKS.items() if block.of_memory}
PARTS = [part if part in ("gddr6_pim_gpt", "ddr4_3200") else slow(part) for part in list_names("parts")]
STANDARDS = ["ddr4_3200", *map(slow, ("ddr5_4800", "gddr6_14000", "hbm2_2000", "hbm3_6400", "lpddr5_6400"))]


def test_blocks_of_no_memory_are_built_with_any_part() -> None:
    memory, optical = load_device("gddr6_aim"), load_device("ocstrx")
    for block in BLOCKS.keys() - MEMORY_BLOCKS:
        one, other = (build(block, "a part", part) for part in (memory, optical))
        assert one.signature.members.keys() == other.signature.members.keys()


@pytest.mark.parametrize("part", PARTS)
def test_every_block_of_a_part_is_built_or_refused(part: str) -> None:
    device = load_device(part)
    without = left_out(device)
    assert set(without) <= MEMORY_BLOCKS - {"sequencer"}  # two row buffers and rules between siblings are no hindrance
    for block in without:
        with pytest.raises(UserError, match=f"{part} cannot have block {block}: ") as said:
            build(block, part, device)
        assert "\n" not in str(said.value)


@pytest.mark.parametrize("name", STANDARDS)
@pytest.mark.parametrize(
    "change",
    [
        {"ranks": 2},
        {"ranks": 3},
        {"pseudo_channels": 3},
        {"bank_groups": 1},
        {"bank_groups": 3},
        {"banks_per_group": 1},
        {"columns": 1},
    ],
    ids=str,
)
def test_other_geometries_are_built_or_refused(name: str, change: dict[str, int]) -> None:
    size = load_part(name).value.organization
    places = {f"organization.{key}": str(value) for key, value in change.items()}
    more = prod(value / getattr(size, key) for key, value in change.items())
    places["organization.capacity_bytes"] = str(int(size.capacity_bytes * more))
    try:
        part = load_part(name, places).value
    except UserError as error:
        wrong = "a burst carries" if "pseudo_channels" in change else f"which {change['ranks']} ranks need"
        assert wrong in str(error)  # no part at all
        return
    without = left_out(part)
    for block, why in without.items():
        assert block in MEMORY_BLOCKS and "\n" not in why
    assert "ranks" not in change or "sequencer" not in without


@pytest.mark.slow
def test_newton_is_a_part_of_the_users_own(tmp_path: Path) -> None:
    text = (Path(pimloom.arch.__file__).parent / "parts" / "hbm2_neupims.yaml").read_text()
    changes = {"pim: neupims": "pim: newton", "bank_groups: 4": "bank_groups: 1", "per_group: 4": "per_group: 2"}
    for old, new in (changes | {"capacity_bytes: 1073741824": "capacity_bytes: 134217728"}).items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "newton.yaml").write_text(text)
    done = call("rtl", "emit", "sequencer", "--part", tmp_path / "newton.yaml", "-o", tmp_path / "newton.v")
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "newton.v").read_text().count("\nmodule ") > 1


@pytest.mark.parametrize("words", ["verify", "prove", "synth all", "verify sequencer", "synth sequencer"])
def test_an_optical_part_has_optical_blocks_only(words: str) -> None:
    done = call("rtl", *words.split(), "--part", "ocstrx")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and "ocs_switch" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("part", [*list_names("parts"), *list_names("optics")])
def test_verilog_of_every_block_of_every_part(part: str, tmp_path: Path) -> None:
    for block in BLOCKS:
        done = call("rtl", "emit", block, "--part", part, "-o", tmp_path / f"{block}.v")
        assert done.code in (0, 2) and done.err.count("\n") == (done.code == 2), (block, done)
        assert (tmp_path / f"{block}.v").exists() == (done.code == 0)
