"""Mirror speculative decoding: the draft works on a second machine while the target's last layers run.

At an early exit the target names `kappa` tokens, and the draft rolls `gamma` tokens out behind each. If the target's
own token is one of them, with chance `rho`, its rollout is there when the target ends; else the draft begins anew.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class Times(NamedTuple):
    """Of a step: the target's layers before and behind the exit, the rollouts behind all candidates, one rollout, and
    the exchange of tokens."""

    before: float
    behind: float
    rollouts: float
    rollout: float
    exchange: float = 0.0


def step_time(times: Times, rho: float) -> float:
    """In the mean.

    >>> step_time(Times(2.0, 6.0, 5.0, 3.0, 0.5), 0.5)
    10.0
    """
    return times.before + max(times.behind, times.rollouts) + times.exchange + (1 - rho) * times.rollout


def simulated(times: Times, hits: Iterable[bool]) -> float:
    """Steps one after the other on two machines, event by event; hits: whether the target's token was a candidate."""
    queue: list[tuple[float, int, str]] = [(0.0, 0, "step")]
    turns, order, waited, end = iter(hits), 0, 0, 0.0

    def then(at: float, what: str) -> None:
        nonlocal order
        order += 1
        heappush(queue, (at, order, what))

    while queue:
        now, _, what = heappop(queue)
        end = now
        if what == "step":
            if (hit := next(turns, None)) is None:
                break
            waited = 0
            then(now + times.before, "exit")
        elif what == "exit":
            then(now + times.behind, "met")  # the target's last layers
            then(now + times.rollouts, "met")  # the draft, beside them
        elif what == "met":
            waited += 1
            if waited == 2:
                then(now + times.exchange, "exchanged")
        else:
            then(now + (0.0 if hit else times.rollout), "step")
    return end
