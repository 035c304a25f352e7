"""The progress bar of a sweep: points done, points per second, time left, failures."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Show = Callable[["Shown"], None]
Say = Callable[[str], None]


class Shown(NamedTuple):
    """Points in the store, of this start and before; of how many; failed ones of this start; where the sweep is."""

    done: int
    total: int
    failed: int


@contextmanager
def sweep_progress(title: str, quiet: bool) -> Iterator[tuple[Show, Say]]:
    """Yields what shows progress and what says a line: a bar on stderr if that is a terminal, else lines only."""
    if quiet:
        yield (lambda shown: None), (lambda text: None)
        return
    if not sys.stderr.isatty():
        yield (lambda shown: None), (lambda text: print(f"pimloom: {text}", file=sys.stderr, flush=True))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=60) as bar:
        task = bar.add_task(title, total=None, rate="", failed="")

        def show(shown: Shown) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:,.1f} points/s" if speed else ""
            failed = f"{shown.failed:,} failed" if shown.failed else ""
            bar.update(task, completed=shown.done, total=shown.total, rate=rate, failed=failed)

        yield show, lambda text: console.print(escape(text))
