"""The timing engine: when each command of several in-order streams issues on one channel.

Rules, in the words of the specification:

* Each clock, refresh first and then the streams in order are asked; who is legal on a free command bus issues,
  at most one command per bus and per stream in a clock.
* A head is legal when its release has come, no timing rule binds it, and the rows it needs are as it needs them.
* Every tREFI a refresh falls due. From then no row is opened in its scope; open rows finish; REFab issues when all
  banks are closed. If that would stop every stream for ever (open rows wait for a row that may not open), the hold is
  lifted for one command, in a clock in which nothing has issued yet. At most eight refreshes may be postponed (JESD79,
  JESD250); a ninth is an error. A REFab that a stream brings itself serves no refresh that is due.

The engine jumps from event to event; `tests/naive.py` ticks every clock and must agree.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import POSTPONED_MAX, REFRESH_SOONER, STREAM
from pimloom.arch.error import UserError
from pimloom.arch.table import Rules, Table
from pimloom.cycle_sim.dram.kernels.device import DEPTH, FAR, FIELDS, NEXT, Device, device
from pimloom.cycle_sim.dram.kernels.rows import CLOSED
from pimloom.cycle_sim.dram.kernels.stream import (
    END,
    FREE,
    HEAD,
    LOG_FULL,
    LOGGED,
    OK,
    SPAN,
    STARVED,
    TURN,
    Walk,
    load,
    refreshed,
    run,
)
from pimloom.cycle_sim.dram.words import NAMES, bad_field, describe


class Issue(NamedTuple):
    """Result of `issue`; clocks in CK from the start.

    issue_ck, end_ck: per stream, int64[len(stream)]: clock in which the first command of a row issues, and in which
    the effect of its last one is over. refresh_ck: int64[k, 2], (clock, node) of each REFab.
    idle_ck: first clock in which every command has ended and no rule waits any more. ready_ck: per refresh node, the
    first clock in which a REFab would be legal after the last command; FAR while rows are open.
    """

    issue_ck: list[np.ndarray]
    end_ck: list[np.ndarray]
    refresh_ck: np.ndarray
    idle_ck: int
    ready_ck: np.ndarray


class EndError(UserError):
    """Commands that can never issue. end: "starved", a ninth refresh is pending, or "stuck", rows are as no command
    needs them. issue_ck, refresh_ck: as of `Issue`, of what had issued until then."""

    def __init__(self, sentence: str, end: str, issue_ck: list[np.ndarray], refresh_ck: np.ndarray) -> None:
        super().__init__(sentence)
        self.end, self.issue_ck, self.refresh_ck = end, issue_ck, refresh_ck


class Engine:
    """The engine for one table; `issue` is a function of its arguments alone."""

    def __init__(self, table: Table) -> None:
        self.table = table
        names, size = table.names, table.rules.size
        self._device = Device(**device(table, frozenset(names), {}, names))
        self._cmds = _commands(table.rules, self._device)
        self._rows = np.full((table.rules.buffer.max() + 1, size[-1] + 1, 3), -1)
        self._clock = np.zeros(FREE + table.rules.bus.max() + 1, np.int64)
        self._clock[TURN] = -1
        self._fan = size // np.concatenate([[1], size[:-1]])
        self._limits = np.array([len(names), *self._fan[1:], table.rules.rows, table.rules.columns])

    def issue(
        self,
        streams: Sequence[np.ndarray],
        *,
        refresh: bool = True,
        due_ck: int | None = None,
        apart_ck: int = 0,
        refreshed_ck: int = -int(FAR),
    ) -> Issue:
        """See `issue`."""
        table, rules = self.table, self.table.rules
        rows, ptr = _joined(streams), _starts(streams)
        first, last = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
        ref = rules.refresh if refresh else -1
        walk = self.walk(rows, ptr, refresh)
        if due_ck is not None:
            walk.due[:] = due_ck
        walk.due[:] += apart_ck * np.arange(len(walk.due))
        if refreshed_ck > -FAR:
            refreshed(walk, ref, refreshed_ck)
        code, log = LOG_FULL, np.zeros((0, 2), np.int64)
        who, ready = np.full(3, -1), np.zeros(len(walk.due), np.int64)
        while code == LOG_FULL:  # go on with more room
            log = np.concatenate([log, np.zeros((64 + len(log), 2), np.int64)])
            code, where, idle = run(walk, ref, rules.refi, first, last, log, who, ready)
        cut = list(zip(ptr[:-1], ptr[1:], strict=True))
        log = log[: walk.clock[LOGGED]]
        if code != OK:
            until = [issued[issued >= 0] for issued in (first[a:b] for a, b in cut)]
            sentence = _sentence(table, rows, code, where, who, ptr)
            raise EndError(sentence, "starved" if code == STARVED else "stuck", until, log)
        end = last + rules.done[rows["cmd"]]
        return Issue([first[a:b] for a, b in cut], [end[a:b] for a, b in cut], log, int(idle), ready)

    def walk(self, rows: np.ndarray, ptr: np.ndarray, refresh: bool) -> Walk:
        """The state before the first clock. rows: of all streams; ptr: where each begins, and the end. Raises UserError
        for a field out of bounds."""
        rules, stream = self.table.rules, np.empty((len(rows), 8), np.int64)
        columns = (np.ascontiguousarray(rows[name]) for name in NAMES)
        bad = load(stream, *columns, self._limits, rules.needs, rules.leaves)
        if bad >= 0:
            raise UserError(bad_field(self.table, rows, bad, self._limits))
        ref, due = rules.refresh if refresh else -1, rules.refi
        dev, banks = self._device, self._rows.shape[1] - 1
        nodes = banks // int(self._cmds[ref, SPAN]) if ref >= 0 else 0
        heads, low = np.zeros((len(ptr) - 1, 3), np.int64), np.zeros(nodes + len(ptr) - 1, np.int64)
        heads[:, HEAD], heads[:, END] = ptr[:-1], ptr[1:]
        low[:nodes] = np.arange(nodes) * self._cmds[ref, SPAN]
        own = Device(
            dev.path, dev.bound.copy(), dev.aside, dev.beside.copy(), dev.first_rule, dev.rule, dev.ring.copy()
        )
        dues, open_banks = np.full(nodes, due, np.int64), np.zeros(nodes, np.int64)
        rows, clock = self._rows.copy(), self._clock.copy()
        return Walk(own, self._cmds, self._fan, stream, rows, dues, open_banks, heads, low, clock)


def _joined(streams: Sequence[np.ndarray]) -> np.ndarray:
    if len(streams) == 1:
        return streams[0]
    same = all(stream.dtype == STREAM for stream in streams)  # then numpy need not compare all fields of all
    return np.concatenate([np.zeros(0, STREAM), *streams], dtype=STREAM if same else None)


def _starts(streams: Sequence[np.ndarray]) -> np.ndarray:
    """Where each stream begins in all of them, and the end."""
    return np.cumsum([0, *map(len, streams)], dtype=np.int64)


def issue(
    table: Table,
    streams: Sequence[np.ndarray],
    *,
    refresh: bool = True,
    due_ck: int | None = None,
    apart_ck: int = 0,
    refreshed_ck: int = -int(FAR),
) -> Issue:
    """Issue clocks of `streams` (STREAM arrays, highest priority first) on one channel that starts idle and closed.

    due_ck: clock in which the first refresh falls due (default tREFI). apart_ck: by which it does so later in each
    refresh node than in the one before; staggered: tREFI / nodes. refreshed_ck: clock (≤ 0) of an earlier REFab
    that may still be running. Raises UserError naming the command for a stream that can never issue.
    """
    return engine_of(table).issue(streams, refresh=refresh, due_ck=due_ck, apart_ck=apart_ck, refreshed_ck=refreshed_ck)


@lru_cache(maxsize=64)
def engine_of(table: Table) -> Engine:
    """The engine for a table, made once."""
    return Engine(table)


def _longest(table: Table, command: int) -> str:
    """The longest wait of a command behind others if it is long beside tREFI: what delays a refresh most."""
    rules = table.rules
    mine = rules.before_rule[rules.before_ptr[command] : rules.before_ptr[command + 1]]
    rule = mine[rules.wait[mine].argmax()]
    if (wait := int(rules.wait[rule])) * POSTPONED_MAX < rules.refi:
        return ""
    armed = (c for c in range(len(table.names)) if rule in rules.after_rule[slice(*rules.after_ptr[c : c + 2])])
    both = f"{table.names[command]} waits {wait:,} CK behind {table.names[next(armed)]}"
    return f", as {both}, tREFI is {rules.refi:,} CK"


def _sentence(table: Table, rows: np.ndarray, code: int, where: int, who: np.ndarray, ptr: np.ndarray) -> str:
    stream = int(np.searchsorted(ptr, where, side="right")) - 1
    number = f"command {where - ptr[stream]}" + (f" of stream {stream}" if len(ptr) > 2 else "")
    said = f"{number} ({describe(table, rows[where])})"
    bank_row, by, at = int(who[0]), int(who[1]), int(who[2])
    if code == STARVED:
        postponed = f"{POSTPONED_MAX} refreshes are postponed already and rows are still open"
        return f"{said} comes too late: {postponed}{_longest(table, int(rows[where]['cmd']))}; {REFRESH_SOONER}"
    did = f"{table.names[by]} {{}} at CK {at}" if by >= 0 else "nothing opened it"
    if table.rules.needs[rows[where]["cmd"]] == CLOSED:
        return f"{said} needs closed rows, but " + did.format(f"opened row {bank_row}")
    if bank_row >= 0:
        return f"{said} needs its row open, but " + did.format(f"opened row {bank_row}")
    return f"{said} needs an open row, but " + did.format("closed it")


def _commands(rules: Rules, dev: Device) -> np.ndarray:
    """The kernels' columns of each command."""
    nodes, banks = np.array(sorted(set(rules.size.tolist()))), rules.size[-1]  # np.unique imports numpy.ma: 10 ms
    span, depth, window = banks // rules.size[rules.scope], np.zeros_like(rules.scope), np.ones_like(rules.scope)
    records = dev.rule.reshape(-1, FIELDS)
    np.maximum.at(depth, records[:, NEXT], records[:, DEPTH])
    by = np.repeat(np.arange(len(rules.scope)), np.diff(rules.after_ptr))
    np.maximum.at(window, by, rules.window[rules.after_rule])
    each = np.where(banks // nodes[depth] < span, span, 1)
    columns = [rules.needs, rules.leaves, rules.buffer, rules.bus, rules.done, rules.gap]
    columns += [span, depth + 1, each, window, *rules.needed]
    return np.ascontiguousarray(np.column_stack(columns))
