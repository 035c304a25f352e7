"""Files appear whole or not at all, and stay in their folder."""

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.files import json_text, prepare_folder, write_atomic, write_json, write_table_csv


@pytest.fixture
def old(tmp_path) -> Path:
    path = tmp_path / "index.html"
    path.write_text("old")
    return path


def test_write_atomic_replaces(old):
    write_atomic(old, "µ\n")
    assert old.read_bytes() == b"\xc2\xb5\n"
    write_atomic(old, b"\x00")
    assert old.read_bytes() == b"\x00"
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_write_leaves_the_old_file_and_nothing_else(old, monkeypatch, step, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises((UserError, KeyboardInterrupt)) as caught:
        write_atomic(old, "new")
    assert old.read_text() == "old"
    assert list(old.parent.iterdir()) == [old]
    if caught.type is UserError:
        assert str(caught.value) == f"cannot write {old}: no space left on device; choose another place"


def test_a_text_that_cannot_be_encoded_leaves_the_old_file(old):
    with pytest.raises(UnicodeEncodeError):
        write_atomic(old, "\ud800")
    assert old.read_text() == "old"


def test_a_link_keeps_pointing_and_a_pipe_is_not_replaced(old, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(old)
    write_atomic(link, "new")
    assert link.is_symlink() and old.read_text() == "new"
    write_atomic(os.devnull, "gone")
    assert not Path(os.devnull).is_file()


def test_a_folder_in_the_place_of_a_file(tmp_path):
    with pytest.raises(UserError, match="cannot write .*: is a directory; choose another place"):
        write_atomic(tmp_path, "x")
    with pytest.raises(UserError, match="no such file or directory"):
        write_atomic(tmp_path / "none" / "x", "x")
    assert list(tmp_path.iterdir()) == []


def test_prepare_folder_creates_and_accepts(tmp_path):
    folder = tmp_path / "a" / "b"
    assert prepare_folder(folder) == prepare_folder(str(folder)) == folder
    assert list(folder.iterdir()) == []


def test_prepare_folder_says_in_one_line_what_is_in_the_way(old):
    with pytest.raises(UserError) as caught:
        prepare_folder(old)
    assert str(caught.value) == (
        f"cannot write to {old}: a file of that name is in the way; choose another folder with --out"
    )
    with pytest.raises(UserError, match="not a directory; choose another folder with --out"):
        prepare_folder(old / "below")
    with pytest.raises(UserError) as caught:
        prepare_folder(old / "a\nb")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root")
def test_prepare_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    for folder in (tmp_path, tmp_path / "below"):
        with pytest.raises(UserError, match="permission denied; choose another folder with --out"):
            prepare_folder(folder)


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_csv_carries_units_gaps_and_all_digits(tmp_path):
    path = tmp_path / "results.csv"
    rows: list[dict[str, object]] = [
        {"model": 'a "b", c', "latency_s": 0.1 + 0.2, "ratio": np.float64(1e-9), "tokens": 1024},
        {"model": "x\ny", "latency_s": None, "ratio": 2.0, "tokens": np.int64(7)},
    ]
    write_table_csv(path, rows, {"ratio": "-"})
    header, first, second = read_csv(path)
    assert header == ["model", "latency_s", "ratio [-]", "tokens"]
    assert first == ['a "b", c', "0.30000000000000004", "1e-09", "1024"]
    assert second == ["x\ny", "", "2.0", "7"]


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1"])
def test_csv_does_not_hand_a_formula_to_a_spreadsheet(tmp_path, text):
    write_table_csv(tmp_path / "t.csv", [{"a": text, "b": "-1.5", "c": "-"}])
    assert read_csv(tmp_path / "t.csv")[1] == [f"'{text}", "-1.5", "-"]


@pytest.mark.parametrize(
    ("rows", "units", "message"),
    [
        ([], {}, "at least one row"),
        ([{"a": 1}, {"b": 1}], {}, r"row 2 has the columns \['b'\]"),
        ([{"a": float("nan")}], {}, "row 1, column a is nan"),
        ([{"a": 1}], {"b": "s"}, "units name columns that the table lacks: b"),
    ],
)
def test_csv_refuses(tmp_path, rows, units, message):
    with pytest.raises(ValueError, match=message):
        write_table_csv(tmp_path / "t.csv", rows, units)
    assert list(tmp_path.iterdir()) == []


@dataclass
class Point:
    x: float


def test_json_is_stable_and_strict(tmp_path):
    value = {"b": [np.int64(1), np.float64(0.5), np.arange(2)], "a": Point(1.0), "µ": None}
    write_json(tmp_path / "r.json", value)
    text = (tmp_path / "r.json").read_text()
    assert text == json_text(dict(reversed(value.items()))) and text.endswith("}\n")
    assert json.loads(text) == {"a": {"x": 1.0}, "b": [1, 0.5, [0, 1]], "µ": None}
    assert list(json.loads(text)) == ["a", "b", "µ"]
    for bad in (float("nan"), float("-inf"), np.array([np.nan]), Point(float("inf"))):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_json(tmp_path / "bad.json", {"x": bad})
    with pytest.raises(TypeError, match="a object has no place in JSON"):
        json_text(object())
    assert not (tmp_path / "bad.json").exists()
