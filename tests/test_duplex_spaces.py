"""Duplex's memory spaces: where data lie, two processors in one space, and what a prompt's copy moves."""

from random import Random
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.mappers.experts import SPACES as SPACES_OF_EXPERTS
from pimloom.mappers.experts import busiest_to_xpu, dealt_round, spaces_of
from pimloom.mappers.memory_spaces import SPACES, Use, conflicts, place, split_conflicts


def test_experts_are_dealt_and_keys_alternate_over_three_spaces() -> None:
    found = place(spaces_of(dealt_round(6)), 10, [5] * 7, [20, 30], 100, others_bytes=10)
    assert found.experts == (0, 1, 2, 3, 0, 1) and found.kv == (0, 1, 2, 0, 1, 2, 0) and found.prefill == (3, 3)
    assert found.used_bytes == (20 + 15, 20 + 10, 10 + 10, 10 + 50)
    assert SPACES == SPACES_OF_EXPERTS == 4


def test_a_full_space_is_passed_over() -> None:
    assert place([0], 90, [20, 20], [], 100).kv == (1, 1)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((spaces_of(dealt_round(8)), 60, [], [], 100), "memory space 0: 120 bytes of experts and prompts, it has 100"),
        (((), 0, [], [101], 100), "memory space 3: 101 bytes"),
        (((), 0, [60] * 4, [], 100), "request 3: no memory space has 60 bytes left"),
        (((0, 1, 2, 3), 90, [], [], 100, 41), "other weights of 41 bytes: 40 are left"),
    ],
)
def test_what_does_not_fit_is_said(asked: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        place(*asked)


def test_two_processors_in_a_space_at_once_are_found() -> None:
    uses = [Use("xPU", 0, 0, 10), Use("Logic-PIM", 1, 0, 10), Use("Logic-PIM", 0, 10, 20), Use("xPU", 1, 9, 12)]
    (found,) = conflicts(uses)
    assert str(found) == "Logic-PIM and xPU both use memory space 1 from 9 on"
    assert not conflicts([Use("xPU", 0, 0, 10), Use("xPU", 0, 5, 10)])
    with pytest.raises(UserError, match="memory space 4: expected 0 to 3"):
        conflicts([Use("xPU", 4, 0, 1)])


def test_conflicts_are_those_of_a_clock_by_clock_look() -> None:
    random = Random("spaces")
    for _ in range(100):
        uses = []
        for _ in range(random.randint(0, 8)):
            start = random.randint(0, 12)
            uses.append(Use(random.choice("ab"), random.randrange(SPACES), start, start + random.randint(0, 6)))
        pairs = set()
        for t in range(20):
            inside = [u for u in enumerate(uses) if u[1].start <= t < u[1].end]
            pairs |= {
                (i, j) for i, u in inside for j, v in inside
                if i < j and u.space == v.space and u.processor != v.processor
            }  # fmt: skip
        assert len(conflicts(uses)) == len(pairs)


def test_groups_of_spaces_keep_co_processing_apart() -> None:
    random = Random("co-processing")
    for _ in range(50):
        n = random.choice((8, 12, 16))
        tokens = [random.randint(0, 60) for _ in range(n)]
        times = [random.uniform(1, 4) for _ in range(n)], [random.uniform(1, 4) for _ in range(n)]
        split = busiest_to_xpu(tokens, *times, dealt_round(n))
        assert split_conflicts(place(spaces_of(dealt_round(n)), 1, [], [], 100).experts, split.xpu) == []
    assert split_conflicts((0, 1, 2, 3, 0), [0]) == [0]
