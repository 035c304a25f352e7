"""The verifier of placements: it accepts what holds, and catches each kind of broken placement."""

from collections.abc import Callable

import numpy as np
import pytest

from pimloom.arch.topology.khop import khop
from pimloom.mappers.fabric.verify import Rules, verify
from pimloom.mappers.ring import LOOPBACK, Ring, build_rings

FABRIC, NODES, R, M = khop(3), 40, 4, 4
FAULTY = [2, 5, 6, 12]
CHAINS = [[0, 1, 3, 4], [7, 8, 9, 10], [11, 13, 14, 15], [36, 37, 38, 39]]
RULES = Rules(NODES, R, M, 3, FABRIC.bundles, FABRIC.slots(R))


def rings(*chains: list[int]) -> list[Ring]:
    return build_rings(FABRIC, R, np.array(chains or CHAINS), NODES)


def with_live(ring: Ring, node: int, bundle: int, path: int) -> Ring:
    return ring._replace(live=[(n, b, path if (n, b) == (node, bundle) else p) for n, b, p in ring.live])


def without(ring: Ring, *links: object) -> list:
    assert all(link in ring.links for link in links), links
    return [link for link in ring.links if link not in links]


def closed_apart(ring: Ring) -> Ring:
    """Nodes 0 and 1 in a cycle of their own beside 3 and 4."""
    kept = without(ring, ((1, 3), (3, 2)), ((1, 0), (3, 1)))
    live = with_live(with_live(ring, 1, 0, LOOPBACK), 3, 1, LOOPBACK).live
    return ring._replace(links=[*kept, ((1, 3), (1, 0)), ((3, 1), (3, 2))], live=live)


BROKEN: dict[str, tuple[Callable[[list[Ring]], None], str]] = {
    "a group too small": (
        lambda r: r.__setitem__(0, rings([0, 1, 3])[0]),
        "group 0 has 3 nodes; expected 4",
    ),
    "a faulty node": (
        lambda r: r.__setitem__(1, rings([6, 8, 9, 10])[0]),
        "group 1: node 6 is faulty",
    ),
    "a node in two groups": (lambda r: r.append(r[0]), "group 4: node 0 is in group 0 already"),
    "a node twice in a group": (
        lambda r: r.__setitem__(0, r[0]._replace(positions=(0, 1, 3, 3))),
        "group 0: node 3 is in group 0 already",
    ),
    "a node that is not there": (
        lambda r: r.__setitem__(0, r[0]._replace(positions=(0, 1, 3, 40))),
        "group 0: node 40 is not one of the 40",
    ),
    "a link missing": (
        lambda r: r.__setitem__(0, r[0]._replace(links=without(r[0], ((0, 0), (0, 1))))),
        "group 0: GPU 0 of node 0 has 1 links; expected 2",
    ),
    "a link twice": (
        lambda r: r.__setitem__(0, r[0]._replace(links=[*r[0].links, ((0, 0), (0, 1))])),
        "group 0: node 0: 2 links on the half of slot 0 at GPU 0",
    ),
    "two cycles": (
        lambda r: r.__setitem__(0, closed_apart(r[0])),
        "group 0: its GPUs form more than one cycle: one has 8 of 16",
    ),
    "a hop too far": (
        lambda r: r.__setitem__(
            0,
            r[0]._replace(links=[*without(r[0], ((0, 3), (1, 2))), ((0, 3), (4, 2))]),
        ),
        "group 0: link 0.3–4.2: a hop of 4 nodes; at most 3 are possible",
    ),
    "two paths live on one bundle": (
        lambda r: r.__setitem__(0, r[0]._replace(live=[*r[0].live, (0, 0, 1)])),
        "group 0: node 0: bundle A has 2 live paths; one at a time is possible",
    ),
    "the wrong path live": (
        lambda r: r.__setitem__(0, with_live(r[0], 1, 0, 0)),
        "group 0: link 1.3–3.2: node 1 has no live path +2 at this GPU",
    ),
    "only one end live": (
        lambda r: r.__setitem__(0, with_live(r[0], 3, 1, LOOPBACK)),
        "group 0: link 1.3–3.2: node 3 has no live path -2 at this GPU",
    ),
    "an end not in loopback": (
        lambda r: r.__setitem__(0, with_live(r[0], 0, 1, 0)),
        "group 0: link 0.1–0.2: slot 1 of node 0 is bundle B, which is not in loopback",
    ),
    "a path that no bundle has": (
        lambda r: r.__setitem__(0, with_live(r[0], 0, 2, 7)),
        "group 0: node 0: bundle C has no path 7",
    ),
    "a bundle without a state": (
        lambda r: r.__setitem__(0, r[0]._replace(live=[one for one in r[0].live if one[:2] != (0, 2)])),
        "group 0: node 0: bundle C has no state",
    ),
    "a bundle of another node": (
        lambda r: r.__setitem__(0, r[0]._replace(live=[*r[0].live, (30, 0, 0)])),
        "group 0: node 30: bundle A is not the group's",
    ),
    "a link across a node": (
        lambda r: r.__setitem__(0, r[0]._replace(links=[*without(r[0], ((0, 0), (0, 1))), ((0, 0), (0, 2))])),
        "group 0: link 0.0–0.2: no slot joins these two",
    ),
    "halves that do not cross": (
        lambda r: r.__setitem__(
            0,
            r[0]._replace(
                links=[*without(r[0], ((0, 3), (1, 2)), ((0, 0), (1, 1))), ((0, 3), (1, 1)), ((0, 0), (1, 2))]
            ),
        ),
        "group 0: link 0.3–1.1: the halves of a bundle cross: a lower GPU meets an upper one",
    ),
    "a link into another group": (
        lambda r: r.__setitem__(0, r[0]._replace(links=[*r[0].links, ((4, 3), (7, 2))])),
        "group 0: link 4.3–7.2: GPU 2 of node 7 is not in the group",
    ),
    "a GPU that is not there": (
        lambda r: r.__setitem__(0, r[0]._replace(links=[*r[0].links, ((4, 3), (4, 4))])),
        "group 0: link 4.3–4.4: GPU 4 of node 4 is not in the group",
    ),
}


def test_a_placement_that_holds():
    assert verify(rings(), FAULTY, RULES) == []
    assert verify([], FAULTY, RULES) == []


@pytest.mark.parametrize("name", BROKEN)
def test_each_kind_of_broken_placement_is_caught(name):
    found = rings()
    spoil, said = BROKEN[name]
    spoil(found)
    assert any(line.startswith(said) for line in verify(found, FAULTY, RULES)), verify(found, FAULTY, RULES)


def test_every_single_change_of_a_ring_is_caught():
    """One link left out, or one bundle in another state: nothing passes that is not the ring itself."""
    ring = rings()[0]
    for link in ring.links:
        broken = ring._replace(links=[one for one in ring.links if one != link])
        assert verify([broken], FAULTY, RULES)
    for node, bundle, path in ring.live:
        for other in {0, 1, LOOPBACK} - {path}:
            found = verify([with_live(ring, node, bundle, other)], FAULTY, RULES)
            assert found, (node, bundle, path, other)
