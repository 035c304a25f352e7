# amaranth: UnusedElaboratable=no
"""The sequencer behind AXI4-Lite: the map as its words say, commands in the engine's clocks, handshakes that stand."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from amaranth.sim import Simulator

from pimloom.arch.system import list_names, load_part
from pimloom.rtl.axi import DEPTH, SequencerAxi
from pimloom.rtl.controller.moments import without_moments
from pimloom.rtl.controller.registers import OKAY, SLVERR, AxiRegisters, Register
from pimloom.rtl.flow.axi.host import draw_scripts, often_refreshed
from pimloom.rtl.flow.axi.model import mismatches
from pimloom.rtl.flow.axi.verify import BANKS, SHALLOW, play
from pimloom.rtl.flow.emit.beside import waivers
from pimloom.rtl.flow.simulator.environment import environment
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.formal.axi import Leaky, Overflowing
from tests.axi_bench import Host, read, run, write
from tests.netlists import FEW_BANKS
from tests.netlists import sequencer_axi as verilog
from tests.simulators import needs
from tests.slow import slow

PART = "gddr6_pim_gpt"
ONE = load_part(PART).value


def small() -> SequencerAxi:
    return SequencerAxi(ONE, DEPTH, often_refreshed(ONE, BANKS))


def test_the_map_is_as_its_words_say() -> None:
    block = small()
    act, rd = (block.table.names.index(name) for name in ("ACT", "RD"))
    ready, up = DEPTH << 8 | 1, 1 << 3

    async def drive(host: Host) -> None:
        ctx = host.ctx

        async def at(address: int) -> tuple[int, int]:
            return await read(ctx, block, address)

        async def put(address: int, data: int, strobe: int = 0xF) -> int:
            return await write(ctx, block, address, data, strobe)

        assert await at(0x10) == (ready | 1 << 2, OKAY)  # the core closes all rows
        assert await put(0x04, 0xAABB0005, 0b0001) == OKAY
        assert await at(0x10) == (ready | up, OKAY)
        assert await at(0x04) == (5, OKAY)
        assert await put(0x04, 0x11223344, 0b0110) == OKAY
        assert await at(0x04) == (0x223305, OKAY)
        assert await put(0x0C, act) == SLVERR  # no such row
        assert await at(0x28) == (0b001, OKAY)  # REFUSED
        assert await put(0x28, 1, 0b1110) == OKAY
        assert await at(0x28) == (0b001, OKAY)  # byte 0 was not written
        assert await put(0x28, 1) == OKAY
        assert await at(0x28) == (0, OKAY)
        assert await put(0x04, 7) == OKAY
        assert await put(0x0C, act, 0b1110) == OKAY  # no strobe, no command
        assert await at(0x14) == (0, OKAY)
        assert await put(0x0C, act) == OKAY
        assert await at(0x14) == (1, OKAY)
        for address in (0x10, 0x14, 0x18, 0x1C, 0x30, 0x34, 0x40, 0x80, 0xFFC):
            assert await put(address, 0) == SLVERR
        for address in (0x34, 0x40, 0x80, 0xFFC):
            assert await at(address) == (0, SLVERR)
        assert await put(0x2C, 5) == OKAY
        assert await at(0x2C) == (5, OKAY)
        assert await put(0x20, 5) == OKAY  # no COUNT: this part has no GEMV
        assert await at(0x20) == (0, OKAY)
        assert await put(0x0C, len(block.table.names)) == SLVERR  # no such opcode
        assert await put(0x0E, rd) == OKAY  # the lowest two bits do not matter
        (first, _), (second, _) = await at(0x1C), await at(0x1C)
        assert second == first + 2

    run(block, drive)


def test_a_full_queue_refuses() -> None:
    """A row that was opened keeps its PRE back for tRAS, and what waits behind it."""
    block = small()

    async def drive(host: Host) -> None:
        assert await host.command("ACT") == OKAY
        for _ in range(DEPTH):
            assert await host.command("PRE") == OKAY
        assert await host.command("PRE") == SLVERR
        assert await read(host.ctx, block, 4 * Register.STATUS) == (0b1010, OKAY)  # up, busy, and no room
        assert await read(host.ctx, block, 4 * Register.INTERRUPT) == (0, OKAY)
        assert await read(host.ctx, block, 4 * Register.ISSUED) == (1, OKAY)

    run(block, drive)


def test_no_input_reaches_an_output_in_its_clock() -> None:
    block = AxiRegisters(without_moments(often_refreshed(ONE, BANKS)), DEPTH)
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

    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


def scripts_of(part: str, commands: int, seed: int = 1):
    return list(draw_scripts(load_part(part).value, FEW_BANKS, commands, seed, True))


def test_commands_issue_in_the_engines_clocks_and_broken_registers_are_found() -> None:
    """In Verilator; test_rtl_benches.py says that Icarus leaves the same."""
    scripts = scripts_of(PART, 150, seed=3)
    seen, _, _ = play(scripts, SequencerAxi(ONE, SHALLOW, scripts[0].told.part), "verilator", verilog=verilog(PART))
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
    block = SequencerAxi(ONE, SHALLOW, scripts[0].told.part)
    block.registers = twin(block.moments, SHALLOW)
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
