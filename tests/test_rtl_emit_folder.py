# amaranth: UnusedElaboratable=no
"""`pimloom rtl emit BLOCK -o DIR/`: the folder stands by itself, its bench finds what is wrong."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pimloom.arch.system import load_part
from pimloom.rtl.flow.emit.rules import assertions
from pimloom.rtl.flow.simulator.environment import Simulator, environment
from pimloom.rtl.flow.stimulus import own_table, shrink
from tests.command import call

PART = "gddr6_pim_gpt"


def make(folder: Path, simulator: Simulator, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """`make test` where `import pimloom` fails."""
    stub = tmp_path / "stub"
    stub.mkdir(exist_ok=True)
    (stub / "pimloom.py").write_text("raise ImportError('not here')")
    with environment("verilator"):
        own = {"PYTHONPATH": str(stub), "PYTHON": sys.executable}
        command = ["make", "-C", str(folder), "test", f"SIM={simulator}", f"PYTHON={sys.executable}"]
        return subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)


def test_the_folder_holds_what_an_engineer_asks_for(tmp_path: Path) -> None:
    out = tmp_path / "timer"
    assert call("rtl", "emit", "timer", "-o", f"{out}/", "--quiet") == (0, "", "")
    assert {file.name for file in out.iterdir()} == {
        "Makefile", "run.py", "test_timer.py", "timer.core", "timer.gtkw", "timer.sdc", "timer.v", "timer.vlt",
        "vectors.txt", "ports.vlt",
    }  # fmt: skip
    assert "create_clock -name clk -period 0.5 " in (out / "timer.sdc").read_text()  # 2 GHz
    assert not any("pimloom." in line for line in (out / "test_timer.py").read_text().splitlines() if "import" in line)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not installed (iverilog)")
def test_the_bench_of_the_folder_runs_by_itself_and_finds_what_is_wrong(tmp_path: Path) -> None:
    out = tmp_path / "timer"
    assert call("rtl", "emit", "timer", "-o", f"{out}/", "--quiet") == (0, "", "")
    done = make(out, "icarus", tmp_path)
    assert done.returncode == 0 and "PASS=1" in done.stdout, done.stdout + done.stderr
    file = out / "timer.v"
    file.write_text(file.read_text().replace("3'h1)", "3'h2)", 1))
    done = make(out, "icarus", tmp_path)
    assert done.returncode != 0 and "expected" in done.stdout


def test_nothing_is_half_written(tmp_path: Path) -> None:
    done = call("rtl", "emit", "timer", "-o", f"{tmp_path}/none/there/")
    assert done.code == 2 and "make it first" in done.err and not list(tmp_path.iterdir())


def test_every_rule_that_can_wait_is_asserted() -> None:
    part = load_part(PART).value
    table = own_table(part, shrink(part, 2, 2))
    text = assertions(part, PART, table, "sequencer")
    waiting = [i for i, wait in enumerate(table.rules.wait) if wait > 1]
    assert [i for i in range(len(table.rules.wait)) if f"begin : rule_{i}\n" in text] == waiting
