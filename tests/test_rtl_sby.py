# amaranth: UnusedElaboratable=no
"""`make prove` in an emitted folder: SymbiYosys holds the block to its assertions, and finds a broken one."""

import re
from pathlib import Path

import msgspec
import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.emit.bench import makefile, run
from pimloom.rtl.flow.emit.formal import formal, sby
from pimloom.rtl.flow.emit.handshakes import handshakes
from pimloom.rtl.flow.emit.rules import assertions
from pimloom.rtl.flow.stimulus import shrink
from pimloom.rtl.verilog import to_verilog
from tests.slow import slow
from tests.test_rtl_emit_folder import make

PART, DEPTH = "ddr4_3200", 9  # clocks: beyond tRRD_S of 4 CK


def folder_of(block: str, folder: Path) -> str:
    """The files of a block of two banks that `make prove` needs, asked about DEPTH clocks; its Verilog."""
    part = load_part(PART).value
    part = msgspec.structs.replace(part, organization=shrink(part, 2, 1))
    component = BLOCKS[block].build(part)
    checks = {f"{block}_rules.sv": assertions(part, PART, component.table, block)}
    if block == "sequencer_axi":
        checks[f"{block}_handshakes.sv"] = handshakes(component, block)
    verilog = to_verilog(BLOCKS[block].build(part), block)
    asked = re.sub(r"^depth .*", f"depth {DEPTH}", sby(block, list(checks)), flags=re.MULTILINE)
    files = checks | {f"{block}.v": verilog, f"{block}_formal.sv": formal(component, block, list(checks.values()))}
    files |= {f"{block}.sby": asked, "run.py": run(block, list(checks), ""), "Makefile": makefile(block)}
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return verilog


@pytest.mark.parametrize("block", ["sequencer", slow("sequencer_axi")])
def test_the_assertions_hold_for_any_input_and_a_timer_that_is_off_breaks_one(block: str, tmp_path: Path) -> None:
    verilog = folder_of(block, tmp_path / block)
    done = make(tmp_path / block, "", tmp_path, "prove")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert done.stdout.count("DONE (PASS") == 2  # of assertions, and of a command that issues
    off, times = re.subn(
        r"(module \w+__rule_timer_window1_wait4 .*?assign busy = )\|left_0", r"\g<1>1'h0", verilog, flags=re.DOTALL
    )
    assert times == 1
    (tmp_path / block / f"{block}.v").write_text(off)
    done = make(tmp_path / block, "", tmp_path, "prove")
    assert done.returncode and "DONE (FAIL" in done.stdout


def test_a_missing_solver_is_said(tmp_path: Path) -> None:
    folder_of("sequencer", tmp_path / "s")
    done = make(tmp_path / "s", "", tmp_path, "prove", python="/usr/bin/python3")
    assert done.returncode and "missing: sby, yices-smt2; the assertions of sequencer_rules.sv were not proved" in (
        done.stderr
    )
