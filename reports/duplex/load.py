"""The load study of the paper, of which it prints words: three systems under requests that arrive.

Which model it is of is not told; Mixtral on one node of four devices stands for it [design]. Prompts run whole, beside
decode, and all lengths are the mean [design]; the paper draws them around it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pimloom.arch.units import S_PER_MS
from pimloom.reports.page import Column, TableData
from pimloom.reports.reproduction import PREDICTED
from pimloom.systems.pool import run_all
from pimloom.systems.serving.online.asked import online_work
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.results.outcome import Online

MODEL, RATE, PROMPT, OUTPUT, MOST = "mixtral-8x7b", 14, 4096, 512, 128  # [paper] but for the model
REQUESTS = 100  # [design]
GPU, TWICE, DUPLEX = "GPU", "2xGPU", "Duplex+PE+ET"
SYSTEMS: Mapping[str, tuple[str, ...]] = {
    GPU: ("pim=none", "co_processing=false"),
    TWICE: ("pim=none", "co_processing=false", "devices=8"),
    DUPLEX: ("contention=false",),
}
LOAD = (
    f"{REQUESTS} requests of {PROMPT:,} tokens, {RATE} a second, of {MODEL}, prompts whole beside decode; processors "
    "do not meet. The paper does not say of which model its study is. It says that Duplex has the lowest median of the "
    "time between tokens, twice the GPUs the lowest tail at high load, and that GPUs are full above 9 requests a "
    "second and Duplex, as twice the GPUs, above 14; so few requests, one of these draws, fill none of them for long."
)


class Loaded(NamedTuple):
    """first_ms: median time to the first token; gap_ms: time between tokens, median and 99 %; tokens_per_s: of output,
    from the first arrival to the last token."""

    system: str
    first_ms: float
    gap_ms: float
    tail_ms: float
    tokens_per_s: float


def loaded() -> Iterator[Loaded]:
    """Of all systems, as they are done, on all cores."""
    for _, row in run_all(_serve, SYSTEMS):
        yield row


def _serve(name: str) -> Loaded:
    wanted = Wanted(
        "duplex", MODEL, arrivals=f"poisson:{RATE}/s", lengths=f"{PROMPT}:{OUTPUT}", requests=REQUESTS, batch=MOST,
        batch_tokens=MOST * (PROMPT + OUTPUT), settings=SYSTEMS[name], sample=0,
    )  # fmt: skip
    found = online_work(wanted).run(lambda done, total: None)
    assert isinstance(found, Online) and found.token_gap_s
    first, gap = found.time_to_first_token_s.p50, found.token_gap_s
    return Loaded(name, first / S_PER_MS, gap.p50 / S_PER_MS, gap.p99 / S_PER_MS, found.tokens_per_s)


def orders(rows: Mapping[str, Loaded]) -> list[dict[str, object]]:
    """What the paper says of its load study; report only."""
    pairs = (
        (f"median time between tokens, {DUPLEX} over {GPU}", rows[DUPLEX].gap_ms, rows[GPU].gap_ms),
        (f"median time between tokens, {DUPLEX} over {TWICE}", rows[DUPLEX].gap_ms, rows[TWICE].gap_ms),
        (f"time between tokens at 99 %, {TWICE} over {DUPLEX}", rows[TWICE].tail_ms, rows[DUPLEX].tail_ms),
    )
    return [
        {
            "check": f"load of {RATE} requests/s: {said}", "verdict": "report only", "ours": f"{one / other:.3f}",
            "published": "below 1", "unit": "×", "deviation": max(0.0, 100 * (one / other - 1)), "tolerance": "order",
            "tag": "paper", "basis": PREDICTED,
        }
        for said, one, other in pairs
    ]  # fmt: skip


def loads(load: Mapping[str, Loaded]) -> TableData:
    """All systems."""
    names = {
        "first_ms": ("first token, median", "ms"), "gap_ms": ("between tokens, median", "ms"),
        "tail_ms": ("between tokens, 99 %", "ms"), "tokens_per_s": ("output", "tokens/s"),
    }  # fmt: skip
    columns = [Column(key, name, unit, align="right", format=",.4g") for key, (name, unit) in names.items()]
    return TableData("Under load", [Column("system", "system"), *columns], [load[name]._asdict() for name in SYSTEMS])
