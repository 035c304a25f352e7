"""An operator of a program while it is built."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Operator:
    """One operator while it is built.

    port: by which its loads and PIM commands enter a channel, stores_port: and its stores.
    together: number of the first of those that may run beside each other; bytes: of its addresses so far; singly: its
    loads and PIM commands leave one by one, for all channels together; pause: clocks between the end of those in
    `after` and its start, or before it starts first of all.
    """

    name: str
    port: int
    in_order: bool
    after: tuple[int, ...]
    least: int
    index: int
    together: int
    stores_port: int
    pause: int = 0
    bytes: int = 0
    loads: list[tuple[int, int, int]] = field(default_factory=list)  # at, size, group
    stores: list[tuple[int, int, int]] = field(default_factory=list)
    tasks: list[tuple[int, int, tuple[int, ...], int]] = field(default_factory=list)  # cycles, loaded, needs, store
    wide: set[int] = field(default_factory=set)  # tasks that take all vector units
    follows: dict[int, tuple[int, int]] = field(default_factory=dict)  # of a task: step before, pause
    entry: dict[int, int] = field(default_factory=dict)  # of a task: store to which it adds
    bias: dict[int, int] = field(default_factory=dict)  # of a store that leaves early: group of its bias, -1: none
    gates: dict[int, int] = field(default_factory=dict)  # of a load: store that must have been answered before
    dots: list[np.ndarray] = field(default_factory=list)
    groups: int = 0
    singly: bool = False
