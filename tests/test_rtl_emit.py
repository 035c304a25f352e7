# amaranth: UnusedElaboratable=no
"""Emitted Verilog: the same every time, equal modules once, nothing of this machine in it."""

import re
from functools import cache
from pathlib import Path

import pytest
from amaranth._toolchain.yosys import _BuiltinYosys, _SystemYosys

from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.rtl import bf16, float32, yosys
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.command import command_layout
from pimloom.rtl.header import header
from pimloom.rtl.verilog import to_verilog
from tests.slow import slow

PART = load_part("gddr6_pim_gpt").value
SMALL = ("timer", "float32_add", "asic_rsqrt", *map(slow, ("asic_exp", "pim_unit")))


@cache
def verilog(name: str) -> str:
    """A block of PIM-GPT's part as it is emitted."""
    return to_verilog(BLOCKS[name].build(PART), name)


def modules(text: str) -> list[str]:
    return re.findall(r"^module ([^\s(]+)", text, re.MULTILINE)


def uses(text: str) -> list[str]:
    return re.findall(r"^  (?!wire|reg|assign|integer)(\w+) \w+ \(\.", text, re.MULTILINE)


def test_equal_modules_are_written_once():
    text = to_verilog(bf16.Tree(8), "tree")
    assert len(uses(text)) == 7
    assert sorted(set(uses(text)) | {"tree"}) == sorted(modules(text))
    assert len(modules(text)) <= 4  # operands side by side in one wire are one port, others two


@pytest.mark.parametrize("name", SMALL)
def test_every_module_in_use_is_there_and_every_other_is_the_top(name):
    text = verilog(name)
    assert sorted({*uses(text), name}) == sorted(modules(text))
    assert len(set(modules(text))) == len(modules(text))


def test_the_same_text_every_time_and_no_paths():
    text = to_verilog(float32.Add(), "adder")
    assert text == to_verilog(float32.Add(), "adder")
    assert str(Path(float32.__file__).parent) not in text and "src =" not in text


def test_what_stands_above_tells_ports_fields_and_opcodes():
    lines = header(BLOCKS["sequencer"].build(PART), "sequencer of x").splitlines()
    assert lines[0] == "// sequencer of x" and all(not line or line.startswith("//") for line in lines)
    assert "//   out starved" in lines
    assert not any("Raises" in line or "UserError" in line for line in lines)
    (payload,) = (line for line in lines if "heads__0__payload" in line)
    layout = command_layout(compile_table(PART))
    for name in ("cmd", "bg", "bank", "row", "col"):
        field = layout[name]
        assert f"{name} [{field.offset + field.width - 1}:{field.offset}]" in payload
    codes = " ".join(line.removeprefix("// ") for line in lines[lines.index(next(x for x in lines if "cmd: 0" in x)) :])
    assert [pair.split() for pair in codes.removeprefix("cmd: ").strip().split(", ")] == [
        [str(i), name] for i, name in enumerate(compile_table(PART).names)
    ]


@pytest.mark.parametrize("name", [name for name in SMALL if name != "float32_add"])
def test_what_stands_above_names_every_port_of_the_module(name):
    component = BLOCKS[name].build(PART)
    assert "UserError" not in header(component, name) and "\n//\n//\n" not in header(component, name)
    lines = header(component, name).splitlines()
    told = [line.split()[2].rstrip(":") for line in lines if re.match(r"//   (in |out) ", line)]
    ports = re.search(rf"^module {name} \((.*?)^\);", verilog(name), re.MULTILINE | re.DOTALL)
    assert ports is not None
    names = re.findall(r"^  (?:input|output) (?:wire|reg) (?:\[\d+:0\] )?(\w+)", ports[1], re.MULTILINE)
    assert told == names and told[:2] == ["clk", "rst"]


@pytest.mark.parametrize(("own", "compiled"), [(True, 1), (False, 0)])
def test_setup_compiles_the_yosys_that_amaranth_brings_where_it_is_taken(monkeypatch, own, compiled):
    seen = []
    monkeypatch.setattr(yosys, "_module", lambda: seen.append("compiled"))
    monkeypatch.setattr(yosys, "find_yosys", lambda wanted: _BuiltinYosys if own else _SystemYosys)
    yosys.compile_yosys()
    assert len(seen) == compiled
