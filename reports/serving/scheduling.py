"""Schedulers, and serving that is told apart from what was published by its rules alone: on a roofline, unfitted."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from pimloom.reports.serving.rows import Place, Row, placed, row
from pimloom.systems.serving.online.asked import online_work
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.results.goodput import Goodput
from pimloom.systems.serving.results.outcome import Online
from pimloom.workload.batch import Batch

GPU, MODEL = "gpu_a100", "llama-3-8b"  # [design] near Mistral-7B in shape
TRACE = Path(__file__).parent / "azure2023_conv_0_200.csv"
RULES = ("vllm-v1", "vllm-v0", "sarathi", "orca", "lightllm", "faster-transformer", "static")
NAMED = "Vidur, vLLM, Sarathi-Serve, Orca, LightLLM, FasterTransformer"
SLO, RATES = "ttft=2s,tpot=30ms", "0.5:32"  # [design]
INTERVALS_MS = (4000, 400, 40, 4)  # between arrivals [design]
CALLS, INSTRUCTED, FULL = (2, 4, 8), 1024, 32  # [design] calls; tokens of instructions; requests of a full machine
THOUGHT, FOUND, PLANNED = 48, 64, 24  # [design] tokens: of a thought with its call, what comes back, a line of a plan
RESPONSES, REPLICAS, TAIL, PROMPT = 64, 4, 0.2, 256  # of RLHFuse: the last fifth is the tail [design]


@cache
def _served(**asked: object) -> Online | Goodput:
    options = {"system": GPU, "model": MODEL} | ({} if asked.get("goodput") else {"sample": 0}) | asked
    return online_work(Wanted(**options)).run(lambda done, total: None)  # type: ignore[arg-type]


def _online(**asked: object) -> Online:
    found = _served(**asked)
    assert isinstance(found, Online)
    return found


def rules() -> Iterator[Row]:
    """The same requests under each scheduler, and how many a second two of them may have."""
    machine = f"{MODEL} on {GPU}"
    for name in RULES:
        found = _online(trace=TRACE, requests=200, scheduler=name)
        each = found.time_per_output_token_s
        assert each is not None
        yield row(NAMED, f"{name}: time to first token, p90", found.time_to_first_token_s.p90, "no figure", "run",
                  unit="s", machine=machine)  # fmt: skip
        yield row(NAMED, f"{name}: time per output token, p90", 1000 * each.p90, "no figure", "run", unit="ms",
                  machine=machine)  # fmt: skip
    best = dict[str, float]()
    for name in ("sarathi", "vllm-v0"):
        searched = _served(trace=TRACE, requests=200, scheduler=name, goodput=True, slo=SLO, rate=RATES)
        assert isinstance(searched, Goodput)
        best[name] = searched.goodput_per_s
    yield row(NAMED, f"Sarathi's rate over vLLM v0's at {SLO}", best["sarathi"] / best["vllm-v0"], "2.6 (Mistral-7B)",
              "paper", unit="×", machine=machine)  # fmt: skip


def flover() -> Iterator[Row]:
    """One generation that newcomers join, beside one that takes requests one by one, or in batches to their end."""
    best = 0.0
    others: dict[str, dict[str, object]] = {
        "one by one": {"scheduler": "orca", "batch": 1}, "in whole batches": {"scheduler": "static"},
    }  # fmt: skip
    for interval in INTERVALS_MS:
        asked: dict[str, object] = {"arrivals": f"uniform:{1000 / interval:g}/s", "lengths": "64:128", "requests": 48}
        fused = _online(**asked | {"scheduler": "orca"}).latency_s.mean
        for name, other in others.items():
            gain = _online(**asked | other).latency_s.mean / fused
            best = max(best, gain)
            yield row("Flover", f"mean latency, {name}, arrivals {interval} ms apart", gain, "above 11, 16",
                      "paper", unit="×", machine=f"{MODEL} on {GPU}")  # fmt: skip
    yield row("Flover", "largest of these gains", best, "a point of 10 or more", "paper", unit="×",
              machine=f"{MODEL} on {GPU}")  # fmt: skip


def rlhfuse() -> Iterator[Row]:
    """Long responses go on alone while the others are judged already."""
    device = placed(Place(GPU, MODEL))
    drawn = np.random.default_rng(5).lognormal(5.0, 0.8, RESPONSES)
    lengths = sorted(int(n) for n in np.maximum(drawn, 1))
    ends, at = list[float](), 0.0
    context = PROMPT + lengths[-1] // 2
    step = [0.0, *(device.step(Batch.decode([context] * n)).time_s for n in range(1, RESPONSES // REPLICAS + 1))]
    for i in range(1, max(lengths) + 1):
        live = sum(n >= i for n in lengths)
        at += step[-(-live // REPLICAS)]
        ends += [at] * sum(n == i for n in lengths)
    judged = [device.step(Batch.prefill([PROMPT + n])).time_s for n in lengths]
    early = round((1 - TAIL) * RESPONSES)
    apart = ends[-1] + sum(judged) / REPLICAS
    fused = max(ends[-1], ends[early - 1] + sum(judged[:early]) / (REPLICAS - 1)) + sum(judged[early:]) / REPLICAS
    yield row("RLHFuse (generation stage)", "time of generation and inference, fused, synthetic lengths", apart / fused,
              "up to 3.7, training included", "paper", unit="×", machine=f"{MODEL} on {REPLICAS} {GPU}")  # fmt: skip


def compiler() -> Iterator[Row]:
    """Calls of functions one behind the other, each with a request that has all before it in its prompt, or planned
    first and made at once: graphs, lengths and that calls take no time are synthetic."""
    for calls in CALLS:
        one_by_one = [(INSTRUCTED + i * (THOUGHT + FOUND), THOUGHT) for i in range(calls + 1)]
        planned = [(INSTRUCTED, calls * PLANNED), (INSTRUCTED + calls * (PLANNED + FOUND), THOUGHT)]
        said = f"{MODEL} on {GPU}, prompts of {INSTRUCTED} tokens and more"
        latency, cost = (_seconds(one_by_one, beside) / _seconds(planned, beside) for beside in (1, FULL))
        yield row("LLMCompiler", f"latency of {calls} calls that do not wait for one another", latency, "up to 3.7",
                  "paper", unit="×", machine=said)  # fmt: skip
        yield row("LLMCompiler", f"cost of {calls} calls: time of a machine with {FULL} requests at once", cost,
                  "up to 6.7", "paper", unit="×", machine=said)  # fmt: skip


def _seconds(requests: Sequence[tuple[int, int]], beside: int) -> float:
    """Of a machine: prompts and outputs one after the other, so many such at once, each its part."""
    device, total = placed(Place(GPU, MODEL)), 0.0
    for prompt, output in requests:
        step = device.step(Batch.decode([prompt + output // 2] * beside)).time_s / beside
        total += device.step(Batch.prefill([prompt])).time_s + (output - 1) * step
    return total
