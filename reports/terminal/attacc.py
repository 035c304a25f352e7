"""What a person reads after `pimloom run` on an AttAcc system."""

from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.reports.terminal.trace import COLUMNS, show_warnings
from pimloom.systems.devices.attacc.outcome import AttAccOutcome

PARTS = (("part", "a decode step, all layers", ""), ("ms", "time [ms]|r", ""), ("mj", "energy [mJ]|r", ""))


def show_attacc(result: AttAccOutcome) -> None:
    """Tables of the result."""
    show_warnings(result.notes)
    lengths = f"{result.prompt_tokens:,} + {result.generated_tokens:,} tokens, batch {result.batch}"
    show_line(f"{result.model} on {result.system}, {result.fidelity}: {lengths}")
    show_rows(COLUMNS, [{"what": w, "value": v, "unit": u} for w, v, u in _lines(result)])
    rows = [
        {"part": part, "ms": f"{s * 1e3:,.3f}", "mj": f"{result.step_by_part_j.get(part, 0.0) * 1e3:,.2f}"}
        for part, s in sorted(result.step_by_part_s.items(), key=lambda part: -part[1])
    ]
    show_rows(PARTS, rows)


def _lines(r: AttAccOutcome) -> list[tuple[str, str, str]]:
    stacks = f", {r.stacks} stacks, units at: {r.placement}" if r.stacks else ", attention on the GPUs"
    return [
        ("GPUs", f"{r.gpus}", f"share every layer{stacks}"),
        ("prompts", f"{r.prefill_s * 1e3:,.1f}", "ms, on the GPUs"),
        ("decode step", f"{r.step_s * 1e3:,.3f}", "ms, mean"),
        ("throughput", f"{r.tokens_per_s:,.2f}", "tokens/s of decode"),
        ("latency of a request", f"{r.latency_s:,.3f}", "s"),
        ("energy of a step", f"{r.step_j:,.3f}", f"J, {r.energy_per_token_j * 1e3:,.1f} mJ a token"),
        ("requests that fit", f"{r.fits:,}", "of this length, by keys and values"),
    ]
