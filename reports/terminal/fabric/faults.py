"""Statistics of a fault trace."""

import sys

from pimloom.arch.error import one_line
from pimloom.arch.units import H_PER_DAY
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.fabric.faults.statistics import FaultStatistics


def show_faults(found: FaultStatistics) -> None:
    """Print how often servers of a trace fail, and for how long."""

    def days(hours: float | None) -> str | None:
        return None if hours is None else f"{hours / H_PER_DAY:,.2f}"

    def servers(count: int) -> str:
        return f"{count} ({100 * count / found.servers:.2f} %)"

    show_notes(found.notes)
    show_line(f"{found.trace}: {found.servers} servers, {found.horizon_h / H_PER_DAY:g} days")
    columns = (("what", "figure", ""), ("value", "value|r", ""), ("unit", "unit", ""))
    figures = [
        ("servers that ever fail", f"{found.servers_that_fail}", "servers"),
        ("faults; outages once overlaps are merged", f"{found.faults}; {found.outages}", ""),
        ("servers down, mean over time", f"{100 * found.fault_ratio_mean:.2f}", "%"),
        ("servers down, P50", servers(found.faulty_p50), ""),
        ("servers down, P90", servers(found.faulty_p90), ""),
        ("servers down, P99", servers(found.faulty_p99), ""),
        ("servers down, most", servers(found.faulty_max), ""),
        ("repair time, mean (MTTR)", days(found.mttr_mean_h), "days"),
        ("repair time, median", days(found.mttr_median_h), "days"),
        ("time between outages of a server (MTBF)", days(found.mtbf_h), "days"),
        ("outages of a server in a year", f"{found.outages_per_server_year:.2f}", "1/year"),
    ]
    show_rows(columns, [dict(zip(("what", "value", "unit"), row, strict=True)) for row in figures])
    windows = (("from", "from day|r", "g"), ("share", "servers down|r", ".2f"), ("bar", "%", ""))
    each = found.window_h / H_PER_DAY
    rows = [
        {"from": nth * each, "share": 100 * share, "bar": "█" * round(500 * share)}
        for nth, share in enumerate(found.fault_ratio_by_window)
    ]
    show_rows(windows, rows)
    classes = (("class", "class", ""), ("level", "level", ""), ("faults", "faults|r", ""), ("down", "down|r", ",.0f"))
    rows = [row | {"down": float(str(row["down_server_h"])) / H_PER_DAY} for row in found.by_class[:10]]
    show_rows((*classes[:-1], ("down", "server-days|r", ",.0f")), rows)


def show_notes(notes: tuple[str, ...]) -> None:
    """What was taken as something else, on stderr."""
    for note in notes:
        print(f"pimloom: note: {one_line(note)}", file=sys.stderr)
