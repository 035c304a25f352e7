"""Independent simulations on all cores."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Job = TypeVar("Job")
Found = TypeVar("Found")


def run_all(work: Callable[[Job], Found], jobs: Iterable[Job]) -> Iterator[tuple[Job, Found]]:
    """`(job, work(job))` for all jobs, in the order in which they end; an interrupt ends the workers, too.

    Beware: a worker that is ended in the middle of writing leaves the pool waiting for the rest; what `work` returns
    should be small enough for one write, 16 KB as a pickle (reports return 2 KB).
    """
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(os.cpu_count(), initializer=_leave_signals_to_the_parent) as pool:
        try:
            asked = {pool.submit(work, job): job for job in jobs}
            for done in as_completed(asked):
                yield asked[done], done.result()
        except BaseException:
            for worker in set(multiprocessing.active_children()) - set(others):
                worker.terminate()
            # waits for the pool's thread: Python's exit would write to the pipe that a thread on its way out closes
            pool.shutdown(cancel_futures=True)
            raise


def _leave_signals_to_the_parent() -> None:
    """In a worker: an interrupt is for the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
