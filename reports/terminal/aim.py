"""What a person reads after `pimloom aim`."""

from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.reports.terminal.trace import COLUMNS
from pimloom.systems.memory.aim.outcome import AimOutcome


def show_outcome(result: AimOutcome) -> None:
    """A table of the result."""
    show_line(f"{result.config}, {result.channels} channels of {result.part}")
    show_rows(COLUMNS, [{"what": w, "value": v, "unit": u} for w, v, u in _lines(result)])


def _lines(r: AimOutcome) -> list[tuple[str, str, str]]:
    n = sum(r.instructions.values())
    lines = [
        ("instructions", f"{n:,}", ", ".join(f"{k} {v:,}" for k, v in r.instructions.items())),
        ("cycles", f"{r.cycles:,}", f"CK of {r.tck_ps} ps, until EOC is answered"),
        ("time", f"{r.time_s * 1e6:,.3f}", "µs"),
        ("bandwidth", f"{r.bandwidth_gb_s:,.1f}", "GB/s of columns in all banks and channels"),
    ]
    many = r.channels > 1
    lines.append((f"channel {r.channel}", f"{sum(r.commands.values()):,}", "commands"))
    lines += [(f"  {name}", f"{count:,}", _share(r, name) if many else "") for name, count in r.commands.items()]
    lines.append(("  a row open", f"{r.active_cycles:,}", f"CK, {r.active_cycles / r.cycles:.1%} of the time"))
    return lines


def _share(r: AimOutcome, name: str) -> str:
    return f"{r.commands_of_all[name]:,} in all channels"
