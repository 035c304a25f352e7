"""Files that the `fabric` commands write: checked before the work, written after it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pimloom.arch.error import UserError
from pimloom.reports.files import write_atomic, write_table_csv
from pimloom.reports.page import Figure
from pimloom.running import check_writable


def check_outputs(files: Mapping[str, str | Path | None]) -> None:
    """Option -> file that it names (`-` and None are none). Raises UserError: not writable, two options one file."""
    seen: dict[Path, str] = {}
    for option, file in files.items():
        if file is None or file == "-":
            continue
        path = Path(file)
        check_writable(path, option)
        if first := seen.get(path.resolve()):
            raise UserError(f"{option} {file}: is the file of {first} too; name another")
        seen[path.resolve()] = option
        if option == "--figure" and path.suffix != ".svg":
            raise UserError(f"{option} {file}: figures are SVG; name a file that ends in .svg")


def write_rows(file: Path | None, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as CSV, if a file was named."""
    if file is not None:
        write_table_csv(file, rows)


def write_figure(file: Path, figure: Figure) -> None:
    """A figure as an SVG of its own; its colours are those of the light theme."""
    write_atomic(file, f'<?xml version="1.0" encoding="UTF-8"?>\n{figure.svg}\n')
