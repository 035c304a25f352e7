"""Of which patterns a seed decides something: of the others it is refused."""

import numpy as np
import pytest

from pimloom.arch.part_file import load_part
from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.cycle_sim.memory.patterns import PATTERNS
from pimloom.systems.memory.patterns import pattern_chunks
from tests.command import call

MEMORY = part_memory("ddr4_3200", load_part("ddr4_3200").value, load_policy("default").value)


def requests(kind: str, seed: int, gap: float | None) -> list[np.ndarray]:
    chunks = pattern_chunks(MEMORY, kind, 200, seed, gap=gap)
    return [np.concatenate(column) for column in zip(*chunks, strict=True)]


@pytest.mark.parametrize(
    ("kind", "gap"), [(k, g) for k in PATTERNS for g in (None, 0.0, 5.0) if (k, g) != ("burst", 0.0)]
)
def test_a_seed_that_decides_nothing_is_refused(kind: str, gap: float | None) -> None:
    decides = any((a != b).any() for a, b in zip(requests(kind, 1, gap), requests(kind, 2, gap), strict=True))
    more = [] if gap is None else ["--gap", str(gap)]
    done = call("trace", "ddr4_3200", "--pattern", kind, "--requests", "20", "--seed", "1", "--quiet", *more)
    gap_said = "without --gap" if gap is None else f"with --gap {gap}"
    assert done.code == (0 if decides else 2) and (f"{gap_said} draws nothing" in done.err) is not decides
