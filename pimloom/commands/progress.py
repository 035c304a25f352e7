"""How far a command is: a bar on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]


@contextmanager
def progress_bar(title: str, quiet: bool) -> Iterator[Progress]:
    """A progress bar on stderr if that is a terminal; yields `progress(done, total)`. quiet: nothing beneath speaks."""
    if quiet:
        from pimloom.cycle_sim.compiled.library import silent

        with silent():
            yield lambda done, total: None
        return
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
