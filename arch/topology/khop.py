"""InfiniteHBD's reconfigurable K-hop ring: nodes in a line, each with K bundles of optical-switch transceivers.

A bundle has two external paths and a loopback; one of the three is live at a time. Which hop each path reaches is not
published; this assignment works [design]: +1 and -1 are never on one bundle, for a node in the middle of a ring needs
both.
"""

from dataclasses import dataclass

PAIRS = ((+1, +2), (-1, -2))  # bundles A, right, and B, left: primary path, backup [design]


@dataclass(frozen=True)
class KHop:
    """Nodes in a ring of all nodes (`wraps`), each joined to those up to `hops` away; K in the paper.

    `bundles[b]` holds the hops (in nodes, + is right) of bundle b's two paths; hops of 3 and more have a bundle each.
    """

    name: str
    summary: str
    hops: int
    bundles: tuple[tuple[int, int], ...]
    wraps: bool = True

    def paths(self, hop: int) -> list[tuple[int, int]]:
        """(bundle, path) of every path that reaches `hop` nodes away."""
        return [(b, p) for b, pair in enumerate(self.bundles) for p, far in enumerate(pair) if far == hop]

    def slots(self, gpus_per_node: int) -> tuple[int, ...]:
        """The slot of each bundle in a node of R GPUs; slot i joins GPUs i and i + 1 mod R. K <= R, R >= 2.

        A (right) is slot R - 1 and B (left) slot R / 2 - 1 [design]; the others take the free slots from 0 on [design]:
        any two distinct slots split the node's ring into two arcs, so any slot would do.

        >>> khop(3).slots(4), khop(2).slots(8)
        ((3, 1, 0), (7, 3))
        """
        right, left = gpus_per_node - 1, gpus_per_node // 2 - 1
        free = [slot for slot in range(gpus_per_node) if slot not in (right, left)]
        return (right, left, *free)[: self.hops]


def khop(hops: int) -> KHop:
    """The K-hop ring with K = `hops`, at least 2: a node in the middle of a ring needs a bundle for each side.

    >>> khop(3).bundles
    ((1, 2), (-1, -2), (3, -3))
    """
    far = tuple((hop, -hop) for hop in range(3, hops + 1))
    summary = f"InfiniteHBD, ring with hops up to {hops}: bypasses up to {hops - 1} faulty nodes in a row"
    return KHop(f"infinitehbd-k{hops}", summary, hops, (*PAIRS, *far))
