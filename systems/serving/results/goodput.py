"""The highest rate at which a share of all requests holds the limits, by bisection over runs in steady state."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil, gcd, log2
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.name_units import counted
from pimloom.arch.units import S_PER_H, S_PER_PS
from pimloom.energy.cells import EnergyCell
from pimloom.systems.asked import Progress
from pimloom.systems.serving.options.spans import LATEST_PS, check_span
from pimloom.systems.serving.pricing.sampling import Pricing
from pimloom.systems.serving.results.backlog import (
    END,
    ENOUGH,
    LEVEL,
    PARTS,
    WARM_UP,
    Backlog,
    completed_per_s,
    trend_text,
)
from pimloom.systems.serving.results.outcome import Attained, Online, spread
from pimloom.systems.serving.results.summing import LIMITED, surely
from pimloom.systems.viewed import Viewed
from pimloom.workload.requests.arrivals import LEAST_RATE, MOST_RATE
from pimloom.workload.requests.table import Requests

SHARE = 0.9  # of requests that hold the limits [DistServe]
PRECISION = 0.02  # of the rate: the search ends with such a bracket
LEAST_REPEATED, MOST_REPEATED = 1000, 100_000  # requests of a run; more only if the trace itself has more
TIMES = ("time_to_first_token_s", "time_per_output_token_s", "latency_s", "wait_s")  # of requests
CLEAR, LONGER = 0.05, 8  # growth that needs no longer run; how many times as long it is where that is not clear
ONE = r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)"
WRITTEN = re.compile(f"{ONE}:{ONE}", re.ASCII)


class Rate(msgspec.Struct, frozen=True):
    """A rate that was tried [1/s]. requests: how many arrived; state, growth, growth_p_value: as in `Backlog`;
    attained: share of the requests between warm-up and end that meet all limits; ttft, tpot, latency: share that meets
    each; percentiles [s]: of the same requests; tokens_per_s: in steady state; energy_per_token_j: of all requests [J].
    """

    rate_per_s: float
    requests: int
    state: str
    growth: float
    growth_p_value: float
    attained: float
    ttft: float | None
    tpot: float | None
    latency: float | None
    time_to_first_token_p90_s: float
    time_per_output_token_p90_s: float | None
    tokens_per_s: float
    energy_per_token_j: float | None


class Goodput(Viewed, msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search for the highest rate. goodput_per_s: the largest rate tried at which `share` of the
    requests meet the limits and the backlog is steady, at this and all lower rates tried; fails_per_s: the lowest rate
    above it that does not hold, None if the highest holds; saturation_per_s: requests completed per second while others
    always wait, None if not known. per_device: per device of all replicas; per_j: requests per J at that rate; per_usd:
    requests per dollar of all devices; lm_head: whether embedding, LM head and sampling are in it; energy_by_cell,
    rest_w: as of `Online`, of the run at that rate; pricing: of a run at that rate."""

    rows_in: ClassVar[str | None] = "rates"
    system: str
    model: str
    scheduler: str
    share: float
    devices: int
    goodput_per_s: float
    fails_per_s: float | None
    saturation_per_s: float | None
    goodput_per_s_per_device: float
    requests_per_j: float | None
    requests_per_usd: float | None
    lm_head: bool
    energy_by_cell: dict[str, EnergyCell] | None
    rest_w: float | None
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


class RateTrials(NamedTuple):
    """Requests that can be repeated. number: of requests in one repetition; longer: returns so many repetitions in a
    row; serve: serves requests to their end."""

    number: int
    longer: Callable[[int], Requests]
    serve: Callable[[Requests, Progress], Online]

    def times(self, requests: float, rate: float | None = None) -> int:
        """Number of repetitions with at least `requests` requests, and a whole number of them between warm-up and end;
        at most as many as a run may have."""
        most = MOST_REPEATED / self.number
        if rate is not None:
            most = min(most, rate * LATEST_PS * S_PER_PS / self.number)
        whole = PARTS // gcd(PARTS, WARM_UP, END)
        wanted = whole * ceil(requests / self.number / whole)
        return max(min(wanted, int(most)), 1)


