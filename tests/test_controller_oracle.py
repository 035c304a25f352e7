"""The compiled controller against one that ticks every clock: all commands, clocks and counters."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.policy import load_policy
from pimloom.arch.table import rule_rows
from tests.controller_streams import BY_BANK, PARTS, commands_of, memory_of, place, policy_of, stream
from tests.memory_run import run
from tests.naive_controller import Controller


def tick(memory, requests):
    """The oracle's channels when all requests are done."""
    rules = memory.table.rules
    own: list[list] = [[] for _ in range(memory.channels)]
    for (address, write, when), (channel, *where) in zip(requests, place(memory, requests), strict=True):
        own[channel].append((when, write, address, *where))
    fields = (rule_rows(rules), memory.table.names, rules.size.tolist(), rules.scope.tolist(), rules.bus.tolist())
    channels = [Controller(*fields, memory.policy, memory.clocks, mine, memory.postponed) for mine in own]
    for channel in channels:
        while not channel.finished:
            assert channel.now < 100_000
            channel.tick()
    for channel in channels:
        while channel.now < max(c.now for c in channels):
            channel.tick()
    return channels


def compare(memory, requests, parts):
    """Everything that the oracle knows, from the engine too; the requests come in one chunk and in `parts`."""
    channels = tick(memory, requests)
    whole = run(memory, requests)
    chosen = [where[0] for where in place(memory, requests)]
    expected = [(c.clock, k, *c[1:]) for k, channel in enumerate(channels) for c in channel.log]
    assert commands_of(whole) == expected
    for k, (channel, tally) in enumerate(zip(channels, whole.tallies, strict=True)):
        mine = [i for i, c in enumerate(chosen) if c == k]
        assert [(whole.accept[i], whole.done[i]) for i in mine] == [(r.accept, r.done) for r in channel.requests]
        assert tally.cycles == channel.now
        assert list(tally.rank_ck) == [tuple(ck) for ck in channel.rank_ck]
        reads = [r.done - r.accept for r in channel.requests if not r.write]
        found = {"read_latency_sum": sum(reads), "read_latency_max": max(reads, default=0)}
        found |= {"reads_done": len(reads), "writes_done": len(mine) - len(reads)}
        waits = [channel.now - due for _, _, due in channel.refreshes]
        found |= {"refresh_lag_max": max([channel.count["refresh_lag_max"], *waits])}
        assert tally.counters == {name: {**channel.count, **found}.get(name, 0) for name in tally.counters}
        assert tally.commands == Counter(c.name for c in channel.log)
        assert {int(n): int(tally.latency[n]) for n in np.flatnonzero(tally.latency)} == Counter(reads)
    pieces = run(memory, requests, parts=parts)
    assert (commands_of(pieces), pieces.accept, pieces.done) == (commands_of(whole), whole.accept, whole.done)
    assert [t._replace(latency=0) for t in pieces.tallies] == [t._replace(latency=0) for t in whole.tallies]


@st.composite
def policies(draw, part, sleeps=True):
    low, high = sorted(draw(st.sampled_from([(0, 1), (0, 0), (0.25, 0.5), (0.5, 0.8), (1, 1), (0.3, 1)])))
    refreshes = ["none", "all_bank", "staggered", *(["per_bank"] if part in BY_BANK else [])]
    fields: dict[str, list] = {
        "read_entries": [1, 2, 4, 32],
        "write_entries": [1, 2, 5, 32],
        "unified": [False, False, True],
        "queues": ["per_bank", "per_rank", "unified"],
        "requests_per_ck": [1, 2, 3],
        "queue_entries": [1, 2, 8],
        "scheduler": ["fr_fcfs", "fr_fcfs_row_hit"],
        "arbiter": ["round_robin", "oldest"],
        "page": ["open", "closed", "adaptive"],
        "page_timeout_ck": [1, 5, 20, 60],
        "row_hit_cap": [1, 2, 4, 100],
        "refresh": refreshes,
        "self_refresh_after_ck": [None, None, 1, 10, 100] if sleeps else [None],
    }
    chosen = {name: draw(st.sampled_from(values)) for name, values in fields.items()}
    return policy_of(**chosen, drain_low=low, drain_high=high)


@st.composite
def memories(draw):
    part = draw(st.sampled_from(PARTS))
    ranks = draw(st.sampled_from([1, 2])) if part in ("ddr4_3200", "ddr5_4800", "lpddr5_6400", "hbm2_2400") else 1
    sleeps = part != "hbm2_2400" or ranks == 1  # its SRE is of a pseudo channel
    timing = {"tRFC": draw(st.sampled_from([20, 60])), "tREFI": ranks * draw(st.sampled_from([300, 457]))}
    timing |= {"tXS": draw(st.sampled_from([25, 70]))}
    if part in BY_BANK:
        timing |= {"tRFCpb": draw(st.sampled_from([15, 40])), "tREFIpb": draw(st.sampled_from([200, 301, 500]))}
    timing = timing if draw(st.integers(0, 3)) else {}
    memory = memory_of(part, draw(policies(part, sleeps)), timing, ranks, draw(st.sampled_from([1, 1, 1, 2])))
    memory = memory._replace(postponed=draw(st.sampled_from([1, 2, 8])))  # 1: a refresh stops all queues at once
    if draw(st.integers(0, 4)) == 0:  # a PREab of the whole channel is no help to the refresh of one rank
        rules, opcode = memory.table.rules, memory.table.cmd("PREab")
        scope = np.where(np.arange(len(rules.scope)) == opcode, 0, rules.scope)
        memory = memory._replace(table=replace(memory.table, rules=rules._replace(scope=scope)))
    return memory


requests_and_pieces = (st.integers(0, 1 << 32), st.sampled_from([2, 15, 40]), st.integers(2, 60))


@settings(max_examples=40)
@given(memories(), *requests_and_pieces)
def test_the_engine_is_the_oracle(memory, seed, n, parts):
    compare(memory, stream(memory, Random(seed), n), min(parts, n))


@settings(max_examples=12)
@given(memories(), st.integers(0, 1 << 32), st.sampled_from([2, 15, 30]), st.integers(2, 30))
def test_the_engine_is_the_oracle_on_few_requests(memory, seed, n, parts):
    compare(memory, stream(memory, Random(seed), n), min(parts, n))


LATE = {
    "adaptive": policy_of(page="adaptive", page_timeout_ck=20, refresh="none"),
    "ramulator2": load_policy("ramulator2", {"page": "closed", "row_hit_cap": "1", "refresh": "none"}).value,
}


@pytest.mark.parametrize("shift", [1 << 48, 1 << 58])
@pytest.mark.parametrize("controller", LATE)
def test_no_clock_is_too_late_to_close_a_row(controller, shift):
    memory = memory_of("ddr4_3200", LATE[controller])
    requests = stream(memory, Random(3), 60)
    soon = commands_of(run(memory, requests, 100))
    late = commands_of(run(memory, [(address, write, t + shift) for address, write, t in requests], 100))
    assert "PRE" in {row[2] for row in soon}
    assert late == [(clock + shift, *rest) for clock, *rest in soon]


@pytest.mark.slow
@settings(max_examples=2000)
@given(memories(), st.integers(0, 1 << 32), st.sampled_from([20, 60, 300]), st.integers(2, 60))
def test_the_engine_is_the_oracle_at_length(memory, seed, n, parts):
    compare(memory, stream(memory, Random(seed), n), min(parts, n))
