"""An interrupt is never lost: not where Python raises nothing, nor at any other moment of a report."""

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from pimloom.rtl.flow.simulator.environment import SimulationError, exits
from pimloom.sweeping.stopping import ending_at_once
from pimloom.systems.interrupts import Raised, end_at_once, remembered_by
from pimloom.systems.pool import run_all
from tests.command import ENVIRONMENT, call

SEEDS = range(4)
EACH = 15  # interrupts with a seed
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a job in the background ignores it
# says when it is ready, so that no interrupt comes while Python itself starts
MAIN = "import sys; from pimloom.cli import main; print('ready', flush=True); sys.argv[0] = 'pimloom'; main()"


class Collected:
    """Interrupts this process while it is collected, where what the handler raises is lost."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))  # the handler runs here


@pytest.fixture
def own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def snooze(seconds, job):
    time.sleep(seconds)
    return job


def test_an_interrupt_where_python_raises_nothing_ends_the_pool(own_handler, capfd):
    """The results that are there are given, none that takes long is waited for."""
    found, began = [], time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for job, result in run_all(partial(snooze, 0.05), range(2000)):
            assert job == result
            found.append(job)
            if len(found) == 3:
                Collected()
    assert 3 <= len(found) < 100 and time.monotonic() - began < 20
    assert capfd.readouterr().err == ""


def test_so_does_one_behind_the_last_result(own_handler):
    with pytest.raises(KeyboardInterrupt):
        for job, _ in run_all(partial(snooze, 0), range(2)):
            if job == 1:
                last = Collected()
                del last
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_workers_are_not_interrupted_themselves(own_handler, capfd):
    """The terminal interrupts all processes; the workers ignore it from the first moment on."""
    script = (
        f"{HEED}\nimport os\nfrom functools import partial\nfrom pimloom.systems.pool import run_all\n"
        "from tests.test_interrupts import snooze\n"
        "try:\n    for job, _ in run_all(partial(snooze, 0.01), range(10000)):\n"
        "        os.killpg(0, signal.SIGINT)\nexcept KeyboardInterrupt:\n    print('stopped')\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=ENVIRONMENT, start_new_session=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("stopped\n", "", 0)


def hanging_up(job):
    return signal.getsignal(signal.SIGHUP)


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN, lambda *_: None], ids=["none", "nohup", "ours"])
def test_workers_end_with_their_terminal_unless_nohup_is_there(handler):
    """Without a handler the parent ends at once, and nobody would end them."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        found = [of_worker for _, of_worker in run_all(hanging_up, range(2))]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert found == [signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL] * 2


def test_a_sweep_that_ends_heeds_what_was_heeded_before():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_at_once():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is end_at_once
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_bench_that_is_told_to_end_has_not_failed(tmp_path, number):
    with pytest.raises(SystemExit), exits(tmp_path / "log", "cannot build"):
        sys.exit(128 + number)
    with pytest.raises(SimulationError, match="^cannot build"), exits(tmp_path / "log", "cannot build"):
        sys.exit(1)


def test_a_command_whose_interrupt_was_lost_says_so(own_handler, monkeypatch):
    """It goes on to its end, but does not call that a success."""

    def listed():
        Collected()
        return {}

    monkeypatch.setattr("pimloom.reports.terminal.catalogue.catalogue", listed)
    done = call("list", "--json", "-")
    assert (done.code, done.err) == (130, "pimloom: interrupted; nothing half-written\n")


def test_what_is_remembered_is_raised_once(own_handler):
    raised = Raised()
    with remembered_by(raised):
        raised.check()
        Collected()
        assert raised.interrupted
        with pytest.raises(KeyboardInterrupt):
            raised.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# interrupts itself when it begins the Nth import, open or exec behind the first line of pimloom; as the command, or -m
START = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
moment, module = int(sys.argv[1]), sys.argv[2] == "-m"
left = [moment]
def watch(event, arguments):
    if event in ("import", "open", "exec") and getattr(sys.modules.get("pimloom"), "__doc__", None):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["-m" if module else "/usr/bin/pimloom", "--version"]
sys.orig_argv = ["python", "-m", "pimloom", "--version"] if module else sys.argv
sys.addaudithook(watch)
if module:
    runpy.run_module("pimloom", run_name="__main__", alter_sys=True)
from pimloom.__main__ import main
sys.exit(main())
"""


def started(moment: int, how: str) -> tuple[int, str]:
    command = [sys.executable, "-c", START, str(moment), how]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("moment", "how"), [(1, "-m"), (2, "command"), (40, "-m"), (150, "command"), (100_000, "-m")])
def test_an_interrupt_while_the_command_starts_is_no_traceback(moment, how):
    code, said = started(moment, how)
    assert code == (0 if moment == 100_000 else 130) and said in ("", "pimloom: interrupted; nothing half-written\n")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["command", "-m"])
def test_nor_at_any_other_moment(how):
    """From the entry into pimloom to the end of the process."""
    step, code, moments = 7, 130, 0
    while code == 130:
        code, said = started(1 + moments * step, how)
        assert said in ("", "pimloom: interrupted; nothing half-written\n"), moments * step
        moments += 1
    assert code == 0 and moments > 20


def test_a_program_that_uses_pimloom_has_its_own_interrupts():
    script = f"{HEED}import pimloom; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_report_is_interrupted_at_any_moment(seed, tmp_path):
    """As by a terminal, which interrupts all processes: exit code 130, one line, no file but whole ones, no process."""
    rng = random.Random(seed)
    for number in range(EACH):
        out = tmp_path / str(number)
        command = [sys.executable, "-c", HEED + MAIN, "report", "pim-gpt", "--out", str(out)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        ) as process:
            assert process.stdout and process.stderr
            assert process.stdout.readline() == "ready\n"
            moment = rng.uniform(0, 6)
            time.sleep(moment)
            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "pimloom: interrupted; nothing half-written\n"), moment
        assert not list(out.glob(".*")) if out.exists() else True
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
