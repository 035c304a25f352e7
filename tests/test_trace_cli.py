"""`pimloom trace` as a user types it: printed output, files, the JSON contract, and everything that can be wrong."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pimloom.reports.explain_standard import standards, standards_page
from pimloom.systems.memory.outcome import Outcome
from tests.command import ENVIRONMENT, PIMLOOM, call, snapshot, spawn

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("--pattern", "mixed", "--requests", "2000")
TRACE = "0x0 READ 0\n0x40 WRITE 3\n0x40 READ 4\n0x100000 READ 200\n"
INI = """[dram_structure]
protocol = DDR4
bankgroups = 4
banks_per_group = 4
rows = 65536
columns = 1024
device_width = 8
BL = 8
[timing]
tCK = 0.63
CL = 22
CWL = 16
tRCD = 22
tRP = 22
tRAS = 52
tRFC = 560
tREFI = 12480
tRTP_L = 12
[power]
VDD = 1.2
[system]
channel_size = 16384
channels = 1
bus_width = 64
address_mapping = rochrababgco
queue_structure = PER_BANK
row_buf_policy = OPEN_PAGE
cmd_queue_size = 8
trans_queue_size = 32
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.trc").write_text(TRACE)
    Path("a.ini").write_text(INI)
    Path("far.trc").write_text("0x10 READ 5\n0x7000000000000000 READ 4\n")
    Path("bad.trc").write_text("0x10 READ 5\n0x1g READ 6\n")
    Path("folder").mkdir()


def result(*arguments: str) -> dict:
    done = call("trace", *arguments, "--json", "-")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_the_fields_are_a_contract() -> None:
    section = (ROOT / "CONVENTIONS.md").read_text().partition("## The result of a trace")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == sorted(
        Outcome.__struct_fields__, key=lambda name: re.findall(r"`(\w+)`", " ".join(cells)).index(name)
    )
    assert set(result("ddr4_3200", *SMALL)) == set(Outcome.__struct_fields__)


def test_sums_and_units_agree() -> None:
    found = result("ddr4_3200", *SMALL, "--channels", "2", "--seed", "7")
    assert found["requests"] == found["reads"] + found["writes"] == 2000
    assert found["time_s"] == pytest.approx(found["cycles"] * found["tck_ps"] * 1e-12)
    assert sum(found["energy_by_cause_pj"].values()) == pytest.approx(found["energy_pj"])
    assert found["power_mw"] == pytest.approx(found["energy_pj"] * 1e-12 / found["time_s"] * 1e3)
    assert sum(found["bandwidth_by_channel_gb_s"]) == pytest.approx(found["bandwidth_gb_s"])
    assert found["bandwidth_gb_s"] == pytest.approx(2000 * 64 / found["time_s"] / 1e9)
    assert found["peak_gb_s"] == 2 * 25.6
    ranks = ("rank_active_cycles", "rank_precharged_cycles", "rank_self_refresh_cycles")
    assert sum(found[name] for name in ranks) == 2 * found["cycles"]
    assert found["seed"] == 7 and found["controller"] == "default"


def test_the_same_command_gives_the_same_numbers() -> None:
    def stable() -> dict:
        found = result("lpddr5", *SMALL, "--channels", "4")
        return {name: value for name, value in found.items() if name not in ("wall_s", "requests_per_s")}

    assert stable() == stable()


def test_a_trace_by_hand() -> None:
    """tRCD 22, nCL 22, nBL 4: accepted at 0, moved at 1, ACT at 2, RD at 24, data until 50.

    The read of 0x40 is answered by the write that waits: done one clock after its acceptance.
    """
    done = call("trace", "ddr4_3200", "a.trc", "--commands", "c.csv", "--request-log", "r.csv.gz", "-q")
    assert done == (0, "", "")
    assert Path("c.csv").read_text().splitlines()[:3] == [
        "cycle,command,channel,rank,bank_group,bank,row,column",
        "2,ACT,0,0,0,0,0,0",
        "24,RD,0,0,0,0,0,0",
    ]
    with gzip.open("r.csv.gz", "rt") as file:
        rows = [line.strip() for line in file]
    assert rows[0] == "index,op,address,accept_cycle,done_cycle"
    assert rows[1] == "0,READ,0x0,0,50"
    assert rows[3] == "2,READ,0x40,4,5"
    assert len(rows) == 5


