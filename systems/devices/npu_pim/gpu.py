"""One decode iteration of a batch on GPUs that never wait: each operator at its roofline, one after the other.

Stages and operators are those of an NPU without PIM. Cycles are nanoseconds. Memory is read and written once for each
operator; a fused attention keeps its logits on the chip. GPUs that share a layer talk for free. Energy is power x time.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.llm import LlmSpec
from pimloom.arch.routing import UNIFORM
from pimloom.arch.system import RooflineSystem, System
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, PS_PER_NS, PS_PER_US, S_PER_PS
from pimloom.arch.version import __version__
from pimloom.cycle_sim.roofline import work_s
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.energy import ledger
from pimloom.systems.devices.npu_pim.parts import batch_of, on_device, parts_of, title, values_in_keys
from pimloom.systems.devices.npu_pim.served import LayerKind, Served, of_all, served_digest, sums
from pimloom.systems.devices.npu_pim.share import check_memory
from pimloom.workload.batch import Batch
from pimloom.workload.derive import equal_layers, layer_ops
from pimloom.workload.op import Moved, Op
from pimloom.workload.routing import Chosen, Expectation, expected
from pimloom.workload.shard import Shard

ALIKE = Expectation(UNIFORM)


class Work(NamedTuple):
    """An operator: its stage, its name, its operations, and the elements that it reads and writes; of them those of
    cached keys and values, and of a layer's matrices, whose weights have `weight_bits`, None: as wide as all."""

    stage: str
    name: str
    flops: int
    elements: int
    cached: int = 0
    weights: int = 0
    weight_bits: float | None = None

    def bits(self, llm: LlmSpec, element_bits: int) -> float:
        """Of what it reads and writes."""
        if llm.quantization is None:
            return self.elements * element_bits
        narrow = self.weights * (element_bits - (self.weight_bits or element_bits))
        return self.elements * element_bits - narrow - self.cached * (element_bits - llm.cache_bits(element_bits))


def serve_gpu(
    system: System, llm: LlmSpec, tokens: np.ndarray, *, tp: int, layers: int, new: np.ndarray | None = None
) -> Served:
    """Decode one token of each request, with contexts of `tokens`, on `tp` GPUs, or compute the last `new` tokens of
    each context in one pass. Raises UserError."""
    gpu = system.of_kind(RooflineSystem)
    batch, context = len(tokens), int(attended(llm, tokens).sum())
    check_memory(llm, tp, layers, tokens.tolist(), gpu.element_bits, gpu.memory_bytes)
    kinds = []
    for group in equal_layers(llm, range(layers)):
        requests = batch_of(tokens.tolist(), None if new is None else new.tolist())
        work = batch_work(llm, tp, requests, group[0], expected(gpu.routing))
        stages, operators = _times(gpu, llm, work)
        kinds.append(LayerKind(group[0], group[0], dict.fromkeys(stages, len(group)), stages, operators))
    stages = sums([kind.stages_cyc for kind in kinds])
    total, iteration = sum(stages.values()), sum(of_all(kind.stages_cyc, kind.runs) for kind in kinds)
    iteration_s = iteration * PS_PER_NS * S_PER_PS
    joules = gpu.power_w * iteration_s
    simulated_j = joules / layers if len(kinds) == 1 else joules * total / iteration
    return Served(
        system=system.name,
        model=llm.name,
        fidelity="physical",
        batch=batch,
        tokens=context,
        tp=tp,
        layers=layers,
        model_layers=llm.num_hidden_layers,
        clock_ps=PS_PER_NS,
        stages_cyc=stages,
        operators_cyc=sums([kind.operators_cyc for kind in kinds]),
        total_cyc=total,
        iteration_cyc=iteration,
        tokens_per_s=batch / iteration_s,
        commands={},
        memory_requests=0,
        energy_pj_by_cause=ledger(system.name, {"power x time": simulated_j / J_PER_PJ}).pj,
        iteration_energy_by_cause_j={"power x time": joules},
        iteration_energy_j=joules,
        energy_per_token_j=tp * joules / batch,
        power_w=gpu.power_w,
        allreduce_s=0.0,
        allreduce_exposed_s=0.0,
        link_bytes=0,
        link_j=0.0,
        spec_digest=served_digest(system, llm, tokens, None, new, tp=tp, layers=layers, fidelity="physical"),
        version=__version__,
        layer_kinds=tuple(kinds) if len(kinds) > 1 else (),
    )


