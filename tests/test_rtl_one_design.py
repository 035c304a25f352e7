"""Several emitted blocks in one user's design: no name clashes, and what lint says of the user's own file stays."""

import re
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from pimloom.arch.error import UserError
from pimloom.rtl.flow.emit.beside import waivers
from pimloom.rtl.flow.emit.design import top_name
from tests.command import call

BLOCKS = {  # top -> words of the command
    "near": "sequencer --part gddr6_aim --name near",
    "acme_sequencer": "sequencer --part gddr6_16000 --prefix acme_",
    "systolic": "systolic --rows 2 --columns 2",
    "npu_gemm": "npu_gemm --rows 2 --columns 2",
}
DESIGN = """module soc (input wire clk, input wire rst, input wire [7:0] wide, output reg [3:0] narrow);
{instances}
  always @(posedge clk) narrow <= wide + 8'h1;
endmodule
"""
MODULE = re.compile(r"^module (\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Verilog and the waivers of each block, and a user's design of all."""
    out = tmp_path_factory.mktemp("soc")
    for top, words in BLOCKS.items():
        assert call("rtl", "emit", *words.split(), "-o", out / f"{top}.v", "--quiet") == (0, "", "")
        (out / f"{top}.vlt").write_text(waivers(top))
    instances = "\n".join(f"  {top} {top}_0 (.clk(clk), .rst(rst));" for top in BLOCKS)
    (out / "soc.v").write_text(DESIGN.format(instances=instances))
    return out


def lint(folder: Path, *files: str) -> str:
    """What Verilator reports of the design with these files of blocks."""
    options = ["--lint-only", "-Wall", "-Wno-fatal", "-Wno-PINMISSING", "--top-module", "soc"]
    command = [sys.executable, "-m", "verilator", *options, *(f"{top}.vlt" for top in BLOCKS), "soc.v", *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr


def test_two_sequencers_an_array_and_a_gemm_stand_in_one_design_under_verilator(folder: Path) -> None:
    """The only warning is that of the user's own truncation; a second sequencer under the first's name is a clash."""
    said = lint(folder, *(f"{top}.v" for top in BLOCKS))
    assert re.findall(r"^%(?:Warning|Error)-?(\w*): (\w+\.\w+)", said, re.MULTILINE) == [("WIDTHTRUNC", "soc.v")], said
    text = (folder / "acme_sequencer.v").read_text()
    (folder / "again.v").write_text(text.replace("module acme_sequencer ", "module near "))
    assert "MODDUP" in lint(folder, "again.v", *(f"{top}.v" for top in BLOCKS))


def test_two_sequencers_an_array_and_a_gemm_stand_in_one_design_under_icarus(folder: Path) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed (apt-get install iverilog)")
    command = ["iverilog", "-g2005", "-s", "soc", "-o", "soc.vvp", "soc.v", *(f"{top}.v" for top in BLOCKS)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_module_bears_the_name_of_its_top(folder: Path) -> None:
    modules = {top: MODULE.findall((folder / f"{top}.v").read_text()) for top in BLOCKS}
    for top, names in modules.items():
        assert names[0] == top and len(names) == len(set(names))
        assert all(name.startswith(f"{top}__") for name in names[1:]), names
    assert all(not set(a) & set(b) for a, b in combinations(modules.values(), 2))
    assert len(modules["npu_gemm"]) > 5


@pytest.mark.parametrize(
    ("words", "top"),
    [((None, None), "sequencer"), (("near", None), "near"), ((None, "acme_"), "acme_sequencer"), (("b", "a_"), "a_b")],
)
def test_a_top_is_called_by_prefix_and_name(words: tuple[str | None, str | None], top: str) -> None:
    assert top_name("sequencer", *words) == top


@pytest.mark.parametrize(
    "words",
    [("wire", None), ("always_comb", None), ("1st", None), ("a__b", None), ("a_", None), ("_a", None), ("a b", None),
     ("é", None), ("rimitive", "p"), ("b", "a__"), ("", "b c")],
)  # fmt: skip
def test_a_name_that_verilog_does_not_take_or_that_could_clash_is_refused(words: tuple[str, str | None]) -> None:
    with pytest.raises(UserError, match="--name|--prefix"):
        top_name("sequencer", *words)


def test_a_wrong_name_writes_nothing(tmp_path: Path) -> None:
    done = call("rtl", "emit", "timer", "--name", "a__b", "-o", f"{tmp_path}/x/")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and not list(tmp_path.iterdir())
