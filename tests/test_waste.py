"""GPU waste: the walk through time, the specification's literal values, its gates, and closed forms."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.topology import topologies, topology
from pimloom.arch.topology.cluster import Cluster
from pimloom.reports.fabric.waste_figures import job_figure, ratio_figure, time_figure, waste_over_time
from pimloom.systems.fabric import waste
from pimloom.systems.fabric.faults.events import read_faults
from pimloom.systems.fabric.faults.replay import check_replay, conversion_factor, draw_nodes, walk
from pimloom.systems.fabric.faults.statistics import sampled_percentiles
from pimloom.systems.fabric.faults.synthetic import synthesise
from pimloom.systems.fabric.faults.trace import Outages, Trace
from pimloom.systems.fabric.waste import Plan, iid_rows, replay, trace_rows
from tests.faulty_states import states_of

CLUSTER, JOB_GPUS = Cluster(2880, 4), 2592
# 7.1: mean / P99 of the waste in %, TP-8 then TP-32; tolerances
BY_TRACE = {
    "big-switch": ((0.07, 0.14, 0.52, 0.97), 0.1, 0.4),
    "infinitehbd-k2": ((0.07, 0.18, 0.53, 1.28), 0.1, 0.4),
    "infinitehbd-k3": ((0.07, 0.14, 0.52, 0.97), 0.1, 0.4),
    "nvl36": ((10.11, 11.11, 10.62, 12.8), 0.3, 0.8),
    "nvl72": ((0.88, 2.40, 10.12, 11.25), 0.3, 0.8),
    "nvl576": ((0.30, 0.69, 2.84, 4.60), 0.3, 0.8),
    "tpuv4": ((0.92, 2.47, 7.00, 19.2), 0.8, 2),
    "tpuv4-slices": ((1.15, 3.78, 7.58, 22.7), 0.8, 2),
    "sip-ring": ((1.15, 3.78, 7.58, 22.7), 0.8, 2),
}
RATIOS = (0.01, 0.03, 0.05, 0.07, 0.1)
BY_RATIO = {  # 7.2: waste in %, TP-32
    "infinitehbd-k2": (0.45, 0.57, 0.92, 1.65, 3.11),
    "infinitehbd-k3": (0.45, 0.50, 0.48, 0.49, 0.58),
    "nvl72": (10.2, 8.8, 8.7, 9.8, 12.9),
    "nvl36": (10.4, 10.5, 12.3, 15.3, 20.9),
    "tpuv4": (6.2, 16.2, 23.0, 27.5, 30.8),
    "sip-ring": (6.4, 18.5, 28.7, 37.3, 47.1),
}
JOBS = {  # 7.3: fewest usable GPUs, share of the time that a job of 90 % waits
    "big-switch": (2736, 0),
    "infinitehbd-k3": (2736, 0),
    "infinitehbd-k2": (2714, 0),
    "nvl576": (2675, 0),
    "nvl72": (2467, 1),
    "nvl36": (2355, 1),
    "tpuv4": (2138, 0.24),
    "sip-ring": (2022, 0.26),
}


@pytest.fixture(scope="module")
def public(fault_trace: Path) -> Trace:
    return read_faults(fault_trace)


@pytest.fixture(scope="module")
def replayed(public: Trace) -> dict[tuple[str, int], dict]:
    plan = Plan(CLUSTER, topologies("all"), [8, 16, 32, 64], 10, job_gpus=JOB_GPUS)
    return {(row["arch"], row["tp"]): row for row in trace_rows(plan, public)}


@pytest.mark.parametrize("arch", BY_TRACE)
def test_waste_on_the_public_trace(replayed: dict, arch: str) -> None:
    expected, mean, p99 = BY_TRACE[arch]
    for tp, figures in ((8, expected[:2]), (32, expected[2:])):
        row = replayed[arch, tp]
        assert 100 * row["waste_ratio_mean"] == pytest.approx(figures[0], abs=mean)
        assert 100 * row["waste_ratio_p99"] == pytest.approx(figures[1], abs=p99)


def test_ten_times_less_waste(replayed: dict) -> None:
    """7.1: above ten at TP-16 and TP-32 against both; at TP-64 against TPUv4 only."""

    def times(other: str, tp: int) -> float:
        return replayed[other, tp]["waste_ratio_mean"] / replayed["infinitehbd-k2", tp]["waste_ratio_mean"]

    assert times("nvl72", 32) == pytest.approx(19, abs=1)
    assert times("tpuv4", 32) == pytest.approx(13, abs=1) and times("tpuv4-slices", 32) == pytest.approx(14, abs=1)
    assert min(times("nvl72", 16), times("tpuv4", 16), times("tpuv4-slices", 64)) > 10 > times("nvl72", 64)


@pytest.fixture(scope="module")
def jobs(public: Trace) -> dict[str, dict]:
    """60 draws: with 10 the fewest GPUs of NVL-36 vary by 1 %, too near to the tolerance."""
    plan = Plan(CLUSTER, [topology(name) for name in JOBS], [32], 60, job_gpus=JOB_GPUS)
    return {row["arch"]: row for row in trace_rows(plan, public)}


@pytest.mark.parametrize("arch", JOBS)
def test_the_largest_job_and_how_long_one_of_90_percent_waits(jobs: dict, arch: str) -> None:
    row, (gpus, wait) = jobs[arch], JOBS[arch]
    assert row["usable_gpus_min"] == pytest.approx(gpus, rel=0.04 if arch in ("tpuv4", "sip-ring") else 0.015)
    assert row["job_wait_ratio"] == pytest.approx(wait, abs=0.05)
    assert wait not in (0, 1) or row["job_wait_ratio"] == wait


def test_nodes_of_4_see_half_the_faults(public: Trace) -> None:
    """7.1: mean 1.17 %, by the conversion factor about half of 2.32 %."""
    plan = Plan(CLUSTER, [topology("big-switch")], [4], 40)
    mean = trace_rows(plan, public)[0]["fault_ratio"]
    assert 100 * mean == pytest.approx(1.17, abs=0.03)
    assert trace_rows(Plan(CLUSTER, [topology("big-switch")], [4], 1), public)[0]["waste_ratio_mean"] == 0


def test_percentiles_of_360_servers(public: Trace) -> None:
    """7.1: 200 draws."""
    p50, p99 = sampled_percentiles(public)
    assert 100 * p50 == pytest.approx(1.73, abs=0.05)
    assert 100 * p99 == pytest.approx(7.74, abs=0.15)


@pytest.fixture(scope="module")
def alone() -> dict[tuple[str, float], tuple[float, float]]:
    """Mean waste [%] and standard error of a mean of 400 draws, as the specification's values have it."""
    plan = Plan(CLUSTER, [topology(name) for name in BY_RATIO], [32], 400)
    found = {}
    for nth, ratio in enumerate(RATIOS):
        rows = iid_rows(plan, [ratio])
        uniform = np.array([np.random.default_rng([0, draw]).random(720) for draw in range(400)])
        healthy, usable = plan.usable(uniform < ratio)
        for row, used in zip(rows, usable, strict=True):
            error = 100 * np.std((healthy - used) / 2880) / np.sqrt(400)
            found[row["arch"], RATIOS[nth]] = 100 * row["waste_ratio_mean"], float(error)
    return found


