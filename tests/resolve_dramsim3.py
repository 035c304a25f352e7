"""A DRAMsim3 configuration as the tool resolves it, in the form of `config_resolved.json`, and the way back.

Shares nothing with the importer: written from the specification `memory_controllers.md`, whose sections are named.
"""

from configparser import ConfigParser
from typing import Any

from tests.naive_dramsim3 import COMMANDS, GDDR, HBM, TABLES

PROTOCOLS = ("DDR3", "DDR4", "GDDR5", "GDDR5X", "GDDR6", "LPDDR", "LPDDR3", "LPDDR4", "HBM", "HBM2")
POLICIES = ("RANK_LEVEL_SIMULTANEOUS", "RANK_LEVEL_STAGGERED", "BANK_LEVEL_STAGGERED")
LPDDR4 = 7
TIMING = "AL 0 CL 12 CWL 12 tCCD_L 6 tCCD_S 4 tRTRS 2 tRTP 5 tWTR_L 5 tWTR_S 5 tWR 10 tRP 10 tRRD_L 4 tRRD_S 4 tRAS 24"
TIMING += (
    " tRCD 10 tRFC 74 tCKESR 12 tXS 432 tRFCb 20 tREFI 7800 tREFIb 1950 tFAW 50 tPPD 0 t32AW 330 tRCDRD 24 tRCDWR 20"
)
STRUCTURE = "bankgroups 2 banks_per_group 2 rows 65536 columns 1024 device_width 8 BL 8"
SYSTEM = "bus_width 64 channels 1 channel_size 1024 cmd_queue_size 16 trans_queue_size 32 sref_threshold 1000"
POWER = "VDD 1.2 IDD0 48 IDD2N 34 IDD3N 43 IDD4W 123 IDD4R 135 IDD5AB 250 IDD5PB 5 IDD6x 31"
WORDS = {"queue_structure": "PER_BANK", "row_buf_policy": "OPEN_PAGE", "address_mapping": "chrobabgraco"}
KEY = {name: key for name, (key, _) in COMMANDS.items()}
UPKEEP = ("REFab", "REFpb", "SRE")


