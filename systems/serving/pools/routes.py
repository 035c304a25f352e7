"""Where a request goes among the machines of both pools, by the rule of each scheduler."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.pools.clock import Routes
from pimloom.systems.serving.pools.sides import Receiving
from pimloom.systems.serving.pools.splitwise import Splitwise
from pimloom.systems.serving.schedulers.live import LiveRequest


def least(replicas: Sequence[Replica]) -> Replica:
    """The least loaded, of equal ones the first."""
    return min(replicas, key=lambda replica: cast(Any, replica.scheduler).load)


def distserve(prompts: Sequence[Replica], decodes: Sequence[Replica]) -> Routes:
    """Fewest requests under way and waiting; then the shortest queue."""
    return Routes(lambda request: least(prompts), lambda request, home: least(decodes))


def fewest_coming(replicas: Sequence[Replica]) -> Callable[[LiveRequest], Replica]:
    """Those that wait there, or for room there."""

    def waiting(replica: Replica) -> int:
        return len(replica.scheduler.waiting) + cast(Receiving, replica.scheduler).coming

    return lambda request: min(replicas, key=waiting)


def routed(prompts: Callable[[LiveRequest], Replica], decodes: Callable[[LiveRequest], Replica]) -> Routes:
    """A router of each pool; that of decode is asked when a prompt has ended."""
    return Routes(prompts, lambda request, home: decodes(request))


def splitwise(prompts: Callable[[LiveRequest], Replica], decodes: Callable[[LiveRequest], Replica]) -> Routes:
    """Both machines are chosen when a request arrives."""
    return Routes(prompts, lambda request, home: decodes(request), early=True)


class Mixed:
    """Splitwise's third pool: a machine of either pool that does the other's work, too, as long as it has any of it.

    A prompt goes to the least loaded machine of its pool that has room for it in its next batch, else to one that is
    mixed, else to one of decode, which is mixed from then on; without any to the least loaded of its pool. Tokens stay
    where a prompt ran outside of its pool; else they go where there are blocks for them, in the same order.
    """

    def __init__(self, prompts: Sequence[Replica], decodes: Sequence[Replica]) -> None:
        self.prompts, self.decodes = prompts, decodes

    def routes(self) -> Routes:
        """See above."""
        return Routes(self.prompt, self.tokens, early=True)

    def prompt(self, request: LiveRequest) -> Replica:
        """Where a prompt goes."""
        mixed = [one for one in self.decodes if _of(one).waiting]
        for some in (self.prompts, mixed, self.decodes):
            if there := [one for one in some if _of(one).takes(request.prompt) and _fits(one, request, request.prompt)]:
                return least(there)
        return least(self.prompts)

    def tokens(self, request: LiveRequest, home: Replica) -> Replica:
        """Where its tokens go."""
        if home in self.decodes:
            return home
        mixed = [one for one in self.prompts if _of(one).tokens]
        for some in (self.decodes, mixed, [home]):
            if there := [one for one in some if _fits(one, request, request.prompt + 1)]:
                return least(there)
        return least(self.decodes)


def _of(replica: Replica) -> Splitwise:
    return cast(Splitwise, replica.scheduler)


def _fits(replica: Replica, request: LiveRequest, tokens: int) -> bool:
    """Whether there is room for so many tokens of a request that lies nowhere there."""
    blocks = _of(replica).blocks
    return blocks.of(tokens) <= blocks.room(LiveRequest(request.number, 0, request.prompt, request.output))
