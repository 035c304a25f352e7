"""A DRAMsim3 configuration (`.ini`) as a `Memory`: the waits, the defaults and the controller that the tool takes."""

from pathlib import Path

from msgspec.structs import replace

from pimloom.arch.foreign.dramsim3_config import FIELDS, PAGES, QUEUES, REFRESH, TIMINGS, Config, read_config
from pimloom.arch.foreign.dramsim3_remarks import remarks
from pimloom.arch.foreign.dramsim3_rules import commands, rules
from pimloom.arch.memory import Currents, Memory, Policy
from pimloom.arch.part import Organization
from pimloom.arch.policy import load_policy
from pimloom.arch.table import Table, build_table
from pimloom.arch.units import BITS_PER_BYTE

CURRENTS = {  # JEDEC's name -> the file's
    **{name: name for name in ("IDD0", "IDD2N", "IDD3N", "IDD4R", "IDD4W", "IDD5PB")},
    **{"IDD5B": "IDD5AB", "IDD6": "IDD6x"},
}


def load_dramsim3(path: str | Path) -> Memory:
    """Read a DRAMsim3 configuration; what the tool ignores or replaces is in `warnings`. Raises UserError."""
    config = read_config(Path(path))
    n = config.number
    return Memory(
        name=Path(path).stem,
        table=_table(config),
        channels=n["channels"],
        tCK_ps=_tck_ps(config),
        clocks=_clocks(config),
        access_bytes=n["request_size_bytes"],
        offset_bits=n["request_size_bytes"].bit_length() - 1,
        address=tuple((FIELDS[f], config.bits[f]) for f in reversed(config.order) if config.bits[f]),
        peak_gb_s=n["bus_width"] * _pin_gbps(config) / BITS_PER_BYTE,
        policy=_policy(config),
        currents=_currents(config),
        warnings=remarks(config),
    )


def _tck_ps(config: Config) -> int:
    return round(config.tCK * 1000)


def _pin_gbps(config: Config) -> float:
    """Transfers of a pin per ns: a burst in its clocks."""
    return config.number["BL"] / config.number["burst_cycle"] / _tck_ps(config) * 1000


def _table(config: Config) -> Table:
    n = config.number
    columns = n["columns"] // n["BL"]
    organization = Organization(
        pseudo_channels=1,
        ranks=n["ranks"],
        bank_groups=n["bankgroups"],
        banks_per_group=n["banks_per_group"],
        rows=n["rows"],
        columns=columns,
        access_bits=n["request_size_bytes"] * BITS_PER_BYTE,
        dq_bits=n["bus_width"],
        pin_gbps=_pin_gbps(config),
        capacity_bytes=n["ranks"] * n["banks"] * n["rows"] * columns * n["request_size_bytes"],
    )
    return build_table(commands(config), rules(config), {"tREFI": n["tREFI"]}, organization, "REFab")


def _clocks(config: Config) -> dict[str, int]:
    """Timings [CK] under our names, then under the tool's."""
    n = config.number
    ours = {"nCL": n["RL"], "nCWL": n["WL"], "nBL": n["burst_cycle"], "tREFIpb": n["tREFIb"], "tRFCpb": n["tRFCb"]}
    return ours | {name: n[name] for name in (*TIMINGS, "tRC", "read_delay", "write_delay")}


def _policy(config: Config) -> Policy:
    n, choice = config.number, config.choice
    return replace(
        load_policy("dramsim3").value,
        read_entries=n["trans_queue_size"],
        write_entries=n["trans_queue_size"],
        unified=config.flag["unified_queue"],
        queues=QUEUES[choice["queue_structure"]],
        queue_entries=n["cmd_queue_size"],
        page=PAGES[choice["row_buf_policy"]],
        refresh=REFRESH[choice["refresh_policy"]],
        self_refresh_after_ck=n["sref_threshold"] if config.flag["enable_self_refresh"] else None,
    )


def _currents(config: Config) -> Currents:
    idd = {ours: config.power[theirs] for ours, theirs in CURRENTS.items()}
    return Currents(config.power["VDD"], idd, config.number["devices_per_rank"])
