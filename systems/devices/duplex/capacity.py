"""How many requests fit beside the weights."""

from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.workload.need import kv_bytes_per_token, weights
from pimloom.workload.op import Bits

FP16 = Bits()


def requests_that_fit(memory_bytes: int, weight_bytes: int, llm: LlmSpec, tokens: int, bits: Bits = FP16) -> float:
    """Requests of so many tokens each, not rounded, whose keys and values fit beside the weights; 0 if these do not."""
    return max(memory_bytes - weight_bytes, 0) / (kv_bytes_per_token(llm, bits=bits) * tokens)


def expert_bytes(llm: LlmSpec, bits: Bits = FP16) -> int:
    """Experts of all layers."""
    return weights(llm).experts * bits.weight // BITS_PER_BYTE


def block_bytes(llm: LlmSpec, bits: Bits = FP16) -> int:
    """Matrices of all layers, without embedding and LM head."""
    return weights(llm).blocks * bits.weight // BITS_PER_BYTE