def defaults(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def resolve(text: str) -> dict[str, Any]:
    """2.9 to 2.11."""
    ini = ConfigParser(inline_comment_prefixes=(";", "#"))
    ini.read_string(text)
    c: dict[str, Any] = {}
    for section, known in (("dram_structure", STRUCTURE), ("timing", TIMING), ("system", SYSTEM)):
        c |= {key: ini.getint(section, key, fallback=int(value)) for key, value in defaults(known).items()}
    c |= {key: ini.get("system", key, fallback=value) for key, value in WORDS.items()}
    c["protocol"] = PROTOCOLS.index(ini.get("dram_structure", "protocol"))
    c["refresh_policy"] = POLICIES.index(ini.get("system", "refresh_policy", fallback=POLICIES[1]))
    for key in ("unified_queue", "enable_self_refresh"):
        c[key] = ini.getboolean("system", key, fallback=False)
    dual = ini.getboolean("dram_structure", "hbm_dual_cmd", fallback=True)
    c["enable_hbm_dual_cmd"] = c["protocol"] in HBM and dual
    if not ini.getboolean("dram_structure", "bankgroup_enable", fallback=True):
        c |= {"bankgroups": 1, "banks_per_group": c["bankgroups"] * c["banks_per_group"]}
    place(c)
    c["burst_cycle"] = c["BL"] // {2: 4, 3: 8, 4: 16}.get(c["protocol"], 2)
    c |= {"RL": c["AL"] + c["CL"], "WL": c["AL"] + c["CWL"], "tRC": c["tRAS"] + c["tRP"]}
    c |= {"read_delay": c["RL"] + c["burst_cycle"], "write_delay": c["WL"] + c["burst_cycle"]}
    power = {key: ini.getfloat("power", key, fallback=float(value)) for key, value in defaults(POWER).items()}
    return c | increments(c, power) | tables(c)


def place(c: dict[str, Any]) -> None:
    """2.9: sizes, and where the fields of an address lie."""
    c["banks"] = c["bankgroups"] * c["banks_per_group"]
    c["columns"] *= c["BL"] if c["protocol"] in GDDR else 2 if c["protocol"] in HBM else 1
    c["devices_per_rank"] = c["bus_width"] // c["device_width"]
    megabytes = c["columns"] * c["device_width"] // 8 * (c["rows"] // 1024) // 1024 * c["banks"] * c["devices_per_rank"]
    c["ranks"] = max(1, c["channel_size"] // megabytes)
    c["channel_size"] = c["ranks"] * megabytes
    c["request_size_bytes"] = c["bus_width"] // 8 * c["BL"]
    c["shift_bits"] = c["request_size_bytes"].bit_length() - 1
    sizes = dict(ch="channels", ra="ranks", bg="bankgroups", ba="banks_per_group", ro="rows", co="columns")
    bit = 0
    for i in range(10, -1, -2):
        field = c["address_mapping"][i : i + 2]
        size = c[sizes[field]] // (c["BL"] if field == "co" else 1)
        c |= {f"{field}_pos": bit, f"{field}_mask": size - 1}
        bit += size.bit_length() - 1
    c["address_bits"] = bit + c["shift_bits"]


def increments(c: dict[str, Any], power: dict[str, float]) -> dict[str, float]:
    """2.11."""
    each = power["VDD"] * c["devices_per_rank"]
    zero, two, three = power["IDD0"], power["IDD2N"], power["IDD3N"]
    found = {
        "act": zero * c["tRC"] - (three * c["tRAS"] + two * c["tRP"]),
        "read": (power["IDD4R"] - three) * c["burst_cycle"],
        "write": (power["IDD4W"] - three) * c["burst_cycle"],
        "ref": (power["IDD5AB"] - three) * c["tRFC"],
        "refb": (power["IDD5PB"] - three) * c["tRFCb"],
        "act_stb": three,
        "pre_stb": two,
        "sref": power["IDD6x"],
    }
    return {f"{cause}_energy_inc": value * each for cause, value in found.items()}


def tables(c: dict[str, Any]) -> dict[str, dict[str, dict[str, int]]]:
    """2.10, without what the tool never looks at."""
    bc, rl, wl, reads, writes, turn = (
        c[key] for key in ("burst_cycle", "RL", "WL", "read_delay", "write_delay", "tRTRS")
    )
    near = "S" if c["bankgroups"] == 1 else "L"
    same, other = (max(bc, c[f"tCCD_{which}"]) for which in (near, "S"))
    wait = rl + bc - wl + turn
    between = {  # same bank and group, other group, other rank
        ("RD", "RD"): (same, same, other, bc + turn),
        ("RD", "WR"): (wait, wait, wait, reads + bc + turn - writes),
        ("WR", "RD"): (*[writes + c[f"tWTR_{near}"]] * 2, writes + c["tWTR_S"], writes + bc + turn - reads),
        ("WR", "WR"): (same, same, other, bc),
    }
    found: dict[str, dict[str, dict[str, int]]] = {table: {key: {} for key in KEY.values()} for table in TABLES}

    def say(where: tuple[str, ...], after: str, before: tuple[str, ...], cycles: int) -> None:
        for table in where:
            found[table][KEY[after]] |= {KEY[name]: cycles for name in before}

    for (after, before), waits in between.items():
        for table, cycles in zip(TABLES, waits, strict=False):
            say((table,), after, (before, f"{before}A"), cycles)
            if table != "same_bank":
                say((table,), f"{after}A", (before, f"{before}A"), cycles)
    bank, rest, rank = TABLES[:1], TABLES[1:3], TABLES[4:]
    direct = c["protocol"] in (*GDDR, *HBM)
    read_end, write_end = c["AL"] + c["tRTP"], wl + bc + c["tWR"]
    say(bank, "RD", ("PRE",), read_end)
    say(bank, "WR", ("PRE",), write_end)
    say(bank, "RDA", ("ACT",), read_end + bc + c["tRP"])
    say(bank, "RDA", UPKEEP, read_end + c["tRP"])
    say(bank, "WRA", ("ACT", *UPKEEP), write_end + c["tRP"])
    say(bank, "ACT", ("RD", "RDA"), c["tRCDRD"] if direct else c["tRCD"] - c["AL"])
    say(bank, "ACT", ("WR", "WRA"), c["tRCDWR"] if direct else c["tRCD"] - c["AL"])
    say(bank, "ACT", ("PRE",), c["tRAS"])
    say(bank, "ACT", ("ACT",), c["tRC"])
    say(rest[:1], "ACT", ("ACT",), c[f"tRRD_{near}"])
    say(rest[1:], "ACT", ("ACT",), c["tRRD_S"])
    say(rest, "ACT", ("REFpb",), c["tRC"])
    say(bank, "PRE", ("ACT", *UPKEEP), c["tRP"])
    if c["protocol"] in (*GDDR, LPDDR4):
        say(rest, "PRE", ("PRE",), c["tPPD"])
    say(rank, "REFab", ("ACT", "REFab", "SRE"), c["tRFC"])
    say(rest, "REFpb", ("ACT",), c["tRFC"])
    say(rest, "REFpb", ("REFpb",), c["tREFI"])
    say(rank, "SRE", ("SRX",), c["tCKESR"])
    say(rank, "SRX", ("ACT", *UPKEEP), c["tXS"])
    return found


def ini_text(sections: dict[str, dict[str, Any]]) -> str:
    return "".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in s.items()) for name, s in sections.items())


def unresolved(c: dict[str, Any]) -> str:
    """A configuration that the tool resolves to this one; the currents are those of one device at 1 V."""
    columns = c["columns"] // (c["BL"] if c["protocol"] in GDDR else 2 if c["protocol"] in HBM else 1)
    inc = {cause: c[f"{cause}_energy_inc"] / c["devices_per_rank"] for cause in ("act", "read", "write", "ref", "refb")}
    states = ("pre_stb", "act_stb", "sref")
    two, three, six = (c[f"{state}_energy_inc"] / c["devices_per_rank"] for state in states)
    power = {
        **{"VDD": 1, "IDD2N": two, "IDD3N": three, "IDD6x": six},
        "IDD0": (inc["act"] + three * c["tRAS"] + two * c["tRP"]) / c["tRC"],
        "IDD4R": inc["read"] / c["burst_cycle"] + three,
        "IDD4W": inc["write"] / c["burst_cycle"] + three,
        "IDD5AB": inc["ref"] / c["tRFC"] + three,
        "IDD5PB": round(inc["refb"] / c["tRFCb"] + three, 6),
    }
    structure = {key: c[key] for key in defaults(STRUCTURE)} | {
        "columns": columns,
        "protocol": PROTOCOLS[c["protocol"]],
    }
    system = {key: c[key] for key in (*defaults(SYSTEM), *WORDS)}
    system |= {key: bool(c[key]) for key in ("unified_queue", "enable_self_refresh")}
    return ini_text(
        {
            "dram_structure": structure | {"hbm_dual_cmd": bool(c["enable_hbm_dual_cmd"])},
            "timing": {key: c[key] for key in defaults(TIMING)} | {"tCK": c["tCK"]},
            "power": power,
            "system": system | {"refresh_policy": POLICIES[c["refresh_policy"]]},
        }
    )
