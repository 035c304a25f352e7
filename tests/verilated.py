"""A program of Verilator's with assertions: made once for what it is made of, as simulators are."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pimloom.rtl.flow.simulator.build import kept
from pimloom.rtl.flow.simulator.environment import environment, tools

FLAGS = ("--cc", "--exe", "--no-timing", "--assert", "-Wno-fatal", "-O1", "--Mdir", ".")
MAKE = ("make", "-f", "Vtop.mk", "OPT_FAST=-O0")  # of the model alone: Verilator's own objects are those of all builds
MAIN = """
int main(int n, char **words) {
  VerilatedContext context;
  context.commandArgs(n, words);
  Vtop top{&context};
  while (!context.gotFinish()) {
    top.clk ^= 1;
    top.eval();
  }
}
"""


def program(name: str, verilog: Mapping[str, str]) -> Path:
    """The program that clocks the module `top` of these files until it finishes."""

    def build(work: Path) -> None:
        for file, text in verilog.items():
            (work / file).write_text(text)
        with environment("verilator"):
            for command in (("verilator", *FLAGS, "--top-module", "top", *verilog), MAKE):
                made = subprocess.run(command, cwd=work, env=os.environ, capture_output=True, text=True, check=False)
                assert made.returncode == 0, made.stderr[-2000:]
                if command[0] == "verilator":  # compiled with the model: its headers take longer
                    with (work / "Vtop.cpp").open("a") as model:
                        model.write(MAIN)

    setting = [*FLAGS, *MAKE, *tools("verilator")]
    return kept(name, setting, [MAIN, *verilog, *verilog.values()], ("verilated*.o",), build) / "Vtop"
