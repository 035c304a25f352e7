"""Lines of `make bench` for serving: iterations of schedulers by themselves, a trace on a GPU, a goodput."""

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pimloom
from pimloom.systems.serving.clock.cluster import round_robin, serve
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.sarathi import Sarathi
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.systems.serving.schedulers.vllm_v1 import VllmV1
from tests.serving_cases import lin

REQUESTS, GAP = 3000, 62_000  # ticks: about 15 requests at once
MAKE: dict[str, Callable[[], Scheduler]] = {
    "vllm-v1": lambda: VllmV1(Blocks(4000, 16), 64, 2048, 4096),
    "vllm-v0": lambda: VllmV0(Blocks(4000, 16), 40, 64, 4096),
    "sarathi": lambda: Sarathi(Blocks(4000, 16), 40, 64, 512),
    "orca": lambda: Orca(Blocks(8000, 16), 64, 64),
}


def serving_lines() -> list[tuple[str, str, str]]:
    """(what, measured, target) of each."""
    return [*(_iterations(name) for name in MAKE), *_served()]


def _iterations(name: str) -> tuple[str, str, str]:
    random, at, requests, made = Random(1), 0, list[LiveRequest](), [0, 0]
    for i in range(REQUESTS):
        at += int(random.expovariate(1) * GAP)
        requests.append(LiveRequest(i, at, random.randint(20, 400), random.randint(20, 400)))

    def price(iteration: Iteration) -> int:
        made[0] += 1
        made[1] += len(iteration.new)
        return lin(iteration.new, iteration.cached)

    replicas = [Replica(MAKE[name](), price)]
    start = time.process_time()
    serve(requests, replicas, round_robin(replicas))
    seconds = time.process_time() - start
    what = f"{name} in Python, {made[1] / made[0]:.0f} requests in an iteration"
    return what, f"{made[0] / seconds * 60 / 1e6:.1f} M iterations/min of CPU", "≥ 2 M/min"


def _served() -> list[tuple[str, str, str]]:
    given: dict[str, Any] = {"model": "llama-3-8b", "arrivals": "poisson:4.6/s", "requests": 1000, "seed": 1}
    start = time.process_time()
    found = pimloom.serve("gpu_a100", **given)
    seconds = time.process_time() - start
    rate = found.iteration_count / seconds * 60 / 1e6
    lines = [("1,000 requests on gpu_a100", f"{seconds:.1f} s of CPU, {rate:.2f} M iterations/min", "≤ 60 s")]
    start = time.process_time()
    best = pimloom.serve("gpu_a100", **given, goodput=True, rate="0.5:64", slo="ttft=1s,tpot=50ms")
    what = f"goodput of the same, {len(best.rates)} rates"
    return [*lines, (what, f"{time.process_time() - start:.1f} s of CPU", "≤ 120 s")]
