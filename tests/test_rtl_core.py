# amaranth: UnusedElaboratable=no
"""The duties of the command core: ends of GEMVs, closed rows after reset, refresh beside open rows, recovery."""

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.cycle_sim.dram.trace import TRACE
from pimloom.rtl.axi import DEPTH, SequencerAxi
from pimloom.rtl.controller.engine import Engine, gemv_clocks
from pimloom.rtl.controller.moments import without_moments
from pimloom.rtl.controller.phases import PhaseTimer
from pimloom.rtl.controller.registers import OKAY, SLVERR, Interrupt, Register
from pimloom.rtl.flow.axi.host import draw_scripts
from pimloom.rtl.flow.axi.model import mismatches
from pimloom.rtl.flow.axi.phases import late_or_illegal
from pimloom.rtl.flow.axi.verify import SHALLOW, play
from tests.axi_bench import Host, names, run, table_of
from tests.slow import slow

NEUPIMS = load_part("hbm2_neupims").value
NEWTON = load_part("hbm2_neupims", {"pim": "newton"}).value
DDR4 = load_part("ddr4_3200").value
FEW = (1, 2)
BRISK = {"tRFC": 30, "tREFI": 400, "tXS": 40}  # refreshes that a short run meets


async def opened(host: Host) -> None:
    """A row of all banks is open for PIM."""
    for rank in (1, 0):
        assert await host.command("G_ACT", rank=rank) == OKAY


def gemv(count: int, block: SequencerAxi) -> tuple[int, int]:
    """Clocks from a GEMV of so many COMPs to the precharge of its row, and to the next GEMV."""

    async def drive(host: Host) -> None:
        await opened(host)
        for name in (*["PIM_GEMV"] * 12, "PIM_PRECHARGE"):  # so many that tRAS 34 of the row is over
            assert await host.command(name, count=count) == OKAY
        await host.settle()

    trace = run(block, drive)
    at = trace["clock"][-3:]
    assert names(block, trace)[-3:] == ["PIM_GEMV", "PIM_GEMV", "PIM_PRECHARGE"]
    return int(at[2] - at[1]), int(at[1] - at[0])


def short(part=NEUPIMS) -> SequencerAxi:
    return SequencerAxi(part, 2 * DEPTH, table_of(part, FEW))


@pytest.mark.parametrize(
    ("count", "precharge", "again"), [(1, 12 + 5, 12 + 2), (6, 12 + 5, 12 + 2), (16, 32 + 5, 32 + 2)]
)
def test_a_gemv_keeps_its_row_until_its_last_multiplication_is_over(count, precharge, again):
    """nCOMP 2, at least nGEMV 12; then nENDPRE 5 to PIM_PRECHARGE, nCOMP 2 to a GEMV (arch/parts/hbm2_neupims.yaml)."""
    assert gemv(count, short()) == (precharge, again)


def test_a_core_that_forgets_the_end_of_a_gemv_is_caught():
    """By the literal clocks, and by the engine on random streams."""
    block = short()
    forgets = block.moments._replace(ended=frozenset())
    block.sequencer = Engine(forgets, *gemv_clocks(NEUPIMS))
    assert gemv(6, block)[0] == 5  # tRTP from the GEMV on: the row is closed under seven multiplications
    scripts = list(draw_scripts(NEUPIMS, FEW, 60, 1, True))
    for wrong in (False, True):
        block = SequencerAxi(NEUPIMS, SHALLOW, scripts[0].told.part)
        if wrong:
            block.sequencer = Engine(forgets, *gemv_clocks(NEUPIMS))
        seen, _, _ = play(scripts, block, "verilator")
        found = [s for pair in zip(scripts, seen, strict=True) for s in mismatches(*pair, SHALLOW)]
        assert any("PIM_PRECHARGE" in sentence for sentence in found) == bool(found) == wrong


def test_the_first_multiplication_of_each_result_is_told_by_the_core():
    """nTREE 6 from the first COMP, not from the last, to READRES; nBL 2 from the last."""
    block = short(NEWTON)
    assert "COMP_FIRST" in block.table.names

    async def drive(host: Host) -> None:
        assert await host.command("COMP_FIRST") == SLVERR
        await opened(host)
        for comps in (1, 2, 4):
            for _ in range(comps):
                assert await host.command("COMP") == OKAY
            assert await host.command("READRES") == OKAY
            await host.settle()

    trace = run(block, drive)
    told = names(block, trace)
    assert "COMP_FIRST" not in told and told.count("COMP") == 7
    ends = [i for i, name in enumerate(told) if name == "READRES"]
    first = {1: ends[0] - 1, 2: ends[1] - 2, 4: ends[2] - 4}
    for end, (comps, begin) in zip(ends, first.items(), strict=True):
        since_first, since_last = (int(trace["clock"][end] - trace["clock"][at]) for at in (begin, end - 1))
        assert since_first >= 6 and since_last >= 2, comps
    assert check_trace(block.moments.table, trace) == []


