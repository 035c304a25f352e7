"""A cluster: how many GPUs, how many in a node, how many in a tensor-parallel group. Checked when made."""

from dataclasses import dataclass

from pimloom.arch.error import UserError
from pimloom.arch.topology import Topology
from pimloom.arch.topology.khop import KHop

MOST_GPUS = 2**24


@dataclass(frozen=True)
class Cluster:
    """`gpus` GPUs in nodes of `gpus_per_node` (R); a fault takes a whole node. Raises UserError."""

    gpus: int
    gpus_per_node: int

    def __post_init__(self) -> None:
        gpus, each = self.gpus, self.gpus_per_node
        if not 1 <= each <= 64:
            raise UserError(f"--gpus-per-node {each}: expected 1 to 64")
        if not each <= gpus <= MOST_GPUS or gpus % each:
            raise UserError(f"--gpus {gpus}: expected a multiple of --gpus-per-node {each}, {each} to {MOST_GPUS}")

    @property
    def nodes(self) -> int:
        """Nodes of the cluster."""
        return self.gpus // self.gpus_per_node

    def group_nodes(self, tp: int) -> int:
        """Nodes of a group of `tp` GPUs (m), 1 if several groups share a node. Raises UserError."""
        each = self.gpus_per_node
        if tp < 1 or (tp % each and each % tp):
            raise UserError(f"--tp {tp}: expected a multiple (or a divisor) of --gpus-per-node {each}")
        if tp > self.gpus:
            raise UserError(f"--tp {tp}: expected at most --gpus {self.gpus}")
        return max(tp // each, 1)

    def check(self, fabric: Topology) -> None:
        """Raises UserError if `fabric` cannot be built of such nodes: K bundles need K of a node's R slots."""
        if isinstance(fabric, KHop) and fabric.hops > self.gpus_per_node:
            raise UserError(
                f"--arch {fabric.name}: {fabric.hops} bundles need as many slots; a node with "
                f"--gpus-per-node {self.gpus_per_node} has {self.gpus_per_node}"
            )
