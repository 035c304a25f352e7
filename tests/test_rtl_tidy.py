# amaranth: UnusedElaboratable=no
"""Verilog that reads: no made-up names, a half of the lines, clean under lint, and equal to what Yosys alone writes."""

import os
import re
import subprocess
from collections import Counter
from functools import cache
from operator import le
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import Component, In, Out

from pimloom.arch.part import Part
from pimloom.arch.system import load_part
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.emit.beside import waivers
from pimloom.rtl.flow.equal import few_banks, is_equal
from pimloom.rtl.flow.simulator.environment import environment
from pimloom.rtl.flow.stimulus import shrink
from pimloom.rtl.flow.yowasp import YOSYS, tools
from pimloom.rtl.npu_pim.banks.dot_unit import DualRowBank
from pimloom.rtl.verilog import to_raw_verilog, to_verilog
from tests.simulators import needs
from tests.slow import slow
from verilog_tidy import Unreadable, tidy
from verilog_tidy.expression import show
from verilog_tidy.module import Module as Netlist
from verilog_tidy.module import Process, Set
from verilog_tidy.names import name_all
from verilog_tidy.read import parse, read
from verilog_tidy.registers import anonymous

PART, NEUPIMS = load_part("gddr6_pim_gpt").value, load_part("hbm2_neupims").value
assert PART.pim_unit is not None
FEW_LANES = msgspec.structs.replace(PART, pim_unit=msgspec.structs.replace(PART.pim_unit, lanes=4))
QUICK = ("timer", "float32_add", "bf16_tree", "ocs_switch")
ALL = [name for name in BLOCKS if name not in ("pim_channel", "npu_pim_channel")]  # parts of one; the other: below
MADE_UP = re.compile(r"\$(?!signed\b|clog2\b)|\\")


class Widths(wiring.Component):
    """Every way in which a folded expression could be worked out at another width."""

    def __init__(self) -> None:
        super().__init__({"a": In(4), "b": In(4), "s": In(2), **{f"o{i}": Out(8) for i in range(9)}})

    def elaborate(self, platform: object) -> Module:
        m, a, b, s = Module(), self.a, self.b, self.s
        outs = [
            (a + b) + 1, (a + b)[:4] + b, (a - b)[:4] + a, Mux(s[0], a - b, b)[:4] + 1, ~a + b,
            Cat((a + b)[4], (a - b)[:3]), (a.as_signed() < b.as_signed()) + (a * b)[3:6],
            (a.as_signed() + b.as_signed()) - s, ((a << s) >> 1) + ((a + b)[:4] == b),
        ]  # fmt: skip
        m.d.comb += [getattr(self, f"o{i}").eq(out) for i, out in enumerate(outs)]
        return m


def equal(component: Component, verilog: str, folder: Path, name: str = "top") -> bool:
    """Whether Yosys proves the text to be the component's netlist."""
    with tools(names=(YOSYS,)) as at_hand:
        return is_equal(at_hand, component, verilog, name, folder)


def built(name: str) -> Component:
    part = NEUPIMS if name.startswith("npu_pim_") else FEW_LANES if name == "bf16_tree" else PART
    return BLOCKS[name].build(part)


@cache
def texts(name: str) -> tuple[str, str]:
    """Of a block: what we write, and what Yosys alone does."""
    return to_verilog(built(name), name), to_raw_verilog(built(name), name)


