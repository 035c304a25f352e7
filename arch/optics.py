"""Optical parts: a transceiver with a switch in it, one YAML file of numbers among `arch/parts`, of `kind: optics`.

`switch_table` turns a part into plain integers; `cycle_sim/ocs.py` and `rtl/ocs_switch.py` both read those and nothing
else.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

from pimloom.arch.document import SET, nearest
from pimloom.arch.error import UserError
from pimloom.arch.load import Loaded, Source, load_yaml
from pimloom.arch.names import find_optics
from pimloom.arch.part import NonNegative, Positive, PositiveFloat
from pimloom.arch.units import M_PER_KM, PS_PER_NS, Time, ceil_div, mhz_to_ps

MOST_ENTRIES = 64
LONGEST_CYC = 2**31  # of a switch or a wait: what a counter in gates may hold
Dbm = Annotated[float, msgspec.Meta(ge=-100, le=100)]


class Lanes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Electrical lanes of a module."""

    MEANING: ClassVar[Mapping[str, str]] = {"tx": "lanes that send [1]", "rx": "lanes that receive [1]"}

    tx: Positive
    rx: Positive


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the path table."""

    path: str
    backup: str | None


class SwitchTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What passes until data flow again."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "reconfigure": "from one path to another: no light on any, the worst case",
        "reconfigure_best": "the same, the best case",
        "detect": "for how long a path has no light until it counts as failed",
        "decide": "from there to the switch to the backup entry",
        "retrain": "receivers lock and adapt again after a switch",
        "rebuild": "software makes its communicator again after a failover",
    }

    reconfigure: Time
    reconfigure_best: Time
    detect: Time
    decide: Time
    retrain: Time
    rebuild: Time


class Optical(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The link budget of a lane."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "transmit_dbm": "power into the sender's switch [dBm]",
        "sensitivity_dbm": "power that the receiver needs [dBm]",
        "insertion_db": "loss of a switch, typical [dB]",
        "insertion_worst_db": "loss of a switch, at any temperature [dB]",
        "connector_db": "loss of a connector [dB]",
        "connectors": "connectors of a link [1]",
        "fibre_db_per_km": "loss of fibre [dB/km]",
    }

    transmit_dbm: Dbm
    sensitivity_dbm: Dbm
    insertion_db: NonNegative
    insertion_worst_db: NonNegative
    connector_db: NonNegative
    connectors: Annotated[int, msgspec.Meta(ge=0, le=100)]
    fibre_db_per_km: NonNegative


class Hop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From one GPU of a ring to the next."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "latency_ns": "from a message's last bit sent to its arrival at the neighbour, without fibre [ns]",
        "fibre_m": "fibre between neighbouring nodes [m]",
        "fibre_ns_per_m": "delay of fibre [ns/m]",
        "gbps": "rate of a hop, each way [Gb/s]",
    }

    latency_ns: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    fibre_m: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    fibre_ns_per_m: Annotated[float, msgspec.Meta(ge=0, le=1000)]
    gbps: Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]


class Optics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An optical transceiver with a switch, as read from `arch/parts/NAME.yaml`."""

    MEANING: ClassVar[Mapping[str, str]] = {
        "clock_mhz": "control clock [MHz]",
        "gbps": "rate of the live path, each way [Gb/s]",
        "paths": "optical paths; one at a time is live",
        "bundle_modules": "modules that switch together [1]",
        "power_w": "power of a module [W]",
        "core_power_w": "power of its switch [W]",
        "cost_usd": "price of a module [$]",
    }

    kind: Literal["optics"]
    description: str
    clock_mhz: Annotated[float, msgspec.Meta(ge=0.001, le=100_000)]
    gbps: PositiveFloat
    lanes: Lanes
    paths: Annotated[list[str], msgspec.Meta(min_length=2, max_length=8)]
    table: Annotated[dict[str, Entry], msgspec.Meta(min_length=1, max_length=MOST_ENTRIES)]
    timing: SwitchTimes
    optical: Optical
    hop: Hop
    bundle_modules: Positive
    power_w: PositiveFloat
    core_power_w: PositiveFloat
    cost_usd: NonNegative

    @property
    def clock_ps(self) -> int:
        """Period of the control clock [ps]."""
        return mhz_to_ps(self.clock_mhz)

    @property
    def failover_ps(self) -> dict[str, int]:
        """What passes from the loss of a path to work on another one [ps], by cause, in order."""
        times = self.timing
        causes = ("detect", "decide", "reconfigure", "retrain", "rebuild")
        return {cause: getattr(times, cause).ps for cause in causes}

    def hop_ps(self, nodes: int) -> int:
        """Latency of a hop [ps]: within a node (nodes 0), or to the node that many places on."""
        hop = self.hop
        return round((hop.latency_ns + nodes * hop.fibre_m * hop.fibre_ns_per_m) * PS_PER_NS)


