"""Links of the requests that wait for a bank, against lists that are gone through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.cycle_sim.dram.kernels.links import (
    AGE,
    BEFORE,
    BEHIND,
    FIRST,
    LAST,
    ROW_OF_BANK,
    SAME,
    YOUNGER,
    first_hit,
    join,
    links,
    next_hit,
    part,
    place_of,
    row_of_bank,
)

SLOTS, BANKS = 12, 2


def chain(ends, link, kind, n):
    """Its slots in order; every one knows the one before it."""
    found, before, slot = [], -1, ends[n, FIRST]
    while slot >= 0:
        assert link[slot, kind + BEFORE] == before
        found.append(int(slot))
        before, slot = slot, link[slot, kind + BEHIND]
    assert ends[n, LAST] == before
    return found


@given(st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, BANKS - 1), st.integers(0, 3), st.booleans())))
def test_who_hits_a_row_is_who_a_look_at_all_would_find(steps):
    """A step takes a request out where its slot waits, else puts one in; rows of places that collide, too."""
    found = links(SLOTS, BANKS, 1)
    age, link, same = found["age"], found["link"], found["same"]
    waiting: list[tuple[int, int, int, bool]] = []  # in order of age
    for slot, bank, row, write in steps:
        old = next((one for one in waiting if one[0] == slot), None)
        if old:
            waiting.remove(old)
            part(link, age, AGE, old[1], slot)
            part(link, same, SAME, place_of(same, row_of_bank(old[2], old[1]), old[3]), slot)
        else:
            waiting.append((slot, bank, row, write))
            key = row_of_bank(row, bank)
            n, link[slot, ROW_OF_BANK] = place_of(same, key, write), key
            join(link, age, AGE, bank, slot, age[bank, LAST])
            join(link, same, SAME, n, slot, same[n, LAST])
    for bank in range(BANKS):
        assert chain(age, link, AGE, bank) == [one[0] for one in waiting if one[1] == bank]
        for row in range(4):
            for write in (False, True):
                hits, slot = [], first_hit(same, link, row_of_bank(row, bank), write)
                while slot >= 0:
                    hits.append(slot)
                    slot = next_hit(link, slot)
                assert hits == [one[0] for one in waiting if one[1:] == (bank, row, write)]


def test_a_request_goes_behind_the_one_that_is_named():
    found = links(3, 1, 3)
    age, link = found["age"], found["link"]
    for slot, behind in ((0, -1), (1, 0), (2, 0)):
        join(link, age, AGE, 0, slot, behind)
    assert chain(age, link, AGE, 0) == [0, 2, 1]
    assert link[:, YOUNGER].tolist() == [0, 0, 0]  # the other links are left alone


@pytest.mark.parametrize("step", [1, 2, 64, 4096])
@pytest.mark.parametrize("write", [0, 1])
def test_rows_are_spread_over_the_places(step, write):
    """Of 64 rows in each of 4 banks, no more than a few share a place: looks do not grow with the queue."""
    same = links(256, 4, 256)["same"]
    places = [place_of(same, row_of_bank(row * step, bank), write) for bank in range(4) for row in range(64)]
    assert max(map(places.count, places)) <= 6 and {n % 2 for n in places} == {write}
