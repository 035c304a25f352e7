"""What every command that simulates does: check its outputs, prepare, work beneath a progress bar, say notes."""

import sys
from collections.abc import Callable
from typing import TypeVar

from pimloom.commands.outputs import Files, check_outputs
from pimloom.commands.progress import Progress, progress_bar
from pimloom.systems.asked import Work

Found = TypeVar("Found")


def worked(prepare: Callable[[], Work[Found]], written: Files, quiet: bool, read: Files | None = None) -> Found:
    """Do what was asked for; what is written is checked first, and once more when all inputs are known. Raises
    UserError."""
    check_outputs(written, read)
    work = prepare()
    check_outputs(written, read)
    with progress_bar(work.title, quiet) as progress:
        found = work.run(progress if quiet or not work.long else announced(work.long, progress))
    for said in () if quiet else work.notes():
        print(f"pimloom: note: {said}", file=sys.stderr)
    return found


def announced(said: str, progress: Progress) -> Progress:
    """Say it with the first step that is done: what is refused is refused without it."""
    left = [said]

    def show(done: int, total: int) -> None:
        if left and done:
            print(f"pimloom: note: {left.pop()}", file=sys.stderr)
        progress(done, total)

    return show
