"""An interrupt stops a sweep, whatever runs when it comes, and the rows that are there are kept."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.sweeping.crew import cluster
from pimloom.sweeping.crew.chunk import SchedulerLost
from pimloom.sweeping.crew.worker import Finished
from pimloom.sweeping.filling import Filling
from pimloom.sweeping.run import Options, run_sweep
from pimloom.sweeping.stopping import going_on
from pimloom.sweeping.table import open_table
from tests.sweep_crew import Store, finished


class Future:
    """Sends a signal to this process while it is collected, where Python raises nothing."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        sum(range(1000))  # the handler runs here


class Cluster:
    """Finishes one chunk a turn; at the third, what held its result is collected."""

    wants = 1

    def __init__(self, number: int) -> None:
        self._number, self._chunks, self.turns = number, list[Any](), 0

    def threads(self) -> int:
        """One."""
        return 1

    def submit(self, chunk: Any) -> None:
        """Take a chunk."""
        self._chunks.append(chunk)

    def finished(self, wait_s: float) -> list[Finished]:
        """What was sent last."""
        self.turns += 1
        if self.turns == 3:
            Future(self._number)
        keys = self._chunks.pop(0).points
        return [finished(key, 0.0) for key in keys]

    def left_over(self) -> list[Any]:
        """None."""
        return []

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """Those of the command: an interrupt is a KeyboardInterrupt, an end a SystemExit."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def fill(crew: Cluster, said: Callable[[str], None]) -> list[str]:
    """A long sweep; the keys of the rows that were kept."""
    store = Store()
    with (
        going_on(Path("here"), said) as raised,
        Filling(SimpleNamespace(code=""), store, lambda: crew, check=raised.check) as filling,  # type: ignore[arg-type, return-value]
    ):
        try:
            filling.fill({str(n): {}} for n in range(1000))
        finally:
            filling.flush()
    return store.kept


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_an_interrupt_while_something_is_collected_stops_the_sweep(
    monkeypatch: pytest.MonkeyPatch, number: int, raised: type[BaseException]
) -> None:
    ignored, said = list[Any](), list[str]()
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    crew = Cluster(number)
    with pytest.raises(raised):
        fill(crew, said.append)
    assert crew.turns == 3
    assert said == ["stopped; all finished rows are kept in here, the same command goes on"]
    assert not ignored, "no line of Python's about what it could not raise"
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert sys.unraisablehook == ignored.append


@pytest.mark.usefixtures("own_handlers")
def test_an_interrupt_elsewhere_stops_the_sweep_at_once() -> None:
    class Plain(Cluster):
        def finished(self, wait_s: float) -> list[Finished]:
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(1000))
            raise AssertionError("goes on")

    with pytest.raises(KeyboardInterrupt):
        fill(Plain(signal.SIGINT), list[str]().append)


@pytest.mark.usefixtures("own_handlers")
def test_an_interrupt_while_a_lost_scheduler_is_waited_for_stops_the_sweep() -> None:
    class Lost(Cluster):
        scheduler, looks = "here", 0

        def finished(self, wait_s: float) -> list[Finished]:
            raise SchedulerLost

        def take_back(self) -> list[Any]:
            return self._chunks

        def connect(self, within_s: float) -> None:
            self.looks += 1
            Future(signal.SIGINT)
            raise UserError("nobody answers")

    crew = Lost(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fill(crew, list[str]().append)
    assert crew.looks == 1


@pytest.mark.usefixtures("own_handlers")
def test_a_sweep_looks_for_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All the way from `run_sweep`, whose crew's points all fail."""

    class Failing(Cluster):
        def __init__(self, *_: object) -> None:
            super().__init__(signal.SIGINT)

        def __enter__(self) -> "Failing":
            return self

        def finished(self, wait_s: float) -> list[Finished]:
            return [one._replace(answer=None, failure="broken") for one in super().finished(wait_s)]

    monkeypatch.setattr(cluster, "Crew", Failing)
    clocks = {"from": 100, "to": 2000, "step": 1}
    sweep = {"system": "pim_gpt", "workload": {"model": "gpt2", "generate": 1}, "axes": {"npu.clock_mhz": clocks}}
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, tmp_path, Options())
    assert 3 <= len(open_table(tmp_path).table.frame) < 1900


def test_beside_the_main_thread_no_handler_is_touched() -> None:
    before, kept = (signal.getsignal(signal.SIGINT), sys.unraisablehook), list[int]()

    def work() -> None:
        with going_on(Path("here"), list[str]().append):
            assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before
            kept.append(1)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert kept


def test_what_ends_a_process_without_a_word_still_does() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with going_on(Path("here"), list[str]().append):
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("own_handlers")
def test_what_else_is_collected_says_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __del__(self) -> None:
            raise KeyboardInterrupt("of its own")

    ignored, said = list[str](), list[str]()
    monkeypatch.setattr(sys, "unraisablehook", lambda found: ignored.append(str(found.exc_value)))
    with going_on(Path("here"), said.append) as raised:
        Broken()
        raised.check()
    assert ignored == ["of its own"] and not said


def test_a_handler_that_raises_nothing_stops_nothing() -> None:
    seen, said, before = list[int](), list[str](), signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        assert len(fill(Cluster(signal.SIGINT), said.append)) == 1000
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT] and not said
