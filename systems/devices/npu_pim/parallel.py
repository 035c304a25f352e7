"""A decode iteration on several devices one behind the other: micro-batches through a pipeline of layers."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.system import System
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, S_PER_PS, ceil_div
from pimloom.cycle_sim.link import bits_ps, latency_ps
from pimloom.cycle_sim.pipeline import Flow, flow
from pimloom.mappers.packing import pack
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.energy import ledger
from pimloom.systems.devices.npu_pim.laid import channel_of, estimate_of, lay_out, sub_batches
from pimloom.systems.devices.npu_pim.serve import serve
from pimloom.systems.devices.npu_pim.served import ENERGIES, Served, served_digest, sums
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.share import shard_of, weight_bytes
from pimloom.systems.devices.npu_pim.undivided import fitted
from pimloom.workload.routing import even


def serve_on_devices(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    *,
    tp: int,
    pp: int,
    layers: int,
    fidelity: str,
    new: np.ndarray | None = None,
) -> Served:
    """Decode one token of each request, or compute its `new` tokens, on `pp` groups of `tp` devices, each with its
    share of the `layers`.

    The batch is cut into `pp` micro-batches; each goes through all groups, and its layer is simulated by itself. Each
    group holds all requests' caches of its layers, in the same channels. Stages, operators, commands and the totals of
    the links are sums over the micro-batches, as a group works on one after the other. An iteration begins with an
    empty pipeline. Where a batch, or any micro-batch, has fewer requests than sub-batches, all run undivided. Raises
    UserError.
    """
    check_pipeline(pp, layers)
    if pp > 1 and new is not None and (new > 1).any():
        raise UserError(f"--pp {pp}: prompts go through one stage of devices only; leave it out, or raise --tp")
    asked = served_digest(system, llm, tokens, channel, new, tp=tp, pp=pp, layers=layers, fidelity=fidelity)
    shard, spec = shard_of(system, llm, tp), channel_of(system)
    if pp == 1:
        one = fitted(system, len(tokens))
        whole = serve(one, llm, tokens, channel, tp=tp, layers=layers, fidelity=fidelity, new=new)
        return msgspec.structs.replace(whole, spec_digest=asked)
    tokens = attended(llm, tokens)
    channel, cut = _micro_batches(shard, spec, tokens, channel, pp)
    system = fitted(system, min(map(len, cut)))
    groups = stage_ranges(layers, pp)
    for group in groups:
        lay_out(system, llm, tokens, channel, tp=tp, layers=group)  # each holds the caches of the whole batch
    kinds = [tuple((llm.window_of(layer), llm.is_dense(layer)) for layer in group) for group in groups]
    by_kinds = {
        kind: [serve(system, llm, tokens[mine], channel[mine], tp=tp, layers=group, fidelity=fidelity) for mine in cut]
        for kind, group in dict(zip(kinds, groups, strict=True)).items()
    }
    runs = [[by_kinds[kind][m] for kind in kinds] for m in range(pp)]
    clock_ps, silent = runs[0][0].clock_ps, not shard.rules.devices_talk
    sends = [0 if silent else len(mine) * llm.hidden_size * shard.element_bytes for mine in cut]
    waits = [ceil_div(bits_ps(shard.system.link, n), clock_ps) for n in sends]
    latency = 0 if silent else ceil_div(latency_ps(shard.system.link), clock_ps)
    found = flow([[run.iteration_cyc for run in row] for row in runs], waits, latency)
    sent_bytes = (pp - 1) * tp * sum(sends)
    sent_j = sent_bytes * BITS_PER_BYTE * (shard.system.link.pj_per_bit or 0) * J_PER_PJ
    ledger(system.name, {"link": sent_j / J_PER_PJ})  # refuses what is no energy
    whole = _together(runs, found, layers, sent_bytes, sent_j)
    return msgspec.structs.replace(whole, spec_digest=asked)


def first_part(
    system: System, llm: LlmSpec, tokens: np.ndarray, channel: np.ndarray | None, *, tp: int, pp: int, layers: int
) -> tuple[System, np.ndarray, np.ndarray | None, int]:
    """What the first group of devices does first: system, contexts and channels of its requests, its layers; with `pp`
    of 1 all of the iteration. Raises UserError."""
    if pp == 1:
        return fitted(system, len(tokens)), tokens, channel, layers
    tokens = attended(llm, tokens)
    channel, cut = _micro_batches(shard_of(system, llm, tp), channel_of(system), tokens, channel, pp)
    mine = cut[0]
    return fitted(system, min(map(len, cut))), tokens[mine], channel[mine], len(stage_ranges(layers, pp)[0])


def smallest_batch(
    system: System, llm: LlmSpec, tokens: np.ndarray, channel: np.ndarray | None, *, tp: int, pp: int
) -> int:
    """Requests of the batch, with `pp` > 1 of its smallest micro-batch. Raises UserError."""
    if pp == 1:
        return len(tokens)
    _, cut = _micro_batches(shard_of(system, llm, tp), channel_of(system), attended(llm, tokens), channel, pp)
    return min(map(len, cut))


def _micro_batches(
    shard: Shard, spec: PimChannel, tokens: np.ndarray, channel: np.ndarray | None, pp: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The channel of each request, int64[n], and the places of the requests of each micro-batch."""
    if channel is None:
        channel = pack(estimate_of(shard, spec), tokens.tolist(), shard.system.dram.channels)
    cut = sub_batches(shard, spec, tokens, channel, pp)
    if not min(map(len, cut)):
        raise UserError(f"--pp {pp}: {pp} micro-batches do not come out of {len(tokens)} requests; lower --pp")
    return channel, cut


