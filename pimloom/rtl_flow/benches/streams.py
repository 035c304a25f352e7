"""Feeds and drains all streams of a top at once.

given: `in.<stream>`: payloads, uint32[n, words], lowest word first; `out.<stream>`: how many to take; `pace`: the
probability that a source offers, or a sink takes, in a clock.
left: `<stream>`: what a sink took, uint64[n]; `<stream>.clock`: the clock of each transfer, of sources too.
"""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl_flow import exchange

PATIENCE = 10_000  # clocks without a transfer
AFTERWARDS = 100  # clocks in which nothing may come any more


class Stream:
    """Our end of a stream: `drive` at the falling edge, `look` when all has settled before the rising one."""

    def __init__(self, dut, name, pace):
        self.valid, self.ready, self.payload = (
            getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload")
        )
        self.name, self.pace, self.clocks = name, pace, []
        self.up = False  # our own handshake signal
        self.chance = random.Random(name)

    def set(self, signal, up):
        if up != self.up:
            self.up = up
            signal.value = up

    def lucky(self):
        return self.pace == 1 or self.chance.random() < self.pace


class Source(Stream):
    """What it offers stays until it is taken."""

    def __init__(self, dut, name, pace, words):
        super().__init__(dut, name, pace)
        self.left = [int.from_bytes(row.astype("<u4").tobytes(), "little") for row in words[::-1]]
        self.offering = False
        self.valid.value = 0

    def drive(self):
        if not self.offering:
            self.offering = bool(self.left) and self.lucky()
            self.set(self.valid, self.offering)
            if self.offering:
                self.payload.value = self.left.pop()

    def look(self, clock):
        if self.offering and self.ready.value == 1:
            self.clocks.append(clock)
            self.offering = False

    @property
    def done(self):
        return not self.left and not self.up


class Sink(Stream):
    """Fails where an offer is withdrawn or changed before it is taken."""

    def __init__(self, dut, name, pace, count):
        super().__init__(dut, name, pace)
        self.count, self.taken, self.offered = count, [], None
        self.ready.value = 0

    def drive(self):
        self.set(self.ready, self.lucky())

    def look(self, clock):
        word = int(self.payload.value) if self.valid.value == 1 else None
        assert self.offered in (None, word), f"{self.name} withdrew its offer"
        self.offered = None if self.up else word
        if self.up and word is not None:
            self.taken.append(word)
            self.clocks.append(clock)

    @property
    def done(self):
        return len(self.taken) >= self.count


@cocotb.test()
async def all_streams(dut):
    given = exchange.given()
    pace = float(given["pace"])
    sources = [Source(dut, key[3:], pace, given[key]) for key in given if key.startswith("in.")]
    sinks = [Sink(dut, key[4:], pace, int(given[key])) for key in given if key.startswith("out.")]
    await reset(dut)
    await run(dut, sources, sinks)
    left = {sink.name: np.array(sink.taken, np.uint64) for sink in sinks}
    exchange.leave(**left, **{f"{end.name}.clock": np.array(end.clocks) for end in sources + sinks})


async def reset(dut):
    Clock(dut.clk, 2, "ns").start()
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def run(dut, sources, sinks):
    clock, end = 0, None
    busy = sources + sinks
    while clock != end:
        await FallingEdge(dut.clk)
        for stream in busy:
            stream.drive()
        await ReadOnly()
        for stream in busy:
            stream.look(clock)
        clock += 1
        if end is None and clock % 64 == 0:
            busy = [source for source in sources if not source.done] + sinks
            if all(stream.done for stream in sources + sinks):
                end = clock + AFTERWARDS
            latest = max(stream.clocks[-1] if stream.clocks else 0 for stream in sources + sinks)
            assert clock < latest + PATIENCE, f"waiting for {[s.name for s in sources + sinks if not s.done]}"
