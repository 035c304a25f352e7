"""Latency of a GPU or CPU baseline: roofline of each decoder layer, and with a fixed cost for every kernel."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, FLOP_PER_TFLOP, S_PER_US
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers, layer_ops, ops
from pimloom.workload.need import layer_need, outside
from pimloom.workload.op import Op


class TokenTime(NamedTuple):
    """Seconds for one token: the roofline alone, and the cost of launching kernels on top."""

    roofline_s: float
    launch_s: float


def token_time(system: RooflineSystem, spec: LlmSpec, t: int) -> TokenTime:
    """Time of the token at position t (1 = first), batch 1.

    Every layer reads its weights and biases and t tokens of K and V once, a sliding window's at most; it does two
    operations per weight and per cached value, one per bias. It takes the longer of bytes / bandwidth and operations /
    peak rate, plus `launch_us` per kernel. Of experts it takes those that the token goes to.
    """
    return _time(system, spec, [(n, of.at(min(t, window or t))) for n, window, of in _by_context(spec)])


def prompt_time(system: RooflineSystem, spec: LlmSpec, tokens: int) -> TokenTime:
    """Time of a prompt in one pass, batch 1: as `token_time`, but all its tokens share one reading of the weights.

    A token attends to itself and those before it; keys and values of the prompt move once. Its tokens go to as many
    experts as there are, as far as they suffice (assumed: an equal share to each).
    """
    batch = Batch.prefill([tokens])
    groups = equal_layers(spec, range(spec.num_hidden_layers))
    return _time(system, spec, [(len(group), _asked(layer_ops(spec, batch, layer=group[0]))) for group in groups])


def outside_time(system: RooflineSystem, spec: LlmSpec, tokens: int) -> TokenTime:
    """Time of what stands before and behind the layers, for so many tokens of one request: a kernel for each operator;
    rows of the embedding, and the LM head of the last token, by their bytes and operations."""
    found = [op for op in ops(spec, Batch.prefill([tokens])) if not op.layers]
    asked = [Asked(op.moved.weights, op.flops) for op in found if op.kind in ("embedding", "gemm")]
    bits = system.element_bits
    roofline = sum(work_s(system, of.operations, of.values * bits / BITS_PER_BYTE) for of in asked)
    return TokenTime(roofline, len(found) * system.launch_us * S_PER_US)


class Asked(NamedTuple):
    """What a layer's operators ask of a machine: values from memory, and operations."""

    values: int
    operations: int


class Growing(NamedTuple):
    """The same of a token without any context, and what each token of it adds."""

    fixed: Asked
    each: Asked

    def at(self, seen: int) -> Asked:
        """With so many tokens of context."""
        return Asked(*(a + b * seen for a, b in zip(self.fixed, self.each, strict=True)))


def _asked(made: Sequence[Op]) -> Asked:
    """Of a layer's operators the matrix products and attention: what is between them is free."""
    counted = [op for op in made if op.macs]
    values = sum(op.moved.weights + op.moved.cache_read for op in counted)
    return Asked(values, sum(op.flops for op in counted))


@lru_cache(maxsize=64)
def _by_context(spec: LlmSpec) -> list[tuple[int, int | None, Growing]]:
    """Of each kind of layer: how many there are, their window, and what one asks: a line in the context."""
    found = []
    for group in equal_layers(spec, range(spec.num_hidden_layers)):
        here = replace(spec, sliding_window=None, full_attention_layers=())
        one, two = (_asked(layer_ops(here, Batch.decode([n]), layer=group[0])) for n in (1, 2))
        each = Asked(two.values - one.values, two.operations - one.operations)
        fixed = Asked(one.values - each.values, one.operations - each.operations)
        found.append((len(group), spec.window_of(group[0]), Growing(fixed, each)))
    return found


def _time(system: RooflineSystem, spec: LlmSpec, layers: Sequence[tuple[int, Asked]]) -> TokenTime:
    """All layers of a pass: so many of each kind, and what one of them asks."""
    bits = system.element_bits
    roofline = sum(n * work_s(system, of.operations, of.values * bits / BITS_PER_BYTE) for n, of in layers)
    kernels = max(system.kernels_per_layer - spec.parallel_attention, 0)  # one sum of input, attention and FFN
    return TokenTime(roofline, spec.num_hidden_layers * kernels * system.launch_us * S_PER_US)


def work_s(system: RooflineSystem, operations: float, moved_bytes: float) -> float:
    """Seconds of a piece of work: the longer of its operations and its bytes, at the rates that can be had."""
    return max(ceilings_s(system, operations, moved_bytes))


def ceilings_s(system: RooflineSystem, operations: float, moved_bytes: float) -> tuple[float, float]:
    """Seconds of operations and of bytes, each by itself."""
    bytes_per_s = system.memory_gb_s * BYTES_PER_GB * system.memory_share
    rate = system.peak_tflops * FLOP_PER_TFLOP * system.peak_share
    return operations / rate, moved_bytes / bytes_per_s


def check_fits(system: RooflineSystem, spec: LlmSpec, tokens: int, *, ends: bool = False) -> None:
    """Raise UserError if the layers' matrices and their cache exceed the memory. ends: with embeddings and LM head."""
    weights, cache = layer_need(spec, Batch.decode([tokens]))
    weights += outside(spec) if ends else 0
    need = (weights + cache) * system.element_bits // BITS_PER_BYTE
    if need > system.memory_bytes:
        left = system.memory_bytes * BITS_PER_BYTE // system.element_bits - weights
        each = layer_need(spec, Batch.decode([1])).cache
        alone = f"its weights alone take {weights * system.element_bits // BITS_PER_BYTE:,}; take a smaller model"
        fits = f"at most {left // each:,} tokens fit" if left >= each else f"{alone} or --set memory_bytes={need}"
        raise UserError(
            f"{spec.name} with {tokens:,} tokens needs {need:,} bytes of memory, there are {system.memory_bytes:,}: "
            f"{fits}"
        )
