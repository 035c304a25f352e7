"""What work costs on an NPU with PIM, and the lengths from which a second row buffer's area is estimated."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from pimloom.arch.part import NonNegative, Positive, PositiveFloat


class NpuEnergy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Energy of the NPU by what it does; that of the memory follows from the part's currents and `comp_reads`."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "comp_reads": "READs whose energy a COMP in all banks of a channel takes [1]",
        "pj_per_mac": "multiply-accumulate of a systolic array, before logic_scale [pJ]",
        "pj_per_vector_op": "operation of a lane of a vector unit, before logic_scale [pJ]",
        "pj_per_sram_byte": "byte into a scratchpad or out of it, before logic_scale [pJ]",
        "logic_scale": "energy of the NPU's node over that of the node of the figures above, links left out [1]",
        "static_w": "power of the NPU that does nothing [W]",
    }

    pj_per_mac: NonNegative
    pj_per_vector_op: NonNegative
    pj_per_sram_byte: NonNegative
    logic_scale: PositiveFloat
    static_w: NonNegative
    comp_reads: PositiveFloat = 4.0  # [paper] Heo et al., ASPLOS 2024


class BankLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bank of DRAM as subarrays of cells, each with a stripe of sense amplifiers along its rows."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "bitline_pitch_um": "distance of two bitlines [µm]",
        "wordline_pitch_um": "distance of two wordlines [µm]",
        "subarray_columns": "bitlines of a subarray that hold data [1]",
        "spare_columns": "spare bitlines of a subarray [1]",
        "subarray_rows": "rows of a subarray [1]",
        "stripe_um": "height of a stripe of sense amplifiers [µm]",
        "driver_um": "width of the wordline drivers of a subarray [µm]",
        "row_decoder_um": "width of the row decoder of a bank [µm]",
        "column_decoder_um": "height of the column decoder of a bank [µm]",
    }

    bitline_pitch_um: PositiveFloat
    wordline_pitch_um: PositiveFloat
    subarray_columns: Positive
    spare_columns: NonNegative
    subarray_rows: Positive
    stripe_um: PositiveFloat
    driver_um: NonNegative
    row_decoder_um: NonNegative
    column_decoder_um: NonNegative
