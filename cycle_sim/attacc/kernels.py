"""The controller of an AttAcc channel, from one clock in which something can happen to the next.

The rules, as the published simulator has them:

* One queue, refilled each clock in order. A request's next command is its own, but for a MAC whose row is not open: the
  PRE of its placement if another row is, the ACT if none is.
* Of the queue the first issues whose next command is ready, with two exceptions. Behind a BARRIER only commands of rows
  do. And but for the first of the queue, what names a bank in which a MAC of the queue finds its row open, and is no
  such MAC itself, waits. A BARRIER that comes first leaves.
* In the clock of a row command a column command may issue too, and the reverse: the one that comes first then.
* From each tREFI on all stack IDs are refreshed: PREA if a row is open, then REFab of each. Until that is done no row
  command of the queue issues. Column commands do, beside it, as dual issue lets them.
"""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry, rare
from pimloom.cycle_sim.dram.kernels.device import FAR, Device, arm, free_from

COMMANDS = (
    "MACAB", "WRGB", "MVSB", "MVGB", "SFM", "BARRIER", "ACTAB", "PREA", "REFab", "MACSB", "ACTSB", "PRESB", "MACPB",
    "ACTPB", "PREPB",
)  # fmt: skip
MAC, BARRIER, PREA, REFAB = 0, 5, 7, 8  # requests are the first six; a MAC is that of its placement
ENTRIES = 33  # [secondary A] one more than its limit of 32

# columns of the requests
OP, BANK, ROW = range(3)
# state
(
    NEXT, QUEUED, LEFT_TO_REFRESH, DUE, REFI, OPEN, DUAL, LOGGED, MAC_OP, ACT_OP, PRE_OP, WAKE, ISSUED, LOOK,
    SERVED, N_STATE,
) = range(16)  # fmt: skip
SINGLE, GUARDED, DUAL_ISSUE = range(3)  # DUAL: one command a clock; a second beside one that issued; always
CLOCK, LOG_OP, LOG_BANK, LOG_ROW, N_LOG = range(5)
NOTHING, ROW_KIND, COLUMN_KIND = range(3)
STUCK = -1
LONGEST_CK = 1 << 22  # without a request served: refresh closes every row before it is used


class Channel(NamedTuple):
    """queue: numbers of the requests that wait, in order. open_row[bank], -1: closed. hit[bank]: the look in which a
    MAC of the queue last found its row open. kind[command]: ROW_KIND or COLUMN_KIND. counts[command].
    everywhere[command]: acts on all banks. refreshed: banks that name the nodes to refresh. ready[command, bank]: no
    sooner may it issue, as far as was asked: rules only ever put a command off."""

    device: Device
    requests: np.ndarray
    queue: np.ndarray
    open_row: np.ndarray
    hit: np.ndarray
    kind: np.ndarray
    everywhere: np.ndarray
    refreshed: np.ndarray
    ready: np.ndarray
    counts: np.ndarray
    state: np.ndarray


@entry
def run(w, log):
    """To the end of the requests; returns the clock behind the last command, or STUCK. log: a row for each command, or
    none; more than it holds are left out."""
    s, now, end = w.state, np.int64(0), np.int64(0)
    while True:
        _refill(w)
        if s[QUEUED] == 0 and s[NEXT] == w.requests.shape[0]:
            return end
        if now - s[SERVED] > LONGEST_CK:
            return np.int64(STUCK)
        if now >= s[DUE]:
            s[LEFT_TO_REFRESH] += w.refreshed.shape[0]
            s[DUE] += s[REFI]
        s[ISSUED], s[WAKE] = 0, FAR
        first = _refresh(w, now, log) if s[LEFT_TO_REFRESH] else _serve(w, now, NOTHING, log)
        if first != NOTHING and (s[DUAL] == DUAL_ISSUE or (s[DUAL] == GUARDED and s[ISSUED])):
            _serve(w, now, first, log)
        if s[ISSUED]:
            end = now + 1
            now += 1
        elif s[QUEUED] < ENTRIES and s[NEXT] < w.requests.shape[0]:  # a BARRIER has left, so one more comes in
            now += 1
        else:
            now = max(now + 1, min(s[WAKE], s[DUE]))


