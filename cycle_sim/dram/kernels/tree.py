"""Who may issue, and when: a tournament of the banks over the levels of the device, a few steps for each command.

Every bank offers at most one request in each lane: its key, the least of which goes first. Lane k is that of column k:
ACT, PRE, reads, writes. A node knows the first clock in which an offer below it may pass it, and the least key of all
offers below it.

offer[bank * LANES + lane]: key, or NONE. time[n * LANES + lane], least[…]: that clock and that key. node[n * 4 + …]:
see FIRST. kids: those children below which a bank has requests, of each node where its children begin. todo: nodes
still to be visited, and their lanes. Nodes are uint32, as in `device`.
"""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import COLUMNS, FAR, Shape, free_beside

NONE = FAR
LANES = 4  # known when compiled: loops over them are unrolled
ALL = (1 << LANES) - 1
FIRST, KIDS, PLACE = range(3)  # first child; number of kids; place among the kids of the parent plus 1, or 0
SLOTS = 22  # bits of a key that tell the slot; those above tell its turn


class Tree(NamedTuple):
    """The device of a channel, path … ring as in `device`, and who may issue there."""

    path: np.ndarray
    bound: np.ndarray
    aside: np.ndarray
    beside: np.ndarray
    first_rule: np.ndarray
    rule: np.ndarray
    ring: np.ndarray
    offer: np.ndarray
    time: np.ndarray
    least: np.ndarray
    node: np.ndarray
    kids: np.ndarray
    todo: np.ndarray


@bare
def tree_of(trees, c):
    """That of channel c of a stack; rules are there once."""
    return Tree(
        trees.path, trees.bound[c], trees.aside, trees.beside[c], trees.first_rule, trees.rule, trees.ring[c],
        trees.offer[c], trees.time[c], trees.least[c], trees.node[c], trees.kids[c], trees.todo[c],
    )  # fmt: skip


@bare
def key_of(turn, slot):
    """The key of a request: the earlier its turn, the less."""
    return (turn << SLOTS) + slot


@bare
def slot_of(key):
    """The slot of the request with this key."""
    return key & ((1 << SLOTS) - 1)


@bare
def note(tree, b, offers):
    """What bank b offers, or its own bounds, may have changed; offers: whether it offers anything.

    Returns whether they have; then those who hold it must be summed up.
    """
    node, kids, deepest = tree.node, tree.kids, tree.path.shape[1] - 1
    n, changed = tree.path[b, deepest], False
    if deepest > 0 and not offers and node[n * 4 + PLACE] == 0:
        return False
    for lane in range(LANES):
        key = tree.offer[b * LANES + lane]
        t = tree.bound[n * COLUMNS + lane] if key < NONE else FAR
        changed = changed or t != tree.time[n * LANES + lane] or key != tree.least[n * LANES + lane]
        tree.time[n * LANES + lane], tree.least[n * LANES + lane] = t, key
    for d in range(deepest, 0, -1):
        n, parent = tree.path[b, d], tree.path[b, d - 1]
        place, number, first = node[n * 4 + PLACE], node[parent * 4 + KIDS], node[parent * 4 + FIRST]
        if offers == (place > 0):
            break
        if offers:
            kids[first + number] = n
            node[n * 4 + PLACE] = node[parent * 4 + KIDS] = number + 1
        else:
            moved = kids[first + number - 1]
            kids[first + place - 1], node[moved * 4 + PLACE] = moved, place
            node[n * 4 + PLACE], node[parent * 4 + KIDS] = 0, number - 1
        offers = node[parent * 4 + KIDS] > 0
    return changed


@bare
def climb(tree, b):
    """Sum up all that holds bank b."""
    for d in range(tree.path.shape[1] - 2, -1, -1):
        _sum_up(tree, tree.path[b, d])


@bare
def climb_all(tree):
    """Sum up all nodes."""
    for d in range(tree.path.shape[1] - 2, -1, -1):
        for n in range(tree.path[0, d], tree.path[0, d + 1]):
            _sum_up(tree, n)


@bare
def _sum_up(tree, n):
    """Clocks and keys of a node, from its children."""
    time, least, aside = tree.time, tree.least, tree.aside[n]
    first, number = tree.node[n * 4 + FIRST], tree.node[n * 4 + KIDS]
    for lane in range(LANES):
        t, key = FAR, NONE
        for i in range(number):
            child = tree.kids[first + i]
            at = time[child * LANES + lane]
            if aside and at < FAR:
                at = max(at, free_beside(tree, n, child, lane))
            t, key = min(t, at), min(key, least[child * LANES + lane])
        time[n * LANES + lane] = max(t, tree.bound[n * COLUMNS + lane]) if t < FAR else FAR
        least[n * LANES + lane] = key


