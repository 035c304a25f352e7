"""Requests in the order in which they came, as plain logic: what is taken out closes up, what comes stands behind."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.utils import bits_for


class Line(NamedTuple):
    """Entries, the oldest first, of which the first `length` are there."""

    entries: list[data.View]
    length: Value

    def there(self, i: int) -> Value:
        """High where entry i of the line is filled."""
        return self.length > i


def registers(layout: data.StructLayout, depth: int, name: str) -> Line:
    """An empty line of that many places."""
    return Line(
        [Signal(layout, name=f"{name}_{i}") for i in range(depth)], Signal(bits_for(depth), name=f"{name}_length")
    )


def taken(m: Module, line: Line, which: Value, name: str) -> Line:
    """The line without the entry whose bit in `which` is high; at most one is."""
    after = []
    for i, entry in enumerate(line.entries):
        moved = Signal(entry.shape(), name=f"{name}_{i}")
        upper = line.entries[i + 1] if i + 1 < len(line.entries) else entry
        gone = Signal(name=f"{name}_gone_{i}")
        m.d.comb += [gone.eq(which[: i + 1].any()), moved.eq(Mux(gone, upper.as_value(), entry.as_value()))]
        after.append(moved)
    length = Signal.like(line.length, name=f"{name}_length")
    m.d.comb += length.eq(line.length - which.any())
    return Line(after, length)


def added(m: Module, line: Line, comes: Value, entry: data.View, name: str) -> Line:
    """The line with an entry behind the others, if it comes; it must have room."""
    after = []
    for i, old in enumerate(line.entries):
        stands = Signal(old.shape(), name=f"{name}_{i}")
        here = comes & (line.length == i)
        m.d.comb += stands.eq(Mux(here, entry.as_value(), old.as_value()))
        after.append(stands)
    length = Signal.like(line.length, name=f"{name}_length")
    m.d.comb += length.eq(line.length + comes)
    return Line(after, length)


def keep(m: Module, line: Line, after: Line) -> None:
    """What stands in the registers of a line from the next clock on."""
    m.d.sync += [old.eq(new) for old, new in zip(line.entries, after.entries, strict=True)]
    m.d.sync += line.length.eq(after.length)


def first(m: Module, bits: list[Value], name: str) -> Signal:
    """The lowest bit that is high, alone."""
    all_, found = Signal(len(bits), name=f"{name}_all"), Signal(len(bits), name=name)
    m.d.comb += [all_[i].eq(bit) for i, bit in enumerate(bits)]
    m.d.comb += found.eq(all_ & (~all_ + 1))
    return found


def chosen(m: Module, which: Value, values: list[Value], name: str) -> Signal:
    """The value whose bit is high; 0 of none."""
    found = Signal(len(values[0]), name=name)
    together: Value = which[0].replicate(len(found)) & values[0]
    for i, value in enumerate(values[1:], start=1):
        together = together | (which[i].replicate(len(found)) & value)
    m.d.comb += found.eq(together)
    return found
