"""`pimloom fabric switch` as a user types it: printed output, files, timeline, and everything that can be wrong."""

import csv
import json
from decimal import Decimal
from pathlib import Path

import pytest

import pimloom
from pimloom.arch.optics import load_optics
from pimloom.arch.optics_events import load_events
from pimloom.cycle_sim.ocs import Interval
from pimloom.systems.fabric.switch import run_switch
from tests.command import call, snapshot

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/ocs_events.yaml"
TIMES = ("detect", "decide", "reconfigure", "retrain")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def result(*more: str, events: Path | str = EXAMPLE) -> dict:
    done = call("fabric", "switch", "--part", "ocstrx", "--events", events, "--json", "-", *more)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_the_example_by_hand() -> None:
    """80 us of blackout, 1 ms of retrain, one clock of 0.1 us for the request; 110 us until a failover starts."""
    found = result()
    assert [(r["entry"], r["outcome"], r["why"], r["taken"], r["end_us"]) for r in found["rows"]] == [
        ("external_1", "served", None, "external_1", 1080.1),
        ("external_2", "refused", "superseded", None, 900.0),
        ("external_1", "served", None, "external_1", 1080.1),
        ("external_1", "served", None, "external_2", 7000.0),
        ("loopback", "served", None, "loopback", 10080.1),
    ]
    (failover,) = found["failovers"]
    assert failover == {
        "left": "external_1",
        "taken": "external_2",
        "dark_us": 3000.0,
        "start_us": 3110.0,
        "live_us": 4190.0,
        "down_us": 1190.0,
        "work_again_us": 1_004_190.0,
    }
    (burst,) = found["bursts"]
    assert (burst["passed_us"], burst["lost_us"], burst["refused_us"]) == (2810.0, 110.0, 1080.0)
    assert burst["lost_bytes"] == 110e-6 * 800e9 / 8
    assert [(i["state"], i["path"]) for i in found["intervals"]][:4] == [
        ("live", "loopback"),
        ("blackout", "external_1"),
        ("retrain", "external_1"),
        ("live", "external_1"),
    ]
    assert (found["end_us"], found["bound_cycles"], found["clock_ps"]) == (12_000.0, 21_601, 100_000)
    assert found["live_share"] == 1 - 3 * 1080 / 12_000
    assert (found["part"], found["version"]) == ("ocstrx", pimloom.__version__)


def test_intervals_follow_each_other() -> None:
    found = result()["intervals"]
    assert found[0]["start_us"] == 0 and all(
        a["end_cycle"] == b["start_cycle"] for a, b in zip(found, found[1:], strict=False)
    )
    assert sum(i["duration_us"] for i in found) == pytest.approx(12_000)


@pytest.mark.parametrize("name", TIMES)
def test_each_time_of_the_part_bites_by_a_clock(name: str) -> None:
    part = load_optics("ocstrx").value
    longer = getattr(part.timing, name).ps + part.clock_ps
    before, after = result(), result("--set", f"timing.{name}={longer} ps")
    assert after["failovers"][0]["live_us"] == pytest.approx(before["failovers"][0]["live_us"] + 0.1)
    assert after["spec_digest"] != before["spec_digest"]


def test_the_rebuild_bites() -> None:
    (one,) = result("--set", "timing.rebuild=2 ms")["failovers"]
    assert one["work_again_us"] == 4190.0 + 2000.0


def test_what_is_printed() -> None:
    done = call("fabric", "switch", "--events", EXAMPLE)
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "1 500.0 external_2 refused – – 400.0 superseded" in lines
    assert "blackout external_2 3,110.0 80.0" in lines
    assert any(
        line.startswith("failover: external_1 dark from 3,000.0 µs; external_2 live 1,190.0 µs") for line in lines
    )
    assert "data from 2,000.0 to 6,000.0 µs: passed 2,810.0 µs, lost 110.0, refused 1,080.0" in lines
    assert call("fabric", "switch", "--events", EXAMPLE, "-q") == (0, "", "")


def test_files_are_written(tmp_path: Path) -> None:
    files = ("--csv", "r.csv", "--json", "r.json", "--timeline", "t.json")
    assert call("fabric", "switch", "--events", EXAMPLE, *files, "-q") == (0, "", "")
    rows = list(csv.DictReader(Path("r.csv").read_text().splitlines()))
    assert [row["outcome"] for row in rows] == ["served", "refused", "served", "served", "served"]
    assert json.loads(Path("r.json").read_text())["rows"][1]["why"] == rows[1]["why"] == "superseded"


def test_the_timeline_shows_states_requests_light_and_data() -> None:
    assert call("fabric", "switch", "--events", EXAMPLE, "--timeline", "t.json", "-q").code == 0
    found = json.loads(Path("t.json").read_text(), parse_float=Decimal, parse_int=Decimal)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    drawn = [(names[e["tid"]], e["name"], e["ts"], e["dur"]) for e in found if e["ph"] == "X"]
    assert ("state", "blackout", Decimal("3110"), Decimal("80")) in drawn
    assert ("external_2", "live", Decimal("4190"), Decimal("4810.1")) in drawn
    assert ("external_1", "dark", Decimal("3000"), Decimal("5000")) in drawn
    assert ("data", "data", Decimal("2000"), Decimal("4000")) in drawn
    assert ("failovers", "external_1 to external_2", Decimal("3000"), Decimal("1190")) in drawn
    asked = [event for event in drawn if event[0].startswith("requests")]
    assert len(asked) == 5 and ("requests 2", "external_2: refused", Decimal("500"), Decimal("400.1")) in asked