@bare
def next_clock(tree):
    """First clock in which something may issue."""
    return min(tree.time[0], tree.time[1], tree.time[2], tree.time[3])


@bare
def passing(tree, n, lanes, at):
    """Those of the lanes in which something below node n may pass it."""
    found = 0
    for lane in range(LANES):
        found |= (tree.time[n * LANES + lane] <= at) << lane
    return found & lanes


@bare
def _entering(tree, parent, n, lanes, at):
    """As `passing`, and the rules between the children of its parent."""
    found = passing(tree, n, lanes, at)
    if tree.aside[parent]:
        for lane in range(LANES):
            if found >> lane & 1 and free_beside(tree, parent, n, lane) > at:
                found ^= 1 << lane
    return found


@bare
def _least(tree, n, lanes):
    """The least key of node n in these lanes, and its lane; or (NONE, -1)."""
    best, by = NONE, -1
    for lane in range(LANES):
        key = tree.least[n * LANES + lane] if lanes >> lane & 1 else NONE
        if key < best:
            best, by = key, lane
    return best, by


@bare
def oldest(tree, n, lanes, at):
    """The least key below node n in these lanes that may issue at clock `at`, and its lane; or (NONE, -1)."""
    best, by, inner = NONE, -1, tree.path[0, tree.path.shape[1] - 1]
    if n >= inner or not lanes:
        return _least(tree, n, lanes)
    todo, length = tree.todo, 1
    todo[0], todo[1] = n, lanes
    while length > 0:
        length -= 1
        n, some, nearest = todo[2 * length], todo[2 * length + 1], NONE
        first = tree.node[n * 4 + FIRST]
        for i in range(tree.node[n * 4 + KIDS]):
            child = tree.kids[first + i]
            found = _entering(tree, n, child, some, at)
            key, lane = _least(tree, child, found)
            if key >= best:
                continue
            if child >= inner:
                best, by = key, lane
                continue
            last = length  # where the least key may be comes last, and is visited first
            if key >= nearest:
                last -= 1
                todo[2 * length], todo[2 * length + 1] = todo[2 * last], todo[2 * last + 1]
            nearest = min(nearest, key)
            todo[2 * last], todo[2 * last + 1] = child, found
            length += 1
    return best, by


@bare
def _leftmost(tree, parent, lanes, at):
    """The first child in which something may pass in these lanes, and those in which it may."""
    first, its, begin = parent, 0, tree.node[parent * 4 + FIRST]
    for i in range(tree.node[parent * 4 + KIDS]):
        child = tree.kids[begin + i]
        if not its or child < first:
            found = _entering(tree, parent, child, lanes, at)
            if found:
                first, its = child, found
    return first, its


@bare
def next_in_turn(tree, last, depth, lanes, at):
    """The first node of this depth, in turn after the one that holds bank `last`, that has any, and in which lanes."""
    own = right = left = tree.path[last, 0]
    right_lanes, left_lanes, right_depth, left_depth = 0, 0, 0, 0
    for d in range(1, depth + 1):
        parent, own, found_right, found_left = own, tree.path[last, d], False, left_lanes > 0
        first, own_lanes = tree.node[parent * 4 + FIRST], 0
        for i in range(tree.node[parent * 4 + KIDS]):
            child = tree.kids[first + i]
            found = _entering(tree, parent, child, lanes, at)
            if child == own:
                own_lanes = found
            elif found and child > own and (not found_right or child < right):
                right, right_lanes, right_depth, found_right = child, found, d, True
            elif found and child < own and (left_lanes == 0 or (not found_left and child < left)):
                left, left_lanes, left_depth = child, found, d
        lanes = own_lanes
        if not lanes:
            break
    if right_lanes:
        n, lanes, d = right, right_lanes, right_depth
    elif left_lanes:
        n, lanes, d = left, left_lanes, left_depth
    else:
        n, d = own, depth
    for _ in range(d, depth):
        n, lanes = _leftmost(tree, n, lanes, at)
    return n, lanes


def new_tree(device: dict[str, np.ndarray], shape: Shape) -> Tree:
    """The tree of a channel whose banks offer nothing."""
    nodes = shape.nodes
    node = np.zeros((nodes, 4), np.uint32)
    for n, first, _ in shape.children():
        node[n, FIRST] = first
    return Tree(
        **device,
        offer=np.full(shape.sizes[-1] * LANES, NONE),
        time=np.full(nodes * LANES, FAR),
        least=np.full(nodes * LANES, NONE),
        node=node.ravel(),
        kids=np.zeros(nodes, np.uint32),
        todo=np.zeros(2 * nodes, np.uint32),
    )
