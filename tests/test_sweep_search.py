"""A search asks the same whatever happens to it, asks nothing twice, and finds more than chance does."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.sweeping.definition.sweep import Axis, Scalar, Sweep
from pimloom.sweeping.search.searching import Search
from pimloom.sweeping.search.shares import Outcome, Shares
from pimloom.sweeping.search.space import Space

Points = list[dict[str, Scalar]]
METHODS = ("random", "nsga2", "tpe")
AXES = (
    Axis("dram.channels", (64, 8, 16, 32, 128)),
    Axis("dram.timing.tCCD_L", (1, 2, 3, 4), unit="nCK"),
    Axis("npu.clock_mhz", (), low=100.0, high=2000.0, log=True),
    Axis("workload.model", ("gpt2-xl", "llama-3-8b", "8")),
    Axis("system.refresh", (True, False)),
)
FINITE = AXES[:2] + AXES[3:]
SMALL = AXES[:2] + AXES[4:]
X = Axis("x", tuple(range(40)))
Y = Axis("y", tuple(range(40)))


def sweep_of(method, axes=AXES, budget=24, batch=8, seed=7, **goals) -> Sweep:
    goals = goals or {"up": "max", "down": "min"}
    return Sweep("s", "pim_gpt", {}, {}, axes, ("down < 900",), goals, method, budget, batch, seed)


def row_of(point: Mapping[str, Scalar]) -> dict[str, object]:
    """Every seventh or so fails, some have no value, some break the constraint."""
    chance = random.Random(json.dumps(point)).random()
    down = float(point["dram.channels"]) * (2 + chance)
    up = None if chance > 0.95 else float(point["dram.channels"]) / float(point["dram.timing.tCCD_L"]) + chance
    return {"up": up, "down": down, "error": "bank 3: no such row" if chance < 0.15 else None}


def cell(name: str, above: float = 0.0) -> Callable[[Mapping[str, object]], float | None]:
    def read(row: Mapping[str, object]) -> float | None:
        value = row[name]
        return value - above if isinstance(value, int | float) else None

    return read


def search_in(folder: Path, sweep: Sweep, limit: float = 200) -> Search:
    return Search(sweep, folder, [cell(name) for name in sweep.objectives], [cell("down", limit)])


def run(search: Search, batches: int = 99, row: Callable = row_of) -> Points:
    asked: Points = []
    while batches and (points := search.ask()):
        search.tell([row(point) for point in points])
        asked += points
        batches -= 1
    return asked


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "trials").iterdir())}


@pytest.mark.parametrize("method", METHODS)
def test_a_search_killed_after_any_batch_asks_what_the_uninterrupted_one_asks(method, tmp_path):
    sweep = sweep_of(method, budget=20)
    whole = run(search_in(tmp_path / "whole", sweep))
    assert len(whole) == 20
    for told in range(3):
        folder = tmp_path / f"killed-{told}"
        killed = search_in(folder, sweep)
        run(killed, batches=told)
        killed.ask()  # ... and dies while this batch is simulated
        assert run(search_in(folder, sweep)) == whole
        assert files(folder) == files(tmp_path / "whole")


_PROGRAM = """
import sys, pathlib
sys.path.insert(0, {tests!r})
from test_sweep_search import run, search_in, sweep_of
for method in sys.argv[2:]:
    run(search_in(pathlib.Path(sys.argv[1]) / method, sweep_of(method)))
