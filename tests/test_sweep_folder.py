"""One folder, several starts: what is shown is of the sweep as it stands, whatever else the folder holds."""

import errno
import json
import os
import re
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.sweeping import run as running
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.definition.numbered import Grid, places_of
from pimloom.sweeping.definition.sweep import Axis
from pimloom.sweeping.filling import Counts
from pimloom.sweeping.folder import check_columns, settle
from pimloom.sweeping.point.digests import key_of
from pimloom.sweeping.point.row import Outcome, row_of
from pimloom.sweeping.point.shared import Base, base_of
from pimloom.sweeping.run import Options, facts_of, run_sweep
from pimloom.sweeping.search.searching import Search
from pimloom.sweeping.store.all_rows import open_store
from pimloom.sweeping.store.runs import record_run
from pimloom.sweeping.store.status import status_of
from pimloom.sweeping.store.sweep_rows import SweepRows
from pimloom.sweeping.table import open_table

pd = pytest.importorskip("pandas")
WORKLOAD = {"model": "gpt2", "generate": 1}


def mapping(axes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"system": "pim_gpt", "workload": WORKLOAD, "axes": axes or {}, "objectives": {"latency_s": "min"}} | more


def filled(folder: Path, given: dict[str, Any], error: str | None = None) -> tuple[Base, list[dict[str, Any]]]:
    """A start that puts the rows of all points of a grid into the folder, without a simulation."""
    sweep = sweep_from(given)
    base = base_of(sweep)
    check_columns(sweep, base)
    settle(folder, sweep, json.dumps(given))
    record_run(folder, facts_of(sweep, base, Options()))
    rows, grid = SweepRows(folder, sweep, base), Grid(sweep)
    done = set(rows.numbers(grid, failed=True).tolist())
    found = None if error else Outcome({"latency_s": 1.0, "cycles": 3}, "digest")
    new = [row_of(base, grid.point(n), found, error, 0.0) for n in range(grid.size) if n not in done]
    rows.append(new)
    return base, new


def test_a_folder_read_again_shows_all_its_rows_whatever_the_order_of_its_axes(tmp_path: Path) -> None:
    axes = {"dram.part": ["gddr6_pim_gpt", "gddr6_aim"]}
    filled(tmp_path, mapping(axes, workload=WORKLOAD | {"model": ["gpt2", "gpt2-medium"]}))
    frame = open_table(tmp_path).table.frame
    assert frame["workload.model"].tolist() == ["gpt2", "gpt2", "gpt2-medium", "gpt2-medium"]
    assert frame["dram.part"].tolist() == 2 * axes["dram.part"]


@pytest.mark.parametrize("other", [[4.0, 8.0], ["4", "8"], [True, False]])
def test_values_of_another_type_are_other_points(tmp_path: Path, other: list[Any]) -> None:
    values = [1, 0] if other == [True, False] else [4, 8]

    def axes(values: list[Any]) -> dict[str, Any]:
        return {"width": {"values": values, "set": {"dram.channels": [4, 8]}}}

    filled(tmp_path, mapping(axes(other)), error="expected int")
    _, new = filled(tmp_path, mapping(axes(values), constraints=["width < 8"]))
    opened = open_table(tmp_path)
    frame = opened.table.frame
    assert len(new) == 2 and opened.elsewhere == 2
    assert frame["width"].tolist() == values and frame["width"].dtype == "int64"
    assert frame["error"].isna().all() and frame["feasible"].tolist() == [value < 8 for value in values]
    _, back = filled(tmp_path, mapping(axes(other)))
    assert not back and open_table(tmp_path).table.frame["width"].tolist() == other


def test_a_table_has_the_columns_of_its_sweep_only(tmp_path: Path) -> None:
    axes = {"peak_tflops": [1, 2]}
    roofline = mapping(axes, system="t4", workload=WORKLOAD | {"batch": 1})
    filled(tmp_path, roofline)
    filled(tmp_path, roofline | {"workload": WORKLOAD})
    assert "sub_batches" not in open_table(tmp_path).table.frame


