"""A channel as the kernels need it, from a `Memory`."""

import math

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory, Policy
from pimloom.arch.table import Table
from pimloom.cycle_sim.memory import buffered, buffers, queued, queues
from pimloom.cycle_sim.memory.device import COMMANDS, FAR, Device, device
from pimloom.cycle_sim.memory.pending import table as hash_table
from pimloom.cycle_sim.memory.record import record

REFRESHES = {
    "none": queued.NONE,
    "all_bank": queued.ALL_BANK,
    "staggered": queued.STAGGERED,
    "per_bank": queued.PER_BANK,
}
LOG_ROWS = 1 << 16
PRIORITIES = 1568  # upkeep that waits; CMU-SAFARI/ramulator2@c5b1c3a priority_buffer_size


def commands_used(policy: Policy, table: Table) -> frozenset[str]:
    """The commands that a controller with this policy issues."""
    used = {"ACT", "PRE", *(("RDA", "WRA") if policy.page == "closed" else ("RD", "WR"))}
    if policy.refresh != "none":
        used.add("REFpb" if policy.refresh == "per_bank" else "REFab")
    if policy.self_refresh_after_ck is not None:
        used |= {"SRE", "SRX"}
    if absent := sorted(used - set(table.names)):
        raise UserError(f"this device has no {absent[0]}, which the controller's policy needs")
    return frozenset(used)


def closes_all(memory: Memory) -> bool:
    """Whether one PREab closes just the rows of a rank before its refresh."""
    names, rules = memory.table.names, memory.table.rules
    if memory.policy.quirks == "dramsim3" or "PREab" not in names:
        return False
    return bool(rules.size[rules.scope[names.index("PREab")]] == rules.size[2])


