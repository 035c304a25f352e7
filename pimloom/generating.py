"""What `pimloom run` does with equal requests from their prompts on."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.cycle_sim.npu_pim.kernels.machine import run_all
from pimloom.outputs import check_outputs
from pimloom.progress import progress_bar
from pimloom.reports.terminal.generation import show_generated
from pimloom.serving import layers_of, load_faithful
from pimloom.systems.devices.traits import traits
from pimloom.systems.serving.generation import Generated, generate
from pimloom.systems.serving.stepping import CHUNK, Wanted


class Asked(NamedTuple):
    """Options of `pimloom run`; None where not given."""

    prompt: int
    generate: int
    batch: int | None
    chunk: int | None
    every: int | None
    tp: int | None
    layers: int | None
    fidelity: str | None


class Answer(NamedTuple):
    """The result, and what prints it for a person."""

    found: Generated
    show: Callable[[], None]


def generate_command(
    system: str, model: str, settings: Sequence[str], asked: Asked, *, json: str | None, quiet: bool
) -> Answer:
    """Simulate as `pimloom run` was asked to. Raises UserError."""
    check_outputs({"--json": json})
    fidelity = asked.fidelity or "physical"
    llm, hardware = load_llm(model), load_faithful(system, settings, fidelity)
    if fidelity == "released" and (asked.prompt or not traits(hardware.spec.kind).faults):
        raise UserError(f"--fidelity released: no simulator of {hardware.name} computes prompts; leave it out")
    check_outputs({"--json": json})  # once more: by now its inputs have been read
    each = [1 if value is None else value for value in (asked.batch, asked.every, asked.tp)]
    wanted = Wanted(
        batch=each[0],
        prompt=asked.prompt,
        generate=asked.generate,
        chunk=CHUNK if asked.chunk is None else asked.chunk,
        every=each[1],
        tp=each[2],
        layers=layers_of(llm, asked.layers),
        fidelity=fidelity,
    )
    with progress_bar(f"{llm.name} on {hardware.name}", quiet, run_all) as progress:
        found = generate(hardware, llm, wanted, progress)
    return Answer(found, lambda: show_generated(found))