def test_places_of_values_beside_others() -> None:
    texts = pd.Series(["true", "8", "0.1", "nan", "x", None])
    assert places_of(Axis("x", (True, False)), texts).tolist() == [0, -1, -1, -1, -1, -1]
    assert places_of(Axis("x", (0.1, 8.0)), texts).tolist() == [-1, 1, 0, -1, -1, -1]
    near = (2**53, 2**53 + 1)
    assert places_of(Axis("x", near), pd.Series(near[::-1])).tolist() == [1, 0]
    assert places_of(Axis("x", near), pd.Series([0.5, 2.0**53])).tolist() == [-1, 0]


def test_solved_sub_problems_of_other_code_are_not_used(tmp_path: Path) -> None:
    sweep = sweep_from(mapping({"dram.channels": [4, 8]}))
    base = base_of(sweep)
    now, then = (SweepRows(tmp_path, sweep, b) for b in (base, base_with_code(base, "older")))
    then.append_steps([b"old"])
    now.append_steps([b"new"])
    assert now.steps() == [b"new"] and then.steps() == [b"old"]


def base_with_code(base: Base, code: str) -> Base:
    import msgspec

    return msgspec.structs.replace(base, code=code)


@pytest.mark.parametrize(
    ("axes", "more", "said"),
    [
        ({"dram.channels": "[4, 8], npu.clock_mhz: [1]"}, {}, "sweep.yaml: has other axes than the last start"),
        ({"dram.channels": "[4, 8]"}, {"objectives": "{latncy_s: min}"}, "unknown column 'latncy_s'"),
        ({"dram.channels": "[4, 8"}, {}, "sweep.yaml:"),
    ],
)
def test_a_definition_changed_by_hand_is_one_line(
    tmp_path: Path, axes: dict[str, str], more: dict[str, str], said: str
) -> None:
    filled(tmp_path, mapping({"dram.channels": [4, 8]}))
    ((place, values),) = axes.items()
    lines = ["system: pim_gpt", "workload: {model: gpt2, generate: 1}", f"axes: {{{place}: {values}}}"]
    (tmp_path / "sweep.yaml").write_text("\n".join([*lines, *(f"{key}: {text}" for key, text in more.items())]))
    with pytest.raises(UserError) as error:
        open_table(tmp_path)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_sweep_without_rows_has_a_status(tmp_path: Path) -> None:
    filled(tmp_path, mapping({"dram.channels": [4, 8]}))
    for path in (tmp_path / "rows").iterdir():
        path.unlink()
    found = status_of(open_table(tmp_path))
    assert (found["asked"], found["finished"], found["best"]) == (2, 0, {"latency_s": None})


def test_an_objective_that_is_text_is_refused() -> None:
    for text in ("workload.model", "latency_s * workload.model"):
        sweep = sweep_from(mapping(workload=WORKLOAD | {"model": ["gpt2", "gpt2-medium"]}, objectives={text: "min"}))
        with pytest.raises(UserError, match=r"workload\.model is text, expected columns of numbers"):
            check_columns(sweep, base_of(sweep))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workload.model < 3", "workload.model is text, expected == or != and a text in quotes"),
        ("latency_s < workload.model", "workload.model is text, expected == or != and a text in quotes"),
        ("dram.channels == '8'", "dram.channels is a number, expected no text beside it"),
        ("latency_s != 'gpt2'", "latency_s is a number, expected no text beside it"),
        ("workload.model == 'gpt2'", ""),
        ("dram.channels <= 8", ""),
    ],
)
def test_texts_and_numbers_are_not_compared(text: str, said: str) -> None:
    axes, workload = {"dram.channels": [4, 8]}, WORKLOAD | {"model": ["gpt2", "gpt2-medium"]}
    sweep = sweep_from(mapping(axes, workload=workload, constraints=[text]))
    with nullcontext() if not said else pytest.raises(UserError, match=re.escape(f"{text!r}: {said}")):
        check_columns(sweep, base_of(sweep))


class Instant:
    """Simulates at once."""

    def __init__(self, base: Base, rows: SweepRows, *_: object, **__: object) -> None:
        self.base, self.rows, self.counts, self.simulated = base, rows, Counts(), list[str]()

    def __enter__(self) -> "Instant":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def skip(self, points: int) -> None:
        self.counts.finished += points

    def fill(self, blocks: Any) -> None:
        for block in blocks:
            for key, point in block.items():
                assert key == key_of(self.base, point)
                self.rows.append([row_of(self.base, point, Outcome({"latency_s": 1.0}, "digest"), None, 0.0)])
                self.counts.finished += 1


