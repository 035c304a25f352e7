"""Command streams of one channel for the PIM instructions: matrix-vector products and writes to the K and V cache."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import STREAM, Level, Role, Row
from pimloom.arch.table import Table
from pimloom.arch.units import ceil_div
from pimloom.mappers.geometry import Geometry
from pimloom.mappers.layout import Packed, RowAligned

PRODUCT = (Role.LOAD, Role.ACTIVATE, Role.MULTIPLY, Role.RESULTS, Role.PRECHARGE)  # in all banks of a channel
WRITE = (Role.ACTIVATE, Role.WRITE, Role.PRECHARGE)  # in one bank


class Emitter:
    """Collects stream rows."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []

    def add(self, opcode: int, row: int = 0, column: int = 0, count: int = 1, group: int = 0, bank: int = 0) -> None:
        """One stream row; `bank` counts inside its group."""
        self._rows.append((opcode, 0, 0, group, bank, row, column, count, 0, 0))

    def stream(self) -> np.ndarray:
        """The rows so far, as STREAM."""
        return np.array(self._rows, STREAM)


class Instructions(NamedTuple):
    """Opcodes of a product in all banks of a channel. open_results: results are read while rows are open."""

    load: int
    activate: int
    multiply: int
    results: int
    precharge: int
    open_results: bool


@lru_cache(maxsize=64)
def instructions(table: Table) -> Instructions:
    """What the part has for a product. Raises UserError if it lacks one of them."""
    load, activate, multiply, results, precharge = map(table.role, PRODUCT)
    return Instructions(load, activate, multiply, results, precharge, table.commands[results].needs == Row.OPEN)


def _read(out: Emitter, do: Instructions, geo: Geometry, row: int) -> None:
    """Read the results; the row only matters where it must be open."""
    out.add(do.results, row if do.open_results else 0, count=geo.bursts)


def _run(
    out: Emitter, do: Instructions, geo: Geometry, runs: Iterable[tuple[int, int, bool]], first_row: int
) -> tuple[bool, int]:
    """Emit runs of (offset [elements], accesses, read a result behind it), row by row; whether a result is pending, and
    the row that is open.

    A row stays open until a run leaves it. The last result is left to the caller, the others are read while MACs go on.
    """
    open_row, pending = -1, False
    for offset, accesses, result in runs:
        if pending:
            _read(out, do, geo, open_row)
        while accesses:
            within, element = divmod(offset, geo.row)
            row = first_row + within
            if row != open_row:
                if open_row >= 0:
                    out.add(do.precharge)
                out.add(do.activate, row)
                open_row = row
            column = element // geo.lane
            n = min(accesses, geo.row // geo.lane - column)
            out.add(do.multiply, row, column, n)
            offset, accesses = offset + n * geo.lane, accesses - n
        pending = result
    return pending, open_row


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
    it by itself), or before, where results come from open rows only.
    """
    geo, out, do, pending, row = w.geo, Emitter(), instructions(table), False, -1
    sweeps = [(chunk, n) for chunk, width in enumerate(w.chunks) for n in loads(geo, width, vectors)]
    for chunk, together in sweeps:
        width = w.chunks[chunk]
        if pending:  # of the sweep before
            _read(out, do, geo, row)
            out.add(do.precharge)
        out.add(do.load, count=together * width // geo.lane)
        parts = (width,) if segments is None else segments[chunk]
        runs = []
        for slot in range(w.slots if slots is None else slots):
            for _ in range(together):
                offset = w.start(chunk, slot)
                for part in parts:
                    runs.append((offset, part // geo.lane, True))
                    offset += part
        pending, row = _run(out, do, geo, runs, w.first_row)
    if pending and do.open_results:
        _read(out, do, geo, row)
    out.add(do.precharge)
    if pending and not do.open_results:
        _read(out, do, geo, row)
    return out.stream()


def weighted_sum(table: Table, v: RowAligned, tokens: int, vectors: int = 1) -> np.ndarray:
    """Stream of p V over the first `tokens` tokens: per slot and row, p is loaded, multiplied, and the result read.

    vectors: how many p there are, of query heads that share their values: as many as the buffer has room for use the
    row while it is open.
    """
    geo, out, do = v.geo, Emitter(), instructions(table)
    for slot in range(v.slots):
        for chunk in range(ceil_div(tokens, geo.row)):
            accesses = ceil_div(min(tokens - chunk * geo.row, geo.row), geo.lane)
            row = v.first_row + slot * v.slot_rows + chunk
            for together in loads(geo, accesses * geo.lane, vectors):
                out.add(do.load, count=together * accesses)
                out.add(do.activate, row)
                for _ in range(together):
                    out.add(do.multiply, row, 0, accesses)
                    _read(out, do, geo, row)
                out.add(do.precharge)
    return out.stream()


def write_columns(table: Table, geo: Geometry, places: Iterable[tuple[int, int, int, int]]) -> np.ndarray:
    """Stream of writes to single banks: for each (bank, row, column, columns) the row is opened, written and closed."""
    out, (activate, write, precharge) = Emitter(), (table.role(role, Level.BANK) for role in WRITE)
    for index, row, column, columns in places:
        group, bank = divmod(index, geo.banks // geo.bank_groups)
        out.add(activate, row, group=group, bank=bank)
        out.add(write, row, column, columns, group, bank)
        out.add(precharge, group=group, bank=bank)
    return out.stream()


def write_k(table: Table, k: Packed, token: int) -> np.ndarray:
    """Stream of the K write of one token (0 = first): one bank, one activation per row that its chunks touch."""
    geo, places = k.geo, list[tuple[int, int, int, int]]()
    slot, (_, bank) = token // geo.all_banks, geo.bank_of(token % geo.all_banks)
    for chunk, width in enumerate(k.chunks):
        offset, left = k.start(chunk, slot), width
        while left:
            row, element = divmod(offset, geo.row)
            n = min(left, geo.row - element)
            places.append((bank, k.first_row + row, element // geo.lane, n // geo.lane))
            offset, left = offset + n, left - n
    return write_columns(table, geo, places)


def write_v(table: Table, v: RowAligned, token: int) -> np.ndarray:
    """Stream of the V write of one token: one element per slot, of all banks that a burst has values for at once.

    With more banks than values in a burst, each burst opens the row anew where the write closes it.
    """
    geo, out = v.geo, Emitter()
    activate, scatter, precharge = map(table.role, (Role.ACTIVATE, Role.SCATTER, Role.PRECHARGE))
    closes = table.commands[scatter].leaves == Row.CLOSED
    row, element = divmod(token, geo.row)
    for slot in range(v.slots):
        where = v.first_row + slot * v.slot_rows + row
        for burst in range(geo.bursts):
            if closes or burst == 0:
                out.add(activate, where)
            out.add(scatter, where, element // geo.lane)
        if not closes:
            out.add(precharge)
    return out.stream()
