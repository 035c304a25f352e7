"""A channel's state as the kernels need it, from a `Memory`."""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory, Policy
from pimloom.arch.table import Table
from pimloom.cycle_sim.dram.kernels.buffered import fields as b
from pimloom.cycle_sim.dram.kernels.device import COMMANDS, FAR, RD, WR, device, shape_of
from pimloom.cycle_sim.dram.kernels.ladder import ladders
from pimloom.cycle_sim.dram.kernels.links import links
from pimloom.cycle_sim.dram.kernels.pending import table as hash_table
from pimloom.cycle_sim.dram.kernels.queued import fields as q
from pimloom.cycle_sim.dram.kernels.record import record
from pimloom.cycle_sim.dram.kernels.tree import SLOTS, new_tree

REFRESHES = {"none": q.NONE, "all_bank": q.ALL_BANK, "staggered": q.STAGGERED, "per_bank": q.PER_BANK}
LOG_ROWS, LEAST_ROWS = 1 << 16, 1 << 10  # of all channels together, until they are handed on; of each at least
WAITING = 64  # requests that wait with others, at first
PRIORITIES = 1568  # upkeep that waits; CMU-SAFARI/ramulator2@c5b1c3a priority_buffer_size


def commands_used(policy: Policy, table: Table) -> frozenset[str]:
    """The commands that a controller with this policy issues. Raises UserError if the device lacks one."""
    used = {"ACT", "PRE", *(("RDA", "WRA") if policy.page == "closed" else ("RD", "WR"))}
    if policy.structure == "buffered":
        used |= {"PREab", "RD", "WR"}
    if policy.refresh != "none":
        used.add("REFpb" if policy.refresh == "per_bank" else "REFab")
    if policy.self_refresh_after_ck is not None:
        used |= {"SRE", "SRX"}
    if absent := sorted(used - set(table.names)):
        field = {"SRE": "self_refresh_after_ck", "SRX": "self_refresh_after_ck", "PREab": "structure"}.get(
            absent[0], "refresh"
        )
        raise UserError(
            f"the device has no {absent[0]}, which the controller's {field} needs: "
            f"set controller.{field}, or name another --controller"
        )
    return frozenset(used)


def nodes_of(memory: Memory, name: str) -> int:
    """How many of this command it takes for a whole channel; of one that the device has not, as many as ranks."""
    names, rules = memory.table.names, memory.table.rules
    return int(rules.size[rules.scope[names.index(name)]] if name in names else rules.size[2])


def closes_all(memory: Memory) -> bool:
    """Whether one PREab closes just the rows that a REFab needs closed."""
    if memory.policy.quirks == "dramsim3" or "PREab" not in memory.table.names:
        return False
    return nodes_of(memory, "PREab") == nodes_of(memory, "REFab")


def _check_ranks(memory: Memory) -> None:
    """Raise UserError where a command is of several ranks, and the controller knows it of one only."""
    policy, ranks = memory.policy, int(memory.table.rules.size[2])
    if policy.self_refresh_after_ck is not None and nodes_of(memory, "SRE") != ranks:
        raise UserError(
            "controller.self_refresh_after_ck: SRE of this standard is of all ranks of a pseudo channel, and this "
            "controller puts single ranks to sleep; expected null, or organization.ranks of 1"
        )
    if policy.quirks == "dramsim3" and policy.refresh != "none" and nodes_of(memory, "REFab") != ranks:
        raise UserError(
            "organization.ranks: REFab of this standard is of all ranks of a pseudo channel, which DRAMsim3 does not "
            "know; expected 1, or another --controller"
        )