@pytest.mark.parametrize("arch", BY_RATIO)
def test_waste_of_nodes_that_fail_alone(alone: dict, arch: str) -> None:
    """7.2. Its values are means of 400 draws; where three standard errors of the difference of two such means exceed
    the stated tolerance, they are the tolerance."""
    for ratio, expected in zip(RATIOS, BY_RATIO[arch], strict=True):
        ours, error = alone[arch, ratio]
        stated = 0.1 if expected < 2 else 0.03 * expected
        assert ours == pytest.approx(expected, abs=max(stated, 3 * 2**0.5 * error))


@pytest.mark.slow
@pytest.mark.parametrize("arch", BY_RATIO)
def test_waste_of_many_draws_is_within_the_stated_tolerance(arch: str) -> None:
    """7.2, but for two values at 1 %, which are themselves off by their noise (docs/fabric.md)."""
    off = {("sip-ring", 0.01), ("tpuv4", 0.01)}
    rows = iid_rows(Plan(CLUSTER, [topology(arch)], [32], 20_000, seed=5), RATIOS)
    for row, ratio, expected in zip(rows, RATIOS, BY_RATIO[arch], strict=True):
        if (arch, ratio) not in off:
            stated = 0.1 if expected < 2 else 0.03 * expected
            assert 100 * row["waste_ratio_mean"] == pytest.approx(expected, abs=stated)


