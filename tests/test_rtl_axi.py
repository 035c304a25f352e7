# amaranth: UnusedElaboratable=no
"""The sequencer behind AXI4-Lite: the map as its words say, commands in the engine's clocks, handshakes that stand."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from amaranth.sim import Simulator

from pimloom.arch.system import list_names, load_part
from pimloom.rtl.axi import DEPTH, OKAY, SLVERR, AxiRegisters, Register, SequencerAxi
from pimloom.rtl.flow.axi.host import draw_scripts, often_refreshed
from pimloom.rtl.flow.axi.model import mismatches
from pimloom.rtl.flow.axi.verify import BANKS, SHALLOW, play
from pimloom.rtl.flow.emit.beside import waivers
from pimloom.rtl.flow.simulator.environment import environment
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.formal.axi import Leaky, Overflowing
from tests.netlists import FEW_BANKS
from tests.netlists import sequencer_axi as verilog
from tests.simulators import needs
from tests.slow import slow

PART = "gddr6_pim_gpt"
ONE = load_part(PART).value


def small() -> SequencerAxi:
    return SequencerAxi(often_refreshed(ONE, BANKS))


def run(block: SequencerAxi, drive) -> None:
    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


async def write(ctx, block: SequencerAxi, address: int, data: int, strobe: int = 0xF) -> int:
    for name, value in {"awaddr": address, "wdata": data, "wstrb": strobe, "awvalid": 1, "wvalid": 1}.items():
        ctx.set(getattr(block, f"s_axi_{name}"), value)
    ctx.set(block.s_axi_bready, 1)
    await ctx.tick()
    ctx.set(block.s_axi_awvalid, 0)
    ctx.set(block.s_axi_wvalid, 0)
    await ctx.tick()
    assert ctx.get(block.s_axi_bvalid)
    response = ctx.get(block.s_axi_bresp)
    await ctx.tick()
    assert not ctx.get(block.s_axi_bvalid)
    return response


async def read(ctx, block: SequencerAxi, address: int) -> tuple[int, int]:
    ctx.set(block.s_axi_araddr, address)
    ctx.set(block.s_axi_arvalid, 1)
    ctx.set(block.s_axi_rready, 1)
    await ctx.tick()
    ctx.set(block.s_axi_arvalid, 0)
    assert ctx.get(block.s_axi_rvalid)
    found = ctx.get(block.s_axi_rdata), ctx.get(block.s_axi_rresp)
    await ctx.tick()
    return found


def test_the_map_is_as_its_words_say() -> None:
    block = small()
    act, rd = (block.table.names.index(name) for name in ("ACT", "RD"))

    async def drive(ctx) -> None:
        assert await read(ctx, block, 0x10) == (DEPTH << 8 | 1, OKAY)  # ready, room
        assert await write(ctx, block, 0x04, 0xAABB0005, 0b0001) == OKAY
        assert await read(ctx, block, 0x04) == (5, OKAY)
        assert await write(ctx, block, 0x04, 0x11223344, 0b0110) == OKAY
        assert await read(ctx, block, 0x04) == (0x223305, OKAY)
        assert await write(ctx, block, 0x0C, act) == SLVERR  # no such row
        assert (await read(ctx, block, 0x10))[0] == DEPTH << 8 | 0b101  # error
        assert await write(ctx, block, 0x10, 4, 0b1110) == OKAY
        assert (await read(ctx, block, 0x10))[0] == DEPTH << 8 | 0b101  # byte 0 was not written
        assert await write(ctx, block, 0x10, 4) == OKAY
        assert (await read(ctx, block, 0x10))[0] == DEPTH << 8 | 1
        assert await write(ctx, block, 0x04, 7) == OKAY
        assert await write(ctx, block, 0x0C, act, 0b1110) == OKAY  # no strobe, no command
        assert (await read(ctx, block, 0x14)) == (0, OKAY)
        assert await write(ctx, block, 0x0C, act) == OKAY
        assert (await read(ctx, block, 0x14)) == (1, OKAY)
        for address in (0x14, 0x18, 0x1C, 0x20, 0x24, 0x80, 0xFFC):
            assert await write(ctx, block, address, 0) == SLVERR
        for address in (0x20, 0x40, 0xFFC):
            assert await read(ctx, block, address) == (0, SLVERR)
        assert await write(ctx, block, 0x0C, len(block.table.names)) == SLVERR  # no such opcode
        assert await write(ctx, block, 0x0E, rd) == OKAY  # the lowest two bits do not matter
        (first, _), (second, _) = await read(ctx, block, 0x1C), await read(ctx, block, 0x1C)
        assert second == first + 2

    run(block, drive)


def test_a_full_queue_refuses_and_a_stuck_one_says_so() -> None:
    block = small()
    rd = block.table.names.index("RD")  # of a bank without an open row

    async def drive(ctx) -> None:
        for _ in range(DEPTH):
            assert await write(ctx, block, 4 * Register.COMMAND, rd) == OKAY
        assert await write(ctx, block, 4 * Register.COMMAND, rd) == SLVERR
        assert await read(ctx, block, 4 * Register.STATUS) == (0b01010, OKAY)  # not ready, busy, no error, stuck
        assert await read(ctx, block, 4 * Register.ISSUED) == (0, OKAY)

    run(block, drive)


def test_no_input_reaches_an_output_in_its_clock() -> None:
    block = AxiRegisters(often_refreshed(ONE, BANKS))
    inputs, outputs = (
        [getattr(block, n) for n, member in block.signature.members.items() if n.startswith("s_axi_") and is_(member)]
        for is_ in (lambda member: member.flow.name == "In", lambda member: member.flow.name == "Out")
    )

    async def drive(ctx) -> None:
        rng = np.random.default_rng(0)
        seen = set()
        for _ in range(300):
            before = None
            for _ in range(3):
                for port in inputs:
                    ctx.set(port, int(rng.integers(1 << min(len(port), 32))) & 0xFFFFFF0F)
                now = [ctx.get(port) for port in outputs]
                assert before in (None, now)
                before = now
            seen.add(tuple(now))
            await ctx.tick()
        assert len(seen) > 20

    run(block, drive)


def scripts_of(part: str, commands: int, seed: int = 1):
    return list(draw_scripts(load_part(part).value, FEW_BANKS, commands, seed, True))


def test_commands_issue_in_the_engines_clocks_and_broken_registers_are_found() -> None:
    """In Verilator; test_rtl_benches.py says that Icarus leaves the same."""
    scripts = scripts_of(PART, 150)
    seen, _, _ = play(scripts, SequencerAxi(scripts[0].case.table, SHALLOW), "verilator", verilog=verilog(PART))
    assert [sentence for pair in zip(scripts, seen, strict=True) for sentence in mismatches(*pair, SHALLOW)] == []
    refused = [[row[5] for row in x.written.tolist()].count(SLVERR) for x in seen]
    again = sum(len(x.written) - len(script.writes) for script, x in zip(scripts, seen, strict=True))
    assert sum(refused) > again > 0  # the queue was full, and other writes were refused
    assert any(script.eager for script in scripts) and not all(script.eager for script in scripts)
    late = seen[0]._replace(issued=seen[0].issued + [1, 0, 0])
    assert "model says" in mismatches(scripts[0], late, SHALLOW)[0]
    wrong = seen[0]._replace(read=seen[0].read + [0, 0, 0, 1, 0])
    assert len(mismatches(scripts[0], wrong, SHALLOW)) == len(scripts[0].reads)


@pytest.mark.slow
@pytest.mark.parametrize("twin", [Overflowing, Leaky])
def test_a_queue_that_loses_commands_is_a_mismatch(twin, monkeypatch) -> None:
    scripts = scripts_of(PART, 100)
    block = SequencerAxi(scripts[0].case.table, SHALLOW)
    block.registers = twin(scripts[0].case.table, SHALLOW)
    monkeypatch.setattr("pimloom.rtl.flow.axi.verify.MOST_CK", 3000)
    seen, _, _ = play(scripts, block, needs("icarus"))
    assert any(mismatches(*pair, SHALLOW) for pair in zip(scripts, seen, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("part", list_names("parts"))
def test_gates_are_the_model_on_every_part(part: str) -> None:
    (found,) = verify("sequencer_axi", part, commands=400, seed=2)
    assert (found.mismatches, found.first_mismatch) == (0, None)
    assert found.commands >= 400 and found.rules_bound > found.rules_total // 4


@pytest.mark.parametrize("part", [PART, *map(slow, [name for name in list_names("parts") if name != PART])])
def test_lint_has_nothing_to_say_but_what_is_waived(part: str, tmp_path: Path) -> None:
    (tmp_path / "axi.v").write_text(verilog(part))
    (tmp_path / "waivers.vlt").write_text(waivers("axi"))
    with environment("verilator"):
        command = ["verilator", "--lint-only", "-Wall", "--top-module", "sequencer_axi", "waivers.vlt", "axi.v"]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "%Warning" not in done.stderr, done.stderr
