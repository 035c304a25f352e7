"""Drawings of placements: the whole cluster, row by row, and one ring of GPUs with the nodes it bypasses."""

from typing import Any

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.topology.khop import KHop
from pimloom.mappers.ring import Ring, build_ring
from pimloom.reports.page import Figure
from pimloom.reports.svg import BAND, INK, MUTED, PAPER, SERIES, draw_svg
from pimloom.systems.fabric.place import Placed

WIDTH = 96  # ToRs side by side
MOST_NODES = 8192  # a page holds no more
ARC = 0.42  # height of a hop over bypassed nodes, in rows
GAP_ROWS = 2.2  # between two stretches of ToRs


def cluster_figure(placed: Placed) -> Figure:
    """All nodes: a column per ToR, a row per node of it; groups in colours, arcs over nodes left out, faults crossed.

    Raises UserError for more than `MOST_NODES` nodes.
    """
    job = placed.job
    if job.cluster.nodes > MOST_NODES:
        raise UserError(f"--figure: {job.cluster.nodes} nodes; a drawing holds at most {MOST_NODES}")
    title = f"{job.groups} groups of {job.tp} GPUs on {job.cluster.nodes} nodes, {int((~job.healthy).sum())} faulty"
    caption = (
        "A column is a ToR, a row one node of each ToR; the line of nodes runs through the rows from left to right. "
        "Groups have the colour of the block of ToRs where they start; arcs are hops over nodes left out, crosses "
        "faulty nodes, rings idle ones."
    )
    stretches = -(-job.rows.tors // WIDTH)
    height = stretches * (job.tor_size + GAP_ROWS) * 0.24 + 0.4

    def draw(figure: Any, axes: Any) -> None:
        _draw_cluster(axes, placed)

    return Figure(title, draw_svg(title, draw, height), caption)


def ring_figure(fabric: KHop, gpus_per_node: int, span: int, faulty: set[int]) -> Figure:
    """One ring of GPUs through the healthy ones of nodes 0 to span - 1; `faulty` of them are bypassed.

    Raises ValueError if a run of faulty nodes is too long to bypass, or no node is healthy.
    """
    chain = [node for node in range(span) if node not in faulty]
    if not chain or (np.diff(chain) > fabric.hops).any():
        raise ValueError(f"{fabric.name} cannot bypass {sorted(faulty)}")
    ring = build_ring(fabric, gpus_per_node, chain, 2 * span + 2 * fabric.hops)
    title = f"A ring of {len(chain) * gpus_per_node} GPUs past {len(faulty)} faulty nodes, K = {fabric.hops}"
    caption = (
        "Boxes are nodes, circles their GPUs, lines the live links: a hop between nodes is two half-links of a bundle; "
        "the ends close by loopback."
    )
    height = 2.4

    def draw(figure: Any, axes: Any) -> None:
        _draw_ring(axes, ring, gpus_per_node, span, fabric)

    return Figure(title, draw_svg(title, draw, height), caption)


def _draw_cluster(axes: Any, placed: Placed) -> None:
    from matplotlib.collections import LineCollection

    job, nodes = placed.job, placed.job.cluster.nodes
    place = np.arange(nodes)
    x, y = _spot(place, placed)
    used = np.zeros(nodes, bool)
    used[placed.placement.chains] = True
    colour = np.array(SERIES)[(placed.placement.chains[:, 0] % job.rows.tors) // job.m % len(SERIES)]
    lines: list[list[tuple[float, float]]] = []
    colours: list[str] = []
    for chain, shade in zip(placed.placement.chains.tolist(), colour.tolist(), strict=True):
        for here, there in zip(chain, chain[1:], strict=False):
            lines += _hop((x[here], y[here]), (x[there], y[there]), (there - here) % nodes)
            colours += [shade] * (len(lines) - len(colours))
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.6))
    for shade in SERIES:
        mine = placed.placement.chains[colour == shade].ravel()
        axes.scatter(x[mine], y[mine], s=13, color=shade, linewidths=0, zorder=3)
    idle, bad = job.healthy & ~used, ~job.healthy
    axes.scatter(x[idle], y[idle], s=11, facecolors="none", edgecolors=MUTED, linewidths=0.8, zorder=3)
    axes.scatter(x[bad], y[bad], s=17, color=INK, marker="x", linewidths=1.3, zorder=3)
    for first in range(0, job.rows.tors, WIDTH):
        at = -(first // WIDTH) * (job.tor_size + GAP_ROWS) + 1
        for tor in range(first, min(first + WIDTH, job.rows.tors), job.m):
            axes.text(tor - first, at, str(tor), ha="center", va="center", fontsize=7.5, color=MUTED)
        axes.text(-1.2, at, "ToR", ha="right", va="center", fontsize=7.5, color=MUTED)
    legend = "line: a group; arc: hop over nodes left out; cross: faulty; ring: idle"
    axes.text(0, y.min() - 1.1, legend, va="center", fontsize=8.5, color=MUTED)
    axes.set_xlim(-3, min(WIDTH, job.rows.tors) + 0.5)
    axes.set_ylim(y.min() - 1.6, 1.8)
    axes.axis("off")


def _spot(place: np.ndarray, placed: Placed) -> tuple[np.ndarray, np.ndarray]:
    """Where positions are drawn: ToRs to the right, nodes of a ToR downwards, stretches of ToRs below one another."""
    tor, row = place % placed.job.rows.tors, place // placed.job.rows.tors
    return tor % WIDTH, -(row + tor // WIDTH * (placed.job.tor_size + GAP_ROWS)).astype(float)


def _hop(here: tuple[float, float], there: tuple[float, float], hop: int) -> list[list[tuple[float, float]]]:
    """A hop as lines: straight, an arc over what it leaves out, or stubs where the row ends."""
    (x0, y0), (x1, y1) = here, there
    if x1 - x0 != hop or y0 != y1:
        return [[(x0, y0), (x0 + 0.5, y0)], [(x1 - 0.5, y1), (x1, y1)]]
    if hop == 1:
        return [[here, there]]
    turn = np.linspace(0, np.pi, 9)
    rise = y0 + ARC * np.sin(turn)
    return [list(zip((x0 + hop * (1 - np.cos(turn)) / 2).tolist(), rise.tolist(), strict=True))]


def _draw_ring(axes: Any, ring: Ring, gpus: int, span: int, fabric: KHop) -> None:
    from matplotlib.patches import FancyBboxPatch

    spot = _gpu_spots(ring, gpus, fabric)
    for node in range(span):
        good = node in ring.positions
        box = FancyBboxPatch((node - 0.3, -0.25), 0.6, 1.5, boxstyle="round,pad=0.06", ec=MUTED, lw=1)
        box.set_facecolor("none" if good else BAND)
        axes.add_patch(box)
        axes.text(node, -0.95, f"node {node}", ha="center", fontsize=8.5, color=INK if good else MUTED)
        if not good:
            axes.plot([node - 0.25, node + 0.25], [0, 1], [node - 0.25, node + 0.25], [1, 0], color=MUTED, lw=1)
    for one, other in ring.links:
        (x0, y0), (x1, y1) = spot[one], spot[other]
        hop = abs(one[0] - other[0])
        bow = (0.62 if y0 > 0.5 else -0.5) * (hop > 1)
        turn = np.linspace(0, np.pi, 25)
        xs = x0 + (x1 - x0) * (1 - np.cos(turn)) / 2
        ys = y0 + (y1 - y0) * (1 - np.cos(turn)) / 2 + bow * np.sin(turn)
        axes.plot(xs, ys, color=SERIES[1] if hop > 1 else SERIES[0], lw=2, zorder=2)
    for (_, gpu), (x, y) in spot.items():
        axes.scatter([x], [y], s=130, facecolor=PAPER, edgecolor=SERIES[0], linewidths=1.4, zorder=3)
        axes.text(x, y - 0.01, str(gpu), ha="center", va="center", fontsize=7.5, color=INK, zorder=4)
    axes.set_xlim(-0.6, span - 0.4)
    axes.set_ylim(-1.2, 1.9)
    axes.axis("off")


def _gpu_spots(ring: Ring, gpus: int, fabric: KHop) -> dict[tuple[int, int], tuple[float, float]]:
    """Where GPUs are drawn: of the two arcs into which a node's external slots split its ring, one above the other."""
    slots = fabric.slots(gpus)
    facing: dict[tuple[int, bool], int] = {}
    for node, bundle, path in ring.live:
        if path >= 0:
            facing[node, fabric.bundles[bundle][path] > 0] = slots[bundle]
    spot = {}
    for node in ring.positions:
        left = facing.get((node, False), slots[1] if facing.get((node, True)) != slots[1] else slots[0])
        right = facing.get((node, True), slots[0] if left != slots[0] else slots[1])
        upper = [(left + 1 + step) % gpus for step in range((right - left) % gpus)]
        lower = [(left - step) % gpus for step in range((left - right) % gpus)]
        for arc, y in ((upper, 1.0), (lower, 0.0)):
            for nth, gpu in enumerate(arc):
                spot[node, gpu] = (node + 0.5 * ((nth + 0.5) / len(arc) - 0.5), y)
    return spot
