"""The job and the faulty nodes that a user asks to place."""

from typing import TYPE_CHECKING, Any

from pimloom.arch.document import short
from pimloom.arch.error import UserError

if TYPE_CHECKING:
    from pimloom.systems.fabric.place import Job

MOST_NODES = 2**17  # rings of more are verified in minutes
JOB_SHARE = 0.85  # job scale of the published figure [recalled]


def read_nodes(text: str, nodes: int) -> list[int]:
    """`17,203-205` as node numbers. Raises UserError: unknown nodes, reversed ranges, a node twice."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        ends = [low, high] if dash else [low]
        if not all(end.isascii() and end.isdigit() and len(end) <= 9 for end in ends):
            raise UserError(f"--faulty {short(part)!r}: expected nodes and ranges, like 17,203-205")
        first, last = int(ends[0]), int(ends[-1])
        if first > last:
            raise UserError(f"--faulty {part.strip()}: the range is reversed; expected {last}-{first}")
        if len(found) + last - first + 1 > nodes:
            raise UserError(f"--faulty {short(text)}: more faulty nodes than the {nodes} nodes there are")
        if last >= nodes:
            raise UserError(f"--faulty {part.strip()}: no node {last}; expected 0 to {nodes - 1}")
        found += range(first, last + 1)
    if len(set(found)) < len(found):
        twice = next(node for node in found if found.count(node) > 1)
        raise UserError(f"--faulty {short(text)}: node {twice} is named twice")
    return found


def faults_asked(nodes: int, faulty: str | None, ratio: float | None, seed: int) -> Any:
    """bool (nodes,), as asked for."""
    import numpy as np

    from pimloom.systems.fabric.place import random_faults

    if not 1 <= nodes <= MOST_NODES:
        raise UserError(f"--nodes {nodes}: expected 1 to {MOST_NODES}")
    if faulty is not None and ratio is not None:
        raise UserError(f"--fault-ratio {ratio}: --faulty names the nodes; leave one out")
    if ratio is not None:
        if not 0 <= ratio <= 1:
            raise UserError(f"--fault-ratio {ratio}: expected a share from 0 to 1")
        return random_faults(nodes, ratio, seed)
    bad = np.zeros(nodes, bool)
    bad[read_nodes(faulty, nodes) if faulty is not None else []] = True
    return bad


def job_asked(
    nodes: int, tp: int, job_gpus: int | None, faulty: Any, tor_size: int, each: int, arch: str, corners: bool
) -> "Job":
    """The job to place and where, of the options of `pimloom fabric place`. Raises UserError."""
    from pimloom.arch.topology import topology
    from pimloom.arch.topology.cluster import Cluster
    from pimloom.arch.topology.khop import KHop
    from pimloom.mappers.orchestrate import Rows
    from pimloom.systems.fabric.place import Job

    fabric = topology(arch) if arch != "all" else None
    if not isinstance(fabric, KHop):
        raise UserError(f"--arch {arch}: has no ring to place groups on; expected infinitehbd-kN")
    cluster = Cluster(nodes * each, each)
    Rows(nodes, tor_size)
    if tp < 1:
        raise UserError(f"--tp {tp}: expected a multiple of --gpus-per-node {each}")
    asked = int(JOB_SHARE * cluster.gpus) if job_gpus is None else job_gpus
    if asked < tp:
        raise UserError(f"--job-gpus {asked}: expected at least one group, --tp {tp}")
    return Job(cluster, fabric, tp, tor_size, faulty, asked // tp, corners)
