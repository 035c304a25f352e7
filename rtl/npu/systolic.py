# amaranth: UnusedElaboratable=no
"""Systolic arrays: one element, a row of them, rows below each other; each is written once and instantiated."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from pimloom.rtl.npu.element import OutputElement, WeightElement
from pimloom.rtl.npu.shape import RESULT, ArrayShape, activation, weight
from pimloom.rtl.ports import place


class ElementRow(Component):
    """A row of elements: the activation enters at the first column; weights, and sums or results, come from above and
    go below, those of all columns side by side, column 0 lowest. go (os): a bit for each column, see `OutputElement`.
    """

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        self.stationary = shape.dataflow == "ws"
        self.element = f"{shape.dataflow}_element"
        down, results = shape.columns * weight(shape).size, shape.columns * RESULT.size
        ports = {"left": In(activation(shape.dataflow).size), "above": In(down), "below": Out(down)}
        ports |= {} if self.stationary else {"go": In(shape.columns)}
        super().__init__(ports | {"from_above": In(results), "o": Out(results)})

    @property
    def modules(self) -> dict[str, Component]:
        """What is instantiated, by the name of its module."""
        return {self.element: (WeightElement if self.stationary else OutputElement)(self.shape)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        passing: Value = self.left
        for j in range(self.shape.columns):
            right = Signal(len(passing), name=f"right_{j}")
            given = {"left": passing, "above": self._lane(self.above, j)}
            results = self._lane(self.from_above, j)
            given |= {"sum": results} if self.stationary else {"done": results, "go": self.go[j]}
            made = {"right": right, "below": self._lane(self.below, j), "o": self._lane(self.o, j)}
            place(m, f"element_{j}", self.element, given, made)
            passing = right
        return m

    def _lane(self, words: Value, column: int) -> Value:
        width = len(words) // self.shape.columns
        return words[column * width : (column + 1) * width]


class Systolic(Component):
    """An array of processing elements, as `cycle_sim/npu/arrays.py` has it: what an edge is given in a clock is used
    there in that clock.

    left: an activation for each row, bfloat16. top: a weight for each column, bfloat16. o: of each column what has left
    at the bottom, float32: it is there in the clock after the one in which it leaves, by the model's count.

    ws: a row of a tile enters lowest row first, `fall` being its number; the activation that is the `first` of its
    tile brings the weights into use. Each row of the array adds one product to the sum from above, the topmost to +0.
    os: products are added to +0 in the order in which they come; with that of the `last` activation a sum is complete.
    With the `last` of the tile's `lowest` row the results of a column go down and leave, lowest row first.
    """

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        self.row = f"{shape.dataflow}_row"
        across = ArrayLayout(activation(shape.dataflow), shape.rows)
        down, results = ArrayLayout(weight(shape), shape.columns), ArrayLayout(RESULT, shape.columns)
        super().__init__({"left": In(across), "top": In(down), "o": Out(results)})

    @property
    def modules(self) -> dict[str, Component]:
        """What is instantiated, by the name of its module."""
        return {self.row: ElementRow(self.shape)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        go = self._go(m) if self.shape.dataflow == "os" else {}
        weights: Value = self.top.as_value()
        results: Value = Signal(len(self.o.as_value()), name="nothing_above")
        for i in range(self.shape.rows):
            below, o = Signal(len(weights), name=f"weights_below_{i}"), Signal(len(results), name=f"results_of_{i}")
            given = {"left": self.left[i].as_value(), "above": weights, "from_above": results, **go}
            place(m, f"row_{i}", self.row, given, {"below": below, "o": o})
            weights, results = below, o
        leave = self.o.as_value().eq(results)
        if self.shape.dataflow == "ws":
            m.d.comb += leave
        else:
            m.d.sync += leave
        return m

    def _go(self, m: Module) -> dict[str, Value]:
        """When the results of each column set off: a column a clock."""
        ends = [self.left[i].valid & self.left[i].last & self.left[i].lowest for i in range(self.shape.rows)]
        go = Signal(self.shape.columns)
        m.d.comb += go[0].eq(Cat(ends).any())
        if self.shape.columns > 1:
            later = Signal(self.shape.columns - 1, name="go_later")
            m.d.sync += later.eq(go[:-1])
            m.d.comb += go[1:].eq(later)
        return {"go": go}
