"""One iteration of batched decoding on an NPU with PIM: place the requests, run a layer, say what it took."""

from collections.abc import Callable, Mapping
from math import fsum
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pimloom import __version__
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.pim_channel import ChannelFaults, Mode, PimChannel
from pimloom.arch.system import System, spec_digest
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, S_PER_PS
from pimloom.cycle_sim.npu_pim.machine import Npu, PimError, run
from pimloom.energy.ledger import EnergyError, Ledger
from pimloom.mappers.interleave import stages as schedule
from pimloom.mappers.kv import Cache
from pimloom.mappers.packing import PUBLISHED, estimate_ck, pack, split
from pimloom.mappers.partition import subset_sums
from pimloom.systems.devices.npu_pim.constants import derived_constants
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.energy import stage_energy, total_energy
from pimloom.systems.devices.npu_pim.exchange import exchange
from pimloom.systems.devices.npu_pim.layer import LayerProgram
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.share import check_memory, place_caches, shard_of
from pimloom.systems.devices.npu_pim.stage_times import stage_times, total

NARROW_WINDOW = 96  # casys-kaist/NeuPIMs@f299af3: requests of a channel without PIM, NewtonSim.cc:41
ENERGIES = ("energy_pj_by_cause", "iteration_energy_by_cause_j", "iteration_energy_j", "energy_per_token_j", "power_w")
PORTS = 2  # ways from the NPU into a channel: of its own requests and of PIM's


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of one decode iteration. Names end in their unit; cycles are clocks of the memory, of `clock_ps`.

    stages_cyc: time of each stage, one after the other; operators_cyc: of each operator, by stage, of PIM's from
    the first request's start to the last one's end; total_cyc: of all stages. iteration_cyc: of all layers, from the
    stages, each as often as `mappers.interleave` says: without sub-batches layers x (A + B + E), with two A + B +
    (layers - 1) x (C + D) + E + F. tokens_per_s: batch / iteration. commands: of all channels of one device;
    memory_requests: of NPU and PIM that enter them.

    energy_pj_by_cause: of one device, all stages as simulated: one layer, or two with sub-batches;
    iteration_energy_by_cause_j and their sum iteration_energy_j: of one device, all layers, from the stages as
    iteration_cyc, and its share of the links; energy_per_token_j: tp x iteration / batch; power_w: of one device.
    None where the system or its part does not give what they need, or with pp > 1.

    allreduce_s: of an iteration, all of them; allreduce_exposed_s: what of it lengthens the iteration, and is in
    iteration_cyc, not in stages_cyc; link_bytes, link_j: over the links of all tp devices. pp: devices, or groups of
    tp, one behind the other; see `parallel`. bubble: share of their time without a micro-batch. workload: where the
    requests of a data set or a trace came from.
    """

    system: str
    model: str
    fidelity: str
    batch: int
    tokens: int
    tp: int
    layers: int
    clock_ps: int
    stages_cyc: dict[str, int]
    operators_cyc: dict[str, int]
    total_cyc: int
    iteration_cyc: int
    tokens_per_s: float
    commands: dict[str, int]
    memory_requests: int
    energy_pj_by_cause: dict[str, float] | None
    iteration_energy_by_cause_j: dict[str, float] | None
    iteration_energy_j: float | None
    energy_per_token_j: float | None
    power_w: float | None
    allreduce_s: float
    allreduce_exposed_s: float
    link_bytes: int
    link_j: float
    pp: int = 1
    micro_batches: int = 1
    bubble: float = 0.0
    spec_digest: str
    version: str
    workload: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts and numbers, fields in the order above."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Laid(NamedTuple):
    """A layer's program, the requests of its sub-batches, one channel and the NPU."""

    layer: LayerProgram
    parts: list[np.ndarray]
    spec: PimChannel
    npu: Npu


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
    laid = lay_out(system, llm, tokens, channel, tp=tp, layers=layers, new=new)
    layer, shard, part = laid.layer, laid.layer.shard, system.part
    hardware = shard.system
    assert part is not None
    try:
        ran = run(laid.spec, hardware.dram.channels, laid.npu, layer.builder, ports=PORTS)
    except PimError as error:
        raise UserError(f"{system.name}: {error}") from None
    stages, operators = stage_times(layer, ran.operators)
    clock_ps = part.tCK_ps
    times = {stage.name: stage.times(layers) for stage in schedule(hardware.interleave.sub_batches)}
    talk = exchange(shard, [layer.rows(each.tolist()) for each in laid.parts], stages, operators, clock_ps)
    exposed, sent_bytes = _of_all(talk.exposed_cyc, times), _of_all(talk.sent_bytes, times)
    iteration = _of_all(stages, times) + exposed
    iteration_s = iteration * clock_ps * S_PER_PS
    link_j = sent_bytes * BITS_PER_BYTE * hardware.link.pj_per_bit * J_PER_PJ
    try:
        by_stage = stage_energy(layer, part, ran, stages)
        energies = _energies(by_stage, times, link_j / tp, tp / len(tokens), iteration_s)
    except EnergyError as error:
        raise UserError(f"{system.name}: {error}; a value of the system is out of range") from None
    return Served(
        system=system.name,
        model=llm.name,
        fidelity=fidelity,
        batch=len(tokens),
        tokens=sum(layer.tokens),
        tp=tp,
        layers=layers,
        clock_ps=clock_ps,
        stages_cyc=stages,
        operators_cyc=operators,
        total_cyc=total(layer, ran.total_ck),
        iteration_cyc=iteration,
        tokens_per_s=len(tokens) / iteration_s,
        commands=ran.commands,
        memory_requests=sum(ran.requests),
        **energies,
        allreduce_s=_of_all(talk.all_cyc, times) * clock_ps * S_PER_PS,
        allreduce_exposed_s=exposed * clock_ps * S_PER_PS,
        link_bytes=sent_bytes,
        link_j=link_j,
        spec_digest=served_digest(system, llm, tokens, channel, new, tp=tp, layers=layers, fidelity=fidelity),
        version=__version__,
    )


