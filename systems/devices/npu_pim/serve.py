"""One iteration of batched decoding on an NPU with PIM: place the requests, run a layer, say what it took."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.pim_channel import ChannelFaults, Mode, PimChannel
from pimloom.arch.system import System
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, S_PER_PS
from pimloom.arch.version import __version__
from pimloom.cycle_sim.npu_pim.machine import Npu, PimError, Ran, run
from pimloom.energy.ledger import EnergyError
from pimloom.mappers.interleave import stages as schedule
from pimloom.mappers.kv import Cache
from pimloom.mappers.packing import PUBLISHED, estimate_ck, pack, split
from pimloom.mappers.partition import subset_sums
from pimloom.systems.devices.npu_pim.constants import derived_constants
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.energy import stage_energy
from pimloom.systems.devices.npu_pim.exchange import Exchange, exchange
from pimloom.systems.devices.npu_pim.layer import LayerProgram
from pimloom.systems.devices.npu_pim.parts import batch_of
from pimloom.systems.devices.npu_pim.served import Served, energies, of_all, served_digest
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.share import check_memory, place_caches, shard_of
from pimloom.systems.devices.npu_pim.stage_times import stage_times, total

NARROW_WINDOW = 96  # casys-kaist/NeuPIMs@f299af3: requests of a channel without PIM, NewtonSim.cc:41
PORTS = 2  # ways from the NPU into a channel: of its own requests and of PIM's


class Laid(NamedTuple):
    """A layer's program, the tokens that its requests attend to, the requests of its sub-batches, one channel and the
    NPU."""

    layer: LayerProgram
    tokens: int
    parts: list[np.ndarray]
    spec: PimChannel
    npu: Npu


class Simulated(NamedTuple):
    """A layer that ran. stages, operators: their clocks; times: how often each stage runs in an iteration; talk: what
    devices that share it send one another."""

    laid: Laid
    ran: Ran
    stages: dict[str, int]
    operators: dict[str, int]
    times: dict[str, int]
    talk: Exchange


def serve(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    *,
    tp: int,
    layers: int,
    fidelity: str,
    new: np.ndarray | None = None,
) -> Served:
    """One iteration: contexts of `tokens`, in `channel` or where Algorithm 2 puts them; the last `new` of each context,
    or one if None, are computed, those before are in the cache. Raises UserError."""
    found = simulate_layer(system, llm, tokens, channel, tp=tp, layers=layers, new=new)
    asked = served_digest(system, llm, tokens, channel, new, tp=tp, layers=layers, fidelity=fidelity)
    return served_of(found, system, layers=layers, fidelity=fidelity, spec_digest=asked)


def simulate_layer(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    *,
    tp: int,
    layers: int,
    new: np.ndarray | None = None,
) -> Simulated:
    """Simulate one layer of an iteration, with sub-batches two; arguments as for `serve`. Raises UserError."""
    laid = lay_out(system, llm, tokens, channel, tp=tp, layers=layers, new=new)
    layer, shard, part = laid.layer, laid.layer.shard, system.part
    hardware = shard.system
    assert part is not None
    try:
        ran = run(laid.spec, hardware.dram.channels, laid.npu, layer.builder, ports=PORTS)
    except PimError as error:
        raise UserError(f"{system.name}: {error}") from None
    stages, operators = stage_times(layer, ran.operators)
    times = {stage.name: stage.times(layers) for stage in schedule(hardware.interleave.sub_batches)}
    talk = exchange(shard, layer.talk, stages, operators, part.tCK_ps)
    return Simulated(laid, ran, stages, operators, times, talk)


def served_of(found: Simulated, system: System, *, layers: int, fidelity: str, spec_digest: str) -> Served:
    """What a simulated layer says of the iteration. Raises UserError."""
    layer, shard, part, talk = found.laid.layer, found.laid.layer.shard, system.part, found.talk
    assert part is not None
    batch, clock_ps, times, tp = len(layer.batch.requests), part.tCK_ps, found.times, shard.tp
    exposed, sent_bytes = of_all(talk.exposed_cyc, times), of_all(talk.sent_bytes, times)
    iteration = of_all(found.stages, times) + exposed
    iteration_s = iteration * clock_ps * S_PER_PS
    link_j = sent_bytes * BITS_PER_BYTE * shard.system.link.pj_per_bit * J_PER_PJ
    try:
        by_stage = stage_energy(layer, part, found.ran, found.stages)
        found_energies = energies(by_stage, times, link_j / tp, tp / batch, iteration_s)
    except EnergyError as error:
        raise UserError(f"{system.name}: {error}; a value of the system is out of range") from None
    return Served(
        system=system.name,
        model=shard.llm.name,
        fidelity=fidelity,
        batch=batch,
        tokens=found.laid.tokens,
        tp=tp,
        layers=layers,
        clock_ps=clock_ps,
        stages_cyc=found.stages,
        operators_cyc=found.operators,
        total_cyc=total(layer, found.ran.total_ck),
        iteration_cyc=iteration,
        tokens_per_s=batch / iteration_s,
        commands=found.ran.commands,
        memory_requests=sum(found.ran.requests),
        **found_energies,
        allreduce_s=of_all(talk.all_cyc, times) * clock_ps * S_PER_PS,
        allreduce_exposed_s=exposed * clock_ps * S_PER_PS,
        link_bytes=sent_bytes,
        link_j=link_j,
        spec_digest=spec_digest,
        version=__version__,
    )


def lay_out(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    *,
    tp: int,
    layers: int,
    new: np.ndarray | None = None,
) -> Laid:
    """The program of a layer and the machine that it is for; arguments as for `serve`. Raises UserError."""
    shard, contexts = shard_of(system, llm, tp), tokens
    tokens = attended(llm, tokens)
    hardware, part = shard.system, system.part
    assert part is not None
    channels, parts, caches = hardware.dram.channels, [np.arange(len(tokens))], list[Cache]()
    spec = channel_of(system)
    n = hardware.interleave.sub_batches
    if n > len(tokens):
        raise UserError(
            f"interleave.sub_batches: expected 1 to {len(tokens)}, the requests of the batch, got {n}; each needs a "
            "request: give more, or --set interleave.sub_batches=1"
        )
    if hardware.dram.row_buffers == "none" or not hardware.faults.cache_overallotted:
        there = channels * part.organization.capacity_bytes
        check_memory(llm, tp, layers, int(tokens.sum()), hardware.npu.element_bits, there)
    if hardware.dram.row_buffers != "none":  # else keys and values lie in all channels
        if channel is None:
            channel = pack(estimate_of(shard, spec), tokens.tolist(), channels)
        caches = place_caches(shard, part.organization.rows, layers, tokens, channel)
        parts = sub_batches(shard, spec, tokens, channel, n)
    if new is not None:
        _check_new(hardware, contexts, new)
        tokens = np.where(new > 1, contexts, tokens)  # the first of several new tokens sees what the last one does not
    layer = LayerProgram(shard, batch_of(contexts.tolist(), None if new is None else new.tolist()), caches)
    layer.build([each.tolist() for each in parts])
    return Laid(layer, int(tokens.sum()), parts, spec, shard.machine)


def _check_new(hardware: NpuPimSystem, contexts: np.ndarray, new: np.ndarray) -> None:
    """Raise UserError for new tokens that the machine cannot compute."""
    if (new < 1).any() or (new > contexts).any():
        raise UserError("new tokens: expected at least one of each request, and no more than its context")
    if hardware.faults.queues_in_order and (new > 1).any():
        raise UserError("faults.queues_in_order: NeuPIMs' simulator computes no prompts; take --fidelity physical")


def channel_of(system: System) -> PimChannel:
    """One channel of a device behind its controller, with its faults."""
    hardware, part = system.of_kind(NpuPimSystem), system.memory
    faults, controller, dram = hardware.faults, hardware.controller, hardware.dram
    if dram.row_buffers == "none" and faults.narrow_window:
        controller = msgspec.structs.replace(controller, window=NARROW_WINDOW)
    mine = ChannelFaults(**{name: getattr(faults, name) for name in ChannelFaults.__struct_fields__})
    mode: Mode = "dram" if dram.row_buffers == "none" else dram.row_buffers
    return PimChannel(part, mode, controller, mine, dram.pim_precharge)


def estimate_of(shard: Shard, spec: PimChannel) -> Callable[[int], float]:
    """Algorithm 1 with the constants that the system asks for: from tokens to clocks."""
    derived = shard.system.packing.constants == "derived"
    constants = derived_constants(spec, shard.shape) if derived else PUBLISHED
    return lambda tokens: estimate_ck(shard.shape, tokens, constants)


def sub_batches(
    shard: Shard, spec: PimChannel, tokens: np.ndarray, channel: np.ndarray, parts: int
) -> list[np.ndarray]:
    """The requests of each sub-batch: as Algorithm 3 deals them, or equal estimates in each channel."""
    channels = shard.system.dram.channels
    if parts == 1:
        return [np.arange(len(tokens))]
    if shard.system.faults.halves_by_number:
        return split(channel, channels, parts)
    estimate = estimate_of(shard, spec)
    return subset_sums([round(estimate(n)) for n in tokens.tolist()], channel, channels, parts)
