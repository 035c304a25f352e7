"""Interpolated prices, on machines whose times are made up and known everywhere."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.systems.devices.kept import Kept
from pimloom.systems.serving.online.clocked import run
from pimloom.systems.serving.online.plan import Plan
from pimloom.systems.serving.online.running import service
from pimloom.systems.serving.options.named import Limits, scheduler_of
from pimloom.systems.serving.pricing.costs import Exact, Piece
from pimloom.systems.serving.pricing.grid import Grid
from pimloom.systems.serving.results.record import Record
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.sharing.finetuning import Fuller
from pimloom.workload.batch import Batch
from pimloom.workload.requests.table import Requests

EVEN = [0.5 + i / 127 for i in range(128)]  # contexts are half to one and a half times their mean


class Made:
    """A machine whose step takes so long [ps]; at most 10,000 tokens fit."""

    def __init__(self, time: Callable[[Batch], int], *, in_order: bool = False) -> None:
        self.time, self.in_order, self.asked = time, in_order, list[Batch]()
        self.most_requests: int | None = None
        self.exact_steps = 0

    def check(self, batch: Batch) -> None:
        """No more than fit."""
        if sum(one.context for one in batch.requests) > 10_000:
            raise UserError("too long")

    def capacity(self) -> Any:
        return SimpleNamespace(tokens=10_000)

    def step(self, batch: Batch) -> Any:
        self.asked.append(batch)
        self.check(batch)
        return SimpleNamespace(end_ps=self.time(batch), least_ps={}, energy_by_cause_j={"all": self.time(batch) * 1e-6})


def grid(machine: Made, positions: int = 4096, budget: int = 1 << 20) -> Grid:
    return Grid(Exact(machine), EVEN, positions, budget)  # type: ignore[arg-type]


def decode(*contexts: int) -> list[Piece]:
    return [Piece(1, n - 1, 1) for n in contexts]


def rows(batch: Batch) -> int:
    return sum(one.new for one in batch.requests)


def straight(batch: Batch) -> int:
    """Weights once, rows, and pairs that attend."""
    pairs = sum(one.new * (2 * one.context - one.new + 1) // 2 for one in batch.requests)
    ends = any(one.logits for one in batch.requests)
    return 5_000_000 + 2000 * rows(batch) + 7 * pairs + 90_000 * ends


def test_what_is_straight_is_read_as_it_is():
    machine, random = Made(straight), Random(0)
    read, exact = grid(machine), Exact(Made(straight))  # type: ignore[arg-type]
    for _ in range(40):
        pieces = decode(*(random.randint(40, 120) for _ in range(random.randint(1, 20))))
        prompts = [Piece(random.randint(2, 300), random.choice([0, 64]), random.randint(0, 1))]
        for some in (pieces, prompts, pieces + prompts):
            (ps, *_, joules), (true_ps, *_, true_joules) = read.of(some), exact.of(some)
            assert ps == pytest.approx(true_ps, rel=0.004) and joules == pytest.approx(true_joules, rel=0.004)
    assert len(machine.asked) < 60


def waits(batch: Batch) -> int:
    """One channel for each context; arrays work meanwhile."""
    return 2_000_000 + max(1_000_000, 2000 * max(one.context for one in batch.requests))


def test_a_context_longer_than_the_rest_is_waited_for():
    read = grid(Made(waits))
    for longest in (2000, 3000, 4000):
        pieces = decode(longest, *[200] * 9)
        assert read.of(pieces)[0] == pytest.approx(waits_for(longest), rel=0.03)
        assert read.decode(10, (longest + 1800) / 10)[0] < 0.7 * waits_for(longest)  # the mean alone does not say so
    assert read.of(decode(*[200] * 10))[0] == waits_for(200)
    assert read.apart and not grid(Made(waits)).apart


def waits_for(context: int) -> int:
    return 2_000_000 + max(1_000_000, 2000 * context)


def in_turns(batch: Batch) -> int:
    """Two sub-batches in turns, the longest contexts dealt to them: each turn waits for the longest of one of them."""
    contexts = sorted((one.context for one in batch.requests if one.new == 1), reverse=True)
    rows_of_prompts = sum(one.new for one in batch.requests if one.new > 1)
    if len(batch.requests) == 1 or not contexts:
        return 2_000_000 + 3000 * rows_of_prompts + 2000 * max(contexts, default=0)
    turns = [max(contexts[i::2], default=0) for i in range(2)]
    arrays = [1_000_000 + 3000 * rows_of_prompts * i for i in range(2)]
    return sum(max(arrays[i], 2000 * turns[i]) for i in range(2))


@pytest.mark.parametrize("long", [[3000], [3000, 2600], [4000, 4000], [4000, 3000, 900], [3000, 2000, 1900]])
def test_where_sub_batches_take_turns_the_second_longest_is_waited_for_too(long):
    read, others = grid(Made(in_turns)), [120, 140, 160, 180] * 3
    pieces = decode(*long, *others)
    true = Exact(Made(in_turns)).of(pieces)[0]  # type: ignore[arg-type]
    assert read.of(pieces)[0] == pytest.approx(true, rel=0.03)
    assert read.decode_of([n - 1 for n in (*others, *long)]) == read.of(pieces)
    alone = grid(Made(waits)).of(pieces)[0]
    assert alone == pytest.approx(waits_for(long[0]), rel=0.03)  # one turn has one longest


@pytest.mark.parametrize("scheduler", ["vllm-v1", "static"])
def test_sample_points_end_where_the_longest_context_does(scheduler):
    """Rows of a static batch are padded to the longest prompt and go on until the longest output: longer than any."""
    requests = Requests("two kinds", [0] * 12, [900, 20] * 6, [10, 700] * 6, "")
    plan = Plan(scheduler, Limits(600, 16, 4, 2048, 4096), 1, "round-robin", 1, False, 2, 0)
    machine = Made(straight)
    by = service(machine, requests, plan, None, {})  # type: ignore[arg-type]
    live = [LiveRequest(*one) for one in zip(range(12), *requests[1:4], strict=True)]
    run(live, [scheduler_of(scheduler, plan.limits)], Record(by.costs, 12), plan, lambda done, total: None)
    longest = max(one.context for batch in machine.asked for one in batch.requests if one.phase == "decode")
    assert len(machine.asked) < 40 and longest <= 4096, len(machine.asked)


def test_decode_that_runs_elsewhere_beside_prompts_has_sample_points_of_its_own():
    """Alone units of its own decode; beside a prompt all runs where prompts do, at another rate."""

    def elsewhere(batch: Batch) -> int:
        contexts = sum(one.context for one in batch.requests if one.phase == "decode")
        if any(one.phase == "prefill" for one in batch.requests):
            return 9_000_000 + 2000 * rows(batch) + 400 * contexts
        return 1_000_000 + 5 * contexts

    read, machine = grid(Made(elsewhere)), Made(elsewhere)
    pieces = [*decode(*[300] * 20), Piece(100, 0, 0)]
    true = Exact(machine).of(pieces)[0]  # type: ignore[arg-type]
    assert read.of(pieces)[0] < 0.9 * true and read.of(decode(300, 300))[0] == 1_000_000 + 3000
    assert read.mix_apart() and not read.mix_apart()
    assert read.of(pieces)[0] == pytest.approx(true, rel=0.01)


def test_no_machine_that_reads_all_contexts_alike_waits_for_one():
    read = grid(Made(straight))
    pieces = decode(3000, *[100] * 7)
    assert read.of(pieces)[0] == pytest.approx(straight(Batch.decode([3000, *[100] * 7])), rel=0.004)


def test_what_is_needed_is_simulated_side_by_side_and_once():
    machine = Made(straight)
    read = grid(machine)
    pieces = decode(*[90] * 5) + [Piece(70, 0, 1)]
    read.know(pieces)
    first = len(machine.asked)
    assert first > 2
    cost = read.of(pieces)
    assert len(machine.asked) == first and cost == grid(Made(straight)).of(pieces)


def test_caches_that_are_shared_are_read_beyond_what_fits_side_by_side():
    """On a line of fewer requests: decode is straight in them. A knot of its own for each context would be no gain."""
    read = Grid(Exact(Made(straight)), EVEN, 8192, shared=True)  # type: ignore[arg-type]
    many = [
        (b, context) for b in (9, 17, 33, 64) for context in (300, 700, 1500, 2400)
    ]  # of a device for 10,000 tokens
    for b, context in many:
        ps, *_, joules = read.of(decode(*[context] * b))
        true = straight(Batch.decode([context] * b))
        assert ps == pytest.approx(true, rel=1e-6) and joules == pytest.approx(true * 1e-6, rel=1e-6)
    assert all(sum(one.cached + 1 for one in pieces) <= 10_000 for pieces in read.exact.known)
    plain = grid(Made(straight), positions=8192)
    for b, context in many:
        with suppress(UserError):
            plain.of(decode(*[context] * b))
    assert len(read.exact.known) < len(plain.exact.known)


def test_where_nothing_fits_the_iteration_itself_is_simulated():
    machine = Made(straight)
    pieces = decode(5000, 4900)
    assert grid(machine, positions=8192).of(pieces) == Exact(Made(straight)).of(pieces)  # type: ignore[arg-type]


def test_prompts_token_by_token_have_an_lm_head_at_their_end_only():
    def by_token(batch: Batch) -> int:
        found = sum(1000 * context for one in batch.requests for context in contexts_of(one))
        return found + 5_000_000 * sum(one.logits for one in batch.requests)

    def contexts_of(one: Any) -> range:
        return range(one.context - one.new + 1, one.context + 1)

    read = grid(Made(by_token, in_order=True))
    for ends in (0, 1):
        pieces = [Piece(7, 0, ends)]
        assert read.of(pieces)[0] == pytest.approx(28_000 + 5_000_000 * ends, abs=1000)  # decode sees two tokens


def test_a_device_that_keeps_its_steps_asks_once():
    machine = Made(straight)
    kept = Kept(machine)  # type: ignore[arg-type]
    batch = Batch.decode([5, 9])
    assert kept.step(batch) is kept.step(Batch.decode([5, 9])) and len(machine.asked) == 1
    assert kept.outline is None and kept.most_requests is None
    forgetful = Kept(Made(straight, in_order=True))  # type: ignore[arg-type]
    assert forgetful.step(batch) is not forgetful.step(batch)


def test_what_wraps_a_device_stays_around_that_whose_steps_are_read_between():
    class Coarse(Made):
        def between(self) -> Made:
            return Made(lambda batch: 7)

    for device, time in ((Coarse(straight), 7), (Made(straight), straight(Batch.decode([5])))):
        kept = Kept(device)  # type: ignore[arg-type]
        assert kept.between() is kept.between() and kept.between().step(Batch.decode([5])).end_ps == time
        between: Any = Fuller(kept, 1.0).between()
        assert type(between) is Fuller and between._device is kept.between()


def test_no_line_goes_through_one_request_alone():
    """Of three requests none but one fits: a line would need two points."""
    machine = Made(straight)
    machine.exact_steps = 300  # with a point at three requests
    read = Grid(Exact(machine), EVEN, 16384, shared=True)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="3 requests with contexts of 8192 tokens do not fit"):
        read.decode(3, 8192)
