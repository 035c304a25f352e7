"""The trend of the backlog tells loads below saturation from those above it, and goodput never exceeds saturation."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.systems.serving.results.backlog import Backlog, backlog, most_at_once, rising
from pimloom.workload.requests.table import Groups, Identities, Requests, Tokens, repeated
from tests.command import call
from tests.slow import slow


def queue(load: float, count: int, seed: int = 0, *, servers: int = 1, cv: float = 1.0) -> Backlog:
    """Requests of one second each, on servers that take them in turn: `load` of all servers comes in a second."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.gamma(1 / cv**2, cv**2, count)) / (load * servers)
    start, free = np.zeros(count), [0.0] * servers
    for i, at in enumerate(arrival):
        start[i] = max(at, free[i % servers])
        free[i % servers] = start[i] + 1.0
    found = backlog(arrival - arrival[0], start - arrival[0], start - arrival[0] + 1.0)
    assert found is not None
    return found


@pytest.mark.parametrize("servers", [1, 4])
@pytest.mark.parametrize("seed", [0, 1, *(slow(seed) for seed in (2, 3, 4))])
def test_loads_below_and_above_saturation(servers, seed):
    assert queue(0.5, 2000, seed, servers=servers).state == "steady"
    assert queue(0.9, 20_000, seed, servers=servers).state == "steady"
    assert queue(0.97, 60_000, seed, servers=servers).state == "steady"
    assert queue(1.05, 20_000, seed, servers=servers).state == "growing"
    assert queue(2.0, 500, seed, servers=servers).state == "growing"


@pytest.mark.parametrize("seed", [0, 1, *(slow(seed) for seed in (2, 3, 4))])
def test_bursts_are_no_trend(seed):
    assert queue(0.7, 20_000, seed, cv=3.0).state == "steady"
    assert queue(1.3, 20_000, seed, cv=3.0).state == "growing"


def test_what_a_trend_is():
    """At twice the rate of a server half of what comes is left: 1,000 requests, between 20 and 80 % of their time."""
    arrival = np.arange(1000) / 2
    start = np.arange(1000.0)
    found = backlog(arrival, start, start + 1)
    assert found is not None and found.state == "growing" and found.growth == pytest.approx(0.5, abs=0.01)
    assert (found.from_s, found.to_s) == pytest.approx((99.9, 399.6)) and found.most_running == 1
    assert (found.first, found.last) == pytest.approx((125, 375), abs=2) and found.p_value == pytest.approx(1 / 720)
    level = backlog(arrival, arrival, arrival + 0.25)
    assert level is not None and level.state == "steady" and level.first == pytest.approx(0.5, abs=0.01)


def test_a_run_that_ends_while_machines_fill_up_is_short():
    arrival = np.arange(100) / 10
    assert queue(0.5, 9).state == "short"
    found = backlog(arrival, arrival, arrival + 60)
    assert found is not None and found.state == "short" and found.most_running == 100
    assert backlog(np.zeros(5), np.zeros(5), np.arange(1.0, 6.0)) is None


def test_an_empty_system_has_no_trend():
    """Requests that end at once: what sums of floats differ by is no request, and never less than none."""
    arrival = np.arange(3.0)
    found = backlog(arrival, arrival, arrival + [0.0013166, 0.0012964, 0.0012961])
    assert found is not None and (found.first, found.last, found.growth) == (0, 0, 0)


def test_chances_are_those_of_all_orders():
    scores = [sum(np.sign(b - a) for i, a in enumerate(p) for b in p[i + 1 :]) for p in permutations(range(5))]
    for score in range(-10, 11, 2):
        assert rising(score, 5) == pytest.approx(np.mean([one >= score for one in scores]))


def test_how_many_run_at_once_is_what_a_count_at_each_start_gives():
    rng = np.random.default_rng(1)
    start = rng.random(50)
    end = start + rng.random(50) / 5
    assert most_at_once(start, end) == max(sum((start <= at) & (end > at)) for at in start)


@pytest.mark.parametrize("prefix", [
    Groups(["a", "a", "b"], [32, 32, 48]), Identities([[1, 2], [1, 3], [4]], 32),
    Tokens([list(range(40)), list(range(33)), list(range(7, 60))]),
])  # fmt: skip
def test_repetitions_share_within_themselves_alone(prefix):
    twice = repeated(Requests("t", [0, 10, 30], [40, 33, 60], [1, 2, 3], "", prefix), 2)
    assert twice.arrival_ps == [0, 10, 30, 45, 55, 75] and twice.prompt == [40, 33, 60] * 2
    assert twice.prefix is not None
    blocks = [[twice.prefix.block(i, k, 16) for k in range(2)] for i in range(6)]
    assert blocks[:3] == [[prefix.block(i, k, 16) for k in range(2)] for i in range(3)]
    assert not {one for mine in blocks[:3] for one in mine} & {one for mine in blocks[3:] for one in mine} - {None}
    numbers = twice.prefix.numbered(range(6), [2] * 6, 16)
    flat = [(one, int(number)) for mine, some in zip(blocks, numbers, strict=True)
            for one, number in zip(mine, some, strict=True)]  # fmt: skip
    for one, number in flat:
        assert (number < 0) == (one is None)
        assert one is None or all((one == other) == (number == its) for other, its in flat)


