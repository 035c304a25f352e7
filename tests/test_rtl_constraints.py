# amaranth: UnusedElaboratable=no
"""Emitted constraints: the clock of the block's own domain, and every port bound, as a timing analyser reads them."""

import re
import shutil
import subprocess
from itertools import cycle
from pathlib import Path

import pytest
from amaranth.lib.wiring import Flow

from pimloom.arch.system import load_part
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.flow.counted import LIBRARY
from pimloom.rtl.flow.emit.constraints import clock_of, constraints
from pimloom.rtl.flow.emit.design import CLOCKED, Design, design

SMALL = {"rows": 2, "columns": 2}
CASES = [  # block, part, sizes, --clock-mhz; name of the clock, period [ns]
    ("timer", "gddr6_pim_gpt", {}, None, "dram_ck", 0.5),  # tCK of 16 Gb/s GDDR6: 2 GHz
    ("timer", "hbm3_6400", {}, None, "dram_ck", 0.625),  # 1.6 GHz
    ("systolic", "gddr6_pim_gpt", SMALL, None, "npu_clk", 1),  # NeuPIMs: 1 GHz, whatever the memory
    ("systolic", "hbm3_6400", SMALL, 250.0, "npu_clk", 4),
    ("npu_tiles", "gddr6_pim_gpt", SMALL, None, "npu_clk", 1),
    ("interleave", "gddr6_pim_gpt", {}, None, "npu_clk", 1),
    ("asic_rsqrt", "gddr6_pim_gpt", {}, None, "asic_clk", 1),  # PIM-GPT's ASIC: 1 GHz
    ("float32_add", "gddr6_pim_gpt", {}, None, "asic_clk", 1),
    ("ocs_switch", "ocstrx", {}, None, "optics_clk", 100),  # 10 MHz
]


def netlist(made: Design) -> str:
    """A module with the block's ports and a cell at each bit of them, in the place of the synthesised block."""
    bits = {
        flow: [f"{name}[{i}]" if n > 1 else name for name, n in made.ports(flow).items() for i in range(n)]
        for flow in (Flow.In, Flow.Out)
    }
    inputs = [name for name in bits[Flow.In] if name != "clk"]
    pairs = list(zip(cycle(inputs), bits[Flow.Out], strict=False))
    pairs += [(name, f"n{i}") for i, name in enumerate(inputs[len(pairs) :])] if made.clocked else []
    cell = "DFFPOSX1 u{} (.CLK(clk), .D({}), .Q({}));" if made.clocked else "BUFX2 u{} (.A({}), .Y({}));"
    heads = [
        f"{'input' if flow is Flow.In else 'output'} {f'[{n - 1}:0] ' if n > 1 else ''}{name};"
        for flow in (Flow.In, Flow.Out)
        for name, n in made.ports(flow).items()
    ]
    cells = [cell.format(i, *pair) for i, pair in enumerate(pairs)]
    return "\n".join([f"module {made.top} ({', '.join(made.ports())});", *heads, *cells, "endmodule", ""])


def analyse(folder: Path, made: Design, sdc: str) -> str:
    """What OpenSTA says of the constraints: its warnings, errors, and the clocks."""
    (folder / "net.v").write_text(netlist(made))
    (folder / "top.sdc").write_text(sdc)
    steps = [f"read_liberty {LIBRARY}", "read_verilog net.v", f"link_design {made.top}", "read_sdc top.sdc"]
    steps += ["check_setup -verbose", "report_clock_properties", "report_checks -path_delay max", "exit"]
    (folder / "run.tcl").write_text("\n".join(steps) + "\n")
    command = ["sta", "-no_init", "-exit", "run.tcl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[3]}")
def test_the_clock_is_that_of_the_blocks_own_domain(case, tmp_path: Path) -> None:
    block, part, sizes, mhz, name, period = case
    made = design(block, part, sizes, clock_mhz=mhz)
    clock, sdc = clock_of(made), constraints(made)
    assert (clock.name, clock.period_ps) == (name, period * 1000)
    assert clock.source in sdc and ("example" in clock.source) == (name in ("npu_clk", "asic_clk") and mhz is None)
    at = " [get_ports {clk}]" if made.clocked else ""  # without a flip-flop the clock is that of those outside
    assert f"create_clock -name {name} -period {period:g}{at}\n" in sdc


@pytest.mark.parametrize(
    ("phases", "mhz", "period_ps", "source"),
    [
        (1, None, 833, "tCK of ddr4_2400"),  # JESD79-4: tCK(avg) 0.833 ns of DDR4-2400
        (2, None, 1666, "2 x tCK of ddr4_2400"),
        (4, None, 3332, "4 x tCK of ddr4_2400"),
        (4, 200.0, 5000, "--clock-mhz 200"),
    ],
)
def test_a_clock_of_a_core_lasts_as_many_ck_as_it_has_phases(phases, mhz, period_ps, source) -> None:
    part = load_part("ddr4_2400").value
    component = SequencerAxi(part, phases=phases)
    made = Design("sequencer_axi", "core", component, part, "ddr4_2400", {"phases": phases}, CLOCKED, mhz)
    assert clock_of(made) == ("dram_ck", period_ps, source)
    assert f"dram_ck: {period_ps / 1000:g} ns ({source})\ncreate_clock -name dram_ck -period {period_ps / 1000:g} " in (
        constraints(made)
    )


@pytest.mark.parametrize("block", ["timer", "systolic", "ocs_switch", "float32_add"])
def test_a_timing_analyser_reads_them_and_finds_every_port_bound(block: str, tmp_path: Path) -> None:
    """A netlist of the same ports: no port is left out, and one that is left out is found."""
    if shutil.which("sta") is None or not LIBRARY.exists():
        pytest.skip("OpenSTA or its cells are not installed (apt-get install opensta qflow-tech-osu018)")
    case = next(case for case in CASES if case[0] == block)
    made = design(block, case[1], case[2], name="top_of_mine")
    sdc = constraints(made)
    said = analyse(tmp_path, made, sdc)
    assert not re.search(r"warning|error|not found|no path", said, re.IGNORECASE), said
    assert "data arrival time" in said and re.search(rf"^{case[4]} ", said, re.MULTILINE), said
    for left_out in ("set_input_delay", "set_output_delay", "create_clock"):
        broken = "\n".join(line for line in sdc.splitlines() if not line.startswith(left_out))
        assert re.search(r"Warning|Error", analyse(tmp_path, made, broken)), left_out
