"""The progress bar of a sweep: points done, points per second, time left, failures."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Show = Callable[["Shown"], None]
Say = Callable[[str], None]
RATE_S = 60.0  # over which points per second are averaged


class Shown(NamedTuple):
    """Points in the store, of this start and before; of how many; of this start, failed and simulated ones."""

    done: int
    total: int
    failed: int
    simulated: int


class Rate:
    """Points per second of the last minute; those that were there at the start do not count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, simulated: int) -> float:
        """The rate, once so many points are simulated; 0 before anything is known."""
        now = self._clock()
        self._seen.append((now, simulated))
        while len(self._seen) > 2 and now - self._seen[1][0] > RATE_S:
            self._seen.popleft()
        (then, before), (_, after) = self._seen[0], self._seen[-1]
        return (after - before) / (now - then) if now > then else 0.0


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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    console, rate = Console(stderr=True), Rate()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, rate="starting")

        def show(shown: Shown) -> None:
            bar.update(task, completed=shown.done, total=shown.total, rate=said(shown, rate(shown.simulated)))

        yield show, lambda text: console.print(escape(text))


def said(shown: Shown, rate: float) -> str:
    """What stands beside the bar: points per second, time left, failures."""
    left = shown.total - shown.done
    parts = [f"{rate:,.1f} points/s, {_duration(left / rate)} left"] if rate and left else []
    parts += [f"{shown.failed:,} failed"] if shown.failed else []
    return ", ".join(parts) or ("starting" if left else "")


def _duration(seconds: float) -> str:
    """As 0:42, 12:05 or 3:04:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