"""


@pytest.mark.slow
def test_another_process_asks_the_same_and_says_nothing(tmp_path):
    environment = os.environ | {"PYTHONHASHSEED": "5"}
    program = _PROGRAM.format(tests=str(Path(__file__).parent))
    command = [sys.executable, "-c", program, str(tmp_path / "there"), *METHODS]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("", "")
    for method in METHODS:
        run(search_in(tmp_path / "here" / method, sweep_of(method)))
        assert files(tmp_path / "here" / method) == files(tmp_path / "there" / method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axes", [AXES[1:3], AXES[2:3], AXES], ids=len)
def test_a_range_gives_every_point_once(method, axes, tmp_path):
    sweep = sweep_of(method, axes=axes, budget=40, batch=10)
    best = {"dram.channels": 8, "dram.timing.tCCD_L": 1}
    asked = run(search_in(tmp_path, sweep), row=lambda point: row_of(best | point))
    assert len({json.dumps(point) for point in asked}) == len(asked) == 40
    assert {type(point["npu.clock_mhz"]) for point in asked} == {float}
    assert all(100 <= float(point["npu.clock_mhz"]) <= 2000 for point in asked)


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_two_that_take_turns_in_one_folder_ask_the_same(method, tmp_path):
    sweep = sweep_of(method)
    first, second = (search_in(tmp_path, sweep) for _ in range(2))
    for _ in range(3):
        points = first.ask() or []
        assert points == first.ask() == second.ask()
        rows = [row_of(point) for point in points]
        second.tell(rows)
        first.tell(rows)
    assert first.ask() is second.ask() is None


class Searched(NamedTuple):
    """A search that has ended."""

    folder: Path
    sweep: Sweep
    asked: Points


def searched(folder: Path, sweep: Sweep) -> Searched:
    return Searched(folder, sweep, run(search_in(folder, sweep)))


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory) -> Searched:
    return searched(tmp_path_factory.mktemp("undamaged"), sweep_of("nsga2", batch=12))


@pytest.mark.parametrize(
    "damage",
    [
        lambda old: b"",
        lambda old: old[: len(old) // 2],
        lambda old: b"\xff\xfe" + old,
        lambda old: b"[]",
        lambda old: old.replace(b'"batch": 1', b'"batch": 2'),
        lambda old: old.replace(b"true", b"1").replace(b"false", b"0"),
        lambda old: old.replace(b'"gpt2-xl"', b'"other"').replace(b'"llama-3-8b"', b'"other"'),
        lambda old: old.replace(b"[1", b"[[1").replace(b"\n]}", b"]\n]}"),
        lambda old: old.replace(b"\n]}", b',\n[8, 1, 100.0, "8", true]\n]}'),
        lambda old: b'{"points": ' + b"[" * 5000,
    ],
)
def test_a_damaged_file_is_chosen_again_as_it_was(damage, undamaged, tmp_path):
    folder, sweep, whole = undamaged
    (tmp_path / "trials").mkdir()
    before = files(folder)
    for name, data in before.items():
        (tmp_path / "trials" / name).write_bytes(data)
    path = tmp_path / "trials" / "batch-000001.json"
    path.write_bytes(damage(before[path.name]))
    assert path.read_bytes() != before[path.name]
    assert run(search_in(tmp_path, sweep)) == whole
    assert files(tmp_path) == before


def test_a_link_is_replaced_and_what_it_points_to_is_left(tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text("mine")
    (tmp_path / "sweep" / "trials").mkdir(parents=True)
    (tmp_path / "sweep" / "trials" / "batch-000000.json").symlink_to(outside)
    run(search_in(tmp_path / "sweep", sweep_of("random")))
    assert outside.read_text() == "mine"


def test_a_folder_in_the_way_is_the_users_error(tmp_path):
    (tmp_path / "trials" / "batch-000000.json").mkdir(parents=True)
    with pytest.raises(UserError, match="batch-000000.json"):
        search_in(tmp_path, sweep_of("random")).ask()


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Searched:
    return searched(tmp_path_factory.mktemp("alone"), sweep_of("nsga2"))


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 8},
        {"batch": 6},
        {"method": "random"},
        {"axes": FINITE},
        {"axes": (Axis("dram.channels", (64, 8, 16, 32, 256)), *AXES[1:])},
        {"axes": (AXES[0], Axis("dram.timing.tCCD_L", (1.0, 2, 3, 4), unit="nCK"), *AXES[2:])},
        {"axes": (Axis(AXES[0].place, AXES[0].values, sets={"a": tuple("12345")}), *AXES[1:])},
        {"up": "min", "down": "min"},
    ],
)
def test_files_of_another_definition_are_not_taken(other, alone, tmp_path):
    run(search_in(tmp_path, sweep_of(**{"method": "nsga2", "seed": 7, **other})))
    again = run(search_in(tmp_path, alone.sweep))
    assert again == alone.asked
    assert files(alone.folder).items() <= files(tmp_path).items()


def test_batches_asked_for_other_rows_are_chosen_again_and_random_ones_stay(tmp_path):
    def changed(point):
        return row_of(point) | {"up": float(point["dram.timing.tCCD_L"]), "error": None}

    for method in METHODS:
        run(search_in(tmp_path / method, sweep_of(method, budget=20)))
        asked = run(search_in(tmp_path / method, sweep_of(method, budget=20)), row=changed)
        fresh = run(search_in(tmp_path / f"{method}-fresh", sweep_of(method, budget=20)), row=changed)
        assert asked == fresh
        assert files(tmp_path / method) == files(tmp_path / f"{method}-fresh")


@pytest.mark.parametrize("method", METHODS)
def test_a_larger_budget_goes_on_where_the_smaller_one_ended(method, tmp_path):
    small = run(search_in(tmp_path / "grown", sweep_of(method, budget=11)))
    grown = run(search_in(tmp_path / "grown", sweep_of(method, budget=20)))
    assert len(small) == 11 and grown[:11] == small
    assert grown == run(search_in(tmp_path / "at-once", sweep_of(method, budget=20)))


@pytest.mark.parametrize("method", METHODS)
def test_no_point_is_asked_twice_and_a_search_of_a_small_space_ends_early(method, tmp_path):
    search = search_in(tmp_path, sweep_of(method, axes=SMALL, budget=1000, batch=15))
    assert search.planned == 40
    assert search.note == "the axes span 40 design points, fewer than the budget: all are run"
    asked = run(search)
    assert len({json.dumps(point) for point in asked}) == len(asked) == search.asked == 40
    assert asked == run(search_in(tmp_path, sweep_of(method, axes=SMALL, budget=1000, batch=15)))
    assert search_in(tmp_path, sweep_of(method, axes=SMALL, budget=40)).note is None


@pytest.mark.parametrize("method", METHODS)
def test_a_search_in_which_everything_fails_goes_on(method, tmp_path):
    asked = run(search_in(tmp_path, sweep_of(method)), row=lambda point: {"error": "no"})
    assert len(asked) == 24


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_what_is_no_finite_number_counts_as_failed(bad, tmp_path):
    for name, row in {
        "error": {"error": "e"},
        "up": {"up": bad, "down": 1.0},
        "down": {"up": 1.0, "down": bad},
    }.items():
        run(search_in(tmp_path / name, sweep_of("tpe")), row=lambda point, row=row: row)
    assert files(tmp_path / "error") == files(tmp_path / "up") == files(tmp_path / "down")


def test_points_are_typed_and_in_the_order_of_the_axes(tmp_path):
    for point in run(search_in(tmp_path, sweep_of("random"))):
        assert list(point) == [axis.place for axis in AXES]
        for axis in AXES:
            value = point[axis.place]
            if axis.values:
                assert any(type(value) is type(known) and value == known for known in axis.values)
            else:
                assert type(value) is float and 100 <= value <= 2000 and value == float(f"{value:.6g}")


def test_a_caller_in_error_is_told(tmp_path):
    for wrong in ({"method": "grid"}, {"budget": None}, {"batch": 1}, {"batch": 0, "method": "tpe"}):
        with pytest.raises(ValueError):
            search_in(tmp_path, sweep_of(**{"method": "nsga2", **wrong}))
    with pytest.raises(ValueError, match="one function per objective"):
        Search(sweep_of("tpe"), tmp_path, [])
    search = search_in(tmp_path, sweep_of("tpe"))
    with pytest.raises(ValueError, match="0 points were asked, 1 rows told"):
        search.tell([{}])
    points = search.ask() or []
    with pytest.raises(ValueError, match="8 points were asked, 7 rows told"):
        search.tell([row_of(point) for point in points[1:]])


VALUES = st.lists(
    st.one_of(st.integers(-5, 5), st.floats(-5, 5, allow_nan=False), st.booleans(), st.text(max_size=3)),
    min_size=1,
    max_size=4,
    unique_by=lambda value: (type(value), value),
).map(tuple)


@given(st.lists(VALUES, min_size=1, max_size=3), st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_place_has_a_point_and_every_point_its_place(columns, data):
    space = Space(tuple(Axis(f"a{i}", values) for i, values in enumerate(columns)))
    place = tuple(data.draw(st.integers(0, len(values) - 1)) for values in columns)
    values = list(space.point(place).values())
    assert space.place_of(json.loads(json.dumps(values))) == place
    assert space.place(space.params(place)) == place
    taken: set = set()
    while (other := space.other(taken, random.Random(1))) is not None:
        taken.add(other)
    assert len(taken) == space.size


@given(st.floats(1e-9, 1e9), st.floats(1, 1e6), st.floats(0, 1))
def test_a_value_of_a_range_stays_in_it_and_comes_back(low, ratio, share):
    high = low * ratio
    space = Space((Axis("a", (), low=low, high=high),))
    place = space.place({"a": low + share * (high - low)})
    assert low <= place[0] <= high
    assert space.place_of(json.loads(json.dumps(list(place)))) == place
    chance = random.Random(1)
    for found in (space.other(set(), chance), space.near(place, set(), chance)):
        assert found and space.size is None and space.place_of(found) == found and low <= found[0] <= high
    assert space.other({place}, chance) != place != space.near(place, {place}, chance)


def bowl(point):
    return {"cost": (point["x"] - 31) ** 2 + (point["y"] - 7) ** 2, "down": float(point["x"])}


def test_tpe_finds_the_bottom_of_a_bowl_that_chance_misses(tmp_path):
    best = {}
    for method in ("random", "tpe"):
        found = [
            run(search_in(tmp_path / f"{method}{seed}", sweep_of(method, (X, Y), 60, 10, seed, cost="min")), row=bowl)
            for seed in range(2)
        ]
        best[method] = sum(min(bowl(point)["cost"] for point in points) for points in found) / 2
    assert best["tpe"] <= 2 < best["random"]


FOUR = tuple(Axis(f"v{i}", tuple(range(12))) for i in range(4))


def zdt(point):
    """The first function of Zitzler, Deb and Thiele: the front is where all but the first axis are 0."""
    first, *others = (value / 11 for value in point.values())
    g = 1 + 9 * sum(others) / len(others)
    return {"f1": first, "f2": g * (1 - (first / g) ** 0.5), "down": 0.0}


def _hypervolume(points: Points) -> float:
    volume, reach = 0.0, 10.0
    for row in sorted((zdt(point) for point in points), key=lambda row: (row["f1"], row["f2"])):
        if row["f2"] < reach:
            volume += (1.1 - row["f1"]) * (reach - row["f2"])
            reach = row["f2"]
    return volume


@pytest.mark.parametrize(("method", "budget"), [("nsga2", 200), pytest.param("tpe", 60, marks=pytest.mark.slow)])
def test_several_objectives_dominate_more_than_chance_does(method, budget, tmp_path):
    volume = dict.fromkeys(["random", method], 0.0)
    for each in volume:
        for seed in (1, 2):
            sweep = sweep_of(each, FOUR, budget, 20, seed, f1="min", f2="min")
            volume[each] += _hypervolume(run(search_in(tmp_path / f"{each}{seed}", sweep), row=zdt)) / 2
    best = _hypervolume([{"v0": x, "v1": 0, "v2": 0, "v3": 0} for x in range(12)])
    assert 0 <= best - volume[method] < (best - volume["random"]) / 2


@pytest.mark.slow
def test_constraints_draw_the_search_to_what_is_allowed(tmp_path):
    def allowed(method):
        search = search_in(tmp_path / method, sweep_of(method, (X, Y), 120, 20, 5, cost="min"), limit=8)
        return sum(float(point["x"]) <= 8 for point in run(search, row=bowl)[60:])

    assert min(allowed("nsga2"), allowed("tpe")) > 1.5 * allowed("random")


MODELS = Axis("workload.model", ("large", "small"))


def worked(point):
    """The small model is a thousand times as fast on any design; each has a best design of its own."""
    best, factor = (31, 1000) if point["workload.model"] == "small" else (7, 1)
    return {"speed": factor / (1 + (point["x"] - best) ** 2 + (point["y"] - best) ** 2), "down": 0.0}


@pytest.mark.parametrize("method", ["nsga2", "tpe"])
def test_a_search_over_workloads_looks_for_the_best_design_of_each(method, tmp_path):
    sweep = sweep_of(method, (MODELS, X, Y), 240 if method == "nsga2" else 80, 20, 3, speed="max")
    asked = run(search_in(tmp_path, sweep), row=worked)
    late = asked[len(asked) // 2 :]
    for model, best, factor in (("large", 7, 1), ("small", 31, 1000)):
        mine = [point for point in late if point["workload.model"] == model]
        assert len(mine) > len(late) / 5
        assert max(worked(point)["speed"] for point in mine) > factor / (1 + 2 * 6**2), best


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=20))
def test_shares_keep_the_order_within_a_workload_and_forget_its_size(drawn):
    space = Space((Axis("workload.batch", (1, 2, 3)), Axis("x", tuple(range(20)))))
    known = [((work, i), Outcome((10.0**work * a, float(b)))) for i, (work, a, b) in enumerate(drawn)]
    shares = Shares(space)
    shares.learn(known)
    for place, one in known:
        rivals = [other for where, other in known if where[0] == place[0]]
        for nth, share in enumerate(shares.of(place, one).values):
            lower = sum(other.values[nth] < one.values[nth] for other in rivals)
            equal = sum(other.values[nth] == one.values[nth] for other in rivals)
            assert share == pytest.approx((lower + equal / 2) / len(rivals))
