"""A cocotb bench that needs nothing of pimloom: recorded inputs in, recorded outputs expected, clock by clock."""

from collections.abc import Sequence

from pimloom.rtl.flow.emit.record import Recording

BENCH = '''"""Plays vectors.txt to {block} and compares every output before every rising edge of the clock.

vectors.txt: the names of the ports, inputs before the bar, then a line a clock of hexadecimal numbers; a dot is what
stood there in the line before. The outputs were compared with pimloom's model when they were recorded.
"""

from pathlib import Path

import cocotb
from cocotb.triggers import Timer

VECTORS = Path(__file__).parent / "vectors.txt"
CLOCKED = {clocked}


def rows():
    """(inputs by name, outputs by name), line by line."""
    with VECTORS.open() as lines:
        ins, outs = (part.split() for part in next(lines).split("|"))
        now = [0] * (len(ins) + len(outs))
        for line in lines:
            now = [old if word == "." else int(word, 16) for word, old in zip(line.split(), now, strict=True)]
            yield dict(zip(ins, now)), dict(zip(outs, now[len(ins):]))


@cocotb.test()
async def recorded(dut):
    """Every output in every clock is what was recorded."""
    if CLOCKED:
        dut.clk.value = 0
    for clock, (inputs, outputs) in enumerate(rows()):
        for name, value in inputs.items():
            getattr(dut, name).value = value
        await Timer(1, "ns")
        for name, expected in outputs.items():
            found = getattr(dut, name).value
            assert str(found).lower() == format(expected, f"0{{len(str(found))}}b"), (
                f"clock {{clock}}: {{name}} is {{found}}, expected {{expected:#x}}"
            )
        if CLOCKED:
            dut.clk.value = 1
            await Timer(1, "ns")
            dut.clk.value = 0
'''
RUN = '''"""Builds {block} with cocotb's runner and plays the bench: python3 run.py [verilator|icarus]."""

import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

try:
    from cocotb_tools.runner import get_runner
except ImportError:
    sys.exit(f"cocotb 2 is missing; install it with: {{sys.executable}} -m pip install cocotb")

HERE = Path(__file__).resolve().parent
PROGRAMS = {{"verilator": "verilator", "icarus": "iverilog"}}
FOUND = [name for name, program in PROGRAMS.items() if shutil.which(program)]
SIMULATOR = sys.argv[1] if len(sys.argv) > 1 else (FOUND or ["verilator"])[0]
if SIMULATOR not in PROGRAMS:
    sys.exit(f"{{SIMULATOR}}: unknown simulator; known: {{', '.join(PROGRAMS)}}")
if SIMULATOR not in FOUND:
    sys.exit(f"{{PROGRAMS[SIMULATOR]}} is missing; install it, or name the other one of {{', '.join(PROGRAMS)}}")
SOURCES = {{
    "verilator": [{sources}],
    "icarus": ["{block}.v"],
}}
FLAGS = {{
    "verilator": ["-Wno-fatal", "--assert"],
    "icarus": ["-g2005"],  # with -g2012 a process without a clock whose inputs never change is never run
}}

runner = get_runner(SIMULATOR)
build = HERE / f"build_{{SIMULATOR}}"
runner.build(
    sources=[HERE / name for name in SOURCES[SIMULATOR]],
    hdl_toplevel="{block}",
    build_dir=build,
    build_args=FLAGS[SIMULATOR],
    timescale=("1ns", "1ps"),
    always=True,
)
results = runner.test(hdl_toplevel="{block}", test_module="test_{block}", build_dir=build, test_dir=HERE)
if not Path(results).exists():
    sys.exit("the simulator stopped before the bench ended: see above, an assertion was broken or the build failed")
cases = list(ElementTree.parse(results).iter("testcase"))
failed = [case.get("name") for case in cases if {{one.tag for one in case}} & {{"failure", "error", "skipped"}}]
if len(cases) != 1 or failed:
    sys.exit(f"{{len(cases)}} tests ran, one is expected; failed: {{', '.join(failed) or 'none'}}")
'''
MAKEFILE = """# make test: the bench on Verilator, or on Icarus where there is none; SIM=icarus, SIM=verilator: there.
# Needs cocotb 2 for $(PYTHON), and the simulator.
SIM ?=
PYTHON ?= python3

.PHONY: test lint clean
test:
\tPYTHONPATH="$(CURDIR):$$PYTHONPATH" $(PYTHON) run.py $(SIM)
lint:
\tverilator --lint-only -Wall --top-module {block} {block}.vlt {block}.v
clean:
\trm -rf build_verilator build_icarus results.xml __pycache__
"""


def bench(block: str, recording: Recording) -> str:
    """The text of `test_BLOCK.py`."""
    return BENCH.format(block=block, clocked=recording.clocked)


def vectors(recording: Recording) -> str:
    """The text of `vectors.txt`."""
    lines, last = [f"{' '.join(recording.inputs)} | {' '.join(recording.outputs)}"], list[int]()
    for row in recording.rows:
        lines.append(" ".join("." if last and last[i] == value else f"{value:x}" for i, value in enumerate(row)))
        last = row
    return "\n".join(lines) + "\n"


def run(block: str, asserted: Sequence[str]) -> str:
    """The text of `run.py`; asserted: files of assertions beside the block."""
    sources = [f"{block}.vlt", "ports.vlt", f"{block}.v", *asserted]
    return RUN.format(block=block, sources=", ".join(f'"{name}"' for name in sources))


def ports(block: str, recording: Recording) -> str:
    """The text of `ports.vlt`: what the bench may see on Verilator."""
    names = [*(["clk"] if recording.clocked else []), *recording.inputs, *recording.outputs]
    lines = [f'public_flat_rw -module "{block}" -var "{name}"' for name in names]
    return "\n".join(["`verilator_config", *lines, ""])


def makefile(block: str) -> str:
    """The text of `Makefile`."""
    return MAKEFILE.format(block=block)
