"""The steps of one token of a GPT-2-style decoder on PIM-GPT."""

from pimloom.arch.program import AsicStep, PimStep, Step
from pimloom.arch.table import Table
from pimloom.arch.units import ceil_div
from pimloom.mappers.gemv import product, weighted_sum, write_k, write_v
from pimloom.mappers.layout import Packed, RowAligned
from pimloom.mappers.plan import Layer, Plan


def _heads(layout: Packed, width: int) -> list[list[int]]:
    """Per chunk, the widths of the heads or pieces of heads in it: each piece gives one partial result."""
    pieces: list[list[int]] = []
    for chunk, size in enumerate(layout.chunks):
        first, last = chunk * layout.geo.row, chunk * layout.geo.row + size
        edges = [first, *range(ceil_div(first + 1, width) * width, last, width), last]
        pieces.append([b - a for a, b in zip(edges, edges[1:], strict=False)])
    return pieces


def _sums(name: str, w: Packed, more: int) -> AsicStep:
    """Additions of the partial results of y = x W, and of `more` vectors: a bias, residuals."""
    return AsicStep(name, "add", w.n_out * (len(w.chunks) - 1 + more))


class Decoder:
    """Makes the steps of a token; streams that do not change from token to token are made once per layer."""

    def __init__(self, plan: Plan, table: Table) -> None:
        self.plan, self.table = plan, table
        self._made: dict[tuple, PimStep] = {}
        self._layers: dict[int, Layer] = {}

    def timed_steps(self, t: int) -> list[Step]:
        """As `layer_steps` of layer 0, but writes of K and V may be those of another token that take the same time."""
        return self._steps(t, self._layer(0), anywhere=True)

    def layer_steps(self, t: int, layer: int = 0) -> list[Step]:
        """Steps of one layer for the token at position t (1 = first), in order (specification 3.4).

        Attention and FFN of a parallel block are added to its input together, behind the FFN; both norms take the same
        input, so the second finds mean and variance there and only normalises.
        """
        return self._steps(t, self._layer(layer), anywhere=False)

    def _layer(self, index: int) -> Layer:
        if index not in self._layers:
            self._layers[index] = self.plan.layer(index)
        return self._layers[index]

    def _steps(self, t: int, at: Layer, *, anywhere: bool) -> list[Step]:
        spec, parallel = self.plan.spec, self.plan.spec.parallel_attention
        d, f, h = spec.hidden_size, spec.intermediate_size, spec.num_attention_heads
        steps: list[Step] = [
            AsicStep("LayerNorm 1", "layernorm", d),
            self._product("QKV", at.qkv),
            _sums("QKV partial sums and bias", at.qkv, spec.attention_bias),
            self._k_write(at.k, t - 1, anywhere),
            self._v_write(at.v, t - 1, anywhere),
            self._score(at.k, t),
            AsicStep("softmax", "softmax", h * t),
            self._weighted_sum(at.v, t),
            self._product("projection", at.projection),
            _sums("projection partial sums and residual", at.projection, spec.projection_bias + (not parallel)),
            AsicStep("LayerNorm 2", "normalise" if parallel else "layernorm", d),
            self._product("FFN1", at.ffn1),
            _sums("FFN1 partial sums and bias", at.ffn1, spec.ffn_bias),
            AsicStep("activation", "activation", f),
            self._product("FFN2", at.ffn2),
            _sums("FFN2 partial sums and residual", at.ffn2, spec.ffn_bias + 1 + parallel),
        ]
        return [step for step in steps if isinstance(step, PimStep) or step.elements]

    def last_steps(self) -> list[Step]:
        """Steps behind the last layer: final LayerNorm and LM head if it is mapped, else none."""
        head = self.plan.head
        if head is None:
            return []
        width = self.plan.spec.hidden_size
        return [
            AsicStep("final LayerNorm", "layernorm", width),
            self._product("LM head", head),
            AsicStep("LM head partial sums", "add", head.n_out * len(head.chunks)),
        ]

    def moved_by_baseline(self, t: int) -> int:
        """Values that a processor without PIM reads for one layer and token: all weights, K and V of t tokens."""
        at = self._layer(0)
        return sum(w.n_in * w.n_out for w in at.weights) + 2 * self.plan.q_dim * t

    def _product(self, name: str, w: Packed) -> PimStep:
        key = (name, w.first_row)
        if key not in self._made:
            sent, received = self.plan.geo.channels * w.n_in, w.n_out * len(w.chunks)
            self._made[key] = PimStep(name, (name,), product(self.table, w), False, sent, received)
        return self._made[key]

    def _k_write(self, k: Packed, token: int, anywhere: bool) -> PimStep:
        key = ("K", token // self.plan.geo.all_banks)
        if not anywhere or key not in self._made:
            self._made[key] = PimStep("K write", key, write_k(self.table, k, token), True, self.plan.q_dim, 0)
        return self._made[key]

    def _v_write(self, v: RowAligned, token: int, anywhere: bool) -> PimStep:
        key = ("V",)
        if not anywhere or key not in self._made:
            self._made[key] = PimStep("V write", key, write_v(self.table, v, token), False, self.plan.q_dim, 0)
        return self._made[key]

    def _score(self, k: Packed, t: int) -> PimStep:
        slots, plan = ceil_div(t, self.plan.geo.all_banks), self.plan
        key = ("score", slots, k.first_row)
        if key not in self._made:
            stream = product(self.table, k, _heads(k, plan.head_width), slots)
            self._made[key] = PimStep("score", ("score", slots), stream, False, 0, 0)
        sent, received = plan.geo.channels * plan.q_dim, plan.spec.num_attention_heads * t
        return self._made[key]._replace(sent_values=sent, received_values=received)

    def _weighted_sum(self, v: RowAligned, t: int) -> PimStep:
        accesses, geo = ceil_div(t, self.plan.geo.lane), self.plan.geo
        key = ("p V", accesses, v.first_row)
        if key not in self._made:
            self._made[key] = PimStep("p V", ("p V", accesses), weighted_sum(self.table, v, t), False, 0, 0)
        sent, received = self.plan.spec.num_attention_heads * t, self.plan.q_dim * ceil_div(t, geo.row)
        return self._made[key]._replace(sent_values=sent, received_values=received)
