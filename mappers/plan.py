"""Where PIM-GPT puts a decoder: layouts of each layer's matrices, keys and values, and whether they fit."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, groupby
from math import gcd
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import ceil_div
from pimloom.mappers.geometry import Geometry
from pimloom.mappers.layout import Packed, RowAligned
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers, layer_ops

GELU = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh")
ACTIVATIONS = (*GELU, "relu", "silu")  # one pass of the ASIC each
MOST_CHANNELS = 1024  # that `dram.channels` takes
TOKEN_STEP = 128  # the specification gives capacities in steps of 128 tokens
ONE = Batch.decode([1])


class Weight(NamedTuple):
    """Matrices of one operator, equal in size: `copies` is 1, or one for each expert."""

    name: str
    n_in: int
    n_out: int
    copies: int

    def abreast(self, geo: Geometry) -> int:
        """How many share rows, in banks of their own: whole matrices only."""
        return max(geo.all_banks // self.n_out, 1)

    def rows(self, geo: Geometry) -> int:
        """Rows per bank of all of them."""
        return ceil_div(self.copies, self.abreast(geo)) * Packed(geo, self.n_in, self.n_out).rows

    def layouts(self, geo: Geometry, first_row: int) -> tuple[Packed, ...]:
        """Where each lies."""
        rows, abreast = Packed(geo, self.n_in, self.n_out).rows, self.abreast(geo)
        places = (divmod(i, abreast) for i in range(self.copies))
        return tuple(Packed(geo, self.n_in, self.n_out, first_row + a * rows, b * self.n_out) for a, b in places)


class Layer(NamedTuple):
    """Layouts of one decoder layer, one behind the other in every bank. matrices: by operator, one for each expert.

    Experts with fewer outputs than there are banks lie side by side.
    """

    first_row: int
    matrices: Mapping[str, tuple[Packed, ...]]
    k: Packed
    v: RowAligned

    @property
    def rows(self) -> int:
        """Rows of a bank that the layer takes."""
        return self.v.end_row - self.first_row

    @property
    def weights(self) -> tuple[Packed, ...]:
        """All weight matrices, in the order in which they lie."""
        return tuple(w for each in self.matrices.values() for w in each)


@dataclass(frozen=True)
class Plan:
    """A model on a memory, with room for `tokens` tokens. Use `plan` to make one that fits.

    A layer with a window keeps K and V of its last tokens only: token i, from 0 on, lies where token i - window lay.
    """

    spec: LlmSpec
    geo: Geometry
    tokens: int
    lm_head: bool = False

    @property
    def q_dim(self) -> int:
        """Width of Q: all heads concatenated."""
        return self.spec.num_attention_heads * self.spec.head_dim

    @property
    def kv_dim(self) -> int:
        """Width of K and of V: all their heads concatenated."""
        return self.spec.num_key_value_heads * self.spec.head_dim

    @property
    def sharing(self) -> int:
        """Query heads that share a head of K and V."""
        return self.spec.num_attention_heads // self.spec.num_key_value_heads

    @property
    def head_width(self) -> int:
        """A head's values in whole column accesses [elements]."""
        return ceil_div(self.spec.head_dim, self.geo.lane) * self.geo.lane

    def kept(self, layer: int = 0, tokens: int | None = None) -> int:
        """Tokens of K and V that a layer holds when `tokens` have been there (default: all), so many it attends to."""
        return Batch.decode([self.tokens if tokens is None else tokens]).kept(self.spec.window_of(layer))

    def weights_of(self, layer: int) -> tuple[Weight, ...]:
        """Matrices of a layer."""
        return _weights_of(self.spec, layer)

    def layer(self, index: int = 0) -> Layer:
        """Layouts of layer `index`."""
        geo, first = self.geo, self._first_rows[index]
        matrices, row = dict[str, tuple[Packed, ...]](), first
        for weight in self.weights_of(index):
            matrices[weight.name] = weight.layouts(geo, row)
            row += weight.rows(geo)
        k = Packed(geo, self.spec.num_key_value_heads * self.head_width, self.kept(index), row)
        return Layer(first, matrices, k, RowAligned(geo, self.kept(index), self.kv_dim, k.end_row))

    @cached_property
    def kinds(self) -> dict[int, int]:
        """The first layer that is like a layer, for each."""
        return _kinds(self.spec)

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """Equal layers that follow each other: the first of each run, and how many they are."""
        layers = range(self.spec.num_hidden_layers)
        groups = (list(group) for _, group in groupby(layers, self.kinds.__getitem__))
        return tuple((group[0], len(group)) for group in groups)

    @cached_property
    def _rows_by_kind(self) -> dict[int, tuple[int, int]]:
        """Rows of the weights of a layer, and of its K and V, for the first layer of each kind."""
        geo, found = self.geo, dict[int, tuple[int, int]]()
        for first in dict.fromkeys(self.kinds.values()):
            weights = _weight_rows(self.spec, geo, first)
            k = Packed(geo, self.spec.num_key_value_heads * self.head_width, self.kept(first))
            found[first] = weights, k.rows + RowAligned(geo, self.kept(first), self.kv_dim).rows
        return found

    @cached_property
    def _first_rows(self) -> list[int]:
        """First row of each layer, and of what stands behind them all."""
        rows = {first: weights + cache for first, (weights, cache) in self._rows_by_kind.items()}
        return [0, *accumulate(rows[first] for first in self.kinds.values())]

    @property
    def head(self) -> Packed | None:
        """The LM head, behind all layers, if it is mapped: a matrix of its own, tied or not; no embedding is in PIM."""
        last = self._first_rows[-1]
        return Packed(self.geo, self.spec.hidden_size, self.spec.vocab_size, last) if self.lm_head else None

    @property
    def weight_rows(self) -> int:
        """Rows per bank of all weights."""
        head = self.head.rows if self.head else 0
        return head + sum(self._rows_by_kind[self.kinds[i]][0] for i in range(self.spec.num_hidden_layers))

    def in_channels(self, channels: int) -> int:
        """Rows per bank of the same on another number of channels."""
        return Plan(self.spec, self.geo._replace(channels=channels), self.tokens, self.lm_head).rows

    @property
    def rows(self) -> int:
        """Rows per bank of all weights and of K and V."""
        return self._first_rows[-1] + (self.head.rows if self.head else 0)


