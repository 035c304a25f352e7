"""ETS: a tree search that keeps few leaves, beside one that keeps all which have children; synthetic rewards."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.llm import load_llm
from pimloom.reports.serving.rows import Row, device_with, row
from pimloom.systems.devices.device import Device
from pimloom.workload.batch import Batch, Request
from pimloom.workload.decoding.selection import Leaf, select, value

TREES, DEPTHS, WIDTH = 4, 8, 16  # [design] trees, depths; [secondary: their MATH500 file] leaves
FEW = 7  # leaves of the check [design]
STEP, PROMPT, CLUSTERS = 64, 256, 5  # [design] tokens of a depth, of the prompt; meanings of a depth
TEMPERATURE = 0.2  # [secondary] of the softmax over rewards
GPU, MODEL = "gpu_h100", "llama-3-8b"  # [design]
ENOUGH = {"memory_bytes": str(10**15)}  # to tell how long a step takes, whatever the caches that it is told of


class Depth(NamedTuple):
    """paths: of each leaf its nodes, the last one its own; tokens: of the prompt and all nodes, each once."""

    paths: list[tuple[int, ...]]
    tokens: int


def children(rewards: Sequence[float], width: int) -> list[int]:
    """How many each leaf has under REBASE: the softmax of its reward of all, the largest remainders first.

    >>> children([1.0, 1.0, 0.0], 4)
    [2, 2, 0]
    """
    worth = np.exp(np.array(rewards) / TEMPERATURE)
    parts = width * worth / worth.sum()
    found = np.floor(parts).astype(int)
    for i in np.argsort(-(parts - found), kind="stable")[: width - int(found.sum())]:
        found[i] += 1
    return [int(n) for n in found]


def grown(seed: int, *, pruned: bool) -> list[Depth]:
    """A search: leaves of each depth while they are computed. pruned: of those that have children ETS keeps some."""
    drawn, node = np.random.default_rng(seed), 0
    paths: list[tuple[int, ...]] = [()] * WIDTH
    found = list[Depth]()
    for _ in range(DEPTHS):
        mine: list[tuple[int, ...]] = [(*path, node + i) for i, path in enumerate(paths)]
        held = {one for path in mine for one in path}
        found.append(Depth(mine, PROMPT + STEP * len(held)))
        node += WIDTH
        rewards, meant = drawn.random(WIDTH), drawn.integers(0, CLUSTERS, WIDTH)
        counts = children(rewards.tolist(), WIDTH)
        alive = [i for i in range(WIDTH) if counts[i]]
        if pruned:
            leaves = [Leaf(counts[i] / WIDTH, mine[i][:-1], int(meant[i])) for i in alive]
            alive = [alive[k] for k in select(leaves)]
            of_kept = children([float(rewards[i]) for i in alive], WIDTH)
            counts = [of_kept[alive.index(i)] if i in alive else 0 for i in range(WIDTH)]
        paths = [mine[i] for i in alive for _ in range(counts[i])]
    return found


def rate_per_s(device: Device, depths: Sequence[Depth], room: int) -> float:
    """Tokens of leaves a second, of as many searches at once as their caches have room: leaves of one parent read what
    is before them once."""
    tokens, time_s = 0, 0.0
    for at, depth in enumerate(depths):
        number, before = max(room // depth.tokens, 1), PROMPT + STEP * at
        parents = {path: i for i, path in enumerate(dict.fromkeys(path[:-1] for path in depth.paths), 1)}
        groups = [parents[path[:-1]] for path in depth.paths]
        rows = tuple(
            Request("decode", 1, before + STEP // 2, 1, before, search * len(parents) + group)
            for search in range(number)
            for group in groups
        )
        tokens += WIDTH  # of each search, which has the device for its part of the step
        time_s += device.step(Batch(rows)).time_s / number
    return tokens / time_s


def _short(seed: int) -> float:
    """By how much the choice for a small tree falls short of the best of all subsets."""
    drawn = np.random.default_rng(seed)
    above = [tuple(sorted({int(n), 3 + int(n) // 2})) for n in drawn.integers(0, 3, FEW)]
    each = zip(drawn.random(FEW), above, drawn.integers(0, 3, FEW), strict=True)
    leaves = [Leaf(float(reward), at, int(kind)) for reward, at, kind in each]
    every = [[i for i in range(FEW) if chosen >> i & 1] for chosen in range(1 << FEW)]
    return max(value(leaves, some) for some in every) - value(leaves, select(leaves))


def search() -> Iterator[Row]:
    """Caches of a search, and how many tokens a second come out of a full device."""
    worst = max(abs(_short(seed)) for seed in range(5))
    yield row("ETS", f"choice of {FEW} leaves beside the best of all, largest difference", worst, "0", "derived",
              digits=".1e", verdict="pass" if worst < 1e-9 else "FAIL", tolerance="1e-9")  # fmt: skip
    llm = load_llm(MODEL)
    room, device = device_with(GPU, llm).capacity().tokens, device_with(GPU, llm, ENOUGH)
    some = {pruned: [grown(seed, pruned=pruned) for seed in range(TREES)] for pruned in (False, True)}
    held = {pruned: sum(depth.tokens for tree in trees for depth in tree) for pruned, trees in some.items()}
    said = f"{WIDTH} leaves, synthetic rewards and meanings"
    yield row("ETS", "keys and values of leaves that have children over those that it keeps", held[False] / held[True],
              "1.8", "paper", unit="×", machine=said)  # fmt: skip
    rates = [float(np.mean([rate_per_s(device, tree, room) for tree in trees])) for trees in some.values()]
    gain = rates[1] / rates[0]
    yield row("ETS", "tokens a second of a full device over those of all that have children", gain, "1.4", "paper",
              unit="×", machine=f"{MODEL} on {GPU}, {said}")  # fmt: skip
