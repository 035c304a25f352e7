"""Runs of a stream that stand for many refreshes, each compared with the engine; and runs shared by machines."""

from functools import cache, partial
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.llm import load_llm
from pimloom.arch.program import PimStep
from pimloom.arch.system import load_part, load_system
from pimloom.arch.table import compile_table
from pimloom.cycle_sim import runs
from pimloom.cycle_sim.dram import phases
from pimloom.cycle_sim.dram.phases import Phases, phase_of
from pimloom.cycle_sim.dram.stream import Engine, Issue
from pimloom.cycle_sim.machine import Machine
from pimloom.cycle_sim.run_table import RunTable
from pimloom.cycle_sim.runs import NOT_RUNNING, Known, Run, Stream
from pimloom.mappers.decode import Decoder
from pimloom.mappers.geometry import geometry
from pimloom.mappers.plan import plan
from pimloom.systems.devices.simulate import simulate
from tests.test_machine import TINY

PARTS = {
    "published": {},
    "short interval": {"timing.tREFI": "600 ns", "timing.tRFC": "61 ns"},
    "slow rows": {"timing.tRP": "40 ns", "timing.tRC": "80 ns", "timing.tCCD_L": "5 nCK"},
}


@pytest.mark.parametrize("changed", PARTS.values(), ids=PARTS)
def test_every_refresh_of_every_stream(changed):
    """The middle of a span is taken first, so that spans are found from where they are asked for."""
    part = load_part("gddr6_pim_gpt", changed).value
    table = compile_table(part)
    engine = Engine(table)
    decoder = Decoder(plan(TINY, geometry(part, 2), 64), table)
    for step in decoder.layer_steps(40):
        if not isinstance(step, PimStep):
            continue
        known = Stream(table, step.stream, engine, None)
        dues = np.random.default_rng(1).permutation(np.arange(-20, known.settled_ck + 2)).tolist()
        for due in dues:
            known.compute(partial(Phases(engine).run, step.stream), due, NOT_RUNNING)
            run, found = known.find(due, NOT_RUNNING), engine.issue([step.stream], due_ck=due)
            refreshes = found.refresh_ck[:, 0].tolist()
            assert run is not None
            assert (run.idle, run.refreshes, run.ready) == (found.idle_ck, len(refreshes), int(found.ready_ck.max()))
            assert run.refreshed == (refreshes[-1] if refreshes else NOT_RUNNING)


class Asked(NamedTuple):
    """A stream, when the refresh falls due, since when one is running, and what the engine makes of it."""

    stream: np.ndarray
    due: int
    running: int
    found: Issue


@cache
def asked(changed: str) -> tuple[Engine, list[Asked]]:
    part = load_part("gddr6_pim_gpt", PARTS[changed]).value
    table = compile_table(part)
    engine, steps = Engine(table), Decoder(plan(TINY, geometry(part, 2), 64), table).layer_steps(40)
    streams = [step.stream for step in steps if isinstance(step, PimStep)]
    return engine, [
        Asked(stream, due, running, engine.issue([stream], due_ck=due, refreshed_ck=running))
        for stream, due, running in product(streams, range(-20, 400, 13), (NOT_RUNNING, -1, -17))
    ]


@pytest.mark.parametrize("most", [phases.REFRESHED, 1])  # refreshes of a phase; with more the engine issues it
@pytest.mark.parametrize("changed", PARTS)
def test_a_phase_is_what_the_engine_issues(changed, most, monkeypatch):
    monkeypatch.setattr(phases, "REFRESHED", most)
    engine, every = asked(changed)
    ours = Phases(engine)
    for stream, due, running, found in every:
        assert ours.run(stream, due, running) == phase_of(found, running)
    assert len({len(each.found.refresh_ck) for each in every}) > 1


def test_few_runs_stand_for_many_refreshes():
    part = load_part("gddr6_pim_gpt").value
    table, spec = compile_table(part), load_llm("gpt2")
    step = Decoder(plan(spec, geometry(part, 8), 64), table).layer_steps(1)[1]
    assert isinstance(step, PimStep)
    engine = Engine(table)
    known = Stream(table, step.stream, engine, None)
    for due in range(known.settled_ck + 1):
        if known.find(due, NOT_RUNNING) is None:
            known.compute(partial(Phases(engine).run, step.stream), due, NOT_RUNNING)
    assert len(known.runs) < known.settled_ck / 4


