"""A program that ran before leaves what it left then, and the machine does not run."""

import shutil

import pytest

from pimloom.arch.system import load_system
from pimloom.cycle_sim.npu_pim import machine
from pimloom.cycle_sim.npu_pim.build import policy_of
from pimloom.cycle_sim.npu_pim.crew import Crew
from pimloom.cycle_sim.npu_pim.known import kept_in
from pimloom.cycle_sim.npu_pim.program import Builder
from pimloom.systems.devices.npu_pim.laid import channel_of
from tests.draw_npu import Draw, outcome

pytestmark = pytest.mark.usefixtures("each_program_runs")


@pytest.fixture
def crews(monkeypatch):
    """One entry for each time that the machine runs."""
    found = []

    class Counted(Crew):
        def run(self):
            found.append(self)
            return super().run()

    monkeypatch.setattr(machine, "Crew", Counted)
    return found


def two_tasks(cycles):
    b = Builder()
    op = b.operator("two tasks", ())
    first, second = b.load(op, 64), b.load(op, 640)
    b.task(op, 20, [first], b.store(op, 64))
    b.task(op, cycles, [second], b.store(op, 64 * 20))
    return Draw.of(b)


KINDS: tuple[dict[str, bool], ...] = ({}, {"chained": True}, {"released": True})


@pytest.mark.parametrize(("kind", "seed"), [(KINDS[seed % 3], seed) for seed in (6, 7, 8, 9, 13, 23)])
def test_the_second_time_is_the_first(kind, seed, tmp_path, crews):
    drawn = Draw(seed, **kind)
    with kept_in(tmp_path):
        first = outcome(drawn.compiled)
        assert len(crews) == 1
        assert outcome(drawn.compiled) == first == outcome(drawn.naive)
    assert len(crews) == 1
    assert outcome(drawn.compiled) == first
    assert len(crews) == 2  # outside, everything runs


def test_an_error_is_not_kept(tmp_path, crews):
    drawn = Draw(2443, released=True)
    with kept_in(tmp_path):
        assert [outcome(drawn.compiled) for _ in range(2)] == ["for ever"] * 2
    assert len(crews) == 2


def test_another_number_is_another_program(tmp_path, crews):
    with kept_in(tmp_path):
        mine, other = (outcome(two_tasks(cycles).compiled) for cycles in (5, 60))
    assert len(crews) == 2 and mine != other
    assert (mine, other) == tuple(outcome(two_tasks(cycles).naive) for cycles in (5, 60))


def test_other_names_are_the_same_program(tmp_path, crews):
    """Names are the caller's own; what ran says them as they are now."""
    mine, other = two_tasks(5), two_tasks(5)
    other.builder.operators[0].name = "renamed"
    with kept_in(tmp_path):
        assert outcome(mine.compiled)[0][0][0] == "two tasks"
        assert outcome(other.compiled)[0][0][0] == "renamed"
    assert len(crews) == 1


def test_without_room_it_runs_again(tmp_path, crews):
    folder = tmp_path / "gone"
    folder.mkdir()
    with kept_in(folder):
        first = outcome(two_tasks(5).compiled)
        shutil.rmtree(folder)
        assert [outcome(two_tasks(5).compiled) for _ in range(2)] == [first] * 2
    assert len(crews) == 3


@pytest.mark.parametrize("fault", ["headers_early", "slack_stale", "gact_counts_little", "gemv_answers_early"])
def test_rules_of_pim_commands_are_no_other_program_without_pim(fault):
    def policy(name, faulty):
        spec = channel_of(load_system(name, {f"faults.{fault}": faulty}))
        return policy_of(spec, spec.device()).tolist()

    assert policy("npu_only", "true") == policy("npu_only", "false")
    assert policy("neupims", "true") != policy("neupims", "false")
