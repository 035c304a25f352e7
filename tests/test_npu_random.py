"""The compiled NPU with its PIM channels is the naive one, operator for operator and command for command, on random
programs and with any fault repaired."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from threading import Event, active_count
from typing import Any

import pytest

from pimloom.cycle_sim.cores import CORES
from pimloom.cycle_sim.npu_pim import crew
from pimloom.cycle_sim.npu_pim.kernels import machine
from pimloom.cycle_sim.npu_pim.machine import PimError
from pimloom.cycle_sim.npu_pim.operators import gemm
from pimloom.cycle_sim.npu_pim.program import Builder
from tests.draw_npu import Draw, outcome
from tests.slow import slow

pytestmark = pytest.mark.usefixtures("each_program_runs")

CASES = 500
FEW = {  # in the quick suite
    "physical": (1, 2, 3, 4, 5, 6), "chained": (0, 2, 3, 5, 7), "released": (1, 3, 4, 5, 6, 7), "plain": (1, 6, 7),
}  # fmt: skip


def late_store():
    """A task's store, 200 clocks from now, stands in the port before one that is sent sooner."""
    b = Builder()
    op = b.operator("two tasks", ())
    first, second = b.load(op, 64), b.load(op, 64)
    b.task(op, 200, [first], b.store(op, 64))
    b.task(op, 5, [second], b.store(op, 64 * 200))
    return Draw.of(b)


def hashed_block():
    """One of 123 lines is sent twice and another one never."""
    b = Builder()
    op = b.operator("load", ())
    op.loads.append((392340 * 64, 123 * 64, b.group(op)))
    return Draw.of(b, hashed=True)


def idle_refresh():
    """A refresh falls due while the rows of an otherwise idle channel may not be closed yet."""
    b = Builder()
    op = b.operator("load", (), least=1860)
    b.task(op, 1860, [b.load(op, 64)], b.store(op, 64 * 20))
    after = b.operator("task", [op.index], least=1800)
    b.task(after, 1800, [b.load(after, 64)], b.store(after, 64))
    return Draw.of(b)


def drained_pipeline():
    """Steps that start late against their operands end few clocks after these arrive: stores enter the past."""
    b = Builder()
    op = b.operator("gemm", (), in_order=True, least=64)
    gemm(b, op, 1, 32, 640, 32, 2)
    found = Draw.of(b, step=2)
    found.rules = replace(found.rules, rows=32)
    return found


def one_line():
    """Up to 32 reads of a line answer in one clock; the next operator starts inside the window."""
    b = Builder()
    op = b.operator("tiny loads", ())
    for _ in range(64):
        b.load(op, 2)
    after = b.operator("next", [op.index])
    b.load(after, 64 * 40)
    b.load(b.operator("other", (), port=1), 64 * 400)
    found = Draw.of(b)
    found.ports = 2
    return found


def loads_behind_one_that_waits():
    """They leave in the clock in which the store has been answered, not one by one."""
    b = Builder()
    op = b.operator("gated", ())
    store = b.store(op, 64)
    b.task(op, 3, [b.load(op, 64)], store)
    for gate in (store, -1, -1):
        b.load(op, 64 * 20, gate)
    return Draw.of(b)


def block_longer_than_all_addresses():
    """A set holds each line once."""
    b = Builder()
    b.load(b.operator("load", ()), 64 * 300)
    return Draw.of(b, wrap=64 * 128, hashed=True)


def busy_units():
    """The third task goes behind the first, which takes longer than the second; its result is stored first."""
    b = Builder()
    op = b.operator("three tasks", (), least=5)
    groups = [b.load(op, 64) for _ in range(3)]
    last, first, second = [b.store(op, 64) for _ in range(3)]
    for cycles, group, store in zip((50, 10, 5), groups, (first, second, last), strict=True):
        b.task(op, cycles, [group], store)
    return Draw.of(b, in_order=True, units=2)


