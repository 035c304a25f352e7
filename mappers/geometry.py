"""What a mapper needs to know of the memory: how many banks, how long a row, how wide an access."""

from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.units import ceil_div


class Place(NamedTuple):
    """Where one element lies: `column` counts column accesses, `lane` elements inside one."""

    channel: int
    bank: int
    row: int
    column: int
    lane: int


class Geometry(NamedTuple):
    """Banks and rows of all channels; sizes in elements. `buffer` elements fit the global buffer of a channel."""

    channels: int
    banks: int
    bank_groups: int
    rows: int
    row: int
    lane: int
    buffer: int
    element_bytes: int

    @property
    def all_banks(self) -> int:
        """Banks of all channels (NB)."""
        return self.channels * self.banks

    @property
    def bursts(self) -> int:
        """Bursts that carry one value for each bank of a channel: a result of each, or an element of V for each."""
        return ceil_div(self.banks, self.lane)

    def bank_of(self, index: int) -> tuple[int, int]:
        """(channel, bank) of a bank counted over all channels, channel-major."""
        return index // self.banks, index % self.banks


def geometry(part: Part, channels: int) -> Geometry:
    """Geometry of `channels` equal PIM channels. Raises UserError if the buffer cannot hold the rows' operands."""
    org, unit = part.organization, part.pim_unit
    if unit is None:
        raise UserError("this part has no PIM unit: a matrix cannot be mapped onto it")
    if org.ranks > 1 or org.pseudo_channels > 1:
        raise UserError("PIM-GPT's mapping knows channels of one rank and one pseudo channel only")
    element_bytes = org.row_bytes // (org.columns * unit.lanes)
    row, buffer = org.columns * unit.lanes, unit.global_buffer_bytes // element_bytes
    if buffer < row:
        raise UserError(f"the global buffer holds {buffer} elements, but a row of operands needs {row}")
    return Geometry(channels, org.banks, org.bank_groups, org.rows, row, unit.lanes, buffer, element_bytes)