def interval(memory: Memory) -> int:
    """Clocks between two refreshes of a channel."""
    policy, clocks = memory.policy, memory.clocks
    ranks = int(memory.table.rules.size[2])
    if policy.refresh == "none":
        return int(FAR)
    if policy.refresh == "per_bank":
        own = policy.quirks == "dramsim3"
        return clocks["tREFIpb"] if own else max(1, clocks["tREFIpb"] // ranks)
    return clocks["tREFI"] // nodes_of(memory, "REFab") if policy.refresh == "staggered" else clocks["tREFI"]


def postponed_ck(memory: Memory, times: int | None = None) -> int:
    """Clocks by which a refresh may be postponed: those in which so many of a bank fall due, None: as many as the
    standard allows."""
    clocks, size = memory.clocks, memory.table.rules.size
    per_bank = memory.policy.refresh == "per_bank"
    every = clocks["tREFIpb"] * int(size[4] // size[2]) if per_bank else clocks["tREFI"]
    return (memory.postponed if times is None else times) * every


def patience(memory: Memory) -> int:
    """Clocks without progress after which requests that wait will wait for ever: refreshes may go on in them."""
    return 1000 * memory.clocks["tREFI"] + 20 * max(memory.table.rules.wait.tolist(), default=0)


def buses(memory: Memory) -> list[int]:
    """Bus of each command of COMMANDS."""
    names, bus = memory.table.names, memory.table.rules.bus.tolist()
    return [bus[names.index(c)] if c in names else 0 for c in COMMANDS]


def queued_channel(memory: Memory, logging: bool) -> q.Channel:
    """One channel of a `queued` controller, before its first clock."""
    policy, size = memory.policy, memory.table.rules.size.tolist()
    ranks, banks = size[2], size[4]
    _check_ranks(memory)
    used = commands_used(policy, memory.table) | ({"PREab"} if closes_all(memory) else set())
    lines = {"per_bank": banks, "per_rank": ranks, "unified": 1}[policy.queues]
    entries = policy.read_entries + policy.write_entries + lines * policy.queue_entries
    _check(entries)
    values = _queued_policy(memory)
    bank = _zeros(banks, 6)
    values[q.QUEUE_DEPTH] = sorted(set(size)).index(lines)
    values[q.OF_QUEUE] = banks // lines
    bank[:, q.OPENED], bank[:, q.RANK] = -1, np.arange(banks) // (banks // ranks)
    bank[:, q.HOME] = np.arange(banks) // (banks // lines)
    line = _zeros(lines, 6)
    line[:, [q.FIRST, q.FIRST_WRITE, q.LAST, q.LAST_WRITE]] = -1
    state = _scalars(q.N_STATE, {q.N_FREE: entries, q.STOP: FAR, q.REF_AT: FAR})
    state[q.NEXT_REFRESH] = values[q.INTERVAL]
    return q.Channel(
        tree=new_tree(_idle(memory.table, frozenset(used), (("RDA", RD), ("WRA", WR))), shape_of(memory.table)),
        log=record(max(LEAST_ROWS, LOG_ROWS // memory.channels, 4 * entries), ranks, logging),
        policy=values,
        pool=_zeros(entries, 10),
        **links(entries, banks, lines * policy.queue_entries),
        line=line,
        bank=bank,
        spare=np.arange(entries, dtype=np.int64),
        ladder=ladders(3, banks),
        seen=hash_table(entries, 2),
        waiting=chain(_zeros(WAITING, 3), 0),
        refreshes=_zeros(64 + 2 * ranks, 3),
        state=state,
    )


def chain(waiting: np.ndarray, first: int) -> np.ndarray:
    """The array, with the places from `first` on in a chain of free ones."""
    waiting[first:, q.NEXT] = [*range(first + 1, len(waiting)), -1]
    return waiting


def _queued_policy(memory: Memory) -> np.ndarray:
    policy, clocks, size = memory.policy, memory.clocks, memory.table.rules.size.tolist()
    named = {
        q.AUTO: 2 * (policy.page == "closed"),
        q.ADAPTIVE: policy.page == "adaptive",
        q.TIMEOUT: policy.page_timeout_ck,
        q.CAP: policy.row_hit_cap,
        q.HITS_FIRST: policy.scheduler == "fr_fcfs_row_hit",
        q.OLDEST: policy.arbiter == "oldest",
        q.READ_ENTRIES: policy.read_entries,
        q.WRITE_ENTRIES: policy.write_entries,
        q.UNIFIED: policy.unified,
        q.DEPTH: policy.queue_entries,
        q.DRAIN_HIGH: max(1, round(policy.drain_high * policy.write_entries)),
        q.DRAIN_LOW: round(policy.drain_low * policy.write_entries),
        q.DRAIN_IDLE: policy.drain_idle,
        q.REFRESH: REFRESHES[policy.refresh],
        q.INTERVAL: interval(memory),
        q.SLEEP_AFTER: policy.self_refresh_after_ck or 0,
        q.DUAL: int(memory.table.rules.bus.max()) > 0,
        q.DRAMSIM3: policy.quirks == "dramsim3",
        q.READ_CK: clocks["nCL"] + clocks["nBL"],
        q.WRITE_CK: clocks["nCWL"] + clocks["nBL"],
        q.PER_CK: policy.requests_per_ck,
        q.CLOSE_ALL: closes_all(memory),
        q.PATIENCE: patience(memory),
        q.OF_RANK: size[4] // size[2],
        q.OF_GROUP: size[4] // size[3],
        q.OF_REFRESH: size[4] // nodes_of(memory, "REFab"),
        q.FORCE: postponed_ck(memory, memory.postponed - 1) if policy.quirks == "none" else FAR,
    }
    return _scalars(q.BUS + len(COMMANDS), named | {q.BUS + c: bus for c, bus in enumerate(buses(memory))})


def buffered_channel(memory: Memory, logging: bool) -> b.Channel:
    """One channel of a `buffered` controller, before its first clock."""
    policy, rules = memory.policy, memory.table.rules
    used = commands_used(policy, memory.table)
    ranks, banks = int(rules.size[2]), int(rules.size[4])
    entries = policy.read_entries + policy.write_entries + banks
    _check(entries)
    values = _buffered_policy(memory)
    bank = _zeros(banks, 12)
    bank[:, b.OPENED], bank[:, b.HOLDS], bank[:, b.RANK] = -1, -1, np.arange(banks) // (banks // ranks)
    state = _scalars(b.N_STATE, {b.NOW: 1, b.CHECK: 1, b.N_FREE: entries, b.STOP: FAR})
    state[b.NEXT_REFRESH] = values[b.INTERVAL]
    return b.Channel(
        tree=new_tree(_idle(memory.table, used), shape_of(memory.table)),
        log=record(max(LEAST_ROWS, LOG_ROWS // memory.channels, 4 * entries), ranks, logging),
        policy=values,
        pool=_zeros(entries, 10),
        **links(entries, 2 * banks, policy.read_entries + policy.write_entries),
        busy=_zeros(2, banks),
        held=_zeros(banks),
        bank=bank,
        priority=_zeros(PRIORITIES, 3),
        spare=np.arange(entries, dtype=np.int64),
        seen=hash_table(entries),
        ladder=ladders(1, banks),
        state=state,
    )


def _buffered_policy(memory: Memory) -> np.ndarray:
    policy, clocks, rules = memory.policy, memory.clocks, memory.table.rules
    # Ramulator compares in single precision
    low, high = (float(np.float32(m) * np.float32(policy.write_entries)) for m in (policy.drain_low, policy.drain_high))
    banks = int(rules.size[4])
    named = {
        b.READ_ENTRIES: policy.read_entries,
        b.WRITE_ENTRIES: policy.write_entries,
        b.HIGH: math.floor(high),
        b.LOW: math.ceil(low),
        b.CAP: policy.row_hit_cap,
        b.CLOSING_CAP: policy.page == "closed",
        b.SPARE_HITS: policy.scheduler == "fr_fcfs_row_hit",
        b.INTERVAL: interval(memory),
        b.SCOPE: banks // int(rules.size[rules.scope[rules.refresh]]) if rules.refresh >= 0 else banks,
        b.READ_CK: clocks["nCL"] + clocks["nBL"],
        b.PRIORITIES: PRIORITIES,
        b.DUAL: int(rules.bus.max()) > 0,
        b.PATIENCE: patience(memory),
    }
    return _scalars(b.N_POLICY, named)


def _idle(table: Table, used: frozenset[str], columns: tuple[tuple[str, int], ...] = ()) -> dict[str, np.ndarray]:
    """See `device`, whose arrays take a millisecond: many short runs are of one table."""
    return {name: array.copy() for name, array in _made(table, used, columns).items()}


@lru_cache(maxsize=32)
def _made(table: Table, used: frozenset[str], columns: tuple[tuple[str, int], ...]) -> dict[str, np.ndarray]:
    return device(table, used, dict(columns))


def _check(entries: int) -> None:
    """Raises UserError if requests have no place in a key."""
    if entries > 1 << SLOTS:
        raise UserError(f"{entries} requests in the queues of a channel: at most {1 << SLOTS}; take shorter queues")


def _zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int64)


def _scalars(n: int, named: Mapping[int, int | np.int64]) -> np.ndarray:
    """int64[n] with values at named places."""
    found = _zeros(n)
    for place, value in named.items():
        found[place] = value
    return found
