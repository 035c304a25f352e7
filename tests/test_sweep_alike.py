"""Energies of points: which cells of the ledger they hold, and no best among sums over different cells."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.reports.sweep.findings import study
from pimloom.reports.sweep.headline import cards, headline
from pimloom.reports.sweep.page import render
from pimloom.sweeping.alike import energies_of, fair_front, reasons
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.folder import check_columns
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from pimloom.sweeping.table import open_table
from tests.command import call

ARRIVING = {"model": "gpt2", "arrivals": "poisson:50/s", "requests": 4, "lengths": "64:4", "sample": 0}
GENERATED = {"model": "gpt2", "prompt": 8, "generate": 2}
BOTH = ["gpu_a100", "duplex"]
ENERGY = {"energy_per_token_j": "min"}


def swept(folder: Path, **change: Any) -> dict[str, Any]:
    """The status of a sweep in this folder."""
    given = {"system": BOTH, "workload": ARRIVING, "objectives": ENERGY | {"latency_p90_s": "min"}}
    pimloom.sweep(given | change, out=folder, workers=1)
    found: dict[str, Any] = json.loads(call("sweep", "status", str(folder), "--json", "-").out)
    assert found["failed"] == 0, found["errors"]
    return found


def test_no_system_has_the_least_energy_over_other_cells(tmp_path: Path) -> None:
    found = swept(tmp_path / "s")
    why = found["open"]["energy_per_token_j"]
    assert why.startswith("energies are sums over different cells: static DRAM core, ") and "unknown on duplex" in why
    assert "host" not in why  # unknown on both
    assert found["best"]["energy_per_token_j"] is None and found["best"]["latency_p90_s"]["point"]["system"] == "duplex"
    said = " ".join(call("sweep", "status", str(tmp_path / "s")).out.split())
    assert "no point is best: energies are sums over different cells: static DRAM core" in said
    assert "fronts compare energies over the same cells only" in said

    table = open_table(tmp_path / "s").table
    rows = table.frame.set_index("system")
    assert rows["energy_cells"].tolist() == [10, 4] and rows["energy_bound"].tolist() == ["upper", "lower"]
    assert rows.loc["gpu_a100", "energy_cells_unknown"] == "dynamic host + static host"
    assert rows["pareto"].tolist() == [True, True]  # the GPU is slower and needs more, of other cells
    findings = study(table)
    assert findings.front.tolist() == [True, True]
    line = f"No point is best in `energy_per_token_j`: {why}. Fronts compare energies over the same cells only."
    labels = [card.label for card in cards(table, findings)]
    assert line in headline(table, findings)
    assert "Lowest latency_p90_s" in labels and "Lowest energy_per_token_j" not in labels
    text = re.sub(r"<[^>]*>", "", render(table, findings).decode().partition("<script")[0])
    assert text.count(line.replace("`", "")) == 2  # in the head, and above the front


@pytest.mark.parametrize(
    ("workload", "objective", "way"),
    [
        (ARRIVING, "energy_per_request_j", "min"),
        (ARRIVING, "tokens_per_s / energy_j", "max"),
        (ARRIVING | {"goodput": True, "rate": "1:2", "slo": "latency=1s"}, "requests_per_j", "max"),
    ],
)
def test_without_a_best_there_is_no_front_of_one_objective(
    workload: dict[str, Any], objective: str, way: str, tmp_path: Path
) -> None:
    found = swept(tmp_path / "s", workload=workload, objectives={objective: way})
    assert found["best"] == {objective: None} and found["pareto"] == 0 and objective in found["open"]
    assert not study(open_table(tmp_path / "s").table).front.any()


def test_energies_over_the_same_cells_have_a_best(tmp_path: Path) -> None:
    found = swept(tmp_path / "s", system=["gpu_a100", "gpu_h100"], objectives=ENERGY)
    assert found["open"] == {} and found["pareto"] == 1 and found["best"]["energy_per_token_j"]["value"] > 0


@pytest.mark.parametrize(
    ("system", "workload", "cells", "bound"),
    [
        ("t4", GENERATED, 10, "upper"),
        ("gpu_a100", GENERATED | {"batch": 2}, 10, "upper"),
        ("t4", ARRIVING, 10, "neither"),  # at most while it works, and nothing while it waits
        ("pim_gpt", GENERATED, 9, "lower"),
        ("neupims", GENERATED | {"batch": 2, "layers": 1}, 10, "estimate"),
        ("neupims", GENERATED | {"batch": 2, "layers": 1, "chunk": 64}, 10, "estimate"),
        ("duplex", GENERATED, 4, "lower"),
        ("attacc", GENERATED | {"model": "gpt3-7b"}, 5, "lower"),
        ("cent", {"model": "llama-2-7b", "prompt": 2, "generate": 2}, 8, "lower"),
    ],
)
def test_rows_say_which_cells_they_hold(system: str, workload: dict[str, Any], cells: int, bound: str) -> None:
    key = "prompt" if "prompt" in workload else "seed"
    value = workload.get(key, 1)
    base = base_of(sweep_from({"system": system, "workload": workload | {key: [value]}}))
    row = evaluate(base, {f"workload.{key}": value}).row
    assert row["error"] is None
    assert (row["energy_cells"], row["energy_bound"]) == (cells, bound)
    assert len(row["energy_cells_unknown"].split(" + ")) == 12 - cells


def frame(unknown: list[str | None], bound: list[str], joules: list[float], **more: list[Any]) -> pd.DataFrame:
    columns = {"energy_cells_unknown": unknown, "energy_bound": bound, "energy_j": joules, "feasible": True}
    return pd.DataFrame(columns | more)


def test_cells_are_named_by_points_where_a_system_has_both() -> None:
    links, host = "static links + static host", "static host"
    found = frame([links, host, host], ["lower"] * 3, [1.0, 2.0, 3.0])
    said = "energies are sums over different cells: static links is unknown in 1 of 3 points"
    assert reasons(found, {"energy_j": "min"}, ["energy_j"]) == {"energy_j": said}
    assert reasons(found.assign(system=["a", "a", "b"]), {"energy_j": "min"}, ["energy_j"]) == {"energy_j": said}
    assert reasons(found[1:], {"energy_j": "min"}, ["energy_j"]) == {}
    assert reasons(found.assign(feasible=[False, True, True]), {"energy_j": "min"}, ["energy_j"]) == {}
    assert reasons(found, {"energy_j": "min"}, []) == {}


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (["upper", "estimate"], ""),  # the least is at most so much
        (["estimate", "upper"], "they are estimates on a and upper bounds on b"),
        (["lower", "estimate"], "they are lower bounds on a and estimates on b"),
        (["neither", "neither"], ""),
    ],
)
def test_bounds_may_leave_the_order_open(bounds: list[str], said: str) -> None:
    found = frame(["none"] * 2, bounds, [1.0, 2.0], system=["a", "b"])
    why = reasons(found, {"energy_j": "min"}, ["energy_j"])
    assert why == ({"energy_j": f"bounds leave the order of energies open: {said}"} if said else {})


def test_a_front_keeps_points_of_other_cells_apart() -> None:
    """The second point is slower and needs more than the first one; the third is of other cells."""
    found = frame(["none", "none", "static host"], ["upper"] * 3, [1.0, 2.0, 3.0], latency_s=[1.0, 2.0, 3.0])
    both, one = {"energy_j": "min", "latency_s": "min"}, np.zeros(3, dtype=int)
    good = np.ones(3, dtype=bool)
    assert fair_front(found, both, ["energy_j"], good, one).tolist() == [True, False, True]
    assert fair_front(found, both, [], good, one).tolist() == [True, False, False]
    assert fair_front(found, {"energy_j": "min"}, ["energy_j"], good, one).tolist() == [False] * 3
    apart = np.array([0, 0, 1])
    assert fair_front(found, {"energy_j": "min"}, ["energy_j"], good, apart).tolist() == [True, False, True]


def test_an_axis_is_no_energy_and_texts_are_compared_only() -> None:
    sweep: dict[str, Any] = {
        "system": "gpu_a100", "workload": GENERATED, "axes": {"power_w": [300]}, "objectives": {"power_w": "min"},
    }  # fmt: skip
    assert energies_of(sweep_from(sweep)) == ()
    assert energies_of(sweep_from(sweep | {"objectives": {"log10(energy_j)": "min", "latency_s": "min"}})) == (
        "log10(energy_j)",
    )
    good = sweep_from(sweep | {"constraints": ["energy_bound == 'upper'"]})
    check_columns(good, base_of(good))
    bad = sweep_from(sweep | {"objectives": {"energy_bound": "min"}})
    with pytest.raises(UserError, match="energy_bound is text"):
        check_columns(bad, base_of(bad))


def test_a_constraint_reads_the_bound(tmp_path: Path) -> None:
    found = swept(tmp_path / "s", constraints=["energy_bound == 'upper'"])
    assert found["feasible"] == 1 and found["open"] == {}
    assert found["best"]["energy_per_token_j"]["point"]["system"] == "gpu_a100"
