# amaranth: UnusedElaboratable=no
"""Bursts through a core into a behavioural DRAM and back, in the CK of nCWL and nCL, by a legal trace."""

from random import Random

import msgspec
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.cycle_sim.dram.monitor import check_trace
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.controller.data import BurstPath
from tests.axi_bench import Host, names, run, table_of
from tests.dram_model import Dram
from tests.slow import slow

DDR4 = load_part("ddr4_3200").value
BURST = DDR4.organization.access_bits


def core(phases: int) -> SequencerAxi:
    return SequencerAxi(DDR4, 16, table_of(DDR4, (1, 2)), phases, data=True)


def exchange(block: SequencerAxi, places: list[tuple[int, int]], bursts: list[int]):
    """Bursts are written to (bank, column) of a row, and read in the other order: what came back, and the trace."""
    dram, back, waits = Dram(DDR4, block), list[int](), list(bursts)

    def each_clock(ctx, number: int) -> None:
        ctx.set(block.wdata.valid, bool(waits))
        ctx.set(block.wdata.payload, waits[0] if waits else 0)
        dram.clock(ctx, number)
        if ctx.get(block.rdata.valid):
            back.append(ctx.get(block.rdata.payload))
        if waits and ctx.get(block.wdata.ready):
            waits.pop(0)

    async def drive(host: Host) -> None:
        for bank in (0, 1):
            assert await host.command("ACT", row=5, bank=bank) == 0
        for bank, col in places:
            assert await host.command("WR", row=5, bank=bank, col=col) == 0
        for bank, col in reversed(places):
            assert await host.command("RD", row=5, bank=bank, col=col) == 0
        await host.settle()
        for _ in range(60):
            await host.ctx.tick()

    return run(block, drive, each_clock), back, dram


@pytest.mark.parametrize("phases", [1, 4, slow(2)])
def test_bursts_come_back_as_they_were_written(phases):
    rng, block = Random(phases), core(phases)
    places = [(0, 3), (0, 4), (1, 7), (0, 9)]
    bursts = [rng.getrandbits(BURST) for _ in places]
    trace, back, dram = exchange(block, places, bursts)
    assert back == bursts[::-1] and len(dram.cells) == 4
    told = names(block, trace)
    assert told.count("WR") == told.count("RD") == 4
    assert check_trace(block.table, trace) == []
    writes = [int(ck) for ck, name in zip(trace["clock"], told, strict=True) if name == "WR"]
    assert all(b - a >= 16 + 4 for a, b in zip(writes, writes[1:], strict=False))  # nCWL + nBL: one burst at a time


def test_a_data_path_that_is_a_clock_late_is_caught(monkeypatch):
    monkeypatch.setattr(BurstPath, "elaborate", late(BurstPath.elaborate))
    with pytest.raises(AssertionError, match="a burst goes out that no WR asked for"):
        exchange(core(1), [(0, 3)], [1])


def late(elaborate):
    def wrong(self, platform):
        self.cwl += 1
        return elaborate(self, platform)

    return wrong


def test_a_burst_that_nbl_does_not_divide_is_refused():
    organization = msgspec.structs.replace(DDR4.organization, access_bits=511)
    with pytest.raises(UserError, match="no data path: 511 bits in nBL 4 CK"):
        BurstPath(msgspec.structs.replace(DDR4, organization=organization))
