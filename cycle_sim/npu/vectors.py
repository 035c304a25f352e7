"""Vector units: how long an operation takes, and when it starts if others want the units too."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal, NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.units import ceil_div

VectorOp = Literal["norm", "rmsnorm", "softmax", "add", "gelu", "rotary", "softcap"]
PLAIN = {"add": 1, "gelu": 1, "rotary": 3, "softcap": 3}  # passes of what sums no row


@dataclass(frozen=True)
class VectorUnits:
    """`units` vector units of `lanes` lanes each. Every step of a lane, and every level of an adder tree, takes one
    cycle [code configs/systolic_ws_128x128_dev.json]. Raises UserError if there is none."""

    units: int
    lanes: int

    def __post_init__(self) -> None:
        if min(self.units, self.lanes) < 1:
            raise UserError(f"vector units: expected at least one of one lane, got {self.units} of {self.lanes}")


class Schedule(NamedTuple):
    """When each operation starts and ends [cycles], and on which unit; int64[operations]."""

    start_cyc: np.ndarray
    end_cyc: np.ndarray
    unit: np.ndarray


def vector_cyc(vectors: VectorUnits, op: VectorOp, elements: int, rows: int = 1) -> int:
    """Cycles of `rows` rows of `elements` elements each, dealt out over all units.

    With passes = elements / lanes, rounded up, and the adder tree that sums a row (casys-kaist/NeuPIMs@f299af3,
    NeuPIMSystolicWS.cc:382, restated): LayerNorm 2 trees + 3 + 5 passes, softmax 2 trees + 3 passes, addition and
    GELU the passes alone. RMSNorm is LayerNorm without what the mean takes [derived]: a tree + 2 + 3 passes, for the
    squares, by the root, by the weight. A rotation is two products and a sum, a soft cap a quotient, a tanh and a
    product, each a pass [design].

    >>> units = VectorUnits(units=8, lanes=128)
    >>> [vector_cyc(units, op, 4096) for op in ("norm", "rmsnorm", "softmax", "add", "gelu", "rotary")]
    [229, 131, 162, 32, 32, 96]
    """
    passes = ceil_div(elements, vectors.lanes)
    if op in PLAIN:
        each = PLAIN[op] * passes
    else:
        trees, scalars, vector = {"norm": (2, 3, 5), "rmsnorm": (1, 2, 3), "softmax": (2, 0, 3)}[op]
        each = trees * adder_tree_cyc(elements, vectors.lanes) + scalars + vector * passes
    return ceil_div(rows, vectors.units) * each


def adder_tree_cyc(elements: int, lanes: int) -> int:
    """Cycles to sum `elements` numbers, `lanes` of them to one in a cycle; at least one. lanes: > 1 for more than one.

    >>> adder_tree_cyc(128, 128), adder_tree_cyc(129, 128), adder_tree_cyc(16385, 128)
    (1, 3, 132)
    """
    found = 1
    while elements > lanes:
        if lanes < 2:
            raise UserError(f"vector_lanes: expected at least 2 to sum {elements} elements, got {lanes}")
        elements = ceil_div(elements, lanes)
        found += elements
    return found


def vector_schedule(
    ready_cyc: Sequence[int] | np.ndarray, cycles: Sequence[int] | np.ndarray, units: int, *, released: bool = False
) -> Schedule:
    """Operations on the first free of `units` units, in the order in which they are ready, then as they are listed.

    An operation waits while no unit is free; a unit is free in the cycle in which its operation ends. released: as in
    NeuPIMs' simulator nothing waits; if no unit is free, unit 0 does it beside its other work. Raises UserError.

    >>> vector_schedule([0, 0, 1], [5, 3, 2], units=2).start_cyc.tolist()
    [0, 0, 3]
    >>> vector_schedule([0, 0, 1], [5, 3, 2], units=2, released=True).start_cyc.tolist()
    [0, 0, 1]
    """
    ready, length = np.asarray(ready_cyc, np.int64), np.asarray(cycles, np.int64)
    if units < 1 or ready.shape != length.shape or min(length.min(initial=0), ready.min(initial=0)) < 0:
        raise UserError("vector schedule: expected at least one unit and as many ready times as lengths, all >= 0")
    start, on = np.zeros_like(ready), np.zeros_like(ready)
    busy: list[tuple[int, int]] = []  # end, unit
    free = list(range(units))  # a heap
    t = 0
    for i in np.argsort(ready, kind="stable").tolist():
        t = max(t, int(ready[i]))
        if not free and not released:
            t = max(t, busy[0][0])
        while busy and busy[0][0] <= t:
            unit = heappop(busy)[1]
            if released and unit == 0 and any(u == 0 for _, u in busy):
                continue
            heappush(free, unit)
        unit = heappop(free) if free else 0
        heappush(busy, (t + int(length[i]), unit))
        start[i], on[i] = t, unit
    return Schedule(start, start + length, on)
