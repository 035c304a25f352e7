"""The starts of a sweep, and its table for other programs."""

import csv
import math
import os

import pandas
import pyarrow.parquet as pq
import pytest

from pimloom.arch.error import UserError
from pimloom.sweeping.store.all_rows import open_store
from pimloom.sweeping.store.export import export_csv, export_parquet
from pimloom.sweeping.store.runs import read_runs, record_run
from tests.sweep_writer import row


@pytest.fixture
def frame(tmp_path) -> pandas.DataFrame:
    """Points 0 to 9, of which 9 failed, and one of an older version of the code."""
    store = open_store(tmp_path / "sweep")
    store.append([row(number) for number in range(10)])
    store.append([{**row(10, code="old"), "finished_utc": "2030"}])
    return store.frame()


def test_starts_are_kept_in_order_and_bad_files_are_named(tmp_path):
    assert read_runs(tmp_path) == []
    first = record_run(tmp_path, {"seed": 1, "versions": {"numpy": "2"}})
    second = record_run(tmp_path, {"started_utc": "given"})
    (tmp_path / "runs" / "zz1.json").write_text('{"seed": NaN}')
    (tmp_path / "runs" / "zz2.json").symlink_to(first)
    (tmp_path / "runs" / ".0123456789abcdef.part").write_text("{")
    runs = read_runs(tmp_path)
    assert [run["file"] for run in runs] == [first.name, second.name, "zz1.json", "zz2.json"]
    assert runs[0]["versions"] == {"numpy": "2"} and str(runs[0]["started_utc"]).endswith("+00:00")
    assert runs[1] == {"started_utc": "given", "file": second.name}
    assert "zz1.json" in str(runs[2]["unreadable"]) and runs[3]["unreadable"] == "not a plain file"


def test_a_start_that_cannot_be_kept_is_one_line(tmp_path):
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(UserError, match="cannot write .*runs.*: file exists"):
        record_run(tmp_path, {})


def test_exports_hold_every_value(tmp_path):
    store = open_store(tmp_path)
    rows = [
        {**row(0), "x": 0.1 + 0.2, "n": 2**60, "flag": True, "text": '=HYPERLINK("x")'},
        {**row(1), "x": math.inf, "n": None, "flag": None, "text": 'a "b",\nc'},
        {**row(2), "x": 5e-324, "n": -1, "flag": False, "text": "-3.5"},
    ]
    store.append([{**one, "=cmd": 1} for one in rows])
    frame = store.frame()
    export_parquet(frame, tmp_path / "out.parquet")
    export_csv(frame, tmp_path / "out.csv")
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [{**one, "=cmd": 1} for one in rows]
    with (tmp_path / "out.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [float(one["x"]) for one in read] == [0.1 + 0.2, math.inf, 5e-324]
    assert [one["n"] for one in read] == [str(2**60), "", "-1"]
    assert [one["flag"] for one in read] == ["true", "", "false"]
    assert [one["text"] for one in read] == ['\'=HYPERLINK("x")', 'a "b",\nc', "-3.5"]
    assert list(read[0])[-1] == "'=cmd" and list(read[0])[:2] == ["point", "dram.channels"]
    assert frame["text"][0].startswith("=")  # the table itself stays


@pytest.mark.parametrize("export", [export_parquet, export_csv])
def test_an_export_is_whole_or_not_at_all(frame, tmp_path, monkeypatch, export):
    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match="cannot write .*no space left on device; choose another place"):
        export(frame, path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["sweep", "out"]
    with pytest.raises(UserError, match="no such file"):
        export(frame, tmp_path / "nowhere" / "out")
