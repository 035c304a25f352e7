"""Latency of a GPU or CPU baseline: roofline of each decoder layer, and with a fixed cost for every kernel."""

from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, FLOP_PER_TFLOP, S_PER_US


class TokenTime(NamedTuple):
    """Seconds for one token: the roofline alone, and the cost of launching kernels on top."""

    roofline_s: float
    launch_s: float


def token_time(system: RooflineSystem, spec: LlmSpec, t: int) -> TokenTime:
    """Time of the token at position t (1 = first), batch 1.

    Every layer reads its weights and t tokens of K and V once, and does two operations per weight and per cached
    value; it takes the longer of bytes / bandwidth and operations / peak rate, plus `launch_us` per kernel.
    """
    weights = spec.params_matmul // spec.num_hidden_layers
    values = weights + 2 * spec.num_key_value_heads * spec.head_dim * t
    operations = 2 * weights + 4 * spec.num_attention_heads * spec.head_dim * t
    roofline = spec.num_hidden_layers * work_s(system, operations, values * system.element_bits / BITS_PER_BYTE)
    return TokenTime(roofline, spec.num_hidden_layers * system.kernels_per_layer * system.launch_us * S_PER_US)


def prompt_time(system: RooflineSystem, spec: LlmSpec, tokens: int) -> TokenTime:
    """Time of a prompt in one pass, batch 1: as `token_time`, but all its tokens share one reading of the weights.

    A token attends to itself and those before it; keys and values of the prompt move once.
    """
    weights = spec.params_matmul // spec.num_hidden_layers
    values = weights + 2 * spec.num_key_value_heads * spec.head_dim * tokens
    attended = tokens * (tokens + 1) // 2
    operations = 2 * weights * tokens + 4 * spec.num_attention_heads * spec.head_dim * attended
    roofline = spec.num_hidden_layers * work_s(system, operations, values * system.element_bits / BITS_PER_BYTE)
    return TokenTime(roofline, spec.num_hidden_layers * system.kernels_per_layer * system.launch_us * S_PER_US)


def work_s(system: RooflineSystem, operations: float, moved_bytes: float) -> float:
    """Seconds of a piece of work: the longer of its operations and its bytes, at the rates that can be had."""
    bytes_per_s = system.memory_gb_s * BYTES_PER_GB * system.memory_share
    rate = system.peak_tflops * FLOP_PER_TFLOP * system.peak_share
    return max(moved_bytes / bytes_per_s, operations / rate)


def check_fits(system: RooflineSystem, spec: LlmSpec, tokens: int) -> None:
    """Raise UserError if weights and cache exceed the memory."""
    cache = 2 * spec.num_key_value_heads * spec.head_dim * spec.num_hidden_layers
    need = (spec.params_matmul + cache * tokens) * system.element_bits // BITS_PER_BYTE
    if need > system.memory_bytes:
        left = system.memory_bytes * BITS_PER_BYTE // system.element_bits - spec.params_matmul
        fits = f"at most {left // cache:,} tokens fit" if left >= cache else "not one token fits beside its weights"
        raise UserError(
            f"{spec.name} with {tokens:,} tokens needs {need:,} bytes of memory, there are {system.memory_bytes:,}: "
            f"{fits}"
        )
