"""Power of a run: what can be reckoned by hand, the reader of Liberty, and that a wrong cell is seen."""

import json
from pathlib import Path

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.rtl.flow.counted import LIBRARY
from pimloom.rtl.flow.power import estimate as module
from pimloom.rtl.flow.power.estimate import BLOCKS, Power, estimate_power, toggles
from pimloom.rtl.flow.power.liberty import read_library
from pimloom.rtl.flow.power.netlist import netlist, to_verilog
from pimloom.rtl.flow.verified import Verified
from pimloom.rtl.flow.yowasp import ToolError
from tests.command import call

PART = load_part("gddr6_pim_gpt").value
needs_library = pytest.mark.skipif(not LIBRARY.is_file(), reason="qflow-tech-osu018 is not installed")
TABLE = (
    'internal_power() {{ rise_power(t) {{ index_1 ("0, 1"); index_2 ("0, 1"); values ("{0}, {0}", "{1}, {1}"); }} }}'
)
SMALL = f"""/* two cells */ library(small) {{
  leakage_power_unit : "1nW"; capacitive_load_unit (1,pf); nom_voltage : 2;
  cell (INV) {{ area : 1; cell_leakage_power : 3;
    pin(A) {{ direction : input; capacitance : 0.5; }}
    pin(Y) {{ direction : output; function : "(!A)"; {TABLE.format(1, 3)} }} }}
  cell (DFF) {{ area : 4; cell_leakage_power : 5; ff (Q1,Q2) {{ next_state : "D"; clocked_on : "CLK"; }}
    pin(D) {{ direction : input; capacitance : 0.25; }}
    pin(CLK) {{ direction : input; capacitance : 0.125; clock : true;
      internal_power() {{ fall_power(p) {{ index_1 ("0, 1"); values ("2, 2"); }} }} }}
    pin(Q) {{ direction : output; function : "Q1"; }} }}
  cell (LATCH) {{ latch (Q1,Q2) {{ enable : "G"; }} pin(Q) {{ direction : output; function : "Q1"; }} }} }}"""
CELLS = {
    "i": {"type": "INV", "connections": {"A": [2], "Y": [3]}},
    "f": {"type": "DFF", "connections": {"D": [3], "CLK": [4], "Q": [5]}},
}
MODULE = {
    "ports": {name: {"direction": d, "bits": [bit]} for name, d, bit in (("a", "input", 2), ("clk", "input", 4))}
    | {"o": {"direction": "output", "bits": [5]}},
    "cells": CELLS,
    "netnames": {"q": {"bits": [5], "attributes": {"init": "1"}}},
}


def test_the_reader_of_liberty() -> None:
    library = read_library(SMALL)
    assert (list(library.cells), library.volts, library.leakage_nw) == (["INV", "DFF", "LATCH"], 2, 1)
    inverter, flop = library.cells["INV"], library.cells["DFF"]
    assert inverter.pins["A"].capacitance == 0.5 and inverter.state is None and not library.cells["LATCH"].simple
    assert [inverter.pins["Y"].energies[0].at(load, 0.3) for load in (0, 0.5, 1, 9)] == [1, 2, 3, 3]
    assert flop.state == ("D", "CLK", ["Q1", "Q2"]) and flop.pins["CLK"].energies[0].at(7.0, 0.1) == 2
    with pytest.raises(ToolError, match="library small: power is for libraries whose loads are in pF"):
        read_library(SMALL.replace("1,pf", "1,ff"))


@needs_library
def test_the_real_library_is_read() -> None:
    library = read_library(LIBRARY.read_text())
    nand = library.cells["NAND2X1"]
    assert (library.volts, nand.pins["A"].capacitance, nand.leakage) == (1.8, 0.0125, 0.0393659)
    assert nand.pins["Y"].function == "(!(A B))" and len(nand.pins["Y"].energies) == 2
    at = nand.pins["Y"].energies[0].at(0.005, 0.06)
    assert at == pytest.approx((0.010032 + 0.044515) / 2)  # fall and rise power, first of their tables


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("(!(A B))", lambda a, b, c: not (a and b)),
        ("(!((A B)+C))", lambda a, b, c: not (a and b or c)),
        ("(A^B)", lambda a, b, c: a != b),
        ("((A B')+(A' B))", lambda a, b, c: a != b),
        ("!A + B*C'", lambda a, b, c: not a or b and not c),
        ("(A B)' C", lambda a, b, c: not (a and b) and c),
    ],
)
def test_functions_of_liberty_in_verilog(function, says) -> None:
    text = to_verilog(function, {"A": "a", "B": "b", "C": "c"}).replace("~", "1 ^ ")
    for case in np.ndindex(2, 2, 2):
        values = dict(zip("abc", case, strict=True))
        plain = text.replace("1 ^ (", "1 ^ (")
        assert bool(_eval(plain, values)) == bool(says(*map(bool, case))), (function, case)


def _eval(text: str, values: dict[str, int]) -> int:
    """Verilog's one-bit expressions in Python: `1 ^ x` binds too weakly, so nots become calls."""
    out, i = "", 0
    while i < len(text):
        if text.startswith("1 ^ ", i):
            end = i + 4
            if text[end] == "(":
                depth = 0
                for j in range(end, len(text)):
                    depth += (text[j] == "(") - (text[j] == ")")
                    if not depth:
                        break
                inner, nxt = text[end : j + 1], j + 1
            else:
                nxt = end + 1
                inner = text[end:nxt]
            out += str(1 - _eval(inner, values))
            i = nxt
        else:
            out += text[i]
            i += 1
    return eval(out, {"__builtins__": {}}, values)


