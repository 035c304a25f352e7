"""Tables of one workload on several systems, and why the first is the first."""

from pathlib import Path

from pimloom.arch.name_units import counted, figure, some_layers
from pimloom.arch.units import GIB, J_PER_MJ, S_PER_MS
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.devices.boundary import AT_REST, WHOLE
from pimloom.systems.serving.comparing import Compared, Comparison

MARK = "*"  # at energies without power at rest


def show_comparison(found: Comparison, page: Path | None) -> None:
    """Print the tables, why the first is the first, and where the page is."""
    ran = [one for one in found.systems if one.reason is None]
    interpolated = any(one.interpolation_error != 0 for one in ran)
    show_line(
        f"{found.model}: {counted(found.batch, 'request')}, prompts of {counted(found.prompt_tokens, 'token')}, "
        f"{counted(found.generated_tokens, 'token')} generated of each, tensor parallel over {shared_by(found)}, "
        + ("with" if found.lm_head else "without")
        + " embedding and LM head"
        + some_layers(found.layers, found.model_layers)
        + f"; one in {found.every} decode iterations simulated, the others interpolated" * interpolated
    )
    rows = [
        {
            "system": one.system,
            "ttft": (one.time_to_first_token_s or 0.0) / S_PER_MS,
            "tpot": None if one.time_per_output_token_s is None else one.time_per_output_token_s / S_PER_MS,
            "latency": (one.latency_s or 0.0) / S_PER_MS,
            "rate": one.tokens_per_s,
            "energy": _energy(one),
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
        ("energy", "mJ/token|r", ""),
        ("power", "W|r", ",.4g"),
        ("area", "logic, mm²|r", ",.3g"),
        ("memory", "memory, GiB|r", ""),
    )
    show_rows(columns, rows)
    if any(_without_rest(one) for one in ran):
        show_line(f"{MARK}: what works alone; its power at rest has no figure")
    _show_bounds(found)
    _show_energy(found)
    for one in found.systems:
        if one.reason is not None:
            show_line(f"{one.system} cannot run it: {one.reason}")
    for note in found.notes:
        show_line(note)
    show_line(found.why)
    if page:
        show_line(str(page))


def shared_by(found: Comparison) -> str:
    """Devices that share each layer: a number, or where systems differ each number and who has it."""
    by = dict[int, list[str]]()
    for one in found.systems:
        if one.tp is not None:
            by.setdefault(one.tp, []).append(one.system)
    if len(by) == 1:
        return str(next(iter(by)))
    *others, last = (f"{tp} ({', '.join(names)})" for tp, names in by.items())
    return f"{', '.join(others)} and {last}"


def _energy(one: Compared) -> str | None:
    """Energy of a token [mJ], marked where power at rest is not in it."""
    if one.energy_per_token_j is None:
        return None
    return figure(one.energy_per_token_j / J_PER_MJ, 4) + f" {MARK}" * _without_rest(one)


def _without_rest(one: Compared) -> bool:
    return one.energy_by_cause_j is not None and AT_REST.isdisjoint(one.energy_by_cause_j)


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
