"""What a user should know of a DRAMsim3 configuration: keys without effect, replaced values, defaults, quirks."""

from collections.abc import Iterator

from pimloom.arch.document import nearest, short
from pimloom.arch.foreign.dramsim3_config import GDDR, HBM, Config
from pimloom.arch.foreign.dramsim3_rules import wraps

OUTPUT = (("other", "epoch_period"), ("other", "output_level"), ("other", "output_prefix"))  # of reports only
ASLEEP = ("tCKESR", "tXS", "IDD6x", "sref_threshold")  # of self-refresh: most files give them, few enable it
SECTIONS = {"thermal": "temperatures are not modelled", "hmc": "protocol is not HMC"}
SILENT = ("AL", "channels", "bankgroup_enable", "hbm_dual_cmd", "unified_queue", "enable_self_refresh")


def remarks(config: Config) -> tuple[str, ...]:
    """One sentence each, in the order of the file's lines, then those without a line."""
    found = [*config.ini.notes, *_ignored(config), *_replaced(config), *_contradictions(config), *_quirks(config)]
    said = [f"{config.ini.file}{f':{line}' if line else ''}: {text}" for line, text in sorted(found)]
    return (*said, *_defaults(config))


def _without_effect(config: Config) -> dict[str, str]:
    """Keys that the tool reads but that change no command, each with what holds instead."""
    n, protocol, policy = config.number, config.protocol, config.choice["refresh_policy"]
    found = dict.fromkeys(("tCKE", "tXP", "IDD2P", "IDD3P"), "there is no power-down")
    found |= dict.fromkeys(("tRPRE", "tWPRE"), "no wait has a preamble in it")
    found["num_dies"] = "it serves the thermal model only"
    found["write_buf_size"] = f"the write buffer holds trans_queue_size = {n['trans_queue_size']}"
    found["aggressive_precharging_enabled"] = "no row is closed ahead of time"
    if protocol in (*GDDR, *HBM):
        found["tRCD"] = f"{protocol} takes tRCDRD = {n['tRCDRD']} and tRCDWR = {n['tRCDWR']}"
    else:
        found |= dict.fromkeys(("tRCDRD", "tRCDWR"), f"{protocol} takes tRCD = {n['tRCD']}")
    if protocol not in (*GDDR, "LPDDR4"):
        found["tPPD"] = f"{protocol} has no such wait"
    if protocol not in GDDR:
        found["t32AW"] = f"{protocol} has no such window"
    if protocol not in HBM:
        found["hbm_dual_cmd"] = f"{protocol} has one command bus"
    if policy != "BANK_LEVEL_STAGGERED":
        found |= dict.fromkeys(("tREFIb", "tRFCb", "IDD5PB"), f"refresh_policy is {policy}")
    if not config.flag["enable_self_refresh"]:
        found |= dict.fromkeys(ASLEEP, "enable_self_refresh is false")
    if n["bankgroups"] == 1:
        near = (name for name in ("tCCD", "tRRD", "tWTR") if n[f"{name}_L"] != n[f"{name}_S"])
        found |= {f"{name}_L": f"with one bank group {name}_S = {n[f'{name}_S']} holds" for name in near}
    return found


def _unread(config: Config) -> dict[str, str]:
    """Well-known keys that the tool does not read, each with what holds instead."""
    n = config.number
    stands_in = {
        "tRTP_L": "tRTP",
        "tRTP_S": "tRTP",
        "tCKSRE": "tCKESR",
        "tRFC2": "tRFC",
        "tRFC4": "tRFC",
        "tWR2": "tWR",
    }
    found = {key: f"{name} is {n[name]}" for key, name in stands_in.items()}
    return found | {"IPP0": "VPP takes no energy", "tRC": f"it is tRAS + tRP = {n['tRC']}"}


def _ignored(config: Config) -> Iterator[tuple[int, str]]:
    read = {(section.lower(), key.lower()) for section, key in config.ini.wanted + list(OUTPUT)}
    idle = {key.lower(): why for key, why in _without_effect(config).items() if key not in ASLEEP}
    unread = {key.lower(): why for key, why in _unread(config).items()}
    whole = dict.fromkeys(SECTIONS, True)
    for place, entry in config.ini.entries.items():
        section, key = place
        if section in SECTIONS:
            if whole.pop(section, False):
                yield entry.line, f"[{section}] has no effect: {SECTIONS[section]}"
        elif key in idle:
            yield entry.line, f"{short(entry.key)} has no effect in DRAMsim3: {idle[key]}"
        elif place not in read:
            hint = f": {unread[key]}" if key in unread else _nearest(config, section, short(entry.key))
            yield entry.line, f"DRAMsim3 does not read [{short(entry.section)}] {short(entry.key)}{hint}"


