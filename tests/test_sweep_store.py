"""No finished row is lost, whoever dies, fills the disk or damages a file; equal rows make an equal table."""

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.sweeping.store import segments
from pimloom.sweeping.store.all_rows import TEXT_COLUMNS, Store, open_store, rank
from pimloom.sweeping.store.segments import Segments
from tests.sweep_writer import batches, row

WRITER = [sys.executable, str(Path(__file__).with_name("sweep_writer.py"))]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(st.characters(codec="utf-8"))
)


def start(folder: Path, *numbers: int) -> subprocess.Popen:
    return subprocess.Popen([*WRITER, str(folder), *map(str, numbers)], stdout=subprocess.PIPE, text=True)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "rows").glob("*.parquet"))


def fill(folder: Path, count: int, size: int = 1) -> None:
    store = open_store(folder)
    for batch in batches(0, count, size):
        store.append(batch)


def points(*numbers: int) -> set[str]:
    return {str(row(number)["point"]) for number in numbers}


def rows_of(store: Store, keys: Iterable[str]) -> list[dict[str, object]]:
    """The rows that count of these keys, in their order, as plain values."""
    found = Segments(store.folder / "rows", "point", TEXT_COLUMNS).read().to_pylist()
    first = {row["point"]: row for row in sorted(found, key=rank, reverse=True)}
    return [first[key] for key in keys if key in first]


def test_what_was_appended_is_there_for_all_and_nothing_is_made_before(tmp_path):
    store, other = open_store(tmp_path / "s"), open_store(tmp_path / "s")
    assert not store.keys() and not len(store.frame()) and not (tmp_path / "s").exists()
    store.append([row(1), row(0)])
    assert store.keys() == points(0, 1) and not store.refresh()
    assert other.refresh() == points(0, 1) and not other.refresh()
    other.append([row(2)])
    assert store.refresh() == points(2) and store.keys() == other.keys() == points(0, 1, 2)
    assert rows_of(store, [*points(9), *points(2), *points(0)]) == [row(2), row(0)]
    assert list(store.frame()["point"]) == sorted(points(0, 1, 2))


@pytest.mark.parametrize("size", [1, 7])
def test_small_files_are_merged_and_the_table_is_the_same(tmp_path, size):
    fill(tmp_path / "many", 90, size)
    fill(tmp_path / "one", 90, 90)
    assert len(files(tmp_path / "many")) <= 2 * 15 + 1
    assert len(files(tmp_path / "one")) == 1
    assert open_store(tmp_path / "many").frame().equals(open_store(tmp_path / "one").frame())


def test_types_of_the_frame(tmp_path):
    store = open_store(tmp_path)
    a, b = {**row(0), "x": 1, "y": True, "z": None, "t": 3}, {**row(1), "x": None, "y": None, "z": None, "t": "auto"}
    store.append([a])
    assert store.frame()[["x", "y", "z", "t", "error"]].dtypes.astype(str).to_list() == [
        "int64", "bool", "float64", "int64", "str",
    ]  # fmt: skip
    store.append([b])
    assert store.frame()[["x", "y", "z", "t", "error"]].dtypes.astype(str).to_list() == [
        "Int64", "boolean", "float64", "str", "str",
    ]  # fmt: skip
    assert list(store.frame()["t"]) == ["3", "auto"]
    store.append([{**row(2), "x": 0.5}])
    assert list(store.frame().columns)[-4:] == ["x", "y", "z", "t"]
    assert store.frame()["x"].dtype == "float64" and math.isnan(store.frame()["x"][1])


