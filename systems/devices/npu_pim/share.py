"""What tensor parallelism leaves of a model to each device, and whether it fits there."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.system import System
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.cycle_sim.npu_pim.kernels.fields import MOST_BANKS
from pimloom.energy.npu_pim import no_activate
from pimloom.mappers.kv import Cache, Shape, place
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.shard import Shard as LayerShard
from pimloom.systems.npu_rules import ACTIVATION_BYTES
from pimloom.systems.reference.neupims import rules_of
from pimloom.workload.batch import Batch
from pimloom.workload.need import ONE, LayerNeed, layer_need, outside
from pimloom.workload.need import matrix_bits as need_bits
from pimloom.workload.shard import Shard, cut

Layers = int | range  # so many from the first on, or just these


def weight_bytes(
    llm: LlmSpec, tp: int, layers: Layers, element_bits: int, *, ends: bool = False, matrix_bits: Fraction | None = None
) -> int:
    """Bytes of matrices and biases of `layers` layers on a device, without norms, in so many bits if they are narrower;
    ends: and of what stands before and behind all layers (embeddings, LM head)."""
    if matrix_bits is None:
        return int(need_bits(llm, Shard(tp=tp), layers, element_bits, ends) // BITS_PER_BYTE)
    around = outside(llm, Shard(tp=tp)) * element_bits if ends else 0
    return int((_need(llm, tp, layers).matrices * matrix_bits + around) // BITS_PER_BYTE)


REMEDY = "take more devices (--tp) or a larger memory"


def tokens_that_fit(
    llm: LlmSpec,
    tp: int,
    layers: Layers,
    element_bits: int,
    memory_bytes: int,
    *,
    ends: bool = False,
    matrix_bits: Fraction | None = None,
) -> int:
    """Tokens whose K and V fit into all `layers` beside the weights of a device; activations take nothing. Where only
    some layers have a window, these need less of a long context."""
    left = memory_bytes - weight_bytes(llm, tp, layers, element_bits, ends=ends, matrix_bits=matrix_bits)
    return max(left, 0) // _cache_bytes(llm, tp, layers, element_bits)


def _cache_bytes(llm: LlmSpec, tp: int, layers: Layers, element_bits: int) -> int:
    """Bytes of a token's K and V on a device."""
    return int(_need(llm, tp, layers).cache * llm.cache_bits(element_bits) // BITS_PER_BYTE)


def _need(llm: LlmSpec, tp: int, layers: Layers) -> LayerNeed:
    """What `layers` layers keep of a token, and their weights. Raises UserError if the model cannot be cut."""
    return layer_need(llm, ONE, Shard(tp=tp), layers)


def check_memory(
    llm: LlmSpec,
    tp: int,
    layers: Layers,
    contexts: Sequence[int],
    element_bits: int,
    memory_bytes: int,
    *,
    ends: bool = False,
    matrix_bits: Fraction | None = None,
) -> None:
    """Raise UserError if weights, and the K and V of requests with such contexts, of `layers` exceed the memory of a
    device. ends, matrix_bits: as for `weight_bytes`."""
    weights = weight_bytes(llm, tp, layers, element_bits, ends=ends, matrix_bits=matrix_bits)
    without_windows, bits = int(sum(contexts)) * _need(llm, tp, layers).cache, llm.cache_bits(element_bits)
    if min(contexts, default=0) > 0 and weights + without_windows * bits // BITS_PER_BYTE <= memory_bytes:
        return
    cache = layer_need(llm, Batch.decode(contexts), Shard(tp=tp), layers).cache
    need = weights + int(cache * bits // BITS_PER_BYTE)
    if need > memory_bytes:
        most = tokens_that_fit(llm, tp, layers, element_bits, memory_bytes, ends=ends, matrix_bits=matrix_bits)
        tokens = int(attended(llm, np.array(contexts)).sum())
        fits = f"at most {most:,} tokens fit" if most else f"its weights alone take {weights:,}; {REMEDY}"
        raise UserError(
            f"{llm.name} with requests of {tokens:,} tokens in all needs {need:,} bytes of memory on "
            f"{f'each of {tp} devices' if tp > 1 else 'a device'}, there are {memory_bytes:,}: {fits}"
        )


def first_row(shard: LayerShard, layers: Layers) -> int:
    """The first row of a channel that caches may have: behind the buffer of activations and the weights of the device's
    `layers`."""
    taken, bits = shard.rules.weights_take_rows, shard.system.npu.element_bits
    weights = weight_bytes(shard.llm, shard.tp, layers, bits, ends=shard.ends) if taken else 0
    return ceil_div(ACTIVATION_BYTES, shard.row_bytes) + ceil_div(weights, shard.row_bytes) + 1


def place_caches(shard: LayerShard, rows: int, layers: Layers, tokens: np.ndarray, channel: np.ndarray) -> list[Cache]:
    """Rows for all caches of one layer. Raises UserError if they do not fit into banks of `rows` rows."""
    first = first_row(shard, layers)
    caches = place(shard.shape, tokens, channel, first)
    last = max(c.row_v + shard.shape.rows_v(int(n)) for c, n in zip(caches, tokens.tolist(), strict=True))
    if last > rows:
        raise UserError(
            f"the caches of {len(tokens)} requests need {last - first:,} rows of a bank behind {first:,} of "
            f"activations and weights; it has {rows:,}; take more devices (--tp, --pp) or fewer requests"
        )
    return caches


def shard_of(system: System, llm: LlmSpec, tp: int, *, ends: bool = False) -> LayerShard:
    """The model cut for `tp` devices. ends: as for `weight_bytes`. Raises UserError if it cannot be."""
    hardware, part = system.of_kind(NpuPimSystem), system.memory
    rules = rules_of(hardware)
    check_machine(hardware, part)
    if llm.kv_lora_rank and hardware.dram.row_buffers != "none":
        raise UserError(
            f"{llm.name}: PIM finds keys in rows of their own and values in others; a compressed cache (MLA) is both "
            "at once; npu_only and rooflines run it, PIM could if the cache were kept twice, once turned"
        )
    mine = cut(llm, tp)
    bits = hardware.npu.element_bits
    shape = Shape(
        heads=mine.heads,
        kv_heads=mine.kv_heads,
        head_dim=llm.head_dim,
        row=part.organization.row_bytes * BITS_PER_BYTE // bits,
        banks=part.organization.banks,
        lanes=hardware.dram.lanes,
        allotted=rules.allotted(llm.num_key_value_heads, mine.kv_heads, llm.head_dim, part.organization.banks),
    )
    if llm.head_dim > shape.row and hardware.dram.row_buffers != "none":
        raise UserError(f"{llm.name}: a head of {llm.head_dim} elements is wider than a row of {shape.row}")
    return LayerShard(llm, hardware, shape, tp, part.organization.access_bits // BITS_PER_BYTE, ends)


def check_machine(hardware: NpuPimSystem, part: Part) -> None:
    """Raise UserError for a machine that the simulation does not know."""
    org, channels = part.organization, hardware.dram.channels
    if channels & (channels - 1):
        raise UserError(f"dram.channels: expected a power of two, got {channels}")
    if org.columns & (org.columns - 1):
        raise UserError(f"dram.organization.columns: expected a power of two, got {org.columns}")
    if org.banks > MOST_BANKS:
        raise UserError(f"dram.organization: expected at most {MOST_BANKS} banks in a channel, got {org.banks}")
    if hardware.dram.row_buffers != "dual" and hardware.dram.pim_precharge != "bank":
        said = "row buffers that are not dual have no PIM_PRECHARGE"
        raise UserError(f"dram.pim_precharge: expected bank, as {said}, got {hardware.dram.pim_precharge}")
    if hardware.dram.row_buffers == "none" and hardware.interleave.sub_batches > 1:
        raise UserError(f"interleave.sub_batches: expected 1 without PIM, got {hardware.interleave.sub_batches}")
    if hardware.dram.row_buffers == "none" and hardware.npu.dataflow != "ws":
        raise UserError(f"npu.dataflow: expected ws without PIM, got {hardware.npu.dataflow}")
    rules_of(hardware).check(part)
    if hardware.energy is not None and hardware.dram.row_buffers != "none" and (why := no_activate(part)):
        raise UserError(f"dram.current.IDD0: {why}; give currents that fit, or a system without energy")
