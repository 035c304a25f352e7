"""What happens to an optical-switch transceiver."""

from collections.abc import Mapping
from typing import Any

from pimloom.reports.terminal.tables import show_line, show_rows


def show_switch(found: Mapping[str, Any]) -> None:
    """Print what became of each request, and the times of the switch."""
    if found["rows"]:
        columns = [("request", "request", "d"), ("at_us", "at µs|r", ",.1f"), ("entry", "asks for", "")]
        columns += [("outcome", "outcome", ""), ("taken", "entry taken", ""), ("path", "path", "")]
        show_rows([*columns, ("wait_us", "after µs|r", ",.1f"), ("why", "why", "")], found["rows"])
    columns = [("state", "state", ""), ("path", "path", ""), ("start_us", "from µs|r", ",.1f")]
    show_rows([*columns, ("duration_us", "for µs|r", ",.1f")], found["intervals"])
    for row in found["failovers"]:
        show_line(
            f"failover: {row['left']} dark from {row['dark_us']:,.1f} µs; {row['taken']} live "
            f"{row['down_us']:,.1f} µs later; work again at {row['work_again_us']:,.1f} µs, "
            "when software has made its communicator again (timing.rebuild)"
        )
    for row in found["bursts"]:
        show_line(
            f"data from {row['at_us']:,.1f} to {row['end_us']:,.1f} µs: passed {row['passed_us']:,.1f} µs, "
            f"lost {row['lost_us']:,.1f}, refused {row['refused_us']:,.1f}"
        )
    ps = found["clock_ps"]
    show_line(
        f"part: {found['part']}; control clock {ps:,d} ps; not switching {100 * found['live_share']:.2f} % of the time"
    )
