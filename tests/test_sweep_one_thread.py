"""A sweep's simulators leave the other cores to one another."""

from io import BytesIO

from pimloom.cycle_sim import cores
from pimloom.sweeping.crew import simulator


def test_libraries_of_linear_algebra_have_one_thread():
    assert simulator.ONE_THREAD == {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def test_an_engine_has_one_thread(monkeypatch):
    found = []
    monkeypatch.setattr("pimloom.sweeping.crew.simulator.end_with", lambda lifeline: None)
    monkeypatch.setattr("pimloom.sweeping.crew.simulator.serve", lambda asked, answers: found.append(cores.cores()))
    monkeypatch.setattr("sys.argv", ["simulator", "0"])
    monkeypatch.setattr("os.dup2", lambda a, b: None)
    monkeypatch.setattr("os.dup", lambda a: a)
    monkeypatch.setattr("os.fdopen", lambda a, mode: BytesIO())
    before = cores.CORES.set(None)
    try:
        simulator.main()
    finally:
        cores.CORES.reset(before)
    assert found == [1]


def test_a_process_that_may_use_one_core_takes_one(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3})
    assert cores.cores() == 1
