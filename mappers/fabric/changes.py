"""How many nodes can stand in tensor-parallel groups after each change, as nodes fail and come back in turn.

The counts are those of `usable_of` (specification, 3.5), state by state; a change costs what it touches: a unit of the
fabric, or a stretch of a ring between two cuts.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.topology import Topology
from pimloom.arch.topology.cubes import Cubes
from pimloom.arch.topology.islands import Islands
from pimloom.arch.topology.khop import KHop
from pimloom.arch.topology.rings import FixedRings
from pimloom.arch.topology.switch import BigSwitch
from pimloom.arch.units import ceil_div

Delta = tuple[int, np.ndarray]  # nodes in groups without a fault; how many more with each change, int64 (changes,)


class Changes(NamedTuple):
    """Nodes that fail (`by` 1) or come back (-1), in turn, int64 (changes,); `state`: the first that has it, ascending.

    Before all changes every node is healthy; a node fails only if it is healthy, and comes back only if it is not.
    """

    nodes: int
    states: int
    state: np.ndarray
    node: np.ndarray
    by: np.ndarray

    def over_time(self, start: int, delta: np.ndarray) -> np.ndarray:
        """A figure that begins with `start` and changes by `delta`, in each state, int64 (states,)."""
        steps = np.bincount(self.state, weights=delta, minlength=self.states)  # exact: far below 2^53
        return start + np.cumsum(steps.astype(np.int64))

    @property
    def healthy(self) -> np.ndarray:
        """Healthy nodes of each state, int64 (states,)."""
        return self.over_time(self.nodes, -self.by)


def usable_after(fabric: Topology, changes: Changes, gpus_per_node: int, tps: Sequence[int]) -> np.ndarray:
    """GPUs in groups of each of `tps` GPUs, int64 (tps, states); nothing is checked."""
    sizes = [max(tp // gpus_per_node, 1) for tp in tps]
    found = [used * gpus_per_node for used in _used(fabric, changes, gpus_per_node, sizes)]
    return np.array(found, np.int64).reshape(len(tps), changes.states)


def _used(fabric: Topology, changes: Changes, each: int, sizes: Sequence[int]) -> list[np.ndarray]:
    """Nodes in groups of each size, (states,) each."""
    match fabric:
        case BigSwitch():
            return [changes.healthy // m * m for m in sizes]
        case KHop():
            return [changes.over_time(*delta) for delta in _ring(changes, fabric.hops, fabric.wraps, sizes)]
        case Islands():
            return [changes.over_time(*_islands(changes, fabric.unit_gpus // each, m)) for m in sizes]
        case FixedRings():
            return [changes.over_time(*_fixed(changes, changes.nodes, m)) for m in sizes]
        case Cubes():
            unit = fabric.cube_gpus // each
            within = _fixed if fabric.slices else _islands
            return [
                changes.over_time(*within(changes, unit, m)) if m <= unit else _whole_cubes(changes, unit, m)
                for m in sizes
            ]


def _islands(changes: Changes, unit: int, m: int) -> Delta:
    """Healthy nodes in groups of m within units."""
    whole, rest = divmod(changes.nodes, unit)
    number = changes.node // unit
    size = np.where(number == whole, rest, unit)
    return whole * (unit // m * m) + rest // m * m, _steps(changes, number, lambda faulty: (size - faulty) // m * m)


def _fixed(changes: Changes, unit: int, m: int) -> Delta:
    """Nodes of fixed groups of m within units of `unit` nodes, without those groups that have any fault."""
    whole, rest = divmod(changes.nodes, unit)
    number, place = np.divmod(changes.node, unit)
    good = place < np.where(number == whole, rest, unit) // m * m  # the last group of a unit may be too small
    group = number * ceil_div(unit, m) + place // m
    return whole * (unit // m * m) + rest // m * m, _steps(changes, group, lambda faulty: good * (faulty == 0) * m)


def _whole_cubes(changes: Changes, unit: int, m: int) -> np.ndarray:
    """Nodes of groups of m that join cubes without any fault, whole ones; a cube is in one group only."""
    whole, number = changes.nodes // unit, changes.node // unit
    good = changes.over_time(whole, _steps(changes, number, lambda faulty: (faulty == 0) & (number < whole)))
    return good // ceil_div(m, unit) * m


def _steps(changes: Changes, unit: np.ndarray, used: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """What each change adds to the nodes in use of its unit. used: of the faulty nodes of each change's unit."""
    order = np.argsort(unit, kind="stable")
    running = np.cumsum(changes.by[order])
    first = np.flatnonzero(np.diff(unit[order], prepend=-1))
    before = np.where(first > 0, running[first - 1], 0) if len(first) else running
    after = np.empty_like(running)
    after[order] = running - np.repeat(before, np.diff(first, append=len(order)))
    return used(after).astype(np.int64) - used(after - changes.by)


