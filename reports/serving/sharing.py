"""One machine shared out: prompts beside decode (semi-PD), fine-tuning and offline jobs beside requests."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.reports.serving.distserve_data import REQUESTS as REQUESTS_OF
from pimloom.reports.serving.rows import Row, row, within
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.serving.online.asked import online_work, served_on
from pimloom.systems.serving.online.prepared import FILES
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.results.goodput import Goodput
from pimloom.systems.serving.results.outcome import Online
from pimloom.systems.serving.sharing.muxflow import Wants, matched, use, wants
from pimloom.workload.batch import Batch
from pimloom.workload.finetuning import kept, total_ratio
from pimloom.workload.requests.read import read

GPU, MODEL = "gpu_a100", "llama-3-8b"
WANTED: dict[str, Any] = {"system": GPU, "model": MODEL}
SHARES = (40, 55, 75, 100)  # [design] percent
RATE, LENGTHS, REQUESTS = 4.0, "1024:32", 150  # [design] of semi-PD's curves
FOLLOWING = "prefill=60,decode=60,window=50"  # [design] shares at first; iterations between two looks
ATTAINED, TIGHT = (4, 8, 16), "ttft=300ms,tpot=150ms"  # [design] requests/s; [paper] of Llama3-8B on ShareGPT
LIMIT, SEQUENCE, RANK = "tpot=50ms", 1024, 16  # [design] of FlexLLM; rank [recalled]
BOUND = 1.2  # [design] of MuxFlow: how much longer an iteration of a service may become
RUNS, JOBS_HOLD = {MODEL: 32, "gpt2-xl": 48}, (0.05, 0.1)  # [design] layers; parts of memory that two jobs hold


def online(**asked: Any) -> Online:
    """Requests that are served."""
    found = online_work(Wanted(**WANTED | {"sample": 0} | asked)).run(lambda *done: None)
    assert isinstance(found, Online)
    return found


def steadily(rate: float, **asked: Any) -> tuple[Online, str]:
    """Requests that come at a rate until the run is steady, and a note if it never is."""
    wanted = Wanted(**WANTED | {"sample": 0, "arrivals": f"poisson:{rate:g}/s", "rate": f"{rate:g}"} | asked)
    trace = None if wanted.trace is None else read(wanted.trace)
    found, _ = served_on(FILES, load_llm(wanted.model), wanted, trace, rate)
    assert found.backlog is not None
    return found, "" if found.backlog.state == "steady" else f", backlog {found.backlog.state}"


def goodput(**asked: Any) -> Goodput:
    """The highest rate at which nine of ten hold their limits."""
    found = online_work(Wanted(**WANTED | {"goodput": True} | asked)).run(lambda *done: None)
    assert isinstance(found, Goodput)
    return found


def r_squared(inverse: np.ndarray, times: np.ndarray) -> float:
    """Of a line through times over inverse shares."""
    line = np.polynomial.Polynomial.fit(inverse, times, 1)
    return float(1 - ((times - line(inverse)) ** 2).sum() / ((times - times.mean()) ** 2).sum())


def semi_pd() -> Iterator[Row]:
    """Times over shares, one prompt at a time, beside the law; the load of its queue is what it takes, not fitted."""
    drawn: dict[str, Any] = {"arrivals": f"poisson:{RATE:g}/s", "lengths": LENGTHS, "requests": REQUESTS}
    asked = drawn | {"scheduler": "semi-pd", "batch_tokens": 1}
    shares, said = np.array(SHARES), f"{MODEL} on {GPU}, {RATE:g} requests/s of {LENGTHS}, drawn"
    first = [online(shares=f"prefill={x},decode=50", **asked) for x in SHARES]
    prompts = first[-1].by_iteration
    whole_s = [t for t, replica in zip(prompts["time_s"], prompts["replica"], strict=True) if replica == 0]
    load = 100 * RATE * float(np.mean(whole_s))
    found = {
        "TTFT over a / (x - load) + b": (1 / (shares - load), [one.time_to_first_token_s.mean for one in first]),
        "TPOT over a / y + b": (1 / shares, [_tpot(online(shares=f"prefill=50,decode={y}", **asked)) for y in SHARES]),
    }
    for what, (inverse, times) in found.items():
        r2 = r_squared(inverse, np.array(times))
        yield row("semi-PD", f"{what}, R²", r2, "0.995", "paper", digits=".4f", verdict=within(r2, 0.98, 1),
                  tolerance="at least 0.98", machine=said, basis="fitted")  # fmt: skip
    limits = {"slo": "ttft=400ms,tpot=40ms", "rate": "1:40", "share": 0.9}
    rates = [
        goodput(**drawn | {"arrivals": "poisson:10/s"}, **limits, **more).goodput_per_s
        for more in (dict[str, Any](), {"scheduler": "semi-pd", "shares": FOLLOWING})
    ]
    yield row("semi-PD", "requests within limits over vLLM v1, shares that follow them", rates[1] / rates[0],
              "1.55 to 1.72", "paper", unit="×", machine=said)  # fmt: skip


def attained() -> Iterator[Row]:
    """semi-PD beside vLLM and DistServe, which has two devices, at the limits of its authors for ShareGPT."""
    systems: dict[str, dict[str, Any]] = {
        "semi-PD": {"scheduler": "semi-pd", "shares": FOLLOWING},
        "vLLM v0": {"scheduler": "vllm-v0"},
        "vLLM v0, chunks of 1,024": {"scheduler": "vllm-v0", "chunked": True, "batch_tokens": 1024},
        "DistServe, one for each": {
            "system": f"prefill={GPU},decode={GPU}", "link": "nvlink3", "scheduler": "distserve",
        },
    }  # fmt: skip
    for rate in ATTAINED:
        served = {
            name: steadily(rate, trace=REQUESTS_OF, requests=100, slo=TIGHT, **asked) for name, asked in systems.items()
        }
        said = f"{MODEL}, each device {GPU}, {rate} requests/s of ShareGPT"
        for name, (one, note) in served.items():
            assert one.slo is not None
            yield row("semi-PD", f"{name}: requests within {TIGHT}", 100 * one.slo.all, "no figure", "paper", unit="%",
                      machine=said + note)  # fmt: skip
        mean = served["semi-PD"][0].latency_s.mean
        for name in list(served)[1:] if rate == ATTAINED[0] else ():
            yield row("semi-PD", f"mean latency of {name} over semi-PD's", served[name][0].latency_s.mean / mean,
                      "1.27 to 2.58, DeepSeek", "paper", unit="×", machine=said)  # fmt: skip


def _tpot(found: Online) -> float:
    assert found.time_per_output_token_s is not None
    return found.time_per_output_token_s.mean


def flexllm() -> Iterator[Row]:
    """Fine-tuning beside requests that hold their limit; lengths of requests and of sequences are drawn or chosen."""
    llm = load_llm(MODEL)
    for rate in (4, 20):
        found, note = steadily(rate, requests=100, slo=LIMIT, finetune=f"sequence={SEQUENCE},rank={RANK}")
        assert found.beside is not None and found.slo is not None
        part, held = found.beside["share_of_peak"], found.slo.all
        said = f"{MODEL} on {GPU}, {rate} requests/s, lengths drawn like sharegpt's, {LIMIT} held by {held:.0%}{note}"
        yield row("FlexLLM", "part of the rate of fine-tuning alone", part, "above 0.8; 0.76 at 20/s", "paper",
                  verdict=within(part, 0.7, 1) if held >= 0.9 else "deviates", tolerance="at least 0.7, limit held",
                  machine=said)  # fmt: skip
    of = kept(llm, SEQUENCE)
    yield row("FlexLLM", f"activations that a sequence of {SEQUENCE:,} keeps: so many times less", of.whole / of.pruned,
              "up to 8 (v1)", "derived", unit="×", machine=MODEL)  # fmt: skip
    yield row("FlexLLM", "memory with weights and adapters", 100 * (1 - total_ratio(llm, SEQUENCE, RANK)),
              "up to 36 (v1)", "derived", unit="% less", machine=MODEL)  # fmt: skip


def muxflow() -> Iterator[Row]:
    """Services at three loads and three jobs, all synthetic, on processors at their roofline."""
    service, job = (device_of(load_system(GPU), load_llm(name), Share(1, n, outside=False)) for name, n in RUNS.items())
    decode, prompt = (service.step(batch) for batch in (Batch.decode([512] * 8), Batch.prefill([512])))
    services = [wants(run, active) for run, active in ((decode, 0.1), (decode, 0.3), (prompt, 0.4))]
    jobs = [Wants(0.8, 0.3), Wants(0.4, 0.6), wants(job.step(Batch.decode([512] * 64)))]
    found = matched(services, jobs, BOUND)
    before, after = use(services), use(services, jobs, found)
    said = f"three {GPU}, loads and jobs synthetic"
    parts = {
        "busy": (before.busy, after.busy, "26 to 76, of a fleet"),
        "busy with compute": (before.compute, after.compute, "16 to 33, of a fleet"),
        "busy with memory": (before.memory, after.memory, "no figure"),
    }
    for what, (old, new, claim) in parts.items():
        yield row("MuxFlow", f"time in which machines are {what}, without and with jobs: from {100 * old:.0f} % to",
                  100 * new, claim, "paper", unit="%", machine=said)  # fmt: skip
    held = [_held(service, 512 * n) for n in (8, 8, 1)]
    more = [*JOBS_HOLD, _held(job, 512 * 64)]
    old, new = (sum(some) / len(held) for some in (held, [*held, *(more[one.job] for one in found)]))
    yield row("MuxFlow", f"memory that is held, without and with jobs: from {100 * old:.0f} % to", 100 * new,
              "42 to 48, of a fleet", "paper", unit="%", machine=said)  # fmt: skip
    yield row("MuxFlow", f"work of jobs, iterations at most {BOUND:g} times as long", sum(one.done for one in found),
              "no figure", "paper", unit="machines", machine=said)  # fmt: skip


def _held(device: Device, tokens: int) -> float:
    """Part of a device's memory that weights and caches of so many tokens take."""
    of = device.capacity()
    return float((of.weight_bytes + tokens * of.cache_bytes_per_token) / of.memory_bytes)
