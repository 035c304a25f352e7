"""Collectives on a reconfigurable optical ring: every GPU and every message, hops of different length, and failovers.

The rules are those of `cycle_sim/link.py`: a message holds its sender's link for its bits and arrives a latency later,
and a GPU sends on what has arrived as a whole. Here each hop has a latency of its own, for a hop over bypassed nodes
has a longer fibre, so a GPU may wait for one neighbour and not for the other. With equal hops and without a fault the
time is that of `link.py`.

A fault stops everything at once: messages on the way are lost. When the path is up again all GPUs begin together: with
the step that was not over everywhere (`repeat`: all hold what they had, for the ring has the same GPUs as before), or
with the first one (`restart`: a node is gone and another one has come, so sums that were made are worth nothing).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from pimloom.arch.link import Link
from pimloom.arch.optics import Optics
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.link import bits_ps

Operation: TypeAlias = Literal["reduce_scatter", "all_gather", "all_reduce"]
Recovery: TypeAlias = Literal["repeat", "restart"]
SLOTS_OF_A_RING = 2  # bundles that a node of a line needs: one to each side


@dataclass(frozen=True)
class Ring:
    """GPUs in a ring; hop i goes from GPU i to the next one, the last to the first. All links have one rate.

    nodes[i]: how far hop i goes [nodes]; 0 within a node.
    """

    gbps: float
    latency_ps: tuple[int, ...]
    nodes: tuple[int, ...]

    @property
    def gpus(self) -> int:
        """GPUs of the ring."""
        return len(self.latency_ps)


@dataclass(frozen=True)
class Collective:
    """A collective without a fault. step_end_ps[k]: when the last message of step k has arrived; the last: the end."""

    step_end_ps: tuple[int, ...]

    @property
    def end_ps(self) -> int:
        """When all GPUs have what they should."""
        return self.step_end_ps[-1] if self.step_end_ps else 0


@dataclass(frozen=True)
class Recovered:
    """A collective with a fault at `fault_ps`. step: that with which it went on at `resume_ps`; lost_ps: how much later
    it ended than it would have, of which down_ps by cause until it went on."""

    fault_ps: int
    step: int
    resume_ps: int
    end_ps: int
    lost_ps: int
    down_ps: dict[str, int]


def node_ring(part: Optics, gpus_per_node: int, distances: Sequence[int]) -> Ring:
    """The ring of len(distances) + 1 nodes of R GPUs each in a line; distances[i]: from node i to the next, 1 or, over
    bypassed nodes, more.

    Each node has one bundle to the left and one to the right; half the lanes of a bundle go to each of two GPUs, so two
    hops join neighbours, there and back, and the ends close by their own loopback. Raises ValueError below 2 GPUs.
    """
    each, last = gpus_per_node, len(distances)
    if each < SLOTS_OF_A_RING or any(distance < 1 for distance in distances):
        raise ValueError(f"expected at least 2 GPUs per node and distances from 1, got {each} and {list(distances)}")
    right, left = each - 1, each // 2 - 1  # slots of the bundles; slot i joins GPUs i and i + 1
    links: list[tuple[tuple[int, int], tuple[int, int], int]] = []
    for node in range(last + 1):
        outside = _outside(node, last, right, left)
        links += [((node, i), (node, (i + 1) % each), 0) for i in range(each) if i not in outside]
    for node, distance in enumerate(distances):
        links.append(((node, right), (node + 1, left + 1), distance))
        links.append(((node, (right + 1) % each), (node + 1, left), distance))
    far = _walk(links)
    return Ring(part.hop.gbps, tuple(part.hop_ps(nodes) for nodes in far), tuple(far))


def _outside(node: int, last: int, right: int, left: int) -> set[int]:
    """Slots of a node whose bundle is on an external path."""
    return ({right} if node < last else set()) | ({left} if node > 0 else set())


def _walk(links: list[tuple[tuple[int, int], tuple[int, int], int]]) -> list[int]:
    """Lengths of the links in the order of the ring, from GPU 0 of node 0."""
    joined: dict[tuple[int, int], list[int]] = {}
    for number, (a, b, _) in enumerate(links):
        joined.setdefault(a, []).append(number)
        joined.setdefault(b, []).append(number)
    at, number, found = (0, 0), joined[0, 0][0], list[int]()
    for _ in links:
        a, b, far = links[number]
        at = b if at == a else a
        found.append(far)
        number = next(n for n in joined[at] if n != number) if len(joined) > 2 else 1 - number
    return found


def steps_of(operation: Operation, gpus: int) -> int:
    """Steps of a collective in a ring."""
    return (gpus - 1) * (2 if operation == "all_reduce" else 1)


def collective(ring: Ring, n_bytes: int, operation: Operation = "all_reduce", *, both_ways: bool = False) -> Collective:
    """A collective of `n_bytes` that starts at 0 on all GPUs: one way around the ring, or half of it each way."""
    return Collective(tuple(_ends(ring, n_bytes, 0, steps_of(operation, ring.gpus), 0, both_ways)))


def recovered(
    part: Optics,
    before: Ring,
    after: Ring,
    n_bytes: int,
    fault_ps: int,
    operation: Operation = "all_reduce",
    recovery: Recovery = "restart",
    *,
    both_ways: bool = False,
) -> Recovered:
    """The same with a path that fails at `fault_ps`: down for detection, decision, reconfiguration, retrain and the
    software's rebuild, then on over the ring `after`. Nothing is lost by a fault behind the end.

    Raises ValueError for a fault before 0, or `repeat` on a ring of another size.
    """
    if fault_ps < 0:
        raise ValueError(f"expected a fault from 0 ps on, got {fault_ps}")
    if recovery == "repeat" and after.gpus != before.gpus:
        raise ValueError(f"a step can be repeated by the same {before.gpus} GPUs only, not by {after.gpus}")
    ends = collective(before, n_bytes, operation, both_ways=both_ways).step_end_ps
    down, end = part.failover_ps, ends[-1] if ends else 0
    if fault_ps >= end:
        return Recovered(fault_ps, len(ends), fault_ps, end, 0, dict.fromkeys(down, 0))
    step = sum(e <= fault_ps for e in ends) if recovery == "repeat" else 0
    resume = fault_ps + sum(down.values())
    last = _ends(after, n_bytes, step, steps_of(operation, after.gpus), resume, both_ways)
    until = last[-1] if last else resume
    return Recovered(fault_ps, step, resume, until, until - end, down)


def _ends(ring: Ring, n_bytes: int, first: int, steps: int, start_ps: int, both_ways: bool) -> list[int]:
    if not both_ways:
        return _run(ring, n_bytes, first, steps, start_ps)
    back = Ring(ring.gbps, ring.latency_ps[::-1], ring.nodes[::-1])
    ways = (ring, ceil_div(n_bytes, 2)), (back, n_bytes // 2)
    return [max(pair) for pair in zip(*(_run(way, n, first, steps, start_ps) for way, n in ways), strict=True)]


def _run(ring: Ring, n_bytes: int, first: int, steps: int, start_ps: int) -> list[int]:
    """Ends of steps `first` to `steps` - 1, all GPUs ready at `start_ps`.

    In step s GPU d sends part d - s; parts are n_bytes / GPUs, the first ones a byte longer. An empty one is not sent.
    """
    p = ring.gpus
    base, longer = divmod(n_bytes, p)
    link = Link(gbps=ring.gbps, latency_ns=0, pj_per_bit=0, topology="ring")
    hold = np.array([bits_ps(link, base + (part < longer)) for part in range(p)], np.int64)
    sent = np.array([base + (part < longer) > 0 for part in range(p)])
    latency, gpu = np.array(ring.latency_ps, np.int64), np.arange(p)
    there = np.full(p, start_ps, np.int64)  # when the part that a GPU sends next has arrived
    free, ends = there.copy(), list[int]()
    for step in range(first, steps):
        part = (gpu - step) % p
        free = np.maximum(there, free) + hold[part]
        there = np.roll(free + latency * sent[part], 1)
        ends.append(int(there.max()))
    return np.maximum.accumulate(ends).tolist() if ends else []
