"""What a model needs, added up from its operators: parameters, memory for weights and caches, operations."""

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ALONE, WIDE, equal_layers, layer_ops, ops
from pimloom.workload.op import Bits, Op
from pimloom.workload.shard import Shard

ONE = Batch.decode([1])


def parameters(llm: LlmSpec, shard: Shard = ALONE) -> int:
    """Weights that a device keeps, all of them: matrices, experts, biases, norms, embeddings, LM head."""
    return sum(op.parameters * op.times for op in ops(llm, ONE, shard))


def active_parameters(llm: LlmSpec) -> int:
    """Weights that one token uses: of experts those that it goes to; of the embedding one row counts as none."""
    made = [op for op in ops(llm, ONE) if op.kind != "embedding"]
    return sum(op.moved.weights * op.times for op in made)


def weight_bytes(llm: LlmSpec, shard: Shard = ALONE, bits: Bits = WIDE) -> int:
    """Bytes of all weights of a device, including scales of quantised weights."""
    return -int(-stored_bits(ops(llm, ONE, shard), bits.weight) // BITS_PER_BYTE)


def stored_bits(found: Iterable[Op], element_bits: int) -> int | float:
    """Bits of all weights that a device stores for these operators, including scales of quantised weights."""
    return sum(op.parameters * op.times * (op.weight_bits or element_bits) for op in found)


@lru_cache(maxsize=256)
def matrix_bits(llm: LlmSpec, shard: Shard, layers: int | range, element_bits: int, ends: bool) -> int | float:
    """Bits of the matrices of `layers` layers with their biases, without norms. ends: include embedding, last norm and
    LM head."""
    some = layers if isinstance(layers, range) else range(layers)
    bits = 0 if not ends else stored_bits((op for op in ops(llm, ONE, shard) if not op.layers), element_bits)
    for group in equal_layers(llm, some):
        made = layer_ops(llm, ONE, shard, group[0])
        bits += len(group) * stored_bits((op for op in made if op.kind == "gemm"), element_bits)
    return bits


@lru_cache(maxsize=256)
def cache_elements(llm: LlmSpec, shard: Shard = ALONE) -> tuple[tuple[int, int | None, int], ...]:
    """Elements of a token's keys and values in one layer, its window and how many such layers a device has."""
    made = [op for op in ops(llm, ONE, shard) if op.kind == "cache_write"]
    return tuple((op.moved.cache_written, llm.window_of(op.layers[0]), op.times) for op in made)


def kv_bytes_per_token(llm: LlmSpec, shard: Shard = ALONE, bits: Bits = WIDE) -> int:
    """Bytes of a token's keys and values in all layers of a device, as long as no window is full."""
    elements = sum(each * times for each, _, times in cache_elements(llm, shard))
    return -int(-elements * llm.cache_bits(bits.cache) // BITS_PER_BYTE)


def kv_bytes(llm: LlmSpec, batch: Batch, shard: Shard = ALONE, bits: Bits = WIDE) -> int:
    """Bytes of the keys and values of a batch on a device; a window keeps a ring of its length."""
    parts = cache_elements(llm, shard)
    elements = sum(each * times * batch.kept(window) for each, window, times in parts)
    return -int(-elements * llm.cache_bits(bits.cache) // BITS_PER_BYTE)


class Windowed(NamedTuple):
    """The KV room of a model in which some layers keep only the last `tokens` tokens of a request.

    Room is counted in units. A block of tokens takes `full` units in the layers that keep all tokens, and `windowed`
    units in layers with a window, while it is inside the window; of: units of a block in all layers.
    """

    full: int
    windowed: int
    tokens: int
    of: Fraction

    def most(self, size: int) -> int:
        """Blocks of `size` tokens for a window, which can begin inside a block, as in vLLM."""
        return ceil_div(self.tokens - 1, size) + 1


CACHE_MANAGERS = ("by-layer", "hybrid", "uniform")
ALIKE = Fraction(5, 4)  # [recalled] vLLM: groups of layers that differ by less are padded to the larger one


def windowed(llm: LlmSpec, layers: int, manager: str = "by-layer") -> Windowed | None:
    """How the first `layers` layers of a model keep keys and values; None if all keep all of them.

    manager: one of CACHE_MANAGERS. `by-layer`: each layer has room of its own. `hybrid`: vLLM's hybrid KV cache
    manager [recalled], whose blocks are of equally many layers of one kind, so that the last group of a kind is padded.
    `uniform`: vLLM before it [recalled], where all layers keep all tokens if any layer does.
    """
    windows = [llm.window_of(layer) for layer in range(layers)]
    tokens = next((window for window in windows if window is not None), None)
    full = windows.count(None)
    if tokens is None or (full and manager == "uniform"):
        return None
    each = gcd(full, layers - full)
    if full and manager == "hybrid":
        few, many = sorted((full, layers - full))
        each = many if many < ALIKE * few else few
    return Windowed(ceil_div(full, each), ceil_div(layers - full, each), tokens, Fraction(layers, each))


class Weights(NamedTuple):
    """Elements of all matrices, without biases and norms.

    dense: those that all tokens use; experts: those that a router chooses from; embedding: tables of words, the LM
    head's among them where it has one of its own; output: what the LM head multiplies.
    """

    dense: int
    experts: int
    embedding: int

    output: int

    @property
    def blocks(self) -> int:
        """Of all decoder blocks, all experts and routers included."""
        return self.dense + self.experts

    @property
    def total(self) -> int:
        """All of them."""
        return self.blocks + self.embedding


@lru_cache(maxsize=256)
def weights(llm: LlmSpec) -> Weights:
    """The matrices of a model."""
    dense = experts = 0
    for group in equal_layers(llm, range(llm.num_hidden_layers)):
        for op in layer_ops(llm, ONE, layer=group[0]):
            held = len(group) * op.held * op.n_in * op.n_out if op.kind == "gemm" else 0
            dense, experts = (dense, experts + held) if of_experts(op) else (dense + held, experts)
    tables = [op for op in ops(llm, ONE) if op.name in ("embed_tokens", "lm_head")]
    embedding, output = (op.n_in * op.n_out for op in tables)
    return Weights(dense, experts, embedding + tables[1].held * output, output)


@lru_cache(maxsize=256)
def outside(llm: LlmSpec, shard: Shard = ALONE) -> int:
    """Weights that a device keeps before and behind its layers: tables of words and positions, norm, LM head."""
    return sum(op.parameters for op in ops(llm, ONE, shard) if not op.layers)


def of_experts(op: Op) -> bool:
    """Whether it is work of the experts that a router chooses."""
    return op.name.startswith("mlp.experts.")


class LayerNeed(NamedTuple):
    """Elements that the layers of a device keep: matrices with their biases (no norms), keys and values."""

    matrices: int
    cache: int


@lru_cache(maxsize=256)
def layer_need(llm: LlmSpec, batch: Batch, shard: Shard = ALONE, layers: int | range | None = None) -> LayerNeed:
    """What all layers keep, or the first `layers`, or just these; a window keeps a ring of its length. Positions are
    not checked."""
    matrices = cache = 0
    some = layers if isinstance(layers, range) else range(layers or llm.num_hidden_layers)
    for group in equal_layers(llm, some):
        made = layer_ops(llm, ONE, shard, group[0])
        kept = batch.kept(llm.window_of(group[0]))
        matrices += len(group) * sum(op.parameters for op in made if op.kind == "gemm")
        cache += len(group) * sum(op.moved.cache_written for op in made) * kept
    return LayerNeed(matrices, cache)


def layer_macs(llm: LlmSpec, batch: Batch, shard: Shard, layers: int) -> int:
    """Multiply-accumulates of the first `layers` layers on a device in a step; positions are not checked."""
    groups = equal_layers(llm, range(layers))
    return sum(len(group) * op.macs for group in groups for op in layer_ops(llm, batch, shard, group[0]))


def flops(found: Iterable[Op]) -> int:
    """Operations of a step."""
    return sum(op.flops * op.times for op in found)


def moved_bytes(found: Iterable[Op]) -> int:
    """Bytes that a step reads and writes if nothing stays on the chip from one operator to the next."""
    return sum((op.bytes_read + op.bytes_written) * op.times for op in found)
