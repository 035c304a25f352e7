"""What identifies a trace: its requests as the controllers get them, whatever file or pattern they come from."""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np

from pimloom.cycle_sim.memory.simulate import Chunk


class Fingerprint:
    """A digest of requests that go by; how they are cut into chunks does not count.

    >>> def of(*sizes):
    ...     seen, columns = Fingerprint(), np.arange(12).reshape(3, 4)
    ...     for a, b in sizes:
    ...         list(seen.watch([Chunk(*columns[:, a:b])]))
    ...     return seen.hexdigest()
    >>> of((0, 4)) == of((0, 1), (1, 4)) != of((0, 3))
    True
    """

    def __init__(self) -> None:
        self._columns = [hashlib.sha256() for _ in Chunk._fields]

    def watch(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The chunks, each looked at before it is handed on."""
        for chunk in chunks:
            for seen, column in zip(self._columns, chunk, strict=True):
                seen.update(np.ascontiguousarray(column, np.int64).data)
            yield chunk

    def hexdigest(self) -> str:
        """Of all that went by."""
        return hashlib.sha256(b"".join(column.digest() for column in self._columns)).hexdigest()