def _ring(changes: Changes, hops: int, wraps: bool, sizes: Sequence[int]) -> list[Delta]:
    """Healthy nodes in groups along a ring (or a line), which is cut where `hops` nodes in a row are faulty."""
    ring, found = _Ring(changes.nodes, hops, wraps, sizes), []
    for node, by in zip(changes.node.tolist(), changes.by.tolist(), strict=True):
        found.append(ring.change(node, by > 0))
    deltas = np.array(found, np.int64).reshape(len(found), len(sizes))
    return [(changes.nodes // m * m, deltas[:, i]) for i, m in enumerate(sizes)]


class _Ring:
    """Faulty nodes, and the cuts: the first of each `hops` faulty nodes in a row. A line is a ring with a cut that
    stays, behind its last node."""

    def __init__(self, nodes: int, hops: int, wraps: bool, sizes: Sequence[int]) -> None:
        self.nodes, self.hops, self.wraps, self.sizes = nodes, hops, wraps, sizes
        self.down, self.faulty = bytearray(nodes), list[int]()
        self.cuts = [] if wraps else [nodes]

    def change(self, node: int, fails: bool) -> list[int]:
        """A node fails, or comes back: how many more nodes stand in groups of each size."""
        own = self._cuts_of(node)
        whole, split = self._begins(node, own, fails)
        before = self._stretches(whole if fails else split)
        self._put(node, own, fails)
        if own:
            after = self._stretches(split if fails else whole)
            return [(sum(x // m for x in after) - sum(x // m for x in before)) * m for m in self.sizes]
        (healthy,) = before
        healthy_then = healthy + (-1 if fails else 1)
        return [healthy_then // m * m - healthy // m * m for m in self.sizes]

    def _put(self, node: int, own: list[int], fails: bool) -> None:
        self.down[node] = fails
        if fails:
            insort(self.faulty, node)
            for cut in own:
                insort(self.cuts, cut)
        else:
            del self.faulty[bisect_left(self.faulty, node)]
            for cut in own:
                del self.cuts[bisect_left(self.cuts, cut)]

    def _cuts_of(self, node: int) -> list[int]:
        """The cuts that `node` has a part in while it is faulty, along the ring."""
        row = self._row(node, -1), self._row(node, 1)
        if sum(row) < self.hops - 1 or self.nodes < self.hops:
            return []
        return [cut % self.nodes for cut in range(node - row[0], node + row[1] - self.hops + 2)]

    def _row(self, node: int, step: int) -> int:
        """Faulty nodes in a row beside `node`, at most those that share a cut with it."""
        for far in range(self.hops - 1):
            node += step
            if not (self.wraps or 0 <= node < self.nodes) or not self.down[node % self.nodes]:
                return far
        return self.hops - 1

    def _begins(self, node: int, own: list[int], fails: bool) -> tuple[list[int], list[int]]:
        """Where the stretch that `node` is in begins without its own cuts, and those that it falls into with them."""
        others = len(self.cuts) - (0 if fails else len(own))
        if not others:
            return [], own
        whole = self.cuts[bisect_left(self.cuts, own[0] if own else node + 1) - 1]  # before the first: the last one
        return [whole], [whole, *own]

    def _stretches(self, begins: list[int]) -> list[int]:
        """Healthy nodes from each of the cuts to the next; a ring without cuts is one stretch."""
        if not begins:
            return [self.nodes - len(self.faulty)]
        return [self._stretch(begin, bisect_right(self.cuts, begin)) for begin in begins]

    def _stretch(self, begin: int, behind: int) -> int:
        end = self.cuts[behind] if behind < len(self.cuts) else self.cuts[0]
        healthy = end - begin - bisect_left(self.faulty, end) + bisect_left(self.faulty, begin)
        return healthy if end > begin else healthy + self.nodes - len(self.faulty)
