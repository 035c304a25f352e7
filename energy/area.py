"""Area of a second row buffer, from the lengths of a bank; an estimate with assumed inputs."""

from typing import NamedTuple

from pimloom.arch.npu_energy import BankLayout
from pimloom.arch.part import Part
from pimloom.arch.units import BITS_PER_BYTE, ceil_div


class SecondRowBuffer(NamedTuple):
    """Area that a second row buffer adds, as a share of a bank with its decoders [1].

    stripe_a_bank: one more stripe of sense amplifiers for the whole bank, a latch for each bit of a row: the least.
    stripe_a_subarray: one more for every subarray, so that a row can stay open in each of the two wherever it lies:
    the most. Wires and switches between them are left out, and so is what a die has beside its banks.
    """

    stripe_a_bank: float
    stripe_a_subarray: float


def second_row_buffer(part: Part, layout: BankLayout) -> SecondRowBuffer:
    """Both estimates for a bank of `part` that is laid out as `layout`."""
    across = ceil_div(part.organization.row_bytes * BITS_PER_BYTE, layout.subarray_columns)
    down = ceil_div(part.organization.rows, layout.subarray_rows)
    columns = layout.subarray_columns + layout.spare_columns
    width_um = across * (columns * layout.bitline_pitch_um + layout.driver_um)
    height_um = down * (layout.subarray_rows * layout.wordline_pitch_um + layout.stripe_um)
    bank_um2 = (width_um + layout.row_decoder_um) * (height_um + layout.column_decoder_um)
    stripe = width_um * layout.stripe_um / bank_um2
    return SecondRowBuffer(stripe, down * stripe)
