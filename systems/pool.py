"""Independent simulations on all cores."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from pimloom.cycle_sim.cores import CORES
from pimloom.systems.interrupts import SIGNALS, Raised, remembered_by

Job = TypeVar("Job")
Found = TypeVar("Found")
TURN_S = 0.5  # after which an interrupt that was lost elsewhere is noticed


def run_all(work: Callable[[Job], Found], jobs: Iterable[Job]) -> Iterator[tuple[Job, Found]]:
    """`(job, work(job))` for all jobs, in the order in which they end; an interrupt ends the workers, too.

    Beware: a worker that is ended in the middle of writing leaves the pool waiting for the rest; what `work` returns
    should be small enough for one write, 16 KB as a pickle (reports return 2 KB).
    """
    others, raised = multiprocessing.active_children(), Raised()
    with (
        remembered_by(raised),
        ProcessPoolExecutor(os.cpu_count(), initializer=_one_of_many) as pool,
    ):
        try:
            with _held_back():  # workers begin here, and must not hear of an interrupt before they ignore it
                asked = {pool.submit(work, job): job for job in jobs}
            left = set(asked)
            while left:
                done, left = wait(left, timeout=TURN_S, return_when=FIRST_COMPLETED)
                raised.check()
                for one in done:
                    yield asked[one], one.result()
            raised.check()
        except BaseException:
            for worker in set(multiprocessing.active_children()) - set(others):
                worker.terminate()
            # waits for the pool's thread: Python's exit would write to the pipe that a thread on its way out closes
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _held_back() -> Iterator[None]:
    """Signals of this thread wait, and so do those of processes that it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _one_of_many() -> None:
    """In a worker: other cores have work of their own, and an interrupt is for the parent, which ends its workers."""
    CORES.set(1)
    gc.freeze()  # modules are not searched for garbage time and again
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if callable(signal.getsignal(signal.SIGHUP)):  # the parent's
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
