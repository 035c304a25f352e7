"""Outputs of one command appear together or not at all, whatever happens at any step of their writing."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pimloom.arch import files
from pimloom.arch.error import GateError, UserError
from pimloom.arch.files import at_once, prepare_folder, replacing, together, uninterrupted, write_atomic, write_json
from tests.command import call

STEPS = ("replace", "link", "fsync", "open", "fchmod", "unlink")  # of `os`, as files are written and take their places
NAMES = ("index.html", "results.json", "table.csv")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """As the command has them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt(number: int) -> Callable[[], None]:
    def come() -> None:
        os.kill(os.getpid(), number)
        sum(range(1000))  # the handler runs here

    return come


def fail() -> None:
    raise OSError(28, "No space left on device")


EVENTS = {"SIGINT": interrupt(signal.SIGINT), "SIGTERM": interrupt(signal.SIGTERM), "full": fail}


@contextmanager
def happening(
    step: int, event: Callable[[], None], after: bool, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[int]]:
    """At a step, an event comes before or after what is done; yields how many steps there were."""
    count = [0]

    def watched(real: Callable[..., object]) -> Callable[..., object]:
        def done(*args: object, **kwargs: object) -> object:
            mine, count[0] = count[0], count[0] + 1
            if mine == step and not after:
                event()
            found = real(*args, **kwargs)
            if mine == step and after:
                event()
            return found

        return done

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, watched(getattr(os, name)))
        yield count


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("there", [0, 2, 3], ids=["new", "some", "all"])
def test_all_are_old_or_all_are_new_whatever_happens_at_any_step(tmp_path, monkeypatch, there, event, after):
    """Also a failure to keep the old ones, or to put them back."""
    step, left = 0, 1
    while left:
        folder = tmp_path / str(step)
        old = dict.fromkeys(NAMES[:there], "old")
        if there:
            folder.mkdir()
        for name in old:
            (folder / name).write_text("old")
        with happening(step, EVENTS[event], after, monkeypatch) as count, suppress(BaseException), together():
            prepare_folder(folder)
            for name in NAMES:
                write_atomic(folder / name, "new")
        found = contents(folder)
        if event == "full":  # a file that cannot be removed stays
            found = {name: text for name, text in found.items() if name in NAMES}
        new = {name: "new" for name in NAMES}
        assert found in (old, new), step
        assert there or found or not folder.exists(), "an empty folder is left"
        left = count[0] - step
        step += 1
    assert step > 2 * len(NAMES) and found == new


@pytest.mark.parametrize("broken", NAMES)
def test_a_place_that_cannot_be_written_leaves_all_as_they_are(tmp_path, broken):
    """It becomes a folder while the command works."""
    for name in NAMES:
        (tmp_path / name).write_text("old")
    with pytest.raises(UserError, match=f"^cannot write .*{broken}: is a directory; choose another place"), together():
        for name in NAMES:
            write_atomic(tmp_path / name, "new")
        (tmp_path / broken).unlink()
        (tmp_path / broken).mkdir()
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == {
        name: "old" for name in NAMES if name != broken
    }


def test_the_inner_ones_belong_to_the_outer_one(tmp_path):
    with together():
        with together():
            write_json(tmp_path / "a", 1)
        assert not (tmp_path / "a").exists()
        write_json(tmp_path / "own", 1, own=True)
        assert (tmp_path / "own").exists()
        write_json(tmp_path / "a", 2)  # once more: the last one stands
        files.appear()
        assert (tmp_path / "a").read_text() == "2\n"
        with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a"):
            _ = 1 / 0
    assert contents(tmp_path) == {"a": "2\n", "own": "1\n"}


@pytest.mark.parametrize("error", [GateError("a gate"), BrokenPipeError(), UserError("wrong"), SystemExit(143)])
def test_a_gate_that_fails_and_a_reader_that_ends_are_no_failure_to_write(tmp_path, error):
    with pytest.raises(type(error)), together():
        write_atomic(tmp_path / "a", "new")
        raise error
    assert contents(tmp_path) == ({"a": "new"} if isinstance(error, GateError | BrokenPipeError) else {})


def test_signals_come_after_what_they_must_not_interrupt():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interrupt(signal.SIGINT)()
        done.append(1)
    assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler


MODEL = ("--model", "gpt2")
SERVE = ("serve", "gpu_a100", *MODEL, "--arrivals", "poisson:9/s", "--requests", "3", "--lengths", "8:4")
COMPARE = ("compare", "gpu_a100,t4", *MODEL, "--prompt", "4", "--generate", "4")


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", [SERVE, COMPARE], ids=["serve", "compare"])
def test_a_command_that_is_interrupted_leaves_its_outputs_as_they_were(tmp_path, monkeypatch, undrawn, command):
    out = tmp_path / "out"
    to = ("--json", str(tmp_path / "found.json"), "--html", str(out), "-q")
    assert call(*command, *to).code == 0
    before, steps = written(tmp_path), 0
    other = [*command[:-1], "9:5" if command is SERVE else "5"]
    assert {"found.json", "out/index.html", "out/results.json"} <= set(before)
    for step in (0, 4, 9, 12, 14, 15):
        with happening(step, EVENTS["SIGINT"], True, monkeypatch) as count:
            done = call(*other, *to)
        steps, now = count[0], written(tmp_path)
        assert done.code == 130 and done.err == "pimloom: interrupted; nothing half-written\n"
        assert now == before or not set(now.items()) & set(before.items()), step
        before = now
    assert steps > 15


def test_what_the_command_reads_itself_appears_at_once(tmp_path: Path) -> None:
    with suppress(ValueError), together():
        with at_once():
            write_atomic(tmp_path / "waves.vcd", "1")
        assert (tmp_path / "waves.vcd").read_text() == "1"
        write_atomic(tmp_path / "result.json", "{}")
        assert not (tmp_path / "result.json").exists()
        raise ValueError
    assert [file.name for file in tmp_path.iterdir()] == ["waves.vcd"]
