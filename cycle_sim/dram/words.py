"""A command stream as the engine takes it: checked against the part's geometry, and in words."""

import numpy as np

from pimloom.arch.table import Table
from pimloom.cycle_sim.dram.kernels.rows import ANY, OPEN

NAMES = ("cmd", "pch", "rank", "bg", "bank", "row", "col", "count", "release")


def bad_field(table: Table, rows: np.ndarray, i: int, limits: np.ndarray) -> str:
    """What is wrong with row i, which `load` refused."""
    for name, limit in zip(NAMES[:6], limits, strict=False):
        if not 0 <= rows[name][i] < limit:
            return f"command {i}: {name} {rows[name][i]} is outside 0 to {limit - 1}"
    if rows["count"][i] < 1:
        return f"command {i}: count must be at least 1, not {rows['count'][i]}"
    if rows["count"][i] > 1 and table.rules.leaves[rows["cmd"][i]] != ANY:
        return f"command {i} ({table.names[rows['cmd'][i]]}) opens or closes rows: count must be 1"
    first, last = rows["col"][i], rows["col"][i] + rows["count"][i] - 1
    return f"command {i}: columns {first} to {last} are outside 0 to {limits[6] - 1}"


def describe(table: Table, row: np.void) -> str:
    """A stream row as a person would say it: `RD bg 2 bank 1 row 7`, with the coordinates its scope uses."""
    scope, size = table.rules.scope[row["cmd"]], table.rules.size
    words = [table.names[row["cmd"]]]
    for level, name in enumerate(("pch", "rank", "bg", "bank"), start=1):
        if scope >= level and (size[level] > size[level - 1] or level >= 3):
            words.append(f"{name} {row[name]}")
    if table.rules.needs[row["cmd"]] == OPEN or table.rules.leaves[row["cmd"]] == OPEN:
        words.append(f"row {row['row']}")
    return " ".join(words)
