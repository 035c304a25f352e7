"""What one iteration of a batch took on a device, as `pimloom run` prints it."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any, TypeVar

import msgspec
import numpy as np

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System, spec_digest
from pimloom.arch.units import J_PER_PJ, S_PER_PS
from pimloom.energy.cells import EnergyCell
from pimloom.energy.ledger import Ledger
from pimloom.systems.devices.npu_pim.energy import total_energy
from pimloom.systems.devices.shown import WithSpans

ENERGIES = ("energy_pj_by_cause", "iteration_energy_by_cause_j", "iteration_energy_j", "energy_per_token_j", "power_w")


class LayerKind(msgspec.Struct, frozen=True):
    """A layer that others do not equal, or with sub-batches two, one behind the other: their numbers, how often each
    stage runs in an iteration, and its clocks."""

    layer: int
    next_layer: int
    runs: dict[str, int]
    stages_cyc: dict[str, int]
    operators_cyc: dict[str, int]


class Served(WithSpans, frozen=True, kw_only=True):
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
    requests of a data set or a trace came from. layer_kinds: where layers differ, each kind of them; stages_cyc,
    operators_cyc, total_cyc, commands, memory_requests and energy_pj_by_cause are then sums over these. spans: of the
    iteration; with pp > 1 of its first micro-batch on the first group. model_layers: of the whole model, of which
    `layers` are in the iteration. lm_head: embedding, LM head and sampling are never in it.
    energy_by_cell: iteration_energy_by_cause_j by cell of the ledger.
    """

    system: str
    model: str
    fidelity: str
    batch: int
    tokens: int
    tp: int
    layers: int
    model_layers: int
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
    layer_kinds: tuple[LayerKind, ...] = ()
    lm_head: bool = False
    energy_by_cell: dict[str, EnergyCell] | None = None

    @property
    def time_s(self) -> float:
        """Time of an iteration of all layers."""
        return self.iteration_cyc * self.clock_ps * S_PER_PS

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and numbers, fields in the order above; without `layer_kinds` if all layers are equal."""
        plain = super().to_dict()
        return plain if self.layer_kinds else {name: value for name, value in plain.items() if name != "layer_kinds"}


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


Number = TypeVar("Number", int, float)


def of_all(by_stage: Mapping[str, Number], times: Mapping[str, int]) -> Number:
    """Sum over all layers of what a stage has."""
    return sum(n * times[name] for name, n in by_stage.items() if times[name])


def sums(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Sums by name."""
    return {name: sum(part.get(name, 0) for part in parts) for name in dict.fromkeys(n for part in parts for n in part)}


def energies(
    parts: Sequence[tuple[Mapping[str, Mapping[str, float]] | None, Mapping[str, int]]],
    waits: Mapping[str, float] | None,
    link_j: float,
    devices_per_token: float,
    iteration_s: float,
) -> dict[str, Any]:
    """The fields of energy. parts: energy by stage and cause [pJ], and how often each runs; waits: of
    the time in which devices only send; link_j: of one device."""
    stages: dict[str, dict[str, float]] = {}
    times: dict[str, int] = {}
    for i, (by_stage, runs) in enumerate(parts):
        if by_stage is None:
            return dict.fromkeys(ENERGIES)
        stages |= {f"{name}.{i}": dict(pj) for name, pj in by_stage.items()}
        times |= {f"{name}.{i}": n for name, n in runs.items()}
    simulated = total_energy(stages, dict.fromkeys(stages, 1))
    iteration = total_energy(stages | {"waits": dict(waits or {})}, times | {"waits": 1})
    Ledger({"link": link_j / J_PER_PJ})  # refuses what is no energy
    by_cause = iteration.joules() | ({"link": link_j} if link_j else {})
    joules = fsum(by_cause.values())
    values = (simulated.pj, by_cause, joules, joules * devices_per_token, joules / iteration_s)
    return dict(zip(ENERGIES, values, strict=True))
