"""What `pimloom run` asks of an AttAcc system, and the answer."""

import time
from collections.abc import Sequence
from math import fsum, isfinite

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import System, load_system, spec_digest
from pimloom.arch.version import __version__
from pimloom.systems.asked import Asked, Progress, Work
from pimloom.systems.devices.attacc.boxed import Boxed, boxed
from pimloom.systems.devices.attacc.device import attending, run_of
from pimloom.systems.devices.attacc.outcome import AttAccOutcome
from pimloom.systems.devices.attacc.step import Step
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.positions import beyond, positions
from pimloom.systems.devices.routing import check_routing, routing_notes
from pimloom.systems.devices.shown import Shown
from pimloom.systems.devices.without_energy import HOST_DRAWS
from pimloom.systems.interpolation import chosen, error, error_note, weights
from pimloom.systems.settings import parse_settings

PROMPT, GENERATED = 2048, 128  # [secondary A] of its README


def attacc_work(asked: Asked) -> Work[AttAccOutcome]:
    """Equal requests on a box of GPUs. Raises UserError."""
    settings = parse_settings(asked.settings or ())
    system, llm = load_system(asked.system, settings, "run"), load_llm(asked.model)
    return box_work(system, llm, asked)


def box_work(system: System, llm: LlmSpec, asked: Asked) -> Work[AttAccOutcome]:
    """The same of a system and a model that are read already."""
    fidelity = asked.fidelity or "physical"
    if fidelity not in ("physical", "released"):
        raise UserError(f"--fidelity {fidelity}: expected physical or released")
    batch = 1 if asked.batch is None else asked.batch
    prompt, generated = _lengths(asked)
    check_routing(system, llm)
    found = boxed(system, llm, fidelity == "released")
    tokens = batch * (prompt + generated)
    if fidelity == "physical":  # the authors' code does not ask
        found.check(tokens)
    contexts = range(prompt + 1, prompt + generated + (prompt == 0))
    at = chosen(contexts, asked.every or 1)
    often = weights(contexts, at)
    digest = spec_digest(system, llm, contexts=at, batch=batch, prompt=prompt, fidelity=fidelity)

    def run(progress: Progress) -> AttAccOutcome:
        start, steps = time.perf_counter(), list[Step]()
        for n, context in enumerate(at):
            steps.append(found.decode([context] * batch))
            progress(n + 1, len(at))
        first = found.prefill([(prompt, 0)] * batch) if prompt else None
        spec, mean = system.of_kind(AttAccSystem), Step.mean(steps, often) if steps else None
        step_s, step_j = (fsum(mean.seconds.values()), fsum(mean.joules.values())) if mean else (None, None)
        prefill_s, prefill_j = (fsum(first.seconds.values()), fsum(first.joules.values())) if first else (0.0, 0.0)
        if not isfinite((step_s or 0) + prefill_s + (step_j or 0) + prefill_j):
            raise UserError(f"{system.name}: time or energy of a step is not finite; raise rates and clocks")
        outcome = AttAccOutcome(
            system=system.name,
            model=llm.name,
            fidelity=fidelity,
            gpus=spec.gpus,
            stacks=spec.gpus * spec.stacks.each,
            placement=spec.stacks.placement if spec.stacks.each else None,
            attention=attending(found.box),
            batch=batch,
            prompt_tokens=prompt,
            generated_tokens=generated,
            prefill_s=prefill_s,
            prefill_j=prefill_j,
            step_s=step_s,
            step_by_part_s=mean.seconds if mean else {},
            tokens_per_s=batch / step_s if step_s else None,
            latency_s=prefill_s + len(contexts) * (step_s or 0),
            step_j=step_j,
            step_by_part_j=mean.joules if mean else {},
            energy_by_cell=energy_by_cell(system, mean.causes, spec.gpus) if mean else None,
            energy_per_token_j=None if step_j is None else step_j / batch,
            fits=found.room_bytes // found.kv_bytes // (prompt + generated),
            notes=_notes(found, llm, prompt, generated, batch) + _interpolated(at, steps, often),
            spec_digest=digest,
            version=__version__,
            wall_s=time.perf_counter() - start,
        )
        middle = run_of(steps[len(steps) // 2], attends=attending(found.box)) if steps else None
        prompts = run_of(first) if first else None
        outcome.showing(lambda: Shown(system.name, prompts, middle))
        return outcome

    notes = [*llm.notes, *routing_notes(system, llm, batch)]
    return Work(f"decode steps of {llm.name} on {system.name}", run, lambda: notes)


def _lengths(asked: Asked) -> tuple[int, int]:
    """Tokens of a prompt, and those that follow with the first. Raises UserError."""
    prompt = PROMPT if asked.prompt is None else asked.prompt
    generated = GENERATED if asked.generate is None else asked.generate
    if generated < 1:
        raise UserError(f"--generate {generated}: expected at least 1 token")
    if prompt < 0:
        raise UserError(f"--prompt {prompt}: expected at least 0 tokens")
    return prompt, generated


def _interpolated(at: Sequence[int], steps: Sequence[Step], often: Sequence[float]) -> list[str]:
    """A note with the standard error of the decode time; empty if that is negligible."""
    note = error_note(error(at, [fsum(step.seconds.values()) for step in steps], often)) if at else ""
    return [note] if note else []


def _notes(found: Boxed, llm: LlmSpec, prompt: int, generated: int, batch: int) -> list[str]:
    lacks = found.lacks(batch * (prompt + generated))
    notes = [f"{lacks}; simulated all the same, as released"] if lacks else []
    notes += [HOST_DRAWS] if found.box.host else []
    return notes + beyond(llm, positions(prompt, generated))
