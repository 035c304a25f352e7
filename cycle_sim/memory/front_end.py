"""Channels behind one front end, as the reference simulators have it: their states are one stack, and one kernel takes
each request to its channel."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pimloom.arch.memory import Memory
from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.dram.kernels.queued import fields as q
from pimloom.cycle_sim.memory.channel import (
    CLOCKS,
    Channel,
    Requests,
    Stopped,
    engine_of,
    grown,
    more_refreshes,
    more_waiting,
)

ONCE = {"path", "aside", "first_rule", "rule", "policy"}  # arrays that no channel changes


class FrontEnd:
    """One front end and its channels, which begin alike; `feed` it."""

    def __init__(self, memory: Memory, logging: bool, logged_ck: tuple[int, int]) -> None:
        """Arguments as those of a channel."""
        first = Channel(memory, logging, logged_ck)
        others = (Channel(memory, logging, logged_ck, first.state) for _ in range(1, memory.channels))
        self.channels, self._next_ck = [first, *others], 0
        self._run = engine_of(memory).run_together
        self._stack: Any = None
        self._stacked: list[Any] = []
        self._restack()

    def feed(self, channel: np.ndarray, requests: Requests) -> None:
        """Go on until all requests are accepted, in order; request i goes to channel[i]. Raises UserError."""
        i, code, few_ck, clocks = 0, q.MORE, self.channels[0].few_ck, CLOCKS * len(self.channels)
        requests = requests._replace(when=requests.when.copy())
        while i < len(channel):
            self._restack()
            # after a rest, its request is served, however far the channel came
            end, rest_ck = (i + 1, int(FAR)) if code == q.REST else (len(channel), few_ck)
            code, i, self._next_ck = self._run(self._stack, channel, *requests, i, end, self._next_ck, rest_ck, clocks)
            if code != q.MORE:
                self._serve(code, self.channels[channel[i]], int(requests.when[i]))
            elif any(each.stopped for each in self.channels):
                raise Stopped
        for each in self.channels:
            each.empty_logs()

    def _serve(self, code: int, channel: Channel, when: int) -> None:
        """What a channel needs before it can go on."""
        if code == q.REST:
            channel.rest(when)
        elif code in (q.FLUSH, q.PAUSE):
            channel.empty_logs()
        elif code == q.GROW:
            channel.state = grown(channel.state)
        else:
            channel.fail(code)

    def _restack(self) -> None:
        """The stack of all states, and the states as places of it, where one is no longer there."""
        if self._stacked and all(a.state is b for a, b in zip(self.channels, self._stacked, strict=True)):
            return
        states = [one.state for one in self.channels]
        if self.channels[0].is_queued:
            waiting = max(len(state.waiting) for state in states)
            refreshes = max(len(state.refreshes) for state in states)
            states = [_as_long(state, waiting, refreshes) for state in states]
        self._stack = _stack(states)
        for c, one in enumerate(self.channels):
            one.state = _place(self._stack, c)
        self._stacked = [one.state for one in self.channels]


def _as_long(state: Any, waiting: int, refreshes: int) -> Any:
    """The state with as much room as another one has; what has grown has doubled."""
    while len(state.waiting) < waiting:
        state = more_waiting(state)
    while len(state.refreshes) < refreshes:
        state = more_refreshes(state)
    return state


def _stack(states: list[Any]) -> Any:
    fields = zip(states[0]._fields, zip(*states, strict=True), strict=True)
    return type(states[0])(
        *(
            each[0] if name in ONCE else _stack(list(each)) if isinstance(each[0], tuple) else _together(each)
            for name, each in fields
        )
    )


def _together(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The arrays as one; what is zero, as most is at first, is not written and takes no memory."""
    found = np.zeros((len(arrays), *arrays[0].shape), arrays[0].dtype)
    alike = all(one is arrays[0] for one in arrays)
    for place, one in [(found, arrays[0])] if alike else zip(found, arrays, strict=True):
        if one.any():
            place[...] = one
    return found


def _place(stack: Any, c: int) -> Any:
    found = []
    for name, value in zip(stack._fields, stack, strict=True):
        found.append(value if name in ONCE else _place(value, c) if isinstance(value, tuple) else value[c])
    return type(stack)(*found)
