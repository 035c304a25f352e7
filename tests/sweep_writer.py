"""A process that fills a sweep's folder until it is killed: `python sweep_writer.py FOLDER FIRST COUNT BATCH`.

It prints how many rows are in the store after each batch, once they are there. Batch after batch is the same row but
for its number.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from pimloom.sweeping.store.all_rows import open_store


def row(number: int, code: str = "c0de") -> dict[str, object]:
    """A finished row; every tenth point failed."""
    failed = number % 10 == 9
    return {
        "point": f"{number:032x}",
        "dram.channels": 8 * (number % 4 + 1),
        "workload.model": f"model-{number % 3}",
        "latency_s": None if failed else number / 7,
        "error": "no room for K" if failed else None,
        "spec_digest": "5bec",
        "code_digest": code,
        "version": "1.0",
        "seed": 0,
        "wall_s": 0.25,
        "host": "here",
        "finished_utc": "2026-01-02T03:04:05.678Z",
    }


def batches(first: int, count: int, size: int) -> Iterator[list[dict[str, object]]]:
    """The rows from `first` on, some at a time."""
    for start in range(first, first + count, size):
        yield [row(number) for number in range(start, min(start + size, first + count))]


if __name__ == "__main__":
    start, number, size = map(int, sys.argv[2:])
    store, done = open_store(Path(sys.argv[1])), 0
    for batch in batches(start, number, size):
        store.append(batch)
        done += len(batch)
        print(done, flush=True)
