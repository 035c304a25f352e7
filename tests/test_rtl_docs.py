# amaranth: UnusedElaboratable=no
"""The page on gates: its top level runs and prints what the page shows, its tables are those of the code."""

import re
import subprocess
from pathlib import Path

from pimloom.arch.system import load_part
from pimloom.commands.rtl import emitted
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.flow.lookup import build, load_device
from tests.simulators import needs

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "rtl.md").read_text()


def test_the_top_level_prints_what_the_page_shows(tmp_path: Path) -> None:
    needs("icarus")
    shown = re.findall(r"^```text\n(CK 0: .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (line,) = re.findall(r"^iverilog .*", PAGE, re.MULTILINE)
    sources = re.findall(r"examples/rtl/\w+\.v", line)
    emitted("sequencer", "ddr4_3200", str(tmp_path / "near.v"), True, name="near")
    command = ["iverilog", "-g2005", "-o", str(tmp_path / "rows"), *sources, str(tmp_path / "near.v")]
    subprocess.run(command, cwd=ROOT, check=True)
    done = subprocess.run(["vvp", "rows"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.startswith("CK")] == shown[0].splitlines()
    part = load_part("ddr4_3200").value
    for name, clocks in re.findall(r"(t[A-Z]+) = (\d+) CK", PAGE):
        assert part.cycles("tRCDRD" if name == "tRCD" else name) == int(clocks)


def test_the_table_of_blocks_has_every_block_and_its_latency() -> None:
    table = PAGE[PAGE.index("| block | made from") :]
    rows = re.findall(r"^\| (`.*?) \| .*? \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    names = {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert set(names) == set(BLOCKS)
    for name, (group, clock, latency) in names.items():
        domain = {"dram": "dram_ck", "npu": "npu_clk", "asic": "asic_clk", "optics": "optics_clk"}[BLOCKS[name].domain]
        assert clock in (f"`{domain}`", "–")
        if latency == "–":
            continue
        at = re.findall(r"`(\w+)`", group).index(name)
        part = "gddr6_pim_gpt"
        clocks = build(name, part, load_device(part)).latency
        told = f"{clocks(1)} and {clocks(256)}" if callable(clocks) else str(clocks)
        assert latency.split(", ")[min(at, latency.count(", "))] == told, name
