"""DistServe beside vLLM, whose prompts hold up decode: goodput of a device by the fits of its artifact."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from pimloom.arch.units import S_PER_PS
from pimloom.reports.serving import distserve_data as data
from pimloom.reports.serving.distserve_data import OF_13B, OF_66B, Engine, Measured, Study
from pimloom.reports.serving.rows import SHOWN, Row, row, within
from pimloom.systems.serving.clock.cluster import round_robin, serve
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.pools.clock import Pooled
from pimloom.systems.serving.pools.distserve import DistServeDecodes, DistServePrompts
from pimloom.systems.serving.pools.routes import distserve
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.pools.written import parse_link
from pimloom.systems.serving.results.backlog import backlog
from pimloom.systems.serving.results.goodput import LEAST_REPEATED
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.workload.need import kv_bytes_per_token
from pimloom.workload.requests.arrivals import drawn_ps, parse_arrivals
from pimloom.workload.requests.read import read
from pimloom.workload.requests.table import Requests, repeated

SHARE, PRECISION = 0.9, 1.05  # of requests; of a rate, where a search ends
RATES = 0.1, 4.0  # requests/s of a device, between which it is looked for
WATERMARK = 100  # part of vLLM's blocks that stays free when a prompt comes in
Serving = Callable[[float, int], Sequence[LiveRequest]]  # so many requests at a rate, served


@cache
def _runs() -> Requests:
    return read(data.REQUESTS)


def requests_at(rate: float, number: int) -> list[LiveRequest]:
    """The first ones of its runs, over and over if they are too few, at times that are drawn."""
    found = _runs()
    found = repeated(found, -(-number // len(found.prompt)))
    at = drawn_ps(parse_arrivals(f"poisson:{rate:g}/s"), number, 0)
    each = zip(range(number), at, found.prompt[:number], found.output[:number], strict=True)
    return [LiveRequest(*one) for one in each]


def colocated_requests(
    of: Study, engine: Engine, devices: int, rate: float, number: int = LEAST_REPEATED
) -> list[LiveRequest]:
    """vLLM v0 on one copy: prompts first, never mixed with decode."""
    requests, blocks = requests_at(rate, number), Blocks(of.blocks(devices), data.BLOCK)
    rules = VllmV0(blocks, blocks.total // WATERMARK, data.VLLM_REQUESTS, data.VLLM_TOKENS)
    copy = Replica(rules, engine[devices].ps)
    serve(requests, [copy], round_robin([copy]))
    return requests


def apart(of: Study, rate: float, number: int = LEAST_REPEATED) -> list[LiveRequest]:
    """DistServe in the placement of its authors, within one machine: keys and values cross one NVLink."""
    requests, tokens, token_bytes = requests_at(rate, number), data.PROMPT_TOKENS, kv_bytes_per_token(of.llm)
    blocks = [Blocks(of.blocks(n), data.BLOCK) for n in (of.prompts, of.decode * of.stages)]
    prompts = [Replica(DistServePrompts(blocks[0], data.PROMPTS, tokens), of.theirs[of.prompts].ps)]
    decodes = [Replica(DistServeDecodes(blocks[1], data.DECODES), of.theirs[of.decode].ps, of.stages)]
    wire = Wire(parse_link("nvlink3"), token_bytes, of.llm.num_hidden_layers)
    clock = Pooled(prompts, decodes, wire, distserve(prompts, decodes), by_layer=False)
    first = [LiveRequest(r.number, r.arrival, r.prompt, 1) for r in requests]
    return clock.serve(first, [r.output for r in requests], lambda *done: None)


def times_s(served: Sequence[LiveRequest]) -> tuple[np.ndarray, np.ndarray]:
    """To the first token, and for each further one: nothing if there is none."""
    first = np.array([(r.first_token - r.arrival) * S_PER_PS for r in served])
    each = np.array([(r.completion - r.first_token) * S_PER_PS / max(r.output - 1, 1) for r in served])
    return first, each


def held(served: Sequence[LiveRequest], limits: tuple[float, float]) -> float:
    """The part that holds both limits."""
    first, each = times_s(served)
    return float(((first <= limits[0]) & (each <= limits[1])).mean())


def sustained(serving: Serving, rate: float, limits: tuple[float, float]) -> float:
    """The same of those that arrive between warm-up and end; 0 if the backlog is not steady, however many come."""
    for number in (LEAST_REPEATED, 2 * LEAST_REPEATED, 4 * LEAST_REPEATED):
        served = serving(rate, number)
        names = ("arrival", "first_scheduled", "completion")
        at, start, end = (np.array([getattr(r, name) for r in served]) * S_PER_PS for name in names)
        found = backlog(at, start, end)
        if found is None or found.grows:
            return 0.0
        if found.state == "steady":
            return held([r for r, when in zip(served, at, strict=True) if found.from_s <= when < found.to_s], limits)
    return 0.0


def goodput(serving: Serving, devices: int, limits: tuple[float, float]) -> float:
    """The largest rate of a device, to 5 %, at which nine of ten hold both limits; 0: not even the least."""
    low, high = RATES
    if sustained(serving, low * devices, limits) < SHARE:
        return 0.0
    while high > low * PRECISION:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if sustained(serving, middle * devices, limits) >= SHARE else (low, middle)
    return low


def gain(
    what: str, ours: float, base: float, published: str, tag: str, machine: str, *, checked: bool, below: bool = False
) -> Row:
    """Of goodput of a device over another's, which is `base`, or below it; 0: it is below the least that was tried."""
    least = base or RATES[0]
    how = {"verdict": within(ours / least, 1.5, np.inf), "tolerance": "at least 1.5"} if checked else {"verdict": SHOWN}
    said = f"{what}, {'below ' if below or not base else ''}{least:.3g}/s"
    found = row("DistServe", said, ours / least, published, tag, unit="×", machine=machine, **how)
    return found | {"ours": f"above {found['ours']}"} if below or not base else found


