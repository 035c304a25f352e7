"""The time and memory of one training step, and its MFU (model FLOPs utilisation) [design].

Every stage does the same, messages are not hidden behind work, and data-parallel gradients are summed after the last
backward pass. What recomputation repeats is not charged. Bandwidths are in GB/s, each way.
"""

from dataclasses import dataclass

from pimloom.arch.llm import LlmSpec, refuse_newer
from pimloom.arch.training import Job, Split
from pimloom.arch.units import BYTES_PER_GB, FLOP_PER_TFLOP
from pimloom.cycle_sim.schedule import in_flight, slots

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


@dataclass(frozen=True)
class Weights:
    """Weights of a model: in all its layers without experts, in all experts of all layers, in the embeddings."""

    dense: int
    experts: int
    embedding: int

    @property
    def total(self) -> int:
        """All weights."""
        return self.dense + self.experts + self.embedding


def weights(model: LlmSpec) -> Weights:
    """A model with one expert has a dense FFN; an untied output matrix counts with the embedding."""
    refuse_newer(model, "training")
    experts = 0
    if model.num_experts > 1:
        matrices = 3 if model.gated_ffn else 2
        each = matrices * model.hidden_size * model.intermediate_size
        experts = model.num_hidden_layers * model.num_experts * each
    table = model.vocab_size * model.hidden_size
    return Weights(model.params_matmul - experts, experts, table if model.tie_word_embeddings else 2 * table)


def sequence_flops(model: LlmSpec, tokens: int) -> tuple[float, float]:
    """FLOPs of one sequence, forward and backward: all but the experts, and the experts that its tokens use.

    Attention is causal: a token sees half the sequence in the mean, or its window.
    """
    of = weights(model)
    output = model.vocab_size * model.hidden_size
    seen = tokens * tokens / 2
    if model.sliding_window and model.sliding_window < tokens:
        seen = tokens * model.sliding_window - model.sliding_window**2 / 2
    scores = 2 * model.num_hidden_layers * seen * model.num_attention_heads * model.head_dim  # Q K^T, and times V
    used = of.experts * model.num_experts_per_tok / model.num_experts
    dense = FLOP_PER_MAC * ((of.dense + output) * tokens + scores)
    return PASSES * dense, PASSES * FLOP_PER_MAC * used * tokens


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
    reduce = recipe.all_reduces * layers * _ring(activations, split.tp) / (job.hbd.gb_s * BYTES_PER_GB)
    exchange = recipe.all_to_alls * layers * uneven * _exchange_s(job, split, activations)
    hop = 2 * split.chunks * activations / split.tp / (gpu.dcn_gb_s * BYTES_PER_GB) if split.pp > 1 else 0.0
    each = compute + reduce + exchange + hop
    waiting = slots(job.schedule, split.pp, m, split.chunks) - m
    total = m * each + waiting * each + (gradients := _gradients_s(job, split))
    mfu = (dense + experts) * job.batch / (total * job.gpus * gpu.peak_tflops * FLOP_PER_TFLOP)
    parts = (m * compute, m * reduce, m * exchange, m * hop, waiting * each, gradients)
    return Step(*parts, memory_bytes(job, split), mfu)


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
