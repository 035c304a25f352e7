"""What a run leaves behind: commands and requests as they happen, and counters.

command, request: logs, written only if tally[LOGGING]; tally: counters, the first ones of
each command, REFRESH_LAG the longest from a refresh falling due to its issue; latency[n]: reads that took n clocks,
the last place: or longer; rank[r]: how long it was in which state.
"""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare
from pimloom.cycle_sim.dram.kernels.device import COMMANDS

# command[k]: row of the log; by: 0 for a request, 1 for the refresh engine
CLOCK, COMMAND, BANK, ROW, COLUMN, BY = range(6)
# request[k]: its number, clock of acceptance, clock at which it is done
INDEX, ACCEPT, DONE = range(3)
# tally[…] after one of each command
(
    N_COMMANDS, N_REQUESTS, LOGGING, N_READS, N_WRITES, READ_LATENCY, READ_LATENCY_MAX, LAST_DONE, READ_HITS,
    WRITE_HITS, MERGED, FORWARDED, CLOSED_FOR_MISS, PAIRS, REFRESHES_DUE, REFRESH_LAG, N_TALLY,
) = range(len(COMMANDS), len(COMMANDS) + 17)  # fmt: skip
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
    "refreshes_due": REFRESHES_DUE,
    "refresh_lag_max": REFRESH_LAG,
}
# rank[r]: open banks, clock since which its state lasts, clocks with a row open, closed, asleep; requests that wait;
# from when it idles; whether it was ever used; whether it sleeps
OPEN_BANKS, SINCE, ACTIVE_CK, IDLE_CK, SLEEP_CK, HERE, IDLE_FROM, TOUCHED, SLEEPS = range(9)
LATENCIES = 1 << 15


class Record(NamedTuple):
    """What one channel leaves behind."""

    command: np.ndarray
    request: np.ndarray
    tally: np.ndarray
    latency: np.ndarray
    rank: np.ndarray


@bare
def record_of(logs, c):
    """That of channel c of a stack."""
    return Record(logs.command[c], logs.request[c], logs.tally[c], logs.latency[c], logs.rank[c])


@bare
def note_command(log, at, c, bank, row, column, by):
    """A command issued."""
    log.tally[c] += 1
    if log.tally[LOGGING]:
        n, rows = log.tally[N_COMMANDS], log.command
        rows[n, CLOCK], rows[n, COMMAND], rows[n, BANK] = at, c, bank
        rows[n, ROW], rows[n, COLUMN], rows[n, BY] = row, column, by
        log.tally[N_COMMANDS] = n + 1


@bare
def note_request(log, index, write, accepted, done):
    """A request is, or will be, done at clock `done`."""
    tally = log.tally
    tally[LAST_DONE] = max(tally[LAST_DONE], done)
    tally[N_READS + write] += 1
    if not write:
        took = done - accepted
        tally[READ_LATENCY] += took
        tally[READ_LATENCY_MAX] = max(tally[READ_LATENCY_MAX], took)
        log.latency[min(took, log.latency.shape[0] - 1)] += 1
    if tally[LOGGING]:
        n = tally[N_REQUESTS]
        log.request[n, INDEX], log.request[n, ACCEPT], log.request[n, DONE] = index, accepted, done
        tally[N_REQUESTS] = n + 1


@bare
def row_opened(log, r, t):
    """A bank of rank r opened a row at clock t."""
    rank = log.rank
    if rank[r, OPEN_BANKS] == 0:
        rank[r, IDLE_CK] += t - rank[r, SINCE]
        rank[r, SINCE] = t
    rank[r, OPEN_BANKS] += 1


@bare
def row_closed(log, r, t):
    """A bank of rank r closed its row at clock t."""
    rank = log.rank
    rank[r, OPEN_BANKS] -= 1
    if rank[r, OPEN_BANKS] == 0:
        rank[r, ACTIVE_CK] += t - rank[r, SINCE]
        rank[r, SINCE], rank[r, IDLE_FROM] = t, t


@bare
def close_accounts(log, t):
    """Add up what the ranks have done until clock t."""
    rank = log.rank
    for r in range(rank.shape[0]):
        state = SLEEP_CK if rank[r, SLEEPS] else (ACTIVE_CK if rank[r, OPEN_BANKS] else IDLE_CK)
        rank[r, state] += t - rank[r, SINCE]
        rank[r, SINCE] = t


def record(rows: int, ranks: int, logging: bool) -> Record:
    """The record of a channel before its first clock, with room for `rows` rows in each log."""
    tally = np.zeros(N_TALLY, np.int64)
    tally[LOGGING] = logging
    rows = rows if logging else 1
    return Record(
        command=np.zeros((rows, 6), np.int64),
        request=np.zeros((rows, 3), np.int64),
        tally=tally,
        latency=np.zeros(LATENCIES, np.int64),
        rank=np.zeros((ranks, 9), np.int64),
    )
