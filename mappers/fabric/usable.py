"""How many GPUs can stand in tensor-parallel groups while some nodes are faulty (specification, 3.5).

A group of TP GPUs takes m = TP / R whole nodes of R GPUs each; if TP is below R, several groups share a node and every
healthy node is used whole. Units stand on consecutive nodes. What is left of a cluster that is no multiple of a unit is
a last, smaller unit [design]: a switch or a cube that is not full; as a fixed ring or slice it is of no use.

Only the faulty nodes are looked at, so the cost grows with their number, not with the cluster.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.topology import Topology
from pimloom.arch.topology.cluster import Cluster
from pimloom.arch.topology.cubes import Cubes
from pimloom.arch.topology.islands import Islands
from pimloom.arch.topology.khop import KHop
from pimloom.arch.topology.rings import FixedRings
from pimloom.arch.topology.switch import BigSwitch
from pimloom.arch.units import ceil_div


class Faulty(NamedTuple):
    """The faulty nodes of many states: `state` and `node` of each, sorted; `first[s]` is the first one of state s."""

    nodes: int
    state: np.ndarray
    node: np.ndarray
    first: np.ndarray

    @property
    def states(self) -> int:
        """States."""
        return len(self.first) - 1

    @property
    def healthy(self) -> np.ndarray:
        """Healthy nodes of each state."""
        return self.nodes - np.diff(self.first)


class HitUnits(NamedTuple):
    """Units of `unit` nodes with any fault: the `state` and `number` of each, and how many of its nodes are faulty."""

    unit: int
    state: np.ndarray
    number: np.ndarray
    faulty: np.ndarray


def find_faulty(faulty: np.ndarray) -> Faulty:
    """The places of True in `faulty`, bool (states, nodes)."""
    states, nodes = faulty.shape
    flat = np.flatnonzero(faulty)
    state = flat // nodes
    first = np.searchsorted(state, np.arange(states + 1))
    return Faulty(nodes, state, flat - state * nodes, first)


def usable_gpus(fabric: Topology, faulty: np.ndarray, gpus_per_node: int, tp: int) -> np.ndarray:
    """GPUs in groups of `tp`, int64 (states,), when the nodes `faulty`, bool (states, nodes), are down.

    Raises UserError: `tp` neither a multiple nor a divisor of `gpus_per_node` (R), or above all GPUs; a unit of the
    fabric is no multiple of R; a ring has more bundles than a node has slots.
    """
    check_usable(fabric, Cluster(faulty.shape[1] * gpus_per_node, gpus_per_node), tp)
    return usable_of(fabric, find_faulty(faulty), gpus_per_node, [tp])[0]


def check_usable(fabric: Topology, cluster: Cluster, tp: int) -> None:
    """Raises UserError if the fabric cannot be built of such nodes, or if groups of `tp` cannot be made of them."""
    cluster.check(fabric)
    cluster.group_nodes(tp)
    unit, each = unit_gpus(fabric), cluster.gpus_per_node
    if unit is not None and unit % each:
        raise UserError(
            f"--arch {fabric.name}: its units of {unit} GPUs are no multiple of --gpus-per-node {each}; "
            f"choose nodes of a divisor of {unit}"
        )


def unit_gpus(fabric: Topology) -> int | None:
    """GPUs of an island or a cube; None for fabrics without."""
    if isinstance(fabric, Islands):
        return fabric.unit_gpus
    return fabric.cube_gpus if isinstance(fabric, Cubes) else None


def usable_of(fabric: Topology, faulty: Faulty, gpus_per_node: int, tps: Sequence[int]) -> np.ndarray:
    """As `usable_gpus`, of faulty nodes found before, int64 (tps, states); nothing is checked."""
    rule = _rule(fabric, faulty, gpus_per_node)
    found = [rule(max(tp // gpus_per_node, 1)) for tp in tps]
    return np.array(found, np.int64).reshape(len(tps), faulty.states) * gpus_per_node


def _rule(fabric: Topology, faulty: Faulty, each: int) -> Callable[[int], np.ndarray]:
    """What gives the nodes in groups of m, (states,); what does not depend on m is done once."""
    match fabric:
        case BigSwitch():
            return lambda m: faulty.healthy // m * m
        case KHop():
            return partial(_ring, faulty, fabric.wraps, _runs(faulty, fabric.hops, fabric.wraps))
        case Islands():
            return partial(_islands, faulty, _hit_units(faulty, fabric.unit_gpus // each))
        case FixedRings():
            return partial(_fixed, faulty, faulty.nodes)
        case Cubes():
            hit = _hit_units(faulty, fabric.cube_gpus // each)
            within = partial(_fixed, faulty, hit.unit) if fabric.slices else partial(_islands, faulty, hit)
            return lambda m: within(m) if m <= hit.unit else _whole_cubes(faulty, hit, m)


def _ring(faulty: Faulty, wraps: bool, cut: np.ndarray, m: int) -> np.ndarray:
    """Healthy nodes in groups of m along a ring (or a line), which is cut at the faulty nodes `cut`.

    A run of K faulty nodes has one mark, a longer one several, with no healthy node between them.
    """
    state = faulty.state[cut]
    before = faulty.node[cut] - (cut - faulty.first[state])  # healthy nodes on the left of the mark
    counts = np.bincount(state, minlength=faulty.states)
    start = np.cumsum(counts) - counts
    healthy, some = faulty.healthy, counts > 0
    same = np.diff(state) == 0
    used = _total(state[1:][same], np.diff(before)[same] // m * m, faulty.states)
    left, right = np.zeros((2, faulty.states), np.int64)
    left[some] = before[start[some]]
    right[some] = healthy[some] - before[start[some] + counts[some] - 1]
    ends = (left + right) // m * m if wraps else left // m * m + right // m * m
    return np.where(some, used + ends, healthy // m * m)


def _runs(faulty: Faulty, hops: int, wraps: bool) -> np.ndarray:
    """Which of the faulty nodes begin `hops` faulty nodes in a row; on a ring a row may go on over the end."""
    count = np.diff(faulty.first)[faulty.state]
    ahead = np.arange(len(faulty.node)) + hops - 1
    over = ahead >= faulty.first[faulty.state + 1]
    possible = (count >= hops) & (wraps | ~over)
    ahead = np.where(possible, ahead - np.where(over, count, 0), 0)
    far = faulty.node[ahead] - faulty.node + np.where(over, faulty.nodes, 0)
    return np.flatnonzero(possible & (far == hops - 1))


def _islands(faulty: Faulty, hit: HitUnits, m: int) -> np.ndarray:
    """Healthy nodes in groups of m within units."""
    unit = hit.unit
    whole, rest = divmod(faulty.nodes, unit)
    size = np.where(hit.number == whole, rest, unit)
    lost = size // m * m - (size - hit.faulty) // m * m
    return whole * (unit // m * m) + rest // m * m - _total(hit.state, lost, faulty.states)


def _fixed(faulty: Faulty, unit: int, m: int) -> np.ndarray:
    """Nodes of fixed groups of m within units of `unit` nodes, without those groups that have any fault."""
    whole, rest = divmod(faulty.nodes, unit)
    each = ceil_div(unit, m)  # the last one of a unit may be too small
    group = faulty.node // unit * each + faulty.node % unit // m
    good = faulty.node % unit < np.where(faulty.node // unit == whole, rest, unit) // m * m
    flat = (faulty.state * (ceil_div(faulty.nodes, unit) * each) + group)[good]
    hit = faulty.state[good][np.diff(flat, prepend=-1) > 0]
    return whole * (unit // m * m) + rest // m * m - m * np.bincount(hit, minlength=faulty.states)


def _whole_cubes(faulty: Faulty, hit: HitUnits, m: int) -> np.ndarray:
    """Nodes of groups of m that join cubes without any fault, whole ones; a cube is in one group only."""
    whole = faulty.nodes // hit.unit
    good = whole - np.bincount(hit.state[hit.number < whole], minlength=faulty.states)
    return good // ceil_div(m, hit.unit) * m


def _hit_units(faulty: Faulty, unit: int) -> HitUnits:
    units = ceil_div(faulty.nodes, unit)
    flat = faulty.state * units + faulty.node // unit
    begins = np.flatnonzero(np.diff(flat, prepend=-1))
    state, number = np.divmod(flat[begins], units)
    return HitUnits(unit, state, number, np.diff(begins, append=len(flat)))


def _total(state: np.ndarray, values: np.ndarray, states: int) -> np.ndarray:
    """Sum of `values` by state; exact, for all sums are far below 2^53."""
    return np.bincount(state, weights=values, minlength=states).astype(np.int64)
