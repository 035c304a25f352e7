"""The `pimloom sweep` command. What a subcommand needs is imported inside it, so that `--help` is quick."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pimloom.answer import Answer
from pimloom.arch.error import UserError
from pimloom.arch.inputs import note_named
from pimloom.commands.output import Json, Quiet, answer
from pimloom.commands.outputs import check_outputs

DEFAULT = "run"
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")]


class WithDefault(typer.core.TyperGroup):
    """A group whose first subcommand may be left out: `sweep FILE` is `sweep run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default in front of what is none of the subcommands."""
        if args and args[0] not in self.commands and args[0] != "--help":
            from pimloom.arch.document import nearest

            if (close := nearest(args[0], self.commands)) and not Path(args[0]).exists():
                raise UserError(f"sweep {args[0]}: no such command and no such file{close}")
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=WithDefault,
    add_completion=False,
    rich_markup_mode=None,
    epilog="Example:  pimloom sweep sweep.yaml --timeout-per-point 60",
)


@app.command(epilog="Example:  pimloom sweep sweep.yaml --out designs --scheduler tcp://host:8786")
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to sweep: system, workload, axes, objectives.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the sweep, to begin or go on with; else FILE less its suffix.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A running Dask scheduler, such as tcp://host:8786.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes on this machine; else one per core.")
    ] = None,
    timeout_per_point: Annotated[
        float | None, typer.Option(metavar="S", help="Most seconds of a point; a longer one counts as failed.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Simulate failed points once more.")] = False,
    wait: Annotated[
        float, typer.Option(metavar="S", help="How long to wait for a scheduler that is lost in the middle.")
    ] = 60.0,
    json: Json = None,
    quiet: Quiet = False,
) -> Answer:
    """Simulate the points of a sweep that its folder does not have yet."""
    from pimloom.sweeping.run import Options, run_sweep

    note_named(file)
    check_outputs({"--json": json})
    folder = run_sweep(file, out, Options(scheduler, workers, timeout_per_point, retry_failed, quiet, wait))
    return answer(standing(folder), json, quiet)


@app.command("status", epilog="Example:  pimloom sweep status designs --json -")
def status_(folder: Folder, json: Json = None) -> Answer:
    """Say how far a sweep is: points finished and failed, the best so far, its starts."""
    return answer(standing(folder), json)


def standing(folder: Path) -> Answer:
    """How far a sweep is; fields as in docs/sweep.md. Raises UserError."""
    from pimloom.reports.terminal.sweep import show_status
    from pimloom.sweeping.store.status import STATUS, status_of
    from pimloom.sweeping.table import open_table

    found = {"folder": str(folder), **status_of(open_table(folder, STATUS))}
    return Answer(found, lambda: show_status(found))


@app.command(epilog="Example:  pimloom sweep export designs --parquet out.parquet")
def export(
    folder: Folder,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all rows as Parquet.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all rows as CSV.")] = None,
) -> None:
    """Write the rows of a sweep to one file; `feasible` and `pareto` say which hold the constraints and are best."""
    from pimloom.sweeping.store.export import export_csv, export_parquet
    from pimloom.sweeping.table import open_table

    given = {"--parquet": parquet, "--csv": csv}
    if not any(given.values()):
        raise UserError("export: expected --parquet FILE or --csv FILE")
    check_outputs(given)
    frame = open_table(folder).table.frame
    check_outputs(given)  # once more: by now the folder has said what the sweep was read from
    if parquet is not None:
        export_parquet(frame, parquet)
    if csv is not None:
        export_csv(frame, csv)


@app.command(epilog="Example:  pimloom sweep report designs")
def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for index.html and CSV files; else DIR/report."),
    ] = None,
    quiet: Quiet = False,
) -> Path:
    """Draw a sweep: Pareto front, parallel coordinates, heat map, sensitivities, table; one HTML file."""
    from pimloom.arch.files import prepare_folder
    from pimloom.reports.sweep.page import write_report
    from pimloom.sweeping.table import open_table

    table = open_table(folder).table
    page = write_report(table, prepare_folder(out or folder / "report"))
    if not quiet:
        print(page)
    return page
