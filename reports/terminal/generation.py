"""Times and energy of equal requests from their prompts on."""

from pimloom.arch.name_units import counted, some_layers
from pimloom.arch.units import J_PER_MJ, S_PER_MS, S_PER_US
from pimloom.reports.compare.cells import cells_line
from pimloom.reports.terminal.tables import show_line
from pimloom.systems.interpolation import error_note
from pimloom.systems.serving.generation import Generated


def show_generated(found: Generated, of_energy: str | None = None) -> None:
    """Print times and energy. of_energy: why there is none, or what is not in it."""
    show_line(
        f"{found.model} on {found.system}, {found.fidelity}: {counted(found.batch, 'request')}, prompts of "
        f"{counted(found.prompt_tokens, 'token')}, {counted(found.generated_tokens, 'token')} generated of each, "
        f"tensor parallel over {found.tp}, {'with' if found.lm_head else 'without'} embedding and LM head"
        f"{some_layers(found.layers, found.model_layers)}"
    )
    if found.deployed:
        show_line(found.deployed)
    first, last = found.time_to_first_token_s / S_PER_MS, found.time_to_first_token_max_s / S_PER_MS
    show_line(f"time to first token {first:,.3f} ms on average, {last:,.3f} ms at most")
    if found.time_per_output_token_s is not None:
        show_line(f"time per output token {found.time_per_output_token_s / S_PER_US:,.1f} µs")
    show_line(
        f"end to end {found.latency_s / S_PER_MS:,.3f} ms, {found.prompt_s / S_PER_MS:,.3f} ms of it prompts; "
        f"{found.tokens_per_s:,.0f} tokens/s"
    )
    show_line(
        f"{counted(found.prompt_iterations, 'iteration')} of prompts, {found.decode_iterations:,} of decode; "
        f"{counted(found.simulated_iterations, 'different one')} simulated"
    )
    if of_time := error_note(found.interpolation_error):
        show_line(of_time)
    if found.energy_j is None or found.energy_per_token_j is None or found.prompt_energy_j is None:
        show_line(of_energy or "no energy: the system or its part does not give what it needs")
        return
    show_line(
        f"energy {found.energy_j:,.3f} J of all devices, {found.prompt_energy_j:,.3f} J of it prompts; "
        f"{found.energy_per_token_j / J_PER_MJ:,.3f} mJ per generated token; power {found.power_w:,.1f} W"
    )
    if found.energy_by_cell is not None:
        show_line(cells_line(found.energy_by_cell))
    if of_energy:
        show_line(of_energy)
