"""What a run leaves behind: commands and requests as they happen, and counters.

A channel `ch` has of it: command, request: logs, written only if tally[LOGGING]; tally: counters, the first ones of
each command; latency[n]: reads that took n clocks, the last place: or longer; rank[r]: how long it was in which state.
"""

import numpy as np

from pimloom.cycle_sim.memory.kernels.compiled import bare
from pimloom.cycle_sim.memory.kernels.device import COMMANDS

# command[k]: row of the log; by: 0 for a request, 1 for the refresh engine
CLOCK, COMMAND, BANK, ROW, COLUMN, BY = range(6)
# request[k]: its number, clock of acceptance, clock at which it is done
INDEX, ACCEPT, DONE = range(3)
# tally[…] after one of each command
(
    N_COMMANDS, N_REQUESTS, LOGGING, N_READS, N_WRITES, READ_LATENCY, READ_LATENCY_MAX, LAST_DONE, READ_HITS,
    WRITE_HITS, MERGED, FORWARDED, CLOSED_FOR_MISS, PAIRS, N_TALLY,
) = range(len(COMMANDS), len(COMMANDS) + 15)  # fmt: skip
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
# rank[r]: open banks, clock since which its state lasts, clocks with a row open, closed, asleep; requests that wait;
# from when it idles; whether it was ever used; whether it sleeps
OPEN_BANKS, SINCE, ACTIVE_CK, IDLE_CK, SLEEP_CK, HERE, IDLE_FROM, TOUCHED, SLEEPS = range(9)
LATENCIES = 1 << 15


@bare
def note_command(ch, at, c, bank, row, column, by):
    """A command issued."""
    ch.tally[c] += 1
    if ch.tally[LOGGING]:
        n, log = ch.tally[N_COMMANDS], ch.command
        log[n, CLOCK], log[n, COMMAND], log[n, BANK] = at, c, bank
        log[n, ROW], log[n, COLUMN], log[n, BY] = row, column, by
        ch.tally[N_COMMANDS] = n + 1


@bare
def note_request(ch, index, write, accepted, done):
    """A request is, or will be, done at clock `done`."""
    tally = ch.tally
    tally[LAST_DONE] = max(tally[LAST_DONE], done)
    tally[N_READS + write] += 1
    if not write:
        took = done - accepted
        tally[READ_LATENCY] += took
        tally[READ_LATENCY_MAX] = max(tally[READ_LATENCY_MAX], took)
        ch.latency[min(took, ch.latency.shape[0] - 1)] += 1
    if tally[LOGGING]:
        n = tally[N_REQUESTS]
        ch.request[n, INDEX], ch.request[n, ACCEPT], ch.request[n, DONE] = index, accepted, done
        tally[N_REQUESTS] = n + 1


@bare
def row_opened(ch, r, t):
    """A bank of rank r opened a row at clock t."""
    rank = ch.rank
    if rank[r, OPEN_BANKS] == 0:
        rank[r, IDLE_CK] += t - rank[r, SINCE]
        rank[r, SINCE] = t
    rank[r, OPEN_BANKS] += 1


@bare
def row_closed(ch, r, t):
    """A bank of rank r closed its row at clock t."""
    rank = ch.rank
    rank[r, OPEN_BANKS] -= 1
    if rank[r, OPEN_BANKS] == 0:
        rank[r, ACTIVE_CK] += t - rank[r, SINCE]
        rank[r, SINCE], rank[r, IDLE_FROM] = t, t


@bare
def close_accounts(ch, t):
    """Add up what the ranks have done until clock t."""
    rank = ch.rank
    for r in range(rank.shape[0]):
        state = SLEEP_CK if rank[r, SLEEPS] else (ACTIVE_CK if rank[r, OPEN_BANKS] else IDLE_CK)
        rank[r, state] += t - rank[r, SINCE]
        rank[r, SINCE] = t


def record(rows: int, ranks: int, logging: bool) -> dict[str, np.ndarray]:
    """command, request, tally, latency and rank of a channel, with room for `rows` rows in each log."""
    tally = np.zeros(N_TALLY, np.int64)
    tally[LOGGING] = logging
    rows = rows if logging else 1
    return {
        "command": np.zeros((rows, 6), np.int64),
        "request": np.zeros((rows, 3), np.int64),
        "tally": tally,
        "latency": np.zeros(LATENCIES, np.int64),
        "rank": np.zeros((ranks, 9), np.int64),
    }
