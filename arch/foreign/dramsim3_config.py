"""The parameters of a DRAMsim3 configuration, each with the tool's default where the file does not give it.

Facts of umd-memsys/DRAMsim3@29817593, `src/configuration.cc`; names are the tool's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.foreign.ini import Ini
from pimloom.arch.foreign.limits import LONGEST_CK, MOST_ADDRESS_BITS, MOST_BANKS

PROTOCOLS = ("DDR3", "DDR4", "GDDR5", "GDDR5X", "GDDR6", "LPDDR", "LPDDR3", "LPDDR4", "HBM", "HBM2")
GDDR = ("GDDR5", "GDDR5X", "GDDR6")
HBM = ("HBM", "HBM2")
TRANSFERS = {"GDDR5": 4, "GDDR5X": 8, "GDDR6": 16}  # of a clock on one pin; 2 elsewhere
FIELDS = {"ch": "channel", "ra": "rank", "bg": "bank_group", "ba": "bank", "ro": "row", "co": "column"}
QUEUES = {"PER_BANK": "per_bank", "PER_RANK": "per_rank"}
PAGES = {"OPEN_PAGE": "open", "CLOSE_PAGE": "closed"}
REFRESH = {
    "RANK_LEVEL_SIMULTANEOUS": "all_bank",
    "RANK_LEVEL_STAGGERED": "staggered",
    "BANK_LEVEL_STAGGERED": "per_bank",
}

TIMINGS = {
    **{"AL": 0, "CL": 12, "CWL": 12, "tCCD_L": 6, "tCCD_S": 4, "tRTRS": 2, "tRTP": 5, "tWTR_L": 5, "tWTR_S": 5},
    **{"tWR": 10, "tRP": 10, "tRRD_L": 4, "tRRD_S": 4, "tRAS": 24, "tRCD": 10, "tRFC": 74, "tCKE": 6, "tCKESR": 12},
    **{"tXS": 432, "tXP": 8, "tRFCb": 20, "tREFI": 7800, "tREFIb": 1950, "tFAW": 50, "tRPRE": 1, "tWPRE": 1},
    **{"tPPD": 0, "t32AW": 330, "tRCDRD": 24, "tRCDWR": 20},
}
POWER = {
    **{"VDD": 1.2, "IDD0": 48, "IDD2P": 25, "IDD2N": 34, "IDD3N": 43, "IDD4W": 123, "IDD4R": 135},
    **{"IDD5AB": 250, "IDD5PB": 5, "IDD6x": 31},
}


class Config(NamedTuple):
    """All parameters after defaults. number: sizes [1], timings [CK], channel_size [MB]; tCK [ns]; power [V, mA].

    order: the fields of `address_mapping` from the most significant on. flag, choice: as the file spells them.
    """

    ini: Ini
    protocol: str
    number: Mapping[str, int]
    tCK: float
    power: Mapping[str, float]
    order: tuple[str, ...]
    choice: Mapping[str, str]
    flag: Mapping[str, bool]
    bits: Mapping[str, int]  # address bits of each field
    asked_mb: int  # channel_size before it is made whole ranks


def read_config(path: Path) -> Config:
    """Read and resolve a configuration. Raises UserError."""
    ini = Ini(path)
    if (given := ini.entry("dram_structure", "protocol")) and given.text == "HMC":
        ini.refuse("dram_structure", "protocol", f"one of {', '.join(PROTOCOLS)} (HMC is not supported)")
    protocol = ini.choice("dram_structure", "protocol", None, PROTOCOLS)
    number = _structure(ini, protocol)
    asked_mb = number["channel_size"]
    number |= _size(ini, number)
    order = _order(ini)
    number |= _timings(ini, number)
    _check(ini, number)
    bits = _bits(ini, number)
    choice = {
        "queue_structure": ini.choice("system", "queue_structure", "PER_BANK", QUEUES),
        "row_buf_policy": ini.choice("system", "row_buf_policy", "OPEN_PAGE", PAGES),
        "refresh_policy": ini.choice("system", "refresh_policy", "RANK_LEVEL_STAGGERED", REFRESH),
    }
    flag = {
        "unified_queue": ini.flag("system", "unified_queue", False),
        "enable_self_refresh": ini.flag("system", "enable_self_refresh", False),
        "hbm_dual_cmd": ini.flag("dram_structure", "hbm_dual_cmd", True) and protocol in HBM,
    }
    power = {name: ini.real("power", name, default, 0, 1e6) for name, default in POWER.items()}
    tCK = ini.real("timing", "tCK", 1.0, 0.01, 1000)
    return Config(ini, protocol, number, tCK, power, order, choice, flag, bits, asked_mb)


def _structure(ini: Ini, protocol: str) -> dict[str, int]:
    """Geometry, bus and queues as the file gives them, columns in the tool's own count."""
    transfers = TRANSFERS.get(protocol, 2)
    groups = ini.power_of_two("dram_structure", "bankgroups", 2, 1, 64)
    banks = ini.power_of_two("dram_structure", "banks_per_group", 2, 1, 1024)
    if not ini.flag("dram_structure", "bankgroup_enable", True):
        groups, banks = 1, groups * banks
    burst = ini.power_of_two("dram_structure", "BL", 8, transfers, 256)
    columns = ini.power_of_two("dram_structure", "columns", 1024, 1, 1 << 20)
    columns *= burst if protocol in GDDR else 2 if protocol in HBM else 1
    if columns < burst:
        ini.refuse("dram_structure", "columns", f"at least BL = {burst}")
    bus = ini.power_of_two("system", "bus_width", 64, 8, 8192)
    device = ini.power_of_two("dram_structure", "device_width", 8, 1, 8192)
    if device > bus:
        ini.refuse("dram_structure", "device_width", f"at most bus_width = {bus}")
    return {
        "bankgroups": groups,
        "banks_per_group": banks,
        "banks": groups * banks,
        "rows": ini.power_of_two("dram_structure", "rows", 1 << 16, 1, 1 << 24),
        "columns": columns,
        "device_width": device,
        "bus_width": bus,
        "devices_per_rank": bus // device,
        "BL": burst,
        "burst_cycle": burst // transfers,
        "request_size_bytes": bus // 8 * burst,
        "channels": ini.power_of_two("system", "channels", 1, 1, 1024),
        "channel_size": ini.integer("system", "channel_size", 1024, 1, 1 << 30),
        "cmd_queue_size": ini.integer("system", "cmd_queue_size", 16, 1, 4096),
        "trans_queue_size": ini.integer("system", "trans_queue_size", 32, 1, 4096),
        "sref_threshold": ini.integer("system", "sref_threshold", 1000, 1, 1 << 30),
    }


