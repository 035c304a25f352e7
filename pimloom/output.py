"""Where the result of a command goes: JSON to stdout or a file, or a table."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON to FILE; - is stdout.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no table.")]


def output(value: dict[str, Any], json: str | None, show: Callable[[Any], object] | None) -> None:
    """JSON to stdout or a file if asked for, and the table unless stdout has the JSON."""
    if json == "-":
        from pimloom.arch.files import json_text

        sys.stdout.write(json_text(value))
        return
    if json is not None:
        from pimloom.arch.files import write_json

        write_json(json, value)
    if show is not None:
        show(value)
