"""Tokens choose experts independently: the exact mean where a closed form prices, draws where steps are simulated."""

import json
from itertools import permutations
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.routing import EVEN, UNIFORM, Routing
from pimloom.arch.system import load_system, spec_digest
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from pimloom.systems.devices.device import Share, device_of
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops
from pimloom.workload.routing import Expectation, busy_chances, chances, tokens_of
from pimloom.workload.shard import Shard
from tests.command import call

ROOT = Path(__file__).resolve().parent.parent
MIXTRAL = load_llm("mixtral-8x7b")
EXPERT = 3 * 4096 * 14336  # weights of one of its experts
ASKED: dict[str, Any] = {"model": "mixtral-8x7b", "generate": 1, "batch": 4, "tp": 2}


def busy(rows: int, each: int, experts: int, routing: Routing = UNIFORM) -> float:
    return fsum(busy_chances(rows, each, experts, routing))


def test_tokens_meet_as_many_experts_as_independent_choices_do() -> None:
    """E (1 - (1 - k/E)^B), by hand: 8 (1 - 0.75^4), 128 (1 - 0.9375^16), 8 (1 - 0.75^2)."""
    assert busy(4, 2, 8) == pytest.approx(5.46875, rel=1e-15)
    assert busy(2, 2, 8) == pytest.approx(3.5, rel=1e-15) and busy(1, 2, 8) == pytest.approx(2, rel=1e-15)
    assert busy(16, 8, 128) == pytest.approx(82.42251130217, rel=1e-12) and busy(10**6, 2, 8) == 8 == busy(1, 8, 8)
    for each, experts in ((1, 4), (2, 8), (8, 128)):
        found = [busy(rows, each, experts) for rows in (0, *range(1, 40))]
        assert found == sorted(found) and all(n <= min(i * each, experts) + 1e-9 for i, n in enumerate(found))


@pytest.mark.parametrize(
    ("shares", "each"), [((5, 1, 1, 1), 2), ((9, 4, 3, 2, 1, 1), 3), ((7, 0, 2, 1), 2), ((3, 1), 1)]
)
def test_chances_are_those_of_draws_without_replacement(shares: tuple[int, ...], each: int) -> None:
    """Every order of experts that a token may draw, each with its probability."""
    wanted = [0.0] * len(shares)
    for order in permutations(range(len(shares)), each):
        left, p = float(sum(shares)), 1.0
        for expert in order:
            p, left = p * shares[expert] / left if left else 0.0, left - shares[expert]
        for expert in order:
            wanted[expert] += p
    assert chances(each, len(shares), Routing(counts=shares)) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("routing", [UNIFORM, Routing(zipf=1.0), Routing(counts=(9, 1, 1, 1, 2, 2, 2, 2))])
def test_the_mean_is_that_of_many_draws(routing: Routing) -> None:
    """A Monte-Carlo of 20,000 steps of five tokens, drawn by exponential races of its own."""
    random, steps, tokens = np.random.default_rng(7), 20_000, 5
    races = random.exponential(size=(steps, tokens, 8)) / np.array(routing.shares(8))
    taken = np.argsort(races, axis=2)[:, :, :2]
    met = np.array([len(set(one.ravel().tolist())) for one in taken])
    assert busy(tokens, 2, 8, routing) == pytest.approx(met.mean(), abs=5 * met.std() / steps**0.5)


def test_draws_have_the_mean_number_of_busy_experts() -> None:
    seeds = [tokens_of(4, 2, 8, Routing(seed=seed)) for seed in range(600)]
    assert all(sum(one) == 8 and max(one) <= 4 for one in seeds) and len(set(seeds)) > 100
    number = [sum(n > 0 for n in one) for one in seeds]
    assert {*number} == {5, 6} and sum(number) / 600 == pytest.approx(5.46875, abs=0.07)
    assert tokens_of(4, 2, 8, Routing(seed=3)) == tokens_of(4, 2, 8, Routing(seed=3))
    assert tokens_of(4, 2, 8, EVEN) == (1,) * 8


def test_experts_of_all_ranks_are_those_of_the_layer() -> None:
    """Weights read and tokens computed are conserved over the ranks of expert parallelism."""
    for routing in (Expectation(UNIFORM), Expectation(Routing(zipf=1.2)), Routing(), EVEN):
        shards = [(Shard(ep=4, rank=rank), 3) for rank in range(4)] + [(Shard(), 12)]
        made = [layer_ops(MIXTRAL, Batch.decode([9] * n), shard, routing=routing) for shard, n in shards]
        *ranks, whole = (op for some in made for op in some if op.name == "mlp.experts.down_proj")
        assert sum(op.rows for op in ranks) == pytest.approx(whole.rows, abs=2) and whole.rows == 24
        assert sum(op.moved.weights for op in ranks) == pytest.approx(whole.moved.weights, abs=4)


