"""Where the elements of a matrix lie: fill rows, use every bank, cut what is longer than a row into chunks."""

from dataclasses import dataclass
from functools import cached_property

from pimloom.arch.units import ceil_div
from pimloom.mappers.geometry import Geometry, Place


@dataclass(frozen=True)
class Matrix:
    """W[n_in, n_out] in the banks from row `first_row` on: output j in bank j mod NB, slot j div NB."""

    geo: Geometry
    n_in: int
    n_out: int
    first_row: int = 0

    @cached_property
    def slots(self) -> int:
        """Outputs per bank."""
        return ceil_div(self.n_out, self.geo.all_banks)


@dataclass(frozen=True)
class Packed(Matrix):
    """y = x W, W[n_in, n_out]: output j in bank j mod NB, slot j div NB; inputs contiguous, chunk-major.

    A chunk is at most one row of inputs. In a bank, the slots of chunk 0 lie back to back, then those of chunk 1, so
    that one buffered chunk of x serves all slots; each slot is padded to whole column accesses. The matrix starts on
    a fresh row. The K cache is such a matrix, with the tokens as outputs (n_out = tokens reserved). Several matrices
    with fewer outputs than banks may share rows, each from its `first_bank` on.
    """

    first_bank: int = 0

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """Width of each chunk, padded to whole column accesses [elements]."""
        full, rest = divmod(self.n_in, self.geo.row)
        return (self.geo.row,) * full + ((ceil_div(rest, self.geo.lane) * self.geo.lane,) if rest else ())

    @cached_property
    def rows(self) -> int:
        """Rows per bank."""
        return ceil_div(self.slots * sum(self.chunks), self.geo.row)

    @property
    def end_row(self) -> int:
        """First row behind the matrix."""
        return self.first_row + self.rows

    def start(self, chunk: int, slot: int) -> int:
        """Offset of a slot's chunk in its bank [elements from first_row]."""
        return chunk * self.geo.row * self.slots + slot * self.chunks[chunk]

    def place(self, i: int, j: int) -> Place:
        """Where W[i, j] lies."""
        chunk, within = divmod(i, self.geo.row)
        channel, bank = self.geo.bank_of(self.first_bank + j % self.geo.all_banks)
        row, element = divmod(self.start(chunk, j // self.geo.all_banks) + within, self.geo.row)
        return Place(channel, bank, self.first_row + row, *divmod(element, self.geo.lane))

    def element(self, place: Place) -> tuple[int, int] | None:
        """(i, j) of the element at a place; None for padding and places outside."""
        offset = (place.row - self.first_row) * self.geo.row + place.column * self.geo.lane + place.lane
        chunk = offset // (self.geo.row * self.slots)
        if offset < 0 or chunk >= len(self.chunks):
            return None
        slot, within = divmod(offset - self.start(chunk, 0), self.chunks[chunk])
        i = chunk * self.geo.row + within
        bank = place.channel * self.geo.banks + place.bank - self.first_bank
        j = slot * self.geo.all_banks + bank
        return (i, j) if slot < self.slots and bank >= 0 and i < self.n_in and j < self.n_out else None


@dataclass(frozen=True)
class RowAligned(Matrix):
    """The V cache: p V, V[tokens, d]: dimension j in bank j mod NB, slot j div NB, each slot on rows of its own.

    Token t lies at element t mod ROW of the slot's row t div ROW, so that a new token is one element per slot.
    """

    @cached_property
    def slot_rows(self) -> int:
        """Rows of one dimension."""
        return ceil_div(self.n_in, self.geo.row)

    @property
    def rows(self) -> int:
        """Rows per bank."""
        return self.slots * self.slot_rows

    @property
    def end_row(self) -> int:
        """First row behind the matrix."""
        return self.first_row + self.rows

    def place(self, i: int, j: int) -> Place:
        """Where V[token i, dimension j] lies."""
        channel, bank = self.geo.bank_of(j % self.geo.all_banks)
        row, element = divmod(i, self.geo.row)
        row += self.first_row + j // self.geo.all_banks * self.slot_rows
        return Place(channel, bank, row, *divmod(element, self.geo.lane))

    def element(self, place: Place) -> tuple[int, int] | None:
        """(token, dimension) of the element at a place; None for padding and places outside."""
        slot, row = divmod(place.row - self.first_row, self.slot_rows)
        i = row * self.geo.row + place.column * self.geo.lane + place.lane
        j = slot * self.geo.all_banks + place.channel * self.geo.banks + place.bank
        return (i, j) if 0 <= slot < self.slots and i < self.n_in and j < self.n_out else None
