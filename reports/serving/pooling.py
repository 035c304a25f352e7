"""Pools for prompts and for decode beside replicas that do both: DistServe by its own fits, Splitwise on processors."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.units import S_PER_PS
from pimloom.reports.serving.rows import SHOWN, Row, row, within
from pimloom.reports.serving.sharing import goodput
from pimloom.systems.serving.clock.distserve import Worker, colocated, ring
from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.pools.clock import Pooled
from pimloom.systems.serving.pools.distserve import DistServeDecodes, DistServePrompts
from pimloom.systems.serving.pools.routes import distserve
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.pools.written import NAMED, Link
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest
from pimloom.workload.requests.arrivals import drawn_ps, parse_arrivals

PS_PER_MS = 10**9


class Fit(NamedTuple):
    """Of an A100 of 80 GB with OPT-13B [ms]: a prompt iteration by its tokens and their square, a decode one by its
    contexts and its requests, below 95 requests and above (None: as below)."""

    prompt: tuple[float, float, float]
    few: tuple[float, float, float]
    many: tuple[float, float, float] | None = None

    def ps(self, made: Iteration) -> int:
        """Time of an iteration."""
        if max(made.new) > 1 or not min(made.cached):
            a, b, c = self.prompt
            return round((a + b * sum(made.new) + c * sum(n * n for n in made.new)) * PS_PER_MS)
        a, b, c = self.many if self.many and len(made.new) >= 95 else self.few
        return round((a + b * (sum(made.cached) + len(made.new)) + c * len(made.new)) * PS_PER_MS)


FITS = {  # by devices that share a layer [secondary: LLMServe/DistServe@82831f1]
    1: Fit((18.10, 0.10191, 7.122e-6), (19.93, 6.269e-4, 0.03851), (7.166, 5.798e-4, 0.15831)),
    2: Fit((14.74, 0.06858, 2.450e-6), (13.29, 3.411e-4, 0.06296)),
}
TTFT, TPOT = 0.25, (0.1, 0.04)  # [s]; [recalled] of a chat with OPT-13B; the second [design]
REQUESTS, MOST, KV_BYTES = 120, 2048, 2 * 40 * 5120 * 2  # [design]; tokens of a prompt iteration; OPT-13B in FP16
PROMPT, OUTPUT, SPREAD = 755, 200, 1.0  # [recalled] mean lengths of ShareGPT in its paper; [design] lognormal
MEMORY = 80e9 * 0.9 - 26e9  # [derived] beside the weights [B], of nine tenths of the memory


class Placed(NamedTuple):
    """Replicas for prompts and decode, and the devices that share a layer of each."""

    prefill: int
    decode: int
    tp_prefill: int
    tp_decode: int

    @property
    def devices(self) -> int:
        """Of all."""
        return self.prefill * self.tp_prefill + self.decode * self.tp_decode


PLACED = [Placed(prefill, 1, 2, of) for prefill in (1, 2) for of in FITS]  # one device is too slow for its prompts


def distserving() -> Iterator[Row]:
    """Goodput of a device by its own fits, both on each device or apart, the best of some placements of each."""
    for tpot in TPOT:
        alone = max(_goodput(partial(_together, tp=tp), tpot) / tp for tp in FITS)
        apart = {of: _goodput(partial(_apart, of=of), tpot) / of.devices for of in PLACED}
        best = max(apart, key=lambda of: apart[of])
        gain, claimed = apart[best] / alone, tpot == TPOT[0]
        said = f"OPT-13B, fits of an A100, lognormal lengths; {best.prefill} x {best.tp_prefill} devices for prompts, "
        said += f"{best.decode} x {best.tp_decode} for decode"
        what, figure = f"goodput of a device, apart, at most {tpot * 1000:g} ms a token", "1.56, other lengths"
        yield row("DistServe", what, apart[best], figure if claimed else "no figure", "secondary", unit="requests/s",
                  machine=said)  # fmt: skip
        yield row("DistServe", f"the same over both on each, {alone:.3g}", gain, "4.48" if claimed else "no figure",
                  "paper", unit="×", verdict=within(gain, 1.5, 20) if claimed else SHOWN,
                  tolerance="at least 1.5" if claimed else "shown only", machine=said)  # fmt: skip


def _requests(rate: float) -> list[LiveRequest]:
    random, middle = np.random.default_rng(0), np.exp(-(SPREAD**2) / 2)
    prompt, output = (np.clip(random.lognormal(0, SPREAD, REQUESTS) * middle * n, 1, MOST) for n in (PROMPT, OUTPUT))
    at = drawn_ps(parse_arrivals(f"poisson:{rate:g}/s"), REQUESTS, 0)
    each = zip(range(REQUESTS), at, prompt.astype(int).tolist(), output.astype(int).tolist(), strict=True)
    return [LiveRequest(*one) for one in each]


def _goodput(serve: Callable[[list[LiveRequest]], Sequence[LiveRequest]], tpot: float) -> float:
    """The largest rate, to 4 %, at which nine of ten hold both limits; 0: none does."""

    def holds(rate: float) -> bool:
        good = [
            (r.first_token - r.arrival) * S_PER_PS <= TTFT
            and (r.completion - r.first_token) * S_PER_PS <= tpot * max(r.output - 1, 1)
            for r in serve(_requests(rate))
        ]
        return bool(np.mean(good) >= 0.9)

    low, high = 0.5, 40.0
    if not holds(low):
        return 0.0
    while high - low > 0.04 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _together(requests: list[LiveRequest], tp: int) -> list[LiveRequest]:
    """Prompts first, never mixed with decode, as DistServe's simulator has vLLM; its token more is left out."""
    theirs = [LiveRequest(r.number, r.arrival, r.prompt, max(r.output - 1, 1)) for r in requests]
    events = Events()
    started: Callable[[Worker, str, Iteration], object] = lambda *what: None  # noqa: E731
    colocated(theirs, events, [ring(events, FITS[tp].ps, 1, MOST, started)])
    for mine, one in zip(requests, theirs, strict=True):
        mine.first_token, mine.completion = one.first_token, one.completion
    return requests