@given(
    known=st.lists(st.integers(0, 300), min_size=1, max_size=12),
    later=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 40)), max_size=30),
)
def test_a_table_of_runs_holds_all_of_them(known, later):
    """Whatever streams know at first and learn in any order; what is known at first takes little more room."""
    table, streams = RunTable(), list[Any]()
    for i, n in enumerate(known):
        streams.append(SimpleNamespace(idle_ck=7 * i, settled_ck=9 * i, runs=_runs(i, n)))
    assert [table.add(stream) for stream in streams] == [*range(len(known))]
    _same(table, streams)
    assert len(table.arrays[1]) <= max(64, 2 * sum(n + n // 8 + 8 for n in known))
    for entry, more in later:
        stream = streams[entry % len(known)]
        stream.runs = _runs(more, len(stream.runs) + more)
        table.renew(entry % len(known))
        _same(table, streams)


def _runs(first: int, n: int) -> np.ndarray:
    return first + np.arange(n * len(Run._fields)).reshape(n, len(Run._fields))


def _same(table: RunTable, streams: list[Any]) -> None:
    entries, rows = table.arrays
    for (idle_ck, settled_ck, first, end), stream in zip(entries.tolist(), streams, strict=False):
        assert (idle_ck, settled_ck) == (stream.idle_ck, stream.settled_ck)
        assert np.array_equal(rows[first:end], stream.runs)


def test_sharing_runs_changes_nothing():
    """Points that share runs, points that got them from elsewhere, and points alone: the same, bit for bit."""
    spec = load_llm("gpt2")
    there, elsewhere = Known(), Known()
    for mhz in (1000, 700, 333):
        system = load_system("pim_gpt", {"npu.clock_mhz": str(mhz)})
        alone, shared = simulate(system, spec, 3), simulate(system, spec, 3, known=there)
        elsewhere.add(there.new)
        there.new = []
        again = simulate(system, spec, 3, known=elsewhere)
        assert alone == shared == again
        assert not elsewhere.new, "nothing is computed twice"
    other = load_system("pim_gpt", {"dram.timing.tCCD_L": "3 nCK"})
    assert simulate(other, spec, 3, known=there) == simulate(other, spec, 3)
    assert there.new, "another table has runs of its own"


def test_streams_that_are_forgotten_are_found_again(monkeypatch):
    """A sweep of many tables keeps no more than so many streams, in the middle of a run, too, and without refresh."""
    spec, known = load_llm("gpt2"), Known()
    monkeypatch.setattr(runs, "MOST_STREAMS", 3)
    for refresh in ("true", "false"):
        system = load_system("pim_gpt", {"dram.refresh": refresh})
        assert simulate(system, spec, 3, known=known) == simulate(system, spec, 3)
        assert 0 < len(known.streams) <= 3


def test_runs_of_another_engine_are_not_taken(monkeypatch):
    """The folder of a sweep keeps runs; whoever changes the engine must not get those of the old one."""
    system, spec, before, after = load_system("pim_gpt"), load_llm("gpt2"), Known(), Known()
    simulate(system, spec, 2, known=before)
    monkeypatch.setattr(runs, "engine_digest", lambda: b"another")
    runs.table_digest.cache_clear()
    after.add(before.new)
    simulate(system, spec, 2, known=after)
    runs.table_digest.cache_clear()
    assert before.new and len(after.new) == len(before.new)
    assert {key for key, _ in before.new}.isdisjoint(key for key, _ in after.new)


def test_a_run_that_lasts_for_weeks_is_refused():
    from pimloom.arch.error import UserError
    from pimloom.arch.program import AsicStep

    table = compile_table(load_part("gddr6_pim_gpt").value)
    machine = Machine(table, 500, 1000, lambda step: step.elements)
    machine.run([AsicStep("long", "add", 2**50)], times=2)
    machine.finish()
    assert machine.outcome.refreshes == machine.outcome.end_ps // 500 // table.rules.refi
    with pytest.raises(UserError, match="longer than 26 days"):
        machine.run([AsicStep("longer", "add", 2**50)])
    with pytest.raises(UserError, match="longer than 26 days"):
        machine.run([AsicStep("longer", "add", 2**60)])
