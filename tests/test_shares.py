"""Prompts and decode on shares of one machine: a naive one tick by tick, the controller, and machines whose shares are
arrays."""

from fractions import Fraction
from math import fsum
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.sharing.clock import Process, Shared, Work
from pimloom.systems.serving.sharing.controller import Control, Controller, Law, Seen, fitted
from pimloom.systems.serving.sharing.semi_pd import SharedDecodes, SharedPrompts
from tests.command import call

BUDGET = 40
NARROW = Path(__file__).parent / "narrow_gpt2.json"


def drawn(seed: int) -> list[LiveRequest]:
    random, at, found = Random(seed), 0, []
    for number in range(random.randint(1, 10)):
        at += random.choice([0, 3, 60])
        found.append(LiveRequest(number, at, random.randint(1, 50), random.randint(1, 9)))
    return found


def naive(requests: list[LiveRequest], x: int, y: int, room: int, most: int) -> tuple[list[tuple[int, int]], Fraction]:
    """Every tick each process does its share of a tick's work, or less if the two shares are more than all; what both
    leave of the machine from the first arrival on rests."""
    of = lambda tokens: -(-tokens // 4)  # noqa: E731
    queue, running, held = list[int](), list[int](), dict[int, int]()
    known = {r.number: r.prompt for r in requests}
    first, end = dict[int, int](), dict[int, int]()
    prompts, decodes, left = list[int](), list[int](), [Fraction(0), Fraction(0)]
    t, rested = 0, Fraction(0)
    while True:
        queue += [r.number for r in requests if r.arrival == t]
        for which, batch in enumerate((prompts, decodes)):
            if batch and left[which] <= 0:
                for number in batch:
                    known[number] += 1
                    first.setdefault(number, t)
                    if known[number] == requests[number].prompt + requests[number].output:
                        end[number] = t
                        del held[number]
                        running = [one for one in running if one != number]
                    elif which == 0:
                        running.append(number)
                batch.clear()
        if not prompts:
            tokens = 0
            while queue and len(held) < most and sum(held.values()) + of(known[queue[0]]) <= room:
                if prompts and tokens + known[queue[0]] > BUDGET:
                    break
                tokens += known[queue[0]]
                held[queue[0]] = of(known[queue[0]])
                prompts.append(queue.pop(0))
            left[0] = Fraction(5 + tokens)
        if not decodes:
            place = 0
            while place < len(running):
                number = running[place]
                while number in running and sum(held.values()) - held[number] + of(known[number]) > room:
                    victim = running.pop()
                    del held[victim]
                    queue.insert(0, victim)
                if number in running:
                    held[number] = max(of(known[number]), held[number])
                    place += 1
            decodes = list(running)
            left[1] = Fraction(3 + len(decodes))
        if len(end) == len(requests):
            return [(first[r.number], end[r.number]) for r in requests], rested
        shares = [x if prompts else 0, y if decodes else 0]
        rested += t >= requests[0].arrival
        for which, share in enumerate(shares):
            if share:
                does = min(Fraction(share, max(100, sum(shares))), left[which])
                left[which] -= does
                rested -= does
        t += 1


@given(
    seed=st.integers(0, 2**32), x=st.integers(10, 100), y=st.integers(10, 100), room=st.integers(15, 60),
    most=st.sampled_from([2, 100]),
)  # fmt: skip
@settings(max_examples=25)
def test_two_processes_are_those_of_a_naive_clock(seed, x, y, room, most):
    requests = drawn(seed)
    decodes = SharedDecodes(Blocks(room, 4), most)
    prompts = SharedPrompts(decodes, BUDGET)
    one = Process(prompts, lambda made, share: Work(5 + sum(made.new), share), lambda made: None, Fraction(x))
    two = Process(decodes, lambda made, share: Work(3 + sum(made.new), share), lambda made: None, Fraction(y))
    live = [LiveRequest(r.number, r.arrival, r.prompt, r.output) for r in requests]
    clock = Shared(one, two, True, lambda now: None)
    clock.serve(live, lambda *done: None)
    times, rested = naive(requests, x, y, room, most)
    assert [(r.first_token, r.completion) for r in live] == times
    assert clock.rested == pytest.approx(float(rested), rel=1e-6, abs=1e-3)
    assert decodes.blocks.free == room and not decodes.blocks.holders


def test_who_wants_more_of_memory_than_there_is_slows_both():
    """70 % and 80 % of memory: each at 2 / 3 of its rate as long as both run; 100 ticks of one take 150. A third of the
    machine rests then, and half of it in the 300 ticks in which one of the two halves works."""
    decodes = SharedDecodes(Blocks(100, 4), 9)
    decodes.running.append(request := LiveRequest(0, 0, 4, 2))
    request.cached, request.known, request.first_token = 4, 5, 0
    decodes.blocks.take(request, 1)
    one = Process(SharedPrompts(decodes, 9), lambda m, s: Work(100, s, 0.7), lambda m: None, Fraction(50))
    two = Process(decodes, lambda m, s: Work(400, s, 0.8), lambda m: None, Fraction(50))
    live = [LiveRequest(1, 0, 4, 1)]
    clock = Shared(one, two, False, lambda now: None)
    clock.serve(live, lambda *done: None)
    assert live[0].completion == 150 and request.completion == 150 + 300
    assert clock.rested == pytest.approx(150 / 3 + 300 / 2)


def test_the_law_is_fitted_and_raises_the_share_that_fails():
    assert fitted([(50, 4.0), (50, 6.0)]) == Law(250.0, 0.0)
    control = Control(10, Fraction(10), 3, 90.0)

    def looked(x: int, y: int, ttft: float, tpot: float, **more: Any) -> tuple[int, int]:
        made = Controller(control._replace(**more), Fraction(x), Fraction(y), 1.0, 0.1)
        found = made.look(Seen(ttft, tpot, 20.0))
        return int(found[0]), int(found[1])

    assert looked(50, 50, 0.5, 0.05) == (50, 50) and looked(50, 50, 2.0, 0.2) == (50, 50)  # none fails, both do
    assert looked(50, 50, 1.3, 0.05) == (60, 50)  # 1.3 x 30 / 40 < 1
    assert looked(50, 50, 9.0, 0.05) == (80, 50)  # at most three steps
    assert looked(50, 50, 0.5, 0.14) == (50, 80)  # 0.14 x 50 / 70 is 0.1
    assert looked(90, 50, 9.0, 0.05) == (100, 30)  # it is all there is, then the other gives way
    assert looked(50, 50, 1.3, 0.05, apart=True) == (60, 40)
    assert looked(10, 50, 1.3, 0.05) == (40, 50)  # at less than its load no share is enough by the estimate
    assert looked(50, 50, 9.0, 0.05, most=1) == (60, 50)


def served(shares: str | None = None, **given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt2-xl", "arrivals": "poisson:20/s", "lengths": "512:32", "requests": 150}
    return pimloom.serve("gpu_a100", scheduler="semi-pd", shares=shares, layers=4, **options | given)


def r_squared(inverse: np.ndarray, times: np.ndarray) -> float:
    line = np.polynomial.Polynomial.fit(inverse, times, 1)
    return float(1 - ((times - line(inverse)) ** 2).sum() / ((times - times.mean()) ** 2).sum())


def test_times_follow_the_inverse_law_of_the_shares():
    """One prompt at a time, as the law has it; its load is what an M/M/1 queue has, not fitted."""
    shares, rate = np.array([40, 55, 75, 100]), 260.0
    asked: dict[str, Any] = {
        "arrivals": f"poisson:{rate}/s",
        "batch_tokens": 1,
        "sample": 0,
        "lengths": "512:8",
        "requests": 60,
    }
    first = [served(f"prefill={x},decode=50", **asked) for x in shares]
    whole_s = first[-1].iterations.query("replica == 0")["time_s"].median()
    load = 100 * rate * whole_s
    assert 10 < load < 35
    ttft = np.array([found.time_to_first_token_s.mean for found in first])
    assert r_squared(1 / (shares - load), ttft) > 0.98
    tpot = np.array([served(f"prefill=50,decode={y}", **asked).time_per_output_token_s.mean for y in shares])
    assert r_squared(1 / shares, tpot) > 0.98 and tpot[0] > 1.5 * tpot[-1]


def test_energy_and_shares_are_told():
    found, twice = served(requests=30), served(requests=30)
    assert found.to_dict() == twice.to_dict()
    table = found.requests
    assert (table["output_tokens"] == 32).all() and (table["first_token_s"] < table["completion_s"]).all()
    assert table["energy_j"].sum() == pytest.approx(found.energy_j - found.rest_j, rel=1e-9)
    assert fsum(found.energy_by_cause_j.values()) == pytest.approx(found.energy_j, rel=1e-9)
    assert set(found.iterations["share"]) == {0.5} and set(found.iterations["replica"]) == {0, 1}
    decode = found.iterations.query("replica == 1")
    assert (decode["new_tokens"] == decode["requests"]).all()


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_left_of_a_machine_rests(exact):
    """One request has the machine to itself, first its prompt, then its decode, without a gap. On all of it nothing
    rests; on a quarter it takes four times as long, and three quarters rest meanwhile at the 53 W of an A100; on 20 and
    80 % each phase leaves its own part."""
    asked: dict[str, Any] = {"requests": 1, "arrivals": "burst", "lengths": "512:8", "exact": exact}
    whole, quarter, two = (
        served(f"prefill={x},decode={y}", **asked) for x, y in ((100, 100), (25, 25), (20, 80))
    )  # fmt: skip
    assert whole.rest_j == pytest.approx(0, abs=1e-9) and whole.rest_w == 53
    assert quarter.time_s == pytest.approx(4 * whole.time_s)
    assert quarter.rest_j == pytest.approx(53 * 0.75 * quarter.time_s)
    assert quarter.energy_j == pytest.approx(whole.energy_j + quarter.rest_j)
    took = two.iterations.groupby("replica")["time_s"].sum()
    assert two.rest_j == pytest.approx(53 * (0.8 * took[0] + 0.2 * took[1]))


POWER = [*(("gpu_a100", n) for n in (1, 12.5, 50, 100)), ("npu_only", 50), ("neupims", 12.5)]


@pytest.mark.parametrize(("name", "share"), POWER)
def test_no_machine_takes_less_than_at_rest(name, share):
    """Whatever its shares are; and all sums are those of the ledger."""
    found = pimloom.serve(
        name, model=NARROW, scheduler="semi-pd", shares=f"prefill={share:g},decode={share:g}", arrivals="poisson:999/s",
        lengths="64:4", requests=4, layers=1, lm_head=False, batch_tokens=64,
    )  # fmt: skip
    assert found.rest_w and found.energy_j / found.time_s > found.rest_w
    assert fsum(found.energy_by_cause_j.values()) == pytest.approx(found.energy_j, rel=1e-9)
    assert fsum(found.requests["energy_j"]) + found.rest_j == pytest.approx(found.energy_j, rel=1e-9)
    assert found.energy_by_cause_j["at rest"] == found.rest_j


def test_the_controller_moves_shares_to_what_fails():
    asked: dict[str, Any] = {"slo": "ttft=9s,tpot=1070us", "lengths": "64:128", "requests": 45}
    stays, moves = (served(f"prefill=75,decode=25{window}", **asked) for window in ("", ",window=20"))
    assert moves.iterations["share"].max() > 0.25 and set(stays.iterations.query("replica == 1")["share"]) == {0.25}
    assert moves.slo.tpot > stays.slo.tpot


def test_shares_of_an_npu_are_arrays():
    """Half of the arrays: prompts take longer, decode is simulated with them, too, and all energy is told once."""
    asked: dict[str, Any] = {
        "model": NARROW,
        "lengths": "64:4",
        "requests": 3,
        "layers": 1,
        "lm_head": False,
        "exact": True,
    }
    asked |= {"arrivals": "burst", "scheduler": "semi-pd", "batch_tokens": 64}
    half = pimloom.serve("npu_only", shares="prefill=50,decode=50", **asked)
    most = pimloom.serve("npu_only", shares="prefill=75,decode=25", **asked)
    first = [found.iterations.query("replica == 0")["time_s"].iloc[0] for found in (half, most)]
    assert first[0] > first[1] and half.spec_digest != most.spec_digest
    assert half.requests["energy_j"].sum() == pytest.approx(half.energy_j - half.rest_j, rel=1e-9)
    assert "memory bandwidth" not in half.energy_by_cause_j and half.energy_by_cause_j["npu_static"] > 0


BAD = {
    "gpu_a100 --scheduler semi-pd --shares prefill=50": "--shares prefill=50: expected decode, too, such as prefill=50",
    "gpu_a100 --scheduler semi-pd --shares prefill=50,decode=101": "decode: expected a number of 1 to 100, got '101'",
    "gpu_a100 --scheduler semi-pd --shares prefil=50": "--shares prefil=50: expected prefill, decode, window",
    "gpu_a100 --scheduler semi-pd --shares prefill=5,prefill=5": "--shares prefill=5,prefill=5: prefill is given twice",
    "gpu_a100 --scheduler semi-pd --shares prefill=5,decode=5,step=5": "step belongs to window=N, iterations after",
    "gpu_a100 --scheduler semi-pd --shares prefill=5,decode=5,window=5": "--shares window: expected limits that shares",
    "gpu_a100 --shares prefill=50,decode=50": "--shares prefill=50,decode=50: belongs to --scheduler semi-pd, not vllm",
    "gpu_a100 --scheduler semi-pd --replicas 2": "--scheduler semi-pd: shares out one machine; leave --pp",
    "gpu_a100 --scheduler semi-pd --mixed": "--mixed: semi-pd takes tokens one by one on one machine; leave it",
    "npu_only --scheduler semi-pd --shares prefill=40,decode=50": "--shares prefill=40: npu_only has 8 arrays;",
    "npu_only --scheduler semi-pd --shares prefill=75,decode=50": "an array of npu_only belongs to one of them",
    "pim_gpt --scheduler semi-pd": "--scheduler semi-pd: nothing of pim_gpt can be shared out; take a roofline or an",
}  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_shared_out_is_one_line(words):
    drawn_ones = ("--arrivals", "burst", "--requests", "2", "--lengths", "8:4")
    done = call("serve", *words.split(), "--model", "gpt2", *drawn_ones)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and BAD[words] in done.err, done.err
