"""What a column of a sweep is called, its unit, and what it means, all read from its name."""

import re
from collections.abc import Mapping

from pimloom.arch.name_units import unit_of_name

MEANINGS = {
    "base_digest": "digest of all but the axis values",
    "point": "key of the point: a digest of specification, workload, axis values and code",
    "feasible": "whether the point finished and satisfies all constraints",
    "front": "whether no feasible point of its workload is better in one objective without being worse in another",
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
    return unit_of_name(label) or "-"


def meaning_of(column: str, role: str, results: Mapping[str, str]) -> str:
    """One line on what the column holds. role: axis, objective, result or record. results: what those say."""
    group, _, part = column.partition(".")
    if role == "axis":
        return "axis: a value of the workload" if group == "workload" else "axis: a value of the system"
    if found := results.get(column) or MEANINGS.get(column):
        return found
    if group.startswith("energy_by_cause"):
        return f"energy of: {part}"
    if group.startswith("time_by_step"):
        return f"time of: {part}"
    return "an expression over the other columns" if not unit_of(column) else "a result of the simulation"


def _split(column: str) -> tuple[str, str]:
    found = re.fullmatch(r"(.+) \[([^\[\]]+)\]", column)
    return (found[1], found[2]) if found else (column, "")
