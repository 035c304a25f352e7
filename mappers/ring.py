"""Rings of GPUs on the K-hop ring: m consecutive healthy nodes, faulty ones bypassed, one cycle through all GPUs.

Places are positions along the line of nodes, 0 to n - 1; a hop of d joins positions x and x + d (mod n). Up to K - 1
consecutive faulty nodes are bypassed, a run of K or more cuts the line there.

Which bundle carries a hop stands in `arch/topology/khop.py`: a right hop of +1 or +2 is on A and the same hop seen from
its other end, -1 or -2, on B; hops of +3 and -3 are both on C (+4 and -4 on D, …). So a node with a 3-hop on either
side, both pairs of its neighbours faulty, would need C twice: the corner case, about n f^4 of n nodes. It is a break
with `corners=False`, else only counted (`corner_cases`).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from pimloom.arch.topology.khop import KHop

LOOPBACK = -1  # in place of a path
SHARED_HOP = 3  # from this hop on, right and left are on one bundle

Gpu: TypeAlias = tuple[int, int]  # position of its node, number in the node


class Ring(NamedTuple):
    """A group's ring. live: (position, bundle, path or LOOPBACK) of all its bundles; links: pairs of GPUs, m R of them.

    positions: its nodes in the order of the hops; a closed cycle of GPUs runs along the line and back.
    """

    positions: tuple[int, ...]
    live: list[tuple[int, int, int]]
    links: list[tuple[Gpu, Gpu]]


def cuts(faulty: np.ndarray, hops: int) -> np.ndarray:
    """How often faults cut the ring: runs of at least K = `hops` faulty nodes.

    faulty: bool (…, n) along the ring. Returns int64 (…,). A ring with no healthy node has no cut.
    """
    starts = ~faulty
    for step in range(1, hops + 1):
        starts = starts & np.roll(faulty, -step, axis=-1)
    return np.asarray(starts.sum(axis=-1))


def corners(faulty: np.ndarray) -> np.ndarray:
    """Healthy nodes with two faulty ones on either side and a healthy one behind each pair: they need C of K = 3 twice.

    faulty: bool (…, n) along the ring. Returns int64 (…,).
    """
    found = ~faulty
    for far in (-SHARED_HOP, SHARED_HOP):
        found = found & ~np.roll(faulty, far, axis=-1)
        for near in (1, 2):
            found = found & np.roll(faulty, near if far > 0 else -near, axis=-1)
    return np.asarray(found.sum(axis=-1))


def segments(healthy: np.ndarray, hops: int, wraps: bool = True) -> list[np.ndarray]:
    """Healthy positions that hops can join, in order, one int64 array per piece of the ring.

    Without a cut, and with one, the ring is one piece. wraps: a ring; else a line.
    """
    order, broken = _walk(healthy, hops, wraps)
    return np.split(order, np.flatnonzero(broken)[1:]) if len(order) else []


def form_chains(healthy: np.ndarray, m: int, hops: int, *, wraps: bool = True, corners: bool = False) -> np.ndarray:
    """As many groups of m nodes as fit, each of consecutive healthy nodes: int64 (groups, m) positions.

    corners: allow nodes that would need one bundle twice.

    The number is the largest there is, any chains of hops up to K allowed. Proof: between two pieces of `segments` lie
    K faulty nodes in a row, so a group stays in one piece, and one of h nodes holds floor(h / m) at most: as formed.
    Without corners, for K = 3: a corner node x has no healthy node within 3 but x - 3 and x + 3, and both are on C, so
    it belongs to one side. If it completes a group on the left, it goes there: on the right it could complete one more
    at most. Else it goes right, where it may. In a ring that nothing else cuts both are tried for the first corner. For
    K = 2 there is no corner; for K >= 4 a corner node may be avoided by hops that leave healthy nodes out, and a larger
    number may exist.
    """
    order, broken = _walk(healthy, hops, wraps)
    hop = np.diff(order, prepend=order[-1:]) % len(healthy)
    if corners or not len(order):
        return chop(order, broken, m)
    closed = wraps and hop[0] <= hops
    around = np.flatnonzero((hop == np.roll(hop, -1)) & (hop >= SHARED_HOP)) if closed else hop[:0]
    if len(around):  # of a closed ring: the first corner node belongs to one of its sides
        return max((_from(order, hop, first, m) for first in (around[0], around[0] + 1)), key=len)
    return chop(order, break_corners(broken, corner_places(hop, broken), m), m)


def chop(order: np.ndarray, broken: np.ndarray, m: int) -> np.ndarray:
    """Consecutive groups of m of `order`, none across i - 1 and i where broken[i]: int64 (groups, m)."""
    piece = np.cumsum(broken) - 1
    start = np.flatnonzero(broken)
    within = np.arange(len(order)) - start[piece]
    full = np.bincount(piece, minlength=len(start)) // m * m
    return order[within < full[piece]].reshape(-1, m)


def corner_places(hop: np.ndarray, broken: np.ndarray) -> np.ndarray:
    """Indices of nodes with the same hop of 3 or more on both sides: int64. hop[i] is from node i - 1 to i."""
    same = (hop[:-1] == hop[1:]) & (hop[:-1] >= SHARED_HOP) & ~broken[:-1] & ~broken[1:]
    return np.flatnonzero(same)


def break_corners(broken: np.ndarray, corner: np.ndarray, m: int) -> np.ndarray:
    """`broken` with a break beside each corner node that would lie inside a group: behind it if it completes one."""
    if not len(corner):
        return broken
    broken = broken.copy()
    starts = np.flatnonzero(broken)
    latest = 0
    for i in corner.tolist():
        start = max(latest, int(starts[np.searchsorted(starts, i, side="right") - 1]))
        latest = i + 1 if start < i and (i - start) % m == m - 1 else i
        broken[latest : latest + 1] = True
    return broken


def corner_cases(chains: np.ndarray, nodes: int) -> int:
    """How many nodes of chains (groups, m) would need one bundle twice."""
    hop = np.diff(chains, axis=1) % nodes
    return int(((hop[:, 1:] == hop[:, :-1]) & (hop[:, 1:] >= SHARED_HOP)).sum())


def build_ring(fabric: KHop, gpus_per_node: int, chain: Sequence[int], nodes: int) -> Ring:
    """The ring through all GPUs of the nodes `chain`, positions in the order of the hops. Any R from 2 on, K <= R.

    Every slot joins its two GPUs, by a cable or a bundle's loopback, but where a hop takes the bundle: then the lower
    GPU of the right slot of node a and the upper one of the left slot of node b are joined, and the other two. A corner
    node has a bundle live twice, which no hardware can: `mappers/fabric/verify.py` says so.
    """
    slots = fabric.slots(gpus_per_node)
    live: list[tuple[int, int, int]] = []
    links: list[tuple[Gpu, Gpu]] = []
    behind: tuple[int, int] | None = None  # position of the node to the left, and the slot that leads here
    for here, there in zip(chain, [*chain[1:], None], strict=True):
        left = None if behind is None else (here - behind[0]) % nodes
        right = None if there is None else (there - here) % nodes
        entry, out = _paths(fabric, left, right)
        used = [pair for pair in (entry, out) if pair is not None]
        live += [(here, *pair) for pair in used]
        taken = {bundle for bundle, _ in used}
        live += [(here, bundle, LOOPBACK) for bundle in range(fabric.hops) if bundle not in taken]
        external = {slots[bundle] for bundle in taken}
        for slot in range(gpus_per_node):
            if slot not in external:
                links.append(((here, slot), (here, (slot + 1) % gpus_per_node)))
        if behind is not None and entry is not None:
            far, near = behind[1], slots[entry[0]]
            links.append(((behind[0], far), (here, (near + 1) % gpus_per_node)))
            links.append(((behind[0], (far + 1) % gpus_per_node), (here, near)))
        behind = None if out is None else (here, slots[out[0]])
    return Ring(tuple(chain), live, links)


def build_rings(fabric: KHop, gpus_per_node: int, chains: np.ndarray, nodes: int) -> list[Ring]:
    """The rings of chains (groups, m) on a ring of `nodes` nodes; see `build_ring`."""
    return [build_ring(fabric, gpus_per_node, chain, nodes) for chain in chains.tolist()]


def _paths(fabric: KHop, left: int | None, right: int | None) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """(bundle, path) for the hop on the left and on the right, on two bundles if there is a way."""
    entries = [None] if left is None else fabric.paths(-left)
    outs = [None] if right is None else fabric.paths(right)
    if not entries or not outs:
        raise ValueError(f"{fabric.name}: no path for hops -{left}, +{right}")
    pairs = [(entry, out) for entry in entries for out in outs]
    return next((pair for pair in pairs if pair[0] is None or pair[1] is None or pair[0][0] != pair[1][0]), pairs[0])


def _walk(healthy: np.ndarray, hops: int, wraps: bool) -> tuple[np.ndarray, np.ndarray]:
    """Healthy positions in the order of the walk, and where it is broken; it starts behind a cut if there is one."""
    order = np.flatnonzero(healthy)
    if not len(order):
        return order, np.zeros(0, bool)
    broken = np.diff(order, prepend=order[-1:] - len(healthy)) > hops
    if not wraps:
        broken[0] = True
    elif broken.any():
        first = int(np.argmax(broken))
        order, broken = np.roll(order, -first), np.roll(broken, -first)
    else:
        broken[0] = True
    return order, broken


def _from(order: np.ndarray, hop: np.ndarray, first: int, m: int) -> np.ndarray:
    """The groups of a closed ring that is opened before order[first]."""
    order, hop = np.roll(order, -first), np.roll(hop, -first)
    broken = np.zeros(len(order), bool)
    broken[0] = True
    return chop(order, break_corners(broken, corner_places(hop, broken), m), m)
