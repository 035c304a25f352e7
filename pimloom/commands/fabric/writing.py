"""Files that `fabric cost` and `fabric mfu` write: checked before the work, written after it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pimloom.arch.files import write_atomic, write_table_csv
from pimloom.commands.outputs import check_outputs
from pimloom.reports.page import Figure


def check_files(json: str | None, csv: Path | None, figure: Path | None, waste: Path | None = None) -> None:
    """Raise UserError unless all files can be written and differ from one another and from `waste`, which is read."""
    check_outputs({"--json": json, "--csv": csv, "--figure": figure}, {"--waste": waste})


def write_rows(file: Path | None, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as CSV, if a file was named."""
    if file is not None:
        write_table_csv(file, rows)


def write_figure(file: Path, figure: Figure) -> None:
    """A figure as an SVG of its own; its colours are those of the light theme."""
    write_atomic(file, f'<?xml version="1.0" encoding="UTF-8"?>\n{figure.svg}\n')