def _size(ini: Ini, n: Mapping[str, int]) -> dict[str, int]:
    """Ranks of a channel and the channel's size [MB], in the tool's integer arithmetic."""
    page_bytes = n["columns"] * n["device_width"] // 8
    rank_mb = page_bytes * (n["rows"] // 1024) // 1024 * n["banks"] * n["devices_per_rank"]
    if rank_mb == 0:
        ini.refuse("dram_structure", "rows", "at least 1024, and banks of at least 1 MB")
    ranks = max(n["channel_size"] // rank_mb, 1)
    if ranks & (ranks - 1):
        ini.refuse("system", "channel_size", f"a power of two of ranks of {rank_mb} MB")
    if ranks * n["banks"] > MOST_BANKS:
        ini.refuse("system", "channel_size", f"at most {MOST_BANKS} banks in a channel ({n['banks']} in {rank_mb} MB)")
    return {"ranks": ranks, "channel_size": ranks * rank_mb}


def _order(ini: Ini) -> tuple[str, ...]:
    text = ini.text("system", "address_mapping", "chrobabgraco")
    fields = tuple(text[i : i + 2] for i in range(0, len(text), 2))
    if sorted(fields) != sorted(FIELDS):
        ini.refuse("system", "address_mapping", f"each of {', '.join(FIELDS)} once, most significant first")
    return fields


def _timings(ini: Ini, n: Mapping[str, int]) -> dict[str, int]:
    """Timings [CK], and those that the tool computes from them."""
    t = {
        name: ini.integer("timing", name, default, int(name in ("tREFI", "tREFIb")), LONGEST_CK)
        for name, default in TIMINGS.items()
    }
    read, write = t["AL"] + t["CL"], t["AL"] + t["CWL"]
    delays = {"read_delay": read + n["burst_cycle"], "write_delay": write + n["burst_cycle"]}
    return t | {"RL": read, "WL": write, "tRC": t["tRAS"] + t["tRP"], **delays}


def _check(ini: Ini, n: Mapping[str, int]) -> None:
    if n["tREFI"] <= n["tRFC"]:
        ini.refuse("timing", "tREFI", f"more than tRFC = {n['tRFC']}: a rank would do nothing but refresh")
    if n["tREFI"] < n["ranks"]:
        ini.refuse("timing", "tREFI", f"at least one clock for each of {n['ranks']} ranks")


def _bits(ini: Ini, n: Mapping[str, int]) -> dict[str, int]:
    sizes = {"ch": "channels", "ra": "ranks", "bg": "bankgroups", "ba": "banks_per_group", "ro": "rows"}
    bits = {field: n[size].bit_length() - 1 for field, size in sizes.items()}
    bits["co"] = (n["columns"] // n["BL"]).bit_length() - 1
    if (total := sum(bits.values()) + n["request_size_bytes"].bit_length() - 1) > MOST_ADDRESS_BITS:
        ini.fail(None, f"expected addresses of at most {MOST_ADDRESS_BITS} bits, got a geometry of {total}")
    return bits
