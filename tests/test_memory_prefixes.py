"""What the first requests of a stream take, from one run of the stream: as of each by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.system import load_part
from pimloom.cycle_sim.memory import prefixes
from pimloom.cycle_sim.memory.prefixes import Prefixes
from pimloom.cycle_sim.memory.simulate import Chunk, simulate

LENGTH = 600


@given(
    part=st.sampled_from(["hbm3_duplex_5200", "ddr4_2400", "lpddr5_6400"]),
    controller=st.sampled_from(["ramulator2", "default"]),
    seed=st.integers(0, 99),
    gap=st.sampled_from([0, 3, 5000]),
    span=st.sampled_from([1, 64, 1 << 20]),
    asked=st.lists(st.integers(1, LENGTH), min_size=1, max_size=6),
)
@settings(max_examples=25)
def test_each_is_as_if_it_were_alone(part, controller, seed, gap, span, asked) -> None:
    """All but latencies, in any order of asking; reads and writes, near and far, at once and with time between."""
    memory = part_memory("one", load_part(part).value, load_policy(controller).value)
    random = np.random.default_rng(seed)
    address, write = random.integers(0, span, LENGTH) * memory.access_bytes, random.integers(0, 2, LENGTH)
    when = np.cumsum(random.integers(0, gap + 1, LENGTH))

    def stream(begin: int, end: int) -> Chunk:
        return Chunk(address[begin:end], write[begin:end], when[begin:end])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefixes, "LEAST", 50)
        found = Prefixes(memory, stream)
        for n in asked:
            (alone,) = simulate(memory, [stream(0, n)])
            assert [kept for name, kept in found.tally(n)._asdict().items() if name != "latency"] == [
                kept for name, kept in alone._asdict().items() if name != "latency"
            ]


def test_it_is_of_one_channel() -> None:
    memory = part_memory("one", load_part("ddr4_2400").value, load_policy("default").value)._replace(channels=2)
    with pytest.raises(ValueError, match="expected a memory of one channel, got 2"):
        Prefixes(memory, lambda begin, end: Chunk(*[np.zeros(end - begin, np.int64)] * 3))
