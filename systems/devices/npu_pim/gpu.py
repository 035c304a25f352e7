"""One decode iteration of a batch on GPUs that never wait: each operator at its roofline, one after the other.

Stages and operators are those of an NPU without PIM. Cycles are nanoseconds. Memory is read and written once for each
operator; a fused attention keeps its logits on the chip. GPUs that share a layer talk for free. Energy is power x time.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from pimloom import __version__
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem, System
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, PS_PER_NS, PS_PER_US, S_PER_PS
from pimloom.cycle_sim.roofline import work_s
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.energy import ledger
from pimloom.systems.devices.npu_pim.served import Served, served_digest
from pimloom.systems.devices.npu_pim.share import check_memory
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops
from pimloom.workload.op import Op
from pimloom.workload.shard import Shard


class Work(NamedTuple):
    """An operator: its stage, its name, its operations, and the elements that it reads and writes."""

    stage: str
    name: str
    flops: int
    elements: int


def serve_gpu(
    system: System, llm: LlmSpec, tokens: np.ndarray, *, tp: int, layers: int, new: np.ndarray | None = None
) -> Served:
    """Decode one token of each request, with contexts of `tokens`, on `tp` GPUs, or compute the last `new` tokens of
    each context in one pass. Raises UserError."""
    gpu = system.spec
    assert isinstance(gpu, RooflineSystem)
    batch, context = len(tokens), int(attended(llm, tokens).sum())
    check_memory(llm, tp, layers, context, gpu.element_bits, gpu.memory_bytes)
    stages, times = dict.fromkeys("ABE", 0), dict[str, int]()
    for work in layer_work(llm, tp, tokens.tolist(), None if new is None else new.tolist()):
        ns = round(work_s(gpu, work.flops, work.elements * gpu.element_bits / BITS_PER_BYTE) / (PS_PER_NS * S_PER_PS))
        key, n = f"{work.stage}.{work.name}", 2
        while key in times:
            key, n = f"{work.stage}.{work.name}.{n}", n + 1
        times[key] = ns
        stages[work.stage] += ns
    kernels = max(gpu.kernels_per_layer - llm.parallel_attention, 0)  # one sum of input, attention and FFN
    if launch := round(kernels * gpu.launch_us * PS_PER_US / PS_PER_NS):
        times["E.launches"] = launch
        stages["E"] += launch
    total = sum(stages.values())
    iteration_s = layers * total * PS_PER_NS * S_PER_PS
    joules = gpu.power_w * iteration_s
    return Served(
        system=system.name,
        model=llm.name,
        fidelity="physical",
        batch=batch,
        tokens=context,
        tp=tp,
        layers=layers,
        clock_ps=PS_PER_NS,
        stages_cyc=stages,
        operators_cyc=times,
        total_cyc=total,
        iteration_cyc=layers * total,
        tokens_per_s=batch / iteration_s,
        commands={},
        memory_requests=0,
        energy_pj_by_cause=ledger(system.name, {"power x time": joules / layers / J_PER_PJ}).pj,
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
    )


PLACES = {  # operators of a layer that a GPU takes time for, in its order: names, stage, what the results call it
    ("input_layernorm",): ("A", "norm"),
    ("self_attn.qkv_proj",): ("A", "qkv"),
    ("self_attn.score", "self_attn.value"): ("B", "fused_mha"),
    ("self_attn.o_proj",): ("E", "projection"),
    ("self_attn.residual",): ("E", "residual"),
    ("post_attention_layernorm",): ("E", "norm"),
    ("mlp.gate",): ("E", "router"),
    ("mlp.up_proj", "mlp.gate_up_proj"): ("E", "ffn1"),
    ("mlp.act_fn",): ("E", "activation"),
    ("mlp.down_proj",): ("E", "ffn2"),
    ("mlp.experts.sum",): ("E", "mix"),
    ("mlp.residual",): ("E", "residual"),
}


def layer_work(llm: LlmSpec, tp: int, tokens: Sequence[int], new: Sequence[int] | None = None) -> Iterator[Work]:
    """The operators of a decoder layer on one of `tp` devices, in order. tokens: the context of each request; new: of
    these, how many are computed, one if None."""
    batch = Batch.decode(tokens)
    if new is not None:
        batch = Batch.prefill(new, [context - n for context, n in zip(tokens, new, strict=True)])
    made = {op.name: op for op in layer_ops(llm, batch, Shard(tp=tp))}
    for names, (stage, name) in PLACES.items():
        if names == ("mlp.experts.sum",):
            yield from _experts(made)
        if there := [made[n] for n in names if n in made]:
            yield Work(stage, name, *map(sum, zip(*map(_asked, there), strict=True)))


def _experts(made: Mapping[str, Op]) -> Iterator[Work]:
    """Each expert by itself: its matrices, and between them the function."""
    ends = ((("up_proj", "gate_up_proj"), "ffn1"), (("act_fn",), "activation"), (("down_proj",), "ffn2"))
    parts = [(name, made[f"mlp.experts.{n}"]) for names, name in ends for n in names if f"mlp.experts.{n}" in made]
    for rows in parts[0][1].each if parts else ():
        yield from (Work("E", name, *_asked(replace(op, rows=rows, each=()))) for name, op in parts)


def _asked(op: Op) -> tuple[int, int]:
    """Operations and elements. Logits stay on the chip; work on vectors is bound by memory on any such machine, its few
    operations and parameters do not count."""
    moved, flops = op.moved, 2 * op.macs
    if op.kind == "gemm":
        return flops, moved.weights + moved.read + moved.written
    if op.kind in ("score", "value"):
        return flops, op.cached * op.kv_heads * op.head_dim + op.rows * op.heads * op.head_dim
    return flops, moved.read + moved.written
