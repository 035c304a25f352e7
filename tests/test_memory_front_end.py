"""Several channels behind one front end: the same however often the kernel returns, and their states grow together."""

from functools import partial

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.cycle_sim.memory import front_end
from pimloom.cycle_sim.memory.addresses import address_map, decode
from pimloom.cycle_sim.memory.channel import more_refreshes, more_waiting
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from pimloom.systems.memory.tracing import Wanted, find_memory

CONTROLLERS = ("dramsim3", "ramulator2")


def memory_of(part: str, controller: str, channels: int, **clocks: int):
    wanted = Wanted(memory=part, controller=controller, pattern="random", requests="10", channels=channels)
    memory, _ = find_memory(wanted)
    return memory._replace(clocks={**memory.clocks, **clocks})


def chunk_of(rng: np.random.Generator, n: int, gap: int) -> Chunk:
    return Chunk(rng.integers(0, 1 << 14, n) * 64, rng.integers(0, 2, n), np.cumsum(rng.integers(0, gap, n)))


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize(("gap", "seed"), [(2, 1), (20, 2), (3000, 3)])
def test_it_does_not_matter_how_often_the_kernel_returns(controller, gap, seed, monkeypatch):
    memory, chunk = memory_of("ddr4", controller, 4), chunk_of(np.random.default_rng(seed), 400, gap)
    whole = simulate(memory, [chunk])
    halves = [Chunk(*(column[part] for column in chunk)) for part in (slice(0, 137), slice(137, None))]
    monkeypatch.setattr(front_end, "CLOCKS", 1)  # a request at a time
    assert str(simulate(memory, halves)) == str(whole)
    assert sum(sum(tally.commands.values()) for tally in whole) > 300


def test_strided_columns_are_taken():
    rng = np.random.default_rng(5)
    chunk = chunk_of(rng, 50, 9)
    table = np.column_stack(chunk)
    for channels in (1, 2):
        memory = memory_of("ddr4", "ramulator2", channels)
        assert str(simulate(memory, [Chunk(*table.T)])) == str(simulate(memory, [chunk]))


@pytest.mark.parametrize("refi_ck", [6, 20, 300])
def test_a_channel_that_is_full_grows_no_further_than_the_others(refi_ck, monkeypatch):
    """Channel 1 has just no place left for a read that waits with others when channel 0 needs room for refreshes."""
    memory, grown = memory_of("hbm2_2000", "dramsim3", 2, tREFI=refi_ck), []

    def seen(grow, state):
        grown.append(grow)
        return grow(state)

    for grow in (more_waiting, more_refreshes):
        monkeypatch.setattr(front_end, grow.__name__, partial(seen, grow))
    every = np.arange(0, 1 << 16, 32, dtype=np.int64)
    place = np.empty((4, len(every)), np.int64)
    decode(address_map(memory).piece, every, place)
    first = [int(every[place[0] == c][0]) for c in range(2)]
    address = np.array([first[1]] * 65 + [first[0]] * 3)
    when = np.array([300] * 65 + [5000, 5001, 5002])
    with pytest.raises(UserError, match="requests wait, but none has been accepted or served since clock"):
        simulate(memory, [Chunk(address, np.zeros(68, np.int64), when)])
    assert len(grown) < 12
