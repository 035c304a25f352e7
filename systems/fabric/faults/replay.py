"""A fault trace on a cluster of nodes at random positions, as changes that follow one another in time.

The specification's 3.6: servers of 8 GPUs are drawn from those of the trace, without replacement; with nodes of 4 GPUs
each server becomes two, of which an outage takes one, or seldom both. Then all nodes are shuffled.
"""

import math

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.topology.cluster import Cluster
from pimloom.mappers.fabric.changes import Changes
from pimloom.systems.fabric.faults.trace import GPUS_PER_SERVER, Outages, Trace

FAULT_PROBABILITY = 0.0233  # [recalled] p of an 8-GPU server: mean of the public trace


def conversion_factor(p: float) -> float:
    """Probability that a given half of a faulty server is faulty, if halves fail alone and servers with `p`.

    A half fails with q = 1 - sqrt(1 - p); q / p = 1 / (1 + sqrt(1 - p)).

    >>> round(conversion_factor(0.0167), 4), round(conversion_factor(0.0233), 4)
    (0.5021, 0.5029)
    """
    return 1 / (1 + math.sqrt(1 - p))


def check_replay(trace: Trace, cluster: Cluster) -> None:
    """Raises UserError unless the cluster can be made of the trace's servers."""
    if GPUS_PER_SERVER % cluster.gpus_per_node or cluster.gpus_per_node < GPUS_PER_SERVER // 2:
        raise UserError(
            f"--gpus-per-node {cluster.gpus_per_node}: a trace is of servers with {GPUS_PER_SERVER} GPUs; "
            f"expected {GPUS_PER_SERVER // 2} or {GPUS_PER_SERVER}"
        )
    if cluster.gpus % GPUS_PER_SERVER:
        raise UserError(f"--gpus {cluster.gpus}: expected a multiple of {GPUS_PER_SERVER}, whole servers of a trace")
    if (needed := cluster.gpus // GPUS_PER_SERVER) > trace.servers:
        most = trace.servers * GPUS_PER_SERVER
        raise UserError(
            f"--gpus {cluster.gpus}: {needed} servers; {trace.name} has {trace.servers}: expected at most {most} GPUs, "
            "or more --servers"
        )


def draw_nodes(outages: Outages, servers: int, cluster: Cluster, rng: np.random.Generator) -> Outages:
    """Outages of nodes at their positions: some of the `servers`, perhaps halved, all shuffled."""
    halves = GPUS_PER_SERVER // cluster.gpus_per_node
    place = np.full(servers, -1)
    place[rng.permutation(servers)[: cluster.gpus // GPUS_PER_SERVER]] = np.arange(cluster.gpus // GPUS_PER_SERVER)
    taken = np.flatnonzero(place[outages.server] >= 0)
    server = place[outages.server[taken]]
    if halves == 1:
        node = server
    else:
        q = FAULT_PROBABILITY * conversion_factor(FAULT_PROBABILITY)
        both = np.flatnonzero(rng.random(len(server)) < q * q / FAULT_PROBABILITY)
        half = rng.integers(0, halves, len(server))
        node = np.append(server * halves + half, server[both] * halves + 1 - half[both])
        taken = np.append(taken, taken[both])
    position = rng.permutation(cluster.nodes)[node]
    return Outages(position, outages.start_h[taken], outages.end_h[taken])


def walk(outages: Outages, nodes: int, horizon_h: float) -> tuple[np.ndarray, Changes]:
    """Hours that each state lasts from 0 to the horizon, (states,), and what changes between them; a state ends where
    any outage does. Outages of one node may overlap."""
    edges = np.unique(np.concatenate([[0.0, horizon_h], outages.start_h, outages.end_h]))
    edges = edges[edges <= horizon_h]
    states = len(edges) - 1
    begin, end = (np.minimum(np.searchsorted(edges, at), states) for at in (outages.start_h, outages.end_h))
    key, of = np.unique(np.tile(outages.server, 2) * (states + 1) + np.append(begin, end), return_inverse=True)
    net = np.bincount(of, np.repeat([1, -1], len(begin))).astype(np.int64)
    covers = np.cumsum(net)  # outages of the node: it is back after its last, at the latest in no state
    by = (covers > 0).astype(np.int64) - (covers - net > 0)
    node, state = np.divmod(key, states + 1)
    kept = np.flatnonzero((by != 0) & (state < states))
    kept = kept[np.argsort(state[kept], kind="stable")]
    return np.diff(edges), Changes(nodes, states, state[kept], node[kept], by[kept])
