"""Synthetic fault traces: like the public one by two-sample tests that a plainly wrong generator fails."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.systems.fabric.faults.events import read_faults, write_faults
from pimloom.systems.fabric.faults.fit import fit, load_fitted
from pimloom.systems.fabric.faults.statistics import fault_statistics
from pimloom.systems.fabric.faults.synthetic import node_names, repair_times_h, synthesise
from pimloom.systems.fabric.faults.trace import Outages, Trace

SEEDS = range(20)
LEAST = 0.005  # p below which a trace is told apart: one in 200 that is like the public one
WEEK_H = 7 * 24


def samples(trace: Trace) -> dict[str, np.ndarray]:
    """What is compared: repair times [h], outages that begin in each whole week, outages of each server."""
    outages = trace.outages()
    weeks = int(trace.horizon_h // WEEK_H)
    return {
        "repair": outages.end_h - outages.start_h,
        "weeks": np.histogram(outages.start_h, bins=weeks, range=(0, weeks * WEEK_H))[0],
        "servers": np.bincount(outages.server, minlength=trace.servers),
    }


TESTS = {  # what is compared, by which function of scipy.stats
    "repair": ("repair", "ks_2samp"),
    "servers": ("servers", "ks_2samp"),
    "weeks": ("weeks", "ks_2samp"),
    "spread of weeks": ("weeks", "levene"),  # Brown and Forsythe's: busy and quiet weeks
}


def told_apart(a: dict[str, np.ndarray], b: dict[str, np.ndarray], test: str) -> bool:
    from scipy import stats  # slow to import, and only one of the workers needs it

    what, compare = TESTS[test]
    return bool(getattr(stats, compare)(a[what], b[what]).pvalue < LEAST)


@pytest.fixture(scope="module")
def public(fault_trace: Path) -> Trace:
    return read_faults(fault_trace)


@pytest.fixture(scope="module")
def made() -> list[Trace]:
    return [synthesise(seed=seed) for seed in SEEDS]


def test_the_figures_that_ship_are_those_of_the_public_trace(public: Trace) -> None:
    assert fit(public) == load_fitted()


@pytest.mark.parametrize("test", list(TESTS))
def test_synthetic_traces_are_not_told_apart_from_the_public_one(public: Trace, made: list[Trace], test: str) -> None:
    real = samples(public)
    assert sum(told_apart(real, samples(trace), test) for trace in made) <= 1


def test_a_wrong_generator_is_told_apart(public: Trace) -> None:
    """Exponential repair times of the right mean, outages at a steady rate, on servers that fail alike."""
    real, rng = samples(public), np.random.default_rng(0)
    for _ in range(5):
        count = len(real["repair"])
        wrong = {
            "repair": rng.exponential(real["repair"].mean(), count),
            "weeks": rng.poisson(count / len(real["weeks"]), len(real["weeks"])),
            "servers": rng.poisson(count / public.servers, public.servers),
        }
        assert all(told_apart(real, wrong, test) for test in ("repair", "servers", "spread of weeks"))


def test_means_of_many_synthetic_traces_are_those_of_the_public_one(public: Trace, made: list[Trace]) -> None:
    real, ours = fault_statistics(public), [fault_statistics(trace) for trace in made]

    def mean(name: str) -> float:
        return float(np.mean([getattr(one, name) for one in ours]))

    assert mean("outages") == pytest.approx(real.outages, rel=0.1)
    assert mean("servers_that_fail") == pytest.approx(real.servers_that_fail, rel=0.05)
    assert mean("fault_ratio_mean") == pytest.approx(real.fault_ratio_mean, rel=0.1)
    assert mean("mttr_median_h") == pytest.approx(real.mttr_median_h, rel=0.15)
    assert mean("faulty_p99") == pytest.approx(real.faulty_p99, rel=0.35)


def test_bad_stretches_stay(made: list[Trace]) -> None:
    """The worst 29 days have about twice the mean of faulty servers; 1.6 times at a steady rate."""
    steady = msgspec.structs.replace(
        load_fitted(),
        fresh_by_window=[28] * 12,
        rank_mean_by_window=[0.5] * 12,
        rank_deviation_by_window=[0.2887] * 12,
        relapse_share_by_window=[0.4165] * 12,
    )

    def worst(traces: list[Trace]) -> float:
        found = [fault_statistics(trace) for trace in traces]
        return float(np.mean([max(one.fault_ratio_by_window) / one.fault_ratio_mean for one in found]))

    assert worst(made) > 1.9 > 1.75 > worst([synthesise(seed=seed, fitted=steady) for seed in SEEDS])
    assert np.mean([np.var(weeks := samples(trace)["weeks"]) / np.mean(weeks) for trace in made]) > 3  # 1 if alone


def test_repair_times_follow_their_quantiles() -> None:
    fitted = load_fitted()
    assert repair_times_h(fitted, np.array(fitted.repair_shares)).tolist() == fitted.repair_h


@settings(max_examples=20)
@given(st.integers(1, 1200), st.integers(0, 2**32))
def test_a_synthetic_trace_can_be_walked(servers: int, seed: int) -> None:
    trace = synthesise(servers, seed)
    assert (trace.start_h >= 0).all() and (np.diff(trace.start_h) >= 0).all()
    assert (trace.start_h <= trace.end_h).all() and (trace.end_h <= trace.horizon_h).all()
    assert len(trace.server) == 0 or (trace.server.min(), trace.server.max() < servers) == (0, True)


def test_the_same_seed_gives_the_same_trace_and_another_one_does_not() -> None:
    one, again, other = synthesise(seed=3), synthesise(seed=3), synthesise(seed=4)
    assert one.start_h.tolist() == again.start_h.tolist() and one.kinds == again.kinds
    assert len(one.start_h) != len(other.start_h) or one.start_h.tolist() != other.start_h.tolist()


def test_more_servers_fail_in_proportion() -> None:
    assert len(synthesise(4000, 1).server) == pytest.approx(
        10 * np.mean([len(synthesise(400, s).server) for s in SEEDS]), rel=0.15
    )


def test_a_written_synthetic_trace_is_read_as_it_was(tmp_path: Path) -> None:
    trace = synthesise(seed=5)
    write_faults(tmp_path / "s.json", trace, node_names(trace, 5))
    again = read_faults(tmp_path / "s.json", days=348)
    assert (again.server.tolist(), again.kinds, again.kind.tolist()) == (
        trace.server.tolist(),
        trace.kinds,
        trace.kind.tolist(),
    )
    ours, theirs = trace.outages(), again.outages()
    for column in Outages._fields:
        assert getattr(ours, column).tolist() == getattr(theirs, column).tolist()


@pytest.mark.parametrize("servers", [0, 16_385])
def test_how_many_servers(servers: int) -> None:
    with pytest.raises(UserError, match=f"--servers {servers}: expected 1 to 16384 of a synthetic trace"):
        synthesise(servers)
