"""A host on AXI4-Lite: drives all five channels with random stalls, and notes what goes over and what issues.

given: writes int64[n, 4] (address, data, strobe, whether it brings a command); reads int64[k]: addresses; of each case
sizes int64[cases, 2], paces float[cases, 5]: probabilities that AW, W, AR are offered, and B, R taken, in a clock, and
eager bool[cases]: the host writes ahead of responses as long as the queue has room for all that is under way; else
it waits for each response, and brings a command again that is refused; depth: of the queue; buses; phases: CK of a
clock, whose buses then are those CK; most: clocks of a case. Left: written int64[., 7] (case, number, clocks in which
address and data were taken, the response first offered and taken, response); read int64[., 6] (case, number, clocks in
which the address was taken and the response first offered, data, response); issued int64[., 4] (case, CK, source,
command); ends int64[cases, 2] (clocks, whether all was over); seconds. Fails where an offer is withdrawn or changed, or
a response comes that nobody waits for.
"""

import time
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from pimloom.rtl.flow.exchange import given, leave

AFTERWARDS = 12  # clocks in which nothing may come any more
SEEDS = {"aw": 0x9E3779B9, "w": 0x85EBCA6B, "ar": 0xC2B2AE35, "b": 0x27D4EB2F, "r": 0x165667B1}


class Channel:
    """One of five. up: our own handshake signal, VALID or READY."""

    def __init__(self, dut: Any, name: str, ours: str, theirs: str, *payload: str) -> None:
        self.ours, self.theirs = (getattr(dut, f"s_axi_{name}{end}") for end in (ours, theirs))
        self.payload = [getattr(dut, f"s_axi_{word}") for word in payload]
        self.state, self.up, self.name = SEEDS[name], False, name
        self.ours.value = 0

    def lucky(self, pace: float) -> bool:
        """True with a probability of `pace`, by the generator of `benches/streams.py`."""
        x = self.state
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        self.state = x = x ^ (x << 5 & 0xFFFFFFFF)
        return x < pace * 2**32

    def set(self, up: bool) -> None:
        if up != self.up:
            self.up = up
            self.ours.value = up


class Source(Channel):
    """A channel that the bench drives: AW, W or AR."""

    def __init__(self, dut: Any, name: str, *payload: str) -> None:
        super().__init__(dut, name, "valid", "ready", *payload)

    def drive(self, may: bool, pace: float, values: tuple[int, ...]) -> None:
        """Offer values if it may and luck has it; what is offered stays until it is taken."""
        if not self.up and may and self.lucky(pace):
            self.set(True)
            for port, value in zip(self.payload, values, strict=True):
                port.value = value

    def took(self) -> bool:
        return self.up and bool(self.theirs.value)

    def end(self, took: bool) -> None:
        if took:
            self.set(False)


class Sink(Channel):
    """B or R. first: the clock in which what stands there was first offered."""

    def __init__(self, dut: Any, name: str, *payload: str) -> None:
        super().__init__(dut, name, "ready", "valid", *payload)
        self.stands: list[int] | None = None
        self.first = 0

    def look(self, clock: int) -> list[int] | None:
        """What is taken in this clock."""
        now = [int(port.value) for port in self.payload] if self.theirs.value else None
        assert self.stands is None or self.stands == now, f"{self.name} withdrew or changed a response in CK {clock}"
        if self.stands is None:
            self.first = clock
        self.stands = None if self.up else now
        return now if self.up else None


