"""What `pimloom run` does with equal requests from their prompts on: simulate, and print what they took."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.units import J_PER_MJ, S_PER_MS, S_PER_US
from pimloom.cycle_sim.npu_pim.kernels.machine import run_all
from pimloom.reports.terminal.show import show_line
from pimloom.running import check_outputs, progress_bar
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


def show_generated(found: Generated) -> None:
    """Print times and energy."""
    show_line(
        f"{found.model} on {found.system}, {found.fidelity}: {found.batch:,} requests, prompts of "
        f"{found.prompt_tokens:,} tokens, {found.generated_tokens:,} tokens generated of each, tensor parallel over "
        f"{found.tp}"
    )
    first, last = found.time_to_first_token_s / S_PER_MS, found.time_to_first_token_max_s / S_PER_MS
    show_line(f"time to first token {first:,.3f} ms on average, {last:,.3f} ms at most")
    if found.time_per_output_token_s is not None:
        show_line(f"time per output token {found.time_per_output_token_s / S_PER_US:,.1f} µs")
    show_line(
        f"end to end {found.latency_s / S_PER_MS:,.3f} ms, {found.prompt_s / S_PER_MS:,.3f} ms of it prompts; "
        f"{found.tokens_per_s:,.0f} tokens/s"
    )
    show_line(
        f"{found.prompt_iterations:,} iterations of prompts, {found.decode_iterations:,} of decode; "
        f"{found.simulated_iterations:,} different ones simulated"
    )
    if found.energy_j is None or found.energy_per_token_j is None or found.prompt_energy_j is None:
        show_line("no energy: the system or its part does not give what it needs")
        return
    show_line(
        f"energy {found.energy_j:,.3f} J of all devices, {found.prompt_energy_j:,.3f} J of it prompts; "
        f"{found.energy_per_token_j / J_PER_MJ:,.3f} mJ per generated token; power {found.power_w:,.1f} W"
    )
