"""PIM-GPT's mapping of a GPT-2-style decoder: layouts of one layer, and capacity."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, newer
from pimloom.arch.units import ceil_div
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
