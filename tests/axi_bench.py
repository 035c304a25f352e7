# amaranth: UnusedElaboratable=no
"""A host on the AXI4-Lite of a core in Amaranth's simulator, and what issues on its buses."""

from collections.abc import Awaitable, Callable

import numpy as np
from amaranth.sim import Simulator

from pimloom.arch.part import Part
from pimloom.arch.table import Table
from pimloom.cycle_sim.dram.trace import TRACE
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.command import COORDINATES
from pimloom.rtl.controller.registers import OKAY, PLACES, Register
from pimloom.rtl.flow.axi.told import tell
from pimloom.rtl.flow.stimulus import shrink


def table_of(part: Part, banks: tuple[int, int] = (2, 2), **clocks: int) -> Table:
    """The part's table on few banks, with other timings [CK]."""
    own = {name: part.cycles(name) for name in part.timing}
    return tell(part, shrink(part, *banks), own | clocks).part


async def write(ctx, block, address: int, data: int, strobe: int = 0xF) -> int:
    """The response to a write."""
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


async def read(ctx, block, address: int) -> tuple[int, int]:
    """The word and the response of a read."""
    ctx.set(block.s_axi_araddr, address)
    ctx.set(block.s_axi_arvalid, 1)
    ctx.set(block.s_axi_rready, 1)
    await ctx.tick()
    ctx.set(block.s_axi_arvalid, 0)
    assert ctx.get(block.s_axi_rvalid)
    found = ctx.get(block.s_axi_rdata), ctx.get(block.s_axi_rresp)
    await ctx.tick()
    return found


class Host:
    """Writes commands by their names."""

    def __init__(self, ctx, block: SequencerAxi) -> None:
        self.ctx, self.block, self.holds = ctx, block, {Register.COUNT: 1}

    async def put(self, register: Register, value: int) -> int:
        self.holds[register] = value
        return await write(self.ctx, self.block, 4 * register, value)

    async def get(self, register: Register) -> int:
        word, response = await read(self.ctx, self.block, 4 * register)
        assert response == OKAY
        return word

    async def command(self, name: str, row: int = 0, col: int = 0, count: int = 0, **place: int) -> int:
        """The response to a command; only words that change are written before it."""
        wanted = {Register.PLACE: sum(place.get(n, 0) << 8 * i for i, n in enumerate(PLACES))}
        wanted |= {Register.ROW: row, Register.COLUMN: col} | ({Register.COUNT: count} if count else {})
        for register, value in wanted.items():
            if self.holds.get(register, 0) != value:
                assert await self.put(register, value) == OKAY
        return await self.put(Register.COMMAND, self.block.table.cmd(name))

    async def settle(self, most: int = 1000) -> None:
        """Until no command waits; at most so many reads of STATUS."""
        for _ in range(most):
            if not await self.get(Register.STATUS) & 0b110:
                return


def run(
    block: SequencerAxi, drive: Callable[[Host], Awaitable[None]], each_clock: Callable[..., None] = lambda ctx, n: None
) -> np.ndarray:
    """What issues while a host drives the core, as a TRACE in CK. each_clock(ctx, number): what else happens."""
    issued = list[tuple[int, ...]]()
    simulator = Simulator(block)
    simulator.add_clock(1e-6)

    async def watch(ctx) -> None:
        for clock in range(1 << 30):
            each_clock(ctx, clock)
            for phase, bus in enumerate(block.buses):
                if ctx.get(bus.valid):
                    fields = [ctx.get(getattr(bus.command, name)) for name in ("cmd", *COORDINATES, "row")]
                    issued.append((clock * block.phases + phase * (block.phases > 1), *fields))
            await ctx.tick()

    async def host(ctx) -> None:
        await drive(Host(ctx, block))

    simulator.add_testbench(host)
    simulator.add_testbench(watch, background=True)
    simulator.run()
    trace = np.zeros(len(issued), TRACE)
    for i, name in enumerate(("clock", "cmd", *COORDINATES, "row")):
        trace[name] = [row[i] for row in issued]
    return trace


def names(block: SequencerAxi, trace: np.ndarray) -> list[str]:
    """The commands of a trace."""
    return [block.table.names[cmd] for cmd in trace["cmd"]]
