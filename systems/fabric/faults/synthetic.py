"""Synthetic fault traces with the figures of a real one: the default where no trace is given.

Bursts of fresh outages come at random within each window of 29 days, at that window's rate; a burst strikes different
servers within minutes. Each repair is followed by a relapse with a fixed probability, at a gap drawn from the real
ones; so a few servers fail often. Repair times are drawn from the real quantiles, at ranks that suit the window; all of
a burst have often the same rank. What failed is drawn to suit the repair time.

Not kept: the time of day, ends of many outages at one moment, relapses that come in bursts; so there are fewer
outages within an hour of one another than in the real trace.
"""

import uuid

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.units import H_PER_DAY
from pimloom.systems.fabric.faults.events import DIGITS
from pimloom.systems.fabric.faults.fit import RANK_CLASSES, Fitted, load_fitted
from pimloom.systems.fabric.faults.trace import SERVERS, Kind, Trace

MOST_SERVERS = 16_384  # 131,072 GPUs
DESCRIPTION = "synthetic"


def synthesise(servers: int = SERVERS, seed: int = 0, fitted: Fitted | None = None) -> Trace:
    """A trace of `servers` servers over all windows of `fitted` (348 days); faults open in the end are cut off there.

    The number of bursts grows with the servers; their size does not. Raises UserError.
    """
    if not 1 <= servers <= MOST_SERVERS:
        raise UserError(f"--servers {servers}: expected 1 to {MOST_SERVERS} of a synthetic trace")
    like = load_fitted() if fitted is None else fitted
    rng = np.random.default_rng(seed)
    horizon_h = like.window_h * len(like.fresh_by_window)
    server, start_h, alike = _fresh(like, servers, rng)
    parts = []
    while len(server):
        kept = start_h < horizon_h
        server, start_h, alike = server[kept], start_h[kept], alike[kept]
        rank = _ranks(like, start_h, alike, rng)
        end_h = start_h + repair_times_h(like, rank)
        parts.append((server, start_h, end_h, rank))
        again = rng.random(len(server)) < np.array(like.relapse_share_by_window)[_window(like, end_h)]
        gap_h = np.interp(rng.random(int(again.sum())), like.relapse_shares, like.relapse_h)
        server, start_h = server[again], end_h[again] + gap_h
        alike = np.full(len(server), np.nan)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0)] * 4
    return _trace(like, columns, servers, horizon_h, seed, rng)


def node_names(trace: Trace, seed: int = 0) -> list[str]:
    """A random UUID for each server, as the public trace names them."""
    rng = np.random.default_rng([seed, 1])
    return [str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(trace.servers)]


def repair_times_h(like: Fitted, rank: np.ndarray) -> np.ndarray:
    """Repair times [h] at their ranks, 0 to 1."""
    return np.interp(rank, like.repair_shares, like.repair_h)


def _fresh(like: Fitted, servers: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Server, start [h] and the burst's rank, NaN if it is the outage's own to draw, of all fresh outages."""
    bursts = np.array(like.burst_counts)
    sizes = np.array(like.burst_sizes)
    mean = sizes @ bursts / bursts.sum()
    per_window = rng.poisson(np.array(like.fresh_by_window) / mean * servers / like.servers)
    window = np.repeat(np.arange(len(per_window)), per_window)
    first_h = (window + rng.random(len(window))) * like.window_h
    size = np.minimum(rng.choice(sizes, len(window), p=bursts / bursts.sum()), servers)
    shared = _ranks(like, first_h, np.full(len(window), np.nan), rng)
    burst = np.repeat(np.arange(len(size)), size)
    begins = np.diff(burst, prepend=-1) != 0
    step_h = np.interp(rng.random(len(burst)), like.step_shares, like.step_h)
    gone_h = np.cumsum(np.where(begins, 0, step_h))
    start_h = first_h[burst] + gone_h - gone_h[begins][burst]
    alike = np.where((size[burst] > 1) & (rng.random(len(burst)) < like.burst_alike_share), shared[burst], np.nan)
    server = rng.integers(0, servers, len(burst))
    for nth in np.flatnonzero(size > 1):
        server[burst == nth] = rng.choice(servers, size[nth], replace=False)
    return server, start_h, alike


def _ranks(like: Fitted, start_h: np.ndarray, alike: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ranks of repair times: `alike` where it is a number, else beta with the window's mean and deviation."""
    window = _window(like, start_h)
    mean, deviation = np.array(like.rank_mean_by_window), np.array(like.rank_deviation_by_window)
    weight = mean * (1 - mean) / deviation**2 - 1
    return np.where(np.isnan(alike), rng.beta((mean * weight)[window], ((1 - mean) * weight)[window]), alike)


def _window(like: Fitted, at_h: np.ndarray) -> np.ndarray:
    """The window of each time; the last one goes on."""
    return np.minimum((at_h // like.window_h).astype(int), len(like.fresh_by_window) - 1)


def _trace(
    like: Fitted, columns: list[np.ndarray], servers: int, horizon_h: float, seed: int, rng: np.random.Generator
) -> Trace:
    """The trace, as it would be read from its file: times rounded, servers and kinds numbered as they appear."""
    server, start_h, end_h, rank = columns
    server = server.astype(np.int64)
    counts = np.array(like.kind_counts, float).T
    quarter = np.minimum((rank * RANK_CLASSES).astype(int), RANK_CLASSES - 1)
    drawn = rng.random(len(rank))
    below = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    kind = (drawn[:, None] >= below[quarter]).sum(axis=1)
    start_h = np.round(start_h / H_PER_DAY, DIGITS) * H_PER_DAY
    end_h = np.round(np.minimum(end_h, horizon_h) / H_PER_DAY, DIGITS) * H_PER_DAY
    order = np.argsort(start_h, kind="stable")
    numbers, kinds = _by_appearance(server[order]), _by_appearance(kind[order])
    named = dict(zip(kinds.tolist(), kind[order].tolist(), strict=True))
    return Trace(
        f"synthetic, seed {seed}",
        servers,
        horizon_h,
        numbers,
        start_h[order],
        end_h[order],
        kinds,
        tuple(Kind(*like.kinds[named[nth]], DESCRIPTION) for nth in range(len(named))),
    )


def _by_appearance(values: np.ndarray) -> np.ndarray:
    """Each value's number, from 0, in the order in which the values first appear."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