def test_nvl72_first_wastes_less_with_more_faults(alone: dict) -> None:
    """Its 8 left-over GPUs take the place of two faulty nodes."""
    dip = [alone["nvl72", ratio][0] for ratio in RATIOS]
    assert 100 / 9 > dip[0] > dip[1] and dip[3] < dip[4]
    assert dip[0] - dip[1] > 1


@pytest.mark.slow
def test_fixed_rings_follow_their_closed_form() -> None:
    """A ring of 8 nodes is lost with any fault: (1 - f) - (1 - f)^8."""
    for row in iid_rows(Plan(CLUSTER, [topology("sip-ring")], [32], 20_000, seed=7), RATIOS):
        good = 1 - row["fault_ratio"]
        assert row["waste_ratio_mean"] == pytest.approx(good - good**8, abs=0.0015)


def test_without_faults_and_with_nothing_left() -> None:
    rows = iid_rows(Plan(CLUSTER, topologies("all"), [32], 3, job_gpus=2880), [0.0, 1.0])
    waste_of = {row["arch"]: row for row in rows if row["fault_ratio"] == 0}
    assert waste_of["nvl72"]["waste_ratio_mean"] == pytest.approx(1 / 9)
    assert waste_of["infinitehbd-k2"]["waste_ratio_p99"] == 0 and waste_of["infinitehbd-k2"]["job_wait_ratio"] == 0
    assert waste_of["dgx8"]["waste_ratio_mean"] == 1
    assert waste_of["dgx8"]["note"] == "no group of 32 fits its units: all healthy GPUs are wasted"
    assert all(row["waste_ratio_mean"] == row["usable_gpus_min"] == 0 for row in rows if row["fault_ratio"] == 1)


def test_blocks_and_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(Cluster(288, 4), topologies("all"), [8, 32], 9, seed=3, job_gpus=200)
    one = iid_rows(plan, [0.0, 0.05, 0.1])
    trace = synthesise(40, 1)
    walked = trace_rows(plan, trace)
    monkeypatch.setattr(waste, "BLOCK_NODES", 150)
    assert iid_rows(plan, [0.0, 0.05, 0.1]) == one and trace_rows(plan, trace) == walked
    monkeypatch.setattr(waste, "ALONE_S", 0)
    assert iid_rows(plan, [0.0, 0.05, 0.1]) == one and trace_rows(plan, trace) == walked


def test_a_fault_ratio_gives_the_same_row_in_any_company() -> None:
    plan = Plan(Cluster(288, 4), topologies("nvl72,sip-ring"), [16], 20)
    alone, among = iid_rows(plan, [0.05]), iid_rows(plan, [0.01, 0.05, 0.5])
    assert [row for row in among if row["fault_ratio"] == 0.05] == alone
    assert iid_rows(Plan(Cluster(288, 4), plan.fabrics, [16], 20, seed=1), [0.05]) != alone


outages = st.tuples(st.integers(0, 5), st.integers(0, 30), st.integers(0, 12)).map(lambda o: (o[0], o[1], o[1] + o[2]))


@given(st.lists(outages, max_size=10), st.integers(1, 35))
def test_the_walk_is_what_every_hour_shows(drawn: list[tuple[int, int, int]], horizon: int) -> None:
    columns = np.array(drawn, float).reshape(-1, 3).T
    weight_h, changes = walk(Outages(columns[0].astype(int), columns[1], columns[2]), 6, horizon)
    assert (np.diff(changes.state) >= 0).all()
    by_hour = np.repeat(states_of(changes), weight_h.astype(int), axis=0)
    naive = [[any(n == node and a <= h < b for node, a, b in drawn) for n in range(6)] for h in range(horizon)]
    assert by_hour.tolist() == naive


