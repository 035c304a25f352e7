"""Identities of blocks as numbers, for kernels."""

from collections.abc import Hashable, Sequence

import numpy as np

from pimloom.systems.serving.kernels import fields as f
from pimloom.systems.serving.schedulers.live import LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.prefix_pool import PrefixPool

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # spans, names, held, blocks, by_name
NONE = np.zeros(0, np.int64)
UNNAMED: Arrays = (NONE, NONE, NONE, np.zeros((0, f.N_BLOCK), np.int64), np.zeros((0, 2), np.int64))
MOST = 1 << 27  # numbers of all tables, 1 GiB


def fits(requests: Sequence[LiveRequest], schedulers: Sequence[Scheduler]) -> bool:
    """Whether tables of all blocks that requests may have are not too large, if their blocks have identities."""
    sizes = [one.blocks.size for one in schedulers if isinstance(one.blocks, PrefixPool)]
    return not sizes or sum(request.last // sizes[0] for request in requests) * (2 + 2 * len(sizes)) <= MOST


class Names:
    """Of requests, whose blocks are numbered alike for all replicas, as each is on one of them."""

    def __init__(self, requests: Sequence[LiveRequest]) -> None:
        self.requests = requests
        self.known: tuple[np.ndarray, np.ndarray, int] | None = None

    def of(self, pool: PrefixPool, ahead: int) -> Arrays:
        """Of a replica whose blocks are all free. ahead: blocks of a request beyond those that it needs."""
        if self.known is None:
            many = [pool.of(request.last) + ahead for request in self.requests]
            spans = np.cumsum([0, *many])
            self.known = (spans, *self._numbered(pool, spans))
        spans, names, different = self.known
        blocks, n = np.full((pool.total, f.N_BLOCK), f.NOBODY, np.int64), np.arange(pool.total)
        blocks[:, f.BACK], blocks[:, f.BEHIND], blocks[:, f.USERS] = n - 1, n + 1, 0
        blocks[-1:, f.BEHIND] = f.NOBODY
        return spans, names, np.zeros(len(names), np.int64), blocks, np.full((different, 2), f.NOBODY, np.int64)

    def _numbered(self, pool: PrefixPool, spans: np.ndarray) -> tuple[np.ndarray, int]:
        """A number for each block of each request, and how many numbers there are; first come those of a request's own
        blocks, each the block's place."""
        names, numbers = np.arange(spans[-1]), dict[Hashable, int]()
        if (table := getattr(pool.identity, "numbers", None)) is not None:
            told: list[np.ndarray] = table(self.requests)
            places = np.concatenate([first + np.arange(len(one)) for first, one in zip(spans, told, strict=False)])
            shared = np.concatenate(told)
            different, number = np.unique(shared[shared >= 0], return_inverse=True)
            names[places[shared >= 0]] = len(names) + number
            return names, len(names) + len(different)
        for i, request in enumerate(self.requests):
            for k in range(spans[i + 1] - spans[i]):
                names[spans[i] + k] = numbers.setdefault(pool.identity(request, k), len(numbers))
        return names, len(numbers)
