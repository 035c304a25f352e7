"""What decodes a batch: an NPU with or without PIM, or a GPU at its roofline."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.system import RooflineSystem, System, spec_digest
from pimloom.mappers.kv_pages import CacheRoom, KvPages, KvTokens
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.devices.formats import refuse_quantized
from pimloom.systems.devices.npu_pim.device import NpuDevice, decode_in_channels
from pimloom.systems.devices.npu_pim.laid import channel_of, estimate_of
from pimloom.systems.devices.npu_pim.parallel import check_pipeline, heaviest, serve_on_devices, stage_ranges
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.npu_pim.share import REMEDY, first_row, shard_of, tokens_that_fit, weight_bytes
from pimloom.systems.devices.roofline_served import serve_gpu
from pimloom.systems.devices.run import Run
from pimloom.systems.devices.shown import Shown, few
from pimloom.systems.devices.traits import settled, traits
from pimloom.workload.batch import Batch as Steps
from pimloom.workload.need import windowed


class Plan(NamedTuple):
    """What is decoded: `iterations` (None: until all requests have ended) of at most `batch` requests, `layers`
    of the model on `pp` groups of `tp` devices.

    policy: of `batching.POLICIES`, None where there is nothing to choose; every: see `pace.Pace`; seed:
    of the rows that replace requests that end; chunk: most tokens of an iteration where prompts are computed, too;
    outside: with embedding, LM head and sampling, None: without, but PIM-GPT by its file.
    """

    batch: int
    iterations: int | None
    every: int
    policy: str | None
    seed: int
    tp: int
    pp: int
    layers: int
    fidelity: str
    chunk: int | None = None
    outside: bool | None = None

    @property
    def share(self) -> Share:
        """What a device has of the model."""
        return Share(self.tp, self.layers, self.fidelity, outside=self.outside)

    def digest(self, system: System, llm: LlmSpec, **more: object) -> str:
        """Digest of what decides the iterations on a system, and of `more`: what it does anyhow is not in it."""
        system, outside = settled(system, self.outside)
        asked = {name: value for name, value in self._asdict().items() if name != "chunk" or value}
        del asked["outside"]
        return spec_digest(system, llm, **asked | outside | more)


class Batch(NamedTuple):
    """Contexts [tokens] and channels of the requests of an iteration, int64; None: where the machine puts them."""

    tokens: np.ndarray
    channel: np.ndarray | None = None

    def on(self, device: Device) -> Run:
        """What it takes on a device. Raises UserError."""
        return _in_channels(device, Steps.decode(self.tokens.tolist()), self.channel)


class Pieces(NamedTuple):
    """Steps of the requests of an iteration with prompts in it, and their channels, int64."""

    steps: Steps
    channel: np.ndarray

    def on(self, device: Device) -> Run:
        """What it takes on a device. Raises UserError."""
        return _in_channels(device, self.steps, self.channel)


def _in_channels(device: Device, steps: Steps, channel: np.ndarray | None) -> Run:
    return device.step(steps, channel) if isinstance(device, NpuDevice) else device.step(steps)


class Machine(NamedTuple):
    """simulate: an iteration of a batch; room: of caches, all of it free; cost: load of a request by its context;
    in_order: see `Device`."""

    simulate: Callable[[Any], Any]
    room: Callable[[], CacheRoom]
    cost: Callable[[Any], Any]
    in_order: bool = False


def machine_of(system: System, llm: LlmSpec, plan: Plan) -> Machine:
    """The machine of a system: that of its kind, whose iterations are `Served`, else, and where prompts are computed or
    it is asked for more than layers, a device, whose iterations are `Run`. Raises UserError if it cannot decode such
    batches."""
    refuse_quantized(system, llm)
    if not plan.chunk and not plan.outside:
        return {"npu_pim": _npu, "roofline": _gpu}.get(system.spec.kind, _device)(system, llm, plan)
    device = _device(system, llm, plan)
    if system.spec.kind == "npu_pim" and (not plan.chunk or system.spec.dram.row_buffers != "none"):
        return _npu(system, llm, plan)._replace(simulate=device.simulate)  # each cache lies in one channel
    return device


def _device(system: System, llm: LlmSpec, plan: Plan) -> Machine:
    """Any device; a token's cache may lie anywhere."""
    device = device_of(system, llm, plan.share)
    if device.most_requests is not None and plan.batch > device.most_requests:
        most = counted(device.most_requests, "request")
        raise UserError(f"--batch {plan.batch}: {system.name} runs at most {most} at once")
    tokens, window = device.capacity().tokens, windowed(llm, plan.layers)

    def step(batch: Batch | Pieces) -> Run:
        return batch.on(device).without_spans()

    return Machine(
        step,
        lambda: KvTokens(tokens, window),
        lambda tokens: tokens,
        device.in_order,
    )