class Trial(NamedTuple):
    """A run at a rate, long enough to test the backlog. judged: the requests between warm-up and end."""

    rate: float
    online: Online
    judged: slice

    @property
    def backlog(self) -> Backlog:
        """Requests in the system over the run, and whether their number grows; every judged run has one."""
        assert self.online.backlog is not None
        return self.online.backlog

    def values(self, name: str) -> np.ndarray:
        """A column of the judged requests."""
        return np.array(self.online.by_request[name][self.judged], float)

    def told(self) -> Online:
        """The result of the run, with shares and times of the judged requests only."""
        online = self.online
        times = {name: spread(self.values(name)) for name in TIMES}
        latency = self.values("latency_s") / self.values("output_tokens")
        told = replace(online, **times, latency_per_token_s=surely(latency))
        return told if online.slo is None else replace(told, slo=self._slo(online.slo))

    def _slo(self, slo: Attained) -> Attained:
        shares = dict[str, float | None]()
        for name, column in LIMITED.items():
            values, limit = self.values(column), getattr(slo, f"{name}_s")
            shares[name] = None if limit is None else float((np.isnan(values) | (values <= limit)).mean())
        return replace(slo, **shares, all=float(self.values("slo").mean()))

    def holds(self, share: float) -> bool:
        """Whether this share of the judged requests meets all limits, and the backlog is steady."""
        return self.backlog.state == "steady" and self.attained >= share

    @property
    def attained(self) -> float:
        """The share of judged requests that meet all limits."""
        return float(self.values("slo").mean())


def at_a_rate(requests: Requests, option: str) -> Requests:
    """The same requests, if their arrival times can be scaled to a rate. option: names the error. Raises UserError."""
    if requests.clients:
        raise UserError(
            f"--{option}: {counted(requests.clients, 'client')} of --arrivals closed:{requests.clients} send when "
            "requests have ended, at no rate; give --arrivals poisson:1/s or a trace with times"
        )
    if not requests.arrival_ps[-1]:
        raise UserError(f"--{option}: all requests arrive at once; give --arrivals poisson:1/s or a trace with times")
    return requests


def at_rate(requests: Requests, rate: float) -> Requests:
    """The same requests with arrival times scaled to a rate [1/s]; relative gaps stay the same. Raises UserError."""
    stretch = (len(requests.prompt) - 1) / (requests.arrival_ps[-1] * S_PER_PS) / rate
    found = requests._replace(arrival_ps=[round(at * stretch) for at in requests.arrival_ps])
    check_span(found, f"--rate {rate:g}")
    return found


def served_steadily(stream: RateTrials, rate: float, progress: Progress = lambda done, total: None) -> Trial:
    """A run at a rate [1/s], repeated with more requests until the trend of the backlog is clear, or a run may have no
    more. Requests that arrive between warm-up and end are judged. Raises UserError."""
    times, longest, running = stream.times(LEAST_REPEATED, rate), 0, list[int]()
    while True:
        online = stream.serve(at_rate(stream.longer(times), rate), progress)
        found = online.backlog
        assert found is not None
        running.append(found.most_running)
        if found.state == "short" and _fills(running) and found.growth > CLEAR and found.p_value <= LEVEL:
            found = replace(found, state="growing")
        if found.state != "short":
            longest = longest or LONGER * times
        more = stream.times(max(2 * times * stream.number, 1.2 * ENOUGH * found.most_running), rate)
        clear = found.state == "steady" or (found.grows and found.growth > CLEAR)
        if clear or more <= times or (longest and more > longest):
            arrivals = online.by_request["arrival_s"]
            judged = slice(bisect_left(arrivals, found.from_s), bisect_left(arrivals, found.to_s))
            return Trial(rate, replace(online, backlog=found), judged)
        times = more


def _fills(running: Sequence[int]) -> bool:
    """Whether `most_running` grew more than 1.5-fold in each of the last two, longer runs."""
    return len(running) > 2 and all(many > 1.5 * few for few, many in pairwise(running[-3:]))


def saturation(stream: RateTrials, progress: Progress = lambda done, total: None) -> float | None:
    """Requests completed per second while others always wait. All arrive at once, and their number grows until the rate
    changes by less than 2 %; None if a run cannot have so many. Raises UserError."""
    times, before = stream.times(LEAST_REPEATED), 0.0
    while True:
        requests = stream.longer(times)
        online = stream.serve(requests._replace(arrival_ps=[0] * len(requests.prompt)), progress)
        found = completed_per_s(np.array(online.by_request["completion_s"]))
        if abs(found - before) <= PRECISION * found:
            return found
        more = stream.times(2 * times * stream.number)
        if more <= times:
            return None
        times, before = more, found


