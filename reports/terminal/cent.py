"""What a person reads after `pimloom run` on a CENT system."""

from pimloom.arch.name_units import counted
from pimloom.reports.compare.cells import cells_line
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.reports.terminal.trace import COLUMNS
from pimloom.systems.devices.cent.outcome import CentOutcome

SHOWN = 8  # contexts of the table
POINTS = (
    ("context", "context|r", ""), ("token_s", "token [ms]|r", ""), ("pim_s", "channels [ms]|r", ""),
    ("link_s", "link [ms]|r", ""), ("near_memory_s", "near-memory [ms]|r", ""),
    ("other_s", "LM head, host [ms]|r", ""), ("energy_j", "energy [mJ]|r", ""),
)  # fmt: skip


def show_cent(result: CentOutcome) -> None:
    """Tables of the result."""
    show_line(
        f"{result.model} on {result.system}, {result.fidelity}: {counted(result.context, 'token')}, token by token, "
        f"{'with' if result.lm_head else 'without'} embedding and LM head"
    )
    show_rows(COLUMNS, [{"what": w, "value": v, "unit": u} for w, v, u in _lines(result)])
    show_line(cells_line(result.energy_by_cell))
    step = max(len(result.points) // SHOWN, 1)
    rows = []
    for point in result.points[step - 1 :: step]:
        other = max(point.token_s - point.pim_s - point.link_s - point.near_memory_s, 0.0)
        ms = (point.token_s, point.pim_s, point.link_s, point.near_memory_s, other, point.energy_j)
        names = [name for name, _, _ in POINTS[1:]]
        rows.append({"context": point.context} | {n: f"{v * 1e3:,.3f}" for n, v in zip(names, ms, strict=True)})
    show_rows(POINTS, rows)


def _lines(r: CentOutcome) -> list[tuple[str, str, str]]:
    one = f", {counted(r.layers_per_device, 'layer')} of {counted(r.channels_per_layer, 'channel')}"
    side = one + " side by side" * (r.layers_per_device > 1) if r.tensor == 1 else ""
    lines = [
        ("devices", f"{r.devices}", f"{r.used_devices} at work: {counted(r.stages, 'stage')} x {r.tensor}{side}"),
        ("latency of a request", f"{r.latency_s:,.3f}", "s"),
        ("throughput", f"{r.tokens_per_s:,.1f}", "tokens/s, all stages full"),
        ("energy of a token", f"{r.energy_per_token_j * 1e3:,.2f}", "mJ"),
        ("power", f"{r.power_w:,.1f}", "W, all devices at work"),
    ]
    shown = sorted(r.energy_by_cause_j.items(), key=lambda cause: -cause[1])
    lines += [(f"  {name.replace('_', ' ')}", f"{j * 1e3:,.3f}", "mJ a token") for name, j in shown if j * 1e3 >= 5e-4]
    return lines
