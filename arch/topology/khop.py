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


def khop(hops: int) -> KHop:
    """The K-hop ring with K = `hops`, at least 2: a node in the middle of a ring needs a bundle for each side.

    >>> khop(3).bundles
    ((1, 2), (-1, -2), (3, -3))
    """
    far = tuple((hop, -hop) for hop in range(3, hops + 1))
    summary = f"InfiniteHBD, ring with hops up to {hops}: bypasses up to {hops - 1} faulty nodes in a row"
    return KHop(f"infinitehbd-k{hops}", summary, hops, (*PAIRS, *far))
