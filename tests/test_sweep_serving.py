"""Points of a sweep that are served as they arrive: the numbers of `pimloom serve`, whatever was simulated before."""

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.load_sweep import load_sweep, sweep_from
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.point import serving
from pimloom.sweeping.point.digests import key_of
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import Base, base_of

DRAWN: dict[str, Any] = {
    "model": "gpt2", "layers": 2, "arrivals": "poisson:500/s", "lengths": "64:16", "requests": 30, "sample": 2,
}  # fmt: skip
NARROW = str(Path(__file__).parent / "narrow_gpt2.json")
ONE_LAYER: dict[str, Any] = {"model": NARROW, "exact": True, "layers": 1, "lm_head": False}
OF_THIS_RUN = ("wall_s", "host", "finished_utc")


def base(system: str = "gpu_a100", axes: dict[str, Any] | None = None, **workload: Any) -> Base:
    written = {"system": system, "workload": workload, "axes": axes or {"power_w": [300, 400]}, "seed": 5}
    return base_of(sweep_from(written))


def row_of(made: Base, **point: Any) -> dict[str, Any]:
    row = evaluate(made, {"power_w": 300} | point).row
    return {name: value for name, value in row.items() if name not in OF_THIS_RUN}


def test_a_row_is_what_is_served():
    row = row_of(base(**DRAWN, slo="ttft=80us,tpot=100us", scheduler="sarathi", batch=4, replicas=2))
    found = pimloom.serve(
        "gpu_a100", **DRAWN, slo="ttft=80us,tpot=100us", scheduler="sarathi", batch=4, replicas=2, seed=5,
        set={"power_w": 300},
    )  # fmt: skip
    assert row["error"] is None and row["spec_digest"] == found.spec_digest
    assert row["time_to_first_token_s"] == found.time_to_first_token_s.mean
    assert row["token_gap_p99_s"] == found.token_gap_s.p99 and row["latency_p90_s"] == found.latency_s.p90
    held = found.requests["slo"]
    assert 0 < held.sum() < 30 and row["slo_share"] == held.mean()
    assert row["goodput_per_s"] == pytest.approx(held.sum() / found.time_s)
    assert row["requests_per_s"] == pytest.approx(30 / found.time_s) and row["tokens_per_s"] == found.tokens_per_s
    assert row["energy_per_request_j"] == pytest.approx(found.energy_j / 30)
    assert row["iterations"] == found.iteration_count and row["pricing_error_bound"] == found.pricing.error_bound


@pytest.mark.parametrize(
    ("system", "more"),
    [
        ("gpu_a100", {"speculate": "draft=gpt2, gamma=3, alpha=0.7"}),
        ("gpu_a100", {"branches": "4", "shared_kv": True}),
        ("gpu_a100", {"branches": "3", "mode": "hogwild"}),
        (
            "neupims",
            ONE_LAYER | {"policy": "round-robin", "requests": 2, "lengths": "8:2"},
        ),
    ],
)
def test_drafts_branches_and_placement_are_keys(system, more):
    work = {name: value for name, value in (DRAWN | more).items() if name != "sample" or "exact" not in more}
    place = {"gpu_a100": "power_w", "neupims": "dram.channels"}[system]
    row = evaluate(base(system, {place: [4, 300]}, **work), {place: 4}).row
    found = pimloom.serve(system, **work, seed=5, set={place: 4})
    assert row["error"] is None and row["spec_digest"] == found.spec_digest, row["error"]
    assert (row["latency_s"], row["energy_j"]) == (found.latency_s.mean, found.energy_j)
    assert (row["accepted_share"], row["tokens_per_step"]) == (found.accepted_share, found.tokens_per_step)


