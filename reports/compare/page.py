"""A page of one workload on several systems: tables, what bounds each, and a step of each side by side."""

import json
from collections.abc import Sequence
from pathlib import Path

from pimloom.arch.files import prepare_folder, write_atomic
from pimloom.arch.name_units import counted, some_layers
from pimloom.arch.units import J_PER_MJ, S_PER_MS
from pimloom.reports.compare.steps import decode_figure, prompt_figure, trace
from pimloom.reports.figures import stacked_bars
from pimloom.reports.page import Card, Column, Figure, Notes, Page, Section, TableData, render
from pimloom.reports.terminal.comparison import shared_by
from pimloom.systems.devices.boundary import PARTS, WHOLE
from pimloom.systems.devices.shown import Shown
from pimloom.systems.serving.comparing import Compared, Comparison, Phase

GIB = 2**30
NOT_INSIDE = (
    "Energy is of everything inside the named parts of all devices; a dash is a part for which a system has no figure, "
    "so that its sum is a lower bound. `whole device`: power x time of a processor, which cannot be told apart into "
    "DRAM, interface, logic and static power. No system has a figure for its host."
)


def write_page(out: Path, found: Comparison, shown: Sequence[Shown]) -> Path:
    """`index.html`, `results.json`, and `timeline.json` for Perfetto. Raises UserError."""
    folder = prepare_folder(out)
    page = folder / "index.html"
    if shown:
        write_atomic(folder / "timeline.json", trace(shown))
    write_atomic(folder / "results.json", json.dumps(found.as_dict(), indent=2, sort_keys=True) + "\n")
    write_atomic(page, render(build_page(found, shown)))
    return page


def build_page(found: Comparison, shown: Sequence[Shown]) -> Page:
    """The whole page."""
    ran = [one for one in found.systems if one.reason is None]
    sections = [
        Section("Systems", "systems", "\n\n".join([found.why, *found.notes]), [_systems(found), *_refused(found)]),
        *([Section("Energy", "energy", NOT_INSIDE, [_energy_table(found, ran), *_energy_figure(ran)])] if ran else []),
        *([Section("What bounds each phase", "bounds", BOUNDS, [_phases(ran), *_times(ran)])] if ran else []),
    ]
    if shown:
        figures = [figure for figure in (prompt_figure(shown), decode_figure(shown)) if figure]
        sections.append(Section("Side by side", "timeline", STEPS, figures))
    interpolated = any(one.interpolation_error != 0 for one in ran)
    return Page(
        f"{found.model} on {counted(len(found.systems), 'system')}",
        f"{counted(found.batch, 'request')}, prompts of {counted(found.prompt_tokens, 'token')}, "
        f"{counted(found.generated_tokens, 'token')} generated of each, tensor parallel over {shared_by(found)}, "
        f"{'with' if found.lm_head else 'without'} embedding and LM head"
        f"{some_layers(found.layers, found.model_layers)}"
        + f"; one in {found.every} decode iterations simulated, the others interpolated" * interpolated
        + ".",
        sections,
        _cards(ran),
        {"version": found.version, "digest": found.spec_digest, "every": found.every, "chunk": found.chunk},
    )


BOUNDS = (
    "For each kind of work, the share of a phase's time that it alone would take at its full rate: arrays or PIM that "
    "multiply without a pause (compute), data pins that are never idle (memory bandwidth), a command in every clock "
    "(commands), links (link); of a roofline the starts of its operators, `launch_us` each (launches). The largest "
    "bounds the phase; where all are small, operators wait for one another or for rows to open."
)
PHASES = (
    "Prompts: all iterations until the last prompt has ended. Decode: all iterations behind them. Busy: share of the "
    "time in which each resource works on something."
)
STEPS = (
    "One step of each system from its beginning, on one time axis: the end of a prompt (where tokens come one "
    "by one, as on PIM-GPT, the last 8 of them), and the decode step in the middle of the generation. `timeline.json` "
    "has both whole, for Perfetto (ui.perfetto.dev)."
)


