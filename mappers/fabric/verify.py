"""Is a placement one that the hardware can hold? Written from the rules of the fabric, apart from all that builds one.

Complaints are sentences; an empty list is a placement that holds. Positions are along the line of nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pimloom.mappers.ring import Gpu, Ring

    Live = Mapping[tuple[int, int], int]

LOOP = -1


class Rules(NamedTuple):
    """The hardware: `bundles[b]` are the hops of the two paths of bundle b, `slots[b]` the slot of a node it sits in.

    A ring of `nodes` nodes with `gpus_per_node` GPUs each; no hop exceeds `hops`; a group has `group_nodes` nodes.
    """

    nodes: int
    gpus_per_node: int
    group_nodes: int
    hops: int
    bundles: tuple[tuple[int, int], ...]
    slots: tuple[int, ...]


def verify(rings: Sequence["Ring"], faulty: Collection[int], rules: Rules) -> list[str]:
    """What is wrong with the rings of a placement, a sentence each; `faulty` are positions.

    One cycle through all GPUs of each group, every GPU with two links; no faulty node, no node twice; no hop above K;
    each bundle with one live path, and links only over live paths, each half of a slot used once.
    """
    found: list[str] = []
    bad, owner = set(faulty), dict[int, int]()
    for number, ring in enumerate(rings):
        name = f"group {number}"
        if len(ring.positions) != rules.group_nodes:
            found.append(f"{name} has {len(ring.positions)} nodes; expected {rules.group_nodes}")
        for node in ring.positions:
            if not 0 <= node < rules.nodes:
                found.append(f"{name}: node {node} is not one of the {rules.nodes}")
            if node in bad:
                found.append(f"{name}: node {node} is faulty")
            if node in owner:
                where = name if owner[node] == number else f"group {owner[node]}"
                found.append(f"{name}: node {node} is in {where} already")
            owner[node] = number
        found += (f"{name}: {said}" for said in _states(ring, rules))
        found += (f"{name}: {said}" for said in _links(ring, rules))
        found += (f"{name}: {said}" for said in _cycle(ring, rules))
    return found


def _states(ring: "Ring", rules: Rules) -> Iterator[str]:
    """Every bundle of every node stands in one state, and no other node's does."""
    states = Counter((node, bundle) for node, bundle, _ in ring.live)
    mine = {(node, bundle) for node in ring.positions for bundle in range(len(rules.bundles))}
    for node, bundle in sorted(mine - states.keys()):
        yield f"node {node}: bundle {_letter(bundle)} has no state"
    for node, bundle in sorted(states.keys() - mine):
        yield f"node {node}: bundle {_letter(bundle)} is not the group's"
    for (node, bundle), count in sorted(states.items()):
        if count > 1:
            yield f"node {node}: bundle {_letter(bundle)} has {count} live paths; one at a time is possible"
    for node, bundle, path in ring.live:
        if path not in (LOOP, 0, 1):
            yield f"node {node}: bundle {_letter(bundle)} has no path {path}"


def _links(ring: "Ring", rules: Rules) -> Iterator[str]:
    """Each link runs inside a node over a closed slot, or between two nodes over paths that are live at both ends."""
    members = set(ring.positions)
    live = {(node, bundle): path for node, bundle, path in ring.live}
    halves: Counter[tuple[int, int, int]] = Counter()  # node, slot, GPU: half a slot
    for one, other in ring.links:
        wrong = [end for end in (one, other) if end[0] not in members or not 0 <= end[1] < rules.gpus_per_node]
        if wrong:
            yield f"link {_show(one, other)}: GPU {wrong[0][1]} of node {wrong[0][0]} is not in the group"
            continue
        used = _inside(one, other, live, rules) if one[0] == other[0] else _between(one, other, live, rules)
        if isinstance(used, str):
            yield f"link {_show(one, other)}: {used}"
        else:
            halves.update(used)
    for (node, slot, gpu), count in sorted(halves.items()):
        if count > 1:
            yield f"node {node}: {count} links on the half of slot {slot} at GPU {gpu}"


