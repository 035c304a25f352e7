"""A few requests are served without threads: channel by channel, and to the same end."""

import numpy as np
import pytest

from pimloom.arch.part_file import load_part
from pimloom.arch.part_memory import MAPPING, part_memory
from pimloom.arch.policy import load_policy
from pimloom.cycle_sim.memory import simulate as module
from pimloom.cycle_sim.memory.channel import CLOCKS
from pimloom.cycle_sim.memory.simulate import Chunk, simulate

REQUESTS = 300


def chunks(seed: int) -> list[Chunk]:
    rng = np.random.default_rng(seed)
    address, write = rng.integers(0, 1 << 30, REQUESTS) & ~63, rng.integers(0, 2, REQUESTS)
    when = np.sort(rng.integers(0, 20_000, REQUESTS))
    columns = [np.array_split(column.astype(np.int64), 3) for column in (address, write, when)]
    return [Chunk(*columns_of_one) for columns_of_one in zip(*columns, strict=True)]


def watched(monkeypatch: pytest.MonkeyPatch) -> list[module._Crew]:
    """The crews that are made from now on."""
    made = list[module._Crew]()

    class Watched(module._Crew):
        def __init__(self, threads: int) -> None:
            super().__init__(threads)
            made.append(self)

    monkeypatch.setattr(module, "_Crew", Watched)
    return made


@pytest.mark.parametrize("controller", ["default", "dramsim3", "ramulator2"])
@pytest.mark.parametrize("extra_ck", [0, 1000])
def test_threads_change_nothing(controller, extra_ck, monkeypatch):
    part = load_part("hbm2_2000").value
    memory = part_memory("hbm2_2000", part, load_policy(controller).value, 4, MAPPING)
    crews = watched(monkeypatch)
    alone = simulate(memory, chunks(1), extra_ck=extra_ck, threads=2)
    monkeypatch.setattr(module, "FEWEST", -1)
    together = simulate(memory, chunks(1), extra_ck=extra_ck, threads=2)
    front_end = controller != "default"  # serves all channels itself
    assert [crew._pool is not None for crew in crews] == [extra_ck > 0, extra_ck > 0 or not front_end]
    done = sum(tally.counters["reads_done"] + tally.counters["writes_done"] for tally in alone)
    assert len(alone) == 4 and done == REQUESTS
    for one, other in zip(alone, together, strict=True):
        assert one.latency.tolist() == other.latency.tolist()
        assert one._replace(latency=other.latency) == other


def test_requests_that_come_late_are_not_few(monkeypatch):
    """What happens until then may take long, and threads share it."""
    memory = part_memory("hbm2_2000", load_part("hbm2_2000").value, load_policy("default").value, 2, MAPPING)
    crews = watched(monkeypatch)
    late = Chunk(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([CLOCKS + 1]))
    simulate(memory, [late])
    assert crews[0]._pool
