"""MFU of a model on GPUs of several fabrics, over the number of GPUs: the best split of each, as rows.

The baseline of every ratio is DGX: 8 GPUs in a domain, so that TP is 8 at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from pimloom.arch.error import UserError
from pimloom.arch.fabric_cost import Hbd, bill_names, hbd_of, load_components
from pimloom.arch.llm import LlmSpec
from pimloom.arch.training import SERVER, Job, Schedule, Training
from pimloom.arch.units import GIB
from pimloom.cycle_sim.schedule import is_regular
from pimloom.cycle_sim.training import memory_bytes, step
from pimloom.mappers.training import STAGES, Cost, Found, best, splits

BASELINE = "dgx8"
Row = dict[str, Any]


@dataclass(frozen=True)
class Search:
    """What is trained and how, and which splits are tried.

    batch: sequences of a step. tensor: TP. most_chunks: v at most. micro_batches: sequences of a micro-batch (b).
    """

    model: LlmSpec
    training: Training
    batch: int = 2048
    schedule: Schedule = "1f1b"
    most_chunks: int = 1
    tensor: tuple[int, ...] = (8, 16, 32, 64)
    micro_batches: tuple[int, ...] = (1,)
    all_to_all: Literal["dcn", "hbd"] = "dcn"

    def job(self, hbd: Hbd, gpus: int) -> Job:
        """The job on so many GPUs of a fabric."""
        return Job(self.model, self.training, hbd, gpus, self.batch, self.schedule, self.all_to_all)


def domains(names: str) -> list[Hbd]:
    """Fabrics `a,b,c`, or `all` whose bandwidth is known. Raises UserError."""
    components = load_components().value
    chosen = [*bill_names(components), BASELINE] if names == "all" else list(dict.fromkeys(names.split(",")))
    return [hbd_of(components, name) for name in chosen]


def find(search: Search, hbd: Hbd, gpus: int) -> Found | None:
    """The quickest split; None where nothing comes out even. Raises UserError: an all-to-all without a model."""
    if search.all_to_all == "hbd" and hbd.links == "torus" and search.model.num_experts > 1:
        raise UserError(f"--all-to-all hbd: no model of one on the torus of {hbd.arch}; expected dcn")
    job = search.job(hbd, gpus)

    def regular(stages: int, micro_batches: int, chunks: int) -> bool:
        return is_regular(search.schedule, stages, micro_batches, chunks)

    ways = splits(
        job,
        tensor=search.tensor,
        regular=regular,
        micro_batches=search.micro_batches,
        most_chunks=search.most_chunks,
    )
    limit = search.training.gpu.memory_limit_bytes
    return best(ways, lambda split: Cost(step(job, split).step_s, memory_bytes(job, split)), limit)


def mfu_rows(search: Search, hbds: Sequence[Hbd], gpus: Sequence[int], baseline: Hbd | None = None) -> list[Row]:
    """The best split of each fabric at each number of GPUs, and its MFU over the baseline's.

    Keys: see `mfu_row`, and `ratio_to_dgx8` (None where DGX fits in no way). baseline: DGX as it is unless given.
    Raises UserError: nothing comes out even, or nothing fits.
    """
    dgx, rows = baseline or domains(BASELINE)[0], []
    narrow = on_dgx(search)
    for count in gpus:
        least = best_mfu(narrow, dgx, count)
        for hbd in hbds:
            row = mfu_row(narrow if hbd == dgx else search, hbd, count)
            rows.append(row | {"ratio_to_dgx8": row["mfu"] / least if least else None})
    return rows


def on_dgx(search: Search) -> Search:
    """The same with TP of at most a server."""
    return replace(search, tensor=tuple(tp for tp in search.tensor if tp <= SERVER) or (SERVER,))


def best_mfu(search: Search, hbd: Hbd, gpus: int) -> float | None:
    """MFU of the best split; None where nothing comes out even or fits."""
    found = find(search, hbd, gpus)
    return step(search.job(hbd, gpus), found.split).mfu if found and found.split else None


def mfu_row(search: Search, hbd: Hbd, gpus: int) -> Row:
    """The best split of one fabric. Raises UserError: nothing comes out even, or nothing fits.

    Keys: gpus, arch, model, batch, schedule, tp, pp, dp, ep, interleave (v), micro_batch (b), micro_batches (m), mfu,
    step_s and its parts compute_s, tp_all_reduce_s, all_to_all_s, p2p_s, bubble_s, dp_all_reduce_s; tokens_per_s,
    memory_bytes, memory_limit_bytes, hbd_gb_s, dcn_gb_s.
    """
    found = find(search, hbd, gpus)
    limit = search.training.gpu.memory_limit_bytes
    if found is None:
        raise UserError(_uneven(search, hbd, gpus))
    if found.split is None:
        raise UserError(_too_large(search, hbd, gpus, found))
    job, split = search.job(hbd, gpus), found.split
    done = step(job, split)
    return {
        "gpus": gpus,
        "arch": hbd.arch,
        "model": search.model.name,
        "batch": search.batch,
        "schedule": search.schedule,
        "tp": split.tp,
        "pp": split.pp,
        "dp": split.dp,
        "ep": split.ep,
        "interleave": split.chunks,
        "micro_batch": split.micro_batch,
        "micro_batches": job.micro_batches(split),
        "mfu": done.mfu,
        "step_s": done.step_s,
        "compute_s": done.compute_s,
        "tp_all_reduce_s": done.tp_all_reduce_s,
        "all_to_all_s": done.all_to_all_s,
        "p2p_s": done.p2p_s,
        "bubble_s": done.bubble_s,
        "dp_all_reduce_s": done.dp_all_reduce_s,
        "tokens_per_s": search.batch * search.training.recipe.sequence_tokens / done.step_s,
        "memory_bytes": done.memory_bytes,
        "memory_limit_bytes": limit,
        "hbd_gb_s": hbd.gb_s,
        "dcn_gb_s": search.training.gpu.dcn_gb_s,
    }


def trend(rows: Sequence[Row], arch: str) -> dict[str, Any]:
    """Whether, with the number of GPUs, the ratio to DGX and the best TP rise.

    Keys: ratio_never_falls; ratio_largest_fall, from one number of GPUs to the next, relative; tp_rises: it never falls
    and ends higher.
    """
    mine = sorted((row for row in rows if row["arch"] == arch), key=lambda row: row["gpus"])
    ratios = [row["ratio_to_dgx8"] for row in mine if row["ratio_to_dgx8"] is not None]
    fall = max((1 - after / before for before, after in pairwise(ratios)), default=0.0)
    sizes = [row["tp"] for row in mine]
    return {
        "ratio_never_falls": fall <= 0,
        "ratio_largest_fall": max(fall, 0.0),
        "tp_rises": sizes == sorted(sizes) and len(sizes) > 1 and sizes[-1] > sizes[0],
    }


def _uneven(search: Search, hbd: Hbd, gpus: int) -> str:
    """Why no split comes out even, and what would."""
    sizes = ",".join(map(str, search.tensor))
    heads = search.model.num_attention_heads
    within = [tp for tp in search.tensor if heads % tp == 0 and (not hbd.gpus or tp <= hbd.gpus)]
    if not within:
        where = f"domains of {hbd.gpus} GPUs" if hbd.gpus else "its domain"
        return f"--tp {sizes}: none divides {search.model.name}'s {heads} heads and lies within {where} of {hbd.arch}"
    if not (fit := [b for b in search.micro_batches if search.batch % b == 0]):
        tried = ",".join(map(str, search.micro_batches))
        return f"--micro-batch {tried}: expected a divisor of --batch {search.batch}"
    if gpus < min(within):
        least = min(within)
        return f"--gpus {gpus}: fewer than a group of --tp {least}; try --gpus {least}, or --tp of at most {gpus}"
    stages = [pp for pp in STAGES if pp < 2 * search.model.num_hidden_layers]
    replicas = [gpus // (tp * pp) for tp in within for pp in stages if gpus % (tp * pp) == 0]
    if replicas and min(replicas) > search.batch:
        most = max(within) * max(stages)
        return (
            f"--batch {search.batch}: below the {min(replicas)} replicas that {gpus} GPUs leave with at most "
            f"{most} GPUs each (TP {max(within)} × PP {max(stages)}); expected at least {min(replicas)}"
        )
    near = 2 ** max(gpus.bit_length() - 1, 0)
    return (
        f"--gpus {gpus}: no TP × PP × DP is {gpus} with TP of {','.join(map(str, within))}, PP a power of two up to "
        f"{max(stages)}, and DP × {min(fit)} a divisor of --batch {search.batch}; try {near} or {2 * near} GPUs"
    )


def _too_large(search: Search, hbd: Hbd, gpus: int, found: Found) -> str:
    """How much memory is missing, and what would fit."""
    limit, least = search.training.gpu.memory_limit_bytes, found.least
    need = f"{found.least_bytes / GIB:,.1f} GiB of {limit / GIB:,.1f} GiB a GPU"
    remedy = "more memory (--set gpu.memory_bytes=…) or a smaller model"
    for more in (gpus * 2**power for power in range(1, 13)):
        bigger = find(search, hbd, more)
        if bigger and bigger.split:
            remedy = f"try --gpus {more}"
            break
    return (
        f"--gpus {gpus}: {search.model.name} does not fit on {hbd.arch}: the least is {need}, "
        f"with TP {least.tp} × PP {least.pp} × DP {least.dp}; {remedy}"
    )
