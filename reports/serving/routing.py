"""Experts over devices: what crosses between them, of synthetic routes from layer to layer."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from pimloom.arch.llm import load_llm
from pimloom.reports.serving.rows import Row, device_with, row, within
from pimloom.workload.batch import Batch

EXPERTS, GPUS, LAYERS, TOKENS = 16, 4, 8, 4096  # [design]
ROWS, CONTEXT, LINK, LINK_S = (256, 4096), 512, 100e9, 5e-6  # [design] tokens; bit/s and s of a device's link
CHOICE = 0.1  # Dirichlet: how sure a route is of its next expert, the less the surer [design]


def routes(seed: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Chances from each expert to those of the next layer, and routes of tokens that follow them."""
    random = np.random.default_rng(seed)
    chances = random.dirichlet([CHOICE] * EXPERTS, (LAYERS - 1, EXPERTS))
    taken = np.empty((LAYERS, TOKENS), int)
    taken[0] = random.integers(0, EXPERTS, TOKENS)
    for layer in range(1, LAYERS):
        each = chances[layer - 1][taken[layer - 1]].cumsum(axis=1)
        taken[layer] = np.minimum((random.random((TOKENS, 1)) > each).sum(axis=1), EXPERTS - 1)
    return chances, taken


def by_affinity(taken: np.ndarray) -> np.ndarray:
    """Device of each expert, layer by layer: as many on each, most tokens where their expert before is."""
    from scipy.optimize import linear_sum_assignment  # scipy is slow to import

    places, found = np.repeat(np.arange(GPUS), EXPERTS // GPUS), np.empty((LAYERS, EXPERTS), int)
    found[0] = places
    for layer in range(1, LAYERS):
        gain = np.zeros((EXPERTS, GPUS))
        np.add.at(gain, (taken[layer], found[layer - 1][taken[layer - 1]]), 1)
        rows, columns = linear_sum_assignment(-gain[:, places])
        found[layer, rows] = places[columns]
    return found


def crossing(taken: np.ndarray, where: np.ndarray) -> float:
    """Share of steps from layer to layer that leave their device."""
    devices = np.array([where[layer][taken[layer]] for layer in range(LAYERS)])
    return float((devices[1:] != devices[:-1]).mean())


def exflow() -> Iterator[Row]:
    """Tokens stay where their expert was; contexts are everywhere, so that none has to come back."""
    _, taken = routes()
    train, test = taken[:, : TOKENS // 2], taken[:, TOKENS // 2 :]
    plain = np.tile(np.repeat(np.arange(GPUS), EXPERTS // GPUS), (LAYERS, 1))
    share = crossing(test, by_affinity(train)) / crossing(test, plain)
    yield row("ExFlow", "crossings that affinity saves, synthetic routes", 100 * (1 - share), "up to 67", "paper",
              unit="%", machine=f"{EXPERTS} experts on {GPUS} devices")  # fmt: skip
    there, back = (_all_to_all(test, plain, home) for home in (False, True))
    yield row("ExFlow", "values over links with a way back in each layer, over those without", back / there, "2",
              "derived", unit="×", verdict=within(back / there, 1.9, 2.1), tolerance="5 %")  # fmt: skip


def throughput() -> Iterator[Row]:
    """ExFlow's step, in which only tokens that leave their device cross the links, once, over one that sends all there
    and back."""
    _, taken = routes()
    train, test = taken[:, : TOKENS // 2], taken[:, TOKENS // 2 :]
    plain = np.tile(np.repeat(np.arange(GPUS), EXPERTS // GPUS), (LAYERS, 1))
    llm = replace(load_llm("mixtral-8x7b"), num_experts=EXPERTS, num_experts_per_tok=1, num_hidden_layers=LAYERS)
    device = device_with("gpu_a100", llm, {"memory_bytes": "1000000000000"}, outside=False)
    for rows in ROWS:
        base = device.step(Batch.decode([CONTEXT] * rows)).time_s / GPUS  # each device has its part
        bits = rows / GPUS * llm.hidden_size * 16
        both, once = (
            base + LAYERS * (way * LINK_S + share * bits / LINK)
            for way, share in ((2, 2 * crossing(test, plain)), (1, crossing(test, by_affinity(train))))
        )
        yield row("ExFlow", f"gain of throughput, {rows} tokens of decode", both / once, "up to 2.2", "paper", unit="×",
                  machine=f"{EXPERTS} experts of mixtral-8x7b's size on {GPUS} gpu_a100, {LINK / 1e9:g} Gb/s of each: "
                  "assumed")  # fmt: skip


def _all_to_all(taken: np.ndarray, where: np.ndarray, home: bool) -> int:
    """Tokens over links: to each expert from where they are; home: back to where they began after each."""
    began = np.arange(taken.shape[1]) % GPUS
    at, crossed = began, 0
    for layer in range(LAYERS):
        there = where[layer][taken[layer]]
        crossed += int((there != at).sum()) + (int((there != began).sum()) if home else 0)
        at = began if home else there
    return crossed


def speculative() -> Iterator[Row]:
    """Tokens are dealt to the devices where most of their experts are, as guessed from those of the first layer."""
    _, taken = routes()
    where = by_affinity(taken)
    guess = where[0][taken[0]]
    at = {"in turn": np.arange(TOKENS) % GPUS, "by a guess": guess}
    local = {
        name: float(np.mean([where[layer][taken[layer]] == device for layer in range(LAYERS)]))
        for name, device in at.items()
    }
    for name, share in local.items():
        yield row("Speculative MoE", f"tokens whose expert is on their device, dealt {name}", 100 * share, "no figure",
                  "paper", unit="%", machine=f"{EXPERTS} experts on {GPUS} devices, synthetic routes")  # fmt: skip
