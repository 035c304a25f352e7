"""Latency of a GPU or CPU baseline: roofline of each decoder layer, and with a fixed cost for every kernel."""

from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, refuse_newer
from pimloom.arch.system import RooflineSystem
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, FLOP_PER_TFLOP, S_PER_US


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
    return _layers(system, spec, 1, min(t, spec.sliding_window or t), min(t, spec.sliding_window or t))


def prompt_time(system: RooflineSystem, spec: LlmSpec, tokens: int) -> TokenTime:
    """Time of a prompt in one pass, batch 1: as `token_time`, but all its tokens share one reading of the weights.

    A token attends to itself and those before it; keys and values of the prompt move once. Its tokens go to as many
    experts as there are, as far as they suffice (assumed: an equal share to each).
    """
    seen = min(tokens, spec.sliding_window or tokens)
    return _layers(system, spec, tokens, tokens, seen * (seen + 1) // 2 + (tokens - seen) * seen)


def _layers(system: RooflineSystem, spec: LlmSpec, tokens: int, cached: int, attended: int) -> TokenTime:
    """All layers of a pass: cached: tokens whose K and V move; attended: over all tokens, those that each sees."""
    used = spec.num_experts_per_tok
    one, there = _layer(spec, used), _layer(spec, min(tokens * used, spec.num_experts))
    values = there.weights + there.biases + 2 * spec.num_key_value_heads * spec.head_dim * cached
    operations = (2 * one.weights + one.biases) * tokens + 4 * spec.num_attention_heads * spec.head_dim * attended
    roofline = spec.num_hidden_layers * work_s(system, operations, values * system.element_bits / BITS_PER_BYTE)
    kernels = max(system.kernels_per_layer - spec.parallel_attention, 0)  # one sum of input, attention and FFN
    return TokenTime(roofline, spec.num_hidden_layers * kernels * system.launch_us * S_PER_US)


class Held(NamedTuple):
    """Elements of a layer's matrices, and of its biases."""

    weights: int
    biases: int


def _layer(spec: LlmSpec, experts: int) -> Held:
    """A layer with so many of its experts."""
    gates, width = 2 if spec.gated_ffn else 1, spec.hidden_size
    qkv = (spec.num_attention_heads + 2 * spec.num_key_value_heads) * spec.head_dim
    idle = (spec.num_experts - experts) * (gates + 1) * width * spec.intermediate_size
    of_ffn = experts * (gates * spec.intermediate_size + width)
    biases = spec.attention_bias * qkv + spec.projection_bias * width + spec.ffn_bias * of_ffn
    return Held(spec.params_matmul // spec.num_hidden_layers - idle, biases)


def work_s(system: RooflineSystem, operations: float, moved_bytes: float) -> float:
    """Seconds of a piece of work: the longer of its operations and its bytes, at the rates that can be had."""
    bytes_per_s = system.memory_gb_s * BYTES_PER_GB * system.memory_share
    rate = system.peak_tflops * FLOP_PER_TFLOP * system.peak_share
    return max(moved_bytes / bytes_per_s, operations / rate)


def check_fits(system: RooflineSystem, spec: LlmSpec, tokens: int) -> None:
    """Raise UserError if weights and cache exceed the memory, or the model has what no rule here is for."""
    refuse_newer(spec, "a roofline")
    cache = 2 * spec.num_key_value_heads * spec.head_dim * spec.num_hidden_layers
    weights = spec.num_hidden_layers * sum(_layer(spec, spec.num_experts))
    need = (weights + cache * min(tokens, spec.sliding_window or tokens)) * system.element_bits // BITS_PER_BYTE
    if need > system.memory_bytes:
        left = system.memory_bytes * BITS_PER_BYTE // system.element_bits - weights
        alone = f"its weights alone take {weights * system.element_bits // BITS_PER_BYTE:,}; take a smaller model"
        fits = f"at most {left // cache:,} tokens fit" if left >= cache else f"{alone} or --set memory_bytes={need}"
        raise UserError(
            f"{spec.name} with {tokens:,} tokens needs {need:,} bytes of memory, there are {system.memory_bytes:,}: "
            f"{fits}"
        )
