"""What one sequence took."""

from typing import Any

from pimloom.arch.name_units import counted
from pimloom.reports.compare.cells import cells_line
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.devices.result import Result


def show_result(result: Result, of_energy: str | None = None) -> None:
    """Print one result: headline figures, then latency and energy by part. of_energy: why there is none."""
    work = result.workload
    said = tokens_said(work.prompt_tokens, work.generated_tokens)
    rows = [
        dict(zip(("what", "value", "unit"), line, strict=True)) for line in _headline(result) if line[1] is not None
    ]
    title = f"{result.model} on {result.system}, {said}, {'with' if work.lm_head else 'without'} LM head"
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
    if result.energy_by_cell is not None:
        show_line(cells_line(result.energy_by_cell))
    if of_energy:
        show_line(of_energy)
    if result.cycles is not None:
        show_line(f"spec digest {result.spec_digest}, pimloom {result.version}, seed {result.seed}")


def tokens_said(prompt: int, generated: int) -> str:
    """What was run, in words.

    >>> tokens_said(0, 1), tokens_said(512, 16)
    ('1 token', '16 tokens behind a prompt of 512')
    """
    return counted(generated, "token") + (f" behind a prompt of {prompt:,}" if prompt else "")


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
