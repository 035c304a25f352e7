"""Pools over one clock: the schedules of the simulators whose rules they have, room, and what goes over the link."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.systems.serving.clock import distserve as released
from pimloom.systems.serving.clock import splitwise as machines
from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.pools.clock import Pooled
from pimloom.systems.serving.pools.distserve import DistServeDecodes, DistServePrompts
from pimloom.systems.serving.pools.routes import Mixed, distserve, least, splitwise
from pimloom.systems.serving.pools.splitwise import Splitwise
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.pools.written import Link
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from tests.command import call
from tests.serving_cases import LATENCIES

FREE = Link(1.0)  # of caches of 0 bytes
TIMES = ("arrival", "first_scheduled", "first_token", "completion")


def drawn(seed: int, least_output: int = 1, most: int = 25) -> list[LiveRequest]:
    random, at, found = Random(seed), 0, []
    for number in range(random.randint(1, most)):
        at += random.choice([1, 3000, 40_000]) + 2 * random.randint(0, 900)
        found.append(LiveRequest(number, at, random.randint(1, 200), random.randint(least_output, 30)))
    return found


def price(name: str) -> Any:
    return lambda made: LATENCIES[name](made.new, made.cached)


def replicas(schedulers: Sequence[Scheduler], ticks: Any, made: list[Iteration] | None = None) -> list[Replica]:
    return [Replica(one, ticks, 1, None if made is None else made.append) for one in schedulers]


def through(clock: Pooled, requests: list[LiveRequest]) -> list[LiveRequest]:
    first = [LiveRequest(r.number, r.arrival, r.prompt, 1) for r in requests]
    return clock.serve(first, [r.output for r in requests], lambda *done: None)


@given(
    seed=st.integers(0, 2**32), prompts=st.integers(1, 3), decodes=st.integers(1, 2), most=st.sampled_from([300, 2000])
)
@settings(max_examples=60)
def test_distserve_has_the_schedule_of_its_simulator(seed, prompts, decodes, most):
    """With memory for all and a link that takes no time; the simulator makes a token more of each request."""
    requests, events = drawn(seed, 2), Events()
    theirs = [LiveRequest(r.number, r.arrival, r.prompt, r.output - 1) for r in requests]

    def rings(number: int) -> list[list[released.Worker]]:
        return [released.ring(events, price("lin"), 1, 300, lambda *what: None) for _ in range(number)]

    before = released.MOST_CACHED
    released.MOST_CACHED = most
    released.disaggregated(theirs, events, rings(prompts), rings(decodes))
    released.MOST_CACHED = before
    ample = 10**6
    pools = (
        replicas([DistServePrompts(Blocks(ample, 16), ample, 300) for _ in range(prompts)], price("lin")),
        replicas([DistServeDecodes(Blocks(ample, 16), ample, most) for _ in range(decodes)], price("lin")),
    )
    ours = through(Pooled(*pools, Wire(FREE, 0, 1), distserve(*pools), by_layer=False), requests)
    assert [[getattr(r, name) for name in TIMES] for r in ours] == [[getattr(r, n) for n in TIMES] for r in theirs]


@given(seed=st.integers(0, 2**32), most=st.sampled_from([1, 3, 16]), patience=st.integers(1, 4))
@settings(max_examples=60)
def test_splitwise_has_the_schedule_of_its_simulator(seed, most, patience):
    requests, events = drawn(seed, 2), Events()
    theirs = [LiveRequest(r.number, r.arrival, r.prompt, r.output) for r in requests]
    limits = machines.Limits(most, 256, patience)
    there = [machines.Machine(events, LATENCIES["tok"], limits, lambda run: None) for _ in range(3)]
    chosen = (there[:2], machines.in_turn()), (there[2:], machines.in_turn())
    tasks = machines.run(theirs, *chosen, lambda request: 0, events)
    made = [Splitwise(Blocks(10**6, 16), most, 256, patience) for _ in range(3)]
    pools = replicas(made[:2], price("tok")), replicas(made[2:], price("tok"))
    turn = iter(range(10**6))
    routes = splitwise(lambda request: pools[0][next(turn) % 2], lambda request: pools[1][0])
    ours = through(Pooled(*pools, Wire(FREE, 0, 1), routes, by_layer=False), requests)
    told = [(r.arrival, r.first_token, r.completion) for r in ours]
    assert told == [(r.arrival, r.first_token, r.completion) for r in theirs]
    passed = {number: n for number, n in made[2].passed.items() if n}
    assert passed == {task.request.number: task.tokens.passed for task in tasks if task.tokens.passed}


Steps = list[tuple[LiveRequest, int]]


def of(tokens: int) -> int:
    return -(-tokens // 4)


class NaivePools:
    """One replica of DistServe for prompts, one for decode, tick by tick, with blocks and a link."""

    def __init__(self, rooms: tuple[int, int], budget: int, per_token: int) -> None:
        self.rooms, self.budget, self.per_token = rooms, budget, per_token

    def serve(self, requests: list[LiveRequest]) -> list[tuple[int, int]]:
        first, end, cached = dict[int, int](), dict[int, int](), dict[int, int]()
        queue, running, ready, turn = (list[LiveRequest]() for _ in range(4))
        flying, decoding, again = list[tuple[int, LiveRequest]](), Steps(), Steps()
        held = [dict[int, int](), dict[int, int]()]
        until, done_at, wire_free, t = -1, -1, 0, 0
        while len(end) < len(requests):
            queue += [r for r in requests if r.arrival == t]
            for _ in range(3):  # what happens at a tick may let more happen at it
                if running and until == t:
                    for r in running:
                        first[r.number] = t
                        if r.output == 1:
                            end[r.number] = t
                            del held[0][r.number]
                        else:
                            ready.append(r)
                    running = []
                if not running:
                    left = self.budget
                    while (
                        queue
                        and queue[0].prompt <= left
                        and sum(held[0].values()) + of(queue[0].prompt) <= self.rooms[0]
                    ):
                        r = queue.pop(0)
                        held[0][r.number] = of(r.prompt)
                        running.append(r)
                        left -= r.prompt
                    if running:
                        until = t + 3 + sum(r.prompt for r in running)
                for at, r in [each for each in flying if each[0] <= t]:
                    flying.remove((at, r))
                    del held[0][r.number]
                    cached[r.number] = r.prompt
                    turn.append(r)
                if decoding and done_at == t:
                    for r, new in decoding:
                        cached[r.number] += new
                        if cached[r.number] == r.prompt + r.output - 1:
                            end[r.number] = t
                            del held[1][r.number]
                        else:
                            turn.append(r)
                    decoding = []
                if not decoding:
                    decoding = self._decoding(turn, again, cached, held[1])
                    if decoding:
                        done_at = t + 2 + sum(new for _, new in decoding)
                while ready and not again and sum(held[1].values()) + of(ready[0].prompt + 1) <= self.rooms[1]:
                    r = ready.pop(0)
                    held[1][r.number] = of(r.prompt + 1)
                    wire_free = max(wire_free, t) + self.per_token * r.prompt
                    flying.append((wire_free, r))
            t += 1
        return [(first[r.number], end[r.number]) for r in requests]

    def _decoding(self, turn: list[LiveRequest], again: Steps, cached: dict[int, int], held: dict[int, int]) -> Steps:
        batch = self._once_more(again, held)
        if batch:
            return batch
        while turn:
            r, yielded = turn.pop(0), False
            more = max(of(cached[r.number] + 1) - held[r.number], 0)
            while not yielded and sum(held.values()) + more > self.rooms[1]:
                victim = turn.pop() if turn else r
                del held[victim.number]
                again.insert(0, (victim, cached[victim.number] + 1))
                cached[victim.number] = 0
                yielded = victim is r
            if not yielded:
                held[r.number] += more
                batch.append((r, 1))
        return batch or self._once_more(again, held)

    def _once_more(self, again: Steps, held: dict[int, int]) -> Steps:
        batch = Steps()
        while again and sum(held.values()) + of(again[0][1]) <= self.rooms[1]:
            r, known = again.pop(0)
            held[r.number] = of(known)
            batch.append((r, known))
        return batch


@given(seed=st.integers(0, 2**32), room=st.integers(14, 40), beside=st.integers(14, 30), per_token=st.integers(0, 3))
@settings(max_examples=60)
def test_room_and_link_are_those_of_a_naive_one(seed, room, beside, per_token):
    random, at, requests = Random(seed), 0, list[LiveRequest]()
    for number in range(random.randint(1, 12)):
        at += random.randint(0, 40)
        requests.append(LiveRequest(number, at, random.randint(1, 40), random.randint(1, 14)))
    prompts = replicas([DistServePrompts(Blocks(room, 4), 10**6, 48)], lambda made: 3 + sum(made.new))
    decodes = replicas([DistServeDecodes(Blocks(beside, 4), 10**6)], lambda made: 2 + sum(made.new))
    wire = Wire(Link(8000.0), per_token, 1)  # a byte a ps
    ours = through(Pooled(prompts, decodes, wire, distserve(prompts, decodes), by_layer=False), requests)
    assert [(r.first_token, r.completion) for r in ours] == NaivePools((room, beside), 48, per_token).serve(requests)


def pool(link: str = "10Gb/s", scheduler: str = "distserve", **given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt2-xl", "arrivals": "poisson:40/s", "lengths": "300:20", "requests": 30}
    return pimloom.serve(
        "prefill=gpu_a100*2,decode=gpu_a100", link=link, scheduler=scheduler, exact=True, **options | given
    )


@pytest.mark.parametrize("scheduler", ["vllm-v1", "distserve", "splitwise"])
def test_a_full_pool_of_decode_holds_prompts_back(scheduler):
    """Blocks for 300 tokens are 19: a pool of 60 has room for three caches, the others stay where prompts run."""
    few, many = (pool("400Gb/s", scheduler, blocks=blocks, arrivals="burst", batch=256) for blocks in (60, 4000))
    decode = few.iterations[few.iterations["replica"] == 2]
    assert decode["requests"].max() <= 3 and many.iterations["requests"].max() > 3
    assert few.requests["time_to_first_token_s"].max() > 2 * many.requests["time_to_first_token_s"].max()
    assert (few.requests["output_tokens"] == 20).all() and few.requests["energy_j"].sum() == pytest.approx(
        few.energy_j - few.rest_j
    )


@pytest.mark.parametrize("scheduler", ["vllm-v1", "distserve", "splitwise"])
def test_what_a_transfer_by_layers_leaves_exposed(scheduler):
    """max(bytes / rate - (L - 1) / L x prompt, bytes / rate / L) of one request alone, and the latency."""
    cache_s, layers = 300 * 2 * 48 * 1600 * 2 / 1.25e9, 48
    for rate, scale in (("10Gb/s,600ns", 1.0), ("400Gb/s", 40.0)):
        one = {"arrivals": "burst", "requests": 1, "scheduler": scheduler}
        after, layered = (pool(rate, transfer=transfer, **one) for transfer in ("after", "layers"))
        whole_s, latency_s = cache_s / scale, 600e-9 if scale == 1.0 else 0.0
        assert after.requests["transfer_s"][0] == pytest.approx(whole_s + latency_s, rel=1e-6)
        prompt_s = layered.iterations["time_s"][0]
        exposed_s = max(whole_s - (layers - 1) / layers * prompt_s, whole_s / layers)
        assert layered.requests["transfer_s"][0] == pytest.approx(exposed_s + latency_s, rel=1e-5)
        worked = [one.energy_j - one.rest_j for one in (after, layered)]
        assert worked[0] == pytest.approx(worked[1]) and after.spec_digest != layered.spec_digest


def test_chunks_of_prompts_leave_as_they_are_made():
    """vLLM v1 with 100 tokens an iteration: three chunks, the link is busy behind each."""
    found = pool("10Gb/s", "vllm-v1", transfer="layers", batch_tokens=100, arrivals="burst", requests=1)
    assert found.iterations["new_tokens"][:3].tolist() == [100, 100, 100]
    ends, cache_s = found.iterations["end_s"][:3].tolist(), 100 * 2 * 48 * 1600 * 2 / 1.25e9
    free = 0.0
    for start, end in pairwise([0.0, *ends]):
        free = max(free, start + (end - start) / 48)
        free = max(free + cache_s, end + cache_s / 48)  # the first layer is there after a 48th, the last at the end
    assert found.requests["transfer_s"][0] == pytest.approx(free - ends[-1], rel=0.02)


def test_prompts_of_a_pool_find_what_they_share(tmp_path):
    rows = [f'{{"timestamp": {900 * i}, "input_length": 1030, "output_length": 4, "hash_ids": [1, 2, {10 + i}]}}\n'
            for i in range(4)]  # fmt: skip
    (tmp_path / "trace.jsonl").write_text("".join(rows))
    asked: dict[str, Any] = {"trace": tmp_path / "trace.jsonl", "arrivals": None, "lengths": None, "requests": None}
    asked |= {"model": "gpt3-xl", "cut": True, "scheduler": "vllm-v1"}
    found = pimloom.serve("prefill=gpu_a100,decode=gpu_a100", link="25Gb/s", transfer="layers", **asked)
    assert found.requests["prefix_hit_tokens"].tolist() == [0, 1024, 1024, 1024]
    assert found.prefix_hit_share == pytest.approx(3 / 4 * 1024 / 1030)
    caches_s = 1030 * 2 * 24 * 2048 * 2 * 8 / 25e9  # what a request has found crosses the link, too
    assert (found.requests["transfer_s"] > 0.5 * caches_s).all()


def test_machines_without_room_have_help_from_the_other_pool():
    """A burst of prompts: machines of decode take some, keep their tokens, and nothing of them crosses the link."""
    asked: dict[str, Any] = {"arrivals": "burst", "lengths": "512:32", "batch_tokens": 1024, "scheduler": "splitwise"}
    apart, mixed = (pool("nvlink3", mixed=mixed, **asked) for mixed in (False, True))
    there = apart.iterations[apart.iterations["replica"] == 2]
    here = mixed.iterations[mixed.iterations["replica"] == 2]
    assert there["new_tokens"].max() <= 30 and here["new_tokens"].max() >= 512
    assert mixed.time_to_first_token_s.mean < apart.time_to_first_token_s.mean
    assert apart.requests["transfer_s"].notna().all() and mixed.requests["transfer_s"].isna().any()
    share = mixed.energy_by_cause_j["link between pools"] / apart.energy_by_cause_j["link between pools"]
    assert share == pytest.approx(mixed.requests["transfer_s"].notna().mean())
    assert mixed.requests["energy_j"].sum() == pytest.approx(mixed.energy_j - mixed.rest_j)


def test_a_prompt_goes_to_its_pool_first_then_to_a_mixed_machine_then_to_decode():
    made = [Splitwise(Blocks(100, 4), 8, 64) for _ in range(4)]
    all_of = replicas(made, price("tok"))
    prompts, decodes = all_of[:2], all_of[2:]
    routes = Mixed(prompts, decodes).routes()
    went = []
    for number in range(7):
        request = LiveRequest(number, 0, 40, 1)
        home = routes.prompt(request)
        home.scheduler.waiting.append(request)
        went.append(all_of.index(home))
    assert went == [0, 1, 2, 3, 0, 1, 0]  # with 40 of 64 tokens none has room for a second; then the least loaded
    assert routes.tokens(LiveRequest(9, 0, 40, 1), decodes[1]) is decodes[1]
    assert routes.tokens(LiveRequest(9, 0, 40, 1), prompts[0]) is least(decodes)
    for one in made[2:]:
        one.blocks.take(LiveRequest(10, 0, 1, 1), 100)
    assert routes.tokens(LiveRequest(9, 0, 40, 1), prompts[1]) is prompts[1]
    made[0].tokens.append(LiveRequest(11, 0, 1, 1))
    assert routes.tokens(LiveRequest(9, 0, 40, 1), prompts[1]) is prompts[0]  # it is mixed


POOLS = "prefill=gpu_a100,decode=gpu_a100"
BAD = {
    f"{POOLS} --link nvlnk": "--link nvlnk: expected Gb/s above 0, such as 400Gb/s or 400Gb/s,600ns,5pJ/bit, or a name",
    f"{POOLS} --link nvlink3 --transfer layer": "--transfer layer: expected after or layers; nearest: layers",
    f"{POOLS} --link nvlink3 --mixed": "--mixed: belongs to --scheduler splitwise, not vllm-v1; leave it out",
    f"{POOLS} --link nvlink3 --scheduler distserve --router least-waiting": "--router least-waiting: distserve sends",
    f"{POOLS} --link nvlink3 --scheduler distserve --batch-tokens 4": "request 0 has a prompt of 8 tokens, and an",
    f"{POOLS} --link nvlink3 --scheduler distserve --blocks 1": "request 0 needs 2 blocks of KV cache, and there are 1",
    f"{POOLS} --link nvlink3 --scheduler splitwise --prefix-cache": "--prefix-cache: belongs to --scheduler vllm-v1",
    f"{POOLS} --link nvlink3 --set prefil:power_w=3": "--set prefil:power_w=3: no pool prefil; expected one of",
    f"{POOLS} --link nvlink3 --set decode:powr_w=3": "--set powr_w: no such key in gpu_a100.yaml; nearest: power_w",
    f"{POOLS} --link nvlink3 --set decode:power_w=3 --set power_w=4": "--set power_w: given twice",
    "gpu_a100 --scheduler distserve": "--scheduler distserve: serves pools, such as prefill=",
    "gpu_a100 --transfer layers": "--transfer: belongs to pools, such as prefill=",
    "gpu_a100 --mixed": "--mixed: belongs to pools, such as prefill=",
}


@pytest.mark.parametrize("words", BAD)
def test_what_pools_cannot_do_is_one_line(words):
    done = call(
        "serve", *words.split(), "--model", "gpt2", "--arrivals", "burst", "--requests", "2", "--lengths", "8:20"
    )
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and BAD[words] in done.err, done.err


def test_settings_are_of_one_pool_or_of_all():
    def energies(**settings: float) -> dict[str, float]:
        asked: dict[str, Any] = {"model": "gpt2", "arrivals": "burst", "requests": 3, "lengths": "8:20"}
        places = {place.replace("_of_", ":"): value for place, value in settings.items()}
        found: Any = pimloom.serve(POOLS, link="nvlink3", set=places, **asked)
        return {side: found.energy_by_cause_j[f"{side}: power x time"] for side in ("prefill", "decode")}

    plain = energies()
    assert energies(prefill_of_power_w=200) == {**plain, "prefill": pytest.approx(plain["prefill"] / 2)}
    assert energies(decode_of_power_w=200) == {**plain, "decode": pytest.approx(plain["decode"] / 2)}
    assert energies(power_w=200) == {side: pytest.approx(joules / 2) for side, joules in plain.items()}
