"""Layers on one processor of a Duplex device: the larger of what its arithmetic and what its memory takes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from pimloom.arch.duplex import OPS_PER_MAC, Duplex
from pimloom.arch.units import FLOP_PER_TFLOP
from pimloom.energy.duplex import mac_pj, memory_pj
from pimloom.systems.devices.duplex.memory import BANK, LOGIC, XPU, Move, Transfers

ELEMENT_BYTES = 2  # FP16 [paper]


class LayerWork(NamedTuple):
    """What a layer takes on one device: its time [s], energy by cause [pJ] and multiply-accumulates."""

    time_s: float
    pj: Mapping[str, float]
    macs: float

    def times(self, n: float) -> "LayerWork":
        """So often one after the other."""
        return LayerWork(self.time_s * n, {cause: n * pj for cause, pj in self.pj.items()}, self.macs * n)


NOTHING = LayerWork(0.0, MappingProxyType({}), 0)


def in_turn(parts: Iterable[LayerWork]) -> LayerWork:
    """One after the other."""
    time_s, macs, pj = 0.0, 0.0, defaultdict[str, float](float)
    for part in parts:
        time_s, macs = time_s + part.time_s, macs + part.macs
        for cause, value in part.pj.items():
            pj[cause] += value
    return LayerWork(time_s, pj, macs)


@dataclass(frozen=True)
class Processors:
    """The processors of a device: peak [FLOP/s] by path, before one memory."""

    device: Duplex
    memory: Transfers
    known: dict[tuple[int | str, ...], LayerWork] = field(default_factory=dict)  # layers that were asked for

    @cached_property
    def flops(self) -> Mapping[str, float]:
        """Peak of each processor."""
        bank = self.device.spec.bank_pim
        return {
            XPU: self.device.spec.xpu_tflops * FLOP_PER_TFLOP,
            LOGIC: self.device.logic_flops,
            BANK: bank.times_bandwidth * bank.op_per_byte * self.device.xpu_bytes_s,
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

    def attention(self, path: str, contexts: int, heads: int, kv_heads: int, head_dim: int) -> LayerWork:
        """Scores, then values, of one new token a request; contexts: of all requests together [tokens]. K and V go over
        the path; softmax and what goes in and out stays on the chip."""
        half_bytes, macs = ELEMENT_BYTES * contexts * kv_heads * head_dim, contexts * heads * head_dim
        half = self._work(path, ((path, self.memory.move(path, half_bytes)),), macs)
        return half.times(2)

    def expert(self, path: str, rows: int, hidden: int, width: int, gates: int) -> LayerWork:
        """A feed-forward network of 1 + `gates` matrices on `rows` tokens, `width` of its columns."""
        if not rows:
            return NOTHING
        key = "expert", path, rows, hidden, width, gates
        if key not in self.known:
            up, down = self.linear(path, rows, hidden, width), self.linear(path, rows, width, hidden)
            self.known[key] = in_turn([*[up] * gates, self.elementwise(rows * width, gates, 1), down])
        return self.known[key]

    def elementwise(self, elements: int, read: int, written: int) -> LayerWork:
        """Vectors of so many elements in and out, over the pins."""
        moves = (
            (XPU, self.memory.move(XPU, ELEMENT_BYTES * elements * read)),
            (XPU, self.memory.move(XPU, ELEMENT_BYTES * elements * written, write=True)),
        )
        return self._work(XPU, moves, 0)

    def all_reduce_s(self, size_bytes: int, devices: int) -> float:
        """A ring: 2 (n - 1) messages of a part each."""
        return 2 * (devices - 1) * self.device.spec.links.hop_s(size_bytes / devices)

    def _work(self, path: str, moves: Iterable[tuple[str, Move]], macs: int) -> LayerWork:
        memory_s, pj = 0.0, defaultdict(float, {"mac": mac_pj(macs)})
        for over, move in moves:
            memory_s += move.time_s
            for cause, value in memory_pj(over, move.counts).pj.items():
                pj[cause] += value
        return LayerWork(max(memory_s, OPS_PER_MAC * macs / self.flops[path]), pj, macs)
