"""What decodes a batch: an NPU with or without PIM, or a GPU at its roofline."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem, System
from pimloom.mappers.kv_pages import CacheRoom, KvPages, KvTokens
from pimloom.systems.devices.npu_pim.gpu import serve_gpu
from pimloom.systems.devices.npu_pim.parallel import check_pipeline, serve_on_devices, stage_layers
from pimloom.systems.devices.npu_pim.serve import channel_of, estimate_of
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.npu_pim.share import REMEDY, first_row, shard_of, tokens_that_fit, weight_bytes


class Plan(NamedTuple):
    """What is decoded: `iterations` of at most `batch` requests, `layers` of the model on `pp` groups of `tp` devices.

    policy: of `batching.POLICIES`, None where there is nothing to choose; every: see `pace.Pace`; seed:
    of the rows that replace requests that end.
    """

    batch: int
    iterations: int
    every: int
    policy: str | None
    seed: int
    tp: int
    pp: int
    layers: int
    fidelity: str


class Batch(NamedTuple):
    """Contexts [tokens] and channels of the requests of an iteration, int64; None: where the machine puts them. new:
    tokens of each context that are computed, None: the last one."""

    tokens: np.ndarray
    channel: np.ndarray | None = None
    new: np.ndarray | None = None


class Machine(NamedTuple):
    """simulate: an iteration of a batch; room: of caches, all of it free; cost: load of a request by its context."""

    simulate: Callable[[Batch], Served]
    room: Callable[[], CacheRoom]
    cost: Callable[[Any], Any]


def machine_of(system: System, llm: LlmSpec, plan: Plan) -> Machine:
    """The machine of a system. Raises UserError if it cannot decode such batches."""
    return _gpu(system, llm, plan) if isinstance(system.spec, RooflineSystem) else _npu(system, llm, plan)


def _gpu(system: System, llm: LlmSpec, plan: Plan) -> Machine:
    """GPUs that share each layer; a token's cache may lie anywhere."""
    gpu = system.spec
    assert isinstance(gpu, RooflineSystem)
    fits = tokens_that_fit(llm, plan.tp, plan.layers, gpu.element_bits, gpu.memory_bytes)

    if not fits:
        raise _full(llm, plan, plan.layers, gpu.element_bits, gpu.memory_bytes)

    def simulate(batch: Batch) -> Served:
        return serve_gpu(system, llm, batch.tokens, tp=plan.tp, layers=plan.layers, new=batch.new)

    return Machine(simulate, lambda: KvTokens(fits), lambda tokens: tokens)


def _npu(system: System, llm: LlmSpec, plan: Plan) -> Machine:
    """Groups of NPUs."""
    shard, part = shard_of(system, llm, plan.tp), system.part
    hardware = shard.system
    assert part is not None
    check_pipeline(plan.pp, plan.layers)
    rows, layers = part.organization.rows, max(stage_layers(plan.layers, plan.pp))
    first = first_row(shard, layers)
    if first >= rows:
        there = hardware.dram.channels * part.organization.capacity_bytes
        raise _full(llm, plan, layers, hardware.npu.element_bits, there)

    def simulate(batch: Batch) -> Served:
        how = {"tp": plan.tp, "pp": plan.pp, "layers": plan.layers}
        return serve_on_devices(
            system, llm, batch.tokens, batch.channel, **how, fidelity=plan.fidelity, new=batch.new
        )  # fmt: skip

    def room() -> CacheRoom:  # pages as large as `serve` makes them
        return KvPages(shard.shape, hardware.dram.channels, first, rows, allotted=True)

    return Machine(simulate, room, estimate_of(shard, channel_of(system)))


def _full(llm: LlmSpec, plan: Plan, layers: int, element_bits: int, there: int) -> UserError:
    """What to say where weights leave no room for caches."""
    need, devices = weight_bytes(llm, plan.tp, layers, element_bits), plan.tp * plan.pp
    where = f"each of {devices} devices" if devices > 1 else "a device"
    return UserError(
        f"{llm.name}: the weights of {layers} layers need {need:,} bytes on {where}, there are {there:,}: "
        f"no cache fits beside them; {REMEDY}"
    )
