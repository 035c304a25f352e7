"""What a person reads on the terminal: tables of results, names, and explanations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pimloom.arch.error import one_line
from pimloom.arch.llm import list_presets, load_llm
from pimloom.arch.memory import Policy
from pimloom.arch.optics import load_optics
from pimloom.arch.policy import load_policy
from pimloom.arch.system import list_names, load_part, load_system
from pimloom.arch.training import load_training
from pimloom.reports.explain import Explanation
from pimloom.reports.explain_standard import Explained
from pimloom.reports.studies import studies
from pimloom.systems.devices.result import Result
from pimloom.workload.need import weights

MANY = 5  # columns
PIPE_WIDTH = 118  # columns when stdout is no terminal, so that output is the same everywhere


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        name, right = column.removesuffix("|r"), column.endswith("|r")
        whole = number == 0 and len(columns) > MANY  # names stay in one piece where numbers can be broken
        table.add_column(_text(name), justify="right" if right else "left", overflow="fold", no_wrap=whole)
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*map(_text, cells))


def _text(value: object) -> Text:
    """As it stands, without markup."""
    return Text(one_line(value))


def show_rows(columns: Sequence[tuple[str, str, str]], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a table. columns: key, heading (`|r` stands right), and format of each; None is a dash."""
    table = _table(*(heading for _, heading, _ in columns))
    for row in rows:
        _add(table, *("–" if row[key] is None else format(row[key], look) for key, _, look in columns))
    _console().print(table)


def show_line(text: str) -> None:
    """Print a line."""
    _console().print(_text(text))


def catalogue() -> dict[str, dict[str, str]]:
    """Parts, optical parts, systems, controllers, GPUs, models and studies: name -> one line."""
    models = {}
    for name in list_presets():
        spec = load_llm(name)
        models[name] = (
            f"{spec.num_hidden_layers} layers, hidden {spec.hidden_size}, {spec.num_attention_heads} heads, "
            f"{weights(spec).blocks / 1e6:,.1f} M matrix parameters"
        )
    return {
        "parts": {name: load_part(name).value.description for name in list_names("parts")},
        "optics": {name: load_optics(name).value.description for name in list_names("optics")},
        "systems": {name: load_system(name).spec.description for name in list_names("systems")},
        "controllers": {name: _policy(load_policy(name).value) for name in list_names("controllers")},
        "gpus": {name: load_training(name).value.description for name in list_names("gpus")},
        "models": models,
        "studies": {name: f"pimloom report {name} --out DIR" for name in studies()},
    }


def _policy(policy: Policy) -> str:
    return f"{policy.structure}, {policy.scheduler}, {policy.page} page, refresh {policy.refresh}"


def show_catalogue(found: Mapping[str, Mapping[str, str]]) -> None:
    """Print the catalogue."""
    for kind, names in found.items():
        show_rows(
            (("name", kind, ""), ("about", "", "")), [{"name": name, "about": line} for name, line in names.items()]
        )


def show_fields(fields: Mapping[str, str]) -> None:
    """Print all fields with their meaning."""
    rows = [{"field": field, "meaning": meaning} for field, meaning in fields.items()]
    show_rows((("field", "field", ""), ("meaning", "meaning", "")), rows)


def show_explanation(found: Explanation) -> None:
    """Print everything known of a field."""
    show_line(f"{found.field}: {found.meaning}")
    if found.values:
        headings = zip(found.values[0]._fields, ("in", "value", "source", "file"), strict=True)
        show_rows([(field, heading, "") for field, heading in headings], [value._asdict() for value in found.values])
    for rule in found.rules:
        show_line(f"rule: {rule}")


def show_standard(found: Explained) -> None:
    """Print what a standard's table models, and what not."""
    show_line(f"{found.standard}: {found.meaning}")
    show_line(f"parts: {', '.join(found.parts) or 'none'}")
    for title, rows in (("command", found.commands), ("rule", found.rules), ("not modelled", found.unmodelled)):
        for row in rows:
            show_line(f"{title}: {row}")


def show_result(result: Result) -> None:
    """Print one result: headline figures, then latency and energy by part."""
    work = result.workload
    said = tokens_said(work.prompt_tokens, work.generated_tokens)
    rows = [
        dict(zip(("what", "value", "unit"), line, strict=True)) for line in _headline(result) if line[1] is not None
    ]
    title = f"{result.model} on {result.system}, {said}"
    show_rows((("what", title, ""), ("value", "value|r", ""), ("unit", "unit", "")), rows)
    per, tokens = ("", 1) if work.prompt_tokens else ("/token", work.generated_tokens)
    for title, parts, unit, scale in (
        ("latency by step", result.time_by_step_s, "µs", 1e6),
        ("energy by cause", result.energy_by_cause_j, "µJ", 1e6),
    ):
        if parts:
            total = sum(parts.values())
            columns = (("name", title, ""), ("each", f"{unit}{per}|r", ",.3f"), ("share", "share|r", ""))
            shares = [
                {"name": name, "each": part * scale / tokens, "share": f"{100 * part / total:.1f} %"}
                for name, part in parts.items()
            ]
            show_rows(columns, shares)
    if result.cycles is not None:
        show_line(f"spec digest {result.spec_digest}, pimloom {result.version}, seed {result.seed}")


def tokens_said(prompt: int, generated: int) -> str:
    """What was run, in words.

    >>> tokens_said(0, 4), tokens_said(512, 16)
    ('4 tokens', '16 tokens behind a prompt of 512')
    """
    return f"{generated:,} tokens" + (f" behind a prompt of {prompt:,}" if prompt else "")


def _headline(result: Result) -> list[tuple[str, str | None, str]]:
    def text(value: Any, pattern: str, scale: float = 1) -> str | None:
        return None if value is None else format(value * scale, pattern)

    whole = ", prompt included" if result.workload.prompt_tokens else ""
    return [
        ("time to first token", text(result.time_to_first_token_s, ",.3f", 1e6), "µs"),
        ("time per output token, after the first", text(result.time_per_output_token_s, ",.3f", 1e6), "µs"),
        ("end to end", text(result.latency_s, ",.3f", 1e3), "ms"),
        ("cycles", text(result.cycles, ",d"), f"CK of {result.tck_ps} ps"),
        ("output tokens per second, end to end", text(result.tokens_per_s, ",.1f"), "1/s"),
        ("energy", text(result.energy_j, ",.4f"), "J"),
        ("energy per output token" + whole, text(result.energy_per_token_j, ",.4f", 1e3), "mJ"),
        ("power", text(result.power_w, ",.3f"), "W"),
        ("row-hit rate", text(result.row_hit_rate, ".2f", 100), "%"),
        ("less data moved", text(result.data_movement_reduction, ".1f"), "×"),
        ("less data moved, on the wires", text(result.data_movement_reduction_on_wires, ".1f"), "×"),
        ("non-VMM share of latency", text(result.non_vmm_share, ".2f", 100), "%"),
        ("MAC clocks", text(result.mac_utilisation, ".1f", 100), "%"),
        ("memory needed", text(result.memory_needed_bytes, ",d"), "bytes"),
        ("memory", text(result.memory_bytes, ",d"), "bytes"),
        ("most tokens that fit", text(result.max_tokens, ",d"), "tokens"),
    ]