def _times(gpu: RooflineSystem, llm: LlmSpec, work: Iterable[Work]) -> tuple[dict[str, int], dict[str, int]]:
    """Of a layer's stages and of its operators [ns]."""
    stages, times = dict.fromkeys("ABE", 0), dict[str, int]()
    for each in work:
        moved = each.bits(llm, gpu.element_bits) / BITS_PER_BYTE
        ns = round(work_s(gpu, each.flops, moved) / (PS_PER_NS * S_PER_PS))
        key, n = f"{each.stage}.{each.name}", 2
        while key in times:
            key, n = f"{each.stage}.{each.name}.{n}", n + 1
        times[key] = ns
        stages[each.stage] += ns
    kernels = max(gpu.kernels_per_layer - llm.parallel_attention, 0)  # one sum of input, attention and FFN
    if launch := round(kernels * gpu.launch_us * PS_PER_US / PS_PER_NS):
        times["E.launches"] = launch
        stages["E"] += launch
    return stages, times


def layer_work(
    llm: LlmSpec, tp: int, tokens: Sequence[int], new: Sequence[int] | None = None, layer: int = 0
) -> Iterator[Work]:
    """The operators of a decoder layer on one of `tp` devices, in order. tokens: the context of each request; new: of
    these, how many are computed, one if None."""
    return batch_work(llm, tp, batch_of(tokens, new), layer)


def batch_work(llm: LlmSpec, tp: int, batch: Batch, layer: int, routing: Chosen = ALIKE) -> Iterator[Work]:
    """The same of a batch; routing: how its tokens choose experts."""
    parts = parts_of(layer_ops(llm, batch, Shard(tp=tp), layer, routing=routing))
    yield from (_work("A", op) for op in on_device(parts.before))
    yield Work("B", "fused_mha", *_attention(parts.attention))
    yield from (_work("E", op) for op in on_device(parts.behind))


def _work(stage: str, op: Op) -> Work:
    moved = op.moved
    weights = moved.weights if op.kind == "gemm" else 0
    return Work(stage, title(op), *_asked(op, moved), weights, op.weight_bits)


def _attention(core: Sequence[Op]) -> tuple[int, int, int]:
    """Operations and elements, and those of the cache: logits stay on the chip, and values that are parts of keys are
    read with them."""
    elements = cached = 0
    for op in core:
        if op.kind in ("score", "value"):
            each = op.kv_heads * (op.head_dim - op.shared) + op.shared
            fetched = 0 if op.kind == "value" and values_in_keys(core, op) else op.cached * each
            elements += fetched + op.rows * op.heads * op.head_dim
            cached += fetched if op.from_cache else 0
        elif op.kind == "softmax":
            elements += op.moved.weights  # sinks
    return 2 * sum(op.macs for op in core), elements, cached


def alone(op: Op) -> Work:
    """An operator before or behind the layers."""
    narrow = (0, None) if op.weight_bits is None else (op.moved.weights, op.weight_bits)
    return Work("", op.name, *_asked(op, op.moved), *narrow)


def _asked(op: Op, moved: Moved) -> tuple[int, int, int]:
    """Operations and elements, and those of the cache. Work on vectors is bound by memory on any such machine, its few
    operations and parameters do not count."""
    weights = moved.weights if op.kind in ("gemm", "embedding") else 0
    return 2 * op.macs, weights + moved.cache_read + moved.read + moved.written, moved.cache_read