def ends_at_once():
    """One of the two that end in a clock is noticed a clock late, whatever comes behind waits for it."""
    b = Builder()
    pair = [b.operator("nothing", ()).index for _ in range(2)]
    b.load(b.operator("load", pair, pause=1), 64)
    return Draw.of(b, late=True, steps=2)


CASES_BY_HAND = [
    late_store, hashed_block, idle_refresh, drained_pipeline, one_line, loads_behind_one_that_waits,
    block_longer_than_all_addresses, busy_units, ends_at_once,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES_BY_HAND)
def test_case(case):
    made = case()
    assert outcome(made.compiled) == outcome(made.naive)


def many(kind: str) -> Any:
    """Few seeds in the quick suite, and all of them in four parts."""
    parts = (range(part * CASES, (part + 1) * CASES) for part in range(4))
    return pytest.mark.parametrize("seeds", [FEW[kind], *map(slow, parts)])


@cache
def expected(seed: int, kind: str) -> Any:
    """What the naive machine says, which takes longer than all else."""
    return outcome(drawn(seed, kind).naive)


def drawn(seed: int, kind: str) -> Draw:
    return Draw(seed, **({} if kind == "physical" else {kind: True}))


def assert_equal(seeds: Iterable[int], kind: str) -> None:
    for seed in seeds:
        assert outcome(drawn(seed, kind).compiled) == expected(seed, kind), seed


@many("physical")
def test_random_programs(seeds):
    assert_equal(seeds, "physical")


@many("chained")
def test_requests_that_do_not_wait_for_one_another(seeds):
    assert_equal(seeds, "chained")


@many("plain")
def test_plain_programs_before_the_first_refresh(seeds):
    """Where none of the known differences acts, times of operators agree."""
    found = {seed: expected(seed, "plain") for seed in seeds}
    early = [seed for seed, said in found.items() if said != "closed" and said[-1] < 1950]
    assert early
    for seed in early:
        assert outcome(drawn(seed, "plain").compiled)[0] == found[seed][0], seed


@many("released")
def test_rules_of_the_released_simulator(seeds):
    """All of them together, or each with an even chance."""
    assert_equal(seeds, "released")


@pytest.mark.parametrize("every", [False, slow(True)])
@pytest.mark.parametrize("kind", ["physical", "chained", "released"])
def test_channels_in_threads(kind, every, monkeypatch):
    """A thread for each channel, called for every window."""
    monkeypatch.setattr(crew, "LONG_CK", 1)
    before = CORES.set(3)
    try:
        assert_equal(range(CASES) if every else FEW[kind], kind)
    finally:
        CORES.reset(before)


def test_threads_end_where_the_machine_does(monkeypatch):
    """Also where it stops with an error."""
    monkeypatch.setattr(crew, "LONG_CK", 1)
    before, alive = CORES.set(3), active_count()
    try:
        with pytest.raises(PimError, match="wait for one another for ever"):
            Draw(2443, released=True).compiled()
    finally:
        CORES.reset(before)
    assert active_count() == alive


def test_an_error_of_a_thread_is_the_machines(monkeypatch):
    whole, asked, failed = machine.run_all, Event(), Event()

    def failing(*arguments):
        if arguments[-1]:
            failed.set()
            raise ZeroDivisionError
        code = whole(*arguments)
        if code == machine.ASLEEP:
            asked.set()
        elif asked.is_set():
            assert failed.wait(60)
        return code

    monkeypatch.setattr(crew, "LONG_CK", 1)
    monkeypatch.setattr(machine, "run_all", failing)
    before = CORES.set(2)
    try:
        with pytest.raises(ZeroDivisionError):
            Draw(0).compiled()
    finally:
        CORES.reset(before)


def test_a_controller_that_waits_for_ever_says_so():
    """Blocked: the write list is full and its head waits for a queued read, which does not issue while PIM has the bus;
    PIM's next command waits behind the reads. The naive controller stops there, too."""
    with pytest.raises(PimError, match="wait for one another for ever"):
        Draw(2443, released=True).compiled()