@given(st.lists(VALUES, min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_values_come_back_however_they_were_batched(tmp_path_factory, values, luck):
    """Of one type, as they were; of several, as the table says: the same for every way to cut rows into batches."""
    rows = [{"point": str(number), "x": value} for number, value in enumerate(values)]
    frames = []
    for _ in range(2):
        store, left = open_store(tmp_path_factory.mktemp("s")), rows[:]
        while left:
            cut = luck.randint(1, len(left))
            store.append(left[:cut])
            left = left[cut:]
        frames.append([found["x"] for found in rows_of(store, [str(number) for number in range(len(rows))])])
    kinds = {type(value) for value in values} - {type(None)}
    if not (kinds >= {int, float} and any(type(value) is int and abs(value) > 2**53 for value in values)):
        assert list(map(repr, frames[0])) == list(map(repr, frames[1]))
    if len(kinds) <= 1:
        assert list(map(repr, frames[0])) == list(map(repr, values))
    assert [value is None for value in frames[0]] == [value is None for value in values]


def test_of_two_rows_of_a_point_the_one_without_error_counts_then_the_first(tmp_path):
    failed, late = {**row(0), "error": "never ended", "finished_utc": "2026"}, {**row(0), "finished_utc": "2028"}
    early = {**row(0), "finished_utc": "2027"}
    for number, order in enumerate(([failed, late, early], [early, late, failed])):
        store = open_store(tmp_path / str(number))
        for one in order:
            store.append([one])
        assert rows_of(store, [str(row(0)["point"])]) == [early]
        assert list(store.frame()["finished_utc"]) == ["2027"]


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_a_killed_writer_loses_nothing_that_it_said_was_done(tmp_path, kills):
    """At random moments, most of them in the middle of a write or a merge; the next writer goes on."""
    luck, done = random.Random(1), 0
    for _ in range(kills):
        process = start(tmp_path, done, 10**6, 3)
        assert process.stdout is not None
        said = process.stdout.readline()
        time.sleep(luck.uniform(0.0, 0.3))
        process.send_signal(signal.SIGKILL)
        said = (said + process.stdout.read()).split("\n")[:-1][-1]
        process.wait()
        store = open_store(tmp_path)
        assert store.keys() >= points(*range(done + int(said))) and not store.damaged
        done = len(store.keys())
        assert len(store.frame()) == done and store.keys() == points(*range(done))
    assert done > 30


def test_two_processes_fill_a_folder_while_a_third_reads(tmp_path):
    writers = [start(tmp_path, first, 50, 2) for first in (0, 35)]
    store, other, seen = open_store(tmp_path), open_store(tmp_path), set()
    while any(writer.poll() is None for writer in writers):
        seen |= store.refresh()
        assert seen <= set(other.frame()["point"]) and not other.refresh() & seen
        time.sleep(0.05)
    assert [writer.returncode for writer in writers] == [0, 0]
    seen |= store.refresh()
    assert seen == store.keys() == points(*range(85)) and not store.damaged
    assert [dict(found) for found in rows_of(store, sorted(points(*range(85))))] == [row(n) for n in range(85)]


def test_files_of_the_dead_are_merged_even_if_their_writer_lives_and_two_do_it_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "_ABANDONED_S", -1)
    living = open_store(tmp_path)
    for batch in batches(0, 15, 1):
        living.append(batch)
    for number in range(15, 40):
        open_store(tmp_path).append([row(number)])  # each finds what the others left, and merges it
    before, unlink = files(tmp_path), Path.unlink
    assert len(before) < 20

    def twice(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".parquet" and path.exists():
            monkeypatch.setattr(Path, "unlink", unlink)
            open_store(tmp_path).append([row(99)])  # in the middle of a merge, another one of the same files
            monkeypatch.setattr(Path, "unlink", twice)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", twice)
    for number in range(40, 60):
        living.append([row(number)])
        assert open_store(tmp_path).keys() - points(99) == points(*range(number + 1))
    assert not living.damaged and len(open_store(tmp_path).frame()) == 61


def test_a_merge_between_the_look_and_the_read_hides_nothing(tmp_path, monkeypatch):
    writer, reader, listed = open_store(tmp_path), open_store(tmp_path), segments._listed
    for batch in batches(0, 15, 1):
        writer.append(batch)

    def merging(folder: Path) -> list[str]:
        monkeypatch.setattr(segments, "_listed", listed)
        names = listed(folder)
        writer.append([row(15)])
        return names

    monkeypatch.setattr(segments, "_listed", merging)
    assert reader.keys() == points(*range(16))
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("where", [0, 3, 20, 0.3, 0.5, 0.7, 0.9, -9, -6, -1])
def test_any_flipped_byte_is_found_and_costs_its_own_file_only(tmp_path, where):
    fill(tmp_path, 6, 3)
    path = files(tmp_path)[1]
    data = bytearray(path.read_bytes())
    at = where if isinstance(where, int) else int(where * len(data))
    data[at] ^= 0x10
    path.write_bytes(data)
    store = open_store(tmp_path)
    assert store.keys() == set(store.frame()["point"]) == points(0, 1, 2) and len(store.frame()) == 3
    assert len(store.damaged) == 1 and path.name in store.damaged[0] and "\n" not in store.damaged[0]
    store.append(next(batches(3, 3, 3)))  # computed again
    assert open_store(tmp_path).keys() == points(*range(6))
    assert path.read_bytes() == data


@pytest.mark.parametrize("left", [0, 1, 4, 100, -1])
def test_a_cut_file_is_found(tmp_path, left):
    fill(tmp_path, 2)
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:left])
    store = open_store(tmp_path)
    assert store.keys() == points(1) and len(store.damaged) == 1