def served_digest(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    new: np.ndarray | None = None,
    **options: int | str,
) -> str:
    """Digest of everything that decides an iteration of a list of contexts."""
    placed = None if channel is None else channel.tolist()
    if new is not None:
        options["new"] = ",".join(map(str, new.tolist()))
    return spec_digest(system, llm, tokens=tokens.tolist(), channel=placed, **({"pp": 1} | options))


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
    if new is None:
        layer = LayerProgram(shard, tokens.tolist(), caches)
    else:
        _check_new(hardware, contexts, new)
        seen = np.where(new > 1, contexts, tokens)  # the first of several new tokens sees what the last one does not
        layer = LayerProgram(shard, seen.tolist(), caches, new.tolist())
    layer.build([each.tolist() for each in parts])
    return Laid(layer, parts, spec, shard.machine)


def _check_new(hardware: NpuPimSystem, contexts: np.ndarray, new: np.ndarray) -> None:
    """Raise UserError for new tokens that the machine cannot compute."""
    if (new < 1).any() or (new > contexts).any():
        raise UserError("new tokens: expected at least one of each request, and no more than its context")
    if hardware.faults.queues_in_order and (new > 1).any():
        raise UserError("faults.queues_in_order: NeuPIMs' simulator computes no prompts; take --fidelity physical")


def channel_of(system: System) -> PimChannel:
    """One channel of a device behind its controller, with its faults."""
    hardware, part = system.spec, system.part
    assert isinstance(hardware, NpuPimSystem) and part is not None
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


def _of_all(by_stage: Mapping[str, int], times: Mapping[str, int]) -> int:
    """Sum over all layers of what a stage has."""
    return sum(n * times[name] for name, n in by_stage.items())


def _energies(
    stages: dict[str, dict[str, float]] | None,
    times: dict[str, int],
    link_j: float,
    devices_per_token: float,
    iteration_s: float,
) -> dict[str, Any]:
    """The fields of energy. link_j: of one device."""
    if stages is None:
        return dict.fromkeys(ENERGIES)
    simulated, iteration = total_energy(stages, dict.fromkeys(stages, 1)), total_energy(stages, times)
    Ledger({"link": link_j / J_PER_PJ})  # refuses what is no energy
    by_cause = iteration.joules() | ({"link": link_j} if link_j else {})
    joules = fsum(by_cause.values())
    values = (simulated.pj, by_cause, joules, joules * devices_per_token, joules / iteration_s)
    return dict(zip(ENERGIES, values, strict=True))