def test_a_roofline_reads_the_mean_number_of_experts() -> None:
    """Of 4 tokens 5.46875 of 8 experts, dealt ones all 8; operations are the same."""
    runs = []
    for settings in ({}, {"routing.drawn": "false"}):
        device = device_of(load_system("gpu_h100", settings), MIXTRAL, Share(2, 1, outside=False))
        runs.append(device.step(Batch.decode([64] * 4)))
    drawn, even = runs
    assert even.interface_bytes - drawn.interface_bytes == pytest.approx((8 - 5.46875) * EXPERT, abs=2)  # 16 bits, tp 2
    assert drawn.macs == even.macs


@pytest.mark.parametrize("system", ["gpu_h100", "npu_only", "attacc", "composed"])
def test_every_system_has_the_same_routing(system: str, tmp_path: Path) -> None:
    """`routing.…` changes time, by default fewer experts than are dealt; two experts are two, whoever draws."""
    shape = {"hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8}
    small = {"model_type": "mixtral", **shape, "num_hidden_layers": 1, "num_local_experts": 8, "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(small))
    name = system if system != "composed" else str(ROOT / "examples/systems/hbm3_npu.yaml")

    def time_s(**changed: Any) -> float:
        there = load_system(name, {f"routing.{key}": str(value).lower() for key, value in changed.items()})
        tp = 8 if system == "attacc" else 1
        return device_of(there, load_llm(str(tmp_path)), Share(tp, 1)).step(Batch.decode([8] * 4)).time_s

    assert time_s() < time_s(drawn=False) or system == "attacc"  # whose matrices here wait for nothing but tiles
    assert len({time_s(), time_s(zipf=4), time_s(counts=[0, 0, 0, 0, 0, 0, 1, 1])}) == 3
    two = [0, 0, 0, 0, 0, 0, 1, 1]
    assert time_s(counts=two) == pytest.approx(time_s(counts=two, drawn=False), rel=1e-3)
    if system != "gpu_h100":
        assert len({time_s(seed=seed) for seed in range(4)}) > 1


def test_run_compare_and_sweep_price_the_same_step() -> None:
    ours: Any = pimloom.run("gpu_h100", **ASKED, lm_head=False, set={"routing.zipf": 1})
    plain: Any = pimloom.run("gpu_h100", **ASKED, lm_head=False)
    compared: Any = pimloom.compare(["gpu_h100"], **ASKED, lm_head=False)
    (row,) = compared.systems
    assert row.latency_s == plain.latency_s > ours.latency_s
    work = {"model": "mixtral-8x7b", "generate": 1, "batch": 4, "tp": 2}
    sweep = sweep_from({"system": "gpu_h100", "workload": work, "axes": {"routing.zipf": [0, 1]}})
    base = base_of(sweep)
    check_points(base, sweep)
    assert [evaluate(base, {"routing.zipf": zipf}).row["latency_s"] for zipf in (0, 1)] == [
        plain.latency_s, ours.latency_s,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("system", "model", "setting", "said"),
    [
        ("gpu_h100", "llama-3-8b", {"routing.zipf": "1"}, "routing.zipf: llama-3-8b has no experts"),
        ("npu_only", "gpt2", {"routing.seed": "1"}, "routing.seed: gpt2 has no experts"),
        ("gpu_h100", "mixtral-8x7b", {"routing.counts": "[1,2]"}, "counts of 2 experts, mixtral-8x7b has 8"),
        ("gpu_h100", "mixtral-8x7b", {"routing.seed": "1"}, "it takes the exact mean of all draws"),
        ("npu_only", "gpt2", {"routing.drawn": "false", "routing.seed": "1"}, "not read with routing.drawn=false"),
    ],
)
def test_what_changes_nothing_is_refused(system: str, model: str, setting: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said.replace(".", r"\.")):
        device_of(load_system(system, setting), load_llm(model), Share(8, 1))


def test_routing_is_in_the_digest() -> None:
    found = [
        spec_digest(load_system("npu_only", settings), MIXTRAL)
        for settings in ({}, {"routing.seed": "0"}, {"routing.seed": "1"}, {"routing.zipf": "1"})
    ]
    assert found[0] == found[1] and len({*found}) == 3


def test_serving_says_how_experts_are_chosen() -> None:
    served: dict[str, Any] = {"model": "mixtral-8x7b", "arrivals": "burst", "lengths": "16:2", "requests": 2, "tp": 2}
    mean: Any = pimloom.serve("gpu_h100", **served)
    dealt: Any = pimloom.serve("gpu_h100", **served, set={"routing.drawn": False})
    assert mean.time_s < dealt.time_s
    done = call("serve", "gpu_h100", *(word for key, value in served.items() for word in (f"--{key}", str(value))))
    assert done.code == 0 and "a step of 4 tokens uses 5.47 of 8 in a layer in the mean" in done.err