@bare
def _refill(w):
    s = w.state
    while s[QUEUED] < ENTRIES and s[NEXT] < w.requests.shape[0]:
        w.queue[s[QUEUED]] = s[NEXT]
        s[QUEUED] += 1
        s[NEXT] += 1


@bare
def _leave(w, i):
    s = w.state
    s[QUEUED] -= 1
    for k in range(i, s[QUEUED]):
        w.queue[k] = w.queue[k + 1]


@rare
def _refresh(w, now, log):
    """PREA or a REFab, if it can issue; that is what comes first in this clock, whether it issues or not."""
    s = w.state
    nodes = w.refreshed.shape[0]
    op = np.int64(PREA if s[OPEN] else REFAB)
    bank = w.refreshed[0 if s[OPEN] else (nodes - s[LEFT_TO_REFRESH]) % nodes]
    at = free_from(w.device, op, bank)
    if at <= now:
        _issue(w, op, bank, -1, now, log)
        if op == REFAB:
            s[LEFT_TO_REFRESH] -= 1
    else:
        s[WAKE] = min(s[WAKE], at)
    return ROW_KIND


@bare
def _serve(w, now, beside, log):
    """The command of the queue that issues at this clock, if any; its kind. beside: no command of that kind does."""
    s = w.state
    while s[QUEUED] and w.requests[w.queue[0], OP] == BARRIER:
        _leave(w, 0)
    _mark_hits(w)
    passed = False
    for i in range(s[QUEUED]):
        r = w.queue[i]
        op, bank, row = w.requests[r, OP], w.requests[r, BANK], w.requests[r, ROW]
        if op == BARRIER:
            passed = True
            continue
        hit = False
        if op == MAC:
            there = w.open_row[bank]
            hit = there == row
            op = s[MAC_OP] if hit else s[ACT_OP] if there < 0 else s[PRE_OP]
        if i and ((passed and w.kind[op] == COLUMN_KIND) or (not hit and w.hit[bank] == s[LOOK])):
            continue
        if w.ready[op, bank] <= now:
            w.ready[op, bank] = free_from(w.device, op, bank)
        if w.ready[op, bank] > now:
            s[WAKE] = min(s[WAKE], w.ready[op, bank])
            continue
        if w.kind[op] == beside:
            return NOTHING
        _issue(w, op, bank, row, now, log)
        if w.kind[op] == COLUMN_KIND:
            s[SERVED] = now
            _leave(w, i)
        return w.kind[op]
    return NOTHING


@bare
def _mark_hits(w):
    s = w.state
    s[LOOK] += 1
    for i in range(s[QUEUED]):
        r = w.queue[i]
        bank = w.requests[r, BANK]
        if w.requests[r, OP] == MAC and w.open_row[bank] == w.requests[r, ROW]:
            w.hit[bank] = s[LOOK]


@bare
def _issue(w, op, bank, row, now, log):
    s = w.state
    arm(w.device, op, bank, now)
    w.counts[op] += 1
    s[ISSUED] = 1
    if s[LOGGED] < log.shape[0]:
        note = log[s[LOGGED]]
        note[CLOCK], note[LOG_OP], note[LOG_BANK], note[LOG_ROW] = now, op, bank, row
        s[LOGGED] += 1
    if op in (s[ACT_OP], s[PRE_OP], PREA):
        _move_rows(w, op, bank, row)


@rare
def _move_rows(w, op, bank, row):
    s = w.state
    to = row if op == s[ACT_OP] else -1
    if w.everywhere[op]:
        for b in range(w.open_row.shape[0]):
            w.open_row[b] = to
        s[OPEN] = 0 if to < 0 else w.open_row.shape[0]
    else:
        w.open_row[bank] = to
        s[OPEN] += -1 if to < 0 else 1
