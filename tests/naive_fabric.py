"""How many GPUs are usable, one GPU after the other, as the specification says it in words."""

from pimloom.arch.topology import Topology
from pimloom.arch.topology.cubes import Cubes
from pimloom.arch.topology.islands import Islands
from pimloom.arch.topology.khop import KHop
from pimloom.arch.topology.rings import FixedRings


def usable(fabric: Topology, faulty: list[bool], gpus_per_node: int, tp: int) -> int:
    """GPUs that stand in a group of `tp` GPUs."""
    healthy = [not down for down in faulty for _ in range(gpus_per_node)]
    if tp < gpus_per_node:  # several groups share a node
        tp = gpus_per_node
    if isinstance(fabric, KHop):
        return sum(len(segment) * gpus_per_node // tp * tp for segment in segments(fabric, faulty))
    if isinstance(fabric, FixedRings):
        return sum(tp for ring in pieces(healthy, tp) if len(ring) == tp and all(ring))
    if isinstance(fabric, Islands):
        return sum(sum(unit) // tp * tp for unit in pieces(healthy, fabric.unit_gpus))
    if isinstance(fabric, Cubes):
        cubes = pieces(healthy, fabric.cube_gpus)
        if tp > fabric.cube_gpus:
            whole = [cube for cube in cubes if len(cube) == fabric.cube_gpus and all(cube)]
            needed = -(-tp // fabric.cube_gpus)
            return sum(tp for group in pieces(whole, needed) if len(group) == needed)
        if fabric.slices:
            return sum(tp for cube in cubes for part in pieces(cube, tp) if len(part) == tp and all(part))
        return sum(sum(cube) // tp * tp for cube in cubes)
    return sum(healthy) // tp * tp


def pieces(items: list, size: int) -> list[list]:
    """`items` in pieces of `size`; the last one may be shorter."""
    return [items[at : at + size] for at in range(0, len(items), size)]


def segments(fabric: KHop, faulty: list[bool]) -> list[list[int]]:
    """Healthy nodes of each stretch of the ring: from each, one can hop on to the next healthy node, at most K away."""
    nodes = len(faulty)
    healthy = [node for node in range(nodes) if not faulty[node]]
    if not healthy:
        return []
    found: list[list[int]] = [[healthy[0]]]
    for a, b in zip(healthy, healthy[1:], strict=False):
        if b - a <= fabric.hops:
            found[-1].append(b)
        else:
            found.append([b])
    if fabric.wraps and len(found) > 1 and healthy[0] + nodes - healthy[-1] <= fabric.hops:
        found[0] = found.pop() + found[0]
    return found
