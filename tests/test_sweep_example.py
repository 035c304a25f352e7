"""The sweep of PIM-GPT in `examples/pim_gpt`: its front is in the repository, and comes out again."""

import os
from pathlib import Path

import pandas as pd
import pytest

from pimloom.sweeping.definition.load_sweep import load_sweep
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from pimloom.sweeping.run import Options, run_sweep
from pimloom.sweeping.table import open_table

FOLDER = Path(__file__).parent.parent / "examples" / "pim_gpt"
SWEEP = load_sweep(FOLDER / "sweep.yaml")
AXES = [axis.column for axis in SWEEP.axes]
SHOWN = [*AXES, "latency_s", *SWEEP.objectives, "power_w"]


def test_it_has_more_than_ten_thousand_points() -> None:
    assert Grid(SWEEP).size == 2 * 4 * 3 * 3 * 8 * 5 * 4 == 11_520


def test_points_of_the_front_come_out_as_they_are_in_the_repository() -> None:
    front, base = pd.read_csv(FOLDER / "pareto.csv"), base_of(SWEEP)
    places = dict(zip(AXES, (axis.place for axis in SWEEP.axes), strict=True))
    assert len(front) > 10 and not front.duplicated(AXES).any()
    for _, row in front.iloc[:: len(front) // 3].iterrows():
        point = {
            place: getattr(row[column], "item", lambda c=column, r=row: r[c])() for column, place in places.items()
        }
        found = evaluate(base, point).row
        assert found["error"] is None
        assert {name: found[name] for name in SHOWN} == {name: row[name] for name in SHOWN}


@pytest.mark.slow
def test_the_whole_sweep_ends_with_the_front_in_the_repository(tmp_path: Path) -> None:
    """With PIMLOOM_UPDATE_GOLDEN=1 it writes that front anew."""
    frame = open_table(run_sweep(FOLDER / "sweep.yaml", tmp_path / "out", Options())).table.frame
    assert len(frame) == Grid(SWEEP).size and frame["error"].isna().all() and not frame.duplicated("point").any()
    front = frame.loc[frame["pareto"], SHOWN].reset_index(drop=True)
    if os.environ.get("PIMLOOM_UPDATE_GOLDEN") == "1":
        front.to_csv(FOLDER / "pareto.csv", index=False, lineterminator="\n")
    pd.testing.assert_frame_equal(front, pd.read_csv(FOLDER / "pareto.csv"), check_exact=True, check_dtype=False)
