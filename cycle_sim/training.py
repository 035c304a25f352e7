"""The time and memory of one training step, and its MFU (model FLOPs utilisation) [design].

Every stage does the same, messages are not hidden behind work, and data-parallel gradients are summed after the last
backward pass. What recomputation repeats is not charged. Bandwidths are in GB/s, each way.
"""

from dataclasses import dataclass
from functools import lru_cache

from pimloom.arch.llm import LlmSpec
from pimloom.arch.training import Job, Split
from pimloom.arch.units import BYTES_PER_GB, FLOP_PER_TFLOP
from pimloom.cycle_sim.schedule import in_flight, slots
from pimloom.workload.batch import Batch, Request
from pimloom.workload.derive import equal_layers, layer_ops
from pimloom.workload.need import of_experts, weights

PASSES = 3  # forward, and the backward pass's two products for each of its own
FLOP_PER_MAC = 2


@dataclass(frozen=True)
class Step:
    """One step. Times [s] are those of a GPU and add up to `step_s`; `bubble_s` is what it waits for other stages."""

    compute_s: float
    tp_all_reduce_s: float
    all_to_all_s: float
    p2p_s: float
    bubble_s: float
    dp_all_reduce_s: float
    memory_bytes: float
    mfu: float

    @property
    def step_s(self) -> float:
        """Time of the step [s]."""
        return (
            self.compute_s
            + self.tp_all_reduce_s
            + self.all_to_all_s
            + self.p2p_s
            + self.bubble_s
            + self.dp_all_reduce_s
        )


@lru_cache(maxsize=64)
def sequence_flops(model: LlmSpec, tokens: int) -> tuple[float, float]:
    """FLOPs of one sequence, forward and backward: all but the experts, and the experts that its tokens use.

    Attention is causal: a token sees half the sequence in the mean, or its window. What is between matrix products is
    free.
    """
    batch = Batch((Request("train", tokens, tokens, tokens),))
    dense, experts, scores = weights(model).output * tokens, 0, 0.0
    for group in equal_layers(model, range(model.num_hidden_layers)):
        for op in layer_ops(model, batch, layer=group[0]):
            if op.kind in ("score", "value"):  # Q K^T, and times V
                scores += len(group) * _seen(tokens, op.window) * op.heads * op.head_dim
            elif of_experts(op):
                experts += len(group) * op.macs
            else:
                dense += len(group) * op.macs
    return PASSES * FLOP_PER_MAC * (dense + scores), float(PASSES * FLOP_PER_MAC * experts)


def _seen(tokens: int, window: int | None) -> float:
    """Over all tokens of a sequence, those that each sees; of itself it counts one half."""
    if window and window < tokens:
        return tokens * window - window**2 / 2
    return tokens * tokens / 2


def memory_bytes(job: Job, split: Split) -> float:
    """Bytes of a GPU: its weights and their state, and activations of the micro-batches in flight."""
    recipe, of = job.training.recipe, weights(job.model)
    dense = (of.dense + of.embedding) / (split.tp * split.pp)
    experts = of.experts / (split.tp * split.pp * split.ep)
    state = (dense + experts) * recipe.state_bytes
    state += (dense / split.dp + experts / (split.dp / split.ep)) * recipe.sharded_bytes
    layer = recipe.activation_bytes * recipe.sequence_tokens * split.micro_batch * job.model.hidden_size / split.tp
    flying = in_flight(split.pp, job.micro_batches(split), split.chunks)
    return state + layer * job.stage_layers(split.pp) * flying * recipe.activation_share


def step(job: Job, split: Split) -> Step:
    """One step. The split divides GPUs, batch and layers, and its schedule is regular; else ValueError."""
    gpu, recipe = job.training.gpu, job.training.recipe
    m, layers = job.micro_batches(split), job.stage_layers(split.pp)
    if split.tp * split.pp * split.dp != job.gpus or m * split.dp * split.micro_batch != job.batch:
        raise ValueError(f"{split} does not divide {job.gpus} GPUs and a batch of {job.batch}")
    dense, experts = sequence_flops(job.model, recipe.sequence_tokens)
    uneven = recipe.expert_imbalance if split.ep > 1 else 1
    reached = split.tp * gpu.reached_tflops(split.tp) * FLOP_PER_TFLOP
    compute = (dense + experts * uneven) / split.pp * split.micro_batch / reached
    activations = recipe.sequence_tokens * split.micro_batch * job.model.hidden_size * recipe.element_bytes
    reduce = _all_reduces(job) * layers * _ring(activations, split.tp) / (job.hbd.gb_s * BYTES_PER_GB)
    exchange = recipe.all_to_alls * _with_experts(job.model) * layers * uneven * _exchange_s(job, split, activations)
    hop = 2 * split.chunks * activations / split.tp / (gpu.dcn_gb_s * BYTES_PER_GB) if split.pp > 1 else 0.0
    each = compute + reduce + exchange + hop
    waiting = slots(job.schedule, split.pp, m, split.chunks) - m
    total = m * each + waiting * each + (gradients := _gradients_s(job, split))
    mfu = (dense + experts) * job.batch / (total * job.gpus * gpu.peak_tflops * FLOP_PER_TFLOP)
    parts = (m * compute, m * reduce, m * exchange, m * hop, waiting * each, gradients)
    return Step(*parts, memory_bytes(job, split), mfu)


def _all_reduces(job: Job) -> float:
    """All-reduces of a layer; attention and FFN side by side share those of both."""
    return job.training.recipe.all_reduces / (2 if job.model.parallel_attention else 1)


def _with_experts(model: LlmSpec) -> float:
    """Share of the layers that have experts."""
    return sum(not model.is_dense(layer) for layer in range(model.num_hidden_layers)) / model.num_hidden_layers


def _ring(n_bytes: float, devices: float) -> float:
    """Bytes that a device sends in an all-reduce of `n_bytes` around a ring."""
    return 2 * (devices - 1) / devices * n_bytes


def _gradients_s(job: Job, split: Split) -> float:
    """All-reduce of the gradients among replicas, over the data-centre network [s]."""
    of, each = weights(job.model), job.training.recipe.gradient_bytes
    dense = _ring((of.dense + of.embedding) / (split.tp * split.pp) * each, split.dp)
    experts = _ring(of.experts / (split.tp * split.pp * split.ep) * each, split.dp / split.ep)
    return (dense + experts) / (job.training.gpu.dcn_gb_s * BYTES_PER_GB)


def _exchange_s(job: Job, split: Split, activations: float) -> float:
    """One even all-to-all of a micro-batch's tokens among `ep` ranks of experts [s].

    Each GPU of a tensor-parallel group carries its part of the channels. On a ring the groups lie one after the other,
    and what goes k groups far, the shorter way round, takes up TP × k links; both directions share `gb_s`.
    """
    if split.ep == 1:
        return 0.0
    sent = activations * job.model.num_experts_per_tok / split.tp * (split.ep - 1) / split.ep
    if job.all_to_all == "dcn":
        return sent / (job.training.gpu.dcn_gb_s * BYTES_PER_GB)
    links = 1.0
    if job.hbd.links == "ring":
        far = sum(min(k, split.ep - k) for k in range(1, split.ep))
        links = split.tp * far / (split.ep - 1)
    return sent * links / (job.hbd.gb_s * BYTES_PER_GB)