def _said(of: Study, limits: tuple[float, float]) -> str:
    first, each = (f"{1000 * limit:g}" for limit in limits)
    return f"{of.llm.name}, {of.prompts} + {of.decode * of.stages} A100s, {first} and {each} ms"


def small() -> Iterator[Row]:
    """OPT-13B: what the authors compare, and what of it is the engine's speed."""
    of, limits = OF_13B, (OF_13B.ttft_s, OF_13B.tpot_s)
    mine = goodput(lambda rate, n: apart(of, rate, n), of.devices, limits)
    yield row("DistServe", "goodput of a device", mine, "no figure", "secondary", unit="requests/s",
              machine=_said(of, limits))  # fmt: skip
    base = goodput(lambda rate, n: colocated_requests(of, of.vllms, 1, rate, n), 1, limits)
    run = data.RUNS["vLLM"]  # fewer than nine of ten held the limits
    yield gain("over vLLM on one device as it was measured", mine, run.rate, "up to 4.48", "paper", _said(of, limits),
               checked=True, below=True)  # fmt: skip
    yield gain("over vLLM on one device, each by its own fit", mine, base, "no figure", "derived", _said(of, limits),
               checked=False)  # fmt: skip
    base = goodput(lambda rate, n: colocated_requests(of, data.PROFILED, 1, rate, n), 1, limits)
    yield gain("the same, vLLM's prompts as first profiled, 1.5 times as fast", mine, base, "no figure", "derived",
               _said(of, limits), checked=False)  # fmt: skip
    mine = goodput(lambda rate, n: apart(of, rate, n), of.devices, data.SEARCHED)
    yield row("DistServe", "goodput of a device", mine, f"{data.README}", "secondary", unit="requests/s",
              machine=_said(of, data.SEARCHED))  # fmt: skip
    base = goodput(lambda rate, n: colocated_requests(of, of.vllms, 2, rate, n), 2, data.SEARCHED)
    yield gain("over vLLM on two devices, each by its own fit", mine, base, "1.02, simulated", "derived",
               _said(of, data.SEARCHED), checked=False)  # fmt: skip


def large() -> Iterator[Row]:
    """OPT-66B: the same."""
    of, limits = OF_66B, (OF_66B.ttft_s, OF_66B.tpot_s)
    mine = goodput(lambda rate, n: apart(of, rate, n), of.devices, limits)
    yield row("DistServe", "goodput of a device", mine, "no figure", "secondary", unit="requests/s",
              machine=_said(of, limits))  # fmt: skip
    for what, engine in (("each by its own fit", of.vllms), ("both by DistServe's fit", of.theirs)):
        base = goodput(lambda rate, n, engine=engine: colocated_requests(of, engine, of.vllm, rate, n), of.vllm, limits)  # type: ignore[misc]
        checked = engine is of.vllms
        yield gain(f"over vLLM on {of.vllm} devices, {what}", mine, base, "up to 4.48" if checked else "no figure",
                   "paper" if checked else "derived", _said(of, limits), checked=checked)  # fmt: skip


def beside() -> Iterator[Row]:
    """Single rates: what was measured, and what its own simulator has."""
    of, rate = OF_13B, 2.0
    served = {
        "DistServe": apart(of, rate * of.devices),
        "vLLM on two": colocated_requests(of, of.vllms, 2, 2 * rate),
        "vLLM on one": colocated_requests(of, of.vllms, 1, rate),
    }
    for name, some in served.items():
        yield row("DistServe", f"{name}: requests within 200 and 100 ms at {rate:g}/s a device",
                  100 * held(some, data.SEARCHED), f"{data.FIGURE_11[name]:g}, simulated", "secondary", unit="%",
                  machine="OPT-13B, fits of A100s, ShareGPT")  # fmt: skip
    run = data.RUNS["DistServe"]
    yield from _measured("DistServe on three devices", apart(of, run.rate, run.requests), run)
    run = data.RUNS["vLLM"]
    for name, engine in (("", of.vllms), (", prompts as first profiled", data.PROFILED)):
        requests = colocated_requests(of, engine, 1, run.rate, run.requests)
        yield from _measured(f"vLLM on one device{name}", requests, run)


def _measured(what: str, served: Sequence[LiveRequest], run: Measured) -> Iterator[Row]:
    said, (first, each) = f"OPT-13B, {run.requests} requests of ShareGPT at {run.rate:g}/s", times_s(served)
    pairs = [("mean time to the first token", first, run.ttft_ms), ("mean time of a further token", each, run.tpot_ms)]
    for name, times, ms in pairs:
        yield row("DistServe", f"{what}: {name}", 1000 * float(times.mean()), f"{ms:g}, measured", "secondary",
                  unit="ms", machine=said)  # fmt: skip
    if run.held is not None:
        yield row("DistServe", f"{what}: requests within 250 and 100 ms", 100 * held(served, (0.25, 0.1)),
                  f"{run.held:g}, measured", "secondary", unit="%", machine=said)  # fmt: skip
