"""Requests in branches: graphs, the batches of their steps, and caches that several read."""

import pytest

from pimloom.arch.error import UserError
from pimloom.workload.batch import Batch, Request
from pimloom.workload.decoding import branches
from pimloom.workload.decoding.branches import Segment


def contexts(batch: Batch) -> list[int]:
    return [at.context for at in batch.requests]


def test_steps_are_the_longest_path_and_tokens_the_sum():
    graph = branches.multiverse(3, [2, 5], 4)
    made = list(branches.steps(graph, 100, shared=True))
    assert len(made) == branches.longest(graph) == 3 + 5 + 4
    assert sum(batch.rows for batch in made) == branches.total(graph) == 14
    assert [contexts(batch) for batch in made] == [
        [101], [102], [103], [104, 104], [105, 105], [106], [107], [108], [111], [112], [113], [114],
    ]  # fmt: skip
    assert made[3].cached(None) == 103 + 2 and made[3].attended(None) == 208  # what both read, and a token each
    alone = list(branches.steps(graph, 100, shared=False))
    assert alone[3].cached(None) == 208 and contexts(alone[3]) == [104, 104]


def test_threads_are_computed_again_behind_their_join():
    made = list(branches.steps(branches.threads(2, [3, 4], 2), 10, shared=False))
    again = made[2 + 4]
    assert again == Batch((Request("prefill", 7, 10 + 2 + 7, 1),))  # the thread tokens behind the prefix
    assert contexts(made[-1]) == [10 + 2 + 7 + 2]
    kept = list(branches.steps(branches.paths([3, 4], 2), 10, shared=False))
    assert all(at.phase == "decode" for batch in kept for at in batch.requests) and contexts(kept[-1]) == [10 + 7 + 2]


def test_workers_read_all_that_any_of_them_wrote():
    made = list(branches.workers(10, 2, 3, shared=True))
    assert [contexts(batch) for batch in made] == [[12, 12], [14, 14], [16, 16]]
    assert made[-1].cached(None) == 15 + 2 and sum(batch.rows for batch in made) == 6


def test_streams_have_keys_and_values_of_their_own():
    assert contexts(branches.streams([10, 20], 2)) == [58, 58, 68, 68]
    assert branches.stream_parameters(8, 4) == 9 * 8 * 4


def test_segments_that_wait_for_one_another():
    with pytest.raises(UserError, match="segments a, b wait for one another"):
        list(branches.steps({"a": Segment(1, ("b",)), "b": Segment(1, ("a",))}, 1, shared=True))


def test_what_a_group_shares_is_read_and_kept_once():
    one = Request("decode", 1, 11, 1, 8, 1)
    batch = Batch((one, one._replace(context=13), Request("decode", 1, 5, 1), one._replace(group=2)))
    assert batch.cached(None) == 11 + 5 + 5 + 11 == batch.kept(None)
    assert sum(batch.contexts) == 32 and batch.attended(None) == 11 + 13 + 5 + 11
    assert batch.cached(4) == batch.kept(4) == 16  # cut by a window, what is left is each one's own
    for bad in (one._replace(shared=11), one._replace(group=0)):
        with pytest.raises(UserError, match="expected at most those before its new ones, and a group from 1 on"):
            Batch((bad,))


def test_rows_of_a_tree_attend_to_what_it_says():
    tree = Request("verify", 4, 10, 4, pairs=8)
    assert Batch((tree,)).attended(None) == 4 * 6 + 8
    assert Batch((tree._replace(pairs=0),)).attended(None) == 7 + 8 + 9 + 10
