"""Blocks of KV cache in channels whose rows are handed out whole: a row that a request fills in part is nobody else's.
A scheduler sees but the room there, in blocks: as many as the rows that are left would take.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from pimloom.systems.serving.schedulers.channel_blocks import ChannelBlocks
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.workload.need import Windowed

MOST = 1 << 40  # blocks, more than there are


class Rows(NamedTuple):
    """of: rows of a channel that a request with so many blocks takes, from 0 to the most that one may have; there: that
    a channel has."""

    of: Sequence[int]
    there: int

    def blocks(self, held: int, left: int) -> int:
        """How many blocks more a request that holds some has room for, if so many rows are left; `MOST` if these are
        enough for any request, so that only the blocks that are free count."""
        if self.of[held] + left >= self.of[-1]:
            return MOST
        return bisect_right(self.of, self.of[held] + left) - 1 - held


class ChannelRows(ChannelBlocks):
    """rows_left: of each channel."""

    __slots__ = ("rows", "rows_left")

    def __init__(
        self, left: Sequence[int], size: int, policy: str, spare: int, rows: Rows, window: Windowed | None = None
    ) -> None:
        super().__init__(left, size, policy, spare, window)
        self.rows, self.rows_left = rows, [rows.there] * len(left)

    @property
    def of_one(self) -> int:
        """Of the largest channel."""
        return min(super().of_one, self.rows.blocks(0, self.rows.there))

    def beyond(self, channel: int, held: int) -> int:
        """As far as there are rows."""
        return min(super().beyond(channel, held), self.rows.blocks(held, self.rows_left[channel]))

    def take(self, request: LiveRequest, number: int) -> None:
        """With the rows that they take."""
        held = request.blocks
        super().take(request, number)
        self.rows_left[request.channel] -= self.rows.of[request.blocks] - self.rows.of[held]

    def release(self, request: LiveRequest) -> None:
        """With its rows."""
        if request.blocks:
            self.rows_left[request.channel] += self.rows.of[request.blocks]
        super().release(request)