def test_a_netlist_is_verilog_with_the_same_ports() -> None:
    made = netlist(MODULE, "top", read_library(SMALL))
    lines = [line.strip() for line in made.verilog.splitlines()]
    assert lines[:3] == ["module top(a, clk, o);", "input a;", "wire a;"]
    bare = {line.replace("(", "").replace(")", "") for line in lines}
    assert {"reg n5 = 1'b1;", "wire n3;", "assign n3 = ~n2;", "assign o = n5;"} <= bare
    assert "always @(posedge n4) n5 <= (n3); // n5" in lines
    assert made.sinks == {2: [("INV", "A")], 3: [("DFF", "D")], 4: [("DFF", "CLK")]} and made.drivers[3] == ("INV", "Y")
    for kind, said in (("LATCH", "whose state is not simulated here"), ("memory_input", "holds memories")):
        cells = {"x": {"type": kind, "connections": {"Q": [9]}}}
        with pytest.raises(UserError, match=said):
            netlist({**MODULE, "cells": cells}, "top", read_library(SMALL))


def test_changes_are_counted_without_the_first_values(tmp_path: Path) -> None:
    file = tmp_path / "run.vcd"
    head = "$var wire 1 ! n2 $end\n$var wire 1 # n3 $end\n$var wire 8 % bus $end\n$enddefinitions $end\n"
    file.write_text(head + "#0\n0!\n1#\nb00000000 %\n#1\n1!\nb00000001 %\n#2\n0!\n0#\n#3\n1!")
    assert toggles(file) == {"n2": 3, "n3": 1}


def test_power_that_a_hand_can_reckon() -> None:
    library = read_library(SMALL)
    run = Verified("x", "p", "verilator", 5, 0, 0, 0, {}, 99, 1.0)
    changes = {"n2": 10, "n3": 10, "n4": 40, "n5": 4}
    found = module._power("x", "p", netlist(MODULE, "top", library), library, changes, run, 50.0)
    charge = (10 * 0.5 + 10 * 0.25 + 40 * 0.125) * 2**2 / 2  # pJ in the run, C V2 / 2 each
    inside = 10 * 1.5 + 40 * 2  # the inverter with its load of 0.25 pF, and the clock's pin
    assert found.clocks == 20 and found.cells == 2 and found.leakage_mw == pytest.approx(8e-6)
    assert found.switching_mw == pytest.approx(charge / 20 * 50e6 * 1e-12 * 1e3)
    assert found.internal_mw == pytest.approx(inside / 20 * 50e6 * 1e-12 * 1e3)
    assert found.power_mw == pytest.approx(found.switching_mw + found.internal_mw + found.leakage_mw)
    assert found.energy_per_operation_nj == pytest.approx((charge + inside) / 5 / 1000)
    assert found.activity == pytest.approx(24 / 3 / 20)


def test_the_command_shows_the_power_and_fails_with_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Power("bf16_mul", "gddr6_pim_gpt", "osu018", 577, 500, 500, 0, None, 0.3, 10.0, 1.25, 1.0, 4e-5, 2.25, 0.0225)
    asked: list[dict[str, object]] = []

    def fake(*given: object, **options: object) -> Power:
        asked.append(options)
        return row

    monkeypatch.setattr(module, "estimate_power", fake)
    done = call("rtl", "power", "bf16_mul", "--clock-mhz", "10", "--commands", "7")
    assert done.code == 0 and "at 10 MHz" in done.out and "0.0225" in done.out and "mismatches: 0" in done.out
    assert (asked[0]["clock_mhz"], asked[0]["commands"], asked[0]["seed"]) == (10, 7, 0)
    found = json.loads(call("rtl", "power", "bf16_mul", "--json", "-").out)
    assert found["rows"] == [row._asdict()] and found["seed"] == 0 and found["part"] == "gddr6_pim_gpt"
    monkeypatch.setattr(module, "estimate_power", lambda *a, **b: row._replace(mismatches=3, first_mismatch="o is 1"))
    code, out, err = call("rtl", "power", "bf16_mul")
    assert code == 1 and "first mismatch: o is 1" in out and "3 in bf16_mul" in err


def test_what_cannot_be_estimated_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for block in ("asic_softmax", "npu_gemm", "ocs_switch"):
        code, out, err = call("rtl", "power", block)
        assert code == 2 and not out and err.count("\n") == 1
        assert err.startswith(f"pimloom: {block}: has memories, or no bench of its own as it is mapped; power of: ")
    assert call("rtl", "power", "bf16_mul", "--rows", "8").code == 2
    monkeypatch.setattr(module, "LIBRARY", Path("/nowhere/cells.lib"))
    assert call("rtl", "power", "bf16_mul").err.startswith("pimloom: /nowhere/cells.lib is missing")


@needs_library
@pytest.mark.slow
@pytest.mark.parametrize("block", ["bf16_mul", "timer", "interleave", "npu_tiles"])
def test_the_cells_give_the_models_results(block: str) -> None:
    found = estimate_power(block, "gddr6_pim_gpt", PART, commands=100, seed=1)
    assert found.mismatches == 0 and found.power_mw > 0 and 0 < found.activity < 1 and block in BLOCKS
    twice = estimate_power(block, "gddr6_pim_gpt", PART, commands=100, seed=1, clock_mhz=200.0)
    assert twice.switching_mw == pytest.approx(2 * found.switching_mw) and twice.leakage_mw == found.leakage_mw
    assert twice.energy_per_operation_nj == found.energy_per_operation_nj


@needs_library
@pytest.mark.slow
def test_a_cell_with_another_function_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(text: str):
        return read_library(text.replace('function : "(!(A+B))"', 'function : "(!(A B))"'))

    monkeypatch.setattr(module, "read_library", wrong)
    found = estimate_power("bf16_mul", "gddr6_pim_gpt", PART, commands=100, seed=1)
    assert found.mismatches > 0 and found.first_mismatch
