"""PIM-GPT on real numbers: a decoder block run command by command through the bank layout, in bfloat16.

Weights, K and V lie in an array of cells at the places that the mapper gives; the streams are the very ones that are
timed. What the specification leaves open is ours [design]: reading a result clears the accumulator; the k-th MAC after
a vector was loaded multiplies with entry k of the buffer, from the first again behind the last; WRAab writes one lane
of its column and leaves the others; a burst of RDMAC or WRAab carries a value for each of as many banks as it has
values, and the next burst those of the next banks.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.program import PimStep
from pimloom.arch.table import Table
from pimloom.cycle_sim import asic_math as asic
from pimloom.cycle_sim.pim_math import mac_columns, read_result
from pimloom.mappers.decode import Decoder, Plan
from pimloom.mappers.geometry import Geometry
from pimloom.mappers.layout import Packed, RowAligned

Array: TypeAlias = np.ndarray
BF16 = ml_dtypes.bfloat16


class Memory:
    """Banks of all channels, one accumulator each, and the channels' global buffers.

    cells: bfloat16[channel, bank, row, column, lane].
    """

    def __init__(self, table: Table, geo: Geometry, rows: int) -> None:
        self.table, self.geo = table, geo
        self.cells = np.zeros((geo.channels, geo.banks, rows, geo.row // geo.lane, geo.lane), BF16)

    def store(self, layout: Packed | RowAligned, matrix: Array) -> None:
        """Put matrix[n_in, n_out] where the mapper says."""
        outputs: Any = np.arange(layout.n_out)
        for i in range(layout.n_in):
            self.cells[layout.place(i, outputs)] = matrix[i]

    def multiply(self, stream: Array, vectors: Array) -> Array:
        """Run a product's stream; float32 sums of all results, bfloat16[results, channel * bank].

        vectors: bfloat16[loads, channels or 1, elements], one for each WRGB row, filled up with 0.
        """
        wrgb, mac, rdmac = map(self.table.cmd, ("WRGB", "MACab", "RDMAC"))
        loads, results = iter(vectors), []
        read: list[Array] = []
        acc, entries, entry = np.zeros(self.cells.shape[:2], np.float32), 0, 0
        for command in stream:
            if command["cmd"] == wrgb:
                entries, entry = command["count"], 0
                buffer = next(loads)[:, : entries * self.geo.lane].reshape(-1, 1, entries, self.geo.lane)
            elif command["cmd"] == mac:
                first, count = command["col"], command["count"]
                columns = self.cells[:, :, command["row"], first + np.arange(count)]  # not a slice, which would be cut
                acc = mac_columns(acc, columns, buffer[:, :, (entry + np.arange(count)) % entries])
                entry = (entry + count) % entries
            elif command["cmd"] == rdmac:
                for _ in range(command["count"]):
                    read.append(read_result(acc)[:, self._banks(len(read))])
                    if len(read) == self.geo.bursts:
                        results.append(np.concatenate(read, axis=1).reshape(-1))
                        acc, read = np.zeros_like(acc), []
        return np.array(results)

    def _banks(self, burst: int) -> Any:
        """The banks of a channel whose values come with a burst."""
        return slice(burst * self.geo.lane, (burst + 1) * self.geo.lane)

    def write_one_bank(self, stream: Array, channel: int, values: Array) -> None:
        """Run a stream of WR on one channel: values bfloat16[elements], a column after the other."""
        columns = iter(values.reshape(-1, self.geo.lane))
        for command in stream[stream["cmd"] == self.table.cmd("WR")]:
            bank = command["bg"] * (self.geo.banks // self.geo.bank_groups) + command["bank"]
            for column in range(command["col"], command["col"] + command["count"]):
                self.cells[channel, bank, command["row"], column] = next(columns)

    def write_all_banks(self, stream: Array, lane: int, values: Array) -> None:
        """Run a stream of WRAab: values bfloat16[slots, channel * bank], one lane of each column."""
        commands = stream[stream["cmd"] == self.table.cmd("WRAab")].reshape(-1, self.geo.bursts)
        for bursts, value in zip(commands, values.reshape(-1, *self.cells.shape[:2]), strict=True):
            for burst, command in enumerate(bursts):
                banks = self._banks(burst)
                self.cells[:, banks, command["row"], command["col"], lane] = value[:, banks]


@dataclass(frozen=True)
class Weights:
    """One GPT-2 block, matrices [n_in, n_out] as in y = x W: QKV one behind the other, heads inside."""

    qkv: Array
    projection: Array
    ffn1: Array
    ffn2: Array
    qkv_bias: Array
    projection_bias: Array
    ffn1_bias: Array
    ffn2_bias: Array
    norm1: tuple[Array, Array]
    norm2: tuple[Array, Array]


@asic.bf16_ports
def add_residual(partials: Array, bias: Array, residual: Array) -> Array:
    """Partial results, bias and residual, rounded once."""
    return asic.add(asic.accumulate_partials(partials, bias), residual.astype(np.float32))


@asic.bf16_ports
def scale_query(query: Array, *, head_dim: int) -> Array:
    """q / sqrt(head_dim), so that softmax takes the scores as they are."""
    return asic.mul(query.astype(np.float32), head_dim**-0.5)


class Block:
    """One GPT-2 layer with its K and V, token by token. Raises UserError for other models."""

    def __init__(self, plan: Plan, table: Table, weights: Weights, layer: int = 0) -> None:
        if plan.spec.model_type != "gpt2":
            raise UserError(f"{plan.spec.name}: only gpt2 blocks run on real numbers, not {plan.spec.model_type}")
        self.plan, self.weights, self.layer, self.at = plan, weights, layer, plan.layer(layer)
        self.decoder, self.memory = Decoder(plan, table), Memory(table, plan.geo, plan.rows)
        for layout, name in zip(self.at.weights, ("qkv", "projection", "ffn1", "ffn2"), strict=True):
            self.memory.store(layout, getattr(weights, name).astype(BF16))
        self.tokens = 0

    def run(self, x: Array) -> Array:
        """The block's output for the next token, bfloat16[d] to bfloat16[d]."""
        self.tokens += 1
        spec, at, w = self.plan.spec, self.at, self.weights
        steps = {s.name: s for s in self.decoder.layer_steps(self.tokens, self.layer) if isinstance(s, PimStep)}
        normed = asic.layernorm_bf16(x, *w.norm1)
        qkv = asic.accumulate_partials_bf16(self._product(steps["QKV"], at.qkv, normed), w.qkv_bias)
        query, key, value = qkv.reshape(3, spec.num_attention_heads, spec.head_dim)
        self._write_k(steps["K write"], key)
        self._write_v(steps["V write"], value)
        scores = self._score(steps["score"], scale_query(query, head_dim=spec.head_dim))
        mixed = self._weighted_sum(steps["p V"], asic.softmax_bf16(scores))
        x = add_residual(self._product(steps["projection"], at.projection, mixed), w.projection_bias, x)
        normed = asic.layernorm_bf16(x, *w.norm2)
        hidden = asic.accumulate_partials_bf16(self._product(steps["FFN1"], at.ffn1, normed), w.ffn1_bias)
        hidden = asic.gelu_bf16(hidden)
        return add_residual(self._product(steps["FFN2"], at.ffn2, hidden), w.ffn2_bias, x)

    def _chunks(self, x: Array) -> Array:
        """x[…, elements] cut into buffers: [chunk, …, row], filled up with 0."""
        row = self.plan.geo.row
        padded = np.concatenate([x, np.zeros((*x.shape[:-1], -x.shape[-1] % row), BF16)], axis=-1)
        return np.moveaxis(padded.reshape(*x.shape[:-1], -1, row), -2, 0)

    def _product(self, step: PimStep, layout: Packed, x: Array) -> Array:
        """Partial results of y = x W: bfloat16[chunks, n_out]."""
        results = self.memory.multiply(step.stream, self._chunks(x[None]))
        return results.reshape(len(layout.chunks), -1)[:, : layout.n_out]

    def _pad_heads(self, x: Array) -> Array:
        """[heads, head_dim] to one vector of heads in whole column accesses, as K lies in its rows."""
        return np.pad(x, ((0, 0), (0, self.plan.head_width - x.shape[1]))).reshape(-1)

    def _write_k(self, step: PimStep, key: Array) -> None:
        channel, _ = self.plan.geo.bank_of((self.tokens - 1) % self.plan.geo.all_banks)
        self.memory.write_one_bank(step.stream, channel, self._pad_heads(key))

    def _write_v(self, step: PimStep, value: Array) -> None:
        place = self.at.v.place(self.tokens - 1, 0)
        self.memory.write_all_banks(step.stream, place.lane, self._by_slot(value.reshape(-1)))

    def _by_slot(self, x: Array) -> Array:
        """[dimensions, …] to [slots, channel * bank, …], filled up with 0."""
        missing = self.at.v.slots * self.plan.geo.all_banks - len(x)
        return np.concatenate([x, np.zeros((missing, *x.shape[1:]), BF16)]).reshape(self.at.v.slots, -1, *x.shape[1:])

    def _score(self, step: PimStep, query: Array) -> Array:
        """q K^T: bfloat16[heads, tokens]; a head cut by the end of a chunk has two partial results."""
        k, width, heads = self.at.k, self.plan.head_width, self.plan.spec.num_attention_heads
        results = iter(self.memory.multiply(step.stream, self._chunks(self._pad_heads(query)[None])))
        slots = -(-self.tokens // self.plan.geo.all_banks)
        parts = np.zeros((len(k.chunks), heads, slots, self.plan.geo.all_banks), BF16)
        for chunk, size in enumerate(k.chunks):
            first = chunk * self.plan.geo.row
            for slot in range(slots):
                for head in range(first // width, -(-(first + size) // width)):
                    parts[chunk, head, slot] = next(results)
        scores = asic.accumulate_partials_bf16(parts, 0.0)
        return scores.reshape(heads, -1)[:, : self.tokens]

    def _weighted_sum(self, step: PimStep, p: Array) -> Array:
        """p V: bfloat16[d]; for each slot, a channel's buffer holds the p of the head whose dimensions it has."""
        v, geo = self.at.v, self.plan.geo
        by_dimension = self._by_slot(np.repeat(p, self.plan.spec.head_dim, axis=0))
        by_channel = by_dimension[:, :: geo.banks]  # [slots, channels, tokens]
        vectors = np.moveaxis(self._chunks(by_channel), 0, 1).reshape(-1, geo.channels, geo.row)
        results = self.memory.multiply(step.stream, vectors).reshape(v.slots, -1, geo.all_banks)
        return asic.accumulate_partials_bf16(np.moveaxis(results, 1, 0)).reshape(-1)[: v.n_out]
