"""The result of a model on a CENT system. Its field names are a contract; see CONVENTIONS.md."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from pimloom.energy.cells import EnergyCell
from pimloom.systems.devices.shown import WithSpans
from pimloom.systems.interpolation import weights


class CentPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The token that makes a context of so many tokens; times of all layers, energy of all devices."""

    context: int
    token_s: float
    pim_s: float
    link_s: float
    near_memory_s: float
    tokens_per_s: float
    energy_j: float
    power_w: float


def shares(contexts: Sequence[int], released: bool) -> list[float]:
    """Weights of the simulated contexts in the mean over all contexts from 1 on. Contexts between are interpolated
    linearly. As released, a simulated context stands for itself and all since the previous simulated one.

    >>> shares([1, 3], released=False), shares([2, 4, 5], released=True)
    ([0.5, 0.5], [0.4, 0.4, 0.2])
    """
    if released:
        counted = [float(high - low) for low, high in pairwise([0, *contexts])]
    else:
        counted = weights(range(1, contexts[-1] + 1), contexts)
    return [n / contexts[-1] for n in counted]


class CentOutcome(WithSpans, frozen=True, kw_only=True):
    """A request of `context` tokens, token by token, on a CENT system whose stages are all full.

    latency: of one request; tokens_per_s, energy_per_token, power: means over its contexts, see `shares`. stages:
    groups of layers, of `tensor` devices each; layers_per_device: side by side. lm_head: whether times hold ends
    (embedding, last norm and LM head) and host (sampling), both by token. energy_by_cause and by_cell: of a token;
    power: of the devices while all work. spans: of the token in the middle of the contexts.
    """

    system: str
    model: str
    fidelity: str
    devices: int
    used_devices: int
    stages: int
    tensor: int
    layers_per_device: int
    channels_per_layer: int
    context: int
    every: int
    lm_head: bool
    latency_s: float
    tokens_per_s: float
    energy_per_token_j: float
    energy_by_cause_j: dict[str, float]
    power_w: float
    ends_s: float
    host_s: float
    points: list[CentPoint]
    spec_digest: str
    version: str
    wall_s: float
    energy_by_cell: dict[str, EnergyCell]
