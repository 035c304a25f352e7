"""Both pools and their link on one clock.

At one tick requests arrive first; then iterations of prompts end and new ones form; caches that have crossed the link
are there; iterations of decode end and form; and caches leave for where there is room. One that finds no room stays
where its prompt ran, with its blocks: that is what holds prompts back.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.pools.sides import Receiving, Sending
from pimloom.systems.serving.pools.splitwise import Splitwise
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.schedulers.live import NEVER, NOT_YET, Iteration, LiveRequest

Progress = Callable[[int, int], None]


class Routes(NamedTuple):
    """Where a prompt goes, and where its tokens do; early: whether that is chosen when it arrives, not when its prompt
    ends."""

    prompt: Callable[[LiveRequest], Replica]
    tokens: Callable[[LiveRequest, Replica], Replica]
    early: bool = False


class Flight:
    """A request: `first` until its first token, `then` behind it; sent: tokens of its cache that have left, None: it
    leaves when its prompt has ended; landed: when it was all there, NOT_YET if it never leaves."""

    __slots__ = ("first", "goal", "home", "landed", "sent", "then")

    def __init__(self, first: LiveRequest, output: int) -> None:
        self.first, self.landed = first, NOT_YET
        self.home: Replica | None = None
        self.goal: Replica | None = None
        self.sent: int | None = None
        self.then = LiveRequest(first.number, first.arrival, first.prompt, output)
        self.then.cached, self.then.known = first.prompt, first.prompt + 1


class Pooled:
    """prompts, decodes: replicas, whose schedulers are `sides.Sending` and `sides.Receiving`; by_layer: whether caches
    leave while their prompts run, where there is room for them by then; clients: each of which sends its next request
    when the one before has ended, 0: requests come at their times."""

    def __init__(
        self,
        prompts: Sequence[Replica],
        decodes: Sequence[Replica],
        wire: Wire,
        routes: Routes,
        by_layer: bool,
        clients: int = 0,
    ) -> None:
        self.clients, self.later, self.arrived = clients, deque[LiveRequest](), 0
        self.prompts, self.decodes, self.wire, self.routes, self.by_layer = prompts, decodes, wire, routes, by_layer
        self.ready = {replica: deque[Flight]() for replica in (*prompts, *decodes)}
        self.flights: dict[int, Flight] = {}
        for replica in self.ready:
            replica.ended = partial(self._leave, replica)

    def serve(self, requests: Sequence[LiveRequest], outputs: Sequence[int], progress: Progress) -> list[LiveRequest]:
        """Until nothing happens any more. requests: of one token, as they arrive; returns them as they have ended."""
        self.flights = {r.number: Flight(r, n) for r, n in zip(requests, outputs, strict=True)}
        coming = deque(requests[: self.clients or None])
        self.later, self.arrived = deque(requests[len(coming) :]), 0
        while (now := min(coming[0].arrival if coming else NEVER, self.wire.due, self._due())) != NEVER:
            while coming and coming[0].arrival == now:
                self._arrive(coming.popleft(), now)
            progress(self.arrived, len(requests))
            self._run(self.prompts, now)
            for number in self.wire.arrived(now):
                self._land(self.flights[number], now)
            self._run(self.decodes, now)
            for replica in self.ready:
                self._send(replica, now)
        return [flight.then for flight in self.flights.values()]

    def _run(self, replicas: Sequence[Replica], now: int) -> None:
        for replica in replicas:
            replica.run_until(now + 1)

    def _due(self) -> int:
        return min(replica.due for replica in self.ready)

    def _arrive(self, request: LiveRequest, now: int) -> None:
        flight = self.flights[request.number]
        self.arrived += 1
        flight.home = self.routes.prompt(request)
        if self.routes.early:
            self._goal(flight, flight.home)
        flight.home.arrive(request, now)

    def _goal(self, flight: Flight, home: Replica) -> Replica:
        """Where its tokens are made, chosen once."""
        if flight.goal is None:
            flight.goal = self.routes.tokens(flight.first, home)
            cast(Receiving, flight.goal.scheduler).coming += 1
        return flight.goal

    def _leave(self, home: Replica, now: int, ended: int) -> None:
        """Prompts that have ended at a replica, and requests, whose clients send the next ones at once."""
        leaving: list[LiveRequest] = getattr(home.scheduler, "leaving", [])  # those of decode have none
        ended -= sum(self.flights[first.number].then.output > 1 for first in leaving)
        for first in leaving:
            flight = self.flights[first.number]
            then = flight.then
            then.first_token = then.last_token = now
            then.first_scheduled = first.first_scheduled
            if then.output == 1:
                then.completion, then.known = now, first.known
                self._free(flight, now)
                continue
            goal = self._goal(flight, home)
            if goal is home:
                cast(Splitwise, home.scheduler).stay(first, then)
                home.wake(now)
            elif flight.sent is None:
                self.ready[goal].append(flight)
        leaving.clear()
        for _ in range(min(ended, len(self.later))):
            request = self.later.popleft()
            request.arrival = self.flights[request.number].then.arrival = now
            self._arrive(request, now)

    def _send(self, goal: Replica, now: int) -> None:
        """First come first served, as long as there is room."""
        ready, there = self.ready[goal], cast(Receiving, goal.scheduler)
        while ready and there.has_room(ready[0].then):
            flight = ready.popleft()
            there.reserve(flight.then)
            self.wire.send(flight.first.number, flight.first.prompt, now)

    def formed(self, home: Replica, made: Iteration) -> None:
        """Caches of prompts in an iteration leave layer by layer, if there is room where they go."""
        if not self.by_layer:
            return
        sent = dict[int, tuple[int, int, bool]]()
        for request, new, cached in zip(made.requests, made.new, made.cached, strict=True):
            flight = self.flights[request.number]
            if request is not flight.first or flight.then.output == 1:
                continue
            if flight.sent is None and not self._reserved(flight, home):
                continue
            assert flight.sent is not None
            until = max(cached + new, flight.sent)
            sent[request.number] = (flight.sent, until, cached + new == request.prompt)
            flight.sent = until
        self.wire.stream(made, [until - made.ticks for until in home.free], sent)

    def _reserved(self, flight: Flight, home: Replica) -> bool:
        goal = self._goal(flight, home)
        there = cast(Receiving, goal.scheduler)
        if goal is home or self.ready[goal] or not there.has_room(flight.then):
            return False
        there.reserve(flight.then)
        flight.sent = 0
        return True

    def _land(self, flight: Flight, now: int) -> None:
        """A cache is where its tokens will be made."""
        assert flight.goal is not None
        flight.landed = now
        self._free(flight, now)
        there = cast(Receiving, flight.goal.scheduler)
        there.coming -= 1
        there.enter(flight.then)
        flight.goal.wake(now)

    def _free(self, flight: Flight, now: int) -> None:
        """Its blocks where its prompt ran are free."""
        assert flight.home is not None
        cast(Sending, flight.home.scheduler).let_go(flight.first)
        flight.home.wake(now)
