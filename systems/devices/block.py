"""PIM-GPT on real numbers: a decoder block run command by command, in bfloat16, by the streams that are timed."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.program import PimStep
from pimloom.arch.table import Table
from pimloom.cycle_sim import asic_math as asic
from pimloom.mappers.decode import Decoder
from pimloom.mappers.layout import Packed
from pimloom.mappers.plan import Plan
from pimloom.systems.devices.functional import BF16, Memory

Array: TypeAlias = np.ndarray


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