def _apart(requests: list[LiveRequest], of: Placed) -> list[LiveRequest]:
    """DistServe over one NVLink, with memory."""
    prefill, decode, tp_p, tp_d = of
    tokens = [int((MEMORY if tp == 1 else MEMORY + 80e9 * 0.9) / KV_BYTES) // 16 for tp in (tp_p, tp_d)]
    prompts = [Replica(DistServePrompts(Blocks(tokens[0], 16), 10**6, MOST), FITS[tp_p].ps) for _ in range(prefill)]
    decodes = [Replica(DistServeDecodes(Blocks(tokens[1], 16), 10**6), FITS[tp_d].ps) for _ in range(decode)]
    link: Link = NAMED["nvlink"]
    clock = Pooled(prompts, decodes, Wire(link, KV_BYTES, 40), distserve(prompts, decodes), by_layer=False)
    first = [LiveRequest(r.number, r.arrival, r.prompt, 1) for r in requests]
    return clock.serve(first, [r.output for r in requests], lambda *done: None)


def splitwise() -> Iterator[Row]:
    """Two processors apart beside two that do both; lengths drawn."""
    asked: dict[str, Any] = {"arrivals": "poisson:10/s", "lengths": "1024:64", "requests": 80, "rate": "1:60"}
    asked |= {"slo": "ttft=400ms,tpot=20ms", "share": 0.9}
    both = goodput(replicas=2, **asked).goodput_per_s
    pools: dict[str, Any] = {"system": "prefill=gpu_a100,decode=gpu_a100", "link": "nvlink", "scheduler": "splitwise"}
    for mixed in (False, True):
        apart = goodput(**pools, mixed=mixed, **asked).goodput_per_s
        what = "requests within limits over both on each" + (", machines of either pool help out" if mixed else "")
        yield row("Splitwise (not of this table's papers)", what, apart / both, "1.4 at 20 % lower cost", "secondary",
                  unit="×", machine="llama-3-8b on 2 gpu_a100, 1024:64")  # fmt: skip
