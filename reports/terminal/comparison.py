"""Tables of one workload on several systems, and why the first is the first."""

from collections.abc import Sequence
from pathlib import Path

from pimloom.arch.name_units import counted, some_layers
from pimloom.arch.units import GIB, S_PER_MS
from pimloom.reports.compare.cells import LEGEND, cell_rows, power_text, size_rows, sum_text, unknown_on_all
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.devices.sizes import DIGITS, SIZES
from pimloom.systems.serving.comparing import Compared, Comparison
from pimloom.systems.serving.why import LATENCY_DIGITS


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
            "power": power_text(one),
            "memory": f"{(one.memory_needed_bytes or 0) / GIB:,.2f} of {(one.memory_bytes or 0) / GIB:,.1f}",
        }
        for one in ran
    ]
    columns = (
        ("system", "system", ""),
        ("ttft", "to first token, ms|r", ",.4g"),
        ("tpot", "per output token, ms|r", ",.4g"),
        ("latency", "end to end, ms|r", f",.{LATENCY_DIGITS}g"),
        ("rate", "tokens/s|r", ",.5g"),
        ("energy", "mJ/token|r", ""),
        ("power", "W|r", ""),
        ("memory", "memory, GiB|r", ""),
    )
    show_rows(columns, rows)
    _show_sizes(ran)
    _show_bounds(found)
    _show_energy(found)
    for one in found.systems:
        if one.reason is not None:
            show_line(f"{one.system} cannot run it: {one.reason}")
    for note in found.notes:
        show_line(note)
    show_line(found.why)
    if len(ran) > 1:
        show_line(found.energy.why)
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
    """Energy of a token [mJ], marked where it is a bound."""
    if one.energy_per_token_j is None or one.energy_by_cell is None:
        return None
    return sum_text(one.energy_by_cell, one.energy_per_token_j)


def _show_sizes(ran: Sequence[Compared]) -> None:
    """How large each system is, and its rate for each unit of that."""
    rows = size_rows(ran)
    sizes = [("n", "devices|r", ","), ("gb_s", "memory, GB/s|r", ",.5g"), ("area", "logic, mm²|r", ",.3g")]
    sizes += [("usd", "$/h|r", ",.4g")]
    per = [(name, f"tokens/s per {said}|r", "" if name == "w" else f",.{DIGITS}g") for name, said in SIZES.items()]
    there = [column for column in (*sizes, *per) if any(row[column[0]] is not None for row in rows)]
    show_rows((("system", "system", ""), *there), rows)


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
    ledgers = {one.system: one.energy_by_cell for one in found.systems if one.energy_by_cell is not None}
    if not ledgers:
        return
    rows = cell_rows(ledgers, found.batch * found.generated_tokens)
    show_rows((("cell", "mJ/token", ""), *((name, f"{name}|r", "") for name in ledgers)), rows)
    show_line(LEGEND)
    if unknown := unknown_on_all(ledgers):
        show_line(f"Unknown on all: {', '.join(unknown)}.")
