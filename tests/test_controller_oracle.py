"""The compiled controller against one that ticks every clock, against its rules, and against numbers done by hand."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.system import load_part
from pimloom.arch.table import rule_rows
from pimloom.cycle_sim.memory.addresses import address_map, decode
from pimloom.cycle_sim.memory.device import COMMANDS
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from tests.naive_controller import Controller

PARTS = ("ddr4_3200", "ddr5_4800", "lpddr5_6400", "hbm2_2400", "hbm3_6400", "gddr6_16000")


class Log:
    """Keeps the rows."""

    def __init__(self):
        self.command, self.request = [], []

    def commands(self, rows):
        self.command += [tuple(row) for row in rows.tolist()]

    def requests(self, rows):
        self.request += [tuple(row) for row in rows.tolist()]


def policy_of(**fields):
    text = {name: "null" if value is None else str(value).lower() for name, value in fields.items()}
    return load_policy("default", text).value


def memory_of(part, policy, timing=None, ranks=1, channels=1):
    found = load_part(part).value
    changes = {f"timing.{name}": f"{value} nCK" for name, value in (timing or {}).items()}
    if ranks > 1:
        capacity = found.organization.capacity_bytes * ranks
        changes |= {"organization.ranks": str(ranks), "organization.capacity_bytes": str(capacity)}
    return part_memory(part, load_part(part, changes).value, policy, channels)


def chunk_of(requests):
    """requests: (clock, write, address)"""
    when, write, address = (np.array(column, np.int64) for column in zip(*requests, strict=True))
    return Chunk(address, write, when)


def engine(memory, requests, cuts=()):
    """Commands, requests and tallies of the engine; the stream cut in chunks at `cuts`."""
    log, edges = Log(), [0, *cuts, len(requests)]
    chunks = [chunk_of(requests[a:b]) for a, b in zip(edges, edges[1:], strict=False) if a < b]
    tallies = simulate(memory, chunks, log=log)
    commands = [(clock, channel, COMMANDS[c], *rest) for clock, channel, c, *rest, _ in log.command]
    return commands, log.request, tallies


def place(memory, requests):
    """(channel, bank, row, column) of each request."""
    found = np.empty((len(requests), 4), np.int64)
    decode(address_map(memory).piece, np.array([r[2] for r in requests], np.int64), found)
    return found.tolist()


def oracle(memory, requests):
    """The same of the oracle."""
    rules, by_channel = memory.table.rules, [[] for _ in range(memory.channels)]
    numbers = [[] for _ in range(memory.channels)]
    for i, (request, (channel, *where)) in enumerate(zip(requests, place(memory, requests), strict=True)):
        by_channel[channel].append((*request, *where))
        numbers[channel].append(i)
    fields = (rule_rows(rules), memory.table.names, rules.size.tolist(), rules.scope.tolist(), rules.bus.tolist())
    channels = [Controller(*fields, memory.policy, memory.clocks, own) for own in by_channel]
    for channel in channels:
        while not channel.finished and not channel.starved:
            channel.tick()
    end = max(channel.now for channel in channels)
    for channel in channels:
        while channel.now < end:
            channel.tick()
    commands = [(c.clock, k, *c[1:]) for k, channel in enumerate(channels) for c in channel.log]
    done = [
        (number, request.accept, request.done)
        for channel, own in zip(channels, numbers, strict=True)
        for number, request in zip(own, channel.requests, strict=True)
    ]
    return sorted(commands, key=lambda c: c[:2]), sorted(done), channels
