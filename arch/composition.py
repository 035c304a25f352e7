"""A system that is composed: units that compute, memories, links, where each kind of operator runs, what overlaps."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from pimloom.arch.link import Link
from pimloom.arch.part import NonNegative, Positive, PositiveFloat
from pimloom.arch.pim_channel import Controller
from pimloom.arch.routing import Routing

Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Gbps = Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]
GbS = Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]


class PartMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Channels of a DRAM part; every key of the part itself may be set below it as well."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "part": "memory device: a name in arch/parts or a path",
        "channels": "channels, each with all its pseudo channels [1]",
        "controller": "controller of a channel, which systolic arrays need; keys as of an NPU's system",
        "pj_per_bit": "energy of a bit that is read or written by a unit outside the banks [pJ]",
    }

    part: str
    channels: Annotated[int, msgspec.Meta(gt=0, le=1024)]
    controller: Controller | None = None
    pj_per_bit: NonNegative | None = None


class PlainMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory of which only its bandwidth and its size are known: for a roofline."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "gb_s": "bandwidth [GB/s]",
        "bytes": "size [bytes]",
        "pj_per_bit": PartMemory.MEANING["pj_per_bit"],
    }

    gb_s: GbS
    bytes: Positive
    pj_per_bit: NonNegative | None = None


Memory = PartMemory | PlainMemory


class ArraysUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Systolic arrays with vector units, simulated clock by clock before the channels of their memory."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "type": "arrays: systolic arrays with vector units; gemv: matrix-vector units in memory; roofline: a processor",
        "memory": "the memory in which the unit's weights, K and V lie, and what it reads and writes",
        "clock_mhz": "NPU clock [MHz]",
        "arrays": "systolic arrays, which share the rows that stream through [1]",
        "rows": "rows of an array, and its columns [1]",
        "dataflow": "what stands still in the arrays: ws, an operand (weight stationary); os, the results",
        "least_step_cyc": "least time between two steps of the arrays [NPU cycles]",
        "gemv_load_cyc": "until idle arrays hold the vector of a matrix-vector product [NPU cycles]",
        "vector_units": "vector units [1]",
        "vector_lanes": "lanes of a vector unit [1]",
        "power_w": "power while the unit works [W]",
    }

    type: Literal["arrays"]
    memory: str
    clock_mhz: Annotated[float, msgspec.Meta(ge=0.1, le=100_000)]
    arrays: Positive
    rows: Annotated[int, msgspec.Meta(ge=2, le=4096)]
    dataflow: Literal["ws", "os"]
    least_step_cyc: Positive
    gemv_load_cyc: Count
    vector_units: Positive
    vector_lanes: Positive
    power_w: PositiveFloat | None = None


class GemvUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units in a memory that multiply a matrix, read once for each vector, by that vector."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "at": "where its multipliers stand: beside each bank, in each bank group, or on the logic die of a channel",
        "lanes": "elements of a column access that multipliers at one place take at once [1]",
        "pim_precharge": "of NeuPIMs' PIM, the rows that one PIM_PRECHARGE closes: of a bank, a group, the channel",
    }

    type: Literal["gemv"]
    memory: str
    at: Literal["bank", "bank_group", "logic_die"]
    lanes: Positive
    pim_precharge: Literal["bank", "group", "channel"] | None = None
    power_w: PositiveFloat | None = None


class RooflineUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A processor at its roofline: each operator takes the longer of its operations and its bytes, and a launch."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "peak_tflops": "peak arithmetic rate [TFLOPS]",
        "peak_share": "share of the peak rate that can be had [1]",
        "memory_share": "share of the memory bandwidth that can be had [1]",
        "launch_us": "cost of starting an operator [µs]",
    }

    type: Literal["roofline"]
    memory: str
    peak_tflops: PositiveFloat
    peak_share: Share
    memory_share: Share
    launch_us: NonNegative
    power_w: PositiveFloat | None = None


UNITS: dict[str, type[msgspec.Struct]] = {"arrays": ArraysUnit, "gemv": GemvUnit, "roofline": RooflineUnit}


class Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link between two memories of the system; it carries data both ways at once."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "between": "the two memories that it joins",
        "gbps": "rate, each way [Gb/s]",
        "latency_ns": "from a message's last bit sent to its arrival [ns]",
        "pj_per_bit": "energy of a bit [pJ]",
    }

    between: tuple[str, str]
    gbps: Gbps
    latency_ns: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    pj_per_bit: NonNegative | None = None


class Overlap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What more than dependencies and busy units shapes a step: parts of a batch, of attention, of the experts."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "sub_batches": "parts into which the requests of a batch are dealt, which take turns; 1: none [1]",
        "heads": "pipelined: scores, softmax and values of some heads run while those of others do; whole: they do not",
        "experts": "co-processed: the experts are dealt over two units by their price; one unit: they are not",
    }

    sub_batches: Positive = 1
    heads: Literal["whole", "pipelined"] = "whole"
    experts: Literal["one unit", "co-processed"] = "one unit"


PHASES = ("prefill", "decode", "verify")
KINDS = (
    "embedding", "gemm", "score", "softmax", "value", "norm", "activation", "multiply", "add", "rotary", "cache_write",
    "router", "sampling",
)  # fmt: skip
PARTS = ("experts", "lm_head")  # of the gemms
ALL = "all"
PEERS = "peers"
STANDBY, REFRESH = "background", "refresh"  # causes of energy: memories that wait, and that are refreshed


class ComposedSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units, memories, links, where each kind of operator runs in each phase, and how work overlaps."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "element_bits": "width of weights, activations and cache [bits]",
        "memories": "memories by name: a part and its channels, or a bandwidth and a size",
        "units": "units that compute, by name",
        "links": "links between memories, by name",
        "peers": "link to the next of the devices that share a model (--tp)",
        "runs": "by phase (prefill, decode, verify) and kind of operator the unit that runs it; all: every other kind; "
        "lm_head, experts: those of the gemm",
        "overlap": "serial: one operator at a time; concurrent: operators wait for their operands and for their unit; "
        "or the keys of a mapping: concurrent, and what more",
        "routing": "how tokens choose experts",
    }

    description: str
    kind: Literal["composed"]
    element_bits: Literal[8, 16, 32]
    memories: Mapping[str, Memory]
    units: Mapping[str, Any]  # of the types in UNITS
    runs: Mapping[str, Mapping[str, str | tuple[str, str]]]
    overlap: Literal["serial", "concurrent"] | Overlap
    links: Mapping[str, Wire] = {}
    peers: Link | None = None
    routing: Routing = Routing()

    @property
    def how(self) -> Overlap:
        """The overlap with all its keys; of `serial`, too, which has none of them."""
        return Overlap() if isinstance(self.overlap, str) else self.overlap