@pytest.mark.parametrize("method", ["random", "nsga2"])
def test_a_search_of_a_range_with_few_numbers_asks_some_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    started = list[Instant]()

    class Kept(Instant):
        def __enter__(self) -> "Instant":
            started.append(self)
            return self

    monkeypatch.setattr(running, "Filling", Kept)
    narrow = mapping({"npu.clock_mhz": {"from": 1000, "to": 1000.02}}, method=method, budget=40)
    run_sweep(narrow, tmp_path, Options(workers=1))
    assert started[0].counts.finished == 40
    assert open_table(tmp_path).table.frame["npu.clock_mhz"].tolist() == [1000.0, 1000.01, 1000.02]


def test_a_search_simulates_failed_points_again_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "Filling", Instant)
    given = mapping({"npu.clock_mhz": {"from": 100, "to": 1200, "step": 100}}, method="random", budget=12)
    filled(tmp_path, given, error="broken")
    run_sweep(given, tmp_path, Options(workers=1))
    assert open_table(tmp_path).table.frame["error"].tolist() == ["broken"] * 12
    run_sweep(given, tmp_path, Options(workers=1, retry_failed=True))
    assert open_table(tmp_path).table.frame["error"].isna().all()


def test_others_are_those_who_finish_points_after_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pimloom.sweeping.store.sweep_rows.LOOK_S", -1.0)
    given = mapping({"npu.clock_mhz": [100, 200]})
    base, before = filled(tmp_path, given)
    sweep = sweep_from(mapping({"npu.clock_mhz": [100, 200, 300, 400]}))
    here, there = SweepRows(tmp_path, sweep, base), SweepRows(tmp_path, sweep, base)
    assert len(here.finished) == len(before) == 2

    def row(mhz: int) -> dict[str, Any]:
        return row_of(base, {"npu.clock_mhz": mhz}, Outcome({"latency_s": 1.0}, "digest"), None, 0.0)

    here.append([row(300)])
    assert here.others() == set()
    there.append([row(400)])
    assert here.others() == here.others() == {key_of(base, {"npu.clock_mhz": 400})}


def test_a_search_reads_no_file_of_rows_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = mapping({"npu.clock_mhz": {"from": 100, "to": 1200, "step": 100}}, method="random", budget=12)
    base, new = filled(tmp_path, given)
    keys, rows = [row["point"] for row in new], SweepRows(tmp_path, sweep_from(given), base)
    assert [row["latency_s"] for row in rows.known(keys, failed=True).values()] == [1.0] * 12
    monkeypatch.setattr("pimloom.sweeping.store.segments.read", lambda *_: pytest.fail("a file was read again"))
    assert list(rows.known(keys[3:5], failed=False)) == keys[3:5]


def test_a_search_beside_values_of_another_type_judges_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(running, "Filling", Instant)
    monkeypatch.setattr(Search, "_outcome", lambda self, row: told.append(row))
    filled(tmp_path, mapping({"dram.channels": ["4", "8"]}))
    filled(tmp_path, mapping({"dram.channels": [4, 8]}))
    run_sweep(mapping({"dram.channels": [4, 8]}, method="random", budget=2), tmp_path, Options(workers=1))
    assert sorted(row["dram.channels"] for row in told) == [4, 8] and [row["latency_s"] for row in told] == [1.0, 1.0]


def test_new_folders_are_on_the_disk_and_a_folder_that_cannot_be_synced_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    store = open_store(tmp_path / "new" / "sweep")
    store.append([{"point": "a"}])
    assert {str(path) for path in (tmp_path, tmp_path / "new", store.folder, store.folder / "rows")} <= set(synced)

    def fails(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(UserError, match="input/output error"):
        store.append([{"point": "b"}])


@pytest.mark.parametrize("address", ["foo", "tcp://foo", "foo:", ""])
def test_an_address_without_a_port_is_refused_at_once(tmp_path: Path, address: str) -> None:
    with pytest.raises(UserError, match="--scheduler .*expected an address with its port, such as tcp://host:8786"):
        run_sweep(mapping({"dram.channels": [4, 8]}), tmp_path, Options(scheduler=address))
