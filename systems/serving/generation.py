"""A batch of equal requests from their prompts to their last token, on a machine that serves batches."""

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.version import __version__
from pimloom.energy.cells import EnergyCell
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.device import device_of
from pimloom.systems.devices.positions import check_positions
from pimloom.systems.devices.run import Run, total_j
from pimloom.systems.devices.shown import Shown, WithSpans, shown
from pimloom.systems.devices.traits import has_outside, traits
from pimloom.systems.interpolation import bends, error
from pimloom.systems.serving.stepping import (
    Part,
    Progress,
    Simulated,
    Wanted,
    chunked,
    contexts_of,
    shown_of,
    simulated,
)

MOST_REQUESTS = 2**16  # of a batch: each is simulated by itself


class Generated(WithSpans, frozen=True, kw_only=True):
    """Prompts first, in the order of the requests, then one token of each request in every iteration; fields as in
    CONVENTIONS.md. A request's first token comes with the end of its prompt. lm_head: whether embedding, LM head and
    sampling are in times, energies and memory. Energies are of all `tp` devices, None where the system or its part
    gives none."""

    system: str
    model: str
    fidelity: str
    batch: int
    prompt_tokens: int
    generated_tokens: int
    lm_head: bool
    chunk: int
    tp: int
    deployed: str | None
    nodes: int | None
    devices: int | None
    layers: int
    model_layers: int
    latency_s: float
    prompt_s: float
    time_to_first_token_s: float
    time_to_first_token_max_s: float
    time_per_output_token_s: float | None
    tokens_per_s: float
    prompt_energy_j: float | None
    energy_j: float | None
    energy_per_token_j: float | None
    energy_by_cause_j: dict[str, float] | None
    power_w: float | None
    prompt_iterations: int
    decode_iterations: int
    simulated_iterations: int
    every: int
    interpolation_error: float | None
    decode_s: list[float]
    spec_digest: str
    version: str
    energy_by_cell: dict[str, EnergyCell] | None = None


class Prompts(NamedTuple):
    """Iterations of prompts, what each took, and how many different ones there are."""

    iterations: list[list[tuple[int, Part]]]
    took: list[Run]
    different: int

    def first_s(self, wanted: Wanted) -> np.ndarray:
        """When the prompt of each request has ended [s]."""
        found, end = np.zeros(wanted.batch), 0.0
        for each, took in zip(self.iterations, self.took, strict=True):
            end += took.time_s
            for request, (new, old) in each:
                if new + old == wanted.prompt:
                    found[request] = end
        return found


def generate(system: System, llm: LlmSpec, wanted: Wanted, progress: Progress = lambda done, total: None) -> Generated:
    """Simulate each different iteration once, on a device whose steps depend on those before them every one; of decode
    one in `every`, the first and the last, between which times and energies of the others are read from straight
    lines. Raises UserError."""
    check(llm, wanted)
    steps = simulated(device_of(system, llm, wanted.share), system, llm, wanted, progress)
    return generated(steps, system, llm, wanted)


def generated(steps: Simulated, system: System, llm: LlmSpec, wanted: Wanted) -> Generated:
    """What the steps come to."""
    iterations = list(chunked(wanted.batch, wanted.prompt, wanted.chunk))
    found = _result(system, llm, wanted, Prompts(iterations, steps.prompts, steps.different), steps)

    kept = steps.kept  # of all that is simulated; a device would keep all that it has met

    def show() -> Shown:
        return shown(device_of(system, llm, wanted.share), system.name, *shown_of(wanted), kept)

    found.showing(show)
    return found


def check(llm: LlmSpec, wanted: Wanted, default: int | None = None, beside: Sequence[System] = ()) -> None:
    """Raise UserError, by the name of the option, for a number out of range, or more tokens than the model has
    positions for, unless one of the systems goes beyond. default: what `generate` is where nobody asks for another."""
    for name, least in (("batch", 1), ("prompt", 0), ("generate", 1), ("chunk", 1), ("every", 1)):
        if getattr(wanted, name) < least:
            raise UserError(f"--{name} {getattr(wanted, name)}: expected at least {least}")
    if wanted.batch > MOST_REQUESTS:
        raise UserError(f"--batch {wanted.batch}: expected at most {MOST_REQUESTS:,}; take fewer, on fewer devices")
    if not any(traits(system.kind).beyond for system in beside):
        check_positions(llm, wanted.prompt, wanted.generate, default=wanted.generate == default)


def _result(system: System, llm: LlmSpec, wanted: Wanted, prompts: Prompts, steps: Simulated) -> Generated:
    contexts, tokens, at = contexts_of(wanted), steps.decode, sorted(steps.decode)
    decode_s = np.interp(contexts, at, [tokens[n].time_s for n in at]) if at else np.zeros(0)
    decoded_s, prompt_s = decode_s.tolist(), fsum(took.time_s for took in prompts.took)
    first = prompts.first_s(wanted) + (0.0 if wanted.prompt else decoded_s[0])
    latency = prompt_s + fsum(decoded_s)
    behind = wanted.generate - 1
    prompt_j = total_j([(took.device_j, took.devices) for took in prompts.took])
    decode_j = total_j([(tokens[n].device_j, tokens[n].devices * steps.weights[n]) for n in at])
    by_cause = total_j([(prompt_j, 1), (decode_j, 1)])
    joules = None if by_cause is None else fsum(by_cause.values())
    generated, there = wanted.batch * wanted.generate, traits(system.kind).deployed(system, wanted.tp)
    return Generated(
        system=system.name,
        model=llm.name,
        fidelity=wanted.fidelity,
        batch=wanted.batch,
        prompt_tokens=wanted.prompt,
        generated_tokens=wanted.generate,
        lm_head=has_outside(system, wanted.outside),
        chunk=wanted.chunk,
        tp=wanted.tp,
        deployed=there.said,
        nodes=there.nodes,
        devices=there.devices,
        layers=wanted.layers,
        model_layers=llm.num_hidden_layers,
        latency_s=latency,
        prompt_s=prompt_s,
        time_to_first_token_s=float(first.mean()),
        time_to_first_token_max_s=float(first.max()),
        time_per_output_token_s=float((latency - first).mean()) / behind if behind else None,
        tokens_per_s=generated / latency,
        prompt_energy_j=None if prompt_j is None else fsum(prompt_j.values()),
        energy_j=joules,
        energy_per_token_j=None if joules is None else joules / generated,
        energy_by_cause_j=by_cause,
        power_w=None if joules is None else joules / latency,
        prompt_iterations=len(prompts.iterations),
        decode_iterations=len(contexts),
        simulated_iterations=prompts.different + len(at),
        every=wanted.every,
        interpolation_error=error(
            at, [tokens[n].time_s for n in at], [steps.weights[n] for n in at], bends(llm, contexts)
        ),
        decode_s=decoded_s,
        spec_digest=wanted.digest(system, llm),
        version=__version__,
        energy_by_cell=None if by_cause is None else energy_by_cell(system, by_cause, wanted.tp),
    )
