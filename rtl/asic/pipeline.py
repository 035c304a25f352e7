# amaranth: UnusedElaboratable=no
"""A dataflow builder: an expression is written once, its registers and handshakes follow.

`add(mul(x, 2.0), y)` makes a multiplier and an adder, a register behind each, and one beside the multiplier for y.
Operands of different stages meet by delay registers, which all who wait for the same wire share. Numbers are float32
by the rules of `rtl/float32.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from amaranth.hdl import EnableInserter, Module, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from pimloom.rtl import bf16, float32
from pimloom.rtl.float32 import Add, Mul, constant, negate

Shape: TypeAlias = Any  # of Amaranth: a width in bits or a layout
Shapes: TypeAlias = Shape | Mapping[str, Shape]  # of one value, or of several by name
Operand: TypeAlias = "Wire | float"


class Graph:
    """What the wires of one pipeline have made."""

    def __init__(self) -> None:
        self.m = Module()
        self.units: list[Add | Mul] = []

    def count(self, kind: type[Component]) -> int:
        return sum(isinstance(unit, kind) for unit in self.units)


class Wire:
    """A value, `stage` clocks behind the input of its pipeline."""

    def __init__(self, graph: Graph, value: Value, stage: int = 0) -> None:
        self.graph, self.stage = graph, stage
        self._later = [value]  # by clocks of delay

    def at(self, stage: int) -> Value:
        """The value when it has come to `stage`, which is not before its own."""
        while len(self._later) <= stage - self.stage:
            register = Signal.like(self._later[-1], name="stage", reset_less=True)
            self.graph.m.d.sync += register.eq(self._later[-1])
            self._later.append(register)
        return self._later[stage - self.stage]

    def __neg__(self) -> "Wire":
        return combine(negate, self)


def combine(function: Callable[..., Value], *operands: Operand) -> Wire:
    """function(values of the operands where they meet); combinational. At least one operand is a wire."""
    wires = [operand for operand in operands if isinstance(operand, Wire)]
    graph, stage = wires[0].graph, max(wire.stage for wire in wires)
    met = (operand.at(stage) if isinstance(operand, Wire) else constant(operand) for operand in operands)
    value = Value.cast(function(*met))
    result = Signal.like(value, name="result")
    graph.m.d.comb += result.eq(value)
    return Wire(graph, result, stage)


def clocked(wire: Wire) -> Wire:
    """The wire one clock later, after a register."""
    return Wire(wire.graph, wire.at(wire.stage + 1), wire.stage + 1)


# The datapath elements; 1 clock each.


def add(a: Operand, b: Operand) -> Wire:
    """The sum of two float32, as the block `Add` computes it; 1 clock."""
    return _unit(Add(), a, b)


def mul(a: Operand, b: Operand) -> Wire:
    """The product of two float32, as the block `Mul` computes it; 1 clock."""
    return _unit(Mul(), a, b)


def scale(x: Wire, k: Wire) -> Wire:
    """x * 2**k for a signed integer k."""
    return clocked(combine(lambda x_, k_: float32.scale(x.graph.m, x_, k_), x, k))


def to_bf16(x: Wire) -> Wire:
    """A float32 rounded to bfloat16, as `bf16.rounded` does; 1 clock."""
    return clocked(combine(bf16.rounded, x))


def widen(x: Wire) -> Wire:
    """bfloat16 x as settled float32; 0 clocks."""
    return combine(bf16.widen, x)


def _unit(unit: Add | Mul, a: Operand, b: Operand) -> Wire:
    graph = next(operand.graph for operand in (a, b) if isinstance(operand, Wire))
    name = f"{type(unit).__name__.lower()}{graph.count(type(unit))}"

    def place(a_: Value, b_: Value) -> Value:
        graph.m.submodules[name] = unit
        graph.m.d.comb += [unit.a.eq(a_), unit.b.eq(b_)]
        return unit.o

    graph.units.append(unit)
    return clocked(combine(place, a, b))


class Pipeline(Component):
    """o = body(i), one a clock. Where i, o are named fields, body takes wires by name and returns a mapping.

    latency: clocks from the one in which i is taken to the one in which o is offered. A full pipeline stands still
    while o is not taken; `o.ready` reaches `i.ready` in the same clock. adders, multipliers: what is inside.
    """

    def __init__(self, i: Shapes, o: Shapes, body: Callable[..., Any]) -> None:
        super().__init__({"i": In(stream.Signature(layout(i))), "o": Out(stream.Signature(layout(o)))})
        self._graph = Graph()
        made = body(**self._wires(i)) if isinstance(i, Mapping) else body(Wire(self._graph, self.i.payload))
        named = isinstance(o, Mapping)
        goals = [(self.o.payload[name], made[name]) for name in o] if named else [(self.o.payload, made)]
        self.latency = max(wire.stage for _, wire in goals)
        self.adders, self.multipliers = self._graph.count(Add), self._graph.count(Mul)
        self._graph.m.d.comb += [goal.eq(wire.at(self.latency)) for goal, wire in goals]
        self.filled = Signal(self.latency)
        """A bit for each stage that holds an element."""

    def _wires(self, names: Iterable[str]) -> dict[str, Wire]:
        return {name: Wire(self._graph, self.i.payload[name]) for name in names}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid, move = self.filled, Signal(name="move")
        m.submodules.stages = EnableInserter(move)(self._graph.m)
        m.d.comb += [move.eq(self.o.ready | ~self.o.valid), self.i.ready.eq(move), self.o.valid.eq(valid[-1])]
        with m.If(move):
            m.d.sync += valid.eq(valid << 1 | self.i.valid)
        return m


def layout(shapes: Shapes) -> Shape:
    """The shape of a payload: a structure of named shapes, or the one shape itself."""
    return StructLayout(shapes) if isinstance(shapes, Mapping) else shapes