def interval(memory: Memory) -> int:
    """Clocks between two refreshes of a channel."""
    policy, clocks = memory.policy, memory.clocks
    size = memory.table.rules.size.tolist()
    if policy.refresh == "none":
        return int(FAR)
    if policy.refresh == "per_bank":
        own = policy.quirks == "dramsim3"
        return clocks["tREFIpb"] if own else max(1, clocks["tREFIpb"] // size[2])
    return clocks["tREFI"] // size[2] if policy.refresh == "staggered" else clocks["tREFI"]


def patience(memory: Memory) -> int:
    """Clocks without progress after which requests that wait will wait for ever: refreshes may go on in them."""
    return 1000 * memory.clocks["tREFI"] + 20 * max(memory.table.rules.wait.tolist(), default=0)


def buses(memory: Memory) -> np.ndarray:
    """Bus of each command of COMMANDS."""
    names, bus = memory.table.names, memory.table.rules.bus.tolist()
    return np.array([bus[names.index(c)] if c in names else 0 for c in COMMANDS], np.int64)


def queued_channel(memory: Memory, logging: bool) -> queued.Channel:
    """One channel of a `queued` controller, before its first clock."""
    policy, clocks = memory.policy, memory.clocks
    used = commands_used(policy, memory.table) | ({"PREab"} if closes_all(memory) else set())
    parts = device(memory.table, used)
    size = memory.table.rules.size.tolist()
    ranks, banks = size[2], size[4]
    n_queues = {"per_bank": banks, "per_rank": ranks, "unified": 1}[policy.queues]
    entries = policy.read_entries + policy.write_entries + n_queues * policy.queue_entries
    values = np.zeros(queues.N_POLICY, np.int64)
    for place, value in {
        queues.AUTO: 2 * (policy.page == "closed"),
        queues.ADAPTIVE: policy.page == "adaptive",
        queues.TIMEOUT: policy.page_timeout_ck,
        queues.CAP: policy.row_hit_cap,
        queues.HITS_FIRST: policy.scheduler == "fr_fcfs_row_hit",
        queues.OLDEST: policy.arbiter == "oldest",
        queues.READS: policy.read_entries,
        queues.WRITES: policy.write_entries,
        queues.UNIFIED: policy.unified,
        queues.DEPTH: policy.queue_entries,
        queues.DRAIN_HIGH: max(1, round(policy.drain_high * policy.write_entries)),
        queues.DRAIN_LOW: round(policy.drain_low * policy.write_entries),
        queues.DRAIN_IDLE: policy.drain_idle,
        queues.REFRESH: REFRESHES[policy.refresh],
        queues.INTERVAL: interval(memory),
        queues.SLEEP_AFTER: policy.self_refresh_after_ck or 0,
        queues.DUAL: int(memory.table.rules.bus.max()) > 0,
        queues.DRAMSIM3: policy.quirks == "dramsim3",
        queues.READ_CK: clocks["nCL"] + clocks["nBL"],
        queues.WRITE_CK: clocks["nCWL"] + clocks["nBL"],
        queues.PER_CK: policy.requests_per_ck,
        queues.CLOSE_ALL: closes_all(memory),
        queues.PATIENCE: patience(memory),
    }.items():
        values[place] = value
    home = {
        "per_bank": np.arange(banks),
        "per_rank": np.arange(banks) // parts.span[2],
        "unified": np.zeros(banks, int),
    }
    state = np.zeros(queued.N_STATE, np.int64)
    state[queued.N_FREE], state[queued.STOP], state[queued.REF_AT] = entries, FAR, FAR
    state[queued.NEXT_REFRESH] = values[queues.INTERVAL]
    waiting = np.zeros((64, 3), np.int64)
    waiting[:, 2] = np.arange(1, 65)
    waiting[-1, 2] = -1
    return queued.Channel(
        queues=_queues(parts, memory, values, n_queues, entries, home[policy.queues].astype(np.int64)),
        order=np.zeros((2, max(policy.read_entries, policy.write_entries)), np.int64),
        spare=np.arange(entries, dtype=np.int64),
        reads=hash_table(entries),
        writes=hash_table(entries),
        waiting=waiting,
        refreshes=np.zeros((64 + 2 * ranks, 2), np.int64),
        rank=np.zeros((ranks, 8), np.int64),
        state=state,
        record=record(max(LOG_ROWS, 4 * entries), logging),
    )


def _queues(
    parts: Device, memory: Memory, values: np.ndarray, n_queues: int, entries: int, home: np.ndarray
) -> queues.Queues:
    banks, depth = len(home), memory.policy.queue_entries

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    pick = zeros(5)
    pick[queues.AT], pick[queues.BY] = FAR, -1
    return queues.Queues(
        device=parts,
        policy=values,
        bus=buses(memory),
        pool=zeros(entries, 8),
        queue=zeros(n_queues, depth),
        length=zeros(n_queues),
        choice=zeros(n_queues, depth, 3),
        choices=zeros(n_queues),
        active=zeros(n_queues),
        place=zeros(n_queues),
        row=np.full(banks, -1),
        hits=zeros(banks),
        used=zeros(banks),
        wanted=zeros(banks),
        rank=np.arange(banks) // parts.span[2],
        asleep=zeros(banks // int(parts.span[2])),
        blocked=zeros(n_queues),
        home=home,
        pick=pick,
    )


def buffered_channel(memory: Memory, logging: bool) -> buffered.Controller:
    """One channel of a `buffered` controller, before its first clock."""
    policy, clocks, rules = memory.policy, memory.clocks, memory.table.rules
    closing = policy.page == "closed"
    used = {"ACT", "PRE", "PREab", "RD", "WR", *(("RDA", "WRA") if closing else ())}
    used |= {"REFab"} if policy.refresh != "none" else set()
    size = rules.size.tolist()
    ranks, banks = size[2], size[4]
    values = np.zeros(buffers.N_POLICY, np.int64)
    refresh = rules.refresh
    scope = banks // size[int(rules.scope[refresh])] if refresh >= 0 else banks
    low, high = (
        float(np.float32(mark) * np.float32(policy.write_entries)) for mark in (policy.drain_low, policy.drain_high)
    )
    for place, value in {
        buffers.READS: policy.read_entries,
        buffers.WRITES: policy.write_entries,
        buffers.HIGH: math.floor(high),
        buffers.LOW: math.ceil(low),
        buffers.CAP: policy.row_hit_cap,
        buffers.CLOSING_CAP: closing,
        buffers.SPARE_HITS: policy.scheduler == "fr_fcfs_row_hit",
        buffers.INTERVAL: interval(memory),
        buffers.SCOPE: scope,
        buffers.READ_CK: clocks["nCL"] + clocks["nBL"],
        buffers.PRIORITIES: PRIORITIES,
        buffers.DUAL: int(rules.bus.max()) > 0,
        buffers.PATIENCE: patience(memory),
    }.items():
        values[place] = value
    entries = policy.read_entries + policy.write_entries + banks
    deepest = max(policy.read_entries, policy.write_entries)
    state, pick = np.zeros(buffers.N_STATE, np.int64), np.zeros((2, 3), np.int64)
    state[buffers.NOW], state[buffers.CHECK], state[buffers.N_FREE], state[buffers.STOP] = 1, 1, entries, FAR
    state[buffers.NEXT_REFRESH] = values[buffers.INTERVAL]
    pick[:, buffers.AT] = FAR

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    parts = device(memory.table, frozenset(used))
    return buffered.Controller(
        buffers=buffers.Buffers(
            device=parts,
            policy=values,
            pool=zeros(entries, 8),
            queue=zeros(2 * banks, deepest),
            length=zeros(2 * banks),
            choice=_no_choice(banks),
            active=zeros(2, banks),
            n_active=zeros(2),
            place=zeros(2 * banks),
            held=zeros(banks),
            holds=zeros(banks),
            priority=zeros(PRIORITIES, 2),
            row=np.full(banks, -1),
            accesses=zeros(banks),
            closing=zeros(banks),
            pick=pick,
            state=state,
        ),
        spare=np.arange(entries, dtype=np.int64),
        written=hash_table(entries),
        rank_of=np.arange(banks) // parts.span[2],
        rank=zeros(ranks, 8),
        asleep=zeros(ranks),
        record=record(LOG_ROWS, logging),
    )


def _no_choice(banks: int) -> np.ndarray:
    found = np.full((2 * banks, 8), -1)
    found[:, buffers.OF_BANK] = np.tile(np.arange(banks), 2)
    return found
