"""Drives a sequencer with command streams, case after case, and notes the clock of everything that issues.

given: cases int64[n, 5] (refresh on, interval, first due, apart, most clocks); waits int64[n, rules], or [n, 0] if
they are constants; buses: how many there are;
sizes int64[n, streams]; payloads uint64 and releases int64 of all commands, case by case, stream by stream; nodes: the
refresh nodes. Left: issued int64[k, 4] (case, asker, clock, payload) in the order of issue; ends int64[n, 3] (clocks
walked, starved, stuck); seconds: wall time of the walk.
"""

import time
from collections.abc import Iterator
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl.flow.exchange import given, leave

Head = tuple[int, int]  # payload, release


class Bench:
    """The ports of the sequencer, and what stands on its heads."""

    def __init__(self, dut: Any, streams: int) -> None:
        self.dut, self.streams = dut, range(streams)
        self.valid = [getattr(dut, f"heads__{s}__valid") for s in self.streams]
        self.payload = [getattr(dut, f"heads__{s}__payload") for s in self.streams]
        self.released = [getattr(dut, f"released__{s}") for s in self.streams]
        ports = ("valid", "source", "command")
        self.buses = [[getattr(dut, f"buses__{b}__{n}") for n in ports] for b in range(int(given()["buses"]))]
        self.starved, self.stuck, self.nodes = dut.starved, dut.stuck, int(given()["nodes"])

    async def reset(self, timings: dict[str, int], waits: np.ndarray) -> None:
        """Hold reset for two clocks while the timings settle."""
        self.dut.rst.value = 1
        for s in self.streams:
            self.valid[s].value = self.released[s].value = self.payload[s].value = 0
        for name, value in timings.items():
            if hasattr(self.dut, f"timings__{name}"):
                getattr(self.dut, f"timings__{name}").value = value
        for i, wait in enumerate(waits):
            getattr(self.dut, f"timings__waits__{i}").value = int(wait)
        await FallingEdge(self.dut.clk)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def walk(self, streams: list[Iterator[Head]], most: int) -> tuple[list[tuple[int, int, int]], list[int]]:
        """Until all streams have issued, nothing can any more, or `most` clocks are over."""
        issued, clock, starved, stuck = [], 0, 0, 0
        heads: list[Head | None] = [None for _ in self.streams]
        fresh = list(self.streams)
        while clock < most and not starved and not stuck:
            for s in fresh:
                heads[s] = head = next(streams[s], None)
                self.valid[s].value = head is not None
                if head is not None:
                    self.payload[s].value = head[0]
            if not any(heads):
                break
            for s, head in enumerate(heads):
                if s in fresh or (head and head[1] == clock):
                    self.released[s].value = head is not None and head[1] <= clock
            await ReadOnly()
            fresh = []
            starved, stuck = int(self.starved.value), int(self.stuck.value)
            for valid, source, command in self.buses:
                if int(valid.value):
                    asker = int(source.value)
                    issued.append((asker, clock, int(command.value)))
                    if asker >= self.nodes:
                        fresh.append(asker - self.nodes)
            await FallingEdge(self.dut.clk)
            clock += 1
        return issued, [clock, starved, stuck]


@cocotb.test()
async def run(dut: Any) -> None:
    """All cases, one after the other."""
    g = given()
    payloads, releases = iter(g["payloads"].tolist()), iter(g["releases"].tolist())
    Clock(dut.clk, 2, unit="step").start()
    bench, issued, ends = Bench(dut, g["sizes"].shape[1]), list[tuple[int, ...]](), list[list[int]]()
    start = time.perf_counter()
    for case, (row, waits, sizes) in enumerate(zip(g["cases"].tolist(), g["waits"], g["sizes"].tolist(), strict=True)):
        streams = [iter([(next(payloads), next(releases)) for _ in range(n)]) for n in sizes]
        timings = dict(zip(("refresh", "refi", "due", "apart"), row, strict=False))
        await bench.reset(timings, waits)
        found, end = await bench.walk(streams, row[4])
        issued += [(case, *what) for what in found]
        ends.append(end)
    leave(
        issued=np.array(issued, np.int64).reshape(-1, 4),
        ends=np.array(ends, np.int64).reshape(-1, 3),
        seconds=np.array(time.perf_counter() - start),
    )