def _nearest(config: Config, section: str, key: str) -> str:
    """The section in which the tool reads such a key, or the nearest keys that it reads in this one."""
    elsewhere = [s for s, k in config.ini.wanted if k.lower() == key.lower()]
    if elsewhere:
        return f", but [{elsewhere[0]}] {key}"
    return nearest(key, dict.fromkeys(k for s, k in config.ini.wanted if s == section))


def _replaced(config: Config) -> Iterator[tuple[int, str]]:
    """Values that the tool, or we, make others of."""
    size, line = config.number["channel_size"], config.ini.line("system", "channel_size")
    if size != config.asked_mb:
        ranks = config.number["ranks"]
        why = "a rank is larger" if size > config.asked_mb else f"{ranks} whole ranks"
        yield line or 0, f"channel_size = {config.asked_mb} becomes {size} MB: {why}"
    ps = config.tCK * 1000
    if abs(ps - round(ps)) > 1e-6:
        line = config.ini.line("timing", "tCK")
        yield line or 0, f"tCK = {config.tCK:g} ns is rounded to {round(ps)} ps; cycles do not change, times do"


def _contradictions(config: Config) -> Iterator[tuple[int, str]]:
    """Timings that cannot all be meant."""
    n, line = config.number, config.ini.line
    for name in ("tCCD", "tRRD", "tWTR"):
        near, far = n[f"{name}_L"], n[f"{name}_S"]
        if near < far and n["bankgroups"] > 1:
            at = line("timing", f"{name}_L") or line("timing", f"{name}_S") or 0
            yield at, f"{name}_L = {near} is less than {name}_S = {far}: banks of one group would be the faster ones"
    if 0 < n["tFAW"] < 4 * n["tRRD_S"]:
        said = f"tFAW = {n['tFAW']} never binds: four tRRD_S take {4 * n['tRRD_S']}"
        yield line("timing", "tFAW") or line("timing", "tRRD_S") or 0, said
    if n["burst_cycle"] > n["tCCD_S"]:
        said = f"tCCD_S = {n['tCCD_S']} never binds: a burst takes {n['burst_cycle']} clocks"
        yield line("timing", "tCCD_S") or 0, said


def _quirks(config: Config) -> Iterator[tuple[int, str]]:
    policy, n = config.choice["refresh_policy"], config.number
    line = config.ini.line("system", "refresh_policy") or 0
    if policy == "RANK_LEVEL_SIMULTANEOUS" and n["ranks"] > 1:
        yield line, f"{policy}: DRAMsim3 refreshes the first of {n['ranks']} ranks only"
    if policy == "BANK_LEVEL_STAGGERED":
        said = f"spaces refreshes of a rank by tREFI = {n['tREFI']}, not tREFIb = {n['tREFIb']}"
        yield line, f"{policy}: DRAMsim3 {said}, and keeps no command from the refreshed bank"
    if config.flag["enable_self_refresh"]:
        at = config.ini.line("system", "enable_self_refresh") or 0
        yield at, "enable_self_refresh: in DRAMsim3 only ranks that were never used sleep"
    if below := wraps(config):
        said = f"CWL: a wait of {below} CK between reads and writes is none"
        yield config.ini.line("timing", "CWL") or 0, f"{said}; in DRAMsim3 one that ends before clock 0 never ends"


def _defaults(config: Config) -> Iterator[str]:
    """One sentence: what the file leaves to the tool, where it has an effect."""
    one_group = ("tCCD_L", "tRRD_L", "tWTR_L") if config.number["bankgroups"] == 1 else ()
    skip = {*_without_effect(config), *SILENT, *one_group}
    taken = [f"{key} = {value}" for key, value in config.ini.defaults.items() if key not in skip]
    if taken:
        yield f"{config.ini.file}: not given, so DRAMsim3's defaults hold: {', '.join(taken)}"
