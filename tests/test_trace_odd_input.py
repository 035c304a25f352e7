"""Numbers and words that no line has room for, in traces and options of `pimloom trace`: one line, and no file."""

from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from tests.command import call, snapshot

DIGITS, WORD = "9" * 5000, "x" * 60_000
LONGEST = 600  # characters of a message
SMALL = ("ddr4_3200", "--pattern", "random", "--requests", "10")

LINES = {  # the second line of a trace
    "digits": f"0x10 READ {DIGITS}",
    "zeros": f"0x10 READ {'0' * 5000}7",
    "an address of digits": f"0x{DIGITS} READ 7",
    "infinite": "0x10 READ inf",
    "no number": "0x10 READ nan",
    "beyond a float": "0x10 READ 1e400",
    "beyond the engine": f"0x10 READ {2**59}",
    "digits that are not ASCII": "0x10 READ ٧",
    "signed": "0x10 READ +7",
    "a long word": f"0x10 {WORD} 7",
    "a long line": "0x10 READ 7" + " 1" * 50_000,
    "a NUL": "0x10 READ 7\0",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("controller", ["default", "dramsim3", "ramulator2"])
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_line_of_a_trace(line: str, controller: str) -> None:
    Path("a.trc").write_text(f"0x10 READ 5\n{line}\n")
    done = call("trace", "ddr4_3200", "a.trc", "--controller", controller, "--commands", "c.csv", "--json", "r.json")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("pimloom: a.trc:2: ") and len(done.err) < LONGEST
    assert set(snapshot(Path())) == {"a.trc"}


@pytest.mark.parametrize("controller", ["default", "dramsim3", "ramulator2"])
def test_the_latest_cycle_of_all(controller: str) -> None:
    Path("a.trc").write_text(f"0x10 READ 5\n0x20 WRITE {2**59 - 1}\n")
    done = call("trace", "ddr4_3200", "a.trc", "--controller", controller, "--idle", str(10**12), "-q")
    assert done.code == 0 and done.out == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mapping", f"row:{DIGITS}"), "expected a number of bits after row:, got '99999"),
        (("--mapping", "row:٣"), "expected a number of bits after row:, got '٣'"),
        (("--mapping", WORD), "unknown field 'xxxxx"),
        (("--timeline", "t.json", "--window", f"0:{DIGITS}"), "expected FROM:TO in clocks with 0 <= FROM < TO"),
        (("--timeline", "t.json", "--window", "0:٣"), "expected FROM:TO in clocks with 0 <= FROM < TO"),
        (("--set", f"controller.{WORD}=1"), "xxxxx"),
        (("--set", f"dram.timing.tRP={DIGITS} ns"), "dram.timing.tRP: "),
        (("--set", f"controller.page_timeout_ck={DIGITS}"), "controller.page_timeout_ck: "),
        (("--controller", WORD), "File name too long"),
        (("--commands", WORD), "File name too long"),
        (("--seed", DIGITS), "--seed"),
        (("--idle", DIGITS), "--idle"),
        (("--gap", "inf"), "--gap: expected a number of clocks of at least 0, got inf"),
        (("--channels", DIGITS), "--channels"),
    ],
)
def test_an_option(options: tuple[str, ...], said: str) -> None:
    done = call("trace", *SMALL, *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err and len(done.err) < LONGEST
    assert snapshot(Path()) == {}


def test_a_device_and_a_trace_whose_names_are_too_long() -> None:
    Path("a.trc").write_text("0x10 READ 5\n")
    for arguments in ((WORD, "a.trc"), (f"{WORD}.ini", "a.trc"), ("ddr4_3200", WORD)):
        done = call("trace", *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("pimloom: xxxxx") and done.err.endswith(": File name too long\n")
        assert len(done.err) < LONGEST


def test_a_requests_count() -> None:
    for count in (DIGITS, "1e999999999", "1e-999999999", "sNaN", "inf"):
        done = call("trace", "ddr4_3200", "--pattern", "random", "--requests", count)
        assert (done.code, done.err.count("\n")) == (2, 1) and len(done.err) < LONGEST
        assert done.err.startswith("pimloom: --requests: expected a whole number from 1 to 2^63 - 1")


HUGE = 10**5000  # Python does not write it


@pytest.mark.parametrize(
    "argument",
    [
        {"idle": HUGE},
        {"requests": -HUGE},
        {"seed": HUGE},
        {"gap": HUGE},
        {"stride": HUGE},
        {"channels": HUGE},
        {"set": {"controller.page_timeout_ck": HUGE}},
        {"set": {"dram.tCK_ps": HUGE}},
    ],
)
def test_an_argument_in_python(argument: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        pimloom.trace("ddr4_3200", **{"pattern": "strided", "requests": 5, **argument})
    said = str(caught.value)
    assert said.startswith(("set: controller", "set: dram", *argument)) and len(said) < LONGEST and "\n" not in said
