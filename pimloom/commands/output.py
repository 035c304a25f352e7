"""Where the result of a command goes: JSON to stdout or a file, or a table."""

import sys
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from pimloom.answer import Answer
from pimloom.arch.files import appear, json_text, write_json
from pimloom.systems.viewed import Viewed

Found = TypeVar("Found", bound=Viewed)
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON to FILE; - is stdout.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no table.")]


def output(found: Found, json: str | None, show: Callable[[], object] | None) -> Found:
    """JSON to stdout or a file if asked for, and the table unless stdout has the JSON; returns the result. All files of
    the command appear before anything is printed."""
    if json == "-":
        text = json_text(found.to_dict())
        appear()
        sys.stdout.write(text)
        return found
    if json is not None:
        write_json(json, found.to_dict())
    appear()
    if show is not None:
        show()
    return found


def answer(found: Answer, json: str | None, quiet: bool = False) -> Answer:
    """The same for what prints itself."""
    return output(found, json, None if quiet else found.show)