def _cards(ran: Sequence[Compared]) -> list[Card]:
    if not ran:
        return []
    fastest = min(ran, key=lambda one: one.latency_s or 0.0)
    cards = [
        Card("Shortest end to end", (fastest.latency_s or 0.0) / S_PER_MS, "ms", fastest.system),
        Card("Most tokens a second", fastest.tokens_per_s, "tokens/s", fastest.system),
    ]
    if with_energy := [one for one in ran if one.energy_per_token_j is not None]:
        least = min(with_energy, key=lambda one: one.energy_per_token_j or 0.0)
        cards.append(Card("Least energy", (least.energy_per_token_j or 0.0) / J_PER_MJ, "mJ/token", least.system))
    return cards


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _systems(found: Comparison) -> TableData:
    rows = [
        {
            "system": one.system,
            "ttft": _scaled(one.time_to_first_token_s, S_PER_MS),
            "tpot": _scaled(one.time_per_output_token_s, S_PER_MS),
            "latency": _scaled(one.latency_s, S_PER_MS),
            "rate": one.tokens_per_s,
            "energy": _scaled(one.energy_per_token_j, J_PER_MJ),
            "power": one.power_w,
            "area": one.area_mm2,
            "needed": _scaled(one.memory_needed_bytes, GIB),
            "there": _scaled(one.memory_bytes, GIB),
            "steps": one.simulated_iterations,
        }
        for one in found.systems
    ]
    columns = [
        Column("system", "system"),
        Column("ttft", "time to first token", "ms"),
        Column("tpot", "time per output token", "ms"),
        Column("latency", "end to end", "ms"),
        Column("rate", "rate", "tokens/s"),
        Column("energy", "energy", "mJ/token"),
        Column("power", "power", "W"),
        Column("area", "area of logic", "mm²"),
        Column("needed", "memory needed", "GiB"),
        Column("there", "memory there", "GiB"),
        Column("steps", "steps simulated"),
    ]
    return TableData("Results", columns, rows, "Times and energies of all requests; areas and memory of all devices.")


def _refused(found: Comparison) -> list[Notes]:
    reasons = [f"`{one.system}`: {one.reason}" for one in found.systems if one.reason is not None]
    return [Notes("Systems that cannot run it", reasons)] if reasons else []


def _parts(ran: Sequence[Compared]) -> list[str]:
    """Parts for which a system has a figure."""
    return [part for part in (*PARTS, WHOLE) if any(part in (one.energy_by_part_j or {}) for one in ran)]


def _energy_table(found: Comparison, ran: Sequence[Compared]) -> TableData:
    parts, tokens = _parts(ran), found.batch * found.generated_tokens
    rows = [
        {"system": one.system, "sum": _scaled(one.energy_per_token_j, J_PER_MJ)}
        | {part: _scaled((one.energy_by_part_j or {}).get(part), J_PER_MJ * tokens) for part in parts}
        for one in ran
    ]
    columns = [Column("system", "system"), *(Column(part, part, "mJ/token") for part in parts)]
    caption = f"All energy, of prompts too, by {found.batch * found.generated_tokens:,} generated tokens. "
    caption += "Parts for which no system has a figure have no column."
    return TableData("Energy per generated token", [*columns, Column("sum", "sum", "mJ/token")], rows, caption)


def _energy_figure(ran: Sequence[Compared]) -> list[Figure]:
    there = [one for one in ran if one.energy_by_cause_j and one.energy_per_token_j and one.latency_s]
    if not there:
        return []
    parts = list(dict.fromkeys(part for one in there for part in one.energy_by_part_j or {}))
    each = {
        part: [
            (one.energy_by_part_j or {}).get(part, 0.0)
            / sum((one.energy_by_part_j or {}).values())
            * (one.energy_per_token_j or 0.0)
            / J_PER_MJ
            for one in there
        ]
        for part in parts
    }
    names = [one.system for one in there]
    caption = "The table above as bars" + ("." if len(there) == len(ran) else "; systems without energy are left out.")
    titles = {"xlabel": "system", "ylabel": "Energy [mJ/token]"}
    return [stacked_bars("Energy per token by part", names, each, caption=caption, **titles)]


def _phases(ran: Sequence[Compared]) -> TableData:
    rows = [
        _phase(one.system, name, phase)
        for one in ran
        for name, phase in (("prompts", one.prefill), ("decode", one.decode))
        if phase is not None
    ]
    columns = [
        Column("system", "system"),
        Column("phase", "phase"),
        Column("time", "time", "ms"),
        Column("bound", "bound by"),
        Column("share", "share of the time", "%", digits=3),
        Column("limits", "all kinds of work, %"),
        Column("busy", "busy, %"),
    ]
    return TableData("Bounds and utilisation", columns, rows, PHASES)


def _phase(system: str, name: str, phase: Phase) -> dict[str, object]:
    return {
        "system": system,
        "phase": name,
        "time": phase.time_s / S_PER_MS,
        "bound": phase.bound,
        "share": None if phase.bound_share is None else 100 * phase.bound_share,
        "limits": shares(phase.limits),
        "busy": shares(phase.utilisation),
    }


def shares(of: dict[str, float]) -> str:
    """Shares as one text.

    >>> shares({"compute": 0.5, "link": 0.0123})
    'compute 50, link 1.2'
    """
    return ", ".join(f"{name} {100 * value:.{3 if value >= 0.1 else 2}g}" for name, value in of.items())


def _times(ran: Sequence[Compared]) -> list[Figure]:
    series = {
        said: [getattr(one, phase).time_s / S_PER_MS if getattr(one, phase) else 0.0 for one in ran]
        for phase, said in (("prefill", "prompts"), ("decode", "decode"))
    }
    there = {name: values for name, values in series.items() if any(values)}
    caption, titles = "Both phases together are the time end to end.", {"xlabel": "system", "ylabel": "Time [ms]"}
    return [stacked_bars("Time of each phase", [one.system for one in ran], there, caption=caption, **titles)]
