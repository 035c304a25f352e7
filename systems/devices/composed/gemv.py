"""Matrix-vector units in a memory: beside each bank, command by command; or in its logic, at the bandwidth there.

Every vector streams its whole matrix. Heads of keys are dealt over the channels, each head's keys and values in the
banks of one; other matrices lie in the banks of all channels. Refresh is charged at its average rate. Biases, and sums
of a result's parts where a matrix has more rows than a row of a bank has elements, take no time.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import ON_THE_PINS, Role
from pimloom.arch.composition import ComposedSystem, GemvUnit, PartMemory
from pimloom.arch.llm import LlmSpec
from pimloom.arch.part import Part
from pimloom.arch.system import System
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.cycle_sim.dram.stream import engine_of
from pimloom.mappers.gemv import product, weighted_sum, write_k, write_v
from pimloom.mappers.geometry import geometry
from pimloom.mappers.layout import Packed, RowAligned
from pimloom.systems.devices.composed.price import Price
from pimloom.workload.batch import Request
from pimloom.workload.op import Op

RUNS = ("gemm", "score", "value", "cache_write")


class Ran(NamedTuple):
    """A stream of one channel: clocks without refresh, commands by name."""

    ck: int
    commands: Mapping[str, int]


def refreshed_ck(part: Part, ck: int) -> int:
    """Clocks of so many clocks of work, with tRFC of every tREFI lost."""
    interval, lost = part.cycles("tREFI"), part.cycles("tRFC")
    return ceil_div(ck * interval, interval - lost)


class BesideBanks:
    """See `Unit`. Time is that of the streams of `mappers.gemv`, each from idle banks."""

    fuses = False

    def __init__(self, part: Part, channels: int, llm: LlmSpec) -> None:
        self._part, self._llm = part, llm
        self._all, self._one = geometry(part, channels), geometry(part, 1)
        self._table = compile_table(part)
        self._engine, self._known = engine_of(self._table), dict[Hashable, Ran]()
        self.heads = channels

    def refuses(self, op: Op) -> str | None:
        """See `Unit`."""
        if op.kind not in RUNS:
            return f"a gemv unit runs {', '.join(RUNS)}"
        if op.kind != "gemm" and self._llm.kv_lora_rank:
            return "units beside banks keep keys and values apart, and those of this model are one vector"
        if op.kind == "gemm" and op.cached:
            return "units beside banks do not multiply what lies in the cache"
        return None

    def price(self, ops: Sequence[Op]) -> Price:
        """See `Unit`."""
        (op,) = ops
        match op.kind:
            case "gemm":
                times = sum(op.each) if op.each else op.rows
                return self._price([(self._gemm(op), times)], self._all.channels)
            case "cache_write":
                return self._price([(self._write(op), op.rows)], self._all.channels)
        return self._attention(op)

    def _gemm(self, op: Op) -> Ran:
        matrix = Packed(self._all, op.n_in, op.n_out)
        return self._ran(("gemm", op.n_in, op.n_out), lambda: product(self._table, matrix))

    def _write(self, op: Op) -> Ran:
        """A token's keys and values, as even over the channels as can be."""
        width = ceil_div(op.n_out // 2, self._all.channels)
        k, v = Packed(self._one, width, 1), RowAligned(self._one, 1, width)
        streams = (write_k(self._table, k, 0), write_v(self._table, v, 0))
        return self._ran(("write", width), lambda: np.concatenate(streams))

    def _attention(self, op: Op) -> Price:
        """Requests with the longest contexts first, each head of keys to the channel that is done first."""
        work = {at: self._request(op, at) for at in dict.fromkeys(op.requests)}
        each = {at: sum(ran.ck * n for ran, n in runs) for at, runs in work.items()}
        channels = [0] * self._all.channels
        for at in sorted(op.requests, key=lambda at: -each[at]):
            for _ in range(op.kv_heads):
                channels[channels.index(min(channels))] += each[at]
        runs = [(ran, n * op.kv_heads) for at in op.requests for ran, n in work[at]]
        return self._price(runs, 1, max(channels))

    def _request(self, op: Op, at: Request) -> list[tuple[Ran, int]]:
        """Streams of one head of keys, for the query heads that share it, and for how many new tokens each runs."""
        found: Counter[int] = Counter()
        for context in range(at.context - at.new + 1, at.context + 1):
            tokens = context if op.window is None else min(context, op.window)
            found[self._step(op.kind, tokens)] += 1
        shared = op.heads // op.kv_heads
        return [(self._head(op.kind, op.head_dim, tokens, shared), n) for tokens, n in found.items()]

    def _head(self, kind: str, dim: int, tokens: int, vectors: int) -> Ran:
        key = kind, dim, tokens, vectors
        if kind == "score":
            k = Packed(self._one, dim, tokens)
            return self._ran(key, lambda: product(self._table, k, vectors=vectors))
        v = RowAligned(self._one, tokens, dim)
        return self._ran(key, lambda: weighted_sum(self._table, v, tokens, vectors))

    def _step(self, kind: str, tokens: int) -> int:
        """The largest context with the same stream: a bank has a token more, or an access is full of them."""
        step = self._one.banks if kind == "score" else self._one.lane
        return ceil_div(tokens, step) * step

    def _ran(self, key: Hashable, make: Callable[[], np.ndarray]) -> Ran:
        if key not in self._known:
            stream = make()
            counts = np.bincount(stream["cmd"], stream["count"], len(self._table.names))
            named = {name: int(n) for name, n in zip(self._table.names, counts, strict=True) if n}
            self._known[key] = Ran(self._engine.issue([stream], refresh=False).idle_ck, named)
        return self._known[key]

    def _price(self, runs: Sequence[tuple[Ran, int]], channels: int, ck: int | None = None) -> Price:
        """Streams and how often they run, each in so many channels at once. ck: of the busiest channel, else all."""
        part, all_channels = self._part, self._all.channels
        ck = sum(ran.ck * n for ran, n in runs) if ck is None else ck
        commands: Counter[str] = Counter()
        for ran, n in runs:
            commands.update({name: m * n * channels for name, m in ran.commands.items()})
        pins, macs = (self._table.total(commands, roles) for roles in (ON_THE_PINS, {Role.MULTIPLY}))
        mac_ck = int(self._table.rules.done[self._table.role(Role.MULTIPLY)])
        return Price(
            refreshed_ck(part, ck) * part.tCK_ps,
            dict(commands),
            pins * part.organization.access_bits // BITS_PER_BYTE,
            ceil_div(macs, all_channels) * mac_ck * part.tCK_ps,
            ceil_div(pins * part.cycles("nBL"), all_channels) * part.tCK_ps,
            ceil_div(commands.total(), all_channels) * part.tCK_ps,
        )


class InLogic:
    """See `Unit`. In each bank group an access every tCCD_L, on the logic die one every tCCD_S of each pseudo channel;
    rows open while others are read. Vectors come and results go over the data pins, before and behind."""

    fuses = False
    heads = 1

    def __init__(self, unit: GemvUnit, part: Part, channels: int, bits: int) -> None:
        self._part, self._bits, org = part, bits, part.organization
        self._pins = channels * org.pseudo_channels
        groups = org.ranks * org.bank_groups if unit.at == "bank_group" else 1
        self._places = self._pins * groups
        self._ck = part.cycles("tCCD_L" if unit.at == "bank_group" else "tCCD_S")
        self._access = org.access_bits // bits
        self._rounds = ceil_div(self._access, unit.lanes)

    def refuses(self, op: Op) -> str | None:
        """See `Unit`."""
        return None if op.kind in RUNS else f"a gemv unit runs {', '.join(RUNS)}"

    def price(self, ops: Sequence[Op]) -> Price:
        """See `Unit`."""
        (op,) = ops
        part, bytes_ = self._part, (op.moved.read + op.moved.written) * self._bits // BITS_PER_BYTE
        matrix = op.macs or op.moved.cache_written
        accesses = ceil_div(matrix, self._access * self._places)
        pins = ceil_div(bytes_ * BITS_PER_BYTE, part.organization.access_bits * self._pins)
        compute, memory = accesses * self._rounds * self._ck, pins * part.cycles("nBL")
        return Price(
            refreshed_ck(part, compute + memory) * part.tCK_ps,
            interface_bytes=bytes_,
            compute_ps=compute * part.tCK_ps,
            memory_ps=memory * part.tCK_ps,
        )


def unit(system: System, name: str, llm: LlmSpec) -> BesideBanks | InLogic:
    """See `price.Make`."""
    spec = system.of_kind(ComposedSystem)
    found: GemvUnit = spec.units[name]
    memory, part = spec.memories[found.memory], system.parts[found.memory]
    assert isinstance(memory, PartMemory)
    channels = memory.channels
    if found.at == "bank":
        return BesideBanks(part, channels, llm)
    return InLogic(found, part, channels, spec.element_bits)