ONE: dict[str, Any] = {"model": "gpt2", "layers": 2, "lengths": "64:1", "requests": 50, "batch": 1, "scheduler": "orca"}


def step_s() -> float:
    """Of a request of one token, alone."""
    found: Any = pimloom.serve("gpu_a100", **ONE | {"requests": 2}, arrivals="burst")
    return float(found.time_s) / 2


@pytest.mark.parametrize(("arrivals", "replicas"), [
    ("poisson:1/s", 1), ("gamma:1/s,cv=2", 2), slow("uniform:1/s", 1), slow("poisson:1/s", 2),
    slow("uniform:1/s", 2), slow("gamma:1/s,cv=2", 1),
])  # fmt: skip
def test_goodput_without_limits_is_just_below_saturation(arrivals, replicas):
    """A server that takes requests one by one, each as long: M/D/1, D/D/1, G/D/1."""
    most = replicas / step_s()
    found: Any = pimloom.serve(
        "gpu_a100", **ONE, arrivals=arrivals, replicas=replicas, goodput=True, slo="latency=1000s",
        rate=f"{most / 8}:{8 * most}",
    )  # fmt: skip
    assert found.saturation_per_s == pytest.approx(most, rel=0.01)
    assert 0.9 * most < found.goodput_per_s < found.fails_per_s <= found.saturation_per_s
    assert all(rate.rate_per_s < found.saturation_per_s for rate in found.rates)


def test_rates_that_are_never_completed_are_refused():
    rate = f"{2 / step_s():.0f}:{4 / step_s():.0f}"
    done = call("serve", "gpu_a100", "--model", "gpt2", "--layers", "2", "--lengths", "64:1", "--requests", "50",
                "--batch", "1", "--scheduler", "orca", "--arrivals", "poisson:1/s", "--goodput", "--slo",
                "latency=1000s", "--rate", rate)  # fmt: skip
    assert done.code == 2 and "does not hold: at most" in done.err and done.err.count("\n") == 1


def said(done: Any) -> str:
    """The line of the backlog, which a terminal wraps."""
    return str(" ".join(done.out.split()).partition("backlog: ")[2]).partition(" KV cache")[0]


def test_a_command_says_whether_its_backlog_grows():
    base = ("serve", "gpu_a100", "--model", "gpt2", "--layers", "2", "--lengths", "64:1", "--batch", "1",
            "--scheduler", "orca", "--sample", "0", "--requests", "1200", "--arrivals")  # fmt: skip
    above, below = (call(*base, f"poisson:{load / step_s():.0f}/s") for load in (1.5, 0.5))
    assert "the backlog grows by 3" in above.err and said(above).endswith(": growing")
    assert "backlog" not in below.err and said(below).endswith(": steady")
    few = call(*base[:-1], "--batch", "64", "--arrivals", "poisson:1e6/s", "--lengths", "64:400", "--requests", "50")
    assert "the run is short against its latencies" in few.err and said(few).endswith(": short")


@pytest.mark.parametrize("how", [
    {"batch": 2}, slow({}), slow({"scheduler": "vllm-v0"}), slow({"scheduler": "sarathi"}),
    slow({"system": "npu_only"}),
    slow({"system": "prefill=gpu_a100,decode=gpu_a100", "link": "nvlink"}),
    slow({"replicas": 3}),
])  # fmt: skip
def test_goodput_stays_below_what_a_long_overloaded_run_completes(how):
    system = how.get("system", "gpu_a100")
    base: dict[str, Any] = {"model": "gpt2", "lengths": "alpaca", "requests": 60, "batch": 4} | how
    base.pop("system", None)
    found: Any = pimloom.serve(
        system, **base, arrivals="poisson:1/s", goodput=True, slo="latency=1000s", rate="1:100000"
    )
    crowd: Any = pimloom.serve(system, **base | {"requests": 2000}, arrivals="burst", sample=0)
    assert 0.8 < found.goodput_per_s / (2000 / crowd.time_s) < 1.02
    assert found.goodput_per_s <= found.saturation_per_s
