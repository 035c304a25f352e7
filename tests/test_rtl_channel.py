# amaranth: UnusedElaboratable=no
"""A matrix-vector product on the PIM channel's gates: the numbers of the functional model, the clocks of the engine."""

import msgspec
import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.rtl.pim_channel import PimChannel
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl_flow.channel import BF16, Product, Returned, make_product, run_product, shrink_rows

PART = load_part("gddr6_pim_gpt").value


def gemv(n_in: int, n_out: int, banks: int) -> tuple[Product, np.ndarray]:
    """A product of random numbers, and y in float64."""
    rng = np.random.default_rng(n_out)
    w, x = rng.normal(size=(n_in, n_out)).astype(BF16), rng.normal(size=n_in).astype(BF16)
    return make_product(shrink_rows(PART, banks, banks, n_in, n_out), w, x), x.astype(float) @ w.astype(float)


def assert_same(job: Product, found: Returned, y: np.ndarray) -> None:
    assert found.same and not found.underrun
    assert np.array_equal(found.issue_ck, found.model_ck)
    assert np.array_equal(found.refresh_ck, found.model_refresh_ck)
    assert np.array_equal(found.results.view(np.uint16), job.results.view(np.uint16))
    ours = found.results.astype(float).reshape(-1)[: len(y)]
    assert np.abs(ours - y).max() < 2**-8 * np.abs(y).max()


def test_256_by_1024_bit_for_bit_and_clock_for_clock():
    job, y = gemv(1024, 256, banks=2)
    found = run_product(job)
    assert_same(job, found, y)
    assert found.results.size == 256 and len(found.model_refresh_ck) > 2
    rdmac = found.issue_ck[[i for i, c in enumerate(unrolled(job)) if c == "RDMAC"]]
    assert set(found.result_ck - rdmac) == {PimUnit(job.part).latency + 1}


def unrolled(job: Product) -> list[str]:
    names = compile_table(job.part).names
    return [names[c] for c in np.repeat(job.stream["cmd"], job.stream["count"])]


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
