"""What a row says beside its results: axes that bear a result's name, a place below `workload.`, digests."""

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.point.digests import key_of
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.row import columns_of_row
from pimloom.sweeping.point.shared import base_of


def base(system, workload, axes, **more):
    sweep = sweep_from({"system": system, "workload": workload, "axes": axes, **more})
    found = base_of(sweep)
    check_points(found, sweep)
    return found


def test_an_axis_with_the_name_of_a_result_keeps_its_column():
    """A roofline has places `power_w` and `memory_bytes`; four GPUs use four times as much, a failed point has none."""
    many = base("gpu_a100", {"model": "gpt2", "generate": 2, "tp": 4}, {"power_w": [300, 400]})
    row = evaluate(many, {"power_w": 300}).row
    assert row["power_w"] == 300 and row["energy_j"] == pytest.approx(4 * 300 * row["latency_s"], rel=1e-12)
    assert list(row) == columns_of_row(many) and len(set(row)) == len(columns_of_row(many))
    small = base("gpu_a100", {"model": "gpt2", "generate": 2}, {"memory_bytes": [1000, 10**11]})
    row = evaluate(small, {"memory_bytes": 1000}).row
    assert "memory" in row["error"] and row["memory_bytes"] == 1000


def test_lm_head_is_an_axis():
    heads = base("pim_gpt", {"model": "gpt2", "generate": 1}, {"workload.lm_head": [False, True]})
    for on in (False, True):
        row = evaluate(heads, {"workload.lm_head": on}).row
        run = pimloom.run("pim_gpt", model="gpt2", generate=1, set={"workload.lm_head": on})
        assert (row["latency_s"], row["spec_digest"]) == (run.latency_s, run.spec_digest)
    with pytest.raises(UserError, match="lm_head: expected true or false"):
        base("pim_gpt", {"model": "gpt2", "generate": 1}, {"workload.lm_head": [1, 2]})
    with pytest.raises(UserError, match="`set` and in `workload`"):
        fixed = {"model": "gpt2", "generate": 1, "lm_head": True}
        base("pim_gpt", fixed, {"dram.channels": [8]}, set={"workload.lm_head": False})
    with pytest.raises(UserError, match="unknown key"):
        base("gpu_a100", {"model": "gpt2", "generate": 1, "lm_head": True}, {"peak_share": [0.5]})


def test_a_seed_that_draws_nothing_decides_nothing():
    work, point = {"model": "gpt2", "batch": 2, "generate": 1}, {"peak_share": 0.5}
    one, two = (base("gpu_a100", work, {"peak_share": [0.5]}, seed=seed) for seed in (1, 2))
    assert key_of(one, point) == key_of(two, point)
    assert evaluate(one, point).row["spec_digest"] == evaluate(two, point).row["spec_digest"]
