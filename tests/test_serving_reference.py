"""Schedulers of serving programs against schedules of the programs themselves: every batch, every tick."""

from pathlib import Path

import pytest

from tests.reference_data import reference_cases
from tests.serving_cases import Row, config_of, rows, run_vidur, run_vllm_v0, run_vllm_v1
from tests.serving_pools import by_request, run_distserve, run_goodput, run_splitwise
from tests.slow import slow


def same(case: Path, found: tuple[list[Row], list[Row]], place: str = "") -> None:
    """place: the column of whose iterations the order is compared; between them it has no meaning."""
    requests, iterations = found

    def in_order(table: list[Row]) -> list[Row]:
        return sorted(table, key=lambda row: (int(row[place]), int(row["start"]))) if place else table

    assert requests == rows(case / "expected.csv")
    assert in_order(iterations) == in_order(rows(case / "iterations.csv"))


@pytest.mark.parametrize("case", reference_cases("serving/vidur"))
def test_schedules_of_vidur(case):
    same(case, run_vidur(case), "replica")


@pytest.mark.parametrize("case", reference_cases("serving/vllm_v0"))
def test_schedules_of_vllm_v0(case):
    same(case, run_vllm_v0(case))


@pytest.mark.parametrize("case", reference_cases("serving/vllm_v1"))
def test_schedules_of_vllm_v1(case):
    same(case, run_vllm_v1(case))


@pytest.mark.parametrize("case", reference_cases("serving/distserve"))
def test_schedules_of_distserve(case):
    same(case, run_distserve(case), "worker")


@pytest.mark.parametrize("case", reference_cases("serving/splitwise"))
def test_schedules_of_splitwise(case):
    requests, iterations = run_splitwise(case)
    assert requests == rows(case / "expected.csv")
    stored = [by_request(row) for row in rows(case / "iterations.csv")]

    def in_order(table: list[Row]) -> list[Row]:
        return sorted(table, key=lambda row: (int(row["instance"]), int(row["start"])))

    assert in_order(iterations) == in_order(stored)


@pytest.mark.parametrize("every", [3, slow(1)])
@pytest.mark.parametrize("case", reference_cases("serving/distserve_goodput"))
def test_shares_that_hold_the_limits(case, every):
    """Both ends of the rates are among each third one."""
    found, rates = run_goodput(case, every), {str(rate) for rate in config_of(case)["rates"][::every]}
    stored = [row for row in rows(case / "expected.csv") if row["rate_per_s"] in rates]
    assert stored and len(found) == len(stored)
    for got, row in zip(found, stored, strict=True):
        assert {name: str(got[name]) for name in ("system", "rate_per_s")} == {
            n: row[n] for n in ("system", "rate_per_s")
        }
        for name in ("ttft_attained", "tpot_attained", "both_attained"):
            assert got[name] == float(row[name]), (got, row)
        for name in ("ttft_p90", "tpot_p90"):
            assert got[name] == pytest.approx(float(row[name]), rel=1e-9)