POOLS = "prefill=gpu_a100*2,decode=gpu_a100"
FOLLOWING = {"shares": "prefill=60,decode=40,window=5", "slo": "ttft=9s,tpot=1s"}
PRICED = {"pp": 2, "price": "1:2"}
TOGETHER: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm-v1": ("gpu_a100", {"pools": POOLS, "link": "400Gb/s,5pJ/bit", "transfer": "layers"}),
    "distserve": ("gpu_a100", {"pools": f"{POOLS}:tp2:pp2", "link": "nvlink3", "scheduler": "distserve"} | PRICED),
    "splitwise": ("gpu_a100", {"pools": POOLS, "link": "nvlink3", "scheduler": "splitwise", "mixed": True}),
    "others": ("gpu_a100", {"pools": "prefill=t4,decode=gpu_a100", "link": "100Gb/s"}),
    "semi-pd": ("gpu_a100", {"scheduler": "semi-pd"} | FOLLOWING),
    "semi-pd on arrays": ("npu_only", {"scheduler": "semi-pd", "shares": "prefill=50,decode=50"} | ONE_LAYER),
    "nanoflow": ("gpu_a100", {"overlap": "nanoflow,parts=2"}),
    "tokenweave": ("gpu_a100", {"overlap": "tokenweave", "tp": 2}),
    "sub-batches": ("neupims", {"overlap": "sub-batches,parts=1"} | ONE_LAYER),
    "fine-tuning": ("gpu_a100", {"finetune": "sequence=256,rank=8", "slo": "tpot=1ms"}),
    "later vllm": ("gpu_a100", {"num_preallocate_tokens": 0, "scheduler_reserve_full_isl": True, "blocks": 70}),
    "pp": ("gpu_a100", {"pp": 2, "scheduler": "sarathi", "replicas": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_what_runs_together_is_a_key(name):
    """Figure by figure what the command says, with a setting of the sweep in each system that has its name."""
    system, more = TOGETHER[name]
    cheap = {"requests": 2, "lengths": "8:2"} if more.get("exact") else {}
    work = {key: value for key, value in (DRAWN | cheap | more).items() if key != "sample" or "exact" not in more}
    place, value = ("power_w", 300) if system == "gpu_a100" else ("dram.channels", 4)
    row = evaluate(base(system, {place: [value, value + 4]}, **work), {place: value}).row
    asked = {"system" if key == "pools" else key: value for key, value in work.items()}
    here = {} if name == "others" else {"set": {place: value}}
    found = pimloom.serve(**{"system": system} | asked | here, seed=5)
    assert row["error"] is None, row["error"]
    if name == "others":
        assert row["time_s"] == found.time_s and row["energy_j"] < found.energy_j  # 300 W is set in the A100 alone
        return
    assert (row["spec_digest"], row["iterations"]) == (found.spec_digest, found.iteration_count)
    assert (row["latency_s"], row["latency_p99_s"]) == (found.latency_s.mean, found.latency_s.p99)
    assert (row["time_per_output_token_s"], row["energy_j"]) == (found.time_per_output_token_s.mean, found.energy_j)
    assert (row["usd_per_h"], row["tokens_per_usd"]) == (found.usd_per_h, found.tokens_per_usd)
    assert (row["busy_share"], row["time_s"]) == (found.busy_share, found.time_s)
    assert (row["pricing_error"], row["blocks"]) == (found.pricing.error, found.blocks)
    moved = found.requests["transfer_s"].mean() if "pools" in more else None
    assert row["transfer_s"] == (None if moved is None else pytest.approx(moved))
    beside = found.beside or {"finetuned_tokens_per_s": None, "share_of_peak": None}
    assert row["finetuned_tokens_per_s"] == beside["finetuned_tokens_per_s"]
    assert row["finetuned_share_of_peak"] == beside["share_of_peak"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"pools": POOLS}, f"{POOLS}: expected workload.link, which carries keys and values"),
        ({"link": "nvlink3"}, "workload.link nvlink3: is between pools, such as"),
        ({"pools": "gpu_a100", "link": "nvlink3"}, "workload.pools gpu_a100: expected one for prompts and one for dec"),
        (
            {"pools": POOLS.replace("gpu_a100", "t4"), "link": "nvlink3"},
            "workload.pools prefill=t4*2,decode=t4: n",
        ),
        ({"pools": "prefill=none,decode=gpu_a100", "link": "nvlink3"}, "unknown system 'none'; known systems"),
        ({"scheduler": "distserve"}, "workload.scheduler distserve: serves pools, such as"),
        ({"scheduler": "semi-pd", "shares": "prefill=50"}, "workload.shares prefill=50: expected decode, too"),
        ({"overlap": "nano"}, "workload.overlap nano: expected serial, nanoflow"),
        (
            {"finetune": "sequence=64"},
            "workload.finetune: expected a time per output token to fill iterations up",
        ),
    ],
)
def test_what_cannot_run_together_is_a_row_with_its_reason(more, said):
    row = row_of(base(**DRAWN | more))
    assert row["error"] is not None and row["error"].startswith(said), row["error"]


def test_systems_of_pools_come_by_name_and_one_system_is_that_of_the_sweep():
    for written, said in (
        ({"system": "gpu_a100", "workload": DRAWN | {"pools": "prefill=./a.yaml,decode=t4"}}, "take systems by name"),
        ({"system": POOLS, "workload": DRAWN}, "expected one; pools of several are a key, workload.pools"),
    ):
        with pytest.raises(UserError, match=said):
            base_of(sweep_from(written | {"axes": {"power_w": [300]}}))


def test_what_branches_make_is_other_work_and_drafts_are_a_design():
    axes = {"workload.branches": ["2", "4"], "workload.speculate": ["medusa", "draft=gpt2,gamma=2,alpha=0.5"]}
    sweep = sweep_from({"system": "gpu_a100", "workload": DRAWN, "axes": axes})
    assert {axis.place for axis in sweep.axes if axis.is_work} == {"workload.branches"}


