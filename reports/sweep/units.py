"""What a column of a sweep is called, its unit, and what it means, all read from its name."""

import re

SUFFIXES = {
    "per_s": "1/s",
    "gb_s": "GB/s",
    "s": "s",
    "j": "J",
    "w": "W",
    "mw": "mW",
    "pj": "pJ",
    "ps": "ps",
    "ck": "CK",
    "cyc": "cycles",
    "mhz": "MHz",
    "ghz": "GHz",
    "mm2": "mm²",
    "um2": "µm²",
    "bytes": "B",
    "bits": "bit",
    "gbps": "Gb/s",
}
MEANINGS = {
    "point": "key of the point: a digest of specification, workload, axis values and code",
    "feasible": "whether the point finished and satisfies all constraints",
    "front": "whether no feasible point is better in one objective without being worse in another",
    "latency_s": "simulated time of the whole run",
    "time_per_token_s": "latency / tokens",
    "tokens_per_s": "tokens / latency",
    "energy_j": "energy of the whole run",
    "energy_per_token_j": "energy / tokens",
    "power_w": "energy / latency",
    "area_mm2": "area of the system",
    "row_hit_rate": "1 − row openings / column accesses of a bank",
    "non_vmm_share": "time outside matrix-vector multiplication / all time",
    "mac_utilisation": "clocks with a MAC / all clocks",
    "interface_bytes": "bytes on the data pins of all channels",
    "cycles": "clocks until the last step ends",
    "tck_ps": "length of a clock",
    "memory_needed_bytes": "rows taken × banks × row",
    "memory_bytes": "memory that there is",
    "max_tokens": "most tokens whose keys and values fit",
    "error": "why the point failed",
    "spec_digest": "digest of everything that decides the result",
    "code_digest": "digest of the code that computed it",
    "version": "version of pimloom",
    "seed": "seed of the sweep",
    "wall_s": "time that the computation took; differs from run to run",
    "host": "machine that computed it",
    "finished_utc": "when it was computed",
}


def label_of(column: str) -> str:
    """The name without a unit in brackets.

    >>> label_of("dram.timing.tCCD_L [nCK]"), label_of("power_w")
    ('dram.timing.tCCD_L', 'power_w')
    """
    return _split(column)[0]


def unit_of(column: str) -> str:
    """The unit, by the brackets or by the ending of the name or of its first part; "-" for none, "" if unknown.

    >>> [unit_of(name) for name in ("t [nCK]", "tokens_per_s", "energy_by_cause_j.mac", "dram.channels", "a / b_s")]
    ['nCK', '1/s', 'J', '-', '']
    """
    label, unit = _split(column)
    if unit:
        return unit
    if not re.fullmatch(r"[\w.]+", label):
        return ""  # an expression
    for part in (label, *reversed(label.split("."))):
        for suffix, found in SUFFIXES.items():
            if part.endswith(f"_{suffix}"):
                return found
    return "-"


def meaning_of(column: str, role: str) -> str:
    """One line on what the column holds. role: axis, objective, result or record."""
    if column in MEANINGS:
        return MEANINGS[column]
    group, _, part = column.partition(".")
    if role == "axis":
        return "axis: a value of the workload" if group == "workload" else "axis: a value of the system"
    if group.startswith("energy_by_cause"):
        return f"energy of: {part}"
    if group.startswith("time_by_step"):
        return f"time of: {part}"
    return "an expression over the other columns" if not unit_of(column) else "a result of the simulation"


def _split(column: str) -> tuple[str, str]:
    found = re.fullmatch(r"(.+) \[([^\[\]]+)\]", column)
    return (found[1], found[2]) if found else (column, "")
