"""The naive machine does what was measured of NeuPIMs' simulator: its blocks, their lines, its clocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.cycle_sim.npu_pim.kernels import hash_set
from tests.naive_blocks import RobinHood, by_home, hashed, mixed, place, touched
from tests.naive_icnt import Interconnect

CHANNELS, ELEMENT, WRAP = 32, 2, 41_943_040  # GPT3-7B on four devices
# elements, place before, lines, the first six as (channel, bank, row, column)
BLOCKS = [
    (4096, 0, 129, "0.0.0.0 11.0.0.1 13.0.0.3 20.0.0.3 16.0.0.1 6.0.0.0"),
    (4096, 8192, 129, "11.0.0.4 31.0.0.7 5.0.0.4 25.0.0.5 7.0.0.4 22.0.0.7"),
    (4096, 16384, 129, "16.0.0.8 20.0.0.10 30.0.0.8 22.0.0.8 0.0.0.8 22.0.0.10"),
    (4096, 24576, 129, "0.0.0.14 19.0.0.13 5.0.0.15 16.0.0.13 13.0.0.15 26.0.0.13"),
    (128, 32768, 5, "4.1.0.0 1.1.0.0 3.1.0.0 2.1.0.0 0.1.0.0"),
    (16384, 33024, 513, "2.2.0.0 23.1.0.10 22.1.0.1 23.1.0.3 7.1.0.10 2.1.0.9"),
    (128, 65792, 5, "8.2.0.0 5.2.0.0 4.2.0.0 6.2.0.0 7.2.0.0"),
    (16384, 66048, 513, "3.2.0.11 12.2.0.10 15.2.0.14 11.2.0.6 24.2.0.11 8.2.0.4"),
]


@pytest.mark.parametrize(("elements", "at", "n", "first"), BLOCKS)
def test_the_first_blocks_of_a_run(elements, at, n, first):
    lines, after = touched(at, elements * ELEMENT, ELEMENT, WRAP)
    assert (len(lines), after) == (n, at + elements * ELEMENT)
    places = [place(line, CHANNELS) for line in hashed(lines, CHANNELS)]
    assert " ".join(".".join(map(str, where)) for where in places[:6]) == first


def test_a_block_goes_on_at_the_beginning():
    assert touched(8192 - 64, 128, 2, 8192) == ([127, 0, 1], 64)
    assert touched(8192 - 64, 128, 0, 8192) == ([127, 0], 64)


def places_by_engine(hashes):
    """The order in which the compiled set holds 0 … n - 1."""
    n = len(hashes)
    arrays = [np.zeros(size, np.int64) for size in (n, max(4 * n + 8, hash_set.LEAST_COUNTERS), n)]
    keys = np.array([x - (x >> 63 << 64) for x in hashes], np.int64)
    hash_set.order(keys, n, *arrays)
    return arrays[-1].tolist()


def naive_places(hashes):
    table = RobinHood()
    for i, key in enumerate(hashes):
        table.add(key, i)
    return table


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 40, 77, 1000]), st.integers(0, 31)), min_size=1, max_size=60))
def test_the_compiled_set_holds_its_items_as_the_naive_one(parts):
    """Homes near each other, so that many items stand far from theirs and the unit is halved more than once."""
    hashes = [home << 5 | low for home, low in parts]
    assert places_by_engine(hashes) == naive_places(hashes).items()


def test_homes_that_are_crowded_halve_the_unit():
    assert naive_places([32 * i for i in range(6)]).unit == 32
    assert naive_places([0] * 9).unit == 16


@given(st.integers(0, 2**20), st.integers(1, 600), st.sampled_from([2, 4, 32]))
def test_lines_leave_by_home_unless_one_is_far_from_it(first, n, channels):
    lines = list(range(first, first + n))
    table = naive_places([mixed(line, channels) for line in lines])
    if table.unit == 32:
        assert hashed(lines, channels) == by_home(lines, channels)


def test_the_steps_of_the_interconnect_drift():
    """Two in each clock but for these, by the number of the clock after them, the first being 1."""
    paths = Interconnect([], 1, 2)
    for t in range(134_500):
        paths.after_tick(t)
    drift = {t + 2: n for t, n in enumerate(paths.made) if n != 2}
    assert drift == {502: 3, 2126: 1, 4939: 3, 9532: 1, 19236: 3, 38384: 1, 134406: 3}
