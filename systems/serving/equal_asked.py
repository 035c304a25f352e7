"""What a user asks of equal requests from their prompts on: of one system, or of several side by side."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pimloom.arch.error import UserError, of_option
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import System, load_system
from pimloom.systems.asked import COMPARED, GENERATED, Asked, Work
from pimloom.systems.devices.padded import padded_notes
from pimloom.systems.devices.routing import routing_notes
from pimloom.systems.devices.traits import traits
from pimloom.systems.interpolation import bends, chosen
from pimloom.systems.serving.asked import layers_of, load_sharing
from pimloom.systems.serving.comparing import Comparison, compare
from pimloom.systems.serving.generation import Generated, check, generate
from pimloom.systems.serving.options.prices import parse_price
from pimloom.systems.serving.stepping import CHUNK, Wanted, contexts_of
from pimloom.systems.settings import settings_by_system

MANY, FEWER = 32, 16  # decode iterations that are worth a word, and what to ask for instead: as `compare` has it


def generation_work(asked: Asked) -> Work[Generated]:
    """Generation on one system. Raises UserError."""
    fidelity, prompt = asked.fidelity or "physical", asked.prompt or 0
    llm = load_llm(asked.model)
    system, tp = load_sharing(asked.system, asked.settings, fidelity, asked.tp)
    if fidelity == "released" and (prompt or not traits(system.spec.kind).released):
        raise of_option("fidelity", "released", f"no simulator of {system.name} computes prompts; leave it out")
    batch, every = (1 if value is None else value for value in (asked.batch, asked.every))
    wanted = Wanted(
        batch=batch,
        prompt=prompt,
        generate=GENERATED if asked.generate is None else asked.generate,
        chunk=CHUNK if asked.chunk is None else asked.chunk,
        every=every,
        tp=tp,
        layers=layers_of(llm, asked.layers),
        fidelity=fidelity,
        outside=asked.lm_head,
    )
    check(llm, wanted, GENERATED if asked.generate is None else None)
    said = None if traits(system.spec.kind).sequence == "alone" else _many(llm, wanted)
    notes = [*llm.notes, *padded_notes(system, llm, wanted.tp), *routing_notes(system, llm, batch)]
    return Work(f"{llm.name} on {system.name}", partial(generate, system, llm, wanted), lambda: notes, said)


def _many(llm: LlmSpec, wanted: Wanted) -> str | None:
    """What to say of many decode iterations, each of which is simulated command by command."""
    contexts = contexts_of(wanted)
    if wanted.every > 1 or (n := len(contexts)) <= MANY:
        return None
    few = len(chosen(contexts, FEWER, bends(llm, contexts)))
    return (
        f"each of {n:,} decode iterations is simulated; --every {FEWER} simulates {few:,}, and reads the others between"
    )


def comparison_work(
    systems: Sequence[str],
    model: str,
    layers: int | None,
    lm_head: bool,
    generate: int | None,
    tp: int | None,
    settings: Sequence[str] | None = None,
    price: str | None = None,
    **equal: int,
) -> Work[Comparison]:
    """Generation on several systems. generate: tokens, None: the default; tp: None: that of each system; settings:
    `SYSTEM:KEY=VALUE`; price: of a device [$/h], one for all systems or one for each; equal: other fields of `Wanted`.
    Raises UserError."""
    if not systems:
        raise UserError("systems: expected names or paths, separated by commas, such as pim_gpt,npu_only")
    if twice := [name for name in systems if systems.count(name) > 1]:
        raise UserError(f"systems: {twice[0]} is named twice; name it once")
    llm = load_llm(model)
    asked = {"layers": layers_of(llm, layers), "generate": COMPARED if generate is None else generate, **equal}
    if tp is not None and tp < 1:
        raise of_option("tp", tp, "expected at least 1")
    wanted = Wanted(fidelity="physical", outside=lm_head, tp=tp or 1, **asked)
    check(llm, wanted, COMPARED if generate is None else None, [load_system(name) for name in systems])
    each = settings_by_system(settings or (), systems)
    prices = parse_price(price, len(systems), "of each system")
    loads = [partial(_load, name, mine, tp) for name, mine in zip(systems, each, strict=True)]
    title = f"{llm.name} on {len(systems)} systems"
    return Work(title, partial(compare, loads, llm, wanted, tp, prices), lambda: llm.notes)


def _load(name: str, settings: Sequence[str], tp: int | None) -> tuple[System, int]:
    """Load a system of a comparison. Its errors name settings with the system. Raises UserError."""
    try:
        return load_sharing(name, settings, "physical", tp, "compare")
    except UserError as error:
        raise UserError(str(error).replace("--set ", f"--set {Path(name).stem}:")) from None
