"""Writes that DRAMsim3 calls done and has not written when the run ends: how many is said in a warning."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from tests.foreign import INI, changed

SAID = re.compile(
    r"([0-9]+) writes? (?:are|is) done as DRAMsim3 has it, but the run ends before (?:their|its) WR: commands and "
    r"energy of (?:these|this one) are in no total"
)


def left(warnings: list[str]) -> int:
    """What the warning says; 0 without one."""
    found = [int(match[1]) for match in map(SAID.fullmatch, warnings) if match]
    assert len(found) <= 1 and 0 not in found
    return sum(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("posted")


@pytest.mark.parametrize(("writes", "waiting"), [(0, 0), (1, 1), (8, 8)])
def test_up_to_eight_writes_never_leave_the_buffer(folder: Path, writes: int, waiting: int) -> None:
    lines = ["0x100000 READ 0", *(f"{64 * i:#x} WRITE {i}" for i in range(writes))]
    (folder / "w.trc").write_text("\n".join(lines) + "\n")
    (folder / "a.ini").write_text(INI)
    found = pimloom.trace(folder / "a.ini", folder / "w.trc", idle=100_000)
    assert (found.writes, found.commands.get("WR", 0)) == (writes, 0)
    assert left(found.warnings) == waiting


def test_our_controller_writes_all(folder: Path) -> None:
    (folder / "w.trc").write_text("0x40 WRITE 0\n0x80 WRITE 5\n")
    found = pimloom.trace("ddr4_3200", folder / "w.trc")
    assert found.commands["WR"] == 2 and found.warnings == []


@settings(max_examples=50)
@given(
    places=st.lists(st.integers(0, 60), min_size=1, max_size=80),
    gap=st.integers(0, 40),
    queues=st.sampled_from(["PER_BANK", "PER_RANK"]),
    unified=st.sampled_from(["true", "false"]),
    channels=st.sampled_from([1, 2]),
    idle=st.sampled_from([0, 1, 30, 5000]),
)
def test_what_is_left_is_what_has_no_command(
    folder: Path, places: list[int], gap: int, queues: str, unified: str, channels: int, idle: int
) -> None:
    """Each write is merged with one that waits, or written, or waits for ever."""
    more = f"[system]\nqueue_structure = {queues}\nunified_queue = {unified}\nchannels = {channels}"
    (folder / "a.ini").write_text(changed(INI, "[system]", more))
    lines = [f"{64 * place << (place % 3 * 9):#x} WRITE {gap * i}\n" for i, place in enumerate(places)]
    (folder / "w.trc").write_text("".join(lines))
    found = pimloom.trace(folder / "a.ini", folder / "w.trc", idle=idle)
    assert left(found.warnings) == found.writes - found.merged - found.commands.get("WR", 0)
