"""Usable GPUs: the oracle that goes from GPU to GPU, the specification's literal values, and what cannot be built."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.topology import NAMED, Topology, topology
from pimloom.arch.topology.cubes import Cubes
from pimloom.arch.topology.islands import Islands
from pimloom.arch.topology.khop import khop
from pimloom.mappers.fabric.usable import usable_gpus
from tests.naive_fabric import usable

LINE = replace(khop(2), name="line", wraps=False)
FABRICS = [
    *NAMED.values(),
    khop(4),
    LINE,
    Islands("i12", "", 12),
    Cubes("c8", "", 8, True),
    Cubes("c12", "", 12, False),
]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, np.ndarray, int, int]:
    """A fabric, states with few, many or all nodes faulty, R and TP."""
    fabric = draw(st.sampled_from(FABRICS))
    each = draw(st.sampled_from([2, 4]))
    if isinstance(fabric, type(LINE)) and fabric.hops > each:
        each = 4
    nodes = draw(st.integers(1, 60))
    sizes = [tp for tp in (1, 2, 4, 8, 12, 16, 32, 64, 96, 128) if tp <= nodes * each and (tp % each == 0 or tp < each)]
    tp = draw(st.sampled_from([tp for tp in sizes if tp >= each or each % tp == 0] or [each]))
    states, healthy = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))  # hypothesis draws node by node ten times slower
    return fabric, rng.integers(0, healthy + 1, (states, nodes)) == 0, each, tp


@settings(max_examples=300)
@given(cases())
@example((Cubes("c8", "", 8, True), np.array([[False] * 4 + [True]]), 4, 16))  # in a last cube that is not full
def test_usable_gpus_are_those_of_the_oracle(case: tuple[Topology, np.ndarray, int, int]) -> None:
    fabric, faulty, each, tp = case
    assert usable_gpus(fabric, faulty, each, tp).tolist() == [usable(fabric, list(s), each, tp) for s in faulty]


@pytest.mark.parametrize(("nodes", "hops"), [(12, 2), (9, 3)])
def test_every_state_of_a_small_ring(nodes: int, hops: int) -> None:
    """All sets of faulty nodes at once: runs that wrap, runs of exactly K - 1 and K, nobody healthy."""
    states = (np.arange(2**nodes)[:, None] >> np.arange(nodes)) & 1 == 1
    for tp in (4, 8, 12):
        found = usable_gpus(khop(hops), states, 4, tp)
        assert found.tolist() == [usable(khop(hops), list(state), 4, tp) for state in states]


def test_a_run_of_k_minus_1_is_bypassed_and_one_of_k_cuts() -> None:
    """8 nodes, groups of 3: two cuts leave segments of 2 and 2; a bypass leaves 4, and one group."""
    two, one = np.zeros((2, 1, 8), bool)
    two[0, [0, 1, 4, 5]] = True
    one[0, [0, 4, 5]] = True
    assert usable_gpus(khop(2), two, 4, 12).tolist() == [0]
    assert usable_gpus(khop(3), two, 4, 12).tolist() == [12]
    assert usable_gpus(khop(2), one, 4, 12).tolist() == [12]  # one cut makes a line of 5, no more


@pytest.mark.parametrize(
    ("name", "tp", "usable_of_2880"),
    [
        ("nvl36", 16, 2560),  # 4 of 36 left over: 11.1 %
        ("nvl36", 64, 0),
        ("nvl72", 8, 2880),
        ("nvl72", 16, 2560),
        ("nvl72", 32, 2560),
        ("nvl72", 64, 2560),
        ("nvl576", 64, 2880),
        ("tpuv4", 128, 2816),  # 45 cubes: one is left over
        ("tpuv4-slices", 64, 2880),
        ("sip-ring", 64, 2880),
        ("dgx8", 8, 2880),
        ("dgx8", 16, 0),
        ("infinitehbd-k2", 64, 2880),
        ("big-switch", 64, 2880),
    ],
)
def test_without_faults(name: str, tp: int, usable_of_2880: int) -> None:
    assert usable_gpus(topology(name), np.zeros((1, 720), bool), 4, tp).tolist() == [usable_of_2880]


def test_groups_below_a_node_use_every_healthy_node() -> None:
    faulty = np.zeros((1, 72), bool)
    faulty[0, [3, 4, 40]] = True
    for fabric in (fabric for fabric in NAMED.values() if fabric.name != "nvl36" and fabric.name != "infinitehbd-k3"):
        assert usable_gpus(fabric, faulty, 8, 2).tolist() == [69 * 8]


def test_all_healthy_or_all_faulty_or_no_state() -> None:
    for fabric in NAMED.values():
        assert usable_gpus(fabric, np.ones((2, 72), bool), 4, 8).tolist() == [0, 0]
        assert usable_gpus(fabric, np.zeros((0, 72), bool), 4, 8).tolist() == []


@pytest.mark.parametrize(
    ("name", "each", "tp", "said"),
    [
        ("nvl36", 8, 8, "--arch nvl36: its units of 36 GPUs are no multiple of --gpus-per-node 8"),
        ("tpuv4", 3, 6, "--arch tpuv4: its units of 64 GPUs are no multiple of --gpus-per-node 3"),
        ("big-switch", 4, 6, "--tp 6: expected a multiple (or a divisor) of --gpus-per-node 4"),
        ("big-switch", 4, 512, "--tp 512: expected at most --gpus 48"),
        ("infinitehbd-k5", 4, 8, "--arch infinitehbd-k5: 5 bundles need as many slots"),
    ],
)
def test_what_cannot_be_built_is_named(name: str, each: int, tp: int, said: str) -> None:
    with pytest.raises(UserError) as error:
        usable_gpus(topology(name), np.zeros((1, 12), bool), each, tp)
    assert str(error.value).startswith(said)
