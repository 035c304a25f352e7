# amaranth: UnusedElaboratable=no
"""Emitted Verilog: the same every time, equal modules once, nothing of this machine in it."""

import re
from pathlib import Path

import pytest

from pimloom.arch.system import load_part
from pimloom.rtl import bf16, float32
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.emit import to_verilog

PART = load_part("gddr6_pim_gpt").value
SMALL = ("timer", "float32_add", "pim_unit", "asic_exp")


def modules(text: str) -> list[str]:
    return re.findall(r"^module ([^\s(]+)", text, re.MULTILINE)


def uses(text: str) -> list[str]:
    return re.findall(r"^  (\\\S+)  \S+ +\($", text, re.MULTILINE)


def test_equal_modules_are_written_once():
    text = to_verilog(bf16.Tree(16), "tree")
    assert len(uses(text)) == 15
    assert sorted(set(uses(text)) | {"tree"}) == sorted(modules(text))
    assert len(modules(text)) <= 4  # operands side by side in one wire are one port, others two


@pytest.mark.parametrize("name", SMALL)
def test_every_module_in_use_is_there_and_every_other_is_the_top(name):
    text = to_verilog(BLOCKS[name].build(PART), name)
    assert sorted({*uses(text), name}) == sorted(modules(text))
    assert len(set(modules(text))) == len(modules(text))


def test_the_same_text_every_time_and_no_paths():
    text = to_verilog(float32.Add(), "adder")
    assert text == to_verilog(float32.Add(), "adder")
    assert str(Path(float32.__file__).parent) not in text and "src =" not in text