@pytest.mark.parametrize("name", QUICK)
def test_no_name_is_made_up_and_the_text_is_half_as_long(name: str) -> None:
    text, raw = texts(name)
    assert not MADE_UP.search(text)
    assert 2 * text.count("\n") < raw.count("\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALL if name not in QUICK])
def test_no_name_is_made_up_in_any_block(name: str) -> None:
    test_no_name_is_made_up_and_the_text_is_half_as_long(name)


@pytest.mark.parametrize("name", ["timer", "float32_add", "ocs_switch", "npu_tiles"])
def test_it_is_proved_to_be_the_netlist(name: str, tmp_path: Path) -> None:
    assert equal(built(name), texts(name)[0], tmp_path, name)


@pytest.mark.parametrize("part", ["ddr4_3200", slow("hbm2_neupims"), slow("gddr6_aim_isr")])
def test_the_text_of_a_sequencer_is_proved_and_one_whose_fourth_counter_is_off_is_none(
    part: str, tmp_path: Path
) -> None:
    device = few_banks(load_part(part).value)
    text = to_verilog(BLOCKS["sequencer"].build(device), "sequencer")
    off, times = re.subn(r"busy\[3\] = \|left_3", "busy[3] = 1'h0", text, count=1)
    assert times and equal(BLOCKS["sequencer"].build(device), text, tmp_path, "sequencer")
    assert not equal(BLOCKS["sequencer"].build(device), off, tmp_path, "sequencer")


def test_widths_stay_and_a_wrong_one_is_found(tmp_path: Path) -> None:
    text = to_verilog(Widths(), "top")
    assert equal(Widths(), text, tmp_path)
    wrong = text.replace(" + ", " - ", 1)
    assert wrong != text and not equal(Widths(), wrong, tmp_path)


@pytest.mark.parametrize("name", [*QUICK, slow("asic_rsqrt")])
def test_lint_has_nothing_to_say_but_what_is_waived(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.v").write_text(texts(name)[0])
    (tmp_path / "waivers.vlt").write_text(waivers(name))
    with environment("verilator"):
        command = ["verilator", "--lint-only", "-Wall", "--top-module", name, "waivers.vlt", f"{name}.v"]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "%Warning" not in done.stderr, done.stderr


def test_a_truncation_in_a_file_of_the_users_own_still_warns(tmp_path: Path) -> None:
    """Waivers are of the block's file: beside it, and in a folder of its own."""
    own = "module own (input [3:0] a, output [1:0] b);\n  timer t (.a(a), .b(b));\nendmodule\n"
    block = "module timer (input [3:0] a, output [1:0] b);\n  assign b = a;\nendmodule\n"
    (tmp_path / "ip").mkdir()
    (tmp_path / "ip" / "timer.v").write_text(block)
    (tmp_path / "timer.vlt").write_text(waivers("timer"))
    for text, warns in ((own, False), (own.replace("endmodule", "  wire [1:0] c = a;\nendmodule"), True)):
        (tmp_path / "own_timer.v").write_text(text)
        with environment("verilator"):
            command = ["verilator", "--lint-only", "-Wall", "-Wno-DECLFILENAME", "-Wno-UNUSEDSIGNAL", "timer.vlt",
                       "own_timer.v", "ip/timer.v"]  # fmt: skip
            done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
        assert ("%Warning-WIDTHTRUNC: own_timer.v" in done.stderr) == warns, done.stderr
        assert "ip/timer.v" not in done.stderr


def test_a_block_within_a_block_is_read() -> None:
    text = """module m (a, b);
  input a;
  output b;
  reg b;
  always @* begin
    b = 1'h0;
    begin
      begin
        b = a;
      end
    end
  end
endmodule"""
    (process,) = read(text).items
    assert isinstance(process, Process)
    assert [show(step.value) for step in process.body if isinstance(step, Set)] == ["1'h0", "a"]


def test_names_are_those_of_the_source() -> None:
    text = to_verilog(BLOCKS["timer"].build(PART), "timer")
    assert re.search(r"wire \[2:0\] lower_\d = \(left_\d == 3'h0\) \? 3'h0 : \(left_\d - 3'h1\);", text)


@pytest.mark.parametrize(
    ("text", "again"),
    [
        (r"\$1  ? 4'h0 : \$2 [3:0]", r"\$1  ? 4'h0 : \$2 [3:0]"),
        ("a & (b & c)", "a & b & c"),
        ("(a + b) - c", "(a + b) - c"),
        ("| (~ { a, b })", "|(~{a, b})"),
        ("~ (| a)", "~|a"),
        ("a - (b - c)", "a - (b - c)"),
        ("{ a, a, a, b[1] }", "{{3{a}}, b[1]}"),
    ],
)
def test_expressions_are_read_and_written(text: str, again: str) -> None:
    assert show(parse(text)) == again


# As Yosys writes a counter: its next value a wire, the register a process beside it; and a module around it.
COUNTER = """module \\top.count (clk, rst, en, n);
  input clk;
  wire clk;
  input en;
  wire en;
  output [3:0] n;
  reg [3:0] n = 4'h0;
  input rst;
  wire rst;
  reg [3:0] \\n$next ;
  wire [3:0] _0_;
  assign _0_ = n + 4'h1;
  always @* begin
    \\n$next  = n;
    if (en) begin
      \\n$next  = _0_;
    end
  end
  always @(posedge clk)
    n <= \\n$next ;
endmodule
module top (en, rst, n, clk);
  input clk;
  wire clk;
  input en;
  wire en;
  output [3:0] n;
  wire [3:0] n;
  input rst;
  wire rst;
  \\top.count  count_0 (
    .clk(clk),
    .en(en),
    .n(n),
    .rst(rst)
  );
endmodule
"""


def test_a_counter_is_one_register_under_the_names_of_the_caller() -> None:
    """Without pimloom: a text that Yosys writes, and what an engineer writes of it."""
    found = tidy(COUNTER, "top", prefix="my_", ports=["n", "en"], notes={"count": "counts (from 0)"})
    inner, outer = found.split("\n\n")
    assert inner.startswith("module my_count (") and outer.startswith("module top (")
    assert "next" not in found and "_0_" not in found and "n + 4'h1" in inner and inner.count("always") == 1
    assert re.findall(r"(\w+),?\n", outer.partition(");")[0]) == ["clk", "rst", "n", "en"]
    assert "// counts (from 0)" in outer and "my_count count_0 (" in outer


def test_what_tidy_refuses() -> None:
    with pytest.raises(ValueError, match="no module other"):
        tidy(COUNTER, "other")
    for construct in ("assign _0_ = n[en +: 2];", "wait (en);"):
        with pytest.raises(Unreadable):
            tidy(COUNTER.replace("assign _0_ = n + 4'h1;", construct), "top")


def test_names_of_values_are_those_of_the_caller() -> None:
    text = COUNTER.replace("if (en)", "if (n == 4'h2)")
    asked = []

    def values(name: str, bits: int) -> dict[int, str] | None:
        asked.append((name, bits))
        return {0: "N_IDLE", 2: "N_RUN"} if name == "n" else None

    found = tidy(text, "top", values=values)
    assert {("n", 4), ("n$next", 4), ("en", 1)} <= set(asked)
    assert "localparam [3:0] N_RUN = 4'd2;" in found and "n == N_RUN" in found


Counts = tuple[int, int, int]
ALL_BANKS = (NEUPIMS.organization.bank_groups, NEUPIMS.organization.banks_per_group)
NAMES = [  # of the Verilog of a block with so many banks: names that the source does not have, and lines, at most
    ("sequencer_axi", (1, 1), (0, 30, 1346)),
    ("npu_gemm", (1, 1), (16, 60, 779)),
    slow("sequencer", (2, 2), (0, 43, 1471)),
    slow("sequencer_axi", (2, 2), (0, 34, 1778)),
    slow("npu_pim_channel", (2, 2), (81, 595, 4588)),
    slow("sequencer", ALL_BANKS, (0, 49, 2858)),
]


def made_up(block: str, part: Part) -> Counts:
    """Registers that the source does not name, wires that are told apart by a number alone, lines."""
    registers, numbered = list[str](), list[str]()

    def spy(m: Netlist) -> dict[str, str]:
        without = {name: wire.kind for name, wire in m.wires.items() if anonymous(name)}
        names = name_all(m)
        words = Counter(re.sub(r"_\d+$", "", names[name]) for name in without)
        registers.extend(names[name] for name, kind in without.items() if kind == "reg")
        numbered.extend(names[name] for name in without if words[re.sub(r"_\d+$", "", names[name])] > 1)
        return names

    with patch("verilog_tidy.design.name_all", spy):
        text = to_verilog(BLOCKS[block].build(part), block)
    assert not MADE_UP.search(text)
    return len(registers), len(numbered), text.count("\n")


@pytest.mark.parametrize(("block", "banks", "most"), NAMES)
def test_names_that_the_source_does_not_have_grow_no_more(block: str, banks: tuple[int, int], most: Counts) -> None:
    found = made_up(block, msgspec.structs.replace(NEUPIMS, organization=shrink(NEUPIMS, *banks)))
    assert all(map(le, found, most)), f"{block}: {found} registers, wires, lines, at most {most}"


BENCH = """module bench;
  reg clk = 0, write = 0;
  reg [2:0] row = 0;
  reg [1:0] col = 0;
  reg [15:0] i = 16'habcd;
  wire [15:0] mem, pim;
  bank under_test (.clk(clk), .rst(1'b0), .mem_row(row), .pim_row(3'h5), .mem_col(col), .pim_col(2'h1),
    .write(write), .i(i), .mem(mem), .pim(pim));
  initial begin
    #1 $display("%h %h", mem, pim);
    #1 clk = 1; #1 $display("%h %h", mem, pim);
    clk = 0; row = 5; col = 1; write = 1;
    #1 clk = 1; #1 clk = 0; write = 0;
    #1 clk = 1; #1 $display("%h %h", mem, pim);
  end
endmodule
"""


def test_memories_and_their_read_ports_begin_with_zeros_in_a_simulator_with_x(tmp_path: Path) -> None:
    """A port is called like the usual loop variable. Nothing, a word that nobody wrote, one that was written."""
    needs("icarus")
    (tmp_path / "bank.v").write_text(to_verilog(DualRowBank(8, 4, 16), "bank") + BENCH)
    command = ["iverilog", "-g2005", "-o", "bank.vvp", "bank.v"]
    for words in (command, ["vvp", "bank.vvp"]):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["0000"] * 4 + ["abcd"] * 2
