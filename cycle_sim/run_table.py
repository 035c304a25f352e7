"""The known runs of a machine's streams as its kernel takes them, with room between, so that a new run moves few."""

import numpy as np

from pimloom.cycle_sim.runs import Run, Stream

WIDTH = len(Run._fields)
ROOM = 8  # runs, at first


class RunTable:
    """arrays: entries and runs, int64 [n, 4] and [m, 7]; another tuple when they are others.

    entries[e]: (idle clocks, settled clocks, first row, end) of a stream; its rows rise by running and low.
    """

    def __init__(self) -> None:
        self.arrays = np.zeros((ROOM, 4), np.int64), np.zeros((8 * ROOM, WIDTH), np.int64)
        self._streams: list[Stream] = []
        self._room: list[int] = []  # rows of each, those in use among them
        self._used = 0

    def add(self, stream: Stream) -> int:
        """A further stream; its entry."""
        entry = len(self._streams)
        if entry == len(self.arrays[0]):
            self.arrays = _longer(self.arrays[0], entry + 1), self.arrays[1]
        self._streams.append(stream)
        self._room.append(0)
        self.arrays[0][entry, :2] = stream.idle_ck, stream.settled_ck
        self.renew(entry)
        return entry

    def renew(self, entry: int) -> None:
        """Take the runs of a stream as they are now."""
        found = self._streams[entry].runs
        if not (room := self._room[entry]):
            self._move(entry, len(found) + max(ROOM, len(found) // 8))  # most are known by now, if others found them
        elif len(found) > room:
            self._move(entry, 2 * len(found))
        entries, runs = self.arrays
        first = entries[entry, 2]
        runs[first : first + len(found)] = found
        entries[entry, 3] = first + len(found)

    def _move(self, entry: int, room: int) -> None:
        """Give an entry room behind all others; what it had is lost, in all no more than what is used."""
        if self._used + room > len(self.arrays[1]):
            self.arrays = self.arrays[0], _longer(self.arrays[1], self._used + room)
        self.arrays[0][entry, 2], self._room[entry] = self._used, room
        self._used += room


def _longer(rows: np.ndarray, least: int) -> np.ndarray:
    """These rows with zeros behind them: at least as many in all, and twice as many as there were."""
    found = np.zeros((max(least, 2 * len(rows)), rows.shape[1]), rows.dtype)
    found[: len(rows)] = rows
    return found
