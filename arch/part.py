"""A DRAM device: one YAML file of numbers, compiled with its standard's tables into plain arrays."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec

from pimloom.arch.units import BITS_PER_BYTE, Milliampere, Time, Volt

Positive = Annotated[int, msgspec.Meta(gt=0)]
PositiveFloat = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]


class Organization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Geometry of one channel; a column is one column access of `access_bits`."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "pseudo_channels": "pseudo channels of a channel [1]",
        "ranks": "ranks of a pseudo channel [1]",
        "bank_groups": "bank groups of a rank [1]",
        "banks_per_group": "banks of a bank group [1]",
        "rows": "rows of a bank [1]",
        "columns": "column accesses of a row [1]",
        "access_bits": "width of a column access [bits]",
        "dq_bits": "data pins of a channel [1]",
        "pin_gbps": "data rate of a pin [Gb/s]",
        "capacity_bytes": "capacity of a channel [bytes]",
    }

    pseudo_channels: Positive
    ranks: Positive
    bank_groups: Positive
    banks_per_group: Positive
    rows: Positive
    columns: Positive
    access_bits: Positive
    dq_bits: Positive
    pin_gbps: PositiveFloat
    capacity_bytes: Positive

    @property
    def banks(self) -> int:
        """Banks of a channel, over all pseudo channels and ranks."""
        return self.pseudo_channels * self.ranks * self.bank_groups * self.banks_per_group

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of one bank."""
        return self.columns * self.access_bits // BITS_PER_BYTE


class PimUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The MAC unit beside each bank and the buffer it is fed from."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "lanes": "multipliers beside a bank [1]",
        "element_bits": "width of an operand [bits]",
        "mac_power_mw": "power of all MAC units of a channel while they work [mW]",
        "global_buffer_bytes": "global buffer of a channel [bytes]",
    }

    lanes: Positive
    element_bits: Positive
    mac_power_mw: PositiveFloat
    global_buffer_bytes: Positive


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One device, as read from `arch/parts/NAME.yaml`. A default is left out of the digest of a system."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "standard": "DRAM standard: a table in arch/dram",
        "pim": "PIM instruction set: a table in arch/pim",
        "tCK_ps": "clock period [ps]",
        "VDD": "supply voltage",
        "io_pj_per_bit": "energy of one bit on the interface [pJ/bit]",
        "devices": "devices that share a channel's pins; currents are each one's, shared by pseudo channels [1]",
        "one_bus": "whether row and column commands share a bus: one command a clock, as in Ramulator 2.0 [1]",
        "current.IDD0": "one bank activating and precharging",
        "current.IDD2N": "precharge standby",
        "current.IDD3N": "active standby, all banks open",
        "current.IDD4R": "burst read",
        "current.IDD4W": "burst write",
        "current.IDD5B": "burst refresh",
        "current.IDD5PB": "per-bank refresh",
        "current.IDD6": "self-refresh",
    }

    description: str
    standard: str
    pim: str | None
    tCK_ps: Positive
    organization: Organization
    timing: dict[str, Time]
    VDD: Volt
    current: dict[str, Milliampere]
    io_pj_per_bit: NonNegative
    pim_unit: PimUnit | None = None
    devices: Positive = 1
    one_bus: bool = False

    @property
    def peak_gb_s(self) -> float:
        """Interface bandwidth of a channel in GB/s: pins × rate."""
        return self.organization.dq_bits * self.organization.pin_gbps / BITS_PER_BYTE

    @property
    def chips(self) -> int:
        """Devices of a channel, over all ranks: each draws the currents of the file."""
        return self.devices * self.organization.ranks

    def cycles(self, name: str) -> int:
        """Clocks [CK] of one timing parameter."""
        return self.timing[name].cycles(self.tCK_ps)