def find(stream: RateTrials, rates: tuple[float, float], share: float, devices: int, progress: Progress) -> Goodput:
    """The highest rate between `rates` that holds, by bisection. Rates above saturation are not tried. Raises UserError
    if the lowest rate does not hold."""
    low, high = rates
    tried, told = dict[float, Trial](), _Searched(progress, 3 + ceil(log2(max((high - low) / (PRECISION * low), 2))))

    def holds(rate: float) -> bool:
        tried[rate] = served_steadily(stream, rate, told.next())
        return tried[rate].holds(share)

    most = saturation(stream, told.next())
    if most is not None and low >= most:
        raise UserError(
            f"--rate: the lowest, {low:g}/s, does not hold: at most {most:.4g} requests/s are completed; give a "
            "lower one, or more replicas"
        )
    if not holds(low):
        raise UserError(_never(tried[low], share))
    fails = None if (most is None or high < most) and holds(high) else high
    if fails is not None and most is not None:
        fails = min(fails, most)
    while fails is not None and fails - low > PRECISION * low:
        middle = (low + fails) / 2
        if holds(middle):
            low = middle
        else:
            fails = middle
    best = high if fails is None else low
    told.end()
    online = tried[best].online
    joules, count = online.energy_j, len(online.by_request["arrival_s"])
    return Goodput(
        system=online.system,
        model=online.model,
        scheduler=online.scheduler,
        share=share,
        devices=devices,
        goodput_per_s=best,
        fails_per_s=fails,
        saturation_per_s=most,
        goodput_per_s_per_device=best / devices,
        requests_per_j=count / joules if joules else None,
        requests_per_usd=best * S_PER_H / online.usd_per_h if online.usd_per_h else None,
        lm_head=online.lm_head,
        energy_by_cell=online.energy_by_cell,
        rest_w=online.rest_w,
        rates=[rate_of(tried[rate]) for rate in sorted(tried)],
        spec_digest=online.spec_digest,
        version=online.version,
    )


def _never(trial: Trial, share: float) -> str:
    """Why the lowest rate does not hold, and what may."""
    found, rate = trial.backlog, f"{trial.rate:g}/s"
    if found.state == "steady":
        return (
            f"--slo: never met: at the lowest rate, {rate}, {trial.attained:.1%} of requests hold it, and {share:.0%} "
            "are required; lower --rate, or change --slo"
        )
    count = len(trial.online.by_request["arrival_s"])
    return (
        f"--rate: at the lowest, {rate}, {count:,} requests have no steady state: {trend_text(found)}; give a lower "
        "one, or more replicas"
    )


class _Searched:
    """Progress of a search: runs that are done, of about so many."""

    def __init__(self, progress: Progress, runs: int) -> None:
        self.progress, self.runs, self.begun = progress, runs, 0

    def next(self) -> Progress:
        """Of the next run, in thousandths of it."""
        self.begun += 1
        before, runs = self.begun - 1, max(self.runs, self.begun)
        return lambda done, total: self.progress(1000 * before + 1000 * done // max(total, 1), 1000 * runs)

    def end(self) -> None:
        """Report that all runs have ended, even if fewer than planned."""
        self.progress(self.begun, self.begun)


def rate_of(trial: Trial) -> Rate:
    """The row of a result for one tried rate: its backlog, the shares within each limit, and its times [s]."""
    online, found = trial.told(), trial.backlog
    slo, each = online.slo, online.time_per_output_token_s
    assert slo is not None
    return Rate(
        rate_per_s=trial.rate,
        requests=len(online.by_request["arrival_s"]),
        state=found.state,
        growth=found.growth,
        growth_p_value=found.p_value,
        attained=slo.all,
        ttft=slo.ttft,
        tpot=slo.tpot,
        latency=slo.latency,
        time_to_first_token_p90_s=online.time_to_first_token_s.p90,
        time_per_output_token_p90_s=each.p90 if each else None,
        tokens_per_s=online.steady.tokens_per_s if online.steady else online.tokens_per_s,
        energy_per_token_j=online.energy_per_token_j,
    )


def shown(found: Goodput) -> list[dict[str, Any]]:
    """Rows of the printed table, one for each tried rate."""
    return [msgspec.structs.asdict(rate) for rate in found.rates]