@pytest.mark.slow
def test_newtons_core_issues_in_the_engines_clocks():
    scripts = list(draw_scripts(NEWTON, FEW, 500, 1, True))
    seen, _, _ = play(scripts, SequencerAxi(NEWTON, SHALLOW, scripts[0].told.part), "verilator")
    assert [s for pair in zip(scripts, seen, strict=True) for s in mismatches(*pair, SHALLOW)] == []
    cmds = np.concatenate([script.case.streams[0]["cmd"] for script in scripts])
    assert all((cmds == scripts[0].told.table.cmd(name)).any() for name in ("COMP", "COMP_FIRST", "READRES"))


def test_moments_are_no_commands_of_a_host():
    async def drive(host: Host) -> None:
        assert await host.command("GEMV_END") == SLVERR
        assert await host.get(Register.INTERRUPT) == 1 << Interrupt.REFUSED
        await opened(host)
        assert await host.put(Register.COUNT, 0) == OKAY
        assert await host.command("PIM_GEMV") == SLVERR
        assert await host.command("PIM_GEMV", count=1) == OKAY

    trace = run(short(), drive)
    assert len(trace) < 20


def test_reset_leaves_no_row_open():
    """Every bank of both row buffers is closed before the first command of the host, which came first."""
    block = short()

    async def drive(host: Host) -> None:
        assert await host.command("ACT", row=3) == OKAY
        await host.settle()

    told = names(block, run(block, drive))
    ranks, banks = (int(block.table.rules.size[level]) for level in (2, 4))
    assert told == ["PREab"] * ranks + ["PIM_PRECHARGE"] * banks + ["ACT"]


def test_what_can_never_issue_is_refused_and_what_follows_goes_on():
    block = SequencerAxi(DDR4, DEPTH, table_of(DDR4))

    async def drive(host: Host) -> None:
        assert await host.command("RD") == SLVERR  # no row is open
        assert await host.command("ACT", row=5) == OKAY
        assert await host.command("ACT", row=6) == SLVERR  # behind the first, which may still wait
        assert await host.command("RD", row=6) == SLVERR
        assert await host.command("RD", row=5) == OKAY
        assert await host.command("REFab") == SLVERR
        assert await host.command("PREab") == OKAY
        assert await host.command("REFab") == OKAY
        assert await host.command("SRE") == await host.command("SRX") == SLVERR  # the core keeps the part awake
        assert await host.command("RDA", row=5) == SLVERR
        await host.settle()
        assert await host.get(Register.ISSUED) == 4 and await host.get(Register.DROPPED) == 0
        assert await host.get(Register.INTERRUPT) == 1 << Interrupt.REFUSED
        assert not host.ctx.get(block.irq)
        await host.put(Register.ENABLE, 7)
        assert host.ctx.get(block.irq)
        await host.put(Register.INTERRUPT, 1)
        assert not host.ctx.get(block.irq)

    trace = run(block, drive)
    assert names(block, trace) == ["PREab", "ACT", "RD", "PREab", "REFab"]
    assert check_trace(block.table, trace) == []


def test_flush_drops_what_waits_and_keeps_what_issued():
    block = SequencerAxi(DDR4, DEPTH, table_of(DDR4))

    async def drive(host: Host) -> None:
        assert await host.command("ACT", row=5) == OKAY
        for _ in range(8):  # tRAS 52 holds the precharge back, and what follows it
            await host.command("PRE", bank=0)
        await host.command("ACT", row=9, bank=1)
        before = await host.get(Register.ISSUED)
        assert await host.put(Register.CONTROL, 1) == OKAY
        dropped = await host.get(Register.DROPPED)
        assert dropped and await host.get(Register.ISSUED) == before
        assert await host.get(Register.STATUS) & 0b10 == 0
        assert await host.get(Register.INTERRUPT) == 1 << Interrupt.DROPPED
        assert await host.command("ACT", row=9, bank=1) == OKAY  # the row that was never opened
        assert await host.command("RD", row=5) == (OKAY if before == 1 else SLVERR)
        await host.settle()

    trace = run(block, drive)
    assert check_trace(block.table, trace) == []