def test_requests_come_at_a_rate_until_the_run_is_steady():
    slow, fast = (row_of(base(**DRAWN, rate=rate)) for rate in (10, 1e6))
    assert slow["requests_per_s"] == pytest.approx(10, rel=0.01) and fast["requests_per_s"] < 1e6 / 2
    assert (slow["backlog_steady"], fast["backlog_steady"]) == (1, 0) and fast["backlog_growth"] > 0.4
    assert slow["slo_share"] is None and slow["goodput_per_s"] is None
    held = row_of(base(**DRAWN, rate=1e6, slo="latency=1000s"))
    assert held["slo_share"] == 1.0 and held["goodput_per_s"] == 0.0 and held["spec_digest"] != fast["spec_digest"]
    assert slow["spec_digest"] != fast["spec_digest"]
    again = row_of(base(axes={"workload.rate": [10]} | {"power_w": [300]}, **DRAWN), **{"workload.rate": 10})
    assert again["time_to_first_token_s"] == slow["time_to_first_token_s"]


def test_seeds_and_designs_are_told_apart():
    axes = {"workload.seed": [0, 1], "workload.batch": [1, 8], "workload.rate": [1.5, 2.5], "power_w": [300]}
    sweep = sweep_from({"system": "gpu_a100", "workload": DRAWN, "axes": axes})
    assert {axis.place for axis in sweep.axes if axis.is_work} == {"workload.seed", "workload.rate"}
    made = base_of(sweep)
    rows = [row_of(made, **{"workload.seed": seed, "workload.batch": 8}) for seed in (0, 1, 0)]
    assert rows[0] == rows[2] and rows[0]["time_s"] != rows[1]["time_s"]


def test_what_came_before_changes_nothing():
    made = base("t4", {"workload.rate": [5, 50]}, **DRAWN)
    point = {"workload.rate": 50}
    serving._KEPT.clear()
    alone = evaluate(made, point).row
    evaluate(made, {"workload.rate": 5})
    again = evaluate(made, point).row
    assert alone["error"] is None
    for name in (name for name in alone if name not in OF_THIS_RUN):
        assert alone[name] == again[name], name


def test_pim_gpt_depends_on_when_steps_come_and_is_never_kept():
    made = base("pim_gpt", {"workload.rate": [5]}, model="gpt2", arrivals="burst", lengths="8:4", requests=3)
    serving._KEPT.clear()
    row = evaluate(made, {}).row  # all at once: the rate of the axis is not in this point
    served = pimloom.serve("pim_gpt", model="gpt2", arrivals="burst", lengths="8:4", requests=3, seed=5)
    assert row["latency_s"] == served.latency_s.mean and row["energy_j"] == served.energy_j and not serving._KEPT
    assert row["area_mm2"] > 0
    said = evaluate(made, {"workload.rate": 5}).row["error"]
    assert (
        said == "workload.rate: all requests arrive at once; give workload.arrivals poisson:1/s or a trace with times"
    )


TRACE = [{"timestamp": 100 * i, "input_length": 1030, "output_length": 4, "hash_ids": [1, 2, 10 + i]} for i in range(4)]


def test_a_trace_travels_with_what_its_prompts_share(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(map(json.dumps, TRACE)))
    made = base(model="gpt3-xl", layers=2, trace=str(file))
    file.unlink()
    there = msgspec.json.decode(msgspec.json.encode(made), type=Base)
    row = row_of(there)
    assert row["prefix_hit_share"] == pytest.approx(3 * 1024 / (4 * 1030)) and row["iterations"] > 4
    assert key_of(there, {"power_w": 300}) == key_of(made, {"power_w": 300})
    file.write_text("\n".join(map(json.dumps, TRACE[:3])))
    other = base(model="gpt3-xl", layers=2, trace=str(file))
    assert key_of(other, {"power_w": 300}) != key_of(made, {"power_w": 300})
    first = row_of(base(model="gpt3-xl", layers=2, trace=str(file), requests=1))
    assert first["prefix_hit_share"] == 0.0


@pytest.mark.parametrize(("key", "value"), [("price", 1.29), ("price", 2), ("branches", 3), ("density", 0.25)])
def test_a_number_is_as_good_as_its_text(key, value):
    """In a sweep and in Python."""
    asked = DRAWN | {"requests": 4}
    by_number, by_text = (row_of(base(**asked | {key: each})) for each in (value, str(value)))
    for row in (by_number, by_text):
        del row["point"], row["base_digest"]  # of what is written
    served = pimloom.serve("gpu_a100", **asked | {key: value}, seed=5, set={"power_w": 300})
    assert by_number == by_text and by_number["error"] is None
    assert served.spec_digest == by_number["spec_digest"] and served.tokens_per_usd == by_number["tokens_per_usd"]


