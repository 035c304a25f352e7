"""A trace of single commands, and how one is made of streams as they issued."""

from collections.abc import Sequence

import numpy as np

from pimloom.arch.table import Rules, Table

TRACE = np.dtype(
    [
        ("cmd", np.int16),
        ("pch", np.int16),
        ("rank", np.int16),
        ("bg", np.int16),
        ("bank", np.int16),
        ("row", np.int32),
        ("clock", np.int64),
    ],
    align=True,
)
"""One command of a channel, issued in `clock` [CK]; coordinates as in STREAM. Sorted by clock; commands of one clock
(on different buses) stand in the order in which they took effect."""

COORDINATES = ("pch", "rank", "bg", "bank")


def expand(
    table: Table,
    streams: Sequence[np.ndarray],
    issue_ck: Sequence[np.ndarray],
    end_ck: Sequence[np.ndarray],
    refresh_ck: np.ndarray,
) -> np.ndarray:
    """The TRACE of STREAM arrays and the first three results of `issue` on them.

    A row of `count` commands must have issued them `gap` apart, but for the refreshes between them. ValueError where
    anything else came between: then the stream has to be issued with every command on a row of its own.
    """
    rules, parts = table.rules, [_refreshes(table.rules, refresh_ck)]
    for number, (rows, first, end) in enumerate(zip(streams, issue_ck, end_ck, strict=True)):
        cmd, count = rows["cmd"], rows["count"].astype(np.int64)
        last, start = end - rules.done[cmd], np.cumsum(count) - count
        of = np.repeat(np.arange(len(rows)), count)
        part = np.zeros(len(of), TRACE)
        for name in ("cmd", *COORDINATES, "row"):
            part[name] = rows[name][of]
        clock = first[of] + (np.arange(len(of)) - start[of]) * rules.gap[cmd][of]
        for i in np.flatnonzero(clock[start + count - 1] != last):
            run = clock[start[i] : start[i] + count[i]]
            _make_way(run, refresh_ck[:, 0], _waits_behind(rules, refresh_ck[:, 1], rows[i]))
            if run[-1] != last[i] or rules.gap[cmd[i]] == 0:
                raise ValueError(
                    f"row {i} of stream {number}: its {count[i]} {table.names[cmd[i]]} from CK {first[i]} to "
                    f"CK {last[i]} are not {rules.gap[cmd[i]]} CK apart; issue the stream with one command a row"
                )
        part["clock"] = clock
        parts.append(part)
    trace = np.concatenate(parts)
    trace = trace[np.argsort(trace["clock"], kind="stable")]
    return trace[~_logged_twice(rules, trace)]


def _make_way(run: np.ndarray, refresh_ck: np.ndarray, waits: np.ndarray) -> None:
    """Move the clocks of a run so that none is at a refresh or less than its wait after it."""
    later_ones = refresh_ck > run[0]
    for clock, wait in zip(refresh_ck[later_ones], waits[later_ones], strict=True):
        later = run[np.searchsorted(run, clock) :]
        later += max(clock + wait - later[0], 0) if len(later) else 0


def _waits_behind(rules: Rules, nodes: np.ndarray, row: np.void) -> np.ndarray:
    """Longest wait [CK] of a stream row for a refresh of each of `nodes`: its own, or others."""
    command, node = row["cmd"], 0
    for level in range(1, int(rules.scope[rules.refresh]) + 1):
        node = node * int(rules.size[level] // rules.size[level - 1]) + int(row[COORDINATES[level - 1]])
    armed, binds = (
        found[ptr[c] : ptr[c + 1]]
        for c, ptr, found in (
            (rules.refresh, rules.after_ptr, rules.after_rule),
            (command, rules.before_ptr, rules.before_rule),
        )
    )
    between = np.intersect1d(armed, binds)
    between = between[rules.sibling[between] == 0]
    shared = between[rules.level[between] < rules.scope[rules.refresh]]  # of a node that holds several refresh nodes
    same_bus = int(rules.bus[command] == rules.bus[rules.refresh])
    own, other = (int(rules.wait[some].max(initial=same_bus)) for some in (between, shared))
    return np.where(nodes == node, own, other)


def _refreshes(rules: Rules, refresh_ck: np.ndarray) -> np.ndarray:
    """REFab as TRACE, from clocks and nodes."""
    found = np.zeros(len(refresh_ck), TRACE)
    found["cmd"], found["clock"] = rules.refresh, refresh_ck[:, 0]
    fan, node = rules.size[1:] // rules.size[:-1], refresh_ck[:, 1]
    for level in range(int(rules.scope[rules.refresh]), 0, -1):
        node, found[COORDINATES[level - 1]] = np.divmod(node, fan[level - 1])
    return found


def _logged_twice(rules: Rules, trace: np.ndarray) -> np.ndarray:
    """The log of refreshes also holds the REFab that a stream brought itself; a bus takes one a clock."""
    ref = trace["cmd"] == rules.refresh
    at, twice = np.flatnonzero(ref), np.zeros(len(trace), bool)
    twice[at[1:]] = trace["clock"][at[1:]] == trace["clock"][at[:-1]]
    return twice
