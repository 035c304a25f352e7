"""How far a command is: a bar on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

COMPILING = "pimloom: note: compiling the engine for the first run: one to five minutes, once"
Progress = Callable[[int, int], None]


@contextmanager
def progress_bar(title: str, quiet: bool, kernel: Any = None) -> Iterator[Progress]:
    """A progress bar on stderr if that is a terminal; yields `progress(done, total)`.

    kernel: what runs beneath; if it must be compiled first, a line on stderr says so, terminal or not.
    """
    if kernel is not None and not quiet:
        from pimloom.cycle_sim.dram.kernels.compiled import is_compiled

        if not is_compiled(kernel):
            print(COMPILING, file=sys.stderr)
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
