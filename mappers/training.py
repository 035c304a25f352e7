"""How GPUs can share the training of a model, and which way is the quickest that fits the memory.

What a split costs is the caller's to say: `best` takes a `cost` callable.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pimloom.arch.training import Job, Split

STAGES = tuple(2**power for power in range(8))  # PP that is tried: powers of two to 128 [design]


class Cost(NamedTuple):
    """What a split needs: time of a step [s], memory of a GPU [bytes]."""

    step_s: float
    memory_bytes: float


class Found(NamedTuple):
    """The quickest split that fits, None if none does; the one that needs least memory, and how much."""

    split: Split | None
    least: Split
    least_bytes: float


Regular = Callable[[int, int, int], bool]
"""(stages, micro-batches, chunks) -> whether the schedule takes them."""


def splits(
    job: Job,
    *,
    tensor: Sequence[int],
    regular: Regular,
    stages: Sequence[int] = STAGES,
    micro_batches: Sequence[int] = (1,),
    most_chunks: int = 1,
) -> Iterator[Split]:
    """Every way to share the work that comes out even: TP × PP × DP = GPUs, DP × b divides the batch.

    tensor: TP, which must divide the attention heads and lie within the domain. Of `stages`, less than half may be
    without a layer; chunks are powers of two that divide a
    stage's layers; EP are powers of two that divide experts and DP, and if the domain carries the all-to-all, TP × EP
    lies within it.
    """
    for tp in tensor:
        if job.model.num_attention_heads % tp or (job.hbd.gpus and tp > job.hbd.gpus):
            continue
        for pp in stages:
            if job.gpus % (tp * pp) or pp >= 2 * job.model.num_hidden_layers:
                continue
            dp = job.gpus // (tp * pp)
            for b in micro_batches:
                if job.batch % (dp * b):
                    continue
                for chunks in powers(job.stage_layers(pp), most_chunks):
                    if regular(pp, job.batch // (dp * b), chunks):
                        yield from (Split(tp, pp, dp, ep, chunks, b) for ep in experts(job, tp, dp))


def experts(job: Job, tp: int, dp: int) -> list[int]:
    """EP that can be had; 1 for a dense model."""
    most = dp
    if job.all_to_all == "hbd" and job.hbd.gpus:
        most = min(dp, job.hbd.gpus // tp)
    return [ep for ep in powers(job.model.num_experts, most) if dp % ep == 0]


def powers(whole: int, most: int) -> list[int]:
    """Powers of two up to `most` that divide `whole`.

    >>> powers(12, 8)
    [1, 2, 4]
    """
    return [2**power for power in range(most.bit_length()) if whole % 2**power == 0]


def best(ways: Iterable[Split], cost: Callable[[Split], Cost], memory_limit_bytes: float) -> Found | None:
    """The quickest split within the limit, the first of equals; None if there is no split at all."""
    quickest: tuple[float, Split] | None = None
    least: tuple[float, Split] | None = None
    for split in ways:
        price = cost(split)
        if least is None or price.memory_bytes < least[0]:
            least = price.memory_bytes, split
        if price.memory_bytes <= memory_limit_bytes and (quickest is None or price.step_s < quickest[0]):
            quickest = price.step_s, split
    if least is None:
        return None
    return Found(quickest and quickest[1], least[1], least[0])
