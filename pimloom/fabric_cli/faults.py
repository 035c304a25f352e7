"""`pimloom fabric faults`: what a fault trace says, and synthetic traces like the public one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pimloom.answer import Answer
from pimloom.arch.error import UserError
from pimloom.arch.inputs import note_named
from pimloom.fabric_cli.options import Csv, Seed
from pimloom.output import Json, Quiet, answer
from pimloom.systems.fabric.faults.asked import find_trace

if TYPE_CHECKING:
    from pimloom.systems.fabric.faults.statistics import FaultStatistics

Faults = Annotated[
    Path | None,
    typer.Option("--faults", metavar="FILE", help="Fault trace in the public JSON format; else a synthetic one."),
]
Servers = Annotated[
    int | None,
    typer.Option(metavar="N", help="Servers of the trace, with those that never fail; else 400."),
]
Days = Annotated[
    float | None, typer.Option(metavar="D", help="Days of FILE that count; else the whole days up to its last event.")
]


def faults(
    faults: Faults = None,
    servers: Servers = None,
    days: Days = None,
    synthesise: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the synthetic trace in the public format.")
    ] = None,
    seed: Seed = 0,
    json: Json = None,
    csv: Csv = None,
    quiet: Quiet = False,
) -> Answer:
    """Statistics of a fault trace; without one, of a synthetic trace that is like the public one."""
    from pimloom.arch.files import write_table_csv
    from pimloom.arch.version import __version__
    from pimloom.reports.terminal.show import show_line
    from pimloom.systems.fabric.faults.events import write_faults
    from pimloom.systems.fabric.faults.statistics import fault_statistics
    from pimloom.systems.fabric.faults.synthetic import node_names

    check_outputs({"--json": json, "--csv": csv, "--synthesise": synthesise}, {"--faults": faults})
    if faults is not None and synthesise is not None:
        raise UserError(f"--synthesise {synthesise}: --faults {faults} is a trace; leave one out")
    trace = find_trace(faults, servers, days, seed)
    found = fault_statistics(trace)
    if synthesise is not None:
        write_faults(synthesise, trace, node_names(trace, seed))
    if csv is not None:
        write_table_csv(csv, found.by_class)
    result = vars(found) | {"seed": None if faults else seed, "version": __version__}
    told = answer(Answer(result, lambda: _show(found), found.by_class), json, quiet)
    if synthesise is not None and not quiet and json != "-":
        show_line(f"wrote {synthesise}")
    return told


def check_outputs(written: dict[str, Any], read: dict[str, Path | None]) -> None:
    """Raise UserError unless all files asked for can be written, and differ from one another and from what is read."""
    from pimloom.running import check_writable

    for file in read.values():
        note_named(file)
    taken = {file.resolve(): option for option, file in read.items() if file is not None}
    for option, name in written.items():
        if name is None or (option == "--json" and name == "-"):
            continue
        file = Path(name)
        if str(file) == "-":
            raise UserError(f"{option} -: expected a file; only --json - is stdout")
        if (other := taken.setdefault(file.resolve(), option)) != option:
            raise UserError(f"{option} {file}: is the file of {other} too; name another")
        check_writable(file, option)
        if option == "--figure" and file.suffix != ".svg":
            raise UserError(f"--figure {file}: figures are SVG; name a file that ends in .svg")


def show_notes(notes: tuple[str, ...]) -> None:
    """What was taken as something else, on stderr."""
    import sys

    from pimloom.arch.error import one_line

    for note in notes:
        print(f"pimloom: note: {one_line(note)}", file=sys.stderr)


def _show(found: "FaultStatistics") -> None:
    from pimloom.arch.units import H_PER_DAY
    from pimloom.reports.terminal.show import show_line, show_rows

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
