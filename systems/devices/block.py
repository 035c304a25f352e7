"""PIM-GPT on real numbers: a decoder block, operator by operator, in bfloat16.

The streams are the very ones that are timed; an operator of the ASIC takes and gives bfloat16.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.program import PimStep
from pimloom.arch.table import Table
from pimloom.cycle_sim import asic_math as asic
from pimloom.mappers.decode import PRODUCTS, Decoder, Stage
from pimloom.mappers.gemv import loads
from pimloom.mappers.geometry import Geometry
from pimloom.mappers.layout import Packed
from pimloom.mappers.plan import GELU, Plan
from pimloom.systems.devices.functional import BF16, Memory
from pimloom.workload.op import Op

Array: TypeAlias = np.ndarray
UNITS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(GELU, asic.gelu_bf16), "relu": asic.relu_bf16, "silu": asic.silu_bf16
}  # fmt: skip


@dataclass(frozen=True)
class Weights:
    """One block, by the names of its operators.

    matrices: [n_in, n_out] as in y = x W, one for each expert; Q, K and V one behind the other, heads inside, as gate
    and up. biases: as the matrices, where there are any. norms: gamma, and LayerNorm's beta. sinks: of each head.
    frequencies: the angle of a pair of rotated elements from token to token. cap: of the scores.
    """

    matrices: Mapping[str, Sequence[Array]]
    biases: Mapping[str, Sequence[Array]] = field(default_factory=dict)
    norms: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    sinks: Array | None = None
    frequencies: Array | None = None
    cap: float = 50.0


@asic.bf16_ports
def sum_up(partials: Array, bias: Array, *others: Array) -> Array:
    """Partial results, bias and other vectors in order, rounded once."""
    total = asic.accumulate_partials(partials, bias)
    for other in others:
        total = asic.add(total, other.astype(np.float32))
    return total


@asic.bf16_ports
def multiply(a: Array, b: Array, /) -> Array:
    """Products, element by element; broadcasts."""
    return asic.mul(a.astype(np.float32), b.astype(np.float32))


@asic.bf16_ports
def scale_query(query: Array, *, head_dim: int) -> Array:
    """q / sqrt(head_dim), so that softmax takes the scores as they are."""
    return asic.mul(query.astype(np.float32), head_dim**-0.5)


def largest(x: Array, n: int) -> list[int]:
    """Places of the n largest of x[elements], the first of equal ones before the others."""
    return np.argsort(-x.astype(np.float32), kind="stable")[:n].tolist()


class Block:
    """One layer with its K and V, token by token. Raises UserError for weights of other sizes, or other biases."""

    def __init__(self, plan: Plan, table: Table, weights: Weights, layer: int = 0) -> None:
        self.plan, self.weights, self.layer, self.at = plan, weights, layer, plan.layer(layer)
        self.decoder, self.memory = Decoder(plan, table), Memory(table, plan.geo, plan.rows)
        for name, layouts in self.at.matrices.items():
            given = [w.shape for w in weights.matrices.get(name, ())]
            if given != [(w.n_in, w.n_out) for w in layouts]:
                shape = f"{len(layouts)} of {layouts[0].n_in} x {layouts[0].n_out}"
                raise UserError(f"{plan.spec.name}: weights of {name}: expected {shape}, got {given}")
            for layout, matrix in zip(layouts, weights.matrices[name], strict=True):
                self.memory.store(layout, matrix.astype(BF16))
        biased = {
            stage.op.name for stage in self.decoder.stages(1, layer) if stage.op.kind == "gemm" and stage.op.biased
        }
        if biased != weights.biases.keys():
            raise UserError(f"{plan.spec.name}: biases: expected of {sorted(biased)}, got {sorted(weights.biases)}")
        self.tokens = 0

    def run(self, x: Array) -> Array:
        """The block's output for the next token, bfloat16[d] to bfloat16[d]."""
        self.tokens += 1
        self._steps = {
            s.name: s for s in self.decoder.layer_steps(self.tokens, self.layer) if isinstance(s, PimStep)
        }  # those of experts are made where they are chosen
        self._residual, self._values = x, dict[str, Array]()
        last = x
        for stage in self.decoder.stages(self.tokens, self.layer):
            op = stage.op
            given = self._values.get(op.after[0], x) if op.after else x
            last = self._values[op.name] = self._run(stage, given)
            if stage.total:
                self._values[stage.total.name] = last
            if "residual" in (stage.total or op).name:
                self._residual = last
        return last

    def _run(self, stage: Stage, x: Array) -> Array:
        """What an operator makes of the result of the first that it waits for."""
        op = stage.op
        match op.kind:
            case "gemm":
                return self._matrices(stage, x)
            case "norm":
                return self._norm(op, x)
            case "rotary":
                return self._rotate(x)
            case "cache_write":
                return self._write(x)
            case "score":
                return self._score(x)
            case "softmax":
                return self._softmax(op, x)
            case "value":
                return self._weighted_sum(x)
            case "activation" if op.function == "softcap":
                return asic.softcap_bf16(x, cap=self.weights.cap)
            case "activation":
                gate, *up = np.split(x, op.terms, axis=-1)
                return multiply(UNITS[op.function](gate), *up) if up else UNITS[op.function](gate)
            case "router":
                self._chosen = largest(x, op.n_out)
                return asic.softmax_bf16(x[self._chosen])
            case _:
                return self._add(op, x)

    def _matrices(self, stage: Stage, x: Array) -> Array:
        """Products with partial results, bias and what `total` adds; of experts one for each that is chosen."""
        op, layouts = stage.op, self.at.matrices[stage.op.name]
        name, biases = PRODUCTS[op.name][0], self.weights.biases.get(op.name)
        others = [self._values[other] for other in stage.total.after if other != op.name] if stage.total else []
        others += [self._residual] if stage.total else []
        if op.name == "mlp.gate":
            self._into_ffn = x
        if not op.each:
            bias = biases[0] if biases else np.zeros(op.n_out)
            return sum_up(self._product(self._steps[name], layouts[0], x), bias, *others)
        first = op.after == ("mlp.router",)
        found = []
        for i, expert in enumerate(self._chosen):
            layout, into = layouts[expert], self._into_ffn if first else x[i]
            bias = biases[expert] if biases else np.zeros(op.n_out)
            step = self.decoder.product(name, layout)
            found.append(sum_up(self._product(step, layout, into), bias))
        return sum_up(np.array(found), np.zeros(op.n_out), *others) if stage.total else np.array(found)

    def _norm(self, op: Op, x: Array) -> Array:
        """Of the residual stream or a product; or of Q or K inside the vector of both and V, by heads or as a whole."""
        unit = asic.rmsnorm_bf16 if op.function == "rmsnorm" else asic.layernorm_bf16
        gains = self.weights.norms[op.name]
        if unit is asic.layernorm_bf16 and len(gains) == 1:
            gains = (*gains, np.zeros_like(gains[0]))
        if op.name not in ("self_attn.q_norm", "self_attn.k_norm"):
            return unit(x, *gains)
        first = 0 if op.name == "self_attn.q_norm" else self.plan.q_dim
        mine = x[first : first + op.rows * op.n_in].reshape(op.rows, op.n_in)
        if gains[0].ndim == 2:  # each head has its own
            normed = np.array([unit(row, *(g[i] for g in gains)) for i, row in enumerate(mine)])
        else:
            normed = unit(mine, *gains)
        return np.concatenate([x[:first], normed.reshape(-1), x[first + mine.size :]])

    def _add(self, op: Op, x: Array) -> Array:
        """Experts weighted by their shares, and shared ones; or a residual."""
        if op.function != "weighted":
            return sum_up(x[None], np.zeros(len(x)), self._residual)
        terms = multiply(self._values["mlp.router"][:, None], x)
        others = [self._values[name] for name in op.after[1:]]
        return sum_up(np.concatenate([terms, *(other[None] for other in others)]), np.zeros(op.n_out))

    def _rotate(self, x: Array) -> Array:
        spec, angles = self.plan.spec, self.weights.frequencies
        assert angles is not None
        angles = angles * (self.tokens - 1)
        both = self.plan.q_dim + self.plan.kv_dim
        turned = asic.rotate_bf16(x[:both].reshape(-1, spec.head_dim), np.cos(angles), np.sin(angles))
        return np.concatenate([turned.reshape(-1), x[both:]])

    def _write(self, x: Array) -> Array:
        """K and V of the token to their banks; returns Q, by heads."""
        spec, plan = self.plan.spec, self.plan
        query, key, value = np.split(x, (plan.q_dim, plan.q_dim + plan.kv_dim))
        place = (self.tokens - 1) % self.at.k.n_out
        channel, _ = plan.geo.bank_of(place % plan.geo.all_banks)
        padded = self._pad_heads(key.reshape(-1, spec.head_dim))
        self.memory.write_one_bank(self._steps["K write"].stream, channel, padded)
        lane = self.at.v.place(place, 0).lane
        self.memory.write_all_banks(self._steps["V write"].stream, lane, self._by_slot(value))
        return query.reshape(-1, spec.head_dim)

    def _softmax(self, op: Op, x: Array) -> Array:
        if not op.biased:
            return asic.softmax_bf16(x)
        assert self.weights.sinks is not None
        sinks = self.weights.sinks.astype(BF16)[:, None]
        return asic.softmax_bf16(np.concatenate([x, sinks], axis=1))[:, :-1]

    def _chunks(self, x: Array) -> Array:
        """x[…, elements] cut into buffers: [chunk, …, row], filled up with 0."""
        row = self.plan.geo.row
        padded = np.concatenate([x, np.zeros((*x.shape[:-1], -x.shape[-1] % row), BF16)], axis=-1)
        return np.moveaxis(padded.reshape(*x.shape[:-1], -1, row), -2, 0)

    def _product(self, step: PimStep, layout: Packed, x: Array) -> Array:
        """Partial results of y = x W: bfloat16[chunks, n_out]."""
        results = self.memory.multiply(step.stream, self._chunks(x[None])).reshape(len(layout.chunks), -1)
        return results[:, layout.first_bank : layout.first_bank + layout.n_out]

    def _pad_heads(self, x: Array) -> Array:
        """[heads, head_dim] to one vector of heads in whole column accesses, as K lies in its rows."""
        return np.pad(x, ((0, 0), (0, self.plan.head_width - x.shape[1]))).reshape(-1)

    def _by_slot(self, x: Array) -> Array:
        """[dimensions, …] to [slots, channel * bank, …], filled up with 0."""
        missing = self.at.v.slots * self.plan.geo.all_banks - len(x)
        return np.concatenate([x, np.zeros((missing, *x.shape[1:]), BF16)]).reshape(self.at.v.slots, -1, *x.shape[1:])

    def _score(self, query: Array) -> Array:
        """q K^T: bfloat16[heads, tokens]; a head cut by the end of a chunk has two partial results.

        Heads that share K follow each other; the i-th of each group are one vector, as long as a token's K.
        """
        plan, k, geo, sharing = self.plan, self.at.k, self.plan.geo, self.plan.sharing
        width, seen = plan.head_width, plan.kept(self.layer, self.tokens)
        scaled = scale_query(query, head_dim=plan.spec.head_dim)
        vectors = np.array([self._chunks(self._pad_heads(scaled[i::sharing])) for i in range(sharing)])
        sweeps = [
            (c, n) for c, size in enumerate(k.chunks) for n in np.split(np.arange(sharing), _ends(geo, size, sharing))
        ]
        given = [vectors[n, c, : k.chunks[c]].reshape(1, -1) for c, n in sweeps]
        results = iter(self.memory.multiply(self._steps["score"].stream, given))
        slots = -(-seen // geo.all_banks)
        parts = np.zeros((len(k.chunks), len(query), slots, geo.all_banks), BF16)
        for chunk, together in sweeps:
            first, last = chunk * geo.row, chunk * geo.row + k.chunks[chunk]
            for slot in range(slots):
                for i in together:
                    for head in range(first // width, -(-last // width)):
                        parts[chunk, head * sharing + i, slot] = next(results)
        return asic.accumulate_partials_bf16(parts, 0.0).reshape(len(query), -1)[:, :seen]

    def _weighted_sum(self, p: Array) -> Array:
        """p V: bfloat16[heads * head_dim]; for each slot, a channel's buffer holds the p of the heads whose dimensions
        it has: of those that share them as many as it has room for."""
        v, geo, spec, sharing = self.at.v, self.plan.geo, self.plan.spec, self.plan.sharing
        vectors = np.zeros((sharing, v.slots, geo.channels, p.shape[1]), BF16)
        for i in range(sharing):
            vectors[i] = self._by_slot(np.repeat(p[i::sharing], spec.head_dim, axis=0))[:, :: geo.banks]
        given, order = list[Array](), list[tuple[int, int, int]]()
        for slot in range(v.slots):
            for chunk, first in enumerate(range(0, p.shape[1], geo.row)):
                part = vectors[:, slot, :, first : first + geo.row]
                part = np.pad(part, ((0, 0), (0, 0), (0, -part.shape[-1] % geo.lane)))
                for n in np.split(np.arange(sharing), _ends(geo, part.shape[-1], sharing)):
                    given.append(np.moveaxis(part[n], 0, 1).reshape(geo.channels, -1))
                    order += [(chunk, i, slot) for i in n]
        results = self.memory.multiply(self._steps["p V"].stream, given)
        parts = np.zeros((-(-p.shape[1] // geo.row), sharing, v.slots, geo.all_banks), BF16)
        for place, result in zip(order, results, strict=True):
            parts[place] = result
        mixed = asic.accumulate_partials_bf16(parts).reshape(sharing, -1)[:, : v.n_out]
        return mixed.reshape(sharing, -1, spec.head_dim).swapaxes(0, 1).reshape(-1)


def _ends(geo: Geometry, width: int, vectors: int) -> list[int]:
    """Where loads of the buffer begin, but the first."""
    return np.cumsum(loads(geo, width, vectors))[:-1].tolist()
