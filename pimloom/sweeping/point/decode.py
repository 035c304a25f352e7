"""Decode iterations of a batch of design points: contexts that grow together, or requests of a workload."""

from collections.abc import Sequence
from math import fsum

import msgspec
import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import RooflineSystem, System, digest
from pimloom.arch.units import S_PER_PS
from pimloom.mappers.packing import round_robin
from pimloom.reports.npu_pim.serve import Served
from pimloom.reports.serving.batching import POLICIES
from pimloom.reports.serving.machine import Batch, Plan, machine_of
from pimloom.sweeping.point.requests import Given
from pimloom.sweeping.point.workload import Work

Values = dict[str, float | int | None]
SUMS = ("allreduce_s", "allreduce_exposed_s", "link_bytes", "link_j")


def decode(system: System, llm: LlmSpec, work: Work, given: Given | None, seed: int) -> tuple[Values, str]:
    """Result columns of a workload, and the digest of what decides them. Raises UserError.

    Without requests: `batch` of them with equal contexts of prompt + 1 to prompt + generate tokens; the prompts are not
    simulated. Energies are of all tp devices.
    """
    layers = work.layers or llm.num_hidden_layers
    if layers > llm.num_hidden_layers:
        raise UserError(f"workload.layers: expected 1 to {llm.num_hidden_layers}, the layers of {llm.name}")
    spec_digest = digest(system.spec, system.part, msgspec.structs.replace(llm, name=""), work, given and given, seed)
    if given is None:
        return _growing(system, llm, work, layers), spec_digest
    if given.tokens is not None:
        return _listed(system, llm, work, given, layers), spec_digest
    return _served(system, llm, work, given, layers, seed), spec_digest


def _growing(system: System, llm: LlmSpec, work: Work, layers: int) -> Values:
    batch, contexts = work.batch or 1, range(work.prompt + 1, work.prompt + work.generate + 1)
    asked = sorted({*contexts[:: work.every], contexts[-1]})
    machine = machine_of(system, llm, _plan(system, work, layers, batch, 0))
    channel = np.array(round_robin([1] * batch, _channels(system)), np.int64)
    last_first = [
        machine.simulate(Batch(np.full(batch, n), channel)) for n in reversed(asked)
    ]  # the largest may not fit
    served = last_first[::-1]
    return _values(served, asked, contexts, work)


def _channels(system: System) -> int:
    return system.spec.dram.channels if isinstance(system.spec, NpuPimSystem) else 1


def _plan(system: System, work: Work, layers: int, batch: int, seed: int) -> Plan:
    policy = None if isinstance(system.spec, RooflineSystem) else work.policy or POLICIES[0]
    return Plan(
        batch, work.iterations or 1, work.every, policy, seed, work.tp, work.pp, layers, work.fidelity,
    )  # fmt: skip


def _values(served: Sequence[Served], asked: Sequence[int], contexts: range, work: Work) -> Values:
    """Sums over all contexts, straight lines between those that were simulated."""

    def total(values: Sequence[float]) -> float:
        return fsum(np.interp(contexts, asked, values).tolist())

    batch, latency = served[0].batch, total([s.iteration_cyc * s.clock_ps * S_PER_PS for s in served])
    tokens, found = batch * len(contexts), Values()
    causes = [s.iteration_energy_by_cause_j for s in served]
    if all(cause is not None for cause in causes):
        names = list(dict.fromkeys(name for cause in causes if cause for name in cause))
        for name in names:
            joules = work.tp * total([cause.get(name, 0.0) for cause in causes if cause is not None])
            found[f"energy_by_cause_j.{name}"] = joules
        energy = fsum(joules for joules in found.values() if joules is not None)
        found |= {"energy_j": energy, "energy_per_token_j": energy / tokens, "power_w": energy / latency}
    for name in SUMS:
        value = total([getattr(s, name) for s in served])
        found[name] = round(value) if name == "link_bytes" else value
    return found | {
        "latency_s": latency,
        "time_per_token_s": latency / len(contexts),
        "tokens_per_s": tokens / latency,
        "iterations": len(contexts),
        "simulated_iterations": len(served),
        "batch_mean": float(batch),
        "context_mean": (contexts[0] + contexts[-1]) / 2,
    }


def _listed(system: System, llm: LlmSpec, work: Work, given: Given, layers: int) -> Values:
    raise NotImplementedError


def _served(system: System, llm: LlmSpec, work: Work, given: Given, layers: int, seed: int) -> Values:
    raise NotImplementedError
