"""How many requests there may be, and over how long a time: clocks count picoseconds in 64 bits."""

from pimloom.arch.error import UserError
from pimloom.arch.units import PS_PER_S, S_PER_PS
from pimloom.systems.serving.schedulers.live import NEVER
from pimloom.workload.requests.table import Requests

LATEST_PS = NEVER // 2  # of an arrival, about 26 days; the other half is left for what comes to run late
MOST_REQUESTS = 10**6  # each is kept by itself
MOST_REPLICAS = 4096  # each has a scheduler and memory of its own


def check_count(requests: Requests) -> None:
    """Raise UserError for more than a run takes."""
    if (n := len(requests.prompt)) > MOST_REQUESTS:
        raise UserError(f"{requests.name}: {n:,} requests, expected at most {MOST_REQUESTS:,}; take --requests fewer")


def check_replicas(option: str, replicas: int) -> None:
    """Raise UserError for more than a run takes."""
    if not 1 <= replicas <= MOST_REPLICAS:
        raise UserError(
            f"{option}: expected 1 to {MOST_REPLICAS:,} copies; serve a part of the requests on a part of the copies"
        )


def check_span(requests: Requests, rate: str | None = None) -> None:
    """Raise UserError for an arrival that a clock could not count up to. rate: the option and the rate that stretched
    times so far."""
    if (last := requests.arrival_ps[-1]) <= LATEST_PS:
        return
    fit = next(i for i, at in enumerate(requests.arrival_ps) if at > LATEST_PS)
    instead = "take a higher rate, or fewer requests" if rate else f"take the first {fit:,} (--requests {fit})"
    raise UserError(
        f"{rate or requests.name}: the last of {len(requests.prompt):,} requests arrives "
        f"{last * S_PER_PS:,.0f} s behind the first, expected at most {LATEST_PS // PS_PER_S:,} s (26 days); {instead}"
    )


def check_end(end_ps: int) -> None:
    """Raise UserError if an iteration ends later than a clock counts."""
    if end_ps >= NEVER:
        raise UserError(
            f"requests need more than {NEVER // PS_PER_S:,} s (53 days), the longest that is simulated; take fewer, or "
            "more machines"
        )
