"""What serving requests gave: times and energies of requests and iterations."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pimloom.energy.cells import EnergyCell
from pimloom.systems.serving.pricing.sampling import Pricing
from pimloom.systems.serving.results.backlog import Backlog
from pimloom.systems.viewed import Viewed
from pimloom.workload.requests.statistics import Statistics

if TYPE_CHECKING:
    import pandas

NEEDED = 10  # requests above a percentile for it to be sure


class Spread(msgspec.Struct, frozen=True):
    """Of `count` values: mean and percentiles, linear between values. sure: the highest percentile above which
    lie ten values, at least 50."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float
    sure: float


def spread(values: np.ndarray) -> Spread | None:
    """Of the values that are numbers; None if there are none."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    p50, p90, p99 = np.quantile(known, [0.5, 0.9, 0.99]).tolist()
    sure = max(100.0 * (1 - NEEDED / len(known)), 50.0)
    return Spread(len(known), float(known.mean()), p50, p90, p99, float(known.max()), sure)


class Attained(msgspec.Struct, frozen=True):
    """Limits [s], and the share of all requests that hold each, and all of them. A request of one token has no time per
    output token, and holds its limit."""

    ttft_s: float | None
    tpot_s: float | None
    latency_s: float | None
    ttft: float | None
    tpot: float | None
    latency: float | None
    all: float


class Steady(msgspec.Struct, frozen=True):
    """From the arrival of the first tenth of all requests to that of nine tenths [s], linear between arrivals: output
    tokens by that time."""

    from_s: float
    to_s: float
    tokens_per_s: float


class Channels(msgspec.Struct, frozen=True):
    """policy: by which requests are placed; number: of channels of a replica; blocks: of each; most: blocks that each
    has held at most, of the first replica's channels, then of the next one's."""

    policy: str
    number: int
    blocks: int
    most: list[int]


class Online(Viewed, msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Fields as in CONVENTIONS.md; `requests` and `iterations` are tables of pandas."""

    system: str
    model: str
    scheduler: str
    tp: int
    pp: int
    replicas: int
    layers: int
    model_layers: int
    lm_head: bool
    batch: int
    batch_tokens: int
    block_size: int
    blocks: int
    workload: dict[str, Any]
    statistics: Statistics
    pricing: Pricing
    iteration_count: int
    batch_mean: float
    time_s: float
    busy_share: float
    utilisation: dict[str, float] | None
    tokens_per_s: float
    prompt_tokens_per_s: float
    steady: Steady | None
    time_to_first_token_s: Spread
    time_per_output_token_s: Spread | None
    token_gap_s: Spread | None
    latency_s: Spread
    latency_per_token_s: Spread
    wait_s: Spread
    backlog: Backlog | None
    slo: Attained | None
    preemptions: int
    swaps: int
    recomputed_tokens: int
    recomputing_s: float
    prefix_hit_share: float | None
    transforms: dict[str, Any]
    beside: dict[str, float] | None = None
    accepted_share: float | None
    tokens_per_step: float | None
    blocks_used_mean: float
    blocks_used_most: int
    channels: Channels | None = None
    energy_j: float | None
    energy_per_token_j: float | None
    energy_by_cause_j: dict[str, float] | None
    energy_by_cell: dict[str, EnergyCell] | None = None
    rest_w: float | None
    rest_j: float | None
    usd_per_h: float | None
    tokens_per_usd: float | None
    by_request: dict[str, list[Any]]
    by_iteration: dict[str, list[Any]]
    spec_digest: str
    version: str
    seed: int

    @cached_property
    def requests(self) -> "pandas.DataFrame":
        """A row for each request, in the order of arrival."""
        return self._table(self.by_request, "request")

    @cached_property
    def iterations(self) -> "pandas.DataFrame":
        """A row for each iteration, in the order in which they form on each replica."""
        return self._table(self.by_iteration, "iteration")

    def to_rows(self) -> list[dict[str, Any]]:
        """One, without the columns of requests and iterations."""
        return [{name: value for name, value in self.to_dict().items() if not name.startswith("by_")}]

    @staticmethod
    def _table(columns: dict[str, list[Any]], index: str) -> "pandas.DataFrame":
        import pandas

        return pandas.DataFrame(columns).rename_axis(index)