def test_a_trace_may_come_through_a_pipe() -> None:
    command = [*PIMLOOM, "trace", "ddr4_3200", "-", "--json", "-"]
    done = subprocess.run(command, input=TRACE, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    piped, read = json.loads(done.stdout), json.loads(call("trace", "ddr4_3200", "a.trc", "--json", "-").out)
    for found in (piped, read):
        del found["wall_s"], found["requests_per_s"]
    assert piped == read
    os.mkfifo("named")  # whose reader is waited for once
    with subprocess.Popen(["sh", "-c", "cat a.trc > named"]):
        named = json.loads(spawn("trace", "ddr4_3200", "named", "--json", "-").out)
    del named["wall_s"], named["requests_per_s"]
    assert named == read
    Path("-").write_text("LD 0\n")
    assert json.loads(call("trace", "ddr4_3200", "./-", "--json", "-").out)["reads"] == 1


def test_dramsim3_files_bring_their_controller_and_warn() -> None:
    done = call("trace", "a.ini", "a.trc", "--json", "-")
    assert done.code == 0
    assert "pimloom: warning: a.ini:18: DRAMsim3 does not read [timing] tRTP_L: tRTP is 5" in done.err.splitlines()
    found = json.loads(done.out)
    assert found["controller"] == "dramsim3"
    assert found["energy_mw_cycles"] == pytest.approx(found["energy_pj"] / 0.63)
    assert any("tRTP_L" in said for said in found["warnings"])
    ours = json.loads(call("trace", "a.ini", "a.trc", "--controller", "default", "--json", "-").out)
    *of_the_device, last = found["warnings"]
    assert last.startswith("1 write is done as DRAMsim3 has it, but the run ends before its WR")
    assert ours["warnings"] == of_the_device  # the device is still the one that DRAMsim3 would have


def test_what_the_tools_accept_is_a_warning_there_and_an_error_here() -> None:
    done = call("trace", "a.ini", "far.trc", "-q", "--json", "out.json")
    assert (done.code, done.out) == (0, "") and "beyond the capacity" in done.err
    said = json.loads(Path("out.json").read_text())["warnings"]
    assert any("beyond the capacity of 16 GiB" in line for line in said)
    assert any("earlier than the one before" in line for line in said)
    done = call("trace", "ddr4_3200", "far.trc")
    assert done.code == 2 and "far.trc:2: address 0x7000000000000000 is beyond the capacity of 8 GiB" in done.err


@pytest.mark.parametrize("text", ["Frontend: {}\nMemorySystem: {}\n", "MemorySystem: {}\n"])
def test_a_file_of_ramulator_2_0_is_told_from_a_part(text: str) -> None:
    Path("old.yaml").write_text(text)
    done = call("trace", "old.yaml", *SMALL)
    line = text.count("\n")
    assert done.code == 2 and f"old.yaml:{line}: MemorySystem belongs to Ramulator 2.0, expected a file of" in done.err


BAD = {
    ("ddr9", *SMALL): "unknown part 'ddr9'; nearest: ddr5, ddr4,",
    ("nope", *SMALL): "unknown part 'nope'; known parts: ddr4_2400,",
    ("ddr4_3200",): "give a trace file or a --pattern: `pimloom trace ddr4_3200 requests.trc`",
    ("ddr4_3200", "a.trc", "--pattern", "random"): "--pattern random: a.trc is a trace; leave one out",
    ("ddr4_3200", "--pattern", "rnd"): "--pattern rnd: expected one of sequential, random,",
    ("ddr4_3200", "--pattern", "random", "--requests", "1.5"): "--requests: expected a whole number from 1 to 2^63",
    ("ddr4_3200", "none.trc"): "none.trc: no such file",
    ("ddr4_3200", "bad.trc"): "bad.trc:2: expected 0xADDRESS READ|WRITE CYCLE, got '0x1g READ 6'",
    (
        "ddr4_3200",
        "a.trc",
        "--controller",
        "x",
    ): "unknown controller 'x'; known controllers: default,",
    ("ddr4_3200", "a.trc", "--set", "x=1"): "--set x: expected dram.FIELD or controller.FIELD;",
    (
        "ddr4_3200",
        "a.trc",
        "--set",
        "controller.page=x",
    ): "--set controller.page: expected one of adaptive,",
    ("ddr4_3200", "a.trc", "--set", "controller.pages=open"): "--set controller.pages: no such key",
    ("ddr4_3200", "a.trc", "--set", "dram.timing.tRCX=1"): "--set dram.timing.tRCX: no such key",
    ("ddr4_3200", "a.trc", "--set", "dram.timing.tRC=60 nCK"): "--set dram.timing.tRC: expected at least tRAS + tRP",
    (
        "ddr4_3200",
        "a.trc",
        "--set",
        "controller.refresh=per_bank",
    ): "the device has no REFpb, which the controller's refresh needs: set controller.refresh",
    (
        "ddr4_3200",
        "a.trc",
        "--set",
        "controller.quirks=ramulator2",
    ): "expected none or dramsim3 where",
    ("ddr4_3200", "a.trc", "--channels", "3"): "--channels 3: expected a power of two",
    ("ddr4_3200", "a.trc", "--set", "controller.pag=open"): "no such key in default.yaml; nearest: controller.page",
    ("ddr4_3200", "a.trc", "--channels", "0"): "--channels 0: expected 1 to 1024",
    ("ddr4_3200", "a.trc", "--idle", "-1"): "--idle -1: expected clocks >= 0 and <= 1000000000000",
    ("ddr4_3200", "a.trc", "--mapping", "row,bank"): "--mapping row,bank: 2 bits of bank_group are missing",
    ("ddr4_3200", "a.trc", "--mapping", "row,bnk"): "--mapping row,bnk: unknown field 'bnk'; nearest: bank",
    ("ddr4_3200", "a.trc", "--timeline", "t.json", "--window", "9:3"): "--window 9:3: expected FROM:TO in clocks",
    ("ddr4_3200", "a.trc", "--window", "9:30"): "--window 9:30: belongs to --timeline FILE; name one",
    ("ddr4_3200", "a.trc", "--gap", "3"): "--gap 3.0: belongs to a --pattern, and a.trc is a trace; leave one out",
    ("ddr4_3200", "a.trc", "--requests", "3"): "--requests 3: belongs to a --pattern, and a.trc is a trace; leave one",
    ("ddr4_3200", "a.trc", "--commands", "folder"): "--commands folder: is a folder; name a file in it",
    ("ddr4_3200", "a.trc", "--commands", "x", "--json", "x"): "--commands x: is the file of --json too; name another",
    ("ddr4_3200", "a.trc", "--commands", "a.trc"): "--commands a.trc: is the file of the trace too; name another",
    ("ddr4_3200", "a.trc", "--commands", "-"): "--commands -: expected a file, plain or .gz or .zst",
    ("ddr4_3200", "a.trc", "--commands", "c.bz2"): "--commands c.bz2: expected a file, plain or .gz or .zst",
    ("ddr4_3200", "a.trc", "--mapping", ""): "--mapping : unknown field ''",
    ("ddr4_3200", "a.trc", "--set", "controller.structure=buffered"): "drain_low: expected more than 0 where structure",
    ("a.ini", "a.trc", "--channels", "2"): "--channels: a.ini is dramsim3's own file; change it there",
    ("a.trc", "a.trc"): "a.trc: expected a part, a DRAMsim3 .ini or a .yaml file",
}


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_input_is_one_line_and_leaves_nothing(arguments: tuple[str, ...]) -> None:
    before = snapshot(Path())
    done = call("trace", *arguments)
    assert (done.code, done.out) == (2, "")
    assert BAD[arguments] in done.err
    assert done.err.startswith("pimloom: ") and done.err.count("\n") == 1
    assert snapshot(Path()) == before


def test_an_empty_window_is_a_warning() -> None:
    done = call("trace", "ddr4_3200", "a.trc", "--timeline", "t.json", "--window", "9000:9001", "--commands", "c.csv")
    said = "pimloom: warning: --window 9000:9001: nothing happens there; the timeline is empty\n"
    assert (done.code, done.err) == (0, said)
    assert Path("t.json").exists() and Path("c.csv").exists()


LISTEN = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that listens to SIGINT, as one that was started in the background does not; it ends with the test."""
    listen = [sys.executable, "-c", LISTEN, *command]
    with subprocess.Popen(listen, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_an_interrupt_ends_a_run_that_would_last_for_hours() -> None:
    command = [*PIMLOOM, "trace", "ddr4_3200", "--pattern", "random", "--requests", "1e10", "--commands", "c.csv"]
    with started(command) as process:
        while not list(Path().glob(".*.part")):
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr and process.stderr.read() == "pimloom: interrupted; nothing half-written\n"
    assert not Path("c.csv").exists() and not list(Path().glob(".*.part"))


def test_the_timeline_is_drawn() -> None:
    assert call("trace", "hbm2", *SMALL, "--timeline", "t.json", "--window", "10:200", "-q") == (0, "", "")
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    assert {"ACT", "RD"} <= {event["name"] for event in events}


def test_a_pipe_that_closes_is_no_error() -> None:
    assert spawn("trace", "ddr4", *SMALL, "--commands", "/dev/null", "-q").code == 0


def test_the_page_of_standards_is_up_to_date() -> None:
    assert (ROOT / "docs/standards.md").read_text() == standards_page(), (
        "run python -m pimloom.reports.explain_standard"
    )


@pytest.mark.parametrize("name", standards())
def test_a_standard_explains_itself(name: str) -> None:
    done = call("explain", name)
    assert done.code == 0 and done.err == ""
    assert "not modelled: " in done.out and "rule: " in done.out
    assert json.loads(call("explain", name, "--json", "-").out)["standard"] == name


def test_a_policy_field_explains_itself() -> None:
    done = call("explain", "controller.row_hit_cap")
    assert done.code == 0 and "arch/controllers/default.yaml" in done.out
