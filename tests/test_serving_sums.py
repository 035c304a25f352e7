"""Throughput in steady state, work that is done once more, and utilisation, each by hand from what is served."""

import json
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.devices.run import LIMITS
from pimloom.workload.batch import Batch, Request
from tests.command import call

SERVE: dict[str, Any] = {"model": "gpt2", "arrivals": "poisson:500/s", "lengths": "alpaca", "requests": 40, "layers": 2}
TOLD = {"compute", "memory bandwidth"}  # by a roofline without launches
TIGHT: dict[str, Any] = {"blocks": 30, "arrivals": "burst"}


def served(system: str = "gpu_a100", **given: Any) -> Any:
    return pimloom.serve(system, **SERVE | given)


@pytest.mark.parametrize("more", [
    {}, {"exact": True, "requests": 15}, {"scheduler": "sarathi"}, {"scheduler": "orca", "replicas": 3}
])  # fmt: skip
def test_steady_state_is_while_the_middle_of_requests_comes(more):
    found = served(**more)
    requests, iterations = found.requests, found.iterations
    start, end = np.quantile(requests["arrival_s"], [0.1, 0.9])
    inside = iterations[(iterations["end_s"] > start) & (iterations["end_s"] <= end)]
    assert (found.steady.from_s, found.steady.to_s) == (pytest.approx(start), pytest.approx(end))
    assert found.steady.tokens_per_s == pytest.approx(inside["output_tokens"].sum() / (end - start))
    assert found.steady.tokens_per_s > found.tokens_per_s  # of requests that drain for a while
    first, last = requests["first_token_s"], requests["completion_s"]
    if found.replicas == 1:  # a token in each iteration from the first one on
        assert [((first <= at) & (at <= last)).sum() for at in iterations["end_s"]] == list(iterations["output_tokens"])


@pytest.mark.parametrize("more", [
    {"scheduler": "static"}, {"scheduler": "lightllm", "sample": 0}, {"scheduler": "orca", "pp": 2}, TIGHT,
    {"branches": "3,stop=2,spread=0.4"}, {"branches": "2", "mode": "threadweaver"}, {"speculate": "medusa"},
    {"finetune": "sequence=64", "slo": "tpot=50ms", "requests": 6}, {"scheduler": "semi-pd"},
    {"system": "prefill=gpu_a100*2,decode=gpu_a100", "link": "nvlink3"},
], ids=str)  # fmt: skip
def test_tokens_come_with_iterations_whatever_makes_them(more):
    found = served(**{"lengths": "64:16", "requests": 12} | more)
    assert found.iterations["output_tokens"].sum() == found.requests["output_tokens"].sum()
    assert found.recomputed_tokens == found.iterations["recomputed_tokens"].sum()
    assert found.recomputed_tokens == found.requests["recomputed_tokens"].sum()
    assert (found.recomputed_tokens > 0) == (found.preemptions > 0)


def test_without_a_middle_there_is_no_steady_state():
    assert served(arrivals="burst").steady is None and served(requests=1).steady is None
    printed = call("serve", "gpu_a100", "--model", "gpt2", "--arrivals", "burst", "--requests", "2", "--layers", "1")
    assert printed.code == 0 and "steady" not in printed.out


@pytest.mark.parametrize("more", [
    {}, {"exact": True, "requests": 15}, {"scheduler": "vllm-v0"}, {"scheduler": "sarathi"}
], ids=str)  # fmt: skip
def test_what_preemption_costs(more):
    """All tokens but the last of each request are computed once, and those of lost caches once more."""
    found = served(**TIGHT | more)
    requests, iterations = found.requests, found.iterations
    once = (requests["prompt_tokens"] + requests["output_tokens"] - 1).sum()
    assert found.preemptions > 0 and found.recomputed_tokens == iterations["new_tokens"].sum() - once > 0
    lost_s = (iterations["time_s"] * iterations["recomputed_tokens"] / iterations["new_tokens"]).sum()
    assert found.recomputing_s == pytest.approx(lost_s) and 0 < lost_s < iterations["time_s"].sum()
    assert set(requests.query("preemptions == 0")["recomputed_tokens"]) == {0}
    assert (requests.query("preemptions > 0")["recomputed_tokens"] > 0).all()


def test_what_is_swapped_out_is_not_computed_again():
    found = served(**TIGHT, scheduler="vllm-v0", swap=1000)
    assert found.swaps > 0 and (found.recomputed_tokens, found.recomputing_s) == (0, 0.0)


