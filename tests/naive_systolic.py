"""An array of processing elements that really moves operands, cycle by cycle: slow, plain, written from the sentences.

Every register holds one thing. What would be overwritten while it is still needed, or what meets a stranger, raises
Hazard; the earliest start of a tile is found by trying one cycle after another. Nothing here knows how long anything
takes.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np


class Hazard(Exception):
    """Two things want one register, wire or partner."""


class Tile(NamedTuple):
    """What an array holds at once: rows and columns of the operand or result that stands still."""

    row: int
    rows: int
    column: int
    columns: int


class Ticks(NamedTuple):
    cycles: int
    product: np.ndarray
    macs: int
    entered: Counter  # by edge
    left: int  # results


def tiles(along, n, rows, columns):
    """Columns of tiles outermost."""
    return [
        Tile(i, min(rows, along - i), j, min(columns, n - j))
        for j in range(0, n, columns)
        for i in range(0, along, rows)
    ]


class Edges:
    """What enters where and when; a place takes one thing in a cycle."""

    def __init__(self):
        self.due: dict[int, dict] = defaultdict(dict)
        self.entered: Counter[str] = Counter()

    def put(self, cycle, edge, place, thing):
        if (edge, place) in self.due[cycle] or cycle < 0:
            raise Hazard(f"{edge} {place} in {cycle}")
        self.due[cycle][edge, place] = thing
        self.entered[edge] += 1


class WeightStationary:
    """Elements hold weights; activations go right, sums go down."""

    def __init__(self, a, b, rows, columns, starts):
        self.a, self.rows, self.columns = a, rows, columns
        self.tiles = tiles(a.shape[1], b.shape[1], rows, columns)[: len(starts)]
        self.edges, self.macs = Edges(), 0
        self.weight, self.shadow, self.right, self.down = {}, {}, {}, {}
        for f, (tile, start) in enumerate(zip(self.tiles, starts, strict=True)):
            for x in range(tile.rows):  # just in time, the lowest row first, column by column a cycle later
                row = tile.rows - 1 - x
                for j in range(tile.columns):
                    value = b[tile.row + row, tile.column + j]
                    self.edges.put(start - tile.rows + x + j, "top", j, (f, value, row))
            for m in range(len(a)):
                for i in range(tile.rows):
                    self.edges.put(start + m + i, "left", i, (f, m, a[m, tile.row + i]))

    def tick(self, cycle):
        """One cycle; returns what leaves: column -> (tile, value)."""
        due = self.edges.due.pop(cycle, {})
        right, down, out = {}, {}, {}
        for r in range(self.rows):
            for c in range(self.columns):
                act = due.get(("left", r)) if c == 0 else self.right.get((r, c - 1))
                total = self.down.get((r - 1, c))
                if act:
                    right[r, c] = act
                    if c < self.tiles[act[0]].columns:
                        total = self._element(r, c, act, total)
                if total:
                    down[r, c] = total
        for c in range(self.columns):
            if (self.rows - 1, c) in down:
                f, _, value = down.pop((self.rows - 1, c))
                out[c] = f, value
        self.right, self.down = right, down
        self._weights_fall(due)
        return out

    def _element(self, r, c, act, total):
        f, m, value = act
        if self.weight.get((r, c), (None,))[0] != f:  # the first activation of a tile brings its weight into use
            found = self.shadow.pop((r, c), None)
            if found is None or found[0] != f or found[2] != r:
                raise Hazard(f"no weight at {r}, {c}")
            self.weight[r, c] = found
        if (r > 0) != (total is not None) or (total and total[:2] != (f, m)):
            raise Hazard(f"strange sum at {r}, {c}")
        self.macs += 1
        return f, m, (total[2] if total else 0) + value * self.weight[r, c][1]

    def _weights_fall(self, due):
        shadow = {}
        for (r, c), thing in self.shadow.items():
            shadow[(r if thing[2] == r else r + 1), c] = thing
        if len(shadow) < len(self.shadow):
            raise Hazard("a weight falls on another")
        for (edge, c), thing in due.items():
            if edge == "top":
                if (0, c) in shadow:
                    raise Hazard("a weight enters upon another")
                shadow[0, c] = thing
        self.shadow = shadow

    def place(self, f, nth):
        """Row of the product to which the nth result of tile f belongs."""
        return nth

    def busy(self):
        return self.edges.due or self.right or self.down


class OutputStationary:
    """Elements hold sums; activations go right, weights go down, results follow them down in registers of their own."""

    def __init__(self, a, b, rows, columns, starts):
        self.a, self.rows, self.columns = a, rows, columns
        self.tiles = tiles(a.shape[0], b.shape[1], rows, columns)[: len(starts)]
        self.edges, self.macs = Edges(), 0
        self.sum, self.right, self.down = {}, {}, {}
        self.result = {}  # (row, column) -> [tile, value, does it move]
        last = a.shape[1] - 1
        for f, (tile, start) in enumerate(zip(self.tiles, starts, strict=True)):
            for k in range(last + 1):
                for i in range(tile.rows):
                    self.edges.put(start + k + i, "left", i, (f, k, a[tile.row + i, k], k == last))
                for j in range(tile.columns):
                    self.edges.put(start + k + j, "top", j, (f, k, b[k, tile.column + j]))

    def tick(self, cycle):
        due = self.edges.due.pop(cycle, {})
        right, down = {}, {}
        done: list[tuple] = []
        for r in range(self.rows):
            for c in range(self.columns):
                act = due.get(("left", r)) if c == 0 else self.right.get((r, c - 1))
                weight = due.get(("top", c)) if r == 0 else self.down.get((r - 1, c))
                if act:
                    right[r, c] = act
                if weight:
                    down[r, c] = weight
                if act and weight:
                    self._element(r, c, act, weight, done)
        self.right, self.down = right, down
        out = self._results_fall()
        for r, c, f, value in done:
            if (r, c) in self.result:
                raise Hazard(f"a result at {r}, {c} is still there")
            self.result[r, c] = [f, value, False]
        for r, c, f, _ in done:
            if r == self.tiles[f].rows - 1:  # the tile's last row: its results in this column set off
                for (_, column), thing in self.result.items():
                    if column == c and thing[0] == f:
                        thing[2] = True
        return out

    def _element(self, r, c, act, weight, done):
        if act[:2] != weight[:2]:
            raise Hazard(f"strangers at {r}, {c}")
        self.macs += 1
        self.sum[r, c] = self.sum.get((r, c), 0) + act[2] * weight[2]
        if act[3]:
            done.append((r, c, act[0], self.sum.pop((r, c))))

    def _results_fall(self):
        out, after = {}, {}
        for (r, c), thing in self.result.items():
            if thing[2] and r == self.rows - 1:
                out[c] = thing[0], thing[1]
            else:
                to = (r + 1 if thing[2] else r), c
                if to in after:
                    raise Hazard("a result falls on another")
                after[to] = thing
        self.result = after
        return out

    def place(self, f, nth):
        """The lowest row leaves first."""
        tile = self.tiles[f]
        return tile.row + tile.rows - 1 - nth

    def busy(self):
        return self.edges.due or self.right or self.down or self.result


def run(dataflow, a, b, rows, columns, starts):
    """The first tiles of a x b, which start in `starts`. Raises Hazard."""
    array = (WeightStationary if dataflow == "ws" else OutputStationary)(a, b, rows, columns, starts)
    product = np.zeros((a.shape[0], b.shape[1]), np.int64)
    seen: Counter[tuple] = Counter()
    cycle = last = 0
    while array.busy():
        for c, (f, value) in array.tick(cycle).items():
            product[array.place(f, seen[f, c]), array.tiles[f].column + c] += value
            seen[f, c] += 1
            last = cycle + 1
        cycle += 1
    return Ticks(last, product, array.macs, array.edges.entered, sum(seen.values()))


def earliest(dataflow, a, b, rows, columns, overlapped):
    """Every tile as early as can be; if not overlapped, after the last result of the one before."""
    along = a.shape[1] if dataflow == "ws" else a.shape[0]
    starts: list[int] = []
    done = None
    for tile in tiles(along, b.shape[1], rows, columns):
        start = 0 if not starts else starts[-1] + 1
        if not overlapped and done:
            start = done.cycles + (tile.rows if dataflow == "ws" else 0)
        while True:
            try:
                done = run(dataflow, a, b, rows, columns, [*starts, start])
                break
            except Hazard:
                start += 1
        starts.append(start)
    return done
