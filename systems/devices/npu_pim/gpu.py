"""One decode iteration of a batch on GPUs that never wait: each operator at its roofline, one after the other.

Stages and operators are those of an NPU without PIM. Cycles are nanoseconds. Memory is read and written once for each
operator; a fused attention keeps its logits on the chip. GPUs that share a layer talk for free. Energy is power x time.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pimloom import __version__
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem, System
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, PS_PER_NS, PS_PER_US, S_PER_PS
from pimloom.cycle_sim.roofline import work_s
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.energy import ledger
from pimloom.systems.devices.npu_pim.layer import dealt
from pimloom.systems.devices.npu_pim.serve import Served, served_digest
from pimloom.systems.devices.npu_pim.share import Share, check_memory, share_of


class Work(NamedTuple):
    """An operator: its stage, its name, its operations, and the elements that it reads and writes."""

    stage: str
    name: str
    flops: int
    elements: int


def serve_gpu(system: System, llm: LlmSpec, tokens: np.ndarray, *, tp: int, layers: int) -> Served:
    """Decode one token of each request, with contexts of `tokens`, on `tp` GPUs. Raises UserError."""
    gpu = system.spec
    assert isinstance(gpu, RooflineSystem)
    batch, context = len(tokens), int(attended(llm, tokens).sum())
    check_memory(llm, tp, layers, context, gpu.element_bits, gpu.memory_bytes)
    stages, times = dict.fromkeys("ABE", 0), dict[str, int]()
    for work in layer_work(llm, share_of(llm, tp), batch, context):
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
        spec_digest=served_digest(system, llm, tokens, None, tp=tp, layers=layers, fidelity="physical"),
        version=__version__,
    )


def layer_work(llm: LlmSpec, mine: Share, batch: int, context: int) -> Iterator[Work]:
    """The operators of a decoder layer on one device, in order. context: tokens of all requests."""
    width, dim = llm.hidden_size, llm.head_dim
    yield _vector("A", "norm", batch * width, 1)
    yield _gemm("A", "qkv", batch, width, (mine.heads + 2 * mine.kv_heads) * dim, llm.attention_bias)
    cached, vectors = 2 * context * mine.kv_heads * dim, 2 * batch * mine.heads * dim
    yield Work("B", "fused_mha", 4 * context * mine.heads * dim, cached + vectors)
    yield _gemm("E", "projection", batch, mine.heads * dim, width, llm.projection_bias)
    if not llm.parallel_attention:  # else one sum of the block's input, attention and FFN
        yield _vector("E", "residual", batch * width, 2)
    yield _vector("E", "norm", batch * width, 1)
    if llm.num_experts > 1:
        yield _gemm("E", "router", batch, width, llm.num_experts, biased=False)
    gates = 2 if llm.gated_ffn else 1
    for rows in filter(None, dealt(batch * llm.num_experts_per_tok, llm.num_experts)):
        yield _gemm("E", "ffn1", rows, width, gates * mine.ffn, llm.ffn_bias)
        yield _vector("E", "activation", rows * mine.ffn, gates)
        yield _gemm("E", "ffn2", rows, mine.ffn, width, llm.ffn_bias)
    if llm.num_experts_per_tok > 1:
        yield _vector("E", "mix", batch * width, llm.num_experts_per_tok)
    yield _vector("E", "residual", batch * width, 3 if llm.parallel_attention else 2)


def _gemm(stage: str, name: str, rows: int, n_in: int, n_out: int, biased: bool) -> Work:
    return Work(stage, name, 2 * rows * n_in * n_out, n_in * n_out + biased * n_out + rows * (n_in + n_out))


def _vector(stage: str, name: str, elements: int, operands: int) -> Work:
    """Work bound by memory on any such machine: its few operations do not count."""
    return Work(stage, name, 0, (operands + 1) * elements)
