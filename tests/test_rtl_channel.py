# amaranth: UnusedElaboratable=no
"""A matrix-vector product on the PIM channel's gates: the numbers of the functional model, the clocks of the engine."""

import msgspec
import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.pim_math import mac_column, read_result
from pimloom.mappers.gemv import Emitter
from pimloom.rtl.flow.channel import (
    BF16,
    Product,
    Returned,
    make_product,
    mismatches,
    run_channel,
    run_product,
    shrink_banks,
)
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.pim_channel import PimChannel
from tests.simulators import needs

PART = load_part("gddr6_pim_gpt").value
SMALL = shrink_banks(PART, 2, 2)


def gemv(n_in: int, n_out: int, banks: int) -> tuple[Product, np.ndarray]:
    """A product of random numbers, and y in float64."""
    rng = np.random.default_rng(n_out)
    w, x = rng.normal(size=(n_in, n_out)).astype(BF16), rng.normal(size=n_in).astype(BF16)
    return make_product(shrink_banks(PART, banks, banks), w, x), x.astype(float) @ w.astype(float)


def assert_same(job: Product, found: Returned, y: np.ndarray) -> None:
    assert mismatches(job, found) == []
    ours = found.results.astype(float).reshape(-1)[: len(y)]
    assert np.abs(ours - y).max() < 2**-8 * np.abs(y).max()


SIZES: list[tuple[Simulator, int, int]] = [("icarus", 96, 32), ("verilator", 256, 64), ("verilator", 1024, 256)]


@pytest.mark.slow  # half a minute to build the channel
@pytest.mark.parametrize(("simulator", "n_in", "n_out"), SIZES)
def test_a_product_bit_for_bit_and_clock_for_clock(simulator, n_in, n_out):
    job, y = gemv(n_in, n_out, banks=2)
    found = run_product(job, simulator=needs(simulator))
    assert_same(job, found, y)
    assert found.results.size == n_out and (n_out < 256 or len(found.model_refresh_ck) > 2)
    assert job.kept < PART.organization.rows  # as in what `pimloom rtl emit` writes
    late = found._replace(result_ck=found.result_ck + 1)
    assert mismatches(job, late)[0].startswith("results came at CK ")


def all_commands() -> tuple[np.ndarray, list[np.ndarray], list[int], list[np.ndarray], list[np.ndarray]]:
    """Every command that moves data, on row 9 of 2 x 2 banks: stream, words, their lanes, expected results and reads.

    Told from the commands' names: WR and WRA write a column, WRAab a lane of it in all banks, WRMAC the accumulators.
    """
    out, rng, row, lanes = Emitter(), np.random.default_rng(1), 9, 16
    cmd = compile_table(SMALL).cmd
    cells, words, where = np.zeros((4, 5, lanes), BF16), list[np.ndarray](), list[int]()

    def word(lane: int = 0) -> np.ndarray:
        words.append(rng.normal(size=lanes).astype(BF16))
        where.append(lane)
        return words[-1]

    for bank in range(4):
        place = {"group": bank // 2, "bank": bank % 2}
        out.add(cmd("ACT"), row, **place)
        out.add(cmd("WR"), row, 0, 4, **place)
        out.add(cmd("WRA"), row, 4, 1, **place)
        cells[bank] = [word() for _ in range(5)]
    out.add(cmd("ACTab"), row)
    out.add(cmd("WRAab"), row, 2)
    cells[:, 2, 11] = word(lane=11)[:4]
    out.add(cmd("WRMAC"))
    acc = word()[:4].astype(np.float32)
    out.add(cmd("WRGB"), count=5)
    buffer = [word() for _ in range(5)]
    out.add(cmd("ACTab"), row)
    results = []
    for _ in range(2):  # the second time without a bias
        out.add(cmd("MACab"), row, 0, 5)
        out.add(cmd("RDMAC"))
        for column in range(5):
            acc = mac_column(acc, cells[:, column], np.broadcast_to(buffer[column], (4, lanes)))
        results.append(read_result(acc))
        acc = np.zeros_like(acc)
    out.add(cmd("PREab"))
    for bank in range(4):
        place = {"group": bank // 2, "bank": bank % 2}
        out.add(cmd("ACT"), row, **place)
        out.add(cmd("RD"), row, 0, 4, **place)
        out.add(cmd("RDA"), row, 4, 1, **place)
    return out.stream(), words, where, results, list(cells.reshape(-1, lanes))


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 1])
def test_every_command_that_moves_data_does_what_its_name_says(missing):
    stream, words, lanes, results, reads = all_commands()
    data, where = np.array(words[: len(words) - missing]), np.array(lanes[: len(lanes) - missing])
    found = run_channel(SMALL, 4, stream, data, where, simulator=needs("icarus"))
    assert found.same and np.array_equal(found.issue_ck, found.model_ck)
    assert np.array_equal(found.reads.view(np.uint16), np.array(reads).view(np.uint16))
    same = np.array_equal(found.results.view(np.uint16), np.array(results).view(np.uint16))
    assert (same, found.underrun) == (not missing, bool(missing))


@pytest.mark.slow
def test_256_by_1024_on_sixteen_banks():
    job, y = gemv(1024, 256, banks=4)
    assert_same(job, run_product(job), y)


def test_parts_without_pim_units_are_refused():
    with pytest.raises(UserError, match="a PIM channel has PIM units"):
        PimChannel(load_part("gddr6_14000").value)
    small = msgspec.structs.replace(PART.organization, ranks=2)
    with pytest.raises(UserError, match="one pseudo channel and one rank"):
        PimChannel(msgspec.structs.replace(PART, organization=small))