def _inside(one: "Gpu", other: "Gpu", live: "Live", rules: Rules) -> list[tuple[int, int, int]] | str:
    """The halves of slots that a link within a node takes, or what is wrong with it."""
    node, count = one[0], rules.gpus_per_node
    for low, high in ((one[1], other[1]), (other[1], one[1])):
        if (low + 1) % count != high:
            continue
        bundle = rules.slots.index(low) if low in rules.slots else None
        if bundle is None or live.get((node, bundle)) == LOOP:
            return [(node, low, low), (node, low, high)]
        if count > 2:
            return f"slot {low} of node {node} is bundle {_letter(bundle)}, which is not in loopback"
    return "no slot joins these two" if count > 2 else f"no slot of node {node} is closed"


def _between(one: "Gpu", other: "Gpu", live: "Live", rules: Rules) -> list[tuple[int, int, int]] | str:
    """The same for a link between two nodes. The halves cross: the lower GPU of a slot meets the upper one."""
    forward = (other[0] - one[0]) % rules.nodes
    left, right = (one, other) if forward <= rules.nodes - forward else (other, one)
    hop = min(forward, rules.nodes - forward)
    if hop > rules.hops:
        return f"a hop of {hop} nodes; at most {rules.hops} are possible"
    ends = [_ends(end, far, live, rules) for end, far in ((left, hop), (right, -hop))]
    for (node, _), far, found in zip((left, right), (hop, -hop), ends, strict=True):
        if not found:
            return f"node {node} has no live path {far:+d} at this GPU"
    for near, near_upper in ends[0]:
        for away, away_upper in ends[1]:
            if near_upper != away_upper:
                return [(left[0], near, left[1]), (right[0], away, right[1])]
    return "the halves of a bundle cross: a lower GPU meets an upper one"


def _ends(end: "Gpu", far: int, live: "Live", rules: Rules) -> list[tuple[int, bool]]:
    """Slots at a GPU whose live path reaches `far` nodes away, and whether the GPU is the slot's upper one."""
    node, gpu = end
    found = []
    for bundle, (paths, slot) in enumerate(zip(rules.bundles, rules.slots, strict=True)):
        path = live.get((node, bundle), LOOP)
        if path in (0, 1) and paths[path] == far:
            if slot == gpu:
                found.append((slot, False))
            elif (slot + 1) % rules.gpus_per_node == gpu:
                found.append((slot, True))
    return found


def _cycle(ring: "Ring", rules: Rules) -> Iterator[str]:
    """All GPUs of the group on one cycle, each with two links."""
    gpus = [(node, gpu) for node in ring.positions for gpu in range(rules.gpus_per_node)]
    ends: dict[Gpu, list[tuple[int, Gpu]]] = {gpu: [] for gpu in gpus}
    for number, (one, other) in enumerate(ring.links):
        for end, far in ((one, other), (other, one)):
            ends.setdefault(end, []).append((number, far))
    wrong = [(gpu, len(links)) for gpu, links in ends.items() if len(links) != 2]
    for (node, gpu), count in wrong:
        yield f"GPU {gpu} of node {node} has {count} links; expected 2"
    if wrong or not gpus:
        return
    here, link, seen = gpus[0], -1, 0
    while seen == 0 or here != gpus[0]:
        link, here = next((pair for pair in ends[here] if pair[0] != link), ends[here][0])
        seen += 1
    if seen != len(set(gpus)):
        yield f"its GPUs form more than one cycle: one has {seen} of {len(set(gpus))}"


def _letter(bundle: int) -> str:
    return chr(ord("A") + bundle) if 0 <= bundle < 26 else str(bundle)


def _show(one: "Gpu", other: "Gpu") -> str:
    return f"{one[0]}.{one[1]}–{other[0]}.{other[1]}"
