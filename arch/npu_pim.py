"""A device of an NPU and PIM channels that serves batches of requests."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.link import LINKED, Fabric, Link, fabric_of
from pimloom.arch.neupims import Faults
from pimloom.arch.npu_energy import BankLayout, NpuEnergy
from pimloom.arch.part import Positive
from pimloom.arch.pim_channel import Controller, PrechargeScope
from pimloom.arch.routing import Routing

Count = Annotated[int, msgspec.Meta(ge=0)]


class PimDram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory of the device; every key of the part itself may be set below `dram.` as well."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "part": "memory device: a name in arch/parts or a path",
        "channels": "channels of the device, each with all its pseudo channels [1]",
        "lanes": "multipliers of PIM beside a bank: elements of a row that a COMP takes; 0 without PIM [1]",
        "row_buffers": "dual: PIM has a row buffer of its own; blocked: it shares the only one; none: there is no PIM",
        "pim_precharge": "PIM rows that one PIM_PRECHARGE closes: of a bank, a bank group or the channel",
    }

    part: str
    channels: Annotated[int, msgspec.Meta(gt=0, le=256)]
    lanes: Count
    row_buffers: Literal["dual", "blocked", "none"]
    pim_precharge: PrechargeScope = "bank"


class Arrays(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The NPU: systolic arrays and vector units."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "clock_mhz": "NPU clock [MHz]",
        "arrays": "systolic arrays, which share the rows that stream through [1]",
        "rows": "rows of an array, and its columns [1]",
        "dataflow": "what stands still in the arrays: ws, an operand (weight stationary); os, the results",
        "least_step_cyc": "least time between two steps of the arrays [NPU cycles]",
        "gemv_load_cyc": "until idle arrays hold the vector of a matrix-vector product [NPU cycles]",
        "vector_units": "vector units [1]",
        "vector_lanes": "lanes of a vector unit [1]",
        "element_bits": "width of weights, activations and cache [bits]",
    }

    clock_mhz: Annotated[float, msgspec.Meta(ge=0.1, le=100_000)]
    arrays: Positive
    rows: Annotated[int, msgspec.Meta(ge=2, le=4096)]
    dataflow: Literal["ws", "os"]
    least_step_cyc: Positive
    gemv_load_cyc: Count
    vector_units: Positive
    vector_lanes: Positive
    element_bits: Literal[8, 16, 32]


class Interleave(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a batch is cut so that the NPU works on one part while PIM works on another."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "sub_batches": "sub-batches that take turns on NPU and PIM; 1: none [1]",
    }

    sub_batches: Positive


class Packing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the time of a request's attention is estimated, by which channels and sub-batches are filled."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "constants": "published: L_gw 100 and L_tile 184 of Algorithm 1; derived: measured on a channel of this system",
    }

    constants: Literal["published", "derived"] = "published"


class NpuPimSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An NPU and PIM channels. Without `energy` nothing is said of energy, without `bank` nothing of area."""

    MEANING: ClassVar[Mapping[str, str]] = LINKED

    description: str
    kind: Literal["npu_pim"]
    dram: PimDram
    controller: Controller
    npu: Arrays
    interleave: Interleave
    link: Link
    packing: Packing = Packing()
    faults: Faults = Faults()
    energy: NpuEnergy | None = None
    bank: BankLayout | None = None
    domain: Positive | None = None
    network: Link | None = None
    routing: Routing = Routing()

    def fabric(self, devices: int, where: str) -> Fabric:
        """See `fabric_of`; of one device, too, which may send to the next stage of a pipeline."""
        return fabric_of(self.link, self.domain, self.network, devices, where) or Fabric(self.link)