@lru_cache(maxsize=64)
def _kinds(spec: LlmSpec) -> dict[int, int]:
    groups = equal_layers(spec, range(spec.num_hidden_layers))
    return dict(sorted((layer, group[0]) for group in groups for layer in group))


def _weights_of(spec: LlmSpec, layer: int) -> tuple[Weight, ...]:
    made = (op for op in layer_ops(spec, ONE, layer=layer) if op.kind == "gemm")
    return tuple(Weight(op.name, op.n_in, op.n_out, op.held) for op in made)


@lru_cache(maxsize=256)
def _weight_rows(spec: LlmSpec, geo: Geometry, layer: int) -> int:
    """Rows of the weights of a layer."""
    return sum(weight.rows(geo) for weight in _weights_of(spec, layer))


def check_shape(spec: LlmSpec, geo: Geometry) -> None:
    """Raise UserError for a model that PIM-GPT's mapping does not cover."""
    if spec.kv_lora_rank:
        raise UserError(
            f"{spec.name}: PIM-GPT has no rule for a compressed cache (MLA): it would need products of each query head "
            "with a matrix of its own, and a second copy of the cache, for keys serve as values across the banks"
        )
    layer_ops(spec, ONE)  # raises for fields that contradict each other
    if spec.activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(f"{spec.name}: PIM-GPT's ASIC has no unit for activation {spec.activation!r}; expected {known}")
    if spec.head_dim % geo.banks:
        raise UserError(
            f"{spec.name}: head_dim {spec.head_dim} must be a multiple of the {geo.banks} banks of a channel: "
            f"they share one buffered head of softmax probabilities; take a part with {gcd(spec.head_dim, geo.banks)}"
        )


@lru_cache(maxsize=256)
def max_tokens(spec: LlmSpec, geo: Geometry, lm_head: bool = False) -> int:
    """The largest token count, in steps of 128, whose K and V fit beside the weights; 0 if not even one step does.

    Where windows bound K and V, any number fits: it is the model's positions then, in whole steps.
    """
    low, high = 0, geo.rows * geo.row * geo.all_banks // TOKEN_STEP
    if all(spec.window_of(layer) for layer in range(spec.num_hidden_layers)):
        high = min(high, max(spec.max_position_embeddings // TOKEN_STEP, 1))
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
        raise UserError(
            f"{spec.name} with {tokens:,} tokens needs {found.rows * row_bytes:,} bytes of PIM memory, "
            f"there are {geo.rows * row_bytes:,}: {_what_fits(found)}"
        )
    return found


def _what_fits(plan: Plan) -> str:
    """What to say of a plan that is too large: what fits, and the fewest channels that would do, if any number does."""
    geo, counts = plan.geo, range(plan.geo.channels, MOST_CHANNELS + 1)
    at = bisect_left(counts, True, key=lambda n: plan.in_channels(n) <= geo.rows)  # no more rows with more channels
    enough = counts[at] if at < len(counts) else 0
    for_all = f"; for {plan.tokens:,} --set dram.channels={enough}" if enough else ""
    if most := max_tokens(plan.spec, geo, plan.lm_head):
        return f"at most {most:,} tokens fit{for_all}"
    if plan.weight_rows <= geo.rows:
        return f"fewer than {TOKEN_STEP} tokens fit beside its weights{for_all}"
    or_larger = f" or --set dram.channels={enough}" if enough else ""
    need = plan.weight_rows * geo.row * geo.element_bytes * geo.all_banks
    return f"its weights alone take {need:,}; take a smaller model{or_larger}"
