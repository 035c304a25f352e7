"""What a person reads after `pimloom run` on an AttAcc system."""

from pimloom.arch.name_units import counted
from pimloom.reports.compare.cells import cells_line
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.reports.terminal.trace import COLUMNS, show_warnings
from pimloom.systems.devices.attacc.outcome import AttAccOutcome

PARTS = (("part", "a decode step, all layers", ""), ("ms", "time [ms]|r", ""), ("mj", "energy [mJ]|r", ""))


def show_attacc(result: AttAccOutcome) -> None:
    """Tables of the result."""
    show_warnings(result.notes)
    lengths = f"{result.prompt_tokens:,} + {result.generated_tokens:,} tokens, batch {result.batch}"
    show_line(f"{result.model} on {result.system}, {result.fidelity}: {lengths}, without embedding and LM head")
    show_rows(COLUMNS, [{"what": w, "value": v, "unit": u} for w, v, u in _lines(result)])
    if result.energy_by_cell is not None:
        show_line(cells_line(result.energy_by_cell))
    rows = [
        {"part": part, "ms": _ms(s), "mj": f"{result.step_by_part_j.get(part, 0.0) * 1e3:,.2f}"}
        for part, s in sorted(result.step_by_part_s.items(), key=lambda part: -part[1])
    ]
    if rows:
        show_rows(PARTS, rows)


def _ms(seconds: float) -> str:
    """Three places, or two digits of what is less; what hides takes no time."""
    ms = seconds * 1e3
    return "hidden" if not ms else f"{ms:,.3f}" if ms >= 0.01 else f"{ms:.2g}"


def _lines(r: AttAccOutcome) -> list[tuple[str, str, str]]:
    attend = f", attention on the {r.attention}"
    stacks = f", {counted(r.stacks, 'stack')}, units at: {r.placement}" if r.stacks else attend
    lines = [
        ("GPUs", f"{r.gpus}", f"share{'s' * (r.gpus == 1)} every layer{stacks}"),
        ("prompts", f"{r.prefill_s * 1e3:,.1f}", "ms, on the GPUs"),
        ("latency of a request", f"{r.latency_s:,.3f}", "s"),
        ("requests that fit", f"{r.fits:,}", "of this length, by keys and values"),
    ]
    if None in (r.step_s, r.tokens_per_s, r.step_j, r.energy_per_token_j):
        return lines  # the prompt gives the only token
    assert r.step_s and r.tokens_per_s and r.step_j is not None and r.energy_per_token_j is not None
    lines[2:2] = [
        ("decode step", f"{r.step_s * 1e3:,.3f}", "ms, mean"),
        ("throughput", f"{r.tokens_per_s:,.2f}", "tokens/s of decode"),
    ]
    energy = ("energy of a step", f"{r.step_j:,.3f}", f"J, {r.energy_per_token_j * 1e3:,.1f} mJ a token")
    return [*lines[:-1], energy, lines[-1]]