def test_events_without_a_request_leave_a_csv_with_a_head() -> None:
    Path("e.yaml").write_text("events:\n  - at: 1 us\n    fail: external_1\n")
    assert call("fabric", "switch", "--events", "e.yaml", "--csv", "r.csv", "-q").code == 0
    assert Path("r.csv").read_text().startswith("request,cycle,at_us,entry,outcome")
    assert result(events="e.yaml")["intervals"][0]["state"] == "live"


def test_a_time_falls_into_the_next_clock() -> None:
    Path("e.yaml").write_text("events:\n  - at: 100001 ps\n    request: external_1\n  - at: 3 us\n    data: 1 ns\n")
    story = load_events(Path("e.yaml"), load_optics("ocstrx").value)
    assert [tuple(event) for event in story.events] == [(2, "request", 1), (30, "data", 1)]
    run = run_switch(load_optics("ocstrx").value, story)
    assert run.found.intervals[0] == Interval("live", 2, 0, 3)


def events(*lines: str) -> str:
    return "events:\n" + "".join(f"  - {line}\n" for line in lines)


BAD = {
    events(
        "{at: 0 us, request: external_3}"
    ): "e.yaml:2: at $.events[0].request: no entry of the path table 'external_3'",
    events(
        "{at: 0 us, fail: last_1}"
    ): "e.yaml:2: at $.events[0].fail: no path 'last_1'; known: external_1, external_2,",
    events(
        "{at: 5 us, request: loopback}", "{at: 4 us, fail: loopback}"
    ): "e.yaml:3: at $.events[1].at: expected times in",
    events("{at: -1 us, request: loopback}"): "at $.events[0].at: expected a time >= 0, got -1 us",
    events("{at: 3, request: loopback}"): "at $.events[0].at: expected a time with its unit",
    events("{at: 3 nCK, request: loopback}"): "at $.events[0].at: expected a time such as 80 us, got 3 nCK",
    events(
        "{at: 3 us, ask: loopback}"
    ): "at $.events[0]: unknown key 'ask', expected one of at, request, fail, repair,",
    events("{at: 3 us}"): "at $.events[0]: expected one of request, fail, repair, data, got none",
    events(
        "{at: 3 us, fail: loopback, repair: loopback}"
    ): "$.events[0]: expected one of request, fail, repair, data, got",
    events("{request: loopback}"): "at $.events[0]: missing key 'at'",
    events(
        "{at: 3 us, data: 1 ms}", "{at: 4 us, data: 1 us}"
    ): "at $.events[1].data: expected no data before those that",
    events("{at: 3 us, data: -1 us}"): "at $.events[0].data: expected a time",
    events(
        "{at: 3.01 us, request: loopback}", "{at: 3.02 us, request: last_1}"
    ): "a request comes twice in clock 31 of",
    events("{at: 3 us, fail: loopback}", "{at: 3 us, repair: loopback}"): "path loopback comes twice in clock 30 of",
    "events: []\n": "at $.events: expected a list of at least 1, got []",
    "event: []\n": "at $: unknown key 'event', expected one of events, until",
    "events: [\n": "not YAML",
    events("{at: 3 us, request: loopback, request: last_1}"): "duplicate key 'request'",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_events_are_one_line(text: str) -> None:
    Path("e.yaml").write_text(text)
    before = snapshot(Path())
    done = call("fabric", "switch", "--events", "e.yaml", "--timeline", "t.json", "--csv", "r.csv")
    assert (done.code, done.out) == (2, "")
    assert BAD[text] in done.err and done.err.startswith("pimloom: e.yaml") and done.err.count("\n") == 1
    assert snapshot(Path()) == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--part", "gddr6_aim"), "unknown optical part 'gddr6_aim'; known optical parts: ocstrx"),
        (("--set", "timing.retrian=1 ms"), "--set timing.retrian: no such key in ocstrx.yaml; nearest: timing.retrain"),
        (("--set", "timing.retrain"), "--set timing.retrain: expected KEY=VALUE"),
        (("--set", "timing.decide=0 us"), "--set timing.decide: expected more than 0"),
        (("--set", "table.last_1.backup=x"), "--set table.last_1.backup: no entry 'x'; expected one of loopback,"),
        (("--timeline", "none/t.json"), "--timeline none/t.json: there is no folder none; make it first"),
        (("--csv", "x", "--json", "x"), "--csv x: is the file of --json too; name another"),
        (("--csv", str(EXAMPLE)), "is the file of --events too; name another"),
        (("--timeline", "-"), "--timeline -: expected a file"),
        (("--events", "none.yaml"), "none.yaml: no such file"),
    ],
)
def test_bad_options_are_one_line(more: tuple[str, ...], said: str) -> None:
    done = call("fabric", "switch", "--events", EXAMPLE, *more)
    assert (done.code, done.out) == (2, "")
    assert said in done.err and done.err.count("\n") == 1


def test_an_end_before_the_last_event_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "events.yaml"
    file.write_text("events:\n  - at: 5 ms\n    request: external_1\nuntil: 1 ms\n")
    done = call("fabric", "switch", "--events", file)
    assert done.code == 2 and "events.yaml:4: at $.until: expected a time that is not before the last event" in done.err
