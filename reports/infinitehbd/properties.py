"""Properties of the K-hop ring that hold or do not, checked on all cases of a size."""

import numpy as np

from pimloom.arch.topology import topology
from pimloom.arch.topology.khop import KHop, khop
from pimloom.mappers.fabric.usable import usable_gpus
from pimloom.mappers.fabric.verify import Rules, verify
from pimloom.mappers.ring import build_rings, corners, cuts, form_chains, segments

NODES = 64  # [design] of the bypass check: the specification's
SIZES = (1, 2, 3, 8, 16)  # nodes of a group
GPUS_PER_NODE = (4, 8)
BREAK_NODES = 720  # [recalled] 4-GPU nodes of the paper's cluster
BREAK_DRAWS = 20_000
CORNER_DRAWS = 4000
BREAK_RATIO = 0.1  # [design] high enough that K = 3 breaks often


def bypasses(fabric: KHop) -> bool:
    """Whether two runs of up to K - 1 faulty nodes, anywhere, leave the ring in one piece, and two of K do not.

    Two, on opposite sides: a ring that is cut once is still one piece. The waste model must say the same: one group of
    all healthy nodes, or none.
    """
    for start in range(NODES):
        for run in range(1, fabric.hops + 1):
            faulty = np.zeros(NODES, bool)
            for first in (start, start + NODES // 2):
                faulty[(first + np.arange(run)) % NODES] = True
            pieces, torn = segments(~faulty, fabric.hops), run == fabric.hops
            if len(pieces) != 1 + torn or sum(map(len, pieces)) != NODES - 2 * run:
                return False
            whole = (NODES - 2 * run) * GPUS_PER_NODE[0]
            usable = usable_gpus(fabric, faulty[None], GPUS_PER_NODE[0], whole)[0]
            if cuts(faulty, fabric.hops) != 2 * torn or usable != whole * (not torn):
                return False
    return True


def one_ring() -> bool:
    """Whether groups of every size, with and without bypassed nodes, pass the independent verifier."""
    return not any(_complaints(khop(hops), each, m) for hops in (2, 3) for each in GPUS_PER_NODE for m in SIZES)


def _complaints(fabric: KHop, gpus_per_node: int, m: int) -> list[str]:
    faulty = np.zeros(NODES, bool)
    for run in range(fabric.hops - 1):
        faulty[5 + run :: 9] = True  # [design] runs of K - 1, so that groups bypass as many as they can
    chains = form_chains(~faulty, m, fabric.hops)
    rings = build_rings(fabric, gpus_per_node, chains, NODES)
    rules = Rules(NODES, gpus_per_node, m, fabric.hops, fabric.bundles, fabric.slots(gpus_per_node))
    if len(chains) != int((~faulty).sum()) // m:
        return ["some groups are missing"]
    return verify(rings, np.flatnonzero(faulty).tolist(), rules)


def break_rates(
    hops: int, fault_ratio: float = BREAK_RATIO, draws: int = BREAK_DRAWS, seed: int = 0
) -> tuple[float, float]:
    """Mean number of cuts of a ring of 720 nodes: by Monte-Carlo, and n f^K (1 - f)."""
    rng, nodes, step = np.random.default_rng([seed, hops]), BREAK_NODES, 1000
    counts = [cuts(rng.random((step, nodes)) < fault_ratio, hops) for _ in range(max(draws // step, 1))]
    return float(np.mean(counts)), nodes * fault_ratio**hops * (1 - fault_ratio)


def corner_rate(fault_ratio: float, draws: int = CORNER_DRAWS, seed: int = 0) -> float:
    """Mean number of nodes of a ring of 720 that would need bundle C twice (K = 3), where nodes fail alone."""
    faulty = np.random.default_rng(seed).random((draws, BREAK_NODES)) < fault_ratio
    return float(corners(faulty).mean())


def idle_waste() -> list[float]:
    """Waste ratio without any fault of NVL-36 and NVL-72, TP-16 and TP-32."""
    healthy, found = np.zeros((1, BREAK_NODES), bool), []
    for name in ("nvl36", "nvl72"):
        for tp in (16, 32):
            used = int(usable_gpus(topology(name), healthy, GPUS_PER_NODE[0], tp)[0])
            found.append(1 - used / (BREAK_NODES * GPUS_PER_NODE[0]))
    return found
