"""`pimloom sweep FILE` from its command line: files and options that do not fit, real points, the progress bar."""

import json
import os
import pty
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pimloom.sweeping.crew import cluster
from pimloom.sweeping.progress import Rate, Shown, said
from pimloom.sweeping.table import open_table
from tests.command import call
from tests.sweep_place import Place, port, wait
from tests.test_sweep_faults import place

__all__ = ["place"]

ROOT = Path(__file__).resolve().parent.parent
TINY = {"model_type": "gpt2", "n_layer": 1, "n_embd": 256, "n_head": 4, "n_positions": 256, "vocab_size": 1000}
REAL = """
system: pim_gpt
workload: {model: config.json, prompt: 0, generate: 1, batch: [1, 2]}
axes: {npu.clock_mhz: [500, 1000]}
objectives: {tokens_per_s: max}
"""
PLAIN = """
system: pim_gpt
workload: {model: gpt2, prompt: 0, generate: 1}
axes: {npu.clock_mhz: [500, 1000]}
"""


def test_real_points_one_of_which_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "real.yaml").write_text(REAL)
    done = call("sweep", "real.yaml", "--workers", "1", "--json", "-", "--quiet")
    found = json.loads(done.out)
    assert done.code == 0 and done.err == ""
    assert (found["finished"], found["failed"], found["asked"]) == (4, 2, 4)
    ((error, count),) = found["errors"].items()
    assert count == 2 and "one sequence at a time" in error and "\n" not in error
    frame = open_table(tmp_path / "real").table.frame
    assert frame["energy_j"].notna().tolist() == frame["error"].isna().tolist() == [True, True, False, False]
    assert " s of simulation; in folder real " in " ".join(call("sweep", "status", "real").out.split())
    before = {path: path.read_bytes() for path in (tmp_path / "real" / "rows").iterdir()}
    again = json.loads(call("sweep", "real.yaml", "--workers", "1", "--json", "-", "--quiet").out)
    assert again | {"starts": 1, "last_start": None} == found | {"last_start": None}
    assert {path: path.read_bytes() for path in (tmp_path / "real" / "rows").iterdir()} == before


BOMB = "a: &a [1, 2]\nb: &b [*a, *a]\n" + PLAIN
HOSTILE = {
    "system: pim_gpt\naxes: {npu.clock_mhz: {from: 1, to: 1e15, step: 1}}\n": "10^15 points",
    "system: pim_gpt\naxes: {npu.clock_mhz: {log: [1, 2], points: 99999999999}}\n": "99,999,999,999 points",
    BOMB: "anchor",
    PLAIN + "objectives: {tokens_per_s.__class__: max}\n": "__class__",
    PLAIN + "constraints: ['().__class__.__bases__[0] < 1']\n": "constraints",
    PLAIN + 'constraints: [\'__import__("os").system("touch pwned") < 1\']\n': "constraints",
    PLAIN + "name: !!python/object/apply:os.system [touch pwned]\n": "tag",
    PLAIN + "name: ../../pwned\nrows: 1\n": "rows",
    PLAIN.replace("gpt2", "../../../etc/passwd"): "passwd",
    PLAIN + "# \0\n": "",
    PLAIN + "constraints: [" + "[" * 5000 + "\n": "nested too deeply",
    PLAIN + "constraints: ['" + "(" * 5000 + "a" + ")" * 5000 + " < 1']\n": "constraints",
    PLAIN + "# " + "x" * 2_000_000: "larger than 1 MiB",
    PLAIN.replace("npu.clock_mhz", "npu.clock_mzh"): "npu.clock_mhz",
    PLAIN + "objectives: {tokens_per_d: max}\n": "tokens_per_s",
    PLAIN + "constraints: ['tokens_per_d < 3']\n": "pimloom: s.yaml: constraints: 'tokens_per_d < 3'",
    PLAIN + "set: {dram.part: nopart}\n": "nopart",
    PLAIN.replace("npu.clock_mhz: [500, 1000]", "dram.part: [nopart, gddr6_aim]"): "nopart",
    PLAIN.replace("model: gpt2, ", "").replace("npu.clock_mhz: [500, 1000]", "workload.model: [no, gpt2]"): "'no'",
    "": "",
    "[]": "",
}


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_files_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    text, words = list(HOSTILE.items())[number]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(text)
    began = time.monotonic()
    done = call("sweep", "s.yaml")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert done.err.startswith("pimloom: s.yaml:"), done.err
    assert words in done.err and len(done.err) < 1000
    assert time.monotonic() - began < 60  # a bomb would take longer
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]  # neither rows nor what the file asked for


def test_name_is_no_path(place: Place) -> None:
    (place.folder / "s.yaml").write_text((place.folder / "s.yaml").read_text() + "name: ../../<b>up\n")
    before = {path.name for path in place.folder.parent.iterdir()}
    place.run("--workers", 1)
    assert "../../<b>up: 60 of 60 points" in (place.folder / "cli.out").read_text()
    assert {path.name for path in place.folder.parent.iterdir()} == before


