"""Where the requests of an iteration lie, its sub-batches, and the program and the machine that it is for."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.system import System
from pimloom.cycle_sim.npu_pim.machine import Npu
from pimloom.mappers.kv import Cache
from pimloom.mappers.packing import PUBLISHED, estimate_ck, pack
from pimloom.systems.devices.npu_pim.constants import derived_constants
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.layer import Layer, LayerProgram
from pimloom.systems.devices.npu_pim.parts import batch_of
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.share import Layers, check_memory, place_caches, shard_of
from pimloom.systems.reference.neupims import rules_of


class Laid(NamedTuple):
    """A layer's program, the tokens that its requests attend to, the requests of its sub-batches, one channel and the
    NPU."""

    layer: LayerProgram
    tokens: int
    parts: list[np.ndarray]
    spec: PimChannel
    npu: Npu


def lay_out(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    *,
    tp: int,
    layers: Layers,
    new: np.ndarray | None = None,
    pair: tuple[int, int] = (0, 0),
    ends: bool = False,
    checked: Sequence[bool] = (),
) -> Laid:
    """The program of a layer, or of `pair`, one behind the other, and the machine that it is for; arguments as for
    `simulate`. Raises UserError."""
    shard, contexts = shard_of(system, llm, tp, ends=ends), tokens
    tokens = attended(llm, tokens)
    hardware = shard.system
    parts = [np.arange(len(tokens))]
    of_pair = [Layer(number, ()) for number in pair]
    spec = channel_of(system)
    n = hardware.interleave.sub_batches
    if n > len(tokens):
        raise UserError(
            f"interleave.sub_batches: expected 1 to {len(tokens)}, the requests of the batch, got {n}; each needs a "
            "request: give more, or --set interleave.sub_batches=1"
        )
    channel, caches = placed(system, shard, contexts, channel, layers, [llm.window_of(number) for number in pair])
    if channel is not None:
        of_pair = [Layer(number, each) for number, each in zip(pair, caches, strict=True)]
        prompts = np.zeros(len(tokens), bool) if new is None else (new > 1) & ~np.array(checked or [False] * len(new))
        parts = sub_batches(shard, spec, tokens, channel, n, prompts if prompts.any() else None, new)
    if new is not None:
        _check_new(shard, contexts, new)
        tokens = np.where(new > 1, contexts, tokens)  # the first of several new tokens sees what the last one does not
    batch = batch_of(contexts.tolist(), None if new is None else new.tolist(), checked)
    layer = LayerProgram(shard, batch, *of_pair)
    layer.build([each.tolist() for each in parts])
    return Laid(layer, int(tokens.sum()), parts, spec, shard.machine)


def placed(
    system: System,
    shard: Shard,
    contexts: np.ndarray,
    channel: np.ndarray | None,
    layers: Layers,
    windows: Sequence[int | None],
) -> tuple[np.ndarray | None, list[list[Cache]]]:
    """The channel of each request, None: where Algorithm 2 puts it, and the caches of a layer with each of `windows`;
    None and none where keys and values lie in all channels. Raises UserError if `layers` do not fit."""
    llm, hardware, organization = shard.llm, shard.system, system.memory.organization
    channels, alone = hardware.dram.channels, hardware.dram.row_buffers == "none"
    if alone or shard.rules.weights_take_rows:
        there, bits = channels * organization.capacity_bytes, hardware.npu.element_bits
        check_memory(llm, shard.tp, layers, contexts.tolist(), bits, there, ends=shard.ends)
    if alone:
        return None, []
    if channel is None:
        channel = pack(estimate_of(shard, channel_of(system)), attended(llm, contexts).tolist(), channels)
    kept = [contexts if window is None else np.minimum(contexts, window) for window in windows]
    return channel, [place_caches(shard, organization.rows, layers, each, channel) for each in kept]


def _check_new(shard: Shard, contexts: np.ndarray, new: np.ndarray) -> None:
    """Raise UserError for new tokens that the machine cannot compute."""
    if (new < 1).any() or (new > contexts).any():
        raise UserError("new tokens: expected at least one of each request, and no more than its context")
    if (why := shard.rules.no_prompts) and (new > 1).any():
        raise UserError(why)


def channel_of(system: System) -> PimChannel:
    """One channel of a device behind its controller."""
    return rules_of(system.of_kind(NpuPimSystem)).channel(system.memory)


def estimate_of(shard: Shard, spec: PimChannel) -> Callable[[int], float]:
    """Algorithm 1 with the constants that the system asks for: from tokens to clocks."""
    derived = shard.system.packing.constants == "derived"
    constants = derived_constants(spec, shard.shape) if derived else PUBLISHED
    return lambda tokens: estimate_ck(shard.shape, tokens, constants)


def sub_batches(
    shard: Shard,
    spec: PimChannel,
    tokens: np.ndarray,
    channel: np.ndarray,
    parts: int,
    prompts: np.ndarray | None = None,
    new: np.ndarray | None = None,
) -> list[np.ndarray]:
    """The requests of each sub-batch: who decodes by what each channel has to do; prompts, whose attention the NPU
    computes, to the sub-batch with the fewest new tokens, the longest first. prompts: which of them are some, None:
    none is."""
    if parts == 1:
        return [np.arange(len(tokens))]
    who = np.arange(len(tokens)) if prompts is None else np.flatnonzero(~prompts)

    def estimates() -> list[int]:
        estimate = estimate_of(shard, spec)
        return [round(estimate(n)) for n in tokens[who].tolist()]

    found = [who[part].tolist() for part in shard.rules.divide(channel[who], parts, estimates)]
    if prompts is not None and new is not None:
        rows = [sum(int(new[i]) for i in part) for part in found]
        for i in sorted(np.flatnonzero(prompts).tolist(), key=lambda i: (-int(new[i]), i)):
            least = rows.index(min(rows))
            found[least].append(i)
            rows[least] += int(new[i])
    return [np.array(sorted(part), np.int64) for part in found]
