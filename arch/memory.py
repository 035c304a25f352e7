"""What a memory controller simulation reads: the device's table, how addresses map, and the controller's policy."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

from pimloom.arch.command import POSTPONED_MAX
from pimloom.arch.part import NonNegative, Positive
from pimloom.arch.table import Table

FIELDS = ("channel", "pseudo_channel", "rank", "bank_group", "bank", "row", "column")
Entries = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a controller queues, chooses, closes rows, refreshes and sleeps: one YAML file in `arch/controllers`.

    `structure: queued` has read and write queues before command queues (per bank, per rank, or one); `buffered` chooses
    straight from a read and a write buffer, and holds opened requests in an active buffer.
    """

    MEANING: ClassVar[Mapping[str, str]] = {
        "structure": "queued: transaction queues before command queues; buffered: one scheduler over two buffers",
        "read_entries": "reads that wait in the controller [1]",
        "write_entries": "writes that wait in the controller [1]",
        "unified": "reads and writes share the read queue (queued only)",
        "queues": "command queues: per bank, per rank, or unified (queued only)",
        "requests_per_ck": "requests that are accepted, and move to a command queue, in a clock (queued only) [1]",
        "queue_entries": "entries of a command queue (queued only) [1]",
        "scheduler": "fr_fcfs: the oldest command that is ready; fr_fcfs_row_hit: no row is closed under an older hit",
        "arbiter": "which command queue comes first: round_robin, or oldest (queued only)",
        "page": "open; closed: every access precharges; adaptive: rows close after page_timeout_ck or row_hit_cap",
        "page_timeout_ck": "clocks without an access after which an adaptive page closes [CK]",
        "row_hit_cap": "row hits after which a waiting miss may close the row; buffered: accesses before it closes [1]",
        "drain_high": "share of the write queue at which writes begin to drain",
        "drain_low": "share of the write queue at which draining stops",
        "drain_idle": "writes above which draining begins while no command waits (queued only) [1]",
        "refresh": "none, all_bank (all ranks at once), staggered (ranks in turn), per_bank",
        "self_refresh_after_ck": "idle clocks after which a rank enters self-refresh; null: never [CK]",
        "quirks": "faults of a reference simulator that are reproduced; none unless that simulator is asked for",
    }

    structure: Literal["queued", "buffered"]
    read_entries: Entries
    write_entries: Entries
    unified: bool
    queues: Literal["per_bank", "per_rank", "unified"]
    queue_entries: Entries
    requests_per_ck: Annotated[int, msgspec.Meta(ge=1, le=16)]
    scheduler: Literal["fr_fcfs", "fr_fcfs_row_hit"]
    arbiter: Literal["round_robin", "oldest"]
    page: Literal["open", "closed", "adaptive"]
    page_timeout_ck: Positive
    row_hit_cap: Positive
    drain_high: Share
    drain_low: Share
    drain_idle: Annotated[int, msgspec.Meta(ge=0)]
    refresh: Literal["none", "all_bank", "staggered", "per_bank"]
    self_refresh_after_ck: Positive | None
    quirks: Literal["none", "dramsim3", "ramulator2"]


class Currents(NamedTuple):
    """Supply voltage [V], currents [mA] by JEDEC name (IDD0, IDD2N, …), devices of a rank or pseudo channel [1]."""

    vdd: float
    idd: Mapping[str, NonNegative]
    devices: float


class Memory(NamedTuple):
    """A memory system: `channels` equal channels of one device behind one controller each.

    table: commands ACT PRE PREab RD WR RDA WRA REFab, and where the device has them REFpb SRE SRX. clocks [CK]: nCL,
    nCWL, nBL and tREFI at least; tRFC, tREFIpb, tRFCpb, tFAW … where known; tRC, tRAS, tRP where energy is asked for.
    address: (field, bits) from the least significant bit above `offset_bits` on; a field may come in several pieces,
    least significant first. postponed: REFab that the
    standard allows to postpone. warnings: one sentence each, for the user.
    """

    name: str
    table: Table
    channels: int
    tCK_ps: int
    clocks: Mapping[str, int]
    access_bytes: int
    offset_bits: int
    address: tuple[tuple[str, int], ...]
    peak_gb_s: float
    policy: Policy
    currents: Currents | None
    postponed: int = POSTPONED_MAX
    warnings: tuple[str, ...] = ()
    interface_pj: float = 0.0  # of an access over the data pins

    @property
    def capacity_bytes(self) -> int:
        """Bytes that addresses reach, over all channels."""
        return 1 << self.offset_bits + sum(bits for _, bits in self.address)
