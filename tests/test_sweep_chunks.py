"""How points are cut into chunks: each is sent once, and the workers of a cluster end together."""

from itertools import count, islice
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pimloom.sweeping.crew.simulator import Answer
from pimloom.sweeping.crew.worker import Finished
from pimloom.sweeping.filling import CHUNK_S, MOST_POINTS, Filling


class Cluster:
    """Workers that take `point_s` per point, on a clock of their own; two chunks wait at each."""

    def __init__(self, workers: int, point_s: float) -> None:
        self.point_s, self.sent = point_s, list[list[str]]()
        self._waiting = list[list[str]]()
        self._busy: list[tuple[float, list[str]]] = [(0.0, [])] * workers
        self.idle_s = 0.0  # of all workers, while others still work

    def threads(self) -> int:
        """Workers."""
        return len(self._busy)

    @property
    def wants(self) -> int:
        """Chunks to be sent."""
        return 2 * self.threads() - len(self._waiting) - sum(bool(chunk) for _, chunk in self._busy)

    def submit(self, chunk: Any) -> None:
        """Take a chunk."""
        self.sent.append(list(chunk.points))
        self._waiting.append(self.sent[-1])

    def finished(self, wait_s: float) -> list[Finished]:
        """The chunk that ends first."""
        for place, (free_s, chunk) in enumerate(self._busy):
            if not chunk and self._waiting:
                chunk = self._waiting.pop(0)
                self._busy[place] = (free_s + len(chunk) * self.point_s, chunk)
        end_s, place = min((end_s, place) for place, (end_s, chunk) in enumerate(self._busy) if chunk)
        keys = self._busy[place][1]
        self._busy[place] = (end_s, [])
        self.idle_s = max(end for end, _ in self._busy) * self.threads() - sum(end for end, _ in self._busy)
        return [Finished(key, Answer({"error": None, "key": key}, b"", 0, ""), "", self.point_s, "") for key in keys]

    def left_over(self) -> list[Any]:
        """None."""
        return []

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""


def fill(cluster: Cluster, *fillings: list[int]) -> list[str]:
    """The keys of the rows that were kept; each filling is of blocks of so many points."""
    kept: list[str] = []
    store = SimpleNamespace(append=lambda rows: kept.extend(row["key"] for row in rows), append_steps=None)
    keys = map(str, count())
    with Filling(SimpleNamespace(code=""), store, lambda: cluster) as filling:  # type: ignore[arg-type, return-value]
        for blocks in fillings:
            cluster.sent.clear()
            filling.fill({key: {} for key in islice(keys, size)} for size in blocks)
    return kept


@given(
    workers=st.integers(1, 9),
    point_s=st.sampled_from([1e-5, 0.001, 0.02, 0.2, 3.0]),
    blocks=st.lists(st.integers(0, 700), max_size=6) | st.lists(st.just(1), max_size=200),
)
def test_each_once(workers: int, point_s: float, blocks: list[int]) -> None:
    cluster = Cluster(workers, point_s)
    kept = fill(cluster, blocks)
    assert sorted(kept) == sorted(map(str, range(sum(blocks))))
    assert sorted(key for chunk in cluster.sent for key in chunk) == sorted(kept)
    most = max(1, min(MOST_POINTS, int(CHUNK_S / point_s)))
    assert all(1 <= len(chunk) <= most for chunk in cluster.sent)


def test_workers_end_together() -> None:
    """Full chunks to the end would leave each worker idle for half a chunk on average, a quarter of a second."""
    for workers in (2, 5):
        for points in range(400, 520, 7):
            cluster = Cluster(workers, 0.02)
            fill(cluster, [points])
            assert max(map(len, cluster.sent)) == 25
            assert cluster.idle_s / workers < 0.1, (workers, points)


def test_a_small_batch_is_shared() -> None:
    """A search's batch may be smaller than what one worker takes at once."""
    cluster = Cluster(4, 0.02)
    assert len(fill(cluster, [500], [1] * 16)) == 516
    assert [len(chunk) for chunk in cluster.sent] == [4, 4, 4, 4]
