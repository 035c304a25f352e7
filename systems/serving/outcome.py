"""What batched decoding gave: arrays by iteration and by request, throughput and latencies."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

REQUEST = np.dtype(
    [
        ("request", "i8"),  # number in the order of arrival
        ("row", "i8"),  # of the workload
        ("prompt", "i8"),  # tokens
        ("output", "i8"),
        ("generated", "i8"),
        ("cached", "i8"),  # tokens whose keys and values are there, where prompts are simulated
        ("channel", "i8"),  # the last one that held its cache
        ("arrival_s", "f8"),
        ("start_s", "f8"),  # when it joined the batch
        ("first_token_s", "f8"),
        ("last_s", "f8"),  # when its newest token came; before the first, when it joined
    ]
)


def joined(requests: Sequence[np.ndarray]) -> np.ndarray:
    """As `np.concatenate`, which looks for a common type first, field by field."""
    found, at = np.empty(sum(map(len, requests)), REQUEST), 0
    for some in requests:
        found[at : at + len(some)] = some
        at += len(some)
    return found


class Spread(msgspec.Struct, frozen=True):
    """Mean, median and 99th percentile, in the unit of the values."""

    mean: float
    p50: float
    p99: float


def spread(values: np.ndarray) -> Spread | None:
    """Of the values that are numbers; None if there are none."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    p50, p99 = np.quantile(known, [0.5, 0.99]).tolist()
    return Spread(float(known.mean()), p50, p99)


class Batched(NamedTuple):
    """Iterations and requests, in order. Times are seconds on one clock.

    By iteration: batch, tokens (sum of contexts), seconds, came (output tokens behind it), simulated (or read between
    others). weights: of each simulated iteration, how often it counts; interpolation_error: of the sum of seconds, as a
    share of it (see `Pace`). requests: `REQUEST` of all that came, NaN where a time lay in the warm-up or has not come.
    gap_s, by token: since the token before of that request, or since it joined; where prompts are computed, of tokens
    behind the first. What a preempted request waits is in it. preemptions: how often a request had to yield its rows.
    time_s: of all iterations and of idle time between arrivals.
    """

    batch: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray
    came: np.ndarray
    simulated: np.ndarray
    weights: list[float]
    interpolation_error: float | None
    requests: np.ndarray
    gap_s: np.ndarray
    preemptions: int
    time_s: float

    @property
    def end_s(self) -> np.ndarray:
        """float64 by request: when its last token came, NaN if it has not."""
        return np.where(self.requests["generated"] == self.requests["output"], self.requests["last_s"], np.nan)

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of all requests by time."""
        return float(self.came.sum()) / self.time_s

    @property
    def token_time_s(self) -> Spread | None:
        """Time per output token."""
        return spread(self.gap_s)

    @property
    def latency_s(self) -> Spread | None:
        """From arrival to the last token, of requests that came after the warm-up and have ended."""
        return spread(self.end_s - self.requests["arrival_s"])

    @property
    def time_to_first_token_s(self) -> Spread | None:
        """From arrival to the first token, of requests that came after the warm-up and have one."""
        return spread(self.requests["first_token_s"] - self.requests["arrival_s"])

    @property
    def wait_s(self) -> Spread | None:
        """From arrival until a request joined the batch."""
        return spread(self.requests["start_s"] - self.requests["arrival_s"])
