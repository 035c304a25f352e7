"""A layer of Llama on CENT's channels with its numbers: the mapper's instructions, on matrices, keys and values where
the mapper has them, in bfloat16.

The near-memory unit (`cycle_sim/near_memory.py`) reckons in float32 and rounds what it sends to the channels [design]:
sums of squares and of exponentials in its accumulators and reduction trees, exponentials, and on its RISC-V cores the
root of an RMSNorm, the reciprocals of a softmax, the sums of a rotation. No maximum is taken off the scores, since the
layer has no instructions for it. Partial sums of a product come back as what its accumulators
start with. Neighbours turn together, as in Llama's own code. AiM's text says neither which column a MAC of all banks
begins with nor where in a row WRA16 writes: both are given here. Layers side by side all hold the same.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.aim.banks import BF16, AimBanks
from pimloom.cycle_sim.asic_math import Array, to_bf16
from pimloom.cycle_sim.near_memory import NearMemoryUnit
from pimloom.cycle_sim.pim_math import LANES, Accumulator
from pimloom.mappers.cent import GROUP, LEFT, PRODUCT, RIGHT, ROPE, Layer, Place, columns_of, spread
from pimloom.mappers.cent_layer import layer_pieces
from pimloom.systems.devices.cent.pins import Spot, Traffic, run_piece

EPSILON = 1e-5  # of RMSNorm, Llama 2's


class Weights(NamedTuple):
    """Matrices float32[n_in, n_out] by name, weights of both norms, frequencies of the rotation, float32[head / 2]."""

    matrices: Mapping[str, Array]
    norm: Array
    second_norm: Array
    frequencies: Array


class CentLayer:
    """One layer on one device, empty of keys and values. Raises ValueError for a layer on several devices."""

    def __init__(self, layer: Layer, place: Place, weights: Weights, accumulator: Accumulator = "bf16") -> None:
        if place.devices > 1:
            raise ValueError(f"a layer on {place.devices} devices: expected one device")
        self.layer, self.place, self.weights, self.tokens = layer, place, weights, 0
        self.banks = AimBanks(place.channels, place.banks, place.row // place.column, place.latches, accumulator)
        self.unit = NearMemoryUnit()
        self._rows, _ = layer_pieces(layer, place, 1)
        for name, matrix in weights.matrices.items():
            self._store(getattr(self._rows, name), matrix)
        for row, norm in ((self._rows.norm, weights.norm), (self._rows.second_norm, weights.second_norm)):
            self._put(self._spread(norm, GROUP, LEFT, row))

    def run(self, x: Array) -> Array:
        """The layer's output for the next token, bfloat16[hidden] to bfloat16[hidden]."""
        self.tokens += 1
        self._rows, pieces = layer_pieces(self.layer, self.place, self.tokens)
        self._pieces, rows, layer = dict(pieces), self._rows, self.layer
        into = self._norm("norm", x, rows.x, rows.copy, rows.norm)
        q, k, v = (self._product(f"{name}_proj", into)[0] for name in "qkv")
        q, k = self._rotated(q, k)
        self._keep(k, v)
        scores = self._scores(q)
        scaled = self._softmax("scaled scores", scores, np.full(layer.heads, layer.head**-0.5, np.float32))
        weights = self.unit.exponentials(scaled.astype(np.float32))
        shares = self._softmax("probabilities", to_bf16(weights), self.unit.reciprocals(self.unit.total(weights))[:, 0])
        attended = self._added(x, self._product("o_proj", self._values(shares))[0])
        into = self._norm("second_norm", attended, rows.attended, rows.attended, rows.second_norm)
        gate, sigmoid = self._product("gate_proj", into)
        up = self._product("up_proj", into)[0]
        self._run("silu", Traffic(self._spread(gate, GROUP, LEFT, rows.gated)
                                  | self._spread(sigmoid, GROUP, RIGHT, rows.gated)))  # fmt: skip
        gated = self._run("gated", Traffic(self._spread(up, GROUP, LEFT, rows.gated)))
        made = self._gathered(gated, layer.ffn, rows.gated)
        return self._added(attended, self._product("down_proj", made)[0])

    def _run(self, name: str, traffic: Traffic) -> Traffic:
        run_piece(self.banks, self._pieces[name], traffic)
        return traffic

    @staticmethod
    def _added(x: Array, y: Array) -> Array:
        return to_bf16(x.astype(np.float32) + y.astype(np.float32))

    # Where things lie

    def _store(self, row: int, matrix: Array) -> None:
        place, (n_in, n_out) = self.place, matrix.shape
        each, pieces = ceil_div(n_out, place.all_banks), ceil_div(n_in, place.row)
        whole = np.zeros((place.all_banks * each, pieces * place.row), BF16)
        whole[:n_out, :n_in] = matrix.T
        dealt = whole.reshape(place.block_channels, place.banks, each * pieces, -1, LANES)
        for i in range(each * pieces):
            for layer in range(place.side_by_side):
                first = layer * place.block_channels
                self.banks.row(row + i)[first : first + place.block_channels] = dealt[:, :, i]

    def _put(self, rows: dict[Spot, Array]) -> None:
        for (channel, bank, row), columns in rows.items():
            self.banks.row(row)[channel, bank, : len(columns)] = columns

    def _spots(self, bank: int, row: int, values: Array) -> dict[Spot, Array]:
        """A vector from the first column on in a bank of each layer."""
        place, columns = self.place, columns_of(len(values), self.place)
        padded = np.zeros(columns * LANES, BF16)
        padded[: len(values)] = values
        channels = bank // place.banks + place.block_channels * np.arange(place.side_by_side)
        return {(c, bank % place.banks, row): padded.reshape(columns, LANES) for c in channels.tolist()}

    def _spread(self, vector: Array, parts: int, side: int, row: int) -> dict[Spot, Array]:
        """A vector dealt over one bank of `parts`."""
        banks, size = spread(self.place, len(vector), parts, side)
        whole, found = np.zeros(len(banks) * size, BF16), dict[Spot, Array]()
        whole[: len(vector)] = vector
        for bank, piece in zip(banks.tolist(), whole.reshape(-1, size), strict=True):
            found |= self._spots(bank, row, piece)
        return found

    def _read(self, traffic: Traffic, bank: int, row: int) -> Array:
        return np.concatenate(traffic.read[bank // self.place.banks, bank % self.place.banks, row])

    def _gathered(self, traffic: Traffic, n: int, row: int) -> Array:
        """A vector that was dealt over the products' banks."""
        banks, size = spread(self.place, n, GROUP, PRODUCT)
        return np.concatenate([self._read(traffic, bank, row)[:size] for bank in banks.tolist()])[:n]

    # What a layer does

    def _norm(self, name: str, x: Array, at: int, copy: int, weights: int) -> Array:
        squares = Traffic(self._spread(x, 2, LEFT, at) | self._spread(x, 2, RIGHT, at), beside=True)
        (sums,) = self._run(f"{name}: squares", squares).results
        held, _ = spread(self.place, len(x), 2, LEFT)  # the banks behind them may hold something else
        total = self.unit.total(sums[: self.place.block_channels].reshape(-1)[held].astype(np.float32))
        factor = np.resize(self.unit.root(float(total), len(x), EPSILON), len(x))
        copies = self._spread(x, GROUP, LEFT, copy) | self._spread(factor, GROUP, RIGHT, copy)
        return self._gathered(self._run(name, Traffic(copies)), len(x), weights)

    def _product(self, name: str, x: Array) -> tuple[Array, Array]:
        """x times a matrix; and the function of it, where the program has one."""
        place, n_out = self.place, self.weights.matrices[name].shape[1]
        each, pieces = ceil_div(n_out, place.all_banks), ceil_div(len(x), place.row)
        whole = np.zeros(pieces * place.row, BF16)
        whole[: len(x)] = x
        t = Traffic(vectors=list(whole.reshape(pieces, 1, -1, LANES)))
        t.bias = lambda k: t.results[k - each] if k >= each else None
        self._run(name, t)

        def ordered(results: list[Array]) -> Array:
            return np.stack(results[-each:], axis=-1).reshape(-1)[:n_out] if results else np.zeros(0, BF16)

        return ordered(t.results), ordered(t.functions)

    def _rotated(self, q: Array, k: Array) -> tuple[Array, Array]:
        layer, rows = self.layer, self._rows
        banks, size = spread(self.place, layer.hidden, GROUP, 0)
        angles = (self.tokens - 1) * self.weights.frequencies
        cos, sin = np.cos(angles), np.sin(angles)
        turning = np.stack([cos, sin, sin, cos], axis=-1).reshape(-1)  # of a head, four for each pair
        written, of = dict[Spot, Array](), ((q, rows.q, size), (k, rows.k, ceil_div(size, layer.repeat)))
        for x, row, each in of:
            pairs = np.zeros(ROPE * each * len(banks), BF16)
            pairs[: ROPE * len(x)] = np.repeat(x.reshape(-1, 1, 2), ROPE, axis=1).reshape(-1)  # a pair twice
            constants = np.resize(turning, len(pairs))
            for i, bank in enumerate(banks.tolist()):
                mine = slice(ROPE * each * i, ROPE * each * (i + 1))
                self._put(self._spots(bank + LEFT, row, constants[mine]))
                written |= self._spots(bank + RIGHT, row, pairs[mine])
        t = self._run("rotation", Traffic(written))
        made = []
        for x, row, each in of:
            parts = [self._read(t, bank + PRODUCT, row)[: ROPE * each] for bank in banks.tolist()]
            four = np.concatenate(parts)[: ROPE * len(x)].reshape(-1, 4)
            made.append(self.unit.rotated(four).reshape(-1))
        return made[0], made[1]

    def _keep(self, k: Array, v: Array) -> None:
        """Keys and values of the new token."""
        layer, place, at = self.layer, self.place, self.tokens - 1
        written, each = dict[Spot, Array](), len(k) // place.row
        for i, piece in enumerate(k.reshape(each, -1)):
            written |= self._spots(at % place.layer_banks, self._rows.keys + at // place.layer_banks * each + i, piece)
        heads, by_head = ceil_div(layer.kv_heads, place.block_channels), v.reshape(layer.kv_heads, -1, place.banks)
        scattered = [
            by_head[channel * heads + head, turn]
            for head in range(heads) for turn in range(layer.head // place.banks)
            for channel in range(place.block_channels) if channel * heads + head < layer.kv_heads
            for _ in range(place.side_by_side)
        ]  # fmt: skip
        column, lane = divmod(at % place.row, LANES)
        self._run("new token", Traffic(written, scattered=scattered, place=(column, lane)))

    def _scores(self, q: Array) -> Array:
        """bfloat16[heads, tokens]."""
        layer, place = self.layer, self.place
        in_row, turns = place.row // layer.head, ceil_div(self.tokens, place.layer_banks)
        by_head = q.reshape(-1, in_row, layer.repeat, layer.head)  # rows of keys, heads of a row, those that share one
        vectors = [
            of_row[:, sharer].reshape(1, -1, LANES)
            for of_row in by_head for _ in range(turns) for sharer in range(layer.repeat)
        ]  # fmt: skip
        columns = layer.head // place.column
        t = self._run("scores", Traffic(vectors=vectors, first=lambda k: k % in_row * columns))
        found = np.zeros((len(by_head), turns, layer.repeat, in_row, place.layer_banks), BF16)
        for index, result in zip(np.ndindex(found.shape[:-1]), t.results, strict=True):
            values = result[: place.block_channels].reshape(-1)
            found[index][: len(values)] = values
        return found.transpose(0, 3, 2, 1, 4).reshape(layer.heads, -1)[:, : self.tokens]

    def _softmax(self, name: str, left: Array, right: Array) -> Array:
        """A row of each head times a number, bfloat16[heads, tokens]."""
        place, heads = self.place, self.layer.heads
        each, pieces = ceil_div(heads, place.block_channels * GROUP), ceil_div(self.tokens, place.row)
        written, spots = dict[Spot, Array](), list[list[tuple[int, int]]]()
        for head in range(heads):
            group, score = divmod(head, each)
            spots.append([(group * GROUP, self._rows.scores + score * pieces + piece) for piece in range(pieces)])
            for piece, (bank, row) in enumerate(spots[-1]):
                mine = left[head, piece * place.row : (piece + 1) * place.row]
                written |= self._spots(bank + LEFT, row, mine)
                written |= self._spots(bank + RIGHT, row, np.full(len(mine), right[head], np.float32))
        t = self._run(name, Traffic(written))
        return np.stack([
            np.concatenate([self._read(t, bank + PRODUCT, row) for bank, row in of])[: self.tokens] for of in spots
        ])  # fmt: skip

    def _values(self, shares: Array) -> Array:
        """Probabilities times values, bfloat16[heads * head]."""
        layer, place = self.layer, self.place
        heads, pieces, turns = (
            ceil_div(layer.kv_heads, place.block_channels), ceil_div(self.tokens, place.row), layer.head // place.banks,
        )  # fmt: skip
        whole = np.zeros((place.block_channels * heads, layer.repeat, pieces * place.row), BF16)
        whole[: layer.kv_heads, :, : self.tokens] = shares.reshape(layer.kv_heads, layer.repeat, -1)
        by_channel = whole.reshape(place.block_channels, heads, layer.repeat, pieces, -1, LANES)
        vectors = [
            np.tile(by_channel[:, head, sharer, piece], (place.side_by_side, 1, 1))
            for head in range(heads) for sharer in range(layer.repeat) for piece in range(pieces)
        ]  # fmt: skip
        t = Traffic(vectors=vectors)
        t.bias = lambda k: t.results[k - turns] if k // turns % pieces else None
        results = np.array(self._run("values", t).results)[:, : place.block_channels]
        last = results.reshape(heads, layer.repeat, pieces, turns, place.block_channels, place.banks)[:, :, -1]
        return last.transpose(3, 0, 1, 2, 4).reshape(-1)[: layer.heads * layer.head]
