"""Lines of `make bench` for serving: schedulers in Python and as kernels, a GPU, NeuPIMs and its cache, a goodput."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.systems.serving.clock.cluster import round_robin, serve
from pimloom.systems.serving.clock.compiled import Board, ClosedForm, CompiledReplica
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.clock.rules import limits_of
from pimloom.systems.serving.kernels.fields import MANY, N_ROWS
from pimloom.systems.serving.online.prepared import prepared
from pimloom.systems.serving.online.running import serve_online
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.sarathi import Sarathi
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.systems.serving.schedulers.vllm_v1 import VllmV1
from pimloom.workload.requests.read import read
from tests.serving_cases import lin

GAP = 62_000  # ticks: about 15 requests at once
IN_PYTHON, IN_KERNELS = 3000, 30_000  # requests
MAKE: dict[str, Callable[[], Scheduler]] = {
    "vllm-v1": lambda: VllmV1(Blocks(4000, 16), 64, 2048, 4096),
    "vllm-v0": lambda: VllmV0(Blocks(4000, 16), 40, 64, 4096),
    "sarathi": lambda: Sarathi(Blocks(4000, 16), 40, 64, 512),
    "orca": lambda: Orca(Blocks(8000, 16), 64, 64),
}
TRACE = Path(__file__).parents[1] / "examples" / "serving" / "azure2023_conv_0_1000.csv"
MOONCAKE = TRACE.with_name("mooncake_conversation_0_400.jsonl")
Line = tuple[str, str, str]


def serving_lines() -> Iterator[Line]:
    """(what, measured, target) of each."""
    yield from (in_python(name) for name in MAKE)
    yield from (in_kernels(name) for name in MAKE)
    yield from _gpu()
    yield _shared()
    yield from _neupims()


def requests_of(number: int) -> list[LiveRequest]:
    """Some with prompts and outputs of 20 to 400 tokens."""
    random, at, made = Random(1), 0, list[LiveRequest]()
    for i in range(number):
        at += int(random.expovariate(1) * GAP)
        made.append(LiveRequest(i, at, random.randint(20, 400), random.randint(20, 400)))
    return made


def in_python(name: str) -> Line:
    """A scheduler and a closed form."""
    requests, made = requests_of(IN_PYTHON), [0, 0]

    def price(iteration: Iteration) -> int:
        made[0] += 1
        made[1] += len(iteration.new)
        return lin(iteration.new, iteration.cached)

    replicas = [Replica(MAKE[name](), price)]
    start = time.process_time()
    serve(requests, replicas, round_robin(replicas))
    return _rate(f"{name} in Python", made[0], made[1], time.process_time() - start, "≥ 2 M/min")


def in_kernels(name: str) -> Line:
    """The same as machine code, from requests to requests."""
    scheduler, form = MAKE[name](), ClosedForm(4000, 0, 20, products=(1, 0, 64))
    limits = limits_of(scheduler)
    assert limits is not None
    for number in (1, IN_KERNELS):  # the first one loads it
        requests = requests_of(number)
        start = time.process_time()
        board = Board(requests, form, number)
        replicas = [CompiledReplica(MAKE[name](), limits, board)]
        serve(requests, replicas, round_robin(replicas))
        board.tell()
    seconds = time.process_time() - start
    count = int(board.shared.counts[N_ROWS])
    held = int(board.shared.rows[:count, MANY].sum())
    return _rate(f"{name} in kernels", count, held, seconds, "≥ 20 M/min")


def _rate(what: str, count: int, held: int, seconds: float, target: str) -> Line:
    at_once = f"{held / count:.0f} requests in an iteration"
    return f"{what}, {at_once}", f"{count / seconds * 60 / 1e6:.1f} M iterations/min of CPU", target


def _gpu() -> Iterator[Line]:
    given: dict[str, Any] = {"model": "llama-3-8b", "arrivals": "poisson:4.6/s", "requests": 1000, "seed": 1}
    start = time.process_time()
    found = pimloom.serve("gpu_a100", **given)
    seconds = time.process_time() - start
    rate = found.iteration_count / seconds * 60 / 1e6
    yield "1,000 requests on gpu_a100", f"{seconds:.2f} s of CPU, {rate:.1f} M iterations/min", "≤ 60 s"
    start = time.process_time()
    best = pimloom.serve("gpu_a100", **given, goodput=True, rate="0.5:64", slo="ttft=1s,tpot=50ms")
    what = f"goodput of the same, {len(best.rates)} rates"
    yield what, f"{time.process_time() - start:.2f} s of CPU", "≤ 120 s"


def _shared() -> Line:
    """Prompts with a prefix cache, longer than the model has positions for."""
    found, seconds = None, 0.0
    for _ in range(2):  # the first one loads kernels
        start = time.process_time()
        found = pimloom.serve("gpu_a100", model="llama-3-8b", trace=MOONCAKE, cut=True, sample=0)
        seconds = time.process_time() - start
    rate = found.iteration_count / seconds * 60 / 1e6 if found else 0.0
    return "400 requests of Mooncake, prefix cache", f"{seconds:.2f} s of CPU, {rate:.1f} M iterations/min", "≤ 5 s"


def _neupims() -> Iterator[Line]:
    requests = read(TRACE)
    by = prepared(Wanted("neupims", "llama-3-8b", tp=4, batch_tokens=2048), load_llm("llama-3-8b"), requests)
    start = time.perf_counter()
    found = serve_online(by, requests, lambda done, total: None)
    seconds, bound = time.perf_counter() - start, found.pricing.error_bound or 0.0
    what = f"1,000 requests of Azure on NeuPIMs, {found.pricing.simulated} iterations simulated"
    yield what, f"{seconds:.0f} s, error {found.pricing.error:+.1%}, bound {bound:.1%}", "≤ 60 s"
    start = time.process_time()
    again = serve_online(by, requests, lambda done, total: None, sampled=False)
    rate = again.iteration_count / (time.process_time() - start) * 60 / 1e6
    yield "the same once more, over its cache", f"{rate:.1f} M iterations/min of CPU", "≥ 1 M/min"
