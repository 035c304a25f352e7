"""What `pimloom compare` and `pimloom.compare` do: one workload on several systems, a table and a page."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.files import prepare_folder
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.arch.units import J_PER_MJ, S_PER_MS
from pimloom.reports.terminal.show import show_line, show_rows
from pimloom.running import check_outputs, progress_bar
from pimloom.serving import layers_of
from pimloom.systems.devices.boundary import WHOLE
from pimloom.systems.serving.comparing import Comparison, compare
from pimloom.systems.serving.stepping import Wanted

GIB = 2**30


class Asked(NamedTuple):
    """Options of `pimloom compare`."""

    prompt: int
    generate: int
    batch: int
    chunk: int
    every: int
    tp: int
    layers: int | None


class Answer(NamedTuple):
    """The result, and what prints it for a person."""

    found: Comparison
    show: Callable[[], None]


def compare_command(
    systems: Sequence[str], model: str, asked: Asked, *, json: str | None, html: Path | None, quiet: bool
) -> Answer:
    """Compare as asked. Raises UserError."""
    check_outputs({"--json": json})
    if html is not None:
        _check_folder(html)
    if not systems:
        raise UserError("systems: expected names or paths, separated by commas, such as pim_gpt,npu_only")
    if twice := [name for name in systems if systems.count(name) > 1]:
        raise UserError(f"systems: {twice[0]} is named twice; name it once")
    llm = load_llm(model)
    layers = layers_of(llm, asked.layers)
    wanted = Wanted(
        batch=asked.batch,
        prompt=asked.prompt,
        generate=asked.generate,
        chunk=asked.chunk,
        every=asked.every,
        tp=asked.tp,
        layers=layers,
        fidelity="physical",
    )
    loads = [partial(load_system, name) for name in systems]
    with progress_bar(f"{llm.name} on {len(systems)} systems", quiet, _kernel(systems)) as progress:
        found, shown = compare(loads, llm, wanted, progress)
    check_outputs({"--json": json})  # once more: by now its inputs have been read
    page = None
    if html is not None:
        from pimloom.reports.compare.page import write_page

        page = write_page(html, found, shown)
    return Answer(found, partial(show_comparison, found, page))


def _check_folder(html: Path) -> None:
    """Make the page's folder before the work. Raises UserError if it cannot be made."""
    try:
        prepare_folder(html)
    except UserError as error:
        raise UserError(f"--html {html}: {str(error).replace('--out', '--html')}") from None


def _kernel(systems: Sequence[str]) -> object:
    """What must be compiled before an NPU runs for the first time; None without one."""
    if not any(load_system(name).kind == "npu_pim" for name in systems):
        return None
    from pimloom.cycle_sim.npu_pim.kernels.machine import run_all

    return run_all


def show_comparison(found: Comparison, page: Path | None) -> None:
    """Print the tables, why the first is the first, and where the page is."""
    show_line(
        f"{found.model}: {found.batch:,} requests, prompts of {found.prompt_tokens:,} tokens, "
        f"{found.generated_tokens:,} tokens generated of each, tensor parallel over {found.tp}"
        + (f"; each {found.every}th decode iteration simulated, the others interpolated" if found.every > 1 else "")
    )
    ran = [one for one in found.systems if one.reason is None]
    rows = [
        {
            "system": one.system,
            "ttft": (one.time_to_first_token_s or 0.0) / S_PER_MS,
            "tpot": None if one.time_per_output_token_s is None else one.time_per_output_token_s / S_PER_MS,
            "latency": (one.latency_s or 0.0) / S_PER_MS,
            "rate": one.tokens_per_s,
            "energy": None if one.energy_per_token_j is None else one.energy_per_token_j / J_PER_MJ,
            "power": one.power_w,
            "area": one.area_mm2,
            "memory": f"{(one.memory_needed_bytes or 0) / GIB:,.2f} of {(one.memory_bytes or 0) / GIB:,.1f}",
        }
        for one in ran
    ]
    columns = (
        ("system", "system", ""),
        ("ttft", "to first token, ms|r", ",.4g"),
        ("tpot", "per output token, ms|r", ",.4g"),
        ("latency", "end to end, ms|r", ",.5g"),
        ("rate", "tokens/s|r", ",.5g"),
        ("energy", "mJ/token|r", ",.4g"),
        ("power", "W|r", ",.4g"),
        ("area", "logic, mm²|r", ",.3g"),
        ("memory", "memory, GiB|r", ""),
    )
    show_rows(columns, rows)
    _show_bounds(found)
    _show_energy(found)
    for one in found.systems:
        if one.reason is not None:
            show_line(f"{one.system} cannot run it: {one.reason}")
    show_line(found.why)
    if page:
        show_line(str(page))


def _show_bounds(found: Comparison) -> None:
    rows = [
        {
            "system": one.system,
            "phase": name,
            "time": phase.time_s / S_PER_MS,
            "bound": phase.bound,
            "share": None if phase.bound_share is None else 100 * phase.bound_share,
            "busy": ", ".join(f"{resource} {100 * share:.3g}" for resource, share in phase.utilisation.items()),
        }
        for one in found.systems
        for name, phase in (("prompts", one.prefill), ("decode", one.decode))
        if phase is not None
    ]
    columns = (
        ("system", "system", ""),
        ("phase", "phase", ""),
        ("time", "ms|r", ",.5g"),
        ("bound", "bound by", ""),
        ("share", "% of it at full rate|r", ".3g"),
        ("busy", "busy, %", ""),
    )
    show_rows(columns, rows)


def _show_energy(found: Comparison) -> None:
    tokens = found.batch * found.generated_tokens
    there = [one for one in found.systems if one.energy_by_part_j is not None]
    parts = [*found.boundary, *([WHOLE] if any(WHOLE in (one.energy_by_part_j or {}) for one in there) else [])]
    rows = []
    for one in there:
        parted = one.energy_by_part_j or {}
        each = {part: parted[part] / tokens / J_PER_MJ if part in parted else None for part in parts}
        rows.append({"system": one.system} | each)
    if rows:
        show_rows((("system", "mJ/token inside", ""), *((part, f"{part}|r", ",.4g") for part in parts)), rows)
        show_line("–: no figure for this part; the energy above leaves it out")
