# amaranth: UnusedElaboratable=no
"""What is proved of a systolic array: two tiles of any size and distance, in the clocks of `cycle_sim/npu/arrays.py`.

Numbers steer nothing but themselves there, so the product and sum are another function, in which the order counts.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from amaranth.asserts import AnyConst
from amaranth.hdl import Assume, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component

from pimloom.rtl import bf16, float32
from pimloom.rtl.formal.checker import any_of, wire
from pimloom.rtl.formal.question import Claim
from pimloom.rtl.npu import element, systolic
from pimloom.rtl.npu.element import OutputElement, WeightElement
from pimloom.rtl.npu.shape import ArrayShape, Dataflow
from pimloom.rtl.npu.systolic import ElementRow, Systolic

SIDE, LONGEST, BEHIND = 2, 3, 3  # of the array; most that streams; most that the second tile comes later than it may
START, CLOCKS = SIDE, 32  # of the first tile; when nothing is left
HASTY, FORGETFUL = "hasty", "forgetful"  # twins: the second tile a clock too early; what goes right loses its number


class _Forgetful:
    """An element, whatever it does."""

    right: Any

    def elaborate(self, platform: object) -> Module:
        m: Module = super().elaborate(platform)  # type: ignore[misc]
        m.d.sync += self.right.x.eq(0)
        return m


class ForgetfulWeight(_Forgetful, WeightElement):
    """A mutant of the weight-stationary element that passes on activations of 0."""


class ForgetfulOutput(_Forgetful, OutputElement):
    """A mutant of the output-stationary element that passes on activations of 0."""


PARTS: dict[tuple[str, bool], type[Component]] = {
    ("ws_element", False): WeightElement,
    ("ws_element", True): ForgetfulWeight,
    ("os_element", False): OutputElement,
    ("os_element", True): ForgetfulOutput,
}


def stand_in(m: Module, x: Value, w: Value, total: Value) -> Value:
    """A function in the place of `multiply_add`, as wide."""
    return total.rotate_left(1) ^ Cat(x, w)


@contextmanager
def in_one_piece(shape: ArrayShape, twin: str | None) -> Iterator[None]:
    """Arrays that are elaborated inside hold their elements, of which Verilog has one that is instantiated."""

    def place(m: Module, name: str, module: str, i: Mapping[str, Value], o: Mapping[str, Value]) -> None:
        kind: type[Any] = PARTS.get((module, twin == FORGETFUL), ElementRow)
        m.submodules[name] = part = kind(shape)
        m.d.comb += [Value.cast(getattr(part, port)).eq(value) for port, value in i.items()]
        m.d.comb += [Value.cast(value).eq(Value.cast(getattr(part, port))) for port, value in o.items()]

    with ExitStack() as stack:
        stack.enter_context(patch.object(systolic, "place", place))
        stack.enter_context(patch.object(element, "multiply_add", stand_in))
        yield


class Tile(NamedTuple):
    """A tile: the clock in which it starts, rows, how much streams, activations by what streams and row, weights by row
    and column (ws) or by what streams and column (os)."""

    start: Value
    rows: Value
    streamed: Value
    x: list[list[Value]]
    w: list[list[Value]]


class TwoTiles:
    """An array that is given two tiles, the second as soon as it may come or up to `BEHIND` clocks later."""

    def __init__(self, flow: Dataflow, m: Module, twin: str | None, bits: int) -> None:
        self.m, self.flow = m, flow
        m.submodules.array = self.array = Systolic(ArrayShape(SIDE, SIDE, flow))
        self.now = Signal(range(CLOCKS))
        m.d.sync += self.now.eq(Mux(self.now == CLOCKS - 1, self.now, self.now + 1))
        one = self._tile("one", Const(START, 5))
        later = wire(m, AnyConst(range(BEHIND + 1)), "later")
        m.d.comb += Assume(later <= BEHIND)
        two = self._tile("two", Signal(5, name="two_start"))
        kept = two.rows if flow == "ws" else one.rows + one.streamed - two.streamed  # results of both in a row
        least = Mux(one.streamed > kept, one.streamed, kept)
        m.d.comb += two.start.eq(START + least + later - (twin == HASTY))
        self.tiles = [one, two]
        (self._feed_ws if flow == "ws" else self._feed_os)(m)

    def _tile(self, name: str, start: Value) -> Tile:
        def numbers(across: int, what: str) -> list[list[Value]]:
            each = [[f"{name}_{what}_{n}_{k}" for k in range(SIDE)] for n in range(across)]
            return [[wire(self.m, AnyConst(bf16.WIDTH), called) for called in names] for names in each]

        sizes = [(name + "_rows", SIDE), (name + "_streamed", LONGEST)]
        rows, streamed = (wire(self.m, AnyConst(range(most + 1)), called) for called, most in sizes)
        self.m.d.comb += Assume((rows > 0) & (rows <= SIDE) & (streamed > 0) & (streamed <= LONGEST))
        weights = SIDE if self.flow == "ws" else LONGEST
        return Tile(start, rows, streamed, numbers(LONGEST, "x"), numbers(weights, "w"))

    def at(self, tile: Tile, after: int) -> Value:
        """Whether it is so many clocks after the start of a tile."""
        return self.now == tile.start + after

    def _feed_ws(self, m: Module) -> None:
        """Weights the lowest row first, a row a clock, right before the tile starts; column j and row i j, i later."""
        for tile in self.tiles:
            for r in range(SIDE):
                for j, top in enumerate(self.array.top):
                    with m.If((r < tile.rows) & (self.now + 1 + r == tile.start + j)):
                        m.d.comb += [top.x.eq(tile.w[r][j]), top.fall.eq(r), top.valid.eq(1)]
                for n in range(LONGEST):
                    left = self.array.left[r]
                    with m.If((r < tile.rows) & (n < tile.streamed) & self.at(tile, n + r)):
                        m.d.comb += [left.x.eq(tile.x[n][r]), left.first.eq(n == 0), left.valid.eq(1)]

    def _feed_os(self, m: Module) -> None:
        """Both with the start; column j and row i later by j, i."""
        for tile in self.tiles:
            for n in range(LONGEST):
                ends = tile.streamed == n + 1
                for r, left in enumerate(self.array.left):
                    with m.If((r < tile.rows) & (n < tile.streamed) & self.at(tile, n + r)):
                        m.d.comb += [left.x.eq(tile.x[n][r]), left.last.eq(ends), left.valid.eq(1)]
                        m.d.comb += left.lowest.eq(tile.rows == r + 1)
                for j, top in enumerate(self.array.top):
                    with m.If((n < tile.streamed) & self.at(tile, n + j)):
                        m.d.comb += [top.x.eq(tile.w[n][j]), top.valid.eq(1)]

    def wanted(self, j: int) -> Iterator[tuple[Value, Value]]:
        """Of each result of column j, whether it is there in this clock, and the sum."""
        for tile in self.tiles:
            if self.flow == "ws":
                for n in range(LONGEST):
                    yield (n < tile.streamed) & self.at(tile, n + SIDE + j), self._sum(tile, n, j)
            else:
                for r in range(SIDE):
                    there = self.now == tile.start + tile.streamed + tile.rows + (SIDE - 1 + j - r)
                    yield (r < tile.rows) & there, self._sum(tile, r, j)

    def _sum(self, tile: Tile, n: int, j: int) -> Value:
        """Over the rows of a tile (ws), or what streams through it (os)."""
        total: Value = Const(0, float32.WIDTH)
        stationary = self.flow == "ws"
        for k in range(SIDE if stationary else LONGEST):
            x, there = (tile.x[n][k], k < tile.rows) if stationary else (tile.x[k][n], k < tile.streamed)
            total = Mux(there, stand_in(self.m, x, tile.w[k][j], total), total)
        return total


def results(s: TwoTiles) -> Iterator[Value]:
    """Each result is there in the model's clock and is the sum of its products in order, and nothing else leaves: two
    tiles of any rows and numbers, the second as soon as it may come or later, 2 x 2 elements."""
    for j, o in enumerate(s.array.o):
        wanted = list(s.wanted(j))
        yield o.valid == any_of(there for there, _ in wanted)
        yield from (~there | (o.x == total) for there, total in wanted)


def results_seen(s: TwoTiles) -> Iterator[Value]:
    """A result of the second tile, both whole and as near as may be; with pause; the second smaller than the first."""
    one, two = s.tiles
    last = list(s.wanted(SIDE - 1))[-1][0]
    near = two.start - one.start
    yield last & (one.rows == SIDE) & (two.rows == SIDE) & (one.streamed == LONGEST) & (near == LONGEST)
    yield any_of(there for there, _ in s.wanted(0)) & (near == LONGEST + BEHIND)
    yield last & (one.rows == SIDE) & (one.streamed == 1) & (two.streamed == LONGEST)


CLAIMS = {"results": Claim(results, results_seen, (HASTY, FORGETFUL))}
