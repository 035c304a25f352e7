"""`pimloom fabric faults`: what a fault trace says, and synthetic traces like the public one."""

from pathlib import Path
from typing import Annotated

import typer

from pimloom.answer import Answer
from pimloom.arch.error import UserError
from pimloom.commands.counts import count
from pimloom.commands.fabric.options import Csv, Seed
from pimloom.commands.output import Json, Quiet, answer
from pimloom.commands.outputs import check_outputs
from pimloom.systems.fabric.faults.asked import find_trace

Faults = Annotated[
    Path | None,
    typer.Option("--faults", metavar="FILE", help="Fault trace in the public JSON format; else a synthetic one."),
]
Servers = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Servers of the trace, with those that never fail; else 400."),
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
    from pimloom.reports.terminal.fabric.faults import show_faults
    from pimloom.reports.terminal.tables import show_line
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
    told = answer(Answer(result, lambda: show_faults(found), found.by_class), json, quiet)
    if synthesise is not None and not quiet and json != "-":
        show_line(f"wrote {synthesise}")
    return told
