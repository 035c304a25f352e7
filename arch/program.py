"""What a mapper hands to a simulator: steps that run one after the other, on the PIM channels or on the ASIC."""

from collections.abc import Hashable
from typing import Literal, NamedTuple

import numpy as np

AsicOp = Literal[
    "layernorm", "rmsnorm", "normalise", "softmax", "activation", "softcap", "multiply", "rotary", "choose", "add"
]


class PimStep(NamedTuple):
    """One PIM instruction: the command stream of a channel.

    All channels run it in lock-step; with `one_channel` only one does, the others wait. Steps with equal `key` have
    equal timing: they differ in addresses only. `sent_values`, `received_values`: elements that cross the interface,
    padding left out: inputs and q once per channel they go to, softmax probabilities and results once.
    """

    name: str
    key: Hashable
    stream: np.ndarray
    one_channel: bool
    sent_values: int
    received_values: int


class AsicStep(NamedTuple):
    """One ASIC operation over `elements` values.

    `add` counts the terms added, `normalise` is the last pass of a norm, `softcap` is c tanh(x / c), `choose` finds the
    largest again and again: `passes`, which of the others is 1.
    """

    name: str
    op: AsicOp
    elements: int
    passes: int = 1


Step = PimStep | AsicStep