class SwitchTable(NamedTuple):
    """All that decides what a transceiver does, in clocks of its control clock and numbers of paths and entries.

    detect: clocks without light after which a path has failed in the next one; decide, from 1: clocks in which the live
    path has failed until the failover starts, its own included; blackout, from 1, and retrain: of a switch. entries:
    (path, backup entry) each; one that is its own backup has none. The first is live after reset.
    """

    detect: int
    decide: int
    blackout: int
    retrain: int
    paths: int
    entries: tuple[tuple[int, int], ...]

    @property
    def switch(self) -> int:
        """Clocks of a switch without data."""
        return self.blackout + self.retrain

    @property
    def bound(self) -> int:
        """Clocks after which a request has been served or refused at the latest."""
        return 2 * self.switch + 1


def load_optics(name: str, overrides: Mapping[str, str] | None = None) -> Loaded[Optics]:
    """Read an optical part by name or path, with `--set` overrides by dotted place, and check it. Raises UserError."""
    loaded = load_yaml(find_optics(name), Optics, overrides or {})
    part, sources = loaded.value, loaded.sources
    if twice := [path for n, path in enumerate(part.paths) if path in part.paths[:n]]:
        _refuse(sources, "paths", f"expected each path once, got {twice[0]!r} twice")
    for entry, row in part.table.items():
        if row.path not in part.paths:
            _refuse(sources, f"table.{entry}.path", _one_of("path", row.path, part.paths))
        if row.backup is not None and row.backup not in part.table:
            _refuse(sources, f"table.{entry}.backup", _one_of("entry", row.backup, list(part.table)))
    times = part.timing
    for cause in SwitchTimes.__struct_fields__:
        time: Time = getattr(times, cause)
        if time.ck:
            _refuse(sources, f"timing.{cause}", f"expected a time such as 80 us, got {time.ck} nCK")
        if cause in ("decide", "reconfigure") and not time.ps:
            _refuse(sources, f"timing.{cause}", "expected more than 0: the controller takes at least one clock")
        if cause != "rebuild" and ceil_div(time.ps, part.clock_ps) >= LONGEST_CYC:
            _refuse(sources, f"timing.{cause}", f"expected less than 2^31 clocks of {part.clock_ps} ps")
    if times.reconfigure_best.ps > times.reconfigure.ps:
        _refuse(sources, "timing.reconfigure_best", "expected at most the worst case, timing.reconfigure")
    return loaded


def switch_table(part: Optics) -> SwitchTable:
    """The part as plain integers; a time takes whole clocks, rounded up."""
    times, number = part.timing, {entry: n for n, entry in enumerate(part.table)}
    return SwitchTable(
        detect=times.detect.cycles(part.clock_ps),
        decide=times.decide.cycles(part.clock_ps),
        blackout=times.reconfigure.cycles(part.clock_ps),
        retrain=times.retrain.cycles(part.clock_ps),
        paths=len(part.paths),
        entries=tuple((part.paths.index(row.path), number[row.backup or entry]) for entry, row in part.table.items()),
    )


class BudgetLine(NamedTuple):
    """One item of a link budget: what it takes away [dB], and the power behind it [dBm]."""

    item: str
    db: float
    dbm: float


def link_budget(part: Optics, nodes: int = 1, *, worst: bool = False) -> list[BudgetLine]:
    """The way of a lane's light to the node `nodes` places on, or through the loopback (0): a line for each loss.

    Light passes the sender's switch and the receiver's; in the loopback one switch, and no connector [design]. The last
    line is the receiver: the power it needs, and as its `db` the margin, negative where the link does not close.
    """
    optical = part.optical
    if nodes < 0:
        raise ValueError(f"expected a distance from 0 nodes on, got {nodes}")
    switch = optical.insertion_worst_db if worst else optical.insertion_db
    fibre_km = nodes * part.hop.fibre_m / M_PER_KM
    losses = [("switch of the sender", switch)] if nodes else [("switch, loopback", switch)]
    if nodes:
        losses += [(f"connector {n + 1}", optical.connector_db) for n in range(optical.connectors)]
        losses += [(f"fibre, {nodes * part.hop.fibre_m:g} m", fibre_km * optical.fibre_db_per_km)]
        losses += [("switch of the receiver", switch)]
    lines = [BudgetLine("transmitter", 0.0, optical.transmit_dbm)]
    for item, db in losses:
        lines.append(BudgetLine(item, -db, lines[-1].dbm - db))
    return [*lines, BudgetLine("receiver, margin", lines[-1].dbm - optical.sensitivity_dbm, optical.sensitivity_dbm)]


def _one_of(what: str, got: str, known: list[str]) -> str:
    return f"no {what} {got!r}{nearest(got, known)}; expected one of {', '.join(known)}"


def _refuse(sources: Mapping[str, Source], place: str, said: str) -> None:
    source = sources.get(place) or sources[place.partition(".")[0]]
    raise UserError(
        f"--set {place}: {said}" if source.file == SET else f"{source.file}:{source.line}: at $.{place}: {said}"
    )