def test_a_merge_leaves_a_damaged_file_where_it_is(tmp_path):
    store = open_store(tmp_path)
    for batch in batches(0, 15, 1):
        store.append(batch)
    path = files(tmp_path)[4]
    path.write_bytes(b"PAR1")
    store.append([row(15)])
    assert path in files(tmp_path) and len(files(tmp_path)) == 2 and len(store.damaged) == 1
    assert open_store(tmp_path).keys() == points(*(set(range(16)) - {4}))


def test_a_hostile_folder_is_no_traceback(tmp_path):
    import pyarrow as pa

    from pimloom.arch.digest import hex_digest
    from pimloom.sweeping.store.segment_file import Name, encode

    store, rows = open_store(tmp_path), tmp_path / "rows"
    store.append([row(0)])
    outside = tmp_path / "outside.parquet"
    (name,) = (path.name for path in files(tmp_path))
    (rows / name).rename(outside)
    (rows / name).symlink_to(outside)
    store.append([row(1)])

    def plant(number: int, data: bytes) -> None:
        (rows / str(Name(0, "f" * 16, number, hex_digest(data)))).write_bytes(data)

    plant(0, b"no Parquet")
    plant(1, encode(pa.table({"x": [1]}), "point"))
    plant(2, encode(pa.table({"point": [1]}), "x"))
    plant(3, encode(pa.table({"point": ["a"], "x": [[1, 2]]}), "point"))
    plant(4, encode(pa.table({"point": pa.array(["a", None])}), "point"))
    plant(5, encode(pa.table({"point": ["good"], "error": [1], "<b>": ["=x"]}), "point"))
    plant(6, encode(pa.Table.from_arrays([pa.array(["a"])] * 2, ["point", "point"]), "point"))
    huge = rows / str(Name(0, "f" * 16, 7, "0" * 32))
    with huge.open("wb") as file:
        file.truncate(2**40)
    (rows / outside.name).symlink_to(outside)
    os.mkfifo(rows / str(Name(0, "e" * 16, 0, "0" * 32)))
    (rows / "folder.parquet").mkdir()
    os.mkfifo(rows / "pipe.parquet")
    (rows / "line\n\x1b[31m.parquet").write_text("x")
    (rows / ".DS_Store").write_text("x")
    fresh = open_store(tmp_path)
    assert fresh.keys() == {"good"} | points(1) == set(fresh.frame()["point"])
    assert len(fresh.damaged) == 13 and all(line.isprintable() for line in fresh.damaged)


