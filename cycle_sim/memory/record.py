"""What a run leaves behind: commands and requests as they happen, and counters; all int64, clocks in CK."""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.memory.compiled import bare

# command[k]: row of the log; by: 0 for a request, 1 for the refresh engine
CLOCK, COMMAND, BANK, ROW, COLUMN, BY = range(6)
# request[k]: its number, clock of acceptance, clock at which it is done
INDEX, ACCEPT, DONE = range(3)
(
    N_COMMANDS, N_REQUESTS, LOGGING, N_READS, N_WRITES, READ_LATENCY, READ_LATENCY_MAX, LAST_DONE, READ_HITS, WRITE_HITS,
    MERGED, FORWARDED, CLOSED_FOR_MISS, PAIRS,
) = range(14)  # fmt: skip
N_TALLY = 14
COUNTERS = {
    "reads_done": N_READS,
    "writes_done": N_WRITES,
    "read_latency_sum": READ_LATENCY,
    "read_latency_max": READ_LATENCY_MAX,
    "read_row_hits": READ_HITS,
    "write_row_hits": WRITE_HITS,
    "merged": MERGED,
    "forwarded": FORWARDED,
    "paired_commands": PAIRS,
}
# rank[r]: open banks, clock since which its state lasts, clocks with a row open, closed, asleep; requests that wait; from
# when it idles; whether it was ever used
OPEN_BANKS, SINCE, ACTIVE_CK, IDLE_CK, SLEEP_CK, HERE, IDLE_FROM, TOUCHED = range(8)


class Record(NamedTuple):
    """command, request: logs, written only if tally[LOGGING]; count[command]; latency[n]: reads that took n clocks."""

    command: np.ndarray
    request: np.ndarray
    count: np.ndarray
    tally: np.ndarray
    latency: np.ndarray


@bare
def note_command(out, at, c, bank, row, column, by):
    """A command issued."""
    out.count[c] += 1
    if out.tally[LOGGING]:
        n = out.tally[N_COMMANDS]
        log = out.command
        log[n, CLOCK], log[n, COMMAND], log[n, BANK] = at, c, bank
        log[n, ROW], log[n, COLUMN], log[n, BY] = row, column, by
        out.tally[N_COMMANDS] = n + 1


@bare
def note_request(out, index, write, accepted, done):
    """A request is, or will be, done at clock `done`."""
    tally = out.tally
    tally[LAST_DONE] = max(tally[LAST_DONE], done)
    tally[N_READS + write] += 1
    if not write:
        took = done - accepted
        tally[READ_LATENCY] += took
        tally[READ_LATENCY_MAX] = max(tally[READ_LATENCY_MAX], took)
        out.latency[min(took, out.latency.shape[0] - 1)] += 1
    if tally[LOGGING]:
        n = tally[N_REQUESTS]
        out.request[n, INDEX], out.request[n, ACCEPT], out.request[n, DONE] = index, accepted, done
        tally[N_REQUESTS] = n + 1


@bare
def row_opened(rank, r, t):
    """A bank of rank r opened a row at clock t."""
    if rank[r, OPEN_BANKS] == 0:
        rank[r, IDLE_CK] += t - rank[r, SINCE]
        rank[r, SINCE] = t
    rank[r, OPEN_BANKS] += 1


@bare
def row_closed(rank, r, t):
    """A bank of rank r closed its row at clock t."""
    rank[r, OPEN_BANKS] -= 1
    if rank[r, OPEN_BANKS] == 0:
        rank[r, ACTIVE_CK] += t - rank[r, SINCE]
        rank[r, SINCE], rank[r, IDLE_FROM] = t, t


@bare
def close_accounts(rank, asleep, t):
    """Add up what the ranks have done until clock t."""
    for r in range(rank.shape[0]):
        state = SLEEP_CK if asleep[r] else (ACTIVE_CK if rank[r, OPEN_BANKS] else IDLE_CK)
        rank[r, state] += t - rank[r, SINCE]
        rank[r, SINCE] = t


def record(rows: int, logging: bool) -> Record:
    """An empty record with room for `rows` rows in each log."""
    from pimloom.cycle_sim.memory.device import COMMANDS

    tally = np.zeros(N_TALLY, np.int64)
    tally[LOGGING] = logging
    rows = rows if logging else 1
    return Record(
        np.zeros((rows, 6), np.int64),
        np.zeros((rows, 3), np.int64),
        np.zeros(len(COMMANDS), np.int64),
        tally,
        np.zeros(1 << 16, np.int64),
    )
