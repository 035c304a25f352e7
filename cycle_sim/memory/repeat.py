"""A channel without requests: where one round of refreshes leaves what it found, the next ones are not simulated.

Two snapshots a round apart are compared as far as anything reads them: clocks by how far they lie ahead (one that has
passed binds nothing), all else as it is. If they agree, every further round does what this one did: counters grow by
as much, and clocks that went with the round go on. Nothing is approximated.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pimloom.cycle_sim.dram.kernels import record
from pimloom.cycle_sim.dram.kernels.buffered import fields as b
from pimloom.cycle_sim.dram.kernels.device import COUNTS, FAR, FIELDS, KIND, MOST, NEXT_IN, REST, WAIT, WINDOW
from pimloom.cycle_sim.dram.kernels.queued import fields as q

EMPTY = ("todo", "command", "request", "refreshes", "priority")  # hold nothing then: rings, logs and what lies between
MARKED = ("tree.bound", "tree.beside", "tree.ring", "log.tally", "log.rank", "bank", "state")  # not FIXED as a whole
FIXED, CLOCK, COUNT, SKIPPED = range(4)


class Part(NamedTuple):
    """One of a channel's arrays: what its values are, FIXED if None, and what is added to its clocks before they are
    compared."""

    values: np.ndarray
    kind: np.ndarray | None
    slack: np.ndarray | int


class Snapshot(NamedTuple):
    """All values of all parts."""

    now: int
    values: list[np.ndarray]


def is_idle(state: Any) -> bool:
    """Whether no request is under way, but for those that never will be, and no refresh."""
    g = state.state
    if isinstance(state, q.Channel):
        return bool(g[q.OUTSTANDING] == g[q.QUEUED] == g[q.MOVE] == 0 and g[q.REF_HEAD] == g[q.REF_TAIL])
    return bool(g[b.OUTSTANDING] == g[b.CHECK] == 0 and g[b.HEAD] == g[b.TAIL])


def interval_ck(state: Any) -> int:
    """Clocks from one refresh that falls due to the next."""
    return int(state.policy[q.INTERVAL if isinstance(state, q.Channel) else b.INTERVAL])


def round_ck(state: Any) -> int:
    """Clocks after which the same refresh falls due again."""
    if isinstance(state, q.Channel):
        turns = {q.STAGGERED: len(state.bank) // int(state.policy[q.OF_REFRESH]), q.PER_BANK: len(state.bank)}
        return interval_ck(state) * turns.get(int(state.policy[q.REFRESH]), 1)
    return interval_ck(state)


def windows(state: Any) -> int:
    """Issues after which all rules that count them have forgotten the ones before."""
    rules = state.tree.rule.reshape(-1, FIELDS)
    return math.lcm(*rules[rules[:, KIND] & COUNTS > 0][:, WINDOW].tolist())


def take(state: Any, now: int) -> Snapshot:
    """What the channel is like at clock `now`."""
    return Snapshot(now, [values.copy() for _, values in _arrays(state)])


def same(state: Any, one: Snapshot, other: Snapshot, until: int) -> bool:
    """Whether what comes after the one, before clock `until`, comes after the other, too; both of this channel."""
    for part, x, y in zip(_parts(state), one.values, other.values, strict=True):
        if part.kind is None:
            if (x != y).any():
                return False
            continue
        if ((x != y) & (part.kind == FIXED)).any():
            return False
        if (clocks := part.kind == CLOCK).any():
            near, far = (_ahead(values, part.slack, found.now, until) for values, found in ((x, one), (y, other)))
            if ((near != far) & clocks).any():
                return False
    return True


def _ahead(clocks: np.ndarray, slack: np.ndarray | int, now: int, until: int) -> np.ndarray:
    far = clocks >= until - slack
    return np.where(far, FAR, np.maximum(clocks + np.where(far, 0, slack) - now, 0))


def repeat(state: Any, one: Snapshot, other: Snapshot, times: int) -> None:
    """The channel is as in `other`: bring it to where `times` more rounds like that between the two would leave it."""
    step = other.now - one.now
    for part, x, y in zip(_parts(state), one.values, other.values, strict=True):
        if part.kind is not None:
            grown = y - x
            goes_on = (part.kind == COUNT) | (part.kind == CLOCK) & (grown == step)
            part.values[...] += np.where(goes_on, times * grown, 0)


def _parts(state: Any) -> Iterator[Part]:
    queued = isinstance(state, q.Channel)
    for name, values in _arrays(state):
        if name not in MARKED:
            yield Part(values, None, 0)
            continue
        kind, slack = np.full(values.shape, FIXED), np.zeros(values.shape, np.int64)
        _mark(state, name, kind, slack, queued)
        yield Part(values, kind, slack)


def _arrays(state: Any) -> Iterator[tuple[str, np.ndarray]]:
    for prefix, group in (("", state), ("tree.", state.tree), ("log.", state.log)):
        for name, values in zip(group._fields, group, strict=True):
            if isinstance(values, np.ndarray) and name not in EMPTY:
                yield prefix + name, values


def _mark(state: Any, name: str, kind: np.ndarray, slack: np.ndarray, queued: bool) -> None:
    """Write down which values of an array are no FIXED ones."""
    if name == "tree.bound":
        kind[...] = CLOCK
    elif name == "tree.beside":
        kind.reshape(-1, 3)[:, [MOST, REST]] = CLOCK
    elif name == "tree.ring":
        rules = state.tree.rule.reshape(-1, FIELDS)
        counting = rules[rules[:, KIND] & COUNTS > 0]
        end = counting[:, NEXT_IN].min() if len(counting) else 0  # then come the places to be written next
        kind[:end], slack[:end] = CLOCK, counting[:, WAIT].max(initial=0)
    elif name == "log.tally":
        kind[...] = COUNT
        kind[record.REFRESH_LAG] = FIXED
    elif name == "log.rank":
        kind[:, [record.ACTIVE_CK, record.IDLE_CK, record.SLEEP_CK]] = COUNT
        kind[:, [record.SINCE, record.IDLE_FROM]] = CLOCK
        slack[:, record.IDLE_FROM] = state.policy[q.SLEEP_AFTER] if queued else 0
    elif name == "bank" and queued:
        kind[:, q.USED], slack[:, q.USED] = CLOCK, state.policy[q.TIMEOUT]
    elif name == "state" and queued:
        kind[[q.NOW, q.NEXT_REFRESH, q.REF_AT]] = CLOCK
        kind[[q.REF_HEAD, q.REF_TAIL]] = COUNT
        kind[q.STOP] = SKIPPED
    elif name == "state":
        kind[[b.NOW, b.NEXT_REFRESH]] = CLOCK
        kind[[b.HEAD, b.TAIL, b.UPKEEP, b.UPKEEP_DONE, b.READ_LENGTH, b.WRITE_LENGTH, b.PRIORITY_LENGTH]] = COUNT
        kind[b.STOP] = SKIPPED
