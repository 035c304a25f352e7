"""How points are cut into chunks: each is sent once, and the workers of a cluster end together."""

from collections import Counter
from itertools import count, islice
from random import Random
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.sweeping.crew.worker import Finished
from pimloom.sweeping.filling import CHUNK_S, MOST_POINTS, Filling
from tests.sweep_crew import Moody, Store, finished


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
        return [finished(key, self.point_s) for key in keys]

    def left_over(self) -> list[Any]:
        """None."""
        return []

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""


def fill(cluster: Any, *fillings: list[int], store: Store | None = None) -> list[str]:
    """The keys of the rows that were kept; each filling is of blocks of so many points."""
    store = store or Store()
    keys = map(str, count())
    with Filling(SimpleNamespace(code=""), store, lambda: cluster) as filling:  # type: ignore[arg-type]
        for blocks in fillings:
            if isinstance(cluster, Cluster):
                cluster.sent.clear()
            filling.fill({key: {} for key in islice(keys, size)} for size in blocks)
    counts, rows = filling.counts, len(store.kept)
    assert (counts.finished - counts.skipped, counts.failed) == (rows, 0)
    assert counts.finished == sum(map(sum, fillings))
    return store.kept


@settings(max_examples=50)
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


def test_a_worker_takes_its_share_of_what_is_left() -> None:
    """A quarter of it each time, but no less than an eighth of a full chunk of 25, which costs too much."""
    cluster = Cluster(4, 0.02)
    fill(cluster, [500], [40])
    assert [len(chunk) for chunk in cluster.sent] == [10, 7, 5, 4, 4, 4, 4, 2]


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.lists(st.lists(st.sampled_from([0, 1, 3, 64, 300]), max_size=8), max_size=4))
def test_each_once_on_a_moody_cluster(seed: int, fillings: list[list[int]]) -> None:
    """Whatever becomes of its workers; a point is sent again only if it came back, and then again."""
    cluster = Moody(Random(seed))
    kept = fill(cluster, *fillings)
    assert sorted(kept) == sorted(map(str, range(sum(map(sum, fillings)))))
    assert cluster.submitted == cluster.taken_back + Counter(kept)


def test_what_others_finish_meanwhile_is_not_sent() -> None:
    """Others finish all points while the first chunk is simulated: only what was sent by then is simulated here."""
    store = Store()

    class Late(Cluster):
        def finished(self, wait_s: float) -> list[Finished]:
            store.elsewhere |= set(map(str, range(700)))
            return super().finished(wait_s)

    cluster = Late(3, 0.02)
    kept = fill(cluster, [64] * 10, [60], store=store)
    assert len(kept) == 6, "two chunks of one point for each worker"


def test_what_others_finish_at_the_end_is_not_sent() -> None:
    store, second = Store(), list[int]()

    class Late(Cluster):
        def finished(self, wait_s: float) -> list[Finished]:
            if len(store.kept) >= 500:
                store.elsewhere |= set(map(str, range(500, 590)))
                second.append(len(self.sent))
            return super().finished(wait_s)

    cluster = Late(4, 0.02)
    fill(cluster, [500], [90], store=store)
    assert [len(chunk) for chunk in cluster.sent] == [22, 17, 12, 9, 7, 5, 4, 4], "two for each worker"
    assert len(store.kept) == 580 and second[0] == 8