def steps_of(system: str, requests: int, prompt: int, output: int, **share: Any) -> list[Any]:
    """Of equal requests that come at once: all prompts, then a token of each in each iteration."""
    llm = load_llm("gpt2")
    device = device_of(load_system(system), llm, Share(1, 2, outside=True, **share))
    whole = Batch((Request("prefill", prompt, prompt, 1),) * requests)
    decodes = [Batch.decode([prompt + k] * requests) for k in range(1, output)]
    return [device.step(batch) for batch in (whole, *decodes)]


def test_utilisation_is_work_at_the_full_rate_by_time():
    given: dict[str, Any] = {"arrivals": "burst", "lengths": "64:8", "requests": 5, "exact": True}
    found, steps = served(**given), steps_of("gpu_a100", 5, 64, 8)
    span_ps = sum(step.end_ps for step in steps)
    assert found.time_s == pytest.approx(span_ps * 1e-12, rel=1e-9) and len(steps) == found.iteration_count
    by_hand = {limit: sum(step.least_ps.get(limit, 0) for step in steps) / span_ps for limit in LIMITS}
    assert found.utilisation == pytest.approx({limit: share for limit, share in by_hand.items() if share}, rel=1e-9)
    spec: Any = load_system("gpu_a100").spec
    macs = sum(step.macs for step in steps)
    assert found.utilisation["compute"] == pytest.approx(
        2 * macs / (spec.peak_tflops * 1e12 * spec.peak_share) / found.time_s, rel=1e-3
    )
    two = served(**given | {"requests": 10}, replicas=2)  # each has five
    assert two.utilisation == pytest.approx(found.utilisation, rel=1e-9)
    staged = served(**given | {"requests": 1}, scheduler="orca", pp=2)
    alone = served(**given | {"requests": 1}, scheduler="orca")
    assert {limit: 2 * share for limit, share in staged.utilisation.items()} == pytest.approx(
        alone.utilisation, rel=1e-3
    )


def test_utilisation_by_interpolated_prices_is_about_that_of_all(monkeypatch):
    monkeypatch.setattr(RooflineDevice, "exact_steps", 0)
    exact, read = (served(requests=25, **how).utilisation for how in ({"exact": True}, {"sample": 1}))
    assert set(read) == set(exact) == TOLD
    assert read == pytest.approx(exact, rel=0.02)


def test_each_machine_of_several_has_its_own():
    pools = served("prefill=gpu_a100*2,decode=gpu_a100", link="nvlink3", lengths="64:16").utilisation
    assert set(pools) == {f"{pool}: {limit}" for pool in ("prefill", "decode") for limit in TOLD}
    assert pools["decode: memory bandwidth"] > pools["prefill: memory bandwidth"]
    given: dict[str, Any] = {"model": "gpt2-medium", "lengths": "64:16", "sample": 0, "requests": 10}
    own, apart = (served(**given, speculate=f"draft=gpt2,alpha=0.7{on}").utilisation for on in ("", ",on=gpu_a100"))
    assert set(own) == set(apart) == TOLD and own["memory bandwidth"] > apart["memory bandwidth"]


def test_machines_tell_what_they_know(tmp_path):
    shape = {"n_embd": 256, "n_head": 4, "n_layer": 2, "n_positions": 1024, "vocab_size": 1000}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", **shape}))
    neupims = served("neupims", model=tmp_path, lengths="16:4", requests=3, sample=0, layers=1)
    assert {"compute", "memory bandwidth", "commands"} <= set(neupims.utilisation)
    assert all(0 < share <= 1 for share in neupims.utilisation.values())
    assert "utilisation" in json.loads(json.dumps(neupims.to_dict()))


def test_the_command_prints_them():
    words = (
        "serve gpu_a100 --model gpt2 --layers 2 --arrivals poisson:3000/s --requests 40 --blocks 30 --lengths alpaca"
    )
    found = served(arrivals="poisson:3000/s", blocks=30)
    printed = " ".join(call(*words.split()).out.split())
    assert f"{found.steady.tokens_per_s:,.1f} output tokens/s while the middle 80 % of requests come" in printed
    used = ", ".join(f"{limit} {share:.1%}" for limit, share in found.utilisation.items())
    assert f"utilisation: {used}" in printed
    assert f"{found.preemptions} preemptions, {found.recomputed_tokens:,} tokens computed once more in" in printed