def test_no_truth_is_a_number():
    with pytest.raises(UserError, match="^price: expected a text or a number, got True$"):
        pimloom.serve("gpu_a100", **DRAWN, price=True)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (DRAWN | {"generate": 4}, "workload.generate: unknown key of a workload with arrivals or a trace, expected"),
        (DRAWN | {"schedular": "orca"}, "unknown key of a workload with arrivals or a trace"),
        (DRAWN | {"requests": "sharegpt"}, "workload.requests: expected an int from 1 to 1048576, got sharegpt"),
        (DRAWN | {"requests": True}, "workload.requests: expected an int from 1 to 1048576, got True"),
        (DRAWN | {"rate": 0}, "workload.rate: expected a number from 1e-06 to 1e+09, in requests per s, got 0"),
        (DRAWN | {"exact": 1}, "workload.exact: expected true or false, got 1"),
        (DRAWN | {"slo": 1}, "workload.slo: expected text, got 1"),
        (DRAWN | {"speculate": "draft=my/config.json,alpha=0.5"}, "workload.speculate: sweeps take a draft and its m"),
        (DRAWN | {"branches": True}, "workload.branches: expected text or a number, got True"),
        ({"model": "gpt2", "arrivals": "burst"}, "workload: missing key 'requests' (how many come with"),
        ({"arrivals": "burst", "requests": 1}, "workload: missing key 'model' (a preset or a config.json)"),
        (DRAWN | {"trace": "x.csv"}, "workload.lengths: the trace has lengths of its own; leave one of the two out"),
        ({"model": "gpt2", "trace": "none.csv"}, "none.csv: no such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_workload_is_refused_before_the_start(workload, said):
    with pytest.raises(UserError) as error:
        base(**workload)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"scheduler": "orcas"}, "workload.scheduler orcas: expected one of vllm-v1"),
        ({"slo": "ttft=1"}, "workload.slo ttft=1: expected a time in s, ms or us"),
        ({"batch_tokens": 3, "scheduler": "vllm-v0"}, "64:16: request 0 has a prompt of 64 tokens"),
        ({"arrivals": "often"}, "workload.arrivals often: expected one such as poisson:2/s"),
        ({"layers": 99}, "expected 1 to 12"),
    ],
)
def test_a_point_that_cannot_be_served_is_a_row_with_its_reason(more, said):
    row = row_of(base(**DRAWN | more))
    assert said in row["error"] and row["latency_s"] is None and "--" not in row["error"]


def test_limits_that_none_holds_are_no_error():
    row = row_of(base(**DRAWN, slo="ttft=1us"))
    assert row["error"] is None and row["slo_share"] == row["goodput_per_s"] == 0.0


@pytest.mark.parametrize(
    ("judged", "slo", "said"),
    [
        ({"objectives": {"goodput_per_s": "max"}}, None, "goodput_per_s: no row has it without limits; give workload"),
        (
            {"constraints": ["slo_share > 0.9"]},
            None,
            "slo_share: no row has it without limits; give workload.slo, such",
        ),
        ({"objectives": {"slo_ttft_share": "max"}}, "tpot=50ms", "slo_ttft_share: no row has it without limits; give"),
        ({"objectives": {"slo_tpot_share": "max", "goodput_per_s": "max"}}, "tpot=50ms", None),
        ({"objectives": {"tokens_per_usd": "max"}}, None, "tokens_per_usd: no row has it without workload.price; give"),
        ({"objectives": {"transfer_s": "min"}}, None, "transfer_s: no row has it without workload.pools; give it"),
    ],
)
def test_what_needs_limits_is_no_objective_without(judged, slo, said):
    work = DRAWN | ({} if slo is None else {"slo": slo})
    sweep = sweep_from({"system": "gpu_a100", "workload": work, "axes": {"power_w": [300, 400]}} | judged)
    with nullcontext() if said is None else pytest.raises(UserError, match=f"^{re.escape(said or '')}"):
        check_points(base_of(sweep), sweep)


def test_a_refusal_in_a_row_names_places_as_sweeps_do():
    made = base("attacc", {"gpus": [2]}, model="gpt3-175b", arrivals="burst", lengths="8:4", requests=2)
    row = evaluate(made, {"gpus": 2}).row
    assert row["error"] is not None and row["error"].endswith("; take 6 (gpus=6)"), row["error"]


def test_the_example_can_be_swept(monkeypatch):
    root = Path(__file__).parents[1]
    monkeypatch.chdir(root)
    sweep = load_sweep(root / "examples" / "sweep_serving.yaml")
    assert Grid(sweep).size == 144
    made = base_of(sweep)
    check_points(made, sweep)
    point = {axis.place: axis.values[0] for axis in sweep.axes}
    row = evaluate(made, point).row
    assert row["error"] is None and 0 < row["slo_share"] <= 1 and row["requests_per_s"] > 0
