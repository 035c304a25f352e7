"""What must hold on pools of replicas and machines, whatever the requests: tokens, order, one thing at a time."""

from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.clock.splitwise import Limits, Machine, Run, fewest_requests, fewest_tokens, in_turn, run
from pimloom.systems.serving.schedulers.live import LiveRequest
from tests.serving_cases import LATENCIES
from tests.serving_pools import distserve


def drawn(seed: int, least_output: int) -> list[LiveRequest]:
    random, at, found = Random(seed), 0, []
    for number in range(random.randint(1, 25)):
        at += random.choice([1, 3000, 40_000]) + random.randint(0, 9)
        found.append(LiveRequest(number, at, random.randint(1, 200), random.randint(least_output, 30)))
    return found


@given(seed=st.integers(0, 2**32), stages=st.integers(1, 3), replicas=st.integers(1, 3), apart=st.booleans())
@settings(max_examples=60)
def test_replicas_for_prompts_and_decode(seed, stages, replicas, apart):
    requests = drawn(seed, 1)
    config: dict[str, Any] = {"latency": "lin", "prefill_max_tokens": 300}
    if apart:
        config |= {"cluster": "disagg", "prefill_instances": replicas, "decode_instances": 2}
        config |= {"pp_prefill": stages, "pp_decode": 2}
    else:
        config |= {"cluster": "colocated", "instances": replicas, "pp": stages}
    made = distserve(config, requests)
    for r in requests:
        assert r.arrival <= r.first_scheduled < r.first_token < r.completion and r.cached == r.last
    by_worker: dict[int, list[tuple[int, int]]] = {}
    for worker, kind, each in made:
        by_worker.setdefault(worker, []).append((each.start, each.end))
        if kind == "prefill":
            assert sum(each.new) <= 300 and each.new == [r.prompt for r in each.requests]
        else:
            assert set(each.new) == {1}
    for spans in by_worker.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))
    trips = sum(len(each.requests) for _, kind, each in made if kind == "decode")
    ring = config["pp_decode"] if apart else stages
    assert trips == ring * sum(r.output for r in requests)


@given(seed=st.integers(0, 2**32), orca=st.booleans(), split=st.booleans(), most=st.sampled_from([1, 3, 16]))
@settings(max_examples=80)
def test_machines_for_prompts_and_tokens(seed, orca, split, most):
    requests, events, runs = drawn(seed, 2), Events(), list[Run]()
    limits = Limits(most) if orca else Limits(most, 256, 4)
    machines = [Machine(events, LATENCIES["tok"], limits, runs.append) for _ in range(3)]
    pools = (machines[:2], fewest_requests), (machines[2:], in_turn()) if split else None
    tasks = run(requests, *pools, lambda r: 5 * r.prompt, events)
    assert all(r.arrival < r.first_token < r.completion for r in requests) and len(tasks) == len(requests)
    made = dict.fromkeys(range(len(requests)), 0)
    for each in runs:
        assert len(each.batch) <= most and (each.iterations == 1 or not any(t.prompt for t in each.batch))
        sizes = [t.new for t in each.batch]
        assert orca or len(sizes) == 1 or sum(sizes) <= 256
        for task in each.batch:
            made[task.request.number] += each.iterations
    assert made == {r.number: r.output for r in requests}
    for machine in machines:
        spans = sorted((r.start, r.start + r.each * r.iterations) for r in runs if r.machine is machine)
        assert all(a[1] <= b[0] for a, b in pairwise(spans)) and not machine.pool
        assert split or machine.pending_tokens == 0
    assert fewest_tokens(machines) in machines


@given(seed=st.integers(0, 2**32), stages=st.integers(2, 3))
@settings(max_examples=30)
def test_decode_is_regrouped_at_each_stage(seed, stages):
    """What has left the stage before goes on together: no batch waits behind another."""
    config = {"latency": "lin", "prefill_max_tokens": 300, "cluster": "colocated", "instances": 1, "pp": stages}
    made = [(worker, each) for worker, kind, each in distserve(config, drawn(seed, 1)) if kind == "decode"]
    for stage in range(1, stages):
        there = [(each.end, r.number) for worker, each in made if worker == stage - 1 for r in each.requests]
        for each in (each for worker, each in made if worker == stage):
            batch = {r.number for r in each.requests}
            assert {number for end, number in there if end < each.start} <= batch
            there = [(end, number) for end, number in there if number not in batch or end > each.start]


def machine_alone(most: int, *requests: LiveRequest, orca: bool = False) -> dict[int, int]:
    """A machine for prompts and one for tokens, or one for both unless `orca`; how often each was passed over."""
    events = Events()
    limits = Limits(most) if orca else Limits(most, 256, 4)
    machines = [Machine(events, LATENCIES["tok"], limits, lambda each: None) for _ in range(1 + orca)]
    pools = (machines[:1], in_turn()), (machines[1:], in_turn()) if orca else None
    return {each.request.number: each.tokens.passed for each in run(requests, *pools, lambda r: 0, events)}


def test_a_prompt_ends_a_full_batch_of_tokens_at_the_next_boundary():
    """Its request runs alone for 5,200 + 19 x 5,020 ticks, then the prompt comes first."""
    first, second = LiveRequest(0, 0, 10, 100), LiveRequest(1, 100_000, 10, 2)
    assert machine_alone(1, first, second)[0] >= 1
    assert (first.first_token, second.first_token) == (5200, 5200 + 19 * 5020 + 5200)


def test_who_waits_for_a_place_is_passed_over_with_orca_too():
    first, second = LiveRequest(0, 0, 10, 3), LiveRequest(1, 1, 10, 2)
    assert machine_alone(1, first, second, orca=True) == {0: 0, 1: 0}
    long, third = LiveRequest(0, 0, 10, 40), LiveRequest(2, 2, 10, 2)
    assert machine_alone(1, long, LiveRequest(1, 1, 10, 2), third, orca=True) == {0: 0, 1: 0, 2: 1}
