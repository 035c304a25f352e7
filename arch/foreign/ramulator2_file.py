"""The schema of a configuration that Ramulator 2.1 has exported, as far as it is supported.

Facts of CMU-SAFARI/ramulator2@c5b1c3a.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import msgspec

from pimloom.arch.command import Level
from pimloom.arch.error import UserError
from pimloom.arch.foreign.limits import LONGEST_CK
from pimloom.arch.load import Source, load_tree, load_yaml
from pimloom.arch.memory import Entries, Share
from pimloom.arch.part import Positive

Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]
Clocks = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_CK)]
EXPORT = "export the configuration first: python -m ramulator export SCRIPT.py -o FILE.yaml"


class Mapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which bits of an address choose the channel: `interleave_bits` above a burst."""

    impl: Literal["CacheLineInterleave"]
    interleave_bits: Annotated[int, msgspec.Meta(ge=0, le=40)] = 0


class Scheduler(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which request comes first."""

    impl: Literal["FRFCFS", "FRFCFS-RowHit"]


class Refresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When REFab falls due; ranks at once (`scatter_interval` 0)."""

    impl: Literal["AllBank", "NoRefresh"]
    scatter_interval: Literal[0] = 0
    debug: bool = False


class RowPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When rows close; `cap`: column accesses after which ClosedCAP closes one [1]."""

    impl: Literal["Open", "ClosedCAP"]
    cap: Annotated[int, msgspec.Meta(ge=1, le=1 << 24)] | None = None


class AddressMapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an address is cut into row, bank, rank and column."""

    impl: Literal["RoBaRaCoCh"]


class Organization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Data pins of a device [1]; nodes of each level, then rows and columns [1]."""

    dq: Size
    count: list[Size]


class Dram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device, resolved: timing and read_latency [CK] (rate [Mb/s], tCK_ps [ps]), channel_width [bits]."""

    impl: Literal["DDR4", "HBM2", "GDDR6"]
    org: Organization
    timing: list[Clocks]
    channel_width: Annotated[int, msgspec.Meta(ge=8, le=8192)]
    read_latency: Clocks
    timing_constraints: list[list[Any]]
    command_cycles: list[Clocks] = []


class Plugin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one plugin that changes nothing: it records commands."""

    impl: Literal["CmdTraceRecorder"]
    path: str = ""
    binary: bool = False


class Controller(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The controller of one channel."""

    impl: Literal["GenericDDR", "HBM12"]
    scheduler: Scheduler
    refresh_manager: Refresh
    row_policy: RowPolicy
    addr_mapper: AddressMapper
    dram: Dram
    wr_low_watermark: Share = 0.2
    wr_high_watermark: Share = 0.8
    read_buffer_size: Entries = 32
    write_buffer_size: Entries = 32
    priority_buffer_size: Positive = 1568
    controller_plugins: list[Plugin] = []


class MemorySystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Controllers, one a channel."""

    impl: Literal["GenericDRAM"]
    channel_mapper: Mapper
    controllers: Annotated[list[Controller], msgspec.Meta(min_length=1)]
    clock_ratio: Positive = 1


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file; nothing of the front end is used."""

    memory_system: MemorySystem
    frontend: dict[str, Any] | None = None


class Standard(NamedTuple):
    """What a standard's numbers stand for: levels down to the bank, commands and timings in order; the scope of
    REFab and PREab; columns of a burst [1]."""

    levels: tuple[Level, ...]
    commands: tuple[str, ...]
    timings: tuple[str, ...]
    scope: Level
    prefetch: int


_HEAD = "rate nBL nCL"
_GAPS = "nCCDS nCCDL nRRDS nRRDL nWTRS nWTRL nFAW"
_SPLIT = f"{_HEAD} nRCDRD nRCDWR nRP nRAS nRC nWR"
_COLUMN = "RD WR RDA WRA REFab"
STANDARDS: Mapping[str, Standard] = {
    "DDR4": Standard(
        (Level.CHANNEL, Level.RANK, Level.BANK_GROUP, Level.BANK),
        tuple(f"ACT PRE PREab {_COLUMN}".split()),
        tuple(f"{_HEAD} nRCD nRP nRAS nRC nWR nRTP nCWL {_GAPS} nRFC nREFI nCS tCK_ps".split()),
        Level.RANK,
        8,
    ),
    "HBM2": Standard(
        (Level.CHANNEL, Level.PSEUDO_CHANNEL, Level.BANK_GROUP, Level.BANK),
        tuple(f"ACT PRE PREab {_COLUMN} REFpb".split()),
        tuple(f"{_SPLIT} nRTPL nCWL {_GAPS} nRFC nRFCpb nRREFD nREFI nREFIpb tCK_ps".split()),
        Level.PSEUDO_CHANNEL,
        4,
    ),
    "GDDR6": Standard(
        (Level.CHANNEL, Level.BANK_GROUP, Level.BANK),
        tuple(f"ACT PREab PRE {_COLUMN} REFpb".split()),
        tuple(f"{_SPLIT} nRTP nCWL {_GAPS} nRFCpb nRREFD nREFI tCK_ps nRFCab nPPD".split()),
        Level.CHANNEL,
        16,
    ),
}


class Config(NamedTuple):
    """A file that has been read, and what its numbers stand for. timing: by the tool's names."""

    path: str
    sources: Mapping[str, Source]
    system: MemorySystem
    controller: Controller
    standard: Standard
    timing: Mapping[str, int]
    nodes: Mapping[Level, int]  # of each level, inside one of the level around it
    frontend: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """Rows of a bank [1]."""
        return self.controller.dram.org.count[-2]

    @property
    def columns(self) -> int:
        """Columns of a row in the tool's own count, `prefetch` of them in a burst [1]."""
        return self.controller.dram.org.count[-1]

    def line(self, place: str) -> int:
        """The line of a place, or of the nearest place around it that the file has."""
        while place not in self.sources and "." in place:
            place = place.rpartition(".")[0]
        return self.sources[place].line if place in self.sources else 1

    def fail(self, place: str, said: str) -> NoReturn:
        """Raise UserError about a place."""
        raise UserError(f"{self.path}:{self.line(place)}: at $.{place}: {said}")


FIRST = "memory_system.controllers[0]"


def read_config(path: Path) -> Config:
    """Read and check a file. Raises UserError."""
    _check_exported(path)
    loaded = load_yaml(path, File)
    system = loaded.value.memory_system
    controller = system.controllers[0]
    dram = controller.dram
    standard = STANDARDS[dram.impl]
    levels, timings, count = standard.levels, standard.timings, dram.org.count
    named = Config(
        str(path),
        loaded.sources,
        system,
        controller,
        standard,
        dict(zip(timings, dram.timing, strict=False)),
        dict(zip(levels, count, strict=False)),
        loaded.value.frontend or {},
    )
    _check(named)
    return named


def _check_exported(path: Path) -> None:
    """Say what to do with a file that the tool has not resolved; other faults are the schema's to name."""
    tree, sources = load_tree(path)
    if isinstance(tree, dict) and "MemorySystem" in tree:
        line = sources["MemorySystem"].line
        raise UserError(f"{path}:{line}: MemorySystem belongs to Ramulator 2.0, expected a file of 2.1; {EXPORT}")
    try:
        dram = tree["memory_system"]["controllers"][0]["dram"]
    except (LookupError, TypeError):
        return
    if isinstance(dram, dict) and "timing_constraints" not in dram:
        line = sources[f"{FIRST}.dram"].line
        raise UserError(f"{path}:{line}: at $.{FIRST}.dram: no timing_constraints; {EXPORT}")


def _check(config: Config) -> None:
    dram, standard = config.controller.dram, config.standard
    if len(dram.timing) != len(standard.timings):
        expected = f"expected {len(standard.timings)} values ({', '.join(standard.timings)})"
        config.fail(f"{FIRST}.dram.timing", f"{expected}, got {len(dram.timing)}")
    levels = [level.name.lower() for level in standard.levels]
    if len(dram.org.count) != len(levels) + 2:
        config.fail(f"{FIRST}.dram.org.count", f"expected {', '.join(levels)}, row, column, got {len(dram.org.count)}")
    for i, nodes in enumerate(dram.org.count):
        if nodes & (nodes - 1):
            config.fail(f"{FIRST}.dram.org.count[{i}]", f"expected a power of two, got {nodes}")
    if dram.org.count[0] != 1:
        config.fail(f"{FIRST}.dram.org.count[0]", "expected 1: a controller drives one channel")
    if config.controller.impl == "HBM12" and dram.impl != "HBM2":
        config.fail(f"{FIRST}.impl", f"expected GenericDDR for {dram.impl}, got HBM12")
    _check_controllers(config)


def _check_controllers(config: Config) -> None:
    """Channels are equal, and a power of two of them; the order of their plugins' files does not matter."""
    first = msgspec.structs.replace(config.controller, controller_plugins=[])
    others = config.system.controllers
    for i, other in enumerate(others):
        if msgspec.structs.replace(other, controller_plugins=[]) != first:
            config.fail(
                f"memory_system.controllers[{i}]", "expected the same as controllers[0]: channels are equal here"
            )
    if len(others) & (len(others) - 1) or len(others) > 1024:
        config.fail("memory_system.controllers", f"expected a power of two of controllers, got {len(others)}")
