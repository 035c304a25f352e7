"""Rows of the channels handed out in pages as caches of keys and values grow, and taken back when requests end.

A page of K holds the keys of one token in every bank; a page of V holds as many tokens as a row has elements (see
`mappers.kv`). Rows of a page need not be neighbours: a PIM command names one row. As in vLLM (Kwon et al., SOSP 2023),
a request holds no more than its pages so far.
"""

from copy import copy
from sys import maxsize
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from pimloom.arch.units import ceil_div
from pimloom.mappers.kv import Shape
from pimloom.workload.need import Windowed


class CacheRoom(Protocol):
    """Room for caches in the channels of a device. unit, place, everywhere: words for sentences about it. most_tokens:
    of all requests together, whatever channels have room."""

    unit: ClassVar[str]
    place: ClassVar[str]
    everywhere: ClassVar[str]
    most_tokens: int

    @property
    def channels(self) -> int:
        """Channels of the device."""

    @property
    def rows_of_channel(self) -> int:
        """Units of a channel that caches may have."""

    def copy(self) -> Self:
        """Room as it is now; what becomes of either is nothing to the other."""

    def rows(self, tokens: np.ndarray) -> np.ndarray:
        """Units for caches of int64 `tokens` each."""

    def free_rows(self) -> np.ndarray:
        """int64[channels] of units that nobody holds."""

    def grow(self, request: int, channel: int, tokens: int) -> bool:
        """Give `request` what it lacks for `tokens`, all or nothing; False if the channel is too full."""

    def release(self, request: int) -> None:
        """Take back all of a request. Raises KeyError if it holds nothing."""


class Pages(NamedTuple):
    """A request's rows in its channel, in the order of its tokens."""

    channel: int
    rows_k: list[int]
    rows_v: list[int]


class KvPages:
    """Free rows of each channel, the lowest handed out first; which request holds the others.

    first_row, end_row: the rows of a channel that caches may have, the end not among them. allotted: pages as large as
    NeuPIMs' simulator makes them, for the heads of all devices, not of this one alone. Rows are those of one layer; of
    all layers together most_tokens fit, None: any.
    """

    unit: ClassVar[str] = "rows"
    place: ClassVar[str] = "a channel"
    everywhere: ClassVar[str] = "all channels"

    def __init__(
        self,
        shape: Shape,
        channels: int,
        first_row: int,
        end_row: int,
        *,
        allotted: bool,
        most_tokens: int | None = None,
    ) -> None:
        width = shape.allotted if allotted else shape.width
        self.page_k, self.page_v = ceil_div(width, shape.row), ceil_div(width, shape.banks)
        self._tokens_k, self._tokens_v = shape.banks, shape.row
        self.most_tokens = maxsize if most_tokens is None else most_tokens
        self.rows_of_channel = max(end_row - first_row, 0)
        self._free = [self.rows_of_channel] * channels
        self._next = [first_row] * channels  # the first row that was never held
        self._back: list[list[int]] = [[] for _ in range(channels)]  # free rows that were, the lowest last
        self._held: dict[int, Pages] = {}

    @property
    def channels(self) -> int:
        """Channels of the device."""
        return len(self._free)

    def copy(self) -> "KvPages":
        """The same rows, held by the same requests; what becomes of either is nothing to the other."""
        other = copy(self)
        other._free, other._next = self._free.copy(), self._next.copy()
        other._back = [back.copy() for back in self._back]
        other._held = {request: Pages(c, k.copy(), v.copy()) for request, (c, k, v) in self._held.items()}
        return other

    def rows(self, tokens: np.ndarray) -> np.ndarray:
        """Rows of a channel for caches of int64 `tokens` each."""
        return self.page_k * -(-tokens // self._tokens_k) + self.page_v * -(-tokens // self._tokens_v)

    def free_rows(self) -> np.ndarray:
        """int64[channels] of rows that nobody holds."""
        return np.array(self._free, np.int64)

    def pages(self, request: int) -> Pages:
        """What a request holds. Raises KeyError if nothing."""
        return self._held[request]

    def grow(self, request: int, channel: int, tokens: int) -> bool:
        """Give `request` the pages that it lacks for `tokens`, all or none of them; False if the channel is too full.

        Raises ValueError if the request lives in another channel.
        """
        held = self._held.get(request) or Pages(channel, [], [])
        if held.channel != channel:
            raise ValueError(f"request {request} lives in channel {held.channel}, not in {channel}")
        lacks_k = max(self.page_k * -(-tokens // self._tokens_k) - len(held.rows_k), 0)
        lacks_v = max(self.page_v * -(-tokens // self._tokens_v) - len(held.rows_v), 0)
        if lacks_k + lacks_v > self._free[channel]:
            return False
        rows = self._take(channel, lacks_k + lacks_v)
        held.rows_k.extend(rows[:lacks_k])
        held.rows_v.extend(rows[lacks_k:])
        self._held[request] = held
        return True

    def _take(self, channel: int, n: int) -> list[int]:
        """The n lowest free rows of a channel: those that came back lie before those that never left."""
        self._free[channel] -= n
        back, first = self._back[channel], self._next[channel]
        old = min(n, len(back))
        found = back[: -old - 1 : -1]
        del back[len(back) - old :]
        self._next[channel] = end = first + n - old
        return found + list(range(first, end))

    def release(self, request: int) -> None:
        """Take back all rows of a request. Raises KeyError if it holds none."""
        held = self._held.pop(request)
        back = self._back[held.channel]
        back += held.rows_k + held.rows_v
        back.sort(reverse=True)
        self._free[held.channel] += len(held.rows_k) + len(held.rows_v)


class KvTokens:
    """A device whose caches take room token by token, anywhere in its `tokens` tokens of memory: one channel. window:
    of its layers; its units are counted then."""

    unit: ClassVar[str] = "tokens"
    place: ClassVar[str] = "the memory"
    everywhere: ClassVar[str] = "the memory"
    channels = 1

    def __init__(self, tokens: int, window: Windowed | None = None) -> None:
        self.window = window
        self.most_tokens = maxsize if window else tokens
        self.rows_of_channel = self._free = int(tokens * window.of) if window else tokens
        self._held: dict[int, int] = {}

    def copy(self) -> "KvTokens":
        """The same tokens, held by the same requests; what becomes of either is nothing to the other."""
        other = copy(self)
        other._held = self._held.copy()
        return other

    def rows(self, tokens: np.ndarray) -> np.ndarray:
        """The tokens themselves, or what layers with a window keep of them."""
        if self.window is None:
            return tokens
        return self.window.full * tokens + self.window.windowed * np.minimum(tokens, self.window.tokens)

    def free_rows(self) -> np.ndarray:
        """int64[1] of tokens that nobody holds."""
        return np.array([self._free], np.int64)

    def grow(self, request: int, channel: int, tokens: int) -> bool:
        """Give `request` room for `tokens`; False if there is too little."""
        held = self._held.get(request, 0)
        more = max(int(self.rows(np.array(tokens, np.int64))) - held, 0)
        if more > self._free:
            return False
        self._held[request] = held + more
        self._free -= more
        return True

    def release(self, request: int) -> None:
        """Take back the room of a request. Raises KeyError if it holds none."""
        self._free += self._held.pop(request)
