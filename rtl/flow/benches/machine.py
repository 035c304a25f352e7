"""Starts the machine of an NPU and PIM channels once, watches it until it is done, and reads its scratchpad.

given: layers; start: the clock of the start; most: clocks after which it should be done; words: of the scratchpad;
width: bytes of one; channels. Left: stages int64[n, 3] (first clock, stage, turn), dones int64[m, 2] (clock, 0: NPU,
1: PIM), commands int64[k, 3] (clock, channel, command), busy int64[units]: clocks in which each was at work; done: the
clock; scratchpad uint8[words, width]; cycles; seconds.
"""

import time
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl.flow.exchange import given, leave


class Seen:
    """What was seen at the ports."""

    def __init__(self, dut: Any, channels: int) -> None:
        self.dut, self.stage = dut, (0, 0)
        self.buses = [(getattr(dut, f"bus__{c}__valid"), getattr(dut, f"bus__{c}__command")) for c in range(channels)]
        self.stages, self.dones, self.commands = list[Any](), list[Any](), list[Any]()
        self.busy = [0] * len(dut.busy)
        self.turn = getattr(dut, "turn", None)  # a port without bits is not there

    def look(self, clock: int) -> None:
        stage = int(self.dut.stage.value), 0 if self.turn is None else int(self.turn.value)
        if stage != self.stage:
            self.stages.append((clock, *stage))
            self.stage = stage
        for c, (valid, command) in enumerate(self.buses):
            if valid.value:
                self.commands.append((clock, c, int(command.value)))
        for which, bit in enumerate((self.dut.npu_done, self.dut.pim_done)):
            if bit.value:
                self.dones.append((clock, which))
        for i in range(len(self.busy)) if (busy := int(self.dut.busy.value)) else ():
            self.busy[i] += busy >> i & 1


@cocotb.test()
async def run(dut: Any) -> None:
    """Once."""
    g = given()
    Clock(dut.clk, 2, unit="step").start()
    dut.start.value = dut.layers.value = dut.host__at.value = 0
    dut.rst.value = 1
    await FallingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    seen, clock, done, begun = Seen(dut, int(g["channels"])), 0, -1, time.perf_counter()
    while done < 0:
        dut.start.value = int(clock == int(g["start"]))
        dut.layers.value = int(g["layers"])
        await ReadOnly()
        seen.look(clock)
        if dut.done.value:
            done = clock
        await FallingEdge(dut.clk)
        clock += 1
        assert clock < int(g["most"]), f"not done after {clock} clocks"
    seconds = time.perf_counter() - begun
    words = []
    for at in range(int(g["words"])):
        dut.host__at.value = at
        await ReadOnly()
        words.append(int(dut.host__word.value).to_bytes(int(g["width"]), "little"))
        await FallingEdge(dut.clk)
    leave(
        stages=np.array(seen.stages, np.int64).reshape(-1, 3),
        dones=np.array(seen.dones, np.int64).reshape(-1, 2),
        commands=np.array(seen.commands, np.int64).reshape(-1, 3),
        busy=np.array(seen.busy),
        done=np.array(done),
        scratchpad=np.frombuffer(b"".join(words), np.uint8).reshape(len(words), -1),
        cycles=np.array(clock),
        seconds=np.array(seconds),
    )
