"""Feeds and drains all streams of a top at once.

given: `in.<stream>`: payloads, uint32[n, words], lowest word first; `out.<stream>`: how many to take; `paces`: the
probabilities that a source offers, or a sink takes, in a clock; each holds for TURN clocks, then it is the next one's
turn.
left: `<stream>`: what a sink took, uint64[n]; `<stream>.clock`: the clock of each transfer, of sources too; cycles;
seconds.
"""

import time
from abc import ABC, abstractmethod
from typing import Any
from zlib import crc32

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl.flow import exchange

PATIENCE = 10_000  # clocks without a transfer
AFTERWARDS = 100  # clocks in which nothing may come any more
TURN = 500


class Stream(ABC):
    """Our end of a stream: `drive` at the falling edge, `look` when all has settled before the rising one."""

    def __init__(self, dut: Any, name: str) -> None:
        self.valid, self.ready, self.payload = (
            getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload")
        )
        self.name, self.clocks = name, list[int]()
        self.up = False  # our own handshake signal
        self.state = crc32(name.encode()) | 1

    def set(self, signal: Any, up: bool) -> None:
        if up != self.up:
            self.up = up
            signal.value = up

    def lucky(self, pace: float) -> bool:
        """The dice are Marsaglia's xorshift32 (Xorshift RNGs, 2003)."""
        if pace == 1:
            return True
        x = self.state
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        self.state = x = x ^ (x << 5 & 0xFFFFFFFF)
        return x < pace * 2**32

    @abstractmethod
    def drive(self, pace: float) -> None:
        """Offer or accept a word, or not."""

    @abstractmethod
    def look(self, clock: int) -> None:
        """See whether a word went over."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether nothing is left to offer or to take."""


class Source(Stream):
    """What it offers stays until it is taken."""

    def __init__(self, dut: Any, name: str, words: np.ndarray) -> None:
        super().__init__(dut, name)
        self.left = [int.from_bytes(row.astype("<u4").tobytes(), "little") for row in words[::-1]]
        self.offering = False
        self.valid.value = 0

    def drive(self, pace: float) -> None:
        if not self.offering:
            self.offering = bool(self.left) and self.lucky(pace)
            self.set(self.valid, self.offering)
            if self.offering:
                self.payload.value = self.left.pop()

    def look(self, clock: int) -> None:
        if self.offering and self.ready.value == 1:
            self.clocks.append(clock)
            self.offering = False

    @property
    def done(self) -> bool:
        return not self.left and not self.up


class Sink(Stream):
    """Fails where an offer is withdrawn or changed before it is taken."""

    def __init__(self, dut: Any, name: str, count: int) -> None:
        super().__init__(dut, name)
        self.count, self.taken = count, list[int]()
        self.offered: int | None = None
        self.ready.value = 0

    def drive(self, pace: float) -> None:
        self.set(self.ready, self.lucky(pace))

    def look(self, clock: int) -> None:
        word = int(self.payload.value) if self.valid.value == 1 else None
        assert self.offered in (None, word), f"{self.name} withdrew its offer"
        self.offered = None if self.up else word
        if self.up and word is not None:
            self.taken.append(word)
            self.clocks.append(clock)

    @property
    def done(self) -> bool:
        return len(self.taken) >= self.count


@cocotb.test()
async def all_streams(dut: Any) -> None:
    """Until all has been offered and taken."""
    given = exchange.given()
    sources = [Source(dut, key[3:], given[key]) for key in given if key.startswith("in.")]
    sinks = [Sink(dut, key[4:], int(given[key])) for key in given if key.startswith("out.")]
    await reset(dut)
    start = time.perf_counter()
    cycles = await run(sources, sinks, given["paces"].tolist(), dut.clk)
    seconds = time.perf_counter() - start
    left = {sink.name: np.array(sink.taken, np.uint64) for sink in sinks}
    clocks = {f"{end.name}.clock": np.array(end.clocks) for end in [*sources, *sinks]}
    exchange.leave(**left, **clocks, cycles=np.array(cycles), seconds=np.array(seconds))


async def reset(dut: Any) -> None:
    Clock(dut.clk, 2, "ns").start()
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def run(sources: list[Source], sinks: list[Sink], paces: list[float], clk: Any) -> int:
    """Returns how many clocks it took."""
    clock, end = 0, None
    every: list[Stream] = [*sources, *sinks]
    busy = every
    while clock != end:
        await FallingEdge(clk)
        for stream in busy:
            stream.drive(paces[clock // TURN % len(paces)])
        await ReadOnly()
        for stream in busy:
            stream.look(clock)
        clock += 1
        if end is None and clock % 64 == 0:
            waiting = [stream for stream in every if not stream.done]
            busy = [stream for stream in every if isinstance(stream, Sink) or not stream.done]
            if not waiting:
                end = clock + AFTERWARDS
            latest = max(stream.clocks[-1] if stream.clocks else 0 for stream in every)
            assert clock < latest + PATIENCE, f"waiting for {[stream.name for stream in waiting]}"
    return clock
