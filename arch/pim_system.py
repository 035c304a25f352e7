"""A PIM system: an ASIC and PIM channels, as PIM-GPT has them."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.part import NonNegative, Positive, PositiveFloat

ClockMhz = Annotated[float, msgspec.Meta(ge=0.1, le=100_000)]  # a period of 10 us to 10 ps


class Dram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory of a PIM system; every key of the part itself may be set below `dram.` as well."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "part": "memory device: a name in arch/parts or a path",
        "channels": "channels, each with a private interface to the ASIC [1]",
        "refresh": "whether refresh is modelled",
    }

    part: str
    channels: Annotated[int, msgspec.Meta(gt=0, le=1024)]
    refresh: bool


class Npu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The logic beside the memory: element-wise operations, partial sums, instruction issue."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "clock_mhz": "ASIC clock [MHz]",
        "multipliers": "BF16 multipliers: elements a nonlinear operation takes per clock [1]",
        "adders": "BF16 adders: additions per clock [1]",
        "layernorm_passes": "passes of LayerNorm over its vector [1]; RMSNorm takes one less, the second norm of a "
        "parallel block one",
        "fill_cyc": "pipeline fill of a nonlinear operation [ASIC cycles]",
        "sram_bytes": "ASIC SRAM [bytes]; recorded, not a limit in the model",
        "power_mw": "ASIC power while the system runs [mW]",
        "area_mm2": "ASIC core area [mm2]; part of the area_mm2 of a sweep",
    }

    clock_mhz: ClockMhz
    multipliers: Positive
    adders: Positive
    layernorm_passes: Positive
    fill_cyc: Annotated[int, msgspec.Meta(ge=0, le=10**6)]
    sram_bytes: Positive
    power_mw: PositiveFloat
    area_mm2: NonNegative


class EnergyMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How all-bank commands are charged: k_act activation currents, k_rd read currents; interface counted or not."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "k_act": "activation currents charged per all-bank ACT: 1, or the banks of a channel if each counts [1]",
        "k_rd": "read currents charged per all-bank MAC [1]",
        "interface": "whether interface energy is counted",
    }

    k_act: PositiveFloat
    k_rd: PositiveFloat
    interface: bool


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is run beside the decoder blocks."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "lm_head": "whether the LM head runs after the last layer",
    }

    lm_head: bool


class PimSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An ASIC and PIM channels."""

    description: str
    kind: Literal["pim"]
    dram: Dram
    npu: Npu
    energy: EnergyMode
    workload: Workload
