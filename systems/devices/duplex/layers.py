"""Layers on one processor of a Duplex device: the larger of what its arithmetic and what its memory takes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from pimloom.arch.duplex import OPS_PER_MAC, Duplex
from pimloom.arch.units import FLOP_PER_TFLOP
from pimloom.energy.duplex import mac_pj, memory_pj
from pimloom.systems.devices.duplex.memory import BANK, BANK_GROUP, LOGIC, XPU, Move, Transfers

ELEMENT_BYTES = 2  # FP16 [paper]


class LayerWork(NamedTuple):
    """What a layer takes on one processor: its time [s], energy by cause [pJ], multiply-accumulates, and the times that
    its arithmetic and its memory take by themselves [s]."""

    time_s: float
    pj: Mapping[str, float]
    macs: float
    compute_s: float
    memory_s: float

    def times(self, n: float) -> "LayerWork":
        """So often one after the other."""
        pj = {cause: n * pj for cause, pj in self.pj.items()}
        return LayerWork(self.time_s * n, pj, self.macs * n, self.compute_s * n, self.memory_s * n)


NOTHING = LayerWork(0.0, MappingProxyType({}), 0, 0.0, 0.0)


def in_turn(parts: Iterable[LayerWork]) -> LayerWork:
    """One after the other."""
    time_s, macs, compute_s, memory_s, pj = 0.0, 0.0, 0.0, 0.0, defaultdict[str, float](float)
    for part in parts:
        time_s, macs = time_s + part.time_s, macs + part.macs
        compute_s, memory_s = compute_s + part.compute_s, memory_s + part.memory_s
        for cause, value in part.pj.items():
            pj[cause] += value
    return LayerWork(time_s, pj, macs, compute_s, memory_s)


class Pair(NamedTuple):
    """What the xPU and the processor beside it do, one after the other or `at_once`, and the time of both [s]."""

    xpu: LayerWork
    low: LayerWork
    time_s: float
    at_once: bool = False

    @classmethod
    def of(cls, path: str, work: LayerWork) -> "Pair":
        """Work of one of them."""
        return cls(work, NOTHING, work.time_s) if path == XPU else cls(NOTHING, work, work.time_s)

    @property
    def compute_s(self) -> float:
        """Arithmetic by itself."""
        both = self.xpu.compute_s, self.low.compute_s
        return max(both) if self.at_once else sum(both)

    @property
    def memory_s(self) -> float:
        """Memory by itself."""
        both = self.xpu.memory_s, self.low.memory_s
        return max(both) if self.at_once else sum(both)


def slowest(found: Sequence[Pair]) -> Pair:
    """Of devices that wait for one another: work of their mean, times of the slowest."""
    if len(found) == 1:
        return found[0]
    last = max(found, key=lambda pair: pair.time_s)
    xpu, low = _mean([pair.xpu for pair in found], last.xpu), _mean([pair.low for pair in found], last.low)
    return Pair(xpu, low, last.time_s, last.at_once)


def _mean(found: Sequence[LayerWork], last: LayerWork) -> LayerWork:
    mean = in_turn(found).times(1 / len(found))
    return mean._replace(time_s=last.time_s, compute_s=last.compute_s, memory_s=last.memory_s)


class Seen(NamedTuple):
    """What attention works on: tokens that all new ones attend to, tokens whose K and V are read, and tokens whose
    queries and results go over the pins."""

    attended: int
    cached: int
    flowing: int = 0


@dataclass(frozen=True)
class Processors:
    """The processors of a device: peak [FLOP/s] by path, before one memory."""

    device: Duplex
    memory: Transfers
    known: dict[tuple[int | str, ...], LayerWork] = field(default_factory=dict)  # layers that were asked for

    @cached_property
    def flops(self) -> Mapping[str, float]:
        """Peak of each processor."""
        spec = self.device.spec
        dram = {BANK: spec.bank_pim, BANK_GROUP: spec.bank_group_pim}
        return {
            XPU: spec.xpu_tflops * FLOP_PER_TFLOP,
            LOGIC: self.device.logic_flops,
            **{path: it.times_bandwidth * it.op_per_byte * self.device.xpu_bytes_s for path, it in dram.items()},
        }

    def linear(self, path: str, rows: int, n_in: int, n_out: int) -> LayerWork:
        """Product of `rows` vectors with a matrix. Input and output go over the pins, the matrix over the path."""
        if not rows:
            return NOTHING
        key = "linear", path, rows, n_in, n_out
        if key not in self.known:
            moves = (
                (XPU, self.memory.move(XPU, ELEMENT_BYTES * rows * n_in)),
                (path, self.memory.move(path, ELEMENT_BYTES * n_in * n_out)),
                (XPU, self.memory.move(XPU, ELEMENT_BYTES * rows * n_out, write=True)),
            )
            self.known[key] = self._work(path, moves, rows * n_in * n_out)
        return self.known[key]

    def attention(self, path: str, seen: Seen, heads: int, kv_heads: int, head_dim: int) -> LayerWork:
        """Scores, then values. K and V go over the path; softmax stays on the chip, and so do queries and results of
        one token each."""
        key = "attention", path, *seen, heads, kv_heads, head_dim
        if key not in self.known:
            kept, macs = ELEMENT_BYTES * seen.cached * kv_heads * head_dim, seen.attended * heads * head_dim
            flow = ELEMENT_BYTES * seen.flowing * heads * head_dim
            keys = (path, self.memory.move(path, kept))
            scores = self._work(path, (keys, (XPU, self.memory.move(XPU, flow))), macs)
            values = self._work(path, (keys, (XPU, self.memory.move(XPU, flow, write=True))), macs)
            self.known[key] = in_turn([scores, values])
        return self.known[key]

    def expert(self, path: str, rows: int, hidden: int, width: int, gates: int) -> LayerWork:
        """A feed-forward network of 1 + `gates` matrices on `rows` tokens, `width` of its columns."""
        if not rows:
            return NOTHING
        key = "expert", path, rows, hidden, width, gates
        if key not in self.known:
            up, down = self.linear(path, rows, hidden, width), self.linear(path, rows, width, hidden)
            self.known[key] = in_turn([*[up] * gates, self.elementwise(gates * rows * width, rows * width), down])
        return self.known[key]

    def elementwise(self, read: int, written: int) -> LayerWork:
        """Vectors of so many elements in and out, over the pins."""
        moves = (
            (XPU, self.memory.move(XPU, ELEMENT_BYTES * read)),
            (XPU, self.memory.move(XPU, ELEMENT_BYTES * written, write=True)),
        )
        return self._work(XPU, moves, 0)

    def _work(self, path: str, moves: Iterable[tuple[str, Move]], macs: int) -> LayerWork:
        memory_s, pj = 0.0, defaultdict(float, {"mac": mac_pj(macs)})
        for over, move in moves:
            memory_s += move.time_s
            for cause, value in memory_pj(over, move.counts).pj.items():
                pj[cause] += value
        compute_s = OPS_PER_MAC * macs / self.flops[path]
        return LayerWork(max(memory_s, compute_s), pj, macs, compute_s, memory_s)
