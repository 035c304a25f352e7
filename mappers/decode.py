"""PIM-GPT's mapping of a GPT-2-style decoder: layouts of one layer, capacity, and the steps of one token."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, newer
from pimloom.arch.program import AsicStep, PimStep, Step
from pimloom.arch.table import Table
from pimloom.arch.units import ceil_div
from pimloom.mappers.gemv import product, weighted_sum, write_k, write_v
from pimloom.mappers.geometry import Geometry
from pimloom.mappers.layout import Packed, RowAligned

ACTIVATIONS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu")  # one pass of the ASIC each
MOST_CHANNELS = 1024  # that `dram.channels` takes
TOKEN_STEP = 128  # the specification gives capacities in steps of 128 tokens


@dataclass(frozen=True)
class Layer:
    """Layouts of one decoder layer, one behind the other in every bank."""

    qkv: Packed
    projection: Packed
    ffn1: Packed
    ffn2: Packed
    k: Packed
    v: RowAligned

    @property
    def rows(self) -> int:
        """Rows of a bank that the layer takes."""
        return self.v.end_row - self.qkv.first_row

    @property
    def weights(self) -> tuple[Packed, ...]:
        """The four weight matrices."""
        return self.qkv, self.projection, self.ffn1, self.ffn2


@dataclass(frozen=True)
class Plan:
    """A model on a memory: `tokens` of K and V reserved in every layer. Use `plan` to make one that fits."""

    spec: LlmSpec
    geo: Geometry
    tokens: int
    lm_head: bool = False

    @property
    def q_dim(self) -> int:
        """Width of Q, K and V: all heads concatenated."""
        return self.spec.num_attention_heads * self.spec.head_dim

    @property
    def head_width(self) -> int:
        """A head's values in whole column accesses [elements]."""
        return ceil_div(self.spec.head_dim, self.geo.lane) * self.geo.lane

    def layer(self, index: int = 0) -> Layer:
        """Layouts of layer `index`."""
        spec, geo = self.spec, self.geo
        d, f = spec.hidden_size, spec.intermediate_size
        qkv = Packed(geo, d, 3 * self.q_dim, index * self._layer_rows if index else 0)
        projection = Packed(geo, self.q_dim, d, qkv.end_row)
        ffn1 = Packed(geo, d, f, projection.end_row)
        ffn2 = Packed(geo, f, d, ffn1.end_row)
        k = Packed(geo, spec.num_attention_heads * self.head_width, self.tokens, ffn2.end_row)
        v = RowAligned(geo, self.tokens, self.q_dim, k.end_row)
        return Layer(qkv, projection, ffn1, ffn2, k, v)

    @cached_property
    def _layer_rows(self) -> int:
        return self.layer(0).rows

    @property
    def head(self) -> Packed | None:
        """The LM head, behind all layers, if it is mapped."""
        first = self.spec.num_hidden_layers * self._layer_rows
        return Packed(self.geo, self.spec.hidden_size, self.spec.vocab_size, first) if self.lm_head else None

    @property
    def weight_rows(self) -> int:
        """Rows per bank of all weights."""
        head = self.head.rows if self.head else 0
        return head + self.spec.num_hidden_layers * sum(w.rows for w in self.layer().weights)

    def in_channels(self, channels: int) -> int:
        """Rows per bank of the same on another number of channels."""
        return Plan(self.spec, self.geo._replace(channels=channels), self.tokens, self.lm_head).rows

    @property
    def rows(self) -> int:
        """Rows per bank of all weights and of K and V."""
        return self.spec.num_hidden_layers * self._layer_rows + (self.head.rows if self.head else 0)


def check_shape(spec: LlmSpec, geo: Geometry) -> None:
    """Raise UserError for a model that PIM-GPT's mapping does not cover."""
    why = {
        "grouped-query attention": spec.num_key_value_heads != spec.num_attention_heads,
        "a gated FFN": spec.gated_ffn,
        "experts": spec.num_experts > 1 or spec.num_experts_per_tok > 1,
        "a sliding window": spec.sliding_window is not None,
        "RMSNorm": spec.norm != "layernorm",
        f"activation {spec.activation!r}": spec.activation not in ACTIVATIONS,
    }
    if found := [name for name, there in why.items() if there] + [*newer(spec)]:
        raise UserError(
            f"{spec.name}: PIM-GPT maps GPT-2-style decoders (gpt2, opt, gpt_neox), this {spec.model_type} model has "
            + " and ".join(found)
        )
    if spec.head_dim % geo.banks:
        raise UserError(
            f"{spec.name}: head_dim {spec.head_dim} must be a multiple of the {geo.banks} banks of a channel: "
            f"they share one buffered head of softmax probabilities; take a part with {gcd(spec.head_dim, geo.banks)}"
        )


def max_tokens(spec: LlmSpec, geo: Geometry, lm_head: bool = False) -> int:
    """The largest token count, in steps of 128, whose K and V fit beside the weights; 0 if not even one step does."""
    low, high = 0, geo.rows * geo.row * geo.all_banks // TOKEN_STEP
    while low < high:
        middle = (low + high + 1) // 2
        if Plan(spec, geo, middle * TOKEN_STEP, lm_head).rows <= geo.rows:
            low = middle
        else:
            high = middle - 1
    return low * TOKEN_STEP


def plan(spec: LlmSpec, geo: Geometry, tokens: int, lm_head: bool = False) -> Plan:
    """Map a model with room for `tokens` tokens. Raises UserError if it does not fit or cannot be mapped."""
    check_shape(spec, geo)
    found = Plan(spec, geo, tokens, lm_head)
    if found.rows > geo.rows:
        row_bytes = geo.row * geo.element_bytes * geo.all_banks
        most = max_tokens(spec, geo, lm_head)
        fits = f"at most {most:,} tokens fit" if most else _without_room(found)
        raise UserError(
            f"{spec.name} with {tokens:,} tokens needs {found.rows * row_bytes:,} bytes of PIM memory, "
            f"there are {geo.rows * row_bytes:,}: {fits}"
        )
    return found


def _without_room(plan: Plan) -> str:
    """What to say of a plan whose model leaves no room for a step of tokens."""
    if plan.weight_rows <= plan.geo.rows:
        return f"fewer than {TOKEN_STEP} tokens fit beside its weights"
    enough = next((n for n in range(plan.geo.channels, MOST_CHANNELS + 1) if plan.in_channels(n) <= plan.geo.rows), 0)
    larger = f" or --set dram.channels={enough}" if enough else ""
    need = plan.weight_rows * plan.geo.row * plan.geo.element_bytes * plan.geo.all_banks
    return f"its weights alone take {need:,}; take a smaller model{larger}"


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
