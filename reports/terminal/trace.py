"""What a person reads after `pimloom trace`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pimloom.arch.error import one_line
from pimloom.arch.name_units import counted
from pimloom.reports.terminal.tables import show_line, show_rows

if TYPE_CHECKING:
    from pimloom.systems.memory.outcome import Outcome

COLUMNS = (("what", "", ""), ("value", "value|r", ""), ("unit", "unit", ""))


def show_warnings(warnings: Sequence[str]) -> None:
    """Each on its line on stderr."""
    for said in warnings:
        print(f"pimloom: warning: {one_line(said)}", file=sys.stderr)


def show_outcome(result: "Outcome") -> None:
    """A table of the result."""
    many = f", {result.channels} channels" if result.channels > 1 else ""
    show_line(f"{result.memory}{many}, controller {result.controller}")
    show_rows(COLUMNS, [{"what": w, "value": v, "unit": u} for w, v, u in _lines(result)])


def _lines(r: "Outcome") -> list[tuple[str, str, str]]:
    share = r.pins_gb_s / r.peak_gb_s
    lines = [
        ("requests", f"{r.requests:,}", f"{counted(r.reads, 'read')}, {counted(r.writes, 'write')}"),
        ("cycles", f"{r.cycles:,}", f"CK of {r.tck_ps} ps"),
        ("time", f"{r.time_s * 1e6:,.3f}", "µs"),
        ("bandwidth", f"{r.bandwidth_gb_s:,.2f}", "GB/s of requests"),
        ("  on the pins", f"{r.pins_gb_s:,.2f}", f"GB/s, {share:.1%} of the peak of {r.peak_gb_s:,.2f} GB/s"),
    ]
    if r.channels > 1:
        for number, rate in enumerate(r.bandwidth_by_channel_gb_s):
            lines.append(
                (f"  channel {number}", f"{rate:,.2f}", f"GB/s of requests, peak {r.peak_gb_s / r.channels:,.2f}")
            )
    if r.read_latency_mean_cycles is not None:
        own = "" if r.controller == "default" else f", as {r.controller} counts it"
        lines.append(("read latency, mean", f"{r.read_latency_mean_cycles:,.2f}", f"CK{own}"))
        spread = (r.read_latency_p50_cycles, r.read_latency_p99_cycles, r.read_latency_max_cycles)
        text = ", ".join("–" if value is None else f"{value}" for value in spread)
        lines.append(("  median, 99 %, longest", text, "CK from acceptance to last data"))
    if r.row_hit_rate is not None:
        lines.append(("row hits", f"{r.row_hits:,}", f"{r.row_hit_rate:.1%} of the column commands"))
    if r.merged or r.forwarded:
        lines.append(("merged, forwarded", f"{r.merged:,}, {r.forwarded:,}", "requests that needed no command"))
    lines += [(name, f"{n:,}", "commands") for name, n in r.commands.items()]
    if r.energy_pj is None or r.energy_by_cause_pj is None:
        told = any(said.startswith("no energy") for said in r.warnings)
        return [*lines, ("energy", "–", "see the warning" if told else "this device gives no currents")]
    lines.append(("energy", f"{r.energy_pj / 1e6:,.3f}", f"µJ, {r.power_mw:,.1f} mW on average"))
    for cause, value in r.energy_by_cause_pj.items():
        if value:
            lines.append((f"  {cause.replace('_', ' ')}", f"{value / 1e6:,.3f}", "µJ"))
    return lines
