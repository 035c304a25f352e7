"""Drives the controller of a PIM channel with requests and notes what it takes, issues and answers.

given: for each port, `pim` and `data`, payloads uint64[n] of all cases and their first clocks `<port>.when` int64[n];
sizes int64[cases, 2]: requests of each port; offers: of a port in a clock; clocks: to walk in each case. Left: taken
int64[k, 5] (case, clock, port, number, whether its answer comes in the next clock); issued int64[m, 3] (case, clock,
command); answers int64[a, 5] (case, clock, kind: 0 reads, 1 to 4 the oldest copy, COMP, READRES, GEMV; column, how
many); stuck: the clock in which each case ended so, or -1; seconds.

Of a whole channel also given: words uint8[data, bytes], which writes bring; wr: opcode of WR and bits of an opcode.
Left: read uint8[reads, bytes] and result uint8[results, bytes], as they came.
"""

import time
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl.flow.exchange import given, leave

PORTS = ("pim", "data")
KINDS = ("reads", "copy", "comp", "result", "gemv")


class Port:
    """Requests of one port: the oldest stand on the wires as soon as their clock has come."""

    def __init__(self, dut: Any, name: str, offers: int) -> None:
        g = given()
        self.all = iter(zip(g[name].tolist(), g[f"{name}.when"].tolist(), strict=True))
        there = hasattr(dut, f"{name}__0__valid")
        parts = ("valid", "ready", "payload")
        self.wires = [[getattr(dut, f"{name}__{j}__{x}") for x in parts] for j in range(offers)] if there else []

    def begin(self, size: int) -> None:
        """A case of so many requests."""
        mine = [next(self.all) for _ in range(size)]
        self.payloads, self.when = [x for x, _ in mine], [when for _, when in mine]
        self.next, self.shown = 0, [(-1, False)] * len(self.wires)
        for valid, _, payload in self.wires:
            valid.value = payload.value = 0

    def offer(self, clock: int) -> None:
        for j, (valid, _, payload) in enumerate(self.wires):
            i = self.next + j
            up = i < len(self.payloads) and self.when[i] <= clock
            up = up and (j == 0 or self.shown[j - 1][1])
            if (i, up) != self.shown[j]:
                valid.value = up
                if up:
                    payload.value = self.payloads[i]
                self.shown[j] = i, up

    def took(self) -> int:
        """How many of those that are offered are taken."""
        n = 0
        for (_, ready, _), (_, up) in zip(self.wires, self.shown, strict=False):
            if not up or not ready.value:
                break
            n += 1
        return n


class Words:
    """The words of a whole channel: the newest of each column goes with its WR, a clock behind."""

    def __init__(self, dut: Any) -> None:
        g = given()
        self.dut, self.all = dut, g["words"]
        self.wr, self.bits = g["wr"].tolist()
        self.first, self.newest = 0, dict[int, int]()
        self.read, self.result = list[Any](), list[Any]()
        dut.word.value = 0

    def begin(self, first: int) -> None:
        """A case whose first access is this one."""
        self.first = first
        self.newest.clear()

    def taken(self, number: int, payload: int) -> None:
        """An access: the column stands above the bit that says whether it writes."""
        if payload & 1:
            self.newest[payload >> 1] = int.from_bytes(self.all[self.first + number].tobytes(), "little")

    def came(self, kind: int) -> None:
        """An answer with a word or results."""
        if kind == KINDS.index("reads"):
            self.read.append(_bytes(self.dut.read))
        elif kind in (KINDS.index("result"), KINDS.index("gemv")):
            self.result.append(_bytes(self.dut.results))

    def of(self, command: int) -> int | None:
        """The word that the command writes, if it does."""
        if command & ((1 << self.bits) - 1) != self.wr:
            return None
        return self.newest[command >> self.bits]


def _bytes(signal: Any) -> np.ndarray:
    return np.frombuffer(int(signal.value).to_bytes(len(signal) // 8, "little"), np.uint8)


class Bench:
    """The controller's ports, and what was seen there."""

    def __init__(self, dut: Any) -> None:
        self.dut, self.offers = dut, int(given()["offers"])
        self.ports = [Port(dut, name, self.offers) for name in PORTS]
        self.bits = [getattr(dut, f"answers__{kind}") for kind in KINDS]
        self.words = Words(dut) if "words" in given() else None
        self.taken, self.issued, self.answers = list[Any](), list[Any](), list[Any]()

    async def reset(self, sizes: list[int]) -> None:
        """Begin the ports, each with its size, and hold reset for two clocks."""
        self.dut.rst.value = 1
        for port, size in zip(self.ports, sizes, strict=True):
            port.begin(size)
        await FallingEdge(self.dut.clk)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def walk(self, case: int, clocks: int) -> int:
        """So many clocks, or until PIM is stuck; the last clock if it is, else -1."""
        dut = self.dut
        valid, command, quick = dut.bus__valid, dut.bus__command, dut.quick
        column, merged = dut.answers__column, dut.answers__merged
        for clock in range(clocks):
            for port in self.ports:
                port.offer(clock)
            await ReadOnly()
            for number, port in enumerate(self.ports):
                took = port.took()
                flags = int(quick.value) if took and number == 1 else 0
                self.taken += [(case, clock, number, port.next + j, flags >> j & 1) for j in range(took)]
                if self.words and number == 1:
                    for i in range(port.next, port.next + took):
                        self.words.taken(i, port.payloads[i])
                port.next += took
            word = None
            if valid.value:
                self.issued.append((case, clock, int(command.value)))
                word = self.words.of(int(command.value)) if self.words else None
            for kind, bit in enumerate(self.bits):
                if bit.value:
                    n = int(merged.value) if kind == 0 else 1
                    self.answers.append((case, clock, kind, int(column.value), n))
                    if self.words:
                        self.words.came(kind)
            stuck = bool(dut.stuck.value)
            await FallingEdge(dut.clk)
            if word is not None:
                dut.word.value = word
            if stuck:
                return clock
        return -1


@cocotb.test()
async def run(dut: Any) -> None:
    """All cases, one after the other."""
    g = given()
    Clock(dut.clk, 2, unit="step").start()
    bench, stuck, start = Bench(dut), list[int](), time.perf_counter()
    first = 0
    for case, sizes in enumerate(g["sizes"].tolist()):
        if bench.words:
            bench.words.begin(first)
        first += sizes[1]
        await bench.reset(sizes)
        stuck.append(await bench.walk(case, int(g["clocks"])))
    words = {}
    if bench.words:
        words = {name: np.array(getattr(bench.words, name), np.uint8) for name in ("read", "result")}
    leave(
        **words,
        taken=np.array(bench.taken, np.int64).reshape(-1, 5),
        issued=np.array(bench.issued, np.int64).reshape(-1, 3),
        answers=np.array(bench.answers, np.int64).reshape(-1, 5),
        stuck=np.array(stuck),
        seconds=np.array(time.perf_counter() - start),
    )