def test_rows_that_are_a_link_or_a_file_are_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "rows").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "rows").write_text("x")
    for name in "ab":
        with pytest.raises(UserError, match="expected a folder"):
            open_store(tmp_path / name).append([row(0)])
        with pytest.raises(UserError, match="expected a folder"):
            open_store(tmp_path / name).keys()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_a_killed_writer_left_goes_after_a_day(tmp_path):
    fill(tmp_path, 1)
    old, new, mine = (tmp_path / "rows" / name for name in (f".{'a' * 16}.part", f".{'b' * 16}.part", ".mine.part"))
    for path in (old, new, mine):
        path.write_text("x")
    for path in (old, mine):
        os.utime(path, (0, 0))
    fill(tmp_path, 1)
    assert not old.exists() and new.exists() and mine.exists()


def test_a_full_disk_keeps_the_rows_and_leaves_nothing_half_written(tmp_path):
    """A real one, of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file system in memory")
    try:
        store, done = open_store(disk / "sweep"), 0
        with pytest.raises(UserError) as caught:
            for batch in batches(0, 10**6, 500):
                store.append(batch)
                done += len(batch)
        said = f"disk full at {disk / 'sweep' / 'rows'}: {done} rows are kept; make room and start again"
        assert done and str(caught.value) == said
        again = open_store(disk / "sweep")
        assert len(again.keys()) == len(again.frame()) == done and not again.damaged
        assert {path.suffix for path in (disk / "sweep" / "rows").iterdir()} == {".parquet"}
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        store.append([row(10**6)])
        assert len(open_store(disk / "sweep").keys()) == done + 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_a_write_that_fails_is_one_line_and_a_merge_that_fails_is_none(tmp_path, monkeypatch, step):
    store = open_store(tmp_path)
    for batch in batches(0, 15, 1):
        store.append(batch)
    real, calls = getattr(os, step), []

    def failing(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) >= (2 if step == "rename" else 3):  # one row goes through, its merge does not
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, step, failing)
    store.append([row(15)])
    with pytest.raises(UserError, match="disk full at .*: 16 rows are kept; make room and start again"):
        store.append([row(16)])
    monkeypatch.undo()
    assert open_store(tmp_path).keys() == points(*range(16))
    assert not list((tmp_path / "rows").glob(".*"))


def test_a_sweep_goes_on_without_waiting_for_pandas(tmp_path):
    fill(tmp_path, 20, 2)
    said = """
import sys
from pimloom.sweeping.store.all_rows import TEXT_COLUMNS, Store, open_store, rank
from tests.sweep_writer import row
store = open_store(sys.argv[1])
done = store.keys(), store.refresh()
store.append([row(20), {**row(21), "more": 0.5}, {**row(22), "more": "auto"}])
print([len(part) for part in done], store.refresh(), "pandas" in sys.modules)
"""
    command = [sys.executable, "-c", said, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent, check=False)
    assert (run.stdout, run.stderr) == ("[20, 0] set() False\n", "")


def test_a_row_needs_its_key_and_scalars(tmp_path):
    store = open_store(tmp_path)
    for bad in ({"point": None}, {"x": 1}, {"point": "a", "x": [1]}):
        with pytest.raises(TypeError):
            store.append([bad])
    assert not store.keys()


def test_rows_of_any_kind_with_a_key(tmp_path):
    """What sub-problems are kept in: bytes as key, integers as values."""
    here, there = Segments(tmp_path, "key"), Segments(tmp_path, "key")
    here.append([{"key": bytes([n]), "clocks": 2**62 + n} for n in range(5)])
    there.append([{"key": b"\xff", "clocks": 7}])
    assert here.fresh().to_pylist() == [{"key": b"\xff", "clocks": 7}] and not len(here.fresh())
    assert here.count() == 6 and there.fresh(["clocks"])["clocks"].to_pylist() == [2**62 + n for n in range(5)]
    assert {name: here.read().schema.field(name).type for name in ("key", "clocks")} == {
        "key": "binary", "clocks": "int64",
    }  # fmt: skip
