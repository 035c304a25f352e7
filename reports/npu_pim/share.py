"""What tensor parallelism leaves of a model to each device, and whether it fits there."""

from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import BITS_PER_BYTE, ceil_div


class Share(NamedTuple):
    """One of `tp` devices: query heads, heads of K and V, columns of the FFN."""

    heads: int
    kv_heads: int
    ffn: int


def share_of(llm: LlmSpec, tp: int) -> Share:
    """The model cut for `tp` devices. Raises UserError if it cannot be."""
    heads, kv_heads = llm.num_attention_heads, llm.num_key_value_heads
    if tp < 1 or heads % tp or (kv_heads % tp and tp % kv_heads):
        raise UserError(f"--tp {tp}: expected a divisor of the {heads} heads ({kv_heads} of keys) of {llm.name}")
    return Share(heads // tp, max(kv_heads // tp, 1), ceil_div(llm.intermediate_size, tp))


def check_memory(llm: LlmSpec, tp: int, layers: int, tokens: int, element_bits: int, memory_bytes: int) -> None:
    """Raise UserError if weights and `tokens` tokens of K and V of `layers` layers exceed the memory of a device.

    No embeddings, LM head, biases or norms, no activations.
    """
    mine, width = share_of(llm, tp), llm.hidden_size
    attention = width * 2 * (mine.heads + mine.kv_heads) * llm.head_dim
    router = width * llm.num_experts if llm.num_experts > 1 else 0
    weights = attention + llm.num_experts * (3 if llm.gated_ffn else 2) * width * mine.ffn + router
    cache = 2 * mine.kv_heads * llm.head_dim
    weights_bytes, cache_bytes = (n * layers * element_bits // BITS_PER_BYTE for n in (weights, cache))
    need = weights_bytes + tokens * cache_bytes
    if need > memory_bytes:
        left = max(memory_bytes - weights_bytes, 0) // cache_bytes
        fits = f"at most {left} tokens fit" if left else "not one token fits beside its weights"
        raise UserError(
            f"{llm.name} with requests of {tokens} tokens in all needs {need} bytes of memory on each of {tp} devices, "
            f"there are {memory_bytes}: {fits}"
        )