def starving(block: SequencerAxi) -> tuple[np.ndarray, list[int]]:
    """A host that opens a row and leaves it open, and then accesses it: what issues, and what it is told."""
    told = list[int]()

    async def drive(host: Host) -> None:
        await host.put(Register.ENABLE, 1 << Interrupt.CLOSED)
        assert await host.command("ACT", row=5) == OKAY
        own = False
        while not host.ctx.get(block.irq) and host.ctx.get(block.registers.clock) < 10 * BRISK["tREFI"]:
            await host.ctx.tick()
        for _ in range(4):
            own |= bool(host.ctx.get(block.registers.own))
            await host.ctx.tick()
        told.extend((host.ctx.get(block.irq), own, await host.command("RD", row=5)))
        await host.settle()
        for _ in range(2 * BRISK["tREFI"]):
            await host.ctx.tick()
        told.append(await host.command("ACT", row=5))
        await host.settle()

    return run(block, drive), told


def test_an_open_row_never_starves_refresh():
    """At eight postponed refreshes the core closes all rows and refreshes; then the host is told, and begins again."""
    block = SequencerAxi(DDR4, DEPTH, table_of(DDR4, FEW, **BRISK))
    trace, told = starving(block)
    assert told == [1, True, SLVERR, OKAY]
    assert names(block, trace)[:3] == ["PREab", "ACT", "PREab"]
    assert names(block, trace)[3:11] == ["REFab"] * 8
    assert 8 * BRISK["tREFI"] <= trace["clock"][2] <= trace["clock"][3] < 9 * BRISK["tREFI"]
    assert check_trace(block.table, trace, due_ck=BRISK["tREFI"]) == []


def test_a_core_whose_open_rows_starve_refresh_is_caught():
    block = SequencerAxi(DDR4, DEPTH, table_of(DDR4, FEW, **BRISK))
    elaborate = type(block).elaborate

    class Starving(SequencerAxi):
        def elaborate(self, platform):
            m = elaborate(self, platform)
            m.d.comb += self.closing.start.eq(0)
            return m

    block.__class__ = Starving
    trace, _ = starving(block)
    late = np.append(trace, np.zeros(1, TRACE))
    late[-1] = trace[-1]
    late["clock"][-1] = 10 * BRISK["tREFI"]
    late["cmd"][-1] = block.table.cmd("PREab")
    assert {v.kind for v in check_trace(block.table, late, due_ck=BRISK["tREFI"])} >= {"refresh"}


def test_parts_whose_rows_close_too_slowly_are_refused():
    with pytest.raises(UserError, match="tREFI leaves no time to close open rows: 90 CK"):
        SequencerAxi(DDR4, DEPTH, table_of(DDR4, FEW, tRFC=10, tREFI=90))


def test_a_part_without_moments_keeps_its_table():
    table = table_of(DDR4)
    assert without_moments(table).table is table


@pytest.mark.parametrize(("part", "phases"), [(DDR4, 4), slow(NEUPIMS, 2), slow(NEUPIMS, 4), slow(NEWTON, 4)])
def test_commands_issue_in_their_first_legal_phase(part, phases):
    """Of a clock of several CK, and by no rule too early; one CK more is told."""
    scripts = list(draw_scripts(part, FEW, 100, 1, True, 2 * phases))
    seen, _, _ = play(scripts, SequencerAxi(part, SHALLOW, scripts[0].told.part, phases), "verilator")
    assert [s for pair in zip(scripts, seen, strict=True) for s in late_or_illegal(*pair, phases)] == []
    used = np.bincount(np.concatenate([x.issued[:, 0] for x in seen]) % phases, minlength=phases)
    assert used.all() and used.sum() > 100
    late = seen[0]._replace(issued=seen[0].issued + [1, 0, 0])
    assert any("first legal at CK" in sentence for sentence in late_or_illegal(scripts[0], late, phases))


def test_a_rule_that_a_phase_forgets_is_caught(monkeypatch):
    """A timer that looks at the last CK of a clock as at the first but one."""
    elaborate = PhaseTimer.elaborate

    def wrong(self, platform):
        m = elaborate(self, platform)
        m.d.comb += self.busy.eq(self.late[0])
        return m

    monkeypatch.setattr(PhaseTimer, "elaborate", wrong)
    scripts = list(draw_scripts(DDR4, FEW, 60, 1, True, 8))
    seen, _, _ = play(scripts, SequencerAxi(DDR4, SHALLOW, scripts[0].told.part, 4), "verilator")
    found = [s for pair in zip(scripts, seen, strict=True) for s in late_or_illegal(*pair, 4)]
    assert any("rule" in sentence for sentence in found)


def test_a_core_has_one_two_or_four_phases():
    with pytest.raises(UserError, match="--phases 3: a core has 1, 2 or 4 CK in a clock"):
        SequencerAxi(DDR4, phases=3)
