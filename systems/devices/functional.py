"""PIM channels on real numbers: command streams run through the bank layout, in bfloat16.

Weights, K and V lie in an array of cells at the places that the mapper gives. What the specification leaves open is
ours [design]: reading a result clears the accumulator; the k-th MAC after a vector was loaded multiplies with entry k
of the buffer, from the first again behind the last; a write to all banks writes one lane of its column and leaves the
others; its burst, or one of results, carries a value for each of as many banks as it has values, and the next burst
those of the next banks.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from pimloom.arch.command import Level, Role
from pimloom.arch.table import Table
from pimloom.cycle_sim.pim_math import mac_columns, read_result
from pimloom.mappers.geometry import Geometry
from pimloom.mappers.layout import Packed, RowAligned

Array: TypeAlias = np.ndarray
BF16 = ml_dtypes.bfloat16
Accesses: TypeAlias = tuple[int, int, int, Array]
TOGETHER = 1 << 15  # column accesses of all banks whose products are made at once


class Memory:
    """Banks of all channels, one accumulator each, and the channels' global buffers.

    cells: bfloat16[channel, bank, row, column, lane].
    """

    def __init__(self, table: Table, geo: Geometry, rows: int) -> None:
        self.table, self.geo = table, geo
        self.cells = np.zeros((geo.channels, geo.banks, rows, geo.row // geo.lane, geo.lane), BF16)

    def store(self, layout: Packed | RowAligned, matrix: Array) -> None:
        """Put matrix[n_in, n_out] where the mapper says."""
        outputs: Any = np.arange(layout.n_out)
        for first in range(0, layout.n_in, self.geo.lane):  # the lanes of a column access
            some, at = matrix[first : first + self.geo.lane], layout.place(first, outputs)
            self.cells[*at[:-1], : len(some)] = some.T

    def multiply(self, stream: Array, vectors: Iterable[Array]) -> Array:
        """Run a product's stream; float32 sums of all results, bfloat16[results, channel * bank].

        vectors: bfloat16[channels or 1, elements], one for each row that loads, at least as long as it loads.
        """
        sums = list(self._sums(stream, iter(vectors)))
        results = np.zeros((len(sums), self.geo.all_banks), BF16)
        by_length: dict[int, list[int]] = {}
        for place, one in enumerate(sums):
            by_length.setdefault(sum(count for _, _, count, _ in one), []).append(place)
        for length, places in by_length.items():  # sums of one length are made together
            some = max(1, TOGETHER // max(1, self.geo.all_banks * length))
            for at in (places[first : first + some] for first in range(0, len(places), some)):
                results[at] = self._results([sums[place] for place in at], length)
        return results

    def _sums(self, stream: Array, vectors: Iterator[Array]) -> Iterator[list[Accesses]]:
        """What is added up to each result: (row, first column, columns, entries[channels or 1, columns, lane])."""
        load, multiply, read_out = map(self.table.role, (Role.LOAD, Role.MULTIPLY, Role.RESULTS))
        one, entries, entry, bursts = list[Accesses](), 0, 0, 0
        for cmd, row, first, count in zip(*(stream[f].tolist() for f in ("cmd", "row", "col", "count")), strict=True):
            if cmd == load:
                entries, entry = count, 0
                buffer = next(vectors)[:, : entries * self.geo.lane].reshape(-1, entries, self.geo.lane)
            elif cmd == multiply:
                if bursts:
                    raise ValueError(f"a MAC between burst {bursts} and the next of one result")
                if first + count > self.cells.shape[3]:
                    raise IndexError(f"columns {first} to {first + count - 1} of a row of {self.cells.shape[3]}")
                at = slice(entry, entry + count) if entry + count <= entries else (entry + np.arange(count)) % entries
                one.append((row, first, count, buffer[:, at]))
                entry = (entry + count) % entries
            elif cmd == read_out:
                for _ in range(count):
                    bursts = (bursts + 1) % self.geo.bursts
                    if not bursts:
                        yield one
                        one = []

    def _results(self, sums: Sequence[list[Accesses]], length: int) -> Array:
        """Of sums of so many column accesses: bfloat16[sums, channel * bank]."""
        own, lane = self.cells.shape[:2], self.geo.lane
        weights = np.empty((*own, len(sums), length, lane), BF16)
        inputs = np.empty((self.geo.channels, 1, *weights.shape[2:]), BF16)
        for i, one in enumerate(sums):
            done = 0
            for row, first, count, entries in one:
                weights[:, :, i, done : done + count] = self.cells[:, :, row, first : first + count]
                inputs[:, 0, i, done : done + count] = entries
                done += count
        acc = mac_columns(np.zeros((*own, len(sums)), np.float32), weights, inputs)
        return read_result(acc).reshape(-1, len(sums)).T

    def _banks(self, burst: int) -> Any:
        """The banks of a channel whose values come with a burst."""
        return slice(burst * self.geo.lane, (burst + 1) * self.geo.lane)

    def write_one_bank(self, stream: Array, channel: int, values: Array) -> None:
        """Run a stream of writes on one channel: values bfloat16[elements], a column after the other."""
        columns = iter(values.reshape(-1, self.geo.lane))
        for command in stream[stream["cmd"] == self.table.role(Role.WRITE, Level.BANK)]:
            bank = command["bg"] * (self.geo.banks // self.geo.bank_groups) + command["bank"]
            for column in range(command["col"], command["col"] + command["count"]):
                self.cells[channel, bank, command["row"], column] = next(columns)

    def write_all_banks(self, stream: Array, lane: int, values: Array) -> None:
        """Run a stream of writes to all banks: values bfloat16[slots, channel * bank], one lane of each column."""
        commands = stream[stream["cmd"] == self.table.role(Role.SCATTER)].reshape(-1, self.geo.bursts)
        for bursts, value in zip(commands, values.reshape(-1, *self.cells.shape[:2]), strict=True):
            for burst, command in enumerate(bursts):
                banks = self._banks(burst)
                self.cells[:, banks, command["row"], command["col"], lane] = value[:, banks]
