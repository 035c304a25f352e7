"""Command streams of one channel for the PIM instructions: matrix-vector products and writes to the K and V cache."""

from collections.abc import Iterable, Sequence

import numpy as np

from pimloom.arch.command import STREAM
from pimloom.arch.table import Table
from pimloom.arch.units import ceil_div
from pimloom.mappers.geometry import Geometry
from pimloom.mappers.layout import Packed, RowAligned


class Emitter:
    """Collects stream rows; commands by name, opcodes from the table."""

    def __init__(self, table: Table) -> None:
        self._opcode = {name: code for code, name in enumerate(table.names)}
        self._rows: list[tuple[int, ...]] = []

    def add(self, name: str, row: int = 0, column: int = 0, count: int = 1, group: int = 0, bank: int = 0) -> None:
        """One stream row; `bank` counts inside its group."""
        self._rows.append((self._opcode[name], 0, 0, group, bank, row, column, count, 0, 0))

    def stream(self) -> np.ndarray:
        """The rows so far, as STREAM."""
        return np.array(self._rows, STREAM)


def _run(out: Emitter, geo: Geometry, runs: Iterable[tuple[int, int, bool]], first_row: int) -> bool:
    """Emit runs of (offset [elements], accesses, read a result behind it), row by row; True if a result is pending.

    A row stays open until a run leaves it. The last result is left to the caller, the others are read while MACs go on.
    """
    open_row, pending = -1, False
    for offset, accesses, result in runs:
        if pending:
            out.add("RDMAC", count=geo.bursts)
        while accesses:
            row, element = divmod(offset, geo.row)
            if row != open_row:
                if open_row >= 0:
                    out.add("PREab")
                out.add("ACTab", first_row + row)
                open_row = row
            column = element // geo.lane
            n = min(accesses, geo.row // geo.lane - column)
            out.add("MACab", first_row + row, column, n)
            offset, accesses = offset + n * geo.lane, accesses - n
        pending = result
    return pending


def loads(geo: Geometry, width: int, vectors: int) -> list[int]:
    """How many of `vectors` operands of `width` elements, whole column accesses, each load of the buffer brings."""
    most = geo.buffer // width
    return [min(most, vectors - first) for first in range(0, vectors, most)]


def product(
    table: Table, w: Packed, segments: Sequence[Sequence[int]] | None = None, slots: int | None = None, vectors: int = 1
) -> np.ndarray:
    """Stream of y = x W.

    segments: per chunk, widths [elements] behind each of which a result is read (default: the whole chunk); the K
    cache's are heads. slots: outputs per bank that are there yet (default: all). vectors: how many x there are, of
    query heads that share their keys; the buffer takes as many as it has room for, and each of them is multiplied with
    a slot before the next slot's turn. The last result is read when the row is closed (3.4 of the specification counts
    it by itself).
    """
    geo, out, pending = w.geo, Emitter(table), False
    sweeps = [(chunk, n) for chunk, width in enumerate(w.chunks) for n in loads(geo, width, vectors)]
    for chunk, together in sweeps:
        width = w.chunks[chunk]
        if pending:  # of the sweep before
            out.add("RDMAC", count=geo.bursts)
            out.add("PREab")
        out.add("WRGB", count=together * width // geo.lane)
        parts = (width,) if segments is None else segments[chunk]
        runs = []
        for slot in range(w.slots if slots is None else slots):
            for _ in range(together):
                offset = w.start(chunk, slot)
                for part in parts:
                    runs.append((offset, part // geo.lane, True))
                    offset += part
        pending = _run(out, geo, runs, w.first_row)
    out.add("PREab")
    if pending:
        out.add("RDMAC", count=geo.bursts)
    return out.stream()


def weighted_sum(table: Table, v: RowAligned, tokens: int, vectors: int = 1) -> np.ndarray:
    """Stream of p V over the first `tokens` tokens: per slot and row, p is loaded, multiplied, and the result read.

    vectors: how many p there are, of query heads that share their values: as many as the buffer has room for use the
    row while it is open.
    """
    geo, out = v.geo, Emitter(table)
    for slot in range(v.slots):
        for chunk in range(ceil_div(tokens, geo.row)):
            accesses = ceil_div(min(tokens - chunk * geo.row, geo.row), geo.lane)
            row = v.first_row + slot * v.slot_rows + chunk
            for together in loads(geo, accesses * geo.lane, vectors):
                out.add("WRGB", count=together * accesses)
                out.add("ACTab", row)
                for _ in range(together):
                    out.add("MACab", row, 0, accesses)
                    out.add("RDMAC", count=geo.bursts)
                out.add("PREab")
    return out.stream()


def write_k(table: Table, k: Packed, token: int) -> np.ndarray:
    """Stream of the K write of one token (0 = first): one bank, one ACT per row that its chunks touch."""
    geo, out = k.geo, Emitter(table)
    slot, (_, index) = token // geo.all_banks, geo.bank_of(token % geo.all_banks)
    group, bank = divmod(index, geo.banks // geo.bank_groups)
    for chunk, width in enumerate(k.chunks):
        offset, left = k.start(chunk, slot), width
        while left:
            row, element = divmod(offset, geo.row)
            n = min(left, geo.row - element)
            out.add("ACT", k.first_row + row, group=group, bank=bank)
            out.add("WR", k.first_row + row, element // geo.lane, n // geo.lane, group, bank)
            out.add("PRE", group=group, bank=bank)
            offset, left = offset + n, left - n
    return out.stream()


def write_v(table: Table, v: RowAligned, token: int) -> np.ndarray:
    """Stream of the V write of one token: one element per slot, of all banks that a burst has values for at once.

    With more banks than values in a burst, the row is opened for each burst: WRAab closes it.
    """
    geo, out = v.geo, Emitter(table)
    row, element = divmod(token, geo.row)
    for slot in range(v.slots):
        where = v.first_row + slot * v.slot_rows + row
        for _ in range(geo.bursts):
            out.add("ACTab", where)
            out.add("WRAab", where, element // geo.lane)
    return out.stream()