def step_of(system: System, llm: LlmSpec, plan: Plan, batch: Batch | Pieces) -> Run:
    """An iteration with its spans, as it runs on devices of its own. Raises UserError."""
    if traits(system.spec.kind).channels and isinstance(batch, Batch) and not plan.outside:
        return decode_in_channels(system, llm, plan.share, plan.pp, *batch)
    return batch.on(device_of(system, llm, plan.share))


class Middle(NamedTuple):
    """Of the iterations with a prompt in them the one in the middle, and of those without."""

    prefill: Pieces | None
    decode: Batch | Pieces | None

    @classmethod
    def of(cls, batches: Sequence[Batch | Pieces]) -> "Middle":
        """Of these iterations, in their order."""
        prompts = [each for each in batches if isinstance(each, Pieces) and each.steps.of("prefill").requests]
        decode = [each for each in batches if isinstance(each, Batch) or not each.steps.of("prefill").requests]
        return cls(prompts[len(prompts) // 2] if prompts else None, decode[len(decode) // 2] if decode else None)

    def shown(self, system: System, llm: LlmSpec, plan: Plan) -> Shown:
        """Both with their spans. Raises UserError."""
        prefill = None
        if self.prefill:
            device = device_of(system, llm, plan.share)
            prefill = self.prefill._replace(steps=few(device, self.prefill.steps)).on(device)
        return Shown(system.name, prefill, step_of(system, llm, plan, self.decode) if self.decode else None)


def serve_list(system: System, llm: LlmSpec, batch: Batch, plan: Plan) -> Served:
    """One iteration of a list of contexts. Raises UserError."""
    if not traits(system.spec.kind).lists:
        raise UserError(f"{system.name} takes no list of contexts; give a data set or a trace, or a prompt")
    return cast(Served, machine_of(system, llm, plan).simulate(batch))


def _gpu(system: System, llm: LlmSpec, plan: Plan) -> Machine:
    """GPUs that share each layer; a token's cache may lie anywhere."""
    gpu = system.of_kind(RooflineSystem)
    fits = tokens_that_fit(llm, plan.tp, plan.layers, gpu.element_bits, gpu.memory_bytes)

    if not fits:
        raise _full(llm, plan, range(plan.layers), gpu.element_bits, gpu.memory_bytes)

    def simulate(batch: Batch) -> Served:
        return serve_gpu(system, llm, batch.tokens, tp=plan.tp, layers=plan.layers)

    return Machine(simulate, lambda: KvTokens(fits), lambda tokens: tokens)


def _npu(system: System, llm: LlmSpec, plan: Plan) -> Machine:
    """Groups of NPUs."""
    ends = bool(plan.outside)
    shard, part = shard_of(system, llm, plan.tp, ends=ends), system.part
    hardware = shard.system
    assert part is not None
    check_pipeline(plan.pp, plan.layers)
    rows, layers = part.organization.rows, heaviest(llm, plan.tp, plan.layers, plan.pp)
    first, there = first_row(shard, layers), hardware.dram.channels * part.organization.capacity_bytes
    bits, fit = hardware.npu.element_bits, None
    if hardware.dram.row_buffers == "none" or shard.rules.weights_take_rows:
        stages = stage_ranges(plan.layers, plan.pp)
        fit = min(tokens_that_fit(llm, plan.tp, stage, bits, there, ends=ends) for stage in stages)
    if first >= rows or fit == 0:
        raise _full(llm, plan, layers, bits, there)

    def simulate(batch: Batch) -> Served:
        tp, pp, layers, fidelity = plan.tp, plan.pp, plan.layers, plan.fidelity
        return serve_on_devices(system, llm, *batch, tp=tp, pp=pp, layers=layers, fidelity=fidelity)

    def room() -> CacheRoom:  # pages as large as `serve` makes them
        if hardware.dram.row_buffers == "none":  # nothing works in a channel: caches lie in all of them
            assert fit is not None
            return KvTokens(fit)
        return KvPages(shard.shape, hardware.dram.channels, first, rows, allotted=True, most_tokens=fit)

    return Machine(simulate, room, estimate_of(shard, channel_of(system)))


def _full(llm: LlmSpec, plan: Plan, layers: range, element_bits: int, there: int) -> UserError:
    """What to say where weights leave no room for caches."""
    ends = bool(plan.outside)
    need, devices = weight_bytes(llm, plan.tp, layers, element_bits, ends=ends), plan.tp * plan.pp
    where = f"each of {devices} devices" if devices > 1 else "a device"
    more = ", embedding and LM head" if ends else ""
    return UserError(
        f"{llm.name}: the weights of {counted(len(layers), 'layer')}{more} need {need:,} bytes on {where}, "
        f"there are {there:,}: no cache fits beside them; {REMEDY}"
    )
