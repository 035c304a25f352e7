# amaranth: UnusedElaboratable=no
"""Emitted Verilog: the same every time, equal modules once, nothing of this machine in it."""

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest
from amaranth._toolchain.yosys import _BuiltinYosys, _SystemYosys

from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.rtl import bf16, float32, yosys
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.command import command_layout
from pimloom.rtl.flow.lookup import load_device
from pimloom.rtl.flow.stimulus import shrink
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
    codes = lines[lines.index("// Opcodes (cmd), what each acts on, and the rows that it needs and leaves:") + 1 :]
    assert "//   3 RD: bank, needs open rows" in codes
    assert "//   0 ACT: bank, needs closed rows, leaves them open" in codes
    assert [line.removeprefix("//   ").partition(":")[0].split() for line in codes if line] == [
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


PARAM = re.compile(r"^  localparam (?:\[\d+:0\] )?(\w+) = \d+'d(\d+);$", re.MULTILINE)


def test_opcodes_and_banks_are_localparams_of_the_parts_table():
    """Each opcode that the sequencer compares has its number of the table; each bank its number of the channel."""
    part = msgspec.structs.replace(PART, organization=shrink(PART, 2, 2))
    text = to_verilog(BLOCKS["sequencer"].build(part), "sequencer")
    params = {name: int(value) for name, value in PARAM.findall(text)}
    names = compile_table(part).names
    for opcode, name in enumerate(names):
        assert params[f"CMD_{name}"] == opcode
        assert f"assign head_0_is[CMD_{name}] = heads__0__payload__cmd == CMD_{name};" in text
    banks = {name: value for name, value in params.items() if "BANK" in name}
    assert banks == {"BG0_BANK0": 0, "BG0_BANK1": 1, "BG1_BANK0": 2, "BG1_BANK1": 3}
    assert not re.search(r"cmd [!=]= \d|_is\[\d|_bank\[\d|_bank_group\[\d|payload\[\d+:0\] ==", text)
    assert all(text.count(name) > 1 for name in params)  # none is declared in vain


def test_states_are_localparams_of_the_enumeration():
    text = to_verilog(BLOCKS["interleave"].build(PART), "interleave")
    assert {name: int(value) for name, value in PARAM.findall(text)} == {
        "STAGE_IDLE": 0, "STAGE_A": 1, "STAGE_B": 2, "STAGE_C": 3, "STAGE_E": 4, "STAGE_F": 5,
    }  # fmt: skip
    assert "casez (stage)\n        STAGE_IDLE: stage <= STAGE_A;\n" in text and "if (rst) stage <= STAGE_IDLE;" in text
    assert not re.search(r"stage (<=|==|!=) \d|if \(1'h1\)|^ *3'h\d:", text, re.MULTILINE)


PYTHON = {"asic_math.mul", "asic_math.pairwise", "column_sum"}  # functions that a result is equal to


@pytest.mark.parametrize("name", BLOCKS)
def test_what_stands_above_speaks_of_what_is_there(name):
    """Words in backquotes are ports, fields, constants or parts of the module, or names of the model's functions."""
    part = {"npu_pim_channel": "hbm2_neupims", "ocs_switch": "ocstrx"}.get(name, "gddr6_pim_gpt")
    text = header(BLOCKS[name].build(load_device(part)), name)
    about, _, ports = text.partition("// Ports:")
    constants = about.partition("Constants of this module: ")[2]
    for word in set(re.findall(r"`([^`]+)`", about)) - PYTHON:
        is_there = re.search(rf"\b{word}\b|__{word}\b", ports) or re.search(rf"\b{word} ", constants)
        assert is_there or f"// {word}:" in about or word.endswith(("_bf16", "_sum", ".py")), word
    assert "None" not in about and "Raises" not in about


@pytest.mark.parametrize("name", ["float32_add", "float32_mul"])
def test_no_wire_is_called_zero_that_is_not(name):
    text = verilog(name)
    assert not re.search(r"wire (\w+_)?zeros? = ~?\|", text) and re.search(r"wire (non)?zero = ", text)


@pytest.mark.parametrize(("own", "compiled"), [(True, 1), (False, 0)])
def test_setup_compiles_the_yosys_that_amaranth_brings_where_it_is_taken(monkeypatch, own, compiled):
    seen = []
    monkeypatch.setattr(yosys, "_module", lambda: seen.append("compiled"))
    monkeypatch.setattr(yosys, "find_yosys", lambda wanted: _BuiltinYosys if own else _SystemYosys)
    yosys.compile_yosys()
    assert len(seen) == compiled
