"""What `pimloom run` asks of an AttAcc system, and the answer."""

import time
from math import fsum, isfinite

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import System, load_system, spec_digest
from pimloom.arch.version import __version__
from pimloom.systems.asked import Asked, Progress, Work
from pimloom.systems.devices.attacc.boxed import Boxed, boxed
from pimloom.systems.devices.attacc.outcome import AttAccOutcome
from pimloom.systems.devices.attacc.prompt import prompt_step
from pimloom.systems.devices.attacc.step import Step, decode_step
from pimloom.systems.settings import parse_settings

PROMPT, GENERATED = 2048, 128  # [secondary A] of its README


def attacc_work(asked: Asked) -> Work[AttAccOutcome]:
    """Equal requests on a box of GPUs. Raises UserError."""
    system, llm = _loaded(asked), load_llm(asked.model)
    fidelity = asked.fidelity or "physical"
    if fidelity not in ("physical", "released"):
        raise UserError(f"--fidelity {fidelity}: expected physical or released")
    batch = 1 if asked.batch is None else asked.batch
    prompt, generated = _lengths(asked)
    found = boxed(system, llm, fidelity == "released")
    tokens = batch * (prompt + generated)
    if fidelity == "physical":  # the authors' code does not ask
        found.check(tokens)
    every = asked.every or 1
    contexts = [prompt + i for i in range(1, generated)]
    chosen = sorted({*contexts[::every], contexts[-1]})
    digest = spec_digest(system, llm, contexts=chosen, batch=batch, fidelity=fidelity)

    def run(progress: Progress) -> AttAccOutcome:
        start = time.perf_counter()
        steps = []
        for n, context in enumerate(chosen):
            steps.append(decode_step(found.box, found.decoder, batch, context, found.slips))
            progress(n + 1, len(chosen))
        first = prompt_step(found.box, found.decoder, batch, prompt, found.slips)
        spec, mean = system.of_kind(AttAccSystem), Step.mean(steps)
        step_s, step_j = fsum(mean.seconds.values()), fsum(mean.joules.values())
        prefill_s = fsum(first.seconds.values())
        if not isfinite(step_s + prefill_s + step_j + fsum(first.joules.values())):
            said = "time or energy of a step is beyond all numbers; raise rates and clocks"
            raise UserError(f"{system.name}: {said}")
        return AttAccOutcome(
            system=asked.system,
            model=asked.model,
            fidelity=fidelity,
            gpus=spec.gpus,
            stacks=spec.gpus * spec.stacks.each,
            placement=spec.stacks.placement if spec.stacks.each else None,
            batch=batch,
            prompt_tokens=prompt,
            generated_tokens=generated,
            prefill_s=prefill_s,
            prefill_j=fsum(first.joules.values()),
            step_s=step_s,
            step_by_part_s=mean.seconds,
            tokens_per_s=batch / step_s,
            latency_s=prefill_s + (generated - 1) * step_s,
            step_j=step_j,
            step_by_part_j=mean.joules,
            energy_per_token_j=step_j / batch,
            fits=found.room_bytes // found.kv_bytes // (prompt + generated),
            notes=_notes(found, llm.max_position_embeddings, prompt + generated, batch),
            spec_digest=digest,
            version=__version__,
            wall_s=time.perf_counter() - start,
        )

    return Work(f"decode steps of {llm.name} on {system.name}", run)


def _loaded(asked: Asked) -> System:
    """Raises UserError also for keys of stacks where there are none."""
    settings = parse_settings(asked.settings or ())
    system = load_system(asked.system, settings)
    if not system.of_kind(AttAccSystem).stacks.each:
        for place in settings:
            if place.startswith(("stacks.", "dram.")) and place != "stacks.each":
                raise UserError(f"--set {place}: {system.name} has no stacks; --set stacks.each=5 gives it some")
    return system


def _lengths(asked: Asked) -> tuple[int, int]:
    """Tokens of a prompt, and those that follow with the first. Raises UserError."""
    prompt = PROMPT if asked.prompt is None else asked.prompt
    generated = GENERATED if asked.generate is None else asked.generate
    if generated < 2:
        raise UserError(f"--generate {generated}: expected at least 2 tokens; the prompt gives the first")
    if prompt < 1:
        raise UserError(f"--prompt {prompt}: expected at least 1 token")
    return prompt, generated


def _notes(found: Boxed, positions: int, tokens: int, batch: int) -> list[str]:
    said = found.lacks(batch * tokens)
    notes = [f"{said}; simulated all the same, as released"] if said else []
    if tokens > positions:
        notes.append(f"the model has positions for {positions:,} tokens; contexts of up to {tokens:,} are simulated")
    return notes
