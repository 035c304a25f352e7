"""Long times without a request: what repeats is summed up, and everything comes out as from clock to clock."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2
from pimloom.arch.memory import Memory
from pimloom.arch.names import list_names
from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.system import load_part
from pimloom.cycle_sim.memory import channel, repeat
from pimloom.cycle_sim.memory.simulate import EVERY_CK, Chunk, simulate
from pimloom.systems.memory.logs import CommandLog, RequestLog, Tee
from pimloom.systems.memory.timeline import WindowLog
from tests.command import call
from tests.foreign import INI, YAML, changed
from tests.slow import OTHER_GRADES, slow

PARTS = ("ddr4_3200", "ddr5_4800", "gddr6_16000", "hbm2_2400", "lpddr5_6400", "hbm3_6400")


class Requests:
    """A log of requests."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []

    def wanted_ck(self) -> tuple[int, int]:
        return 0, 0

    def commands(self, rows: np.ndarray) -> None:
        pass

    def requests(self, rows: np.ndarray) -> None:
        self.rows += rows.tolist()


def told(memory: Memory, chunks: list[Chunk], idle: int) -> tuple[list, list]:
    """All that a run says: what each channel counted, and when each request was served."""
    log = Requests()
    tallies = simulate(memory, chunks, extra_ck=idle, log=log)
    return [(*tally[:3], tally.latency.tolist(), tally.rank_ck) for tally in tallies], log.rows


def compared(memory: Memory, chunks: list[Chunk], idle: int) -> int:
    """Run it from clock to clock, and with what repeats summed up; returns how many rounds were."""
    skipped: list[int] = []
    kept = repeat.repeat

    def counted(state: Any, one: Any, other: Any, times: int) -> None:
        skipped.append(times)
        kept(state, one, other, times)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "FEW", 1 << 60)
        wanted = told(memory, chunks, idle)
        patch.setattr(channel, "FEW", 3)
        patch.setattr(repeat, "repeat", counted)
        assert told(memory, chunks, idle) == wanted
    return sum(skipped)


