"""Exact packing and partition against brute force, and Algorithm 1's constants against whole streams."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pimloom.arch.neupims import Faults
from pimloom.arch.system import load_system
from pimloom.cycle_sim.npu_pim.alone import issue
from pimloom.mappers.kv import Shape, attend, logit
from pimloom.mappers.packing import PUBLISHED, Constants, estimate_ck, pack, split
from pimloom.mappers.partition import balanced_halves, exact_pack, loads, settle, subset_sums
from pimloom.systems.devices.npu_pim.constants import derived_constants
from pimloom.systems.devices.npu_pim.laid import channel_of

SEVEN_B = Shape(heads=8, kv_heads=8, head_dim=128, row=512, banks=32, lanes=16, allotted=4096)  # GPT3-7B, TP 4
costs_of = st.lists(st.integers(1, 30), min_size=1, max_size=6)


def largest(costs, place, places):
    """The fullest place, added up one by one."""
    found = [0] * places
    for cost, where in zip(costs, place, strict=True):
        found[where] += cost
    return max(found)


def least_of_all(costs, channels):
    """Every placement there is."""
    return min(largest(costs, place, channels) for place in product(range(channels), repeat=len(costs)))


@settings(max_examples=60, deadline=None)
@given(costs_of, st.integers(1, 3))
@example([11, 11, 9, 9, 8, 8], 2)  # Algorithm 2: 29, optimal 28
@example([27, 20, 17, 12, 11, 11], 3)
def test_exact_packing_is_the_best_of_all(costs, channels):
    found = exact_pack(costs, channels)
    assert found.proven and found.gap == 0
    assert found.value == largest(costs, found.place.tolist(), channels) == least_of_all(costs, channels)
    greedy = pack(lambda n: n, costs, channels).tolist()
    settled = settle(costs, np.array(greedy), channels).tolist()
    assert found.value <= largest(costs, settled, channels) <= largest(costs, greedy, channels)


def test_a_case_in_which_only_the_program_finds_the_best():
    costs = [25, 22, 18, 16, 12, 8, 8, 8]
    greedy = pack(lambda n: n, costs, 3)
    settled = settle(costs, greedy, 3)
    best = exact_pack(costs, 3).value
    assert (largest(costs, greedy, 3), largest(costs, settled, 3), best) == (42, 41, 40) and best == least_of_all(
        costs, 3
    )


def test_a_limit_leaves_a_bound_and_a_gap():
    tokens = np.random.default_rng(0).integers(1, 2048, 200).tolist()
    costs = [round(estimate_ck(SEVEN_B, n)) for n in tokens]
    found = exact_pack(costs, 32, limit_s=0.2)
    assert found.bound <= found.value == loads(costs, found.place, 32).max()
    assert found.gap == found.value / found.bound - 1 < 0.01
    assert found.value <= loads(costs, pack(lambda n: n, costs, 32), 32).max()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=6), st.integers(1, 3))
@example([(9, 0), (9, 0), (1, 0), (1, 0)], 2)
@example([(5, 0), (5, 0), (1, 0), (1, 0), (1, 0)], 3)  # 6; parts of 1, 1 and 3 would make it 5
def test_balanced_parts_are_the_best_of_equal_size(requests, parts):
    costs, channel = (list(x) for x in zip(*requests, strict=True))

    def stage(place):
        return largest(costs, [p * 3 + c for p, c in zip(place, channel, strict=True)], 3 * parts)

    def even(place):
        sizes = [place.count(p) for p in range(parts)]
        return max(sizes) - min(sizes) <= 1

    best = min(stage(place) for place in product(range(parts), repeat=len(costs)) if even(place))
    found = balanced_halves(costs, np.array(channel), 3, parts)
    assert found.proven and even(found.place.tolist())
    assert found.value == stage(found.place.tolist()) == best


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=8))
def test_subset_sums_share_each_channel_as_evenly_as_can_be(requests):
    costs, channel = (list(x) for x in zip(*requests, strict=True))
    first, second = subset_sums(costs, np.array(channel), 3)
    assert sorted([*first, *second]) == list(range(len(costs)))
    assert len(costs) < 2 or (len(first) and len(second))
    for c in range(3):
        mine = [cost for cost, where in requests if where == c]
        halves = [sum(costs[i] for i in part.tolist() if channel[i] == c) for part in (first, second)]
        assert max(halves) == (least_of_all(mine, 2) if mine else 0)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_every_request_is_in_one_part(parts):
    rng = np.random.default_rng(parts)
    costs, channel = rng.integers(1, 1000, 60), rng.integers(0, 8, 60)
    for found in (split(channel, 8, parts), subset_sums(costs.tolist(), channel, 8, parts)):
        assert sorted(np.concatenate(found).tolist()) == list(range(60)) and len(found) == parts
    sizes = [len(part) for part in split(channel, 8, parts)]
    assert max(sizes) - min(sizes) <= 1


def test_parts_follow_the_list_and_take_what_is_left_in_turn():
    # channel 0 has 0, 1, 2, 3, 7; channel 1 has 4, 5; channel 2 has 6
    channel = np.array([0, 0, 0, 0, 1, 1, 2, 0])
    # of three parts, each has one of channel 0, the first two one more; of channel 1 the third and the first; then the
    # second has the only one of channel 2
    assert [part.tolist() for part in split(channel, 3, 3)] == [[0, 1, 4], [2, 3, 6], [7, 5]]
    # of two parts, the first has the odd one of channel 0, the second that of channel 2
    assert [part.tolist() for part in split(channel, 3, 2)] == [[0, 1, 2, 4], [3, 7, 5, 6]]


# stream of `mha 512 8 128` on NeuPIMs' simulator as released: 15,419 with two row buffers, 19,183 with one
@pytest.mark.parametrize(("system", "simulated"), [("neupims", 15_419), ("npu_pim", 19_183)])
def test_derived_constants_tell_a_whole_stream(system, simulated):
    loaded = load_system(system, dict.fromkeys((f"faults.{name}" for name in Faults.__struct_fields__), "true"))
    spec, fused = channel_of(loaded), system == "neupims"
    stream = [logit(SEVEN_B, 512, 513, fused=fused, exact=False)]
    stream.append(attend(SEVEN_B, 512, 513 + 32, fused=fused, exact=False, same_rows=True))
    assert issue(spec, np.concatenate(stream))[0] == simulated
    assert estimate_ck(SEVEN_B, 512, PUBLISHED) == 12_776
    derived = derived_constants(spec, SEVEN_B)
    assert estimate_ck(SEVEN_B, 512, derived) == pytest.approx(simulated, rel=0.04)
    assert derived_constants(spec, SEVEN_B) is derived


def test_both_tiles_and_the_gwrite_count_as_often_as_they_come():
    # 2 chunks of K, 3 tiles each for 70 tokens; 8 heads, 1 chunk, 4 tiles of V
    assert estimate_ck(SEVEN_B, 70, Constants(1, 100, 10_000)) == 2 * (1 + 3 * 100) + 8 * (1 + 4 * 10_000)