def check_pipeline(pp: int, layers: int) -> None:
    """Raise UserError unless each of the `pp` stages has a layer."""
    if not 1 <= pp <= layers:
        raise UserError(f"--pp {pp}: expected 1 to {layers}, the layers of the iteration")


def stage_ranges(layers: int, pp: int) -> list[range]:
    """Layers of each stage, as even as can be; the first ones have the more."""
    ends = list(accumulate(even(layers, pp), initial=0))
    return [range(first, end) for first, end in pairwise(ends)]


def heaviest(llm: LlmSpec, tp: int, layers: int, pp: int) -> range:
    """The layers of the stage that has most weights."""
    return max(stage_ranges(layers, pp), key=lambda group: weight_bytes(llm, tp, group, BITS_PER_BYTE))


def _together(runs: Sequence[Sequence[Served]], found: Flow, layers: int, sent_bytes: int, sent_j: float) -> Served:
    """One result of all. runs: [micro-batch][stage]."""
    every, firsts = [run for row in runs for run in row], [row[0] for row in runs]
    batch = sum(run.batch for run in firsts)
    named = ("stages_cyc", "operators_cyc", "commands")
    changed: dict[str, Any] = {name: sums([getattr(run, name) for run in firsts]) for name in named}
    changed |= {name: sum(getattr(run, name) for run in firsts) for name in ("batch", "tokens", "total_cyc")}
    changed |= {name: sum(getattr(run, name) for run in every) for name in ("allreduce_s", "allreduce_exposed_s")}
    changed |= dict.fromkeys(ENERGIES)  # of devices that wait for one another: not counted
    return msgspec.structs.replace(
        firsts[0],
        **changed,
        layers=layers,
        layer_kinds=(),  # sums are of the first stage, whatever its layers are
        iteration_cyc=found.total,
        tokens_per_s=batch / (found.total * firsts[0].clock_ps * S_PER_PS),
        link_bytes=sum(run.link_bytes for run in every) + sent_bytes,
        link_j=sum(run.link_j for run in every) + sent_j,
        pp=len(runs[0]),
        micro_batches=len(runs),
        bubble=found.bubble,
    )
