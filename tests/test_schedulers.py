"""Schedulers against their English rules (`naive_schedulers`), and what must hold for every one of them."""

from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.systems.serving.clock.cluster import round_robin, serve
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.faster_transformer import FasterTransformer
from pimloom.systems.serving.schedulers.lightllm import LightLlm
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.prefix_pool import PrefixPool
from pimloom.systems.serving.schedulers.sarathi import Sarathi, VidurSarathi
from pimloom.systems.serving.schedulers.static import Static
from pimloom.systems.serving.schedulers.vidur_vllm import VidurVllm
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.systems.serving.schedulers.vllm_v0_chunked import VllmV0Chunked
from pimloom.systems.serving.schedulers.vllm_v1 import VllmV1
from pimloom.workload.need import Windowed
from tests import naive_schedulers as naive
from tests.serving_cases import lin

WINDOWS = Windowed(1, 2, 7, Fraction(3)), Windowed(0, 1, 9, Fraction(1)), Windowed(1, 4, 20, Fraction(23, 5))
LONGEST, SHORT = 120, 51  # positions; a prompt has at most 50


class Case(NamedTuple):
    """Requests, and the limits that schedulers are drawn with."""

    table: list[dict[str, int]]
    N: int
    size: int
    cap: int
    budget: int
    watermark: int
    threshold: int
    window: Windowed | None = None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    random = Random(draw(st.integers(0, 2**32)))
    most, gap, at, table = random.choice([4, 20, 50]), random.choice([0, 0, 3000, 20000]), 0, []
    for number in range(random.randint(1, 14)):
        at += random.randint(0, gap)
        prompt, output = random.randint(1, most), random.randint(1, most)
        shared = random.choice([0, prompt // 2, prompt])
        group = random.randint(0, 2)
        table.append(
            {"number": number, "arrival": at, "prompt": prompt, "output": output, "group": group, "shared": shared}
        )
    size = random.choice([1, 4, 16])
    blocks = (2 * most + 20) // size + random.choice([3, 10, 200])
    cap = random.choice([1, 3, 16])
    budget = random.choice([2 * most + 2, 8 * most])
    return Case(table, blocks, size, cap, max(budget, cap), random.choice([0, 1, 2]), random.choice([0, 0, 7]))


def requests_of(case: Case) -> list[LiveRequest]:
    return [LiveRequest(row["number"], row["arrival"], row["prompt"], row["output"]) for row in case.table]


def pool(case: Case) -> Blocks:
    return Blocks(case.N, case.size, case.window)


def sharing(case: Case) -> VllmV1:
    def identity(request: LiveRequest, k: int) -> Any:
        return naive.identity(case.table[request.number], k, case.size)

    made = PrefixPool(case.N, case.size, identity)
    return VllmV1(made, case.cap, case.budget, LONGEST, case.threshold)


def later(made: VllmV1) -> VllmV1:
    """With the rules of vLLM 0.19."""
    made.admit_by(0, whole=True)
    return made


def reserved(case: Case) -> int:
    return -(-LONGEST // case.size)


MAKE: dict[str, Callable[[Case], Scheduler]] = {
    "vidur-vllm": lambda c: VidurVllm(pool(c), c.watermark, c.cap, c.budget),
    "sarathi": lambda c: Sarathi(pool(c), c.watermark, c.cap, c.budget),
    "vidur-sarathi": lambda c: VidurSarathi(pool(c), c.watermark, c.cap, c.budget),
    "orca": lambda c: Orca(pool(c), reserved(c), c.cap),
    "faster-transformer": lambda c: FasterTransformer(pool(c), reserved(c), c.cap),
    "static": lambda c: Static(pool(c), reserved(c), c.cap),
    "lightllm": lambda c: LightLlm(Blocks(c.N * c.size, 1, c.window), c.cap, c.budget, 3),
    "vllm-v0": lambda c: VllmV0(pool(c), c.watermark, c.cap, c.budget),
    "vllm-v0 swap": lambda c: VllmV0(pool(c), c.watermark, c.cap, c.budget, Blocks(10**6, c.size)),
    "vllm-v0 chunked": lambda c: VllmV0Chunked(pool(c), c.watermark, c.cap, c.budget),
    "vllm-v1": lambda c: VllmV1(pool(c), c.cap, c.budget, LONGEST, c.threshold),
    "vllm-v1 prefix": sharing,
    "vllm-v1 later": lambda c: later(VllmV1(pool(c), c.cap, c.budget, LONGEST, c.threshold)),
    "vllm-v1 later prefix": lambda c: later(sharing(c)),
    "vllm-v1 short": lambda c: VllmV1(pool(c), c.cap, c.budget, SHORT, c.threshold),
}
WITH_WATERMARK = ("vidur-vllm", "sarathi", "vidur-sarathi", "vllm-v0", "vllm-v0 swap", "vllm-v0 chunked")
WHOLE = [name for name in MAKE if name != "vllm-v1 short"]  # there requests end where the model does
RULES: dict[str, tuple[Callable[[naive.State], naive.Batch], dict[str, Any]]] = {
    "vidur-vllm": (naive.vidur_vllm, {}),
    "sarathi": (naive.sarathi, {"vidur": False}),
    "vidur-sarathi": (naive.sarathi, {"vidur": True}),
    "orca": (naive.orca, {}),
    "faster-transformer": (naive.faster_transformer, {}),
    "lightllm": (naive.lightllm, {"patience": 3}),
    "vllm-v0": (naive.vllm_v0, {"swap": False}),
    "vllm-v0 swap": (naive.vllm_v0, {"swap": True}),
    "vllm-v0 chunked": (naive.vllm_v0_chunked, {}),
    "vllm-v1": (naive.vllm_v1, {"sharing": False, "longest": LONGEST}),
    "vllm-v1 prefix": (naive.vllm_v1, {"sharing": True, "longest": LONGEST}),
    "vllm-v1 later": (naive.vllm_v1, {"sharing": False, "longest": LONGEST, "ahead": 0, "whole": True}),
    "vllm-v1 later prefix": (naive.vllm_v1, {"sharing": True, "longest": LONGEST, "ahead": 0, "whole": True}),
    "vllm-v1 short": (naive.vllm_v1, {"sharing": False, "longest": SHORT}),
}


def run(scheduler: Scheduler, requests: list[LiveRequest]) -> list[Iteration]:
    made = list[Iteration]()

    def price(iteration: Iteration) -> int:
        return lin(iteration.new, iteration.cached)

    replicas = [Replica(scheduler, price, 1, made.append)]
    serve(requests, replicas, round_robin(replicas))
    return made


def possible(case: Case, name: str) -> Case:
    """Without the requests that could never run."""
    scheduler = MAKE[name](case)
    kept = [row for row, r in zip(case.table, requests_of(case), strict=True) if not scheduler.never(r)]
    return case._replace(table=[row | {"number": i} for i, row in enumerate(kept)])


@pytest.mark.parametrize("name", RULES)
@given(case=cases())
@settings(max_examples=30)
def test_a_scheduler_does_what_its_rules_say(name, case):
    does_what_its_rules_say(name, case)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
@given(case=cases())
@settings(max_examples=400)
def test_a_scheduler_does_what_its_rules_say_for_long(name, case):
    does_what_its_rules_say(name, case)


def does_what_its_rules_say(name: str, case: Case) -> None:
    case = possible(case, name)
    rule, more = RULES[name]
    requests = requests_of(case)
    made = run(MAKE[name](case), requests)
    limits = case._asdict() | more | {"reserved": reserved(case)}
    if name == "lightllm":
        limits |= {"N": case.N * case.size, "size": 1}
    del limits["table"], limits["window"]
    log, ends = naive.simulate(rule, case.table, lin, **limits)
    assert [(m.start, [r.number for r in m.requests], m.new, m.cached) for m in made] == log
    assert [(r.first_token, r.completion, r.restarts) for r in requests] == ends


@pytest.mark.parametrize("name", WHOLE)
@given(case=cases(), window=st.sampled_from([None, *WINDOWS]))
@settings(max_examples=16)
def test_tokens_and_blocks_are_conserved_and_nobody_starves(name, case, window):
    case = possible(case._replace(window=window), name)
    scheduler, requests = MAKE[name](case), requests_of(case)
    tokens, used = dict.fromkeys(range(len(requests)), 0), list[int]()

    def seen(made: Iteration) -> None:
        used.append(scheduler.blocks.used)
        for r, n in zip(made.requests, made.new, strict=True):
            tokens[r.number] += n
            assert n > 0

    replicas = [Replica(scheduler, lambda made: lin(made.new, made.cached), 1, seen)]
    serve(requests, replicas, round_robin(replicas))
    assert scheduler.blocks.used == 0 and not scheduler.waiting
    assert all(0 < n <= scheduler.blocks.total for n in used)
    for r in requests:
        assert r.arrival <= r.first_scheduled < r.first_token <= r.completion
        assert r.known == r.last and r.cached == r.longest
        if not r.restarts and not r.hit and name != "static":
            assert tokens[r.number] == r.longest
    assert len(scheduler.gaps) == sum(r.output - 1 for r in requests)
    assert all(gap > 0 for gap in scheduler.gaps)


@pytest.mark.parametrize("name", MAKE)
@given(case=cases())
@settings(max_examples=12)
def test_equal_runs_are_equal_and_equal_arrivals_are_served_by_number(name, case):
    case = possible(case, name)
    first, again = requests_of(case), requests_of(case)
    logs = [
        [(m.start, [r.number for r in m.requests], m.new) for m in run(MAKE[name](case), some)]
        for some in (first, again)
    ]
    assert logs[0] == logs[1]
    for a, b in zip(first, first[1:], strict=False):
        if a.arrival == b.arrival:
            assert a.first_scheduled <= b.first_scheduled


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in ("orca", "faster-transformer", "static")])
@given(case=cases(), blocks=st.integers(3, 30), length=st.integers(1, LONGEST), prompt=st.integers(1, LONGEST))
@settings(max_examples=25)
def test_what_could_never_run_is_what_does_not_end_alone(name, case, blocks, length, prompt):
    """But for those that a watermark would keep from coming back, once they had to yield."""
    prompt = min(prompt, length)
    case, alone = case._replace(N=blocks), LiveRequest(0, 0, prompt, length - prompt + 1)
    scheduler = MAKE[name](case)
    why = scheduler.never(alone)
    ends = False
    with suppress(AssertionError):  # no scheduler gives away what is not there
        run(scheduler, [alone])
        ends = alone.completion > 0
    kept_out = name in WITH_WATERMARK and -(-length // case.size) > blocks - case.watermark
    assert (why is None) == (ends and not kept_out), why


@pytest.mark.parametrize(("kind", "prompt", "output", "blocks"), [
    (Sarathi, 144, 2, 10), (VidurVllm, 144, 2, 10), (VllmV0, 144, 2, 10), (Sarathi, 160, 1, 10),
    (LightLlm, 50, 50, 100), (LightLlm, 50, 1, 52),
])  # fmt: skip
def test_the_last_block_is_there_to_be_used(kind, prompt, output, blocks):
    """A request of P + O tokens has P + O - 1 in the cache; decode needs one free block, and takes it then."""
    if kind is LightLlm:
        made: Callable[[int], Scheduler] = lambda n: LightLlm(Blocks(n, 1), 4, 512, 3)  # noqa: E731
    else:
        made = lambda n: kind(Blocks(n, 16), 0, 4, 512)  # noqa: E731
    request = LiveRequest(0, 0, prompt, output)
    assert made(blocks).never(request) is None and made(blocks - 1).never(request)
    run(made(blocks), [request])
    assert request.completion > 0 and request.restarts == 0


@pytest.mark.parametrize("name", ["vidur-vllm", "sarathi", "orca", "faster-transformer"])
@given(case=cases(), stages=st.integers(2, 4))
@settings(max_examples=15)
def test_stages_take_iterations_in_turn(name, case, stages):
    """Never more under way than stages, never a request in two of them, and every stage works on one at a time."""
    case = possible(case, name)
    scheduler, requests, made = MAKE[name](case), requests_of(case), list[Iteration]()
    replicas = [Replica(scheduler, lambda one: lin(one.new, one.cached), stages, made.append)]
    serve(requests, replicas, round_robin(replicas))
    assert all(r.completion > 0 for r in requests)
    for i, one in enumerate(made):
        under_way = [other for other in made[:i] if other.end > one.start]
        assert len(under_way) < stages
        busy = {r.number for other in under_way for r in other.requests}
        assert not busy & {r.number for r in one.requests}
        assert one.end >= one.start + stages * one.ticks
        assert not i or one.end - made[i - 1].end >= one.ticks


def test_a_prompt_as_long_as_the_model_makes_a_token_and_ends():
    """Also where it comes in chunks, which make none."""
    request, made = LiveRequest(0, 0, 100, 5), list[Iteration]()
    replicas = [Replica(VllmV1(Blocks(20, 16), 4, 64, 100), lambda each: 10, 1, made.append)]
    serve([request], replicas, round_robin(replicas))
    assert [each.new for each in made] == [[64], [36]] and request.first_token == request.completion == 20


def test_each_stage_has_an_iteration_of_orca_with_all_its_places():
    requests, made = [LiveRequest(n, 0, 8, 4) for n in range(4)], list[Iteration]()
    replicas = [Replica(Orca(Blocks(64, 16), 1, 2), lambda each: 10, 2, made.append)]
    serve(requests, replicas, round_robin(replicas))
    assert {len(each.requests) for each in made} == {2}


@pytest.mark.parametrize(("kind", "order"), [(VidurVllm, [1, 0]), (VidurSarathi, [1, 0]), (Sarathi, [0, 1])])
def test_vidur_sorts_by_arrival_alone(kind, order):
    """Of equal arrivals who came back first goes first; Sarathi-Serve has the lower number first."""
    scheduler, idle = kind(Blocks(64, 16), 0, 8, 64), [LiveRequest(n, 5, 8, 4) for n in (1, 0)]
    for request in idle:
        scheduler.blocks.take(request, 1)
        request.cached, request.known = 8, 9
    scheduler.idle = idle
    assert [request.number for request in scheduler.form(7).requests] == order
