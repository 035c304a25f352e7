"""Time of a piece of work on a processor at its roofline, and whether a model fits into its memory."""

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, FLOP_PER_TFLOP
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ALONE
from pimloom.workload.need import layer_need, matrix_bits


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
    weights = matrix_bits(spec, ALONE, spec.num_hidden_layers, system.element_bits, ends)
    bits = spec.cache_bits(system.element_bits)
    need = int((weights + layer_need(spec, Batch.decode([tokens])).cache * bits) // BITS_PER_BYTE)
    if need > system.memory_bytes:
        left = system.memory_bytes * BITS_PER_BYTE - weights
        each = layer_need(spec, Batch.decode([1])).cache * bits
        remedy = f"take more devices (--tp), a smaller model or --set memory_bytes={need}"
        alone = f"its weights alone take {int(weights // BITS_PER_BYTE):,}; {remedy}"
        fits = f"at most {int(left // each):,} tokens fit" if left >= each else alone
        raise UserError(
            f"{spec.name} with {tokens:,} tokens needs {need:,} bytes of memory, there are {system.memory_bytes:,}: "
            f"{fits}"
        )
