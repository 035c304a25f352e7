"""The ways between the core of an NPU and its memory channels, in plain Python."""

from collections import deque
from typing import Any

Queue = deque[Any]

OFFERS = 2


class Direct:
    """What leaves the core in a clock is offered from the next one on, two by each port at most; a response that a
    channel hands over is seen in the next clock."""

    def __init__(self, channels, ports):
        self.channels = channels
        self.fifo: list[list[Queue]] = [[deque() for _ in range(ports)] for _ in channels]  # (first clock, request)

    def send(self, t, c, port, request):
        self.fifo[c][port].append((t + 1, request))

    def answers(self):
        """What the core sees in this clock, channel by channel."""
        return [request for channel in self.channels for request in channel.collect()]

    def before_tick(self, t):
        for channel, fifos in zip(self.channels, self.fifo, strict=True):
            for fifo in fifos:
                for _ in range(OFFERS):
                    if fifo and fifo[0][0] <= t and channel.offer(fifo[0][1], t):
                        fifo.popleft()
                    else:
                        break

    def after_tick(self, t):
        pass


class Interconnect:
    """Steps at the end of each clock, whose time is that of the clock in doubles.

    A step, for each channel: a request of each port comes into the core's buffer; a response goes out to the core; a
    request of each memory queue is offered; a response comes into the buffer back; each buffer passes on a packet, if
    it came in an earlier step.
    """

    def __init__(self, channels, ports, steps):
        self.channels, self.steps = channels, steps
        self.core: list[list[Queue]] = [[deque() for _ in range(ports)] for _ in channels]
        self.buffer: list[Queue] = [deque() for _ in channels]  # (step in which it came, port, request)
        self.memory: list[list[Queue]] = [[deque() for _ in range(ports)] for _ in channels]
        self.back: list[Queue] = [deque() for _ in channels]  # (step in which it came, response)
        self.passed: list[Queue] = [deque() for _ in channels]
        self.out: list[list[Any]] = [[] for _ in channels]
        self.step_number = 0
        self.clock_us, self.step_us = 0.0, 0.0
        self.made: list[int] = []  # steps after each clock

    def send(self, t, c, port, request):
        self.core[c][port].append(request)

    def answers(self):
        found = [request for out in self.out for request in out]
        self.out = [[] for _ in self.channels]
        return found

    def before_tick(self, t):
        pass

    def after_tick(self, t):
        """All steps before the next clock."""
        self.clock_us += 1 / 1000
        self.made.append(0)
        while self.step_us < self.clock_us:
            for c in range(len(self.channels)):
                self.step(c, t + 1)
            self.made[-1] += 1
            self.step_number += 1
            self.step_us += 1 / (1000 * self.steps)

    def step(self, c, t):
        """A step of channel c before clock t."""
        now, channel = self.step_number, self.channels[c]
        for port, fifo in enumerate(self.core[c]):
            if fifo:
                self.buffer[c].append((now, port, fifo.popleft()))
        if self.passed[c]:
            self.out[c].append(self.passed[c].popleft())
        for fifo in self.memory[c]:
            if fifo and channel.offer(fifo[0], t):
                fifo.popleft()
        self.back[c].extend((now, response) for response in channel.collect(1))
        if self.buffer[c] and self.buffer[c][0][0] < now:
            _, port, request = self.buffer[c].popleft()
            self.memory[c][port].append(request)
        if self.back[c] and self.back[c][0][0] < now:
            self.passed[c].append(self.back[c].popleft()[1])
