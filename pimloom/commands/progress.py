"""How far a command is: a bar on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]
LINE_S = 30  # from one line to the next; what is quicker has none


@contextmanager
def progress_bar(title: str, quiet: bool) -> Iterator[Progress]:
    """A progress bar on stderr if that is a terminal, else a line every LINE_S; yields `progress(done, total)`.
    quiet: nothing beneath speaks."""
    if quiet:
        from pimloom.cycle_sim.compiled.library import silent

        with silent():
            yield lambda done, total: None
        return
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(title: str) -> Progress:
    start = last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_S:
            last = now
            print(f"pimloom: {title}: {done} of {total} after {now - start:.0f} s", file=sys.stderr, flush=True)

    return show