def own(part: str, refresh_every: int, **fields: Any) -> Memory:
    """A part that refreshes every so many tRFC, behind our controller."""
    found = load_part(part).value
    memory = part_memory(part, found, replace(load_policy("default").value, **fields), channels=2)
    clocks = dict(memory.clocks)
    clocks["tREFI"] = refresh_every * clocks["tRFC"]
    if "tRFCpb" in clocks:
        clocks["tREFIpb"] = max(clocks["tREFI"] // 64, 2 * clocks["tRFCpb"])
    return memory._replace(clocks=clocks)


def chunks_of(memory: Memory, requests: list[tuple[int, bool, int]]) -> list[Chunk]:
    """Address, whether it writes, clocks since the one before; in two chunks."""
    address, write, gap = (np.array(column, np.int64) for column in zip(*requests, strict=True))
    columns = (address % memory.capacity_bytes, write, np.cumsum(gap))
    half = len(address) // 2
    return [Chunk(*(x[:half].copy() for x in columns)), Chunk(*(x[half:].copy() for x in columns))]


gaps = st.one_of(st.integers(0, 30), st.integers(1000, 400_000), st.integers(500_000, 1_000_000))
requests = st.lists(st.tuples(st.integers(0, 2**34), st.booleans(), gaps), min_size=2, max_size=12)
policies = st.fixed_dictionaries(
    {
        "refresh": st.sampled_from(["all_bank", "staggered", "per_bank", "none"]),
        "page": st.sampled_from(["open", "closed", "adaptive"]),
        "page_timeout_ck": st.sampled_from([1, 100, 30_000]),
        "self_refresh_after_ck": st.sampled_from([None, None, 1, 5000, 200_000]),
        "queues": st.sampled_from(["per_bank", "per_rank", "unified"]),
    }
)


@settings(max_examples=18)
@given(part=st.sampled_from(PARTS), every=st.integers(2, 9), fields=policies, asked=requests, idle=gaps)
def test_our_controller(part: str, every: int, fields: dict[str, Any], asked: list, idle: int) -> None:
    timing = load_part(part).value.timing
    if fields["refresh"] == "per_bank" and "tRFCpb" not in timing:
        fields = fields | {"refresh": "all_bank"}
    if fields["self_refresh_after_ck"] and "tXS" not in timing:
        fields = fields | {"self_refresh_after_ck": None}
    memory = own(part, every, **fields)
    compared(memory, chunks_of(memory, asked), idle)


@settings(max_examples=18)
@given(
    refresh=st.sampled_from(["RANK_LEVEL_SIMULTANEOUS", "RANK_LEVEL_STAGGERED", "BANK_LEVEL_STAGGERED"]),
    channels=st.sampled_from([1, 2]),
    page=st.sampled_from(["OPEN_PAGE", "CLOSE_PAGE"]),
    interval=st.integers(1200, 3000),
    sleeps=st.booleans(),
    asked=requests,
    idle=gaps,
)
def test_dramsim3s(
    tmp_path_factory: pytest.TempPathFactory,
    refresh: str, channels: int, page: str, interval: int, sleeps: bool, asked: list, idle: int,
) -> None:  # fmt: skip
    file = tmp_path_factory.mktemp("ini") / "a.ini"
    more = f"[system]\nrefresh_policy = {refresh}\nchannels = {channels}\nrow_buf_policy = {page}"
    often = f"tREFI = {interval}\ntREFIb = {interval}"
    file.write_text(changed(changed(INI, "[system]", more), "tREFI = 12480", often))
    memory = load_dramsim3(file)
    if sleeps:  # only ranks that are never used may: all requests go to the first one
        memory = memory._replace(policy=replace(memory.policy, self_refresh_after_ck=5000))
        asked = [(0x40, write, gap) for _, write, gap in asked]
    compared(memory, chunks_of(memory, asked), idle)


@settings(max_examples=18)
@given(channels=st.sampled_from([1, 2]), interval=st.integers(700, 3000), asked=requests, idle=gaps)
def test_ramulators(
    tmp_path_factory: pytest.TempPathFactory, channels: int, interval: int, asked: list, idle: int
) -> None:
    file = tmp_path_factory.mktemp("yaml") / "a.yaml"
    file.write_text(YAML)
    memory = load_ramulator2(file)
    compared(memory._replace(clocks={**memory.clocks, "tREFI": interval}), chunks_of(memory, asked), idle)


LATE = 10**15  # clocks: a week of DDR4, 80 thousand million refreshes


@pytest.mark.parametrize(
    ("device", "fields"),
    [
        ("ddr4_3200", {}),
        ("ddr5_4800", {"controller.refresh": "staggered"}),
        ("hbm3_6400", {"controller.refresh": "per_bank"}),
        ("lpddr5_6400", {"controller.self_refresh_after_ck": 10**6, "controller.page": "closed"}),
        ("ddr4_3200", {"controller.page": "adaptive", "controller.page_timeout_ck": 10**9}),
        ("ddr4_3200", {"controller.self_refresh_after_ck": 10**18}),
    ],
)
def test_a_late_request_is_served_at_once(tmp_path: Path, device: str, fields: dict[str, Any]) -> None:
    (tmp_path / "a.trc").write_text(f"0x40 READ 7\n0x10 WRITE {LATE}\n0x40 READ {3 * LATE}\n")
    found = pimloom.trace(device, tmp_path / "a.trc", set=fields, idle=10**12, request_log=tmp_path / "r.csv")
    assert found.wall_s < 20  # clock by clock it would be hours
    rows = [line.split(",") for line in (tmp_path / "r.csv").read_text().splitlines()[1:]]
    assert [int(row[3]) for row in rows] == [7, LATE, 3 * LATE]
    assert found.cycles == max(int(row[4]) for row in rows) + 1 + 10**12
    ranks = (found.rank_active_cycles, found.rank_precharged_cycles, found.rank_self_refresh_cycles)
    ranks_of = part_memory("x", load_part(device).value, load_policy("default").value).table.rules.size[2]
    assert sum(ranks) == int(ranks_of) * found.cycles
    assert (ranks[2] > 0.99 * 3 * LATE) == (fields.get("controller.self_refresh_after_ck") == 10**6)


REFRESHES = {"default": ("all_bank", "staggered", "per_bank"), "dramsim3": (None,), "ramulator2": (None,)}


def controlled() -> list[Any]:
    """Daily each part behind our controller, and one in three behind each tool's."""
    found, turn = [], {controller: i for i, controller in enumerate(REFRESHES)}
    for i, device in enumerate(list_names("parts")):
        for controller in REFRESHES:
            daily = controller == "default" or i % 3 == turn[controller]
            found.append((device, controller) if daily and device not in OTHER_GRADES else slow(device, controller))
    return found


@pytest.mark.parametrize(("device", "controller"), controlled())
def test_a_late_request_after_one_at_the_first_clock(tmp_path: Path, device: str, controller: str) -> None:
    """The phase in which rounds are looked at follows from when the one before came: here from clock 0."""
    found = load_part(device).value
    for refresh in REFRESHES[controller]:
        if refresh == "per_bank" and "tRFCpb" not in found.timing:
            continue
        policy = load_policy(controller).value
        memory = part_memory(device, found, replace(policy, refresh=refresh) if refresh else policy)
        late = 100 * max(memory.clocks["tREFI"], 2 * memory.clocks["tRFC"])
        chunks = [Chunk(np.array([0, 0x10]), np.zeros(2, np.int64), np.array([0, late]))]
        assert compared(memory, chunks, 0) > 0
        (tmp_path / "a.trc").write_text(f"0x0 READ 0\n0x10 READ {LATE}\n")
        fields = {"controller.refresh": refresh} if refresh else {}
        done = pimloom.trace(device, tmp_path / "a.trc", controller=controller, set=fields)
        assert done.requests == 2 and done.cycles > LATE


def test_refreshes_of_a_week_by_hand(tmp_path: Path) -> None:
    """One a tREFI of 12,480 clocks, and none after the last request is done."""
    (tmp_path / "a.trc").write_text(f"0x10 READ {LATE}\n")
    found = pimloom.trace("ddr4_3200", tmp_path / "a.trc")
    assert found.commands == {"ACT": 1, "RD": 1, "REFab": LATE // 12480}
    assert found.cycles == LATE + 51 and found.rank_active_cycles == 49  # accepted, ACT 2 later, RD 22, data 26


def test_a_log_of_all_commands_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.trc").write_text(f"0x40 READ 7\n0x10 READ {LATE}\n")
    said = (
        "pimloom: clock 8: no request comes before clock 1000000000000000, and every refresh until then would be "
        "logged; log no commands, or let at most 124800000000 clocks pass\n"
    )
    assert call("trace", "ddr4_3200", "a.trc", "--commands", "c.csv", "-q") == (2, "", said)
    assert not Path("c.csv").exists()
    done = call("trace", "ddr4_3200", "a.trc", "--idle", str(10**12), "--commands", "c.csv", "-q")
    assert done.code == 2


def test_commands_of_a_window_are_all_there_however_late_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refreshes fall due at multiples of 12,480; the window has two of them, far from any request."""
    monkeypatch.chdir(tmp_path)
    Path("a.trc").write_text(f"0x40 READ 7\n0x10 READ {LATE}\n")
    at = 12480 * 10**9
    options = ("--timeline", "t.json", "--window", f"{at}:{at + 2 * 12480}", "-q")
    assert call("trace", "ddr4_3200", "a.trc", *options) == (0, "", "")
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    buses = {(e["name"], e["ts"]) for e in events if e.get("ph") == "X" and e.get("dur") and e["name"] == "REFab"}
    assert len({ts for _, ts in buses}) == 2


def test_a_plain_window_log_wants_what_it_keeps(tmp_path: Path) -> None:
    memory = own("ddr4_3200", 4)
    window, all_of_it = WindowLog(10, 20), CommandLog(tmp_path / "c.csv", memory)
    assert Tee(window, RequestLog(tmp_path / "r.csv")).wanted_ck() == (10, 20)
    assert Tee(window, WindowLog(50, 60)).wanted_ck() == (10, 60)
    assert Tee(all_of_it, window).wanted_ck() == EVERY_CK
    assert Tee(RequestLog(tmp_path / "r.csv")).wanted_ck() == (0, 0)


def test_rounds_that_are_not_alike_end_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """tREFIpb below tRFCpb: ever more refreshes wait."""
    memory = own("hbm3_6400", 4, refresh="per_bank")
    clocks = {**memory.clocks, "tREFIpb": 4}
    monkeypatch.setattr(channel, "MANY", 10_000)
    late = [Chunk(np.array([0x40, 0x80]), np.zeros(2, np.int64), np.array([0, LATE]))]
    with pytest.raises(UserError, match="no round of refreshes is like the one before; refresh less often"):
        simulate(memory._replace(clocks=clocks), late)