def test_folders_and_options_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "CONNECT_S", 0.3)
    (tmp_path / "s.yaml").write_text(PLAIN)
    (tmp_path / "other.yaml").write_text(PLAIN.replace("npu.clock_mhz: [500, 1000]", "dram.channels: [4]"))
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "there" / "runs").mkdir(parents=True)
    (tmp_path / "hand").mkdir()
    shutil.copy("other.yaml", tmp_path / "hand" / "sweep.yaml")
    shutil.copy("other.yaml", tmp_path / "there" / "sweep.yaml")
    (tmp_path / "rows_is_file").mkdir()
    (tmp_path / "rows_is_file" / "rows").write_text("")
    wrong: dict[tuple[str, ...], str] = {
        ("none.yaml",): "none.yaml",
        ("folder.yaml",): "folder.yaml",
        ("statsu", "s"): "sweep statsu: no such command and no such file; nearest: status",
        ("s.txt",): "s.txt",
        ("s.yaml", "--out", "file"): "a file of that name is in the way",
        ("s.yaml", "--out", "file/below"): "not a directory",
        ("s.yaml", "--out", "/proc/here"): "/proc/here",
        ("s.yaml", "--out", "there"): "there: holds another sweep (axes dram.channels, here npu.clock_mhz)",
        ("s.yaml", "--out", "rows_is_file"): "rows",
        ("s.yaml", "--out", "hand"): "hand: holds other files (sweep.yaml) and no sweep; choose another folder",
        ("s.yaml", "--out", ""): "expected a folder, got an empty name",
        ("s.yaml", "--workers", "0"): "--workers",
        ("s.yaml", "--workers", "5000"): "--workers 5000: expected 1 to 1024",
        ("s.yaml", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"): "leave one of the two out",
        ("s.yaml", "--timeout-per-point", "0"): "--timeout-per-point",
        ("s.yaml", "--timeout-per-point", "nan"): "--timeout-per-point",
        ("s.yaml", "--wait", "-1"): "--wait",
        ("s.yaml", "--out", "new", "--scheduler", "host"): "expected an address with its port, such as tcp://host:8786",
        ("s.yaml", "--out", "new", "--scheduler", "tcp://127.0.0.1:2"): "no Dask scheduler answers there",
        **{
            ("s.yaml", "--out", "new", "--scheduler", address): f"--scheduler {address}: "
            for address in ("foo", "tcp://127.0.0.1:1", "http://x", "tcp://127.0.0.1:99999", "", "tcp://[", "a b\tc")
        },
    }
    for arguments, words in wrong.items():
        done = call("sweep", *arguments)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), (arguments, done)
        assert words in done.err.replace("\\t", "\t"), (arguments, done.err)
    assert not (tmp_path / "s").exists() and not (tmp_path / "new").exists()
    assert (tmp_path / "hand" / "sweep.yaml").read_text() == (tmp_path / "other.yaml").read_text()


def test_worker_with_other_code_is_refused(place: Place) -> None:
    copy = place.folder / "copy" / "pimloom"
    shutil.copytree(ROOT / "pimloom", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("arch", "cycle_sim", "energy", "mappers", "reports", "sweeping", "systems", "workload"):
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__", "out"))
    with (copy / "arch" / "units.py").open("a") as file:
        file.write("# changed\n")
    real = place.folder / "real"  # simulated by the real simulator, which finds the copy
    real.mkdir()
    (place.folder / "s.yaml").rename(real / "s.yaml")
    place.folder = real
    at = port()
    place.scheduler(at), place.worker(at, str(copy.parent))
    said = place.run("--scheduler", f"tcp://127.0.0.1:{at}", code=2)
    last = said.splitlines()[-1]
    assert "has another pimloom" in last and last.endswith("install the same version on all machines")
    assert not place.keys


def test_progress_on_a_terminal(place: Place) -> None:
    place.misbehave(**{"seconds": 0.02, "500": "exit"})
    main, side = pty.openpty()
    process = place.start("--workers", 1, err=Path(os.ttyname(side)))
    seen = b""
    os.set_blocking(main, False)

    def read() -> bool:
        nonlocal seen
        with suppress(BlockingIOError):
            seen += os.read(main, 1 << 16)
        return not process.is_alive()

    wait(read)
    read()
    os.close(side)
    os.close(main)
    assert process.exitcode == 0
    text = seen.decode()
    assert "starting" in text and "points/s" in text and "left, 1 failed" in text and "\x1b[?25h" in text


def test_rate_counts_points_of_this_start() -> None:
    now = 0.0
    rate = Rate(lambda: now)
    assert rate(0) == 0
    now = 2.0
    assert rate(100) == 50
    now = 1000.0
    assert rate(100) == pytest.approx(0, abs=0.11)
    assert said(Shown(5000, 10_000, 0, 0), 0) == "starting"
    assert said(Shown(5000, 10_000, 3, 100), 50) == "50.0 points/s, 1:40 left, 3 failed"
    assert said(Shown(0, 1_000_000, 0, 100), 50) == "50.0 points/s, 5:33:20 left"
    assert said(Shown(10, 10, 0, 10), 50) == ""
