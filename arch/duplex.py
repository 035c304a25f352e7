"""Duplex: a GPU-class processor (xPU) and HBM stacks whose logic die computes, as one device (Yun et al., MICRO 2024,
arXiv:2409.01141)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from pimloom.arch.document import SET
from pimloom.arch.error import UserError
from pimloom.arch.link import Fabric, Link
from pimloom.arch.load import Source, load_yaml
from pimloom.arch.names import find
from pimloom.arch.part import NonNegative, Part, Positive, PositiveFloat
from pimloom.arch.part_file import load_part
from pimloom.arch.units import BYTES_PER_GB, FLOP_PER_TFLOP, HZ_PER_MHZ

OPS_PER_MAC = 2  # a product and a sum


class LogicPim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The GEMM modules on a logic die."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "modules": "GEMM modules of a stack [1]",
        "macs": "multiply-accumulate units of a module [1]",
        "clock_mhz": "their clock [MHz]",
    }

    modules: Positive
    macs: Positive
    clock_mhz: PositiveFloat

    @property
    def tflops(self) -> float:
        """Peak of a stack."""
        return self.modules * self.macs * OPS_PER_MAC * self.clock_mhz * HZ_PER_MHZ / FLOP_PER_TFLOP


class DramPim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units on the DRAM dies, as the paper compares with."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "times_bandwidth": "bandwidth, in that of the pins [1]",
        "op_per_byte": "peak arithmetic rate over it [FLOP/byte]",
    }

    times_bandwidth: Positive
    op_per_byte: PositiveFloat


class Links(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The links between devices of a node, in a ring, and between nodes."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "node": "between devices of a node: a name in arch/fabrics/links.yaml, or its keys",
        "network": "between nodes, as `node`",
    }

    node: Link
    network: Link

    def fabric(self) -> Fabric:
        """Rings within a node, whatever the topology of the link, and the network between nodes."""
        return Fabric(replace(self.node, topology="ring"), far=self.network)


class DuplexEnergy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a device takes beside its memory commands, MACs and links."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "static_w": "power at rest, of a device [W]; null: not counted",
    }

    static_w: NonNegative | None


class DuplexSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One device, as read from `arch/duplex_devices/NAME.yaml`."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "part": "memory of a channel: a name in arch/parts or a path",
        "stacks": "HBM stacks [1]",
        "channels": "channels of a stack [1]",
        "bundle_banks": "banks that the logic die reads at once in a pseudo channel [1]",
        "xpu_tflops": "peak of the xPU, dense FP16 [TFLOPS]",
        "xpu_gb_s": "bandwidth of the xPU where not that of the pins [GB/s]",
        "memory_bytes": "memory [bytes]",
        "logic_area_mm2": "what is added to a logic die [mm2]",
        "logic_die_mm2": "area of a logic die [mm2]",
    }

    description: str
    part: str
    stacks: Positive
    channels: Positive
    bundle_banks: Positive
    xpu_tflops: PositiveFloat
    xpu_gb_s: PositiveFloat | None
    memory_bytes: Positive
    logic_pim: LogicPim
    logic_area_mm2: dict[str, PositiveFloat]
    logic_die_mm2: PositiveFloat
    bank_pim: DramPim
    bank_group_pim: DramPim
    links: Links
    energy: DuplexEnergy


@dataclass(frozen=True)
class Duplex:
    """A device, the part of its channels and the source of every value; bandwidths in bytes/s, rates in FLOP/s, both of
    the whole device."""

    spec: DuplexSpec
    part: Part
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False)

    @property
    def pseudo_channels(self) -> int:
        """Of all stacks."""
        return self.spec.stacks * self.spec.channels * self.part.organization.pseudo_channels

    @property
    def stack_gb_s(self) -> float:
        """Pins x rate of one stack."""
        return self.part.peak_gb_s * self.spec.channels

    @property
    def xpu_bytes_s(self) -> float:
        """Bandwidth of the xPU: that of the pins, or what the file says."""
        return (self.spec.xpu_gb_s or self.stack_gb_s * self.spec.stacks) * BYTES_PER_GB

    @property
    def logic_times(self) -> float:
        """Bandwidth of Logic-PIM in that of the xPU: a bundle in tCCD_L, where the pins read a bank in tCCD_S."""
        return self.spec.bundle_banks * self.part.cycles("tCCD_S") / self.part.cycles("tCCD_L")

    def banks_at_once(self, unit: DramPim) -> float:
        """Banks of a pseudo channel that units on the DRAM dies read at once, each in tCCD_L."""
        return unit.times_bandwidth * self.part.cycles("tCCD_L") / self.part.cycles("tCCD_S")

    @property
    def logic_bytes_s(self) -> float:
        """Bandwidth of Logic-PIM."""
        return self.xpu_bytes_s * self.logic_times

    @property
    def logic_flops(self) -> float:
        """Peak of the GEMM modules of all stacks."""
        return self.spec.logic_pim.tflops * self.spec.stacks * FLOP_PER_TFLOP

    @property
    def logic_op_per_byte(self) -> float:
        """Operations for each byte at which Logic-PIM computes as fast as it reads, at the pins' own rate."""
        return self.logic_flops / (self.stack_gb_s * self.spec.stacks * self.logic_times * BYTES_PER_GB)

    @property
    def logic_area_mm2(self) -> float:
        """What is added to a logic die."""
        return sum(self.spec.logic_area_mm2.values())

    @property
    def logic_area_share(self) -> float:
        """Of the logic die."""
        return self.logic_area_mm2 / self.spec.logic_die_mm2


def load_duplex(name: str = "duplex", overrides: Mapping[str, str] | None = None) -> Duplex:
    """Read a device by name or path; an override `part.FIELD` is one of its part. Raises UserError."""
    given = dict(overrides or {})
    of_part = {key.removeprefix("part."): given.pop(key) for key in list(given) if key.startswith("part.")}
    path = find("duplex_devices", name)
    loaded = load_yaml(path, DuplexSpec, given)
    device = loaded.value.part
    if device.endswith((".yaml", ".yml")) and loaded.sources["part"].file != SET:
        device = str(path.parent / device)  # a path in a file starts at that file
    try:
        part = load_part(device, of_part).value
    except UserError as error:
        said = str(error).replace("--set dram.", "--set ")  # a part says so where several keys are set
        raise UserError(said.replace("--set ", "--set part.")) from None
    if part.pim != "duplex":
        raise UserError(f"{loaded.value.part}: at $.pim: expected duplex, got {part.pim or 'null'}; see arch/pim")
    return Duplex(loaded.value, part, loaded.sources)
