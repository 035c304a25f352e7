"""A device of an NPU and PIM channels that serves batches of requests, and the faults of a reference simulator."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from pimloom.arch.link import Link
from pimloom.arch.npu_energy import BankLayout, NpuEnergy
from pimloom.arch.part import Positive
from pimloom.arch.pim_channel import ChannelFaults, Controller, PrechargeScope

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
    pim_precharge: PrechargeScope


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

    constants: Literal["published", "derived"]


class Faults(ChannelFaults, frozen=True, forbid_unknown_fields=True):
    """Departures of NeuPIMs' simulator from physics: true reproduces it, false repairs it."""

    MEANING: ClassVar[Mapping[str, str]] = {
        **ChannelFaults.MEANING,
        "pim_dispatched_singly": "in blocked mode one PIM command leaves the NPU in a clock, for all channels together",
        "requests_by_channel": "PIM takes the requests of a batch channel by channel, not in the order of the list",
        "hashed_lines": "the lines of a memory block leave in the order of a hash set",
        "blocks_shifted": "a block of the NPU's memory begins an element late, so that it touches a line more; without "
        "PIM its addresses go on over the weights of all devices",
        "interconnect": "requests and responses pass the simulator's interconnect, two steps and a wait for the next "
        "clock each way; requests of NPU and PIM for a channel share a buffer there",
        "queues_in_order": "tasks and stores leave in the order of the program, one of each in a cycle, whatever is "
        "ready; a block takes the next addresses when it leaves",
        "ends_seen_late": "an operator starts a cycle after the last response of the one before has come, a stage two "
        "cycles after, and the cycles between stages are not in the total",
        "vectors_by_row": "LayerNorm, Add and activations load, compute and store each row of the batch by itself, and "
        "their parameters each time",
        "strip_stored": "a GEMM stores all places of a tile of rows, but only as many outputs as there are rows",
        "bias_by_rows": "a GEMM loads a bias for each tile of rows, not of outputs, and no step waits for it",
        "weights_first": "a GEMM loads the weights of a depth before its activations",
        "stores_when_idle": "with queues_in_order, a tile of a GEMM is stored as soon as no step that adds to it runs",
        "adds_by_tile": "partial results of attend are added, and stored as if for a whole head, for each tile of V",
        "vector_sizes_lost": "LayerNorm, Add and GELU see no elements; softmax beside PIM takes bytes for elements",
        "one_queue": "requests of NPU and PIM share a queue in front of each channel unless sub-batches interleave",
        "header_counts_rounded": "PIM_HEADER announces COMPs rounded to a power of two",
        "gwrites_of_row_0": "GWRITEs read row 0, where the addresses of the NPU begin, too",
        "attend_not_stored": "results of attend of one row of tokens are not written",
        "same_rows": "all heads of a request read the same rows of V",
        "attend_waits_for_all": "no request's product with V starts before the logits of all requests are there",
        "halves_by_number": "sub-batches take equal numbers of a channel's requests in list order, not equal estimates",
        "silent_devices": "devices that share a layer exchange nothing",
        "narrow_window": "without PIM only 96 requests of a channel may be on their way or wait to be collected",
        "attention_serial": "without PIM attention takes one request and head at a time",
        "arrays_drain": "without PIM weights enter the arrays only when the step before has its result, and the loads "
        "of an operator leave one a clock",
        "starts_early": "a step of the arrays may start before its operands come, vector work beside other work",
        "cache_overallotted": "caches take the rows of all devices' heads, weights none",
        "header_rows_wrap": "the row of a PIM_HEADER for K goes through an address of 32 bits",
    }

    pim_dispatched_singly: bool
    requests_by_channel: bool
    hashed_lines: bool
    blocks_shifted: bool
    interconnect: bool
    queues_in_order: bool
    ends_seen_late: bool
    vectors_by_row: bool
    strip_stored: bool
    bias_by_rows: bool
    weights_first: bool
    stores_when_idle: bool
    adds_by_tile: bool
    vector_sizes_lost: bool
    one_queue: bool
    header_counts_rounded: bool
    gwrites_of_row_0: bool
    attend_not_stored: bool
    same_rows: bool
    attend_waits_for_all: bool
    halves_by_number: bool
    silent_devices: bool
    narrow_window: bool
    attention_serial: bool
    arrays_drain: bool
    starts_early: bool
    cache_overallotted: bool
    header_rows_wrap: bool


class NpuPimSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An NPU and PIM channels. Without `energy` nothing is said of energy, without `bank` nothing of area."""

    description: str
    kind: Literal["npu_pim"]
    dram: PimDram
    controller: Controller
    npu: Arrays
    interleave: Interleave
    packing: Packing
    link: Link
    faults: Faults
    energy: NpuEnergy | None = None
    bank: BankLayout | None = None
