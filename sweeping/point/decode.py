"""Decode iterations of a batch of design points: contexts that grow together, or requests of a workload."""

from collections.abc import Sequence
from math import fsum
from typing import Any

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System, spec_digest
from pimloom.arch.units import S_PER_PS
from pimloom.mappers.packing import round_robin
from pimloom.sweeping.point.requests import Given, workload_of
from pimloom.sweeping.point.results import cells_of
from pimloom.sweeping.point.workload import Work
from pimloom.systems.devices.area import area_by_part_mm2, area_mm2, of_devices
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.traits import traits
from pimloom.systems.interpolation import bends, chosen, error, weights
from pimloom.systems.serving.batching import POLICIES
from pimloom.systems.serving.decoding import decode_iterations, workload_digest
from pimloom.systems.serving.machine import Batch, Plan, machine_of, serve_list
from pimloom.systems.serving.notes import channelled

Values = dict[str, Any]
CAUSE = "energy_by_cause_j."
OF_GROWING = ("batch", "prompt", "generate", "every", "tp", "pp", "layers", "fidelity")
SUMS = ("allreduce_s", "allreduce_exposed_s", "link_bytes", "link_j")


def decode(system: System, llm: LlmSpec, work: Work, given: Given | None, seed: int) -> tuple[Values, str]:
    """Result columns of a workload, and the digest of what decides them. Raises UserError.

    Without requests: `batch` of them with equal contexts of prompt + 1 to prompt + generate tokens; the prompts are not
    simulated. Energies are of all tp devices.
    """
    layers = work.layers or llm.num_hidden_layers
    if layers > llm.num_hidden_layers:
        raise UserError(f"workload.layers: expected 1 to {llm.num_hidden_layers}, the layers of {llm.name}")
    if given is None:
        found, made_by = _growing(system, llm, work, layers)
    elif given.tokens is not None:
        found, made_by = _listed(system, llm, work, given, layers)
    else:
        found, made_by = _served(system, llm, work, given, layers, seed)
    if found.get("energy_j") is not None:
        causes = {name.removeprefix(CAUSE): value for name, value in found.items() if name.startswith(CAUSE)}
        found |= cells_of(energy_by_cell(system, causes, work.tp))
    if system.spec.kind == "npu_pim" and system.part is not None:
        area, n, devices = area_mm2(system), system.spec.interleave.sub_batches, work.tp * work.pp
        found["area_mm2"] = None if area is None else area * devices
        parts = of_devices(area_by_part_mm2(system), devices)
        found |= {f"area_by_part_mm2.{part}": value for part, value in parts.items()}
        found["sub_batches"] = n if (found["batch_mean"] or 0) >= n else 1
    return found, made_by


def _growing(system: System, llm: LlmSpec, work: Work, layers: int) -> tuple[Values, str]:
    batch, contexts = work.batch or 1, range(work.prompt + 1, work.prompt + work.generate + 1)
    corners = bends(llm, contexts)
    asked = chosen(contexts, work.every, corners)
    machine = machine_of(system, llm, _plan(system, work, layers, batch, 0))
    channel = np.array(round_robin([1] * batch, _channels(system)), np.int64)
    last_first = [
        machine.simulate(Batch(np.full(batch, n), channel)) for n in reversed(asked)
    ]  # the largest may not fit
    served = last_first[::-1]
    mean = float(attended(llm, np.array(contexts)).mean())
    told = work._replace(batch=batch, layers=layers)._asdict()
    made_by = spec_digest(system, llm, **{key: told[key] for key in OF_GROWING})
    return _values(served, asked, contexts, work, corners) | {"context_mean": mean}, made_by


def _channels(system: System) -> int:
    return system.spec.dram.channels if system.spec.kind == "npu_pim" else 1


def _plan(system: System, work: Work, layers: int, batch: int, seed: int) -> Plan:
    if work.policy and not channelled(system):
        said = f"{system.name} has no PIM, so caches lie in all channels and no request in one"
        raise UserError(f"workload.policy {work.policy}: {said}; leave it out, or take an NPU with PIM")
    policy = work.policy or POLICIES[0] if traits(system.spec.kind).channels else None
    return Plan(
        batch, work.iterations or 1, work.every, policy, seed, work.tp, work.pp, layers, work.fidelity,
    )  # fmt: skip


