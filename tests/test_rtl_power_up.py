# amaranth: UnusedElaboratable=no
"""The power-up sequence of DDR4: literal mode registers and waits, played before anything else issues."""

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.power_up import MRS, ZQCL, mode_registers, power_up
from pimloom.arch.system import load_part
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.blocks import BLOCKS
from tests.axi_bench import Host, names, run, table_of

DDR4 = load_part("ddr4_3200").value
SHORT = 16  # a wait is so many times shorter here


def test_the_sequence_is_that_of_the_standard():
    """JESD79-4, 3.3.1: 200 us RESET_n, 500 us CKE low, tXPR, mode registers 3 6 5 4 2 1 0, tMOD, ZQCL, tZQinit."""
    steps = power_up(DDR4)
    assert [(s.reset_n, s.cke) for s in steps[:3]] == [(0, 0), (1, 0), (1, 1)]
    assert all((s.reset_n, s.cke) == (1, 1) for s in steps[3:])
    assert [s.wait_ck * DDR4.tCK_ps for s in steps[:2]] == [200_000_000, 500_000_000]
    assert steps[2].wait_ck == 560 + 16  # tRFC 350 ns and 10 ns at 0.625 ns
    assert [s.register for s in steps if s.command == MRS] == [3, 6, 5, 4, 2, 1, 0]
    assert [s.wait_ck for s in steps[3:]] == [8] * 6 + [24, 1024]
    assert steps[-1].command == ZQCL and steps[-1].value == 0b100_0000_0000  # A10: long


@pytest.mark.parametrize(
    ("part", "mr0", "mr2", "mr6"),
    [
        ("ddr4_3200", 0b00_1101_0101_0000, 5 << 3, 4 << 10),  # CL 22, WR 24, DLL reset; CWL 16; tCCD_L 8
        ("ddr4_2400", 0b00_1001_0011_0100, 3 << 3, 2 << 10),  # CL 16, WR 18, DLL reset; CWL 12; tCCD_L 6
    ],
)
def test_mode_registers_are_those_of_the_latencies(part, mr0, mr2, mr6):
    found = mode_registers(load_part(part).value)
    assert (found[0], found[2], found[6]) == (mr0, mr2, mr6)
    assert (found[1] & 1, found[3], found[4]) == (1, 0, 0)


@pytest.mark.parametrize("phases", [1, 4])
def test_the_core_plays_the_sequence_before_it_closes_rows(phases):
    steps = [step._replace(wait_ck=max(step.wait_ck // 4096, SHORT)) for step in power_up(DDR4)]
    block = SequencerAxi(DDR4, table=table_of(DDR4), phases=phases, steps=steps)
    clocks = sum(-(-step.wait_ck // phases) for step in steps)
    seen = []

    async def drive(host: Host) -> None:
        assert await host.command("ACT", row=3) == 0  # waits
        for _ in range(clocks + 100):
            seen.append(pins(host.ctx, block))
            await host.ctx.tick()

    def pins(ctx, block):
        p = block.power_up
        return tuple(ctx.get(x) for x in (p.reset_n, p.cke, p.mrs, p.zqcl, p.register, p.value))

    trace = run(block, drive)
    assert names(block, trace) == ["PREab", "ACT"]
    assert trace["clock"][0] == clocks * phases
    commands = [(mrs, register, value) for _, _, mrs, zqcl, register, value in seen if mrs or zqcl]
    assert commands == [(int(s.command == MRS), s.register, s.value) for s in steps if s.command]
    assert [reset for reset, *_ in seen] == sorted(reset for reset, *_ in seen)
    assert seen[-1][:4] == (1, 1, 0, 0)


def test_a_part_without_a_public_sequence_says_so():
    with pytest.raises(UserError, match="--power-up core: no public sequence of hbm2_legacy"):
        BLOCKS["sequencer_axi"].build(load_part("hbm2_neupims").value, power_up="core")
    assert BLOCKS["sequencer_axi"].build(DDR4, power_up="core").powering is not None
    with pytest.raises(UserError, match="--power-up me: unknown; known: host"):
        BLOCKS["sequencer_axi"].build(DDR4, power_up="me")


def test_a_latency_without_a_code_is_refused():
    part = load_part("ddr4_3200", {"timing.nCL": "8nCK"}).value
    with pytest.raises(UserError, match="nCL 8 CK has no code in a mode register of DDR4"):
        mode_registers(part)
