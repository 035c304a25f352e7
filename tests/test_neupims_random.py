"""The compiled PIM channel is the naive one, command for command, on random traffic and with any fault repaired."""

from random import Random

import pytest

from tests.naive_neupims import Channel, Request
from tests.neupims_engine import COMMAND, FIXES, Run
from tests.neupims_stimuli import pim_tile, power_of_two, run
from tests.slow import slow

pytestmark = pytest.mark.usefixtures("each_program_runs")

CLOCKS = 60_000
CASES = 150
FEW = 14  # in the quick suite


def draw(seed: int):
    """(mode, fixes, scope of PIM_PRECHARGE, PIM requests, data requests); rows of both may meet."""
    rng = Random(f"PIM channel {seed}")
    mode = rng.choice(["DUAL", "DUAL", "SINGLE", "SINGLE", "DRAM"])
    fixes = [fix for fix in (*FIXES, 5) if rng.random() < 0.3]
    precharge = rng.choice(["bank", "group", "channel"]) if mode == "DUAL" else "bank"
    pim, data = [], []
    rows = rng.choice([(0, 1, 2), (0, 7, 8, 9, 10), tuple(range(40))])
    for _ in range(0 if mode == "DRAM" else rng.randrange(1, 8)):
        bank, row = rng.choice([0, 0, 5, 17]), rng.choice(rows)
        pim += [Request("GWRITE", bank, row, rng.randrange(16)) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        for _ in range(rng.randrange(4)):
            comps, results = rng.randrange(1, 33), rng.randrange(1, 5)
            pim += pim_tile(mode, rng.choice(rows), comps, results, power_of_two(comps * results))
            if rng.random() < 0.1:  # a header whose row went through too few bits
                pim[-len(pim_tile(mode, 0, comps, results, 0))].row = rng.choice(rows)
    banks = rng.sample(range(32), rng.choice([1, 2, 8, 32]))
    for _ in range(rng.choice([0, 1, 3, 30])):
        kind, bank, row = rng.choice(["READ", "READ", "WRITE"]), rng.choice(banks), rng.choice(rows)
        at = rng.randrange(16)
        for i in range(rng.choice([1, 2, 16, 40])):
            data.append(Request(kind, bank, row, (at + i) % rng.choice([1, 4, 16])))
    if mode == "SINGLE" and data and rng.random() < 0.5:
        data = data[:4]
    return mode, fixes, precharge, pim, data


@pytest.mark.parametrize(("part", "cases"), [(0, FEW), *(slow(part, CASES) for part in range(4))])
def test_commands_and_clocks(part, cases):
    assert_equal(range(part * cases, (part + 1) * cases), 4)


@pytest.mark.parametrize(
    ("per_group", "cases"),
    [
        (1, (0, 1, 2, 3, 4, 5, 8)),
        (2, (0, 1, 2, 3, 4, 5)),
        (8, (0, 1, 2, 3, 4, 5, 7, 11)),
        *(slow(per_group, range(CASES)) for per_group in (1, 2, 8)),
    ],
)
def test_groups_of_any_number_of_banks(per_group, cases):
    """Of several groups in a rank: with one alone the table keeps the waits between two."""
    assert_equal([1000 * per_group + case for case in cases], per_group)


def assert_equal(seeds, per_group):
    seen = set()
    for seed in seeds:
        mode, fixes, precharge, pim, data = draw(seed)
        naive = Channel(mode, fixes=fixes, precharge=precharge, per_group=per_group)
        try:
            done = run(naive, pim, data, most=CLOCKS)
        except AssertionError as error:  # a READRES of a closed bank, or a lock that never ends, in both
            seen.add((mode, str(error)))
            assert engine_ends(mode, pim, data, fixes, precharge, per_group) == ("closed" in str(error)), seed
            continue
        found = Run(mode, pim, data, fixes, precharge=precharge, per_group=per_group)
        expected = [(t, COMMAND[c], b if c not in ("P_HEADER",) else 0) for t, c, b, _ in naive.log]
        assert (found.done, found.commands[: len(expected)]) == (done, expected), seed
        seen.add((mode, "done"))
    assert {(mode, "done") for mode in ("DUAL", "SINGLE", "DRAM")} <= seen


def engine_ends(mode, pim, data, fixes, precharge, per_group):
    """Whether the engine stops at a READRES; else it goes on to the end of time without an answer."""
    return Run(mode, pim, data, fixes, until=CLOCKS, precharge=precharge, per_group=per_group).stuck
