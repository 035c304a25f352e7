"""The highest rate at which a share of all requests holds the limits, by bisection."""

import re
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.name_units import counted
from pimloom.arch.units import S_PER_H, S_PER_PS
from pimloom.systems.serving.options.spans import check_span
from pimloom.systems.serving.pricing.sampling import Pricing
from pimloom.systems.serving.results.outcome import Online
from pimloom.systems.viewed import Viewed
from pimloom.workload.requests.arrivals import LEAST_RATE, MOST_RATE
from pimloom.workload.requests.table import Requests

SHARE = 0.9  # of requests that hold the limits [DistServe]
PRECISION = 0.02  # of the rate: the search ends with such a bracket
ONE = r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)"
WRITTEN = re.compile(f"{ONE}:{ONE}", re.ASCII)


class Rate(msgspec.Struct, frozen=True):
    """A rate that was tried [1/s]: shares of requests that hold each limit and all, percentiles [s], energy."""

    rate_per_s: float
    attained: float
    ttft: float | None
    tpot: float | None
    latency: float | None
    time_to_first_token_p90_s: float
    time_per_output_token_p90_s: float | None
    tokens_per_s: float
    energy_per_token_j: float | None


class Goodput(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """The largest rate that was tried at which the share holds, and at all lower ones that were tried; `fails_per_s`:
    the least above it at which it does not, None if it holds at the highest of all; pricing: of a run
    at that rate. per_device: by devices of all
    replicas; per_j: requests by energy at that rate; per_usd: by the price of all devices."""

    rows_in: ClassVar[str | None] = "rates"
    system: str
    model: str
    scheduler: str
    share: float
    devices: int
    goodput_per_s: float
    fails_per_s: float | None
    goodput_per_s_per_device: float
    requests_per_j: float | None
    requests_per_usd: float | None
    rates: list[Rate]
    pricing: Pricing | None = None
    spec_digest: str
    version: str


def parse_rates(text: str) -> tuple[float, float]:
    """LOW:HIGH [1/s]. Raises UserError.

    >>> parse_rates("0.5:16")
    (0.5, 16.0)
    """
    match = WRITTEN.fullmatch(text)
    if not match or not LEAST_RATE <= float(match[1]) < float(match[2]) <= MOST_RATE:
        raise UserError(
            f"--rate {text}: expected LOW:HIGH in requests per s, the lower first, from {LEAST_RATE:g} to "
            f"{MOST_RATE:g}, such as 0.5:16"
        )
    return float(match[1]), float(match[2])


def at_rate(requests: Requests, rate: float, option: str = "goodput") -> Requests:
    """The same requests, their times stretched: gaps vary as they did. option: that asks for it. Raises UserError."""
    if requests.clients:
        raise UserError(
            f"--{option}: {counted(requests.clients, 'client')} of --arrivals closed:{requests.clients} send when "
            "requests have ended, at no rate; give --arrivals poisson:1/s or a trace with times"
        )
    span_s = requests.arrival_ps[-1] * S_PER_PS
    if not span_s:
        raise UserError(f"--{option}: all requests arrive at once; give --arrivals poisson:1/s or a trace with times")
    stretch = (len(requests.prompt) - 1) / span_s / rate
    found = requests._replace(arrival_ps=[round(at * stretch) for at in requests.arrival_ps])
    check_span(found, f"--rate {rate:g}")
    return found


def find(
    requests: Requests, rates: tuple[float, float], share: float, serve: Callable[[Requests], Online], devices: int
) -> Goodput:
    """Raises UserError if the limits do not hold at the lowest rate."""
    tried = dict[float, Rate]()
    last: dict[float, Online] = {}

    def holds(rate: float) -> bool:
        found = last[rate] = serve(at_rate(requests, rate))
        tried[rate] = told(rate, found)
        return tried[rate].attained >= share

    low, high = rates
    if not holds(low):
        one = tried[low]
        raise UserError(
            f"--slo: never met: at the lowest rate, {low:g}/s, {one.attained:.1%} of requests hold it, and {share:.0%} "
            "are asked for; give --rate a lower one, or another --slo"
        )
    fails = None if holds(high) else high
    while fails is not None and fails - low > PRECISION * low:
        middle = (low + fails) / 2
        if holds(middle):
            low = middle
        else:
            fails = middle
    best = high if fails is None else low
    online = last[best]
    joules = online.energy_j
    return Goodput(
        system=online.system,
        model=online.model,
        scheduler=online.scheduler,
        share=share,
        devices=devices,
        goodput_per_s=best,
        fails_per_s=fails,
        goodput_per_s_per_device=best / devices,
        requests_per_j=len(requests.prompt) / joules if joules else None,
        requests_per_usd=best * S_PER_H / online.usd_per_h if online.usd_per_h else None,
        rates=[tried[rate] for rate in sorted(tried)],
        spec_digest=online.spec_digest,
        version=online.version,
    )


def told(rate: float, found: Online) -> Rate:
    """What a rate gave."""
    slo, each = found.slo, found.time_per_output_token_s
    assert slo is not None
    return Rate(
        rate, slo.all, slo.ttft, slo.tpot, slo.latency, found.time_to_first_token_s.p90, each.p90 if each else None,
        found.tokens_per_s, found.energy_per_token_j,
    )  # fmt: skip


def shown(found: Goodput) -> list[dict[str, Any]]:
    """Rows of the table."""
    return [msgspec.structs.asdict(rate) for rate in found.rates]
