"""What requests are like: rates, gaps and lengths."""

import msgspec
import numpy as np

from pimloom.arch.units import S_PER_PS
from pimloom.workload.requests.table import Requests


class Lengths(msgspec.Struct, frozen=True):
    """Of prompts or outputs [tokens]."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: int


class Statistics(msgspec.Struct, frozen=True):
    """span_s: from the first arrival to the last; rate_per_s: gaps by time; gap_cv: standard deviation of gaps by
    their mean, None without two that differ from 0 in sum; correlation: of prompts and outputs."""

    requests: int
    span_s: float
    rate_per_s: float | None
    gap_cv: float | None
    prompt_tokens: Lengths
    output_tokens: Lengths
    correlation: float | None


def statistics(requests: Requests) -> Statistics:
    """Of all requests.

    >>> found = statistics(Requests("r", [0, 10**12, 3 * 10**12], [1, 2, 3], [3, 2, 1], ""))
    >>> found.rate_per_s, round(found.gap_cv, 3), found.correlation
    (0.6666666666666666, 0.333, -1.0)
    """
    at = np.array(requests.arrival_ps, float) * S_PER_PS
    gaps, span = np.diff(at), float(at[-1] - at[0])
    prompt, output = np.array(requests.prompt), np.array(requests.output)
    vary = len(prompt) > 1 and prompt.std() > 0 and output.std() > 0
    return Statistics(
        requests=len(requests.prompt),
        span_s=span,
        rate_per_s=len(gaps) / span if span else None,
        gap_cv=float(gaps.std() / gaps.mean()) if len(gaps) > 1 and span else None,
        prompt_tokens=_lengths(prompt),
        output_tokens=_lengths(output),
        correlation=float(np.corrcoef(prompt, output)[0, 1]) if vary else None,
    )


def _lengths(tokens: np.ndarray) -> Lengths:
    p50, p90, p99 = np.quantile(tokens, [0.5, 0.9, 0.99]).tolist()
    return Lengths(float(tokens.mean()), p50, p90, p99, int(tokens.max()))