def test_nodes_are_some_of_the_servers_or_their_halves() -> None:
    """All 30 of 30 servers keep every outage; of 8 nodes of 8, about 8 in 30; halves: one each, seldom both."""
    count = 30_000
    each = Outages(np.arange(count) % 30, np.arange(count, dtype=float), np.arange(count) + 1.0)
    rng = np.random.default_rng(0)
    whole = draw_nodes(each, 30, Cluster(240, 8), rng)
    assert sorted(np.bincount(whole.server).tolist()) == [1000] * 30 and whole.start_h.tolist() == each.start_h.tolist()
    assert len(draw_nodes(each, 30, Cluster(64, 8), rng).server) == 8000
    halves = draw_nodes(each, 30, Cluster(240, 4), rng)
    q = 1 - (1 - 0.0233) ** 0.5
    assert len(halves.server) - count == pytest.approx(q * q / 0.0233 * count, rel=0.25)
    assert len(np.unique(halves.server)) == 60
    assert np.bincount(halves.server).min() > 400  # either half alike
    assert conversion_factor(0.0233) == pytest.approx(q / 0.0233)


def test_weeks_add_up_to_the_mean(public: Trace) -> None:
    plan = Plan(CLUSTER, topologies("infinitehbd-k2,nvl72"), [32], 2)
    days, found = waste_over_time(plan, public, 32)
    weights = np.diff([0, *(2 * np.cumsum([d * (-1) ** n for n, d in enumerate(days)]) * (-1) ** np.arange(len(days)))])
    assert days[:2] == [3.5, 10.5] and len(days) == 50 and weights.sum() == pytest.approx(348)
    for row in trace_rows(plan, public):
        assert np.average(found[row["arch"]], weights=weights) == pytest.approx(row["waste_ratio_mean"])


def test_one_draw_by_hand() -> None:
    """Without waste where all is well: the hours of a replay are those of the trace, each state healthy or not."""
    trace = synthesise(36, 2)
    one = replay(Plan(Cluster(288, 8), topologies("big-switch"), [8], 1), trace, 0)
    assert one.weight_h.sum() == pytest.approx(trace.horizon_h)
    assert (one.usable[0] == one.healthy).all() and one.healthy.max() <= 288


def test_figures_name_what_they_show() -> None:
    trace = synthesise(seed=0)
    plan = Plan(CLUSTER, topologies("infinitehbd-k3,dgx8,tpuv4-slices,sip-ring"), [32], 1)
    over_time = time_figure(plan, trace, 32)
    assert "dgx8" in over_time.caption and "infinitehbd-k3" in over_time.svg and ">dgx8<" not in over_time.svg
    rows = iid_rows(plan, [0.0, 0.05])
    assert "tpuv4-slices, sip-ring" in ratio_figure(plan, rows, 32).svg
    assert "TP-8" in job_figure(plan, trace_rows(Plan(CLUSTER, plan.fabrics, [8, 32], 1), trace)).svg


@pytest.mark.parametrize(
    ("gpus", "each", "said"),
    [
        (3208, 8, "--gpus 3208: 401 servers; synthetic, seed 0 has 400: expected at most 3200 GPUs, or more --servers"),
        (2884, 4, "--gpus 2884: expected a multiple of 8, whole servers of a trace"),
        (2880, 2, "--gpus-per-node 2: a trace is of servers with 8 GPUs; expected 4 or 8"),
        (2880, 16, "--gpus-per-node 16: a trace is of servers with 8 GPUs; expected 4 or 8"),
    ],
)
def test_clusters_that_a_trace_cannot_make(gpus: int, each: int, said: str) -> None:
    with pytest.raises(UserError) as error:
        check_replay(synthesise(seed=0), Cluster(gpus, each))
    assert str(error.value) == said
