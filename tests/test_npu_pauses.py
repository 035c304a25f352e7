"""The engine pauses between windows so that Python sees signals; a simulation that nobody waits for ends there."""

import time
from threading import Event

import pytest

from pimloom.cycle_sim.cores import CORES, STOP, Stopped, raise_if_stopped
from pimloom.cycle_sim.npu_pim import crew
from pimloom.cycle_sim.npu_pim.kernels import machine
from pimloom.cycle_sim.npu_pim.program import Builder
from pimloom.systems.serving.beside import side_by_side
from tests.draw_npu import Draw, outcome

pytestmark = pytest.mark.usefixtures("each_program_runs")


def many_windows():
    """Loads one behind the other, each of several windows."""
    b, before = Builder(), tuple[int, ...]()
    for _ in range(machine.WINDOWS // 4):
        op = b.operator("load", before)
        b.load(op, 64)
        before = (op.index,)
    return Draw.of(b)


@pytest.fixture
def codes(monkeypatch):
    """What `run_all` returns to the thread that runs the machine."""
    whole, found = machine.run_all, []

    def noted(*arguments):
        code = whole(*arguments)
        if not arguments[-1]:
            found.append(code)
        return code

    monkeypatch.setattr(machine, "run_all", noted)
    return found


@pytest.mark.parametrize("threads", [1, 2])
def test_it_goes_on_where_it_paused(threads, codes, monkeypatch):
    monkeypatch.setattr(crew, "LONG_CK", 1)
    before = CORES.set(threads)
    try:
        made = many_windows()
        assert outcome(made.compiled) == outcome(made.naive)
    finally:
        CORES.reset(before)
    back = {machine.PAUSED} if threads == 1 else {machine.PAUSED, machine.ASLEEP}  # each lets Python see signals
    assert len(codes) > 2 and set(codes[:-1]) <= back and codes[-1] == machine.ALL_DONE


def test_it_ends_at_the_pause_after_it_is_stopped(codes, monkeypatch):
    stop, noted = Event(), machine.run_all

    def stopped_meanwhile(*arguments):
        code = noted(*arguments)
        stop.set()
        return code

    monkeypatch.setattr(machine, "run_all", stopped_meanwhile)
    before = STOP.set(stop)
    try:
        with pytest.raises(Stopped):
            many_windows().compiled()
        assert codes == [machine.PAUSED]
        with pytest.raises(Stopped):  # it does not begin
            many_windows().compiled()
        assert codes == [machine.PAUSED]
    finally:
        STOP.reset(before)


def pair(first):
    """Two simulations: one does `first` when the other has begun, which goes on until it is stopped, or for a minute;
    and a list that takes the number of the one that was stopped."""
    ended, begun = list[int](), Event()

    def simulate(number):
        if number == 0:
            assert begun.wait(60)
            return first()
        begun.set()
        for _ in range(6000):
            try:
                raise_if_stopped()
            except Stopped:
                ended.append(number)
                raise
            time.sleep(0.01)
        return number

    return simulate, ended


@pytest.fixture
def two_cores():
    before = CORES.set(2)
    yield
    CORES.reset(before)


def test_what_runs_side_by_side_ends_with_whoever_asked(two_cores):
    simulate, ended = pair(lambda: "done")
    found = side_by_side(simulate, [0, 1], lambda done: None)
    assert next(found) == "done"
    found.close()
    assert ended == [1]


def test_an_error_of_one_ends_the_others(two_cores):
    simulate, ended = pair(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(simulate, [0, 1], lambda done: None))
    assert ended == [1]