def _values(
    served: Sequence[Served], asked: Sequence[int], contexts: range, work: Work, corners: Sequence[int] = ()
) -> Values:
    """Sums over all contexts, straight lines between those that were simulated."""

    def total(values: Sequence[float]) -> float:
        return fsum(np.interp(contexts, asked, values).tolist())

    seconds, often = [s.iteration_cyc * s.clock_ps * S_PER_PS for s in served], weights(contexts, asked)
    batch, latency = served[0].batch, total(seconds)
    tokens = batch * len(contexts)
    found = _energies(served, [work.tp * count / tokens for count in often], tokens)
    if (energy := found.get("energy_j")) is not None:
        found["power_w"] = energy / latency
    for name in SUMS:
        value = total([getattr(s, name) for s in served])
        found[name] = round(value) if name == "link_bytes" else value
    return found | {
        "latency_s": latency,
        "time_per_token_s": latency / len(contexts),
        "tokens_per_s": tokens / latency,
        "iterations": len(contexts),
        "simulated_iterations": len(served),
        "interpolation_error": error(asked, seconds, often, corners),
        "batch_mean": float(batch),
    }


def _listed(system: System, llm: LlmSpec, work: Work, given: Given, layers: int) -> tuple[Values, str]:
    """One iteration of a list of contexts."""
    for key in ("batch", "iterations"):
        if getattr(work, key) is not None:
            raise UserError(f"workload.{key}: {given.name} lists the contexts of one iteration; leave it out")
    tokens, channels = np.array(given.tokens, np.int64), _channels(system)
    channel = None if given.channel is None else np.array(given.channel, np.int64)
    if traits(system.spec.kind).channels:
        if channel is not None and channel.max() >= channels:
            raise UserError(f"{given.name}: names channel {channel.max()}, there are {channels}")
        if channel is None and work.policy == "round-robin":
            channel = np.array(round_robin(tokens.tolist(), channels), np.int64)
    served = serve_list(system, llm, Batch(tokens, channel), _plan(system, work, layers, len(tokens), 0))
    mean = float(attended(llm, tokens).mean())
    return _values([served], [0], range(1), work) | {"context_mean": mean}, served.spec_digest


def _served(system: System, llm: LlmSpec, work: Work, given: Given, layers: int, seed: int) -> tuple[Values, str]:
    """Iterations of a data set or a trace; what those take that are not simulated is read between the others, as time
    is. Power is that of the iterations, without the idle time between arrivals, whose energy is not in it."""
    if work.batch is None:
        raise UserError(f"workload.batch: missing; requests {given.name} do not say how many are served at once")
    plan = _plan(system, work, layers, work.batch, seed)
    workload = workload_of(given, seed)
    done, served = decode_iterations(system, llm, workload, plan)
    tokens, weights = int(done.came.sum()), done.weights
    found = _energies(served, [work.tp * weight / tokens for weight in weights], tokens)
    if (energy := found.get("energy_j")) is not None:
        found["power_w"] = energy / fsum(done.seconds)
    for name in SUMS:
        value = fsum(weight * getattr(s, name) for weight, s in zip(weights, served, strict=True))
        found[name] = round(value) if name == "link_bytes" else value
    values = found | {
        "latency_s": done.time_s,
        "time_per_token_s": done.token_time_s.mean if done.token_time_s else None,
        "tokens_per_s": done.tokens_per_s,
        "iterations": len(done.seconds),
        "simulated_iterations": len(served),
        "interpolation_error": done.interpolation_error,
        "batch_mean": float(done.batch.mean()),
        "context_mean": float(done.tokens.sum() / done.batch.sum()),
    }
    return values, workload_digest(system, llm, workload, plan)


def _energies(served: Sequence[Served], weights: Sequence[float], tokens: int) -> Values:
    """Energy of all devices: per generated token, the weighted sum of the iterations'; nothing if one has none."""
    causes = [s.iteration_energy_by_cause_j for s in served if s.iteration_energy_by_cause_j is not None]
    if len(causes) < len(served):
        return {}
    names = dict.fromkeys(name for cause in causes for name in cause)
    each = {n: fsum(w * cause.get(n, 0.0) for w, cause in zip(weights, causes, strict=True)) for n in names}
    total = fsum(each.values())
    found: Values = {"energy_j": total * tokens, "energy_per_token_j": total}
    return found | {f"{CAUSE}{name}": value * tokens for name, value in each.items()}
