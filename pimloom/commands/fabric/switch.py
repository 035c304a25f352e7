"""`pimloom fabric switch`: one optical-switch transceiver through a file of events."""

from pathlib import Path
from typing import Annotated

import typer

from pimloom.answer import Answer
from pimloom.commands.fabric.options import Csv
from pimloom.commands.output import Json, Quiet, answer
from pimloom.commands.outputs import check_outputs


def switch(
    events: Annotated[Path, typer.Option(metavar="FILE", help="YAML: times, requests, failures, repairs, data.")],
    part: Annotated[str, typer.Option(metavar="PART", help="Optical part, or path to its YAML.")] = "ocstrx",
    timeline: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the part; may be repeated."),
    ] = None,
    json: Json = None,
    csv: Csv = None,
    quiet: Quiet = False,
) -> Answer:
    """Follow requests and failures through one optical-switch transceiver, clock by clock.

    A switch takes a blackout and a retrain; during it the newest request is kept and older ones are refused. A path
    that fails is left for its backup entry of the preloaded table, without a request.
    """
    from pimloom.arch.files import table_csv, write_atomic
    from pimloom.arch.optics import load_optics
    from pimloom.arch.optics_events import load_events
    from pimloom.arch.unread import check_switch
    from pimloom.commands.progress import progress_bar
    from pimloom.reports.terminal.fabric.switch import show_switch
    from pimloom.systems.fabric import switch as report
    from pimloom.systems.settings import parse_settings

    check_outputs({"--json": json, "--csv": csv, "--timeline": timeline}, {"--events": events})
    settings = parse_settings(set_ or [], "timing.retrain='2 ms'")
    module = load_optics(part, settings).value
    check_switch(settings)
    with progress_bar(f"events of {events.name}", quiet) as progress:
        progress(0, 2)
        story = load_events(events, module)
        progress(1, 2)
        run = report.run_switch(module, story)
    result = report.switch_values(Path(part).stem, run, story)
    rows = result["rows"]
    if csv is not None:
        write_atomic(csv, table_csv(rows, {}) if rows else ",".join(report.COLUMNS) + "\n")
    if timeline is not None:
        write_atomic(timeline, report.switch_timeline(run, f"{module.description}, {events.name}"))
    return answer(Answer(result, lambda: show_switch(result), rows), json, quiet)
