"""Simulations side by side, on all cores."""

from collections.abc import Callable, Generator
from threading import Event
from typing import TypeVar

from pimloom.cycle_sim.cores import beside_others, cores

Asked = TypeVar("Asked")
Found = TypeVar("Found")


def side_by_side(
    simulate: Callable[[Asked], Found], asked: list[Asked], progress: Callable[[int], None]
) -> Generator[Found, None, None]:
    """Each simulated, in order, side by side: the engine leaves Python's lock alone."""
    if len(asked) == 1:
        found = simulate(asked[0])
        progress(1)
        yield found
        return
    from concurrent.futures import ThreadPoolExecutor

    stop = Event()
    pool = ThreadPoolExecutor(cores(), initializer=beside_others, initargs=(stop,))
    try:
        for n, found in enumerate(pool.map(simulate, asked), 1):
            progress(n)
            yield found
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
