"""Usable GPUs after each change: those of each state alone, whatever fails and comes back."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.topology import Topology, topologies
from pimloom.arch.topology.cluster import Cluster
from pimloom.arch.topology.khop import khop
from pimloom.mappers.fabric.changes import Changes, usable_after
from pimloom.mappers.fabric.usable import find_faulty, usable_of
from pimloom.systems.fabric.faults.replay import draw_nodes, walk
from pimloom.systems.fabric.faults.synthetic import synthesise
from tests.faulty_states import states_of
from tests.naive_fabric import usable
from tests.test_usable import FABRICS, LINE


def toggled(nodes: int, state: list[int], node: list[int]) -> Changes:
    """Each node fails and comes back in turn; `state`: ascending. Twice in one state is not at all."""
    steps = np.zeros((max(state, default=0) + 1, nodes), bool)
    for at, which in zip(state, node, strict=True):
        steps[at:, which] ^= True
    moved = np.diff(steps.astype(np.int64), axis=0, prepend=np.zeros((1, nodes), np.int64))
    states, nodes_moved = np.nonzero(moved)
    return Changes(nodes, len(steps), states, nodes_moved, moved[states, nodes_moved])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Changes, list[int]]:
    """A fabric of nodes of 4 GPUs, many changes of few nodes, and sizes of groups."""
    nodes = draw(st.integers(1, 40))
    node = draw(st.lists(st.integers(0, nodes - 1), max_size=60))
    steps = draw(st.lists(st.integers(0, 2), min_size=len(node), max_size=len(node)))
    tps = draw(st.lists(st.sampled_from([1, 2, 4, 8, 12, 16, 32, 64, 96, 128]), min_size=1, max_size=3))
    return draw(st.sampled_from(FABRICS)), toggled(nodes, np.cumsum(steps, dtype=int).tolist(), node), tps


@given(cases())
def test_each_state_is_that_of_the_oracle(case: tuple[Topology, Changes, list[int]]) -> None:
    fabric, changes, tps = case
    states = states_of(changes)
    want = [[usable(fabric, list(state), 4, tp) for state in states] for tp in tps]
    assert usable_after(fabric, changes, 4, tps).tolist() == want
    assert changes.healthy.tolist() == (changes.nodes - states.sum(axis=1)).tolist()


@pytest.mark.parametrize("fabric", [khop(2), khop(3), khop(4), LINE], ids=lambda one: one.name)
def test_a_small_ring_through_all_its_states(fabric: Any) -> None:
    """A Gray code: every set of faulty nodes, each reached by one change; then as many random ones."""
    nodes = 9
    gray = [(i & -i).bit_length() - 1 for i in range(1, 2**nodes)]
    node = [*gray, *np.random.default_rng(1).integers(0, nodes, 2**nodes).tolist()]
    changes = toggled(nodes, list(range(len(node))), node)
    states, tps = states_of(changes), [4, 8, 12, 36]
    assert len(np.unique(states[: 2**nodes], axis=0)) >= 2**nodes - 1
    assert usable_after(fabric, changes, 4, tps).tolist() == usable_of(fabric, find_faulty(states), 4, tps).tolist()


def test_a_trace_is_its_states_one_by_one() -> None:
    cluster, trace, tps = Cluster(2880, 4), synthesise(seed=4), [8, 32, 128]
    placed = draw_nodes(trace.outages(), trace.servers, cluster, np.random.default_rng(0))
    _, changes = walk(placed, cluster.nodes, trace.horizon_h)
    found = find_faulty(states_of(changes))
    for fabric in topologies("all"):
        assert (usable_after(fabric, changes, 4, tps) == usable_of(fabric, found, 4, tps)).all(), fabric.name
