"""Properties of the K-hop ring that hold or do not, checked on all cases of a size."""

import numpy as np

from pimloom.arch.topology.khop import KHop, khop
from pimloom.mappers.fabric.verify import Rules, verify
from pimloom.mappers.ring import build_rings, cuts, form_chains, segments

NODES = 64  # [design] of the bypass check: the specification's
SIZES = (1, 2, 3, 8, 16)  # nodes of a group
GPUS_PER_NODE = (4, 8)


def bypasses(fabric: KHop) -> bool:
    """Whether a run of up to K - 1 faulty nodes, anywhere, leaves the ring in one piece, and two runs of K do not."""
    hops, half = fabric.hops, NODES // 2
    for start in range(NODES):
        for run in range(1, hops):
            healthy = np.ones(NODES, bool)
            healthy[(start + np.arange(run)) % NODES] = False
            pieces = segments(healthy, hops)
            if len(pieces) != 1 or len(pieces[0]) != NODES - run or cuts(~healthy, hops) != 0:
                return False
        healthy = np.ones(NODES, bool)
        for first in (start, start + half):
            healthy[(first + np.arange(hops)) % NODES] = False
        if len(segments(healthy, hops)) != 2:
            return False
    return True


def one_ring() -> bool:
    """Whether groups of every size, with and without bypassed nodes, pass the independent verifier."""
    return not any(_complaints(khop(hops), each, m) for hops in (2, 3) for each in GPUS_PER_NODE for m in SIZES)


def _complaints(fabric: KHop, gpus_per_node: int, m: int) -> list[str]:
    faulty = np.zeros(NODES, bool)
    faulty[5::9] = True  # [design] lone faults, so that all groups of more than nine nodes bypass some
    chains = form_chains(~faulty, m, fabric.hops)
    rings = build_rings(fabric, gpus_per_node, chains, NODES)
    rules = Rules(NODES, gpus_per_node, m, fabric.hops, fabric.bundles, fabric.slots(gpus_per_node))
    if len(chains) != int((~faulty).sum()) // m:
        return ["some groups are missing"]
    return verify(rings, np.flatnonzero(faulty).tolist(), rules)
