"""Contexts of a workload, whenever its requests are served."""

import numpy as np

from pimloom.workload.requests.table import Requests

POINTS = 128  # of their distribution


def longest_of(requests: Requests, scheduler: str) -> int:
    """The longest context of a request: its last token is not computed; rows of static batches are as long as any."""
    if scheduler == "static":
        return max(requests.prompt) + max(requests.output) - 1
    return max(p + n - 1 for p, n in zip(requests.prompt, requests.output, strict=True))


def spread_of(requests: Requests) -> list[float]:
    """Contexts of requests while they decode, as shares of their mean, rising."""
    prompt, output = np.array(requests.prompt, float), np.array(requests.output, float)
    at = np.concatenate([prompt + output * part for part in (0.125, 0.375, 0.625, 0.875)])
    weight = np.concatenate([output] * 4)
    order = np.argsort(at, kind="stable")
    share = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    found = np.interp((np.arange(POINTS) + 0.5) / POINTS, share, at[order])
    spread: list[float] = (found / found.mean()).tolist()
    return spread
