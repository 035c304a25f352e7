"""A page of one workload on several systems: tables, what bounds each, and a step of each side by side."""

import json
from collections.abc import Sequence
from pathlib import Path

from pimloom.arch.files import prepare_folder, together, write_atomic
from pimloom.arch.name_units import counted, some_layers
from pimloom.arch.units import J_PER_MJ, S_PER_MS
from pimloom.energy.cells import ledger_j
from pimloom.reports.compare.cells import (
    LEGEND,
    cell_rows,
    power_text,
    size_rows,
    source_rows,
    sum_text,
    unknown_on_all,
)
from pimloom.reports.compare.steps import decode_figure, prompt_figure, trace
from pimloom.reports.figures import stacked_bars
from pimloom.reports.page import Card, Column, Figure, Notes, Page, Section, TableData, render
from pimloom.reports.terminal.comparison import shared_by
from pimloom.systems.devices.shown import Shown
from pimloom.systems.devices.sizes import SIZES, listed, size_text
from pimloom.systems.serving.comparing import Compared, Comparison, Phase
from pimloom.systems.serving.why import fastest

GIB = 2**30
LEDGER = (
    "One ledger for all systems: dynamic energy, of work that is done, and static energy, over time, of each part. "
    "Sums are compared only over the same cells. "
)


def write_page(out: Path, found: Comparison, shown: Sequence[Shown]) -> Path:
    """`index.html`, `results.json`, and `timeline.json` for Perfetto. Raises UserError."""
    with together():
        folder = prepare_folder(out)
        if shown:
            write_atomic(folder / "timeline.json", trace(shown))
        write_atomic(folder / "results.json", json.dumps(found.as_dict(), indent=2, sort_keys=True) + "\n")
        write_atomic(folder / "index.html", render(build_page(found, shown)))
    return folder / "index.html"


def build_page(found: Comparison, shown: Sequence[Shown]) -> Page:
    """The whole page."""
    ran = [one for one in found.systems if one.reason is None]
    sections = [
        Section(
            "Systems",
            "systems",
            "\n\n".join([found.why, found.energy.why, *found.notes]),
            [
                _systems(found),
                _sizes(ran),
                *_refused(found),
            ],
        ),
        *_energy(found, ran),
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
        _cards(found, ran),
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


def _cards(found: Comparison, ran: Sequence[Compared]) -> list[Card]:
    """Cards: the fastest system, the fastest per unit of each size, and the least energy if the ranking has one."""
    by = {one.system: one for one in ran}
    if found.first not in by:
        return []
    first = by[found.first]
    size = size_text(first.devices or 1, first.memory_gb_s or 0.0)
    cards = [Card("Shortest end to end", (first.latency_s or 0.0) / S_PER_MS, "ms", f"{first.system}: {size}")]
    if len(tied := fastest(sorted(ran, key=lambda one: one.latency_s or 0.0))) > 1:
        cards = [Card("Shortest end to end", (first.latency_s or 0.0) / S_PER_MS, "ms", listed(tied))]
    for name in ("device", "memory_gb_s", "usd_per_h"):
        if system := found.first_by_size[name]:
            rate = (by[system].tokens_per_s_by_size or {})[name]
            cards.append(Card(f"Most tokens/s per {SIZES[name]}", rate, "", system))
    if least := found.energy.least:
        joules = (by[least].energy_per_token_j or 0.0) / J_PER_MJ
        cards.append(Card("Least energy, same cells", joules, "mJ/token", least))
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
            "energy": one.energy_by_cell and sum_text(one.energy_by_cell, one.energy_per_token_j or 0.0),
            "power": power_text(one),
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
        Column("energy", "energy", "mJ/token", align="right"),
        Column("power", "power", "W", align="right"),
        Column("needed", "memory needed", "GiB"),
        Column("there", "memory there", "GiB"),
        Column("steps", "steps simulated"),
    ]
    return TableData("Results", columns, rows, "Times and energies of all requests; memory of all devices. ≤: at "
                     "most; ≥: at least, because a figure is a bound or a cell is unknown.")  # fmt: skip


def _sizes(ran: Sequence[Compared]) -> TableData:
    rows = size_rows(ran)
    columns = [
        Column("n", "devices"), Column("gb_s", "memory", "GB/s", format=",.0f"),
        Column("area", "area of logic", "mm²"), Column("usd", "price", "$/h"),
        *(Column(name, f"tokens/s per {said}", align="right") for name, said in SIZES.items()),
    ]  # fmt: skip
    there = [column for column in columns if any(row[column.key] is not None for row in rows)]
    caption = (
        "Rates of all devices together, and per unit of a size. GB/s: of the data pins of all memories. ≤ and ≥: W is "
        "made from the energy, whose bounds it has."
    )
    return TableData("Sizes", [Column("system", "system"), *there], rows, caption)


def _refused(found: Comparison) -> list[Notes]:
    reasons = [f"`{one.system}`: {one.reason}" for one in found.systems if one.reason is not None]
    return [Notes("Systems that cannot run it", reasons)] if reasons else []


def _energy(found: Comparison, ran: Sequence[Compared]) -> list[Section]:
    ledgers = {one.system: one.energy_by_cell for one in ran if one.energy_by_cell is not None}
    if not ledgers:
        return []
    tokens = found.batch * found.generated_tokens
    unknown = unknown_on_all(ledgers)
    unknown_text = f" Unknown on all systems: {', '.join(unknown)}." if unknown else ""
    cells = TableData(
        "Energy per generated token by cell",
        [Column("cell", "cell, mJ/token"), *(Column(name, name, align="right") for name in ledgers)],
        cell_rows(ledgers, tokens),
        f"All energy, of prompts too, by {counted(tokens, 'generated token')}. {LEGEND}",
    )
    keys = ("system", "cell", "source", "where", "without", "bound")
    sources = TableData(
        "Sources",
        [Column(key, key) for key in keys],
        source_rows(ledgers),
        "The weakest class of the sources of each figure, and the places of the system's file, or the module, with it.",
    )
    return [Section("Energy", "energy", LEDGER + found.energy.why + unknown_text, [cells, *_bars(ran), sources])]


def _bars(ran: Sequence[Compared]) -> list[Figure]:
    there = [one for one in ran if one.energy_by_cell and one.energy_per_token_j]
    if not there:
        return []
    by = {one.system: one.energy_by_cell or {} for one in there}
    scale = {one.system: (one.energy_per_token_j or 0.0) / J_PER_MJ / ledger_j(by[one.system]) for one in there}
    keys = [key for key in dict.fromkeys(key for cells in by.values() for key in cells)]
    each = {
        key: [(cells[key].j or 0.0) * scale[name] if key in cells else 0.0 for name, cells in by.items()]
        for key in keys
    }  # fmt: skip
    caption = "The table above as bars" + ("." if len(there) == len(ran) else "; systems without energy are left out.")
    titles = {"xlabel": "system", "ylabel": "Energy [mJ/token]"}
    drawn = {key: values for key, values in each.items() if any(values)}
    return [stacked_bars("Energy per token by cell", list(by), drawn, caption=caption, **titles)]


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