class Host:
    """The five channels and the buses, and what was seen there."""

    def __init__(self, dut: Any) -> None:
        g = given()
        self.dut, self.depth, self.phases = dut, int(g["depth"]), int(g["phases"])
        self.aw, self.w = Source(dut, "aw", "awaddr"), Source(dut, "w", "wdata", "wstrb")
        self.ar, self.b, self.r = Source(dut, "ar", "araddr"), Sink(dut, "b", "bresp"), Sink(dut, "r", "rdata", "rresp")
        buses = range(int(g["buses"]))
        ports = ("valid", "source", "command")
        self.buses: list[list[Any]] = [[getattr(dut, f"buses__{b}__{n}", None) for n in ports] for b in buses]
        nodes = int(g["nodes"])
        self.ours = nodes
        self.written, self.read, self.issued = list[Any](), list[Any](), list[Any]()

    async def reset(self) -> None:
        """Hold reset for two clocks, with nothing offered on any channel."""
        self.dut.rst.value = 1
        for channel in (self.aw, self.w, self.ar, self.b, self.r):
            channel.set(False)
        self.b.stands = self.r.stands = None
        await FallingEdge(self.dut.clk)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def walk(self, case: int, writes: list[Any], reads: list[int], eager: bool, paces: Any, most: int) -> Any:
        """Until all is written, read and issued, or `most` clocks are over."""
        before = np.cumsum([0, *[row[3] for row in writes]]).tolist()  # commands, those of a write included
        at, gone = {"aw": 0, "w": 0, "b": 0, "ar": 0, "r": 0}, 0
        clocks = {name: [0] * len(writes) for name in ("aw", "w")}
        asked, quiet, clock = [0] * len(reads), 0, 0
        while quiet < AFTERWARDS and clock < most:
            for source, values in ((self.aw, lambda row: (row[0],)), (self.w, lambda row: (row[1], row[2]))):
                k = at[source.name]
                may = k < len(writes) and (before[k + 1] - gone <= self.depth if eager else k == at["b"])
                source.drive(may, paces[source.name], values(writes[k]) if may else ())
            k = at["ar"]
            self.ar.drive(k < len(reads), paces["ar"], (reads[k],) if k < len(reads) else ())
            self.b.set(self.b.lucky(paces["b"]))
            self.r.set(self.r.lucky(paces["r"]))
            await ReadOnly()
            took = {source.name: source.took() for source in (self.aw, self.w, self.ar)}
            said, told = self.b.look(clock), self.r.look(clock)
            for name in ("aw", "w"):
                if took[name]:
                    clocks[name][at[name]] = clock
                    at[name] += 1
            if took["ar"]:
                asked[at["ar"]] = clock
                at["ar"] += 1
            if told is not None:
                k = at["r"]
                assert k < at["ar"], f"a word in CK {clock} that nobody reads"
                self.read.append((case, k, asked[k], self.r.first, *told))
                at["r"] += 1
            if said is not None:
                k = at["b"]
                assert k < min(at["aw"], at["w"]), f"a response in CK {clock} to no write"
                self.written.append((case, k, clocks["aw"][k], clocks["w"][k], self.b.first, clock, *said))
                at["b"] += 1
                if writes[k][3] and said[0] and not eager:  # again
                    at["aw"] = at["w"] = at["b"] = k
            gone += self._buses(case, clock)
            over = at["b"] == len(writes) and at["r"] == len(reads) and gone >= before[-1]
            quiet = quiet + 1 if over else 0
            await FallingEdge(self.dut.clk)
            for source in (self.aw, self.w, self.ar):
                source.end(took[source.name])
            clock += 1
        return clock, quiet == AFTERWARDS

    def _buses(self, case: int, clock: int) -> int:
        """How many commands of ours issue."""
        gone = 0
        for number, (valid, source, command) in enumerate(self.buses):
            if valid.value:
                who = int(source.value) if source is not None else 0
                at = clock if self.phases == 1 else clock * self.phases + number
                self.issued.append((case, at, who, int(command.value)))
                gone += who == self.ours
        return gone


@cocotb.test()
async def run(dut: Any) -> None:
    """All cases, one after the other."""
    g = given()
    Clock(dut.clk, 2, unit="step").start()
    host, ends, start = Host(dut), list[Any](), time.perf_counter()
    writes, reads = iter(g["writes"].tolist()), iter(g["reads"].tolist())
    for case, (sizes, paces, eager) in enumerate(zip(g["sizes"], g["paces"].tolist(), g["eager"], strict=True)):
        await host.reset()
        mine = [next(writes) for _ in range(sizes[0])], [next(reads) for _ in range(sizes[1])]
        named = dict(zip(SEEDS, paces, strict=True))
        ends.append(await host.walk(case, *mine, bool(eager), named, int(g["most"])))
    leave(
        written=np.array(host.written, np.int64).reshape(-1, 7),
        read=np.array(host.read, np.int64).reshape(-1, 6),
        issued=np.array(host.issued, np.int64).reshape(-1, 4),
        ends=np.array(ends, np.int64).reshape(-1, 2),
        seconds=np.array(time.perf_counter() - start),
    )
