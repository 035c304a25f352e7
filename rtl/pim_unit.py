# amaranth: UnusedElaboratable=no
"""The MAC unit of one bank in gates: bit for bit `cycle_sim/pim_math.py` with its float32 accumulator."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from pimloom.arch.command import Role
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.table import compile_table
from pimloom.rtl import bf16, float32


class Token(NamedTuple):
    """What one command does when it meets the accumulator."""

    mac: Value
    read: Value
    load: Value
    bias: Value


class PimUnit(Component):
    """Multipliers, adder tree, accumulator and result register of one bank of a memory part.

    In one clock at most one of: mac, acc = acc + `column_sum` of weights and inputs; read, result = acc rounded to
    bfloat16, then acc = +0; load, acc = bias. acc starts at +0. weights and inputs: bfloat16[lanes].

    Commands take effect in the order in which they come, however close, but macs come at least as far apart as the
    table's gap (tCCD). `clocks` an addition takes: 2, or 1 where macs may come in every clock. `latency`: clocks from
    read to the one in which `valid` is high and result new, 1 + clocks * (log2(lanes) + 1); it stays until then.

    Raises UserError for a part without PIM units, lanes that are no power of two, or elements that are not bfloat16.
    """

    def __init__(self, part: Part) -> None:
        unit = part.pim_unit
        if unit is None or part.pim is None:
            raise UserError(f"{part.description}: has no PIM units")
        if unit.element_bits != bf16.WIDTH or unit.lanes & (unit.lanes - 1):
            found = f"{unit.lanes} lanes of {unit.element_bits} bits"
            raise UserError(f"{part.description}: MAC units add a power of two of bfloat16 lanes, not {found}")
        table = compile_table(part)
        self.lanes, self.clocks = unit.lanes, 2 if table.rules.gap[table.role(Role.MULTIPLY)] > 1 else 1
        self.tree = bf16.Tree(self.lanes, self.clocks)
        self.latency = 1 + self.tree.latency + self.clocks
        column = ArrayLayout(bf16.WIDTH, self.lanes)
        commands = {"mac": In(1), "read": In(1), "load": In(1)}
        operands = {"weights": In(column), "inputs": In(column), "bias": In(bf16.WIDTH)}
        super().__init__(commands | operands | {"result": Out(bf16.WIDTH), "valid": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entering = Token(self.mac, self.read, self.load, self.bias)
        token = _later(m, entering, 1 + self.tree.latency)
        self._accumulate(m, self._column(m), token, _later(m, token, self.clocks - 1))
        return m

    def _column(self, m: Module) -> Value:
        """The sum of the products, 1 + tree.latency clocks after the operands."""
        m.submodules.tree = self.tree
        for i in range(self.lanes):
            m.submodules[f"multiplier{i}"] = multiplier = bf16.Mul()
            m.d.comb += [multiplier.a.eq(self.weights[i]), multiplier.b.eq(self.inputs[i])]
            m.d.sync += self.tree.x[i].eq(multiplier.o)
        return self.tree.o

    def _accumulate(self, m: Module, column: Value, begins: Token, ends: Token) -> None:
        """begins: the token beside `column`; ends: the one whose effect is stored at the end of this clock."""
        acc, start = Signal(float32.WIDTH, name="acc"), Signal(float32.WIDTH, name="start")
        m.submodules.accumulator = adder = float32.Add(registered=self.clocks == 2)
        m.d.comb += [start.eq(acc), adder.a.eq(start), adder.b.eq(column)]
        m.d.sync += self.valid.eq(ends.read)
        with m.If(ends.mac):
            m.d.sync += acc.eq(adder.o)
        with m.Elif(ends.read | ends.load):
            fresh = Mux(ends.load, bf16.widen(ends.bias), 0)
            m.d.sync += acc.eq(fresh)
            if begins is not ends:  # a mac one clock behind
                m.d.comb += start.eq(fresh)
        with m.If(ends.read):
            m.d.sync += self.result.eq(bf16.rounded(acc))


def _later(m: Module, token: Token, clocks: int) -> Token:
    for _ in range(clocks):
        after = Token(*(Signal.like(value, name=f"{name}_later") for name, value in token._asdict().items()))
        m.d.sync += [register.eq(value) for register, value in zip(after, token, strict=True)]
        token = after
    return token
