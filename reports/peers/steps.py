"""A decode step of one workload on one system, or why there is none."""

from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_MJ, S_PER_MS
from pimloom.energy.cells import EnergyCell, ledger_j
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.devices.sizes import memory_gb_s
from pimloom.systems.devices.traits import devices_of, traits
from pimloom.workload.batch import Batch


class Workload(NamedTuple):
    """Requests of one context [tokens], each of which takes its next token."""

    model: str
    batch: int
    context: int

    def __str__(self) -> str:
        return f"{self.model}, batch {self.batch}, {self.context:,} tokens"


class Found(NamedTuple):
    """A step of all layers: time [ms], energy of a token by cell [J], memory of the system [bytes], its devices, the
    rate of all their data pins [GB/s], the kind of work that would take longest alone, and its share of the step. Or
    the reason why there is none."""

    system: str
    workload: Workload
    reason: str | None = None
    step_ms: float | None = None
    cells: dict[str, EnergyCell] | None = None
    memory_bytes: int | None = None
    devices: int | None = None
    memory_gb_s: float | None = None
    bound: str | None = None
    bound_share: float | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Of all requests."""
        return None if self.step_ms is None else self.workload.batch / (self.step_ms * S_PER_MS)

    @property
    def mj_per_token(self) -> float | None:
        """Of all cells that have a figure."""
        return None if self.cells is None else ledger_j(self.cells) / J_PER_MJ


def step_on(system: System, llm: LlmSpec, work: Workload) -> Found:
    """One step, layers alone, on one device of the system."""
    try:
        share = Share(tp=1, layers=llm.num_hidden_layers, tokens=work.context, outside=False)
        device = device_of(system, llm, share)
        return _run(device, system, work)
    except UserError as error:
        return Found(system.name, work, reason=str(error).removeprefix(f"{system.name}: "))


def _run(device: Device, system: System, work: Workload) -> Found:
    if device.most_requests is not None and work.batch > device.most_requests:
        return Found(system.name, work, reason=f"at most {device.most_requests} at once")
    batch = Batch.decode([work.context] * work.batch)
    device.check(batch)
    run = device.step(batch)
    bound, joules = run.bound(), run.energy_by_cause_j
    own = traits(system.kind).own_devices(system)
    each = None if joules is None else {cause: j / work.batch for cause, j in joules.items()}
    return Found(
        system.name,
        work,
        step_ms=run.time_s / S_PER_MS,
        cells=None if each is None else energy_by_cell(system, each, own),
        memory_bytes=device.capacity().memory_bytes,
        devices=devices_of(system, own),
        memory_gb_s=memory_gb_s(system, own),
        bound=bound.name if bound else None,
        bound_share=bound.share if bound else None,
    )
