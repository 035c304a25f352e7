"""Interpolated prices: TTFT, TPOT, latency and energy lie within the printed bound of a run that simulates all."""

import json
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.systems.serving.pricing.costs import Piece
from pimloom.systems.serving.pricing.interpolated import Residuals
from pimloom.systems.serving.pricing.sampling import estimate, spread_out, where
from tests.command import call

LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 2000, "max_position_embeddings": 2048,
}  # fmt: skip
MOE = {"num_experts_per_tok": 2, "num_key_value_heads": 4, "moe_intermediate_size": 128}
MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4, "n_positions": 1024, "vocab_size": 2000},
    "dense": LLAMA,
    "few": LLAMA | {"model_type": "mixtral", "num_experts_per_tok": 2, "num_local_experts": 8},
    "many": LLAMA | MOE | {"model_type": "qwen3_moe", "num_experts": 64, "num_experts_per_tok": 4, "head_dim": 32},
    "windows": LLAMA | {"model_type": "mistral", "sliding_window": 100},
    "mla": LLAMA | {
        "model_type": "deepseek_v2", "first_k_dense_replace": 1, "kv_lora_rank": 64, "moe_intermediate_size": 128,
        "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4, "q_lora_rank": None,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
    },
    "llama-2-7b": {},
}  # fmt: skip
EXAMPLES = Path(__file__).parents[1] / "examples" / "systems"
QUICK = ("gpu_a100", "gpu_h100", "t4", "xeon_6154", "attacc_gpu", "attacc_host", "duplex", "phone")
SLOW = (*QUICK, "cent", "attacc", "pim_gpt", "pim_card", "hbm3_npu", "neupims", "npu_pim", "npu_only")
WHOLE_MODELS = ("attacc", "attacc_gpu", "attacc_host", "cent")
PHASES = ("prompts", "decode", "mixed", "pools", "drafts")
DEVICES = (
    "roofline.RooflineDevice", "attacc.device.AttAccDevice", "duplex.device.DuplexDevice", "cent.device.CentDevice",
    "pim_gpt.PimGptDevice", "npu_pim.device.NpuDevice", "composed.machine.Machine", "composed.beside.Beside",
)  # fmt: skip
FIGURES = ("mean", "p50", "p90", "p99", "max")


class Drawn(NamedTuple):
    """A run. steps: that each device simulates one by one before prices are interpolated; None: its own number."""

    system: str
    model: str
    phase: str
    steps: int | None
    options: dict[str, Any]


def drawn(seed: int, systems: tuple[str, ...]) -> Drawn:
    """A random run."""
    random = Random(seed)
    system, phase = random.choice(systems), random.choice(PHASES)
    model = "llama-2-7b" if system in WHOLE_MODELS else random.choice([name for name in MODELS if MODELS[name]])
    slow = system not in QUICK
    most = 12 if system in ("neupims", "npu_pim", "npu_only", "hbm3_npu", "pim_card") else 40 if slow else 80
    prompt, output = random.choice([30, 120, 400]), random.choice([4, 12, 40]) if not slow else random.choice([4, 8])
    if phase == "prompts":
        output = 1
    if phase == "decode":
        prompt = 16
    requests = random.randint(3, most)
    arrivals = random.choice(["burst", "poisson:5/s", "poisson:200/s", "gamma:50/s,cv=3"])
    options = {"arrivals": arrivals, "requests": requests, "seed": random.randint(0, 99)}
    options["lengths"] = f"{prompt}:{output}" if slow or random.random() < 0.4 else "alpaca"
    options["scheduler"] = random.choice(["vllm-v1", "vllm-v1", "sarathi", "orca", "vllm-v0", "static"])
    if phase == "pools":
        options |= {"scheduler": "splitwise", "link": "400Gb/s"}
    if phase == "drafts":
        options |= {"scheduler": "vllm-v1", "speculate": "draft=DRAFT,gamma=3,alpha=0.7"}
    steps = random.choice([None, 12, 300]) if not slow else random.choice([None, None, 6])
    return Drawn(system, model, phase, steps, options)


def run_of(one: Drawn, folder: Path, **more: Any) -> Any:
    """The run, on files of models in a folder."""
    models = {name: folder / f"{name}.json" for name in MODELS}
    for name, spec in MODELS.items():
        models[name].write_text(json.dumps(spec))
    (folder / "draft.json").write_text(json.dumps(MODELS["gpt2"] | {"n_layer": 1, "n_embd": 128}))
    model: Any = one.model if one.model == "llama-2-7b" else models[one.model]
    options = dict(one.options)
    if "speculate" in options:
        options["speculate"] = options["speculate"].replace("DRAFT", str(folder / "draft.json"))
    system = str(EXAMPLES / f"{one.system}.yaml") if (EXAMPLES / f"{one.system}.yaml").exists() else one.system
    if one.phase == "pools":
        system = f"prefill={system},decode={system}"
    return pimloom.serve(system, model=model, **options | more)


def set_steps(monkeypatch: pytest.MonkeyPatch, steps: int | None) -> None:
    """Of all devices."""
    for name in DEVICES if steps is not None else ():
        module, _, kind = name.rpartition(".")
        monkeypatch.setattr(getattr(import_module(f"pimloom.systems.devices.{module}"), kind), "exact_steps", steps)


def check_within_bounds(one: Drawn, folder: Path) -> str:
    """Each figure of the interpolated run is within its bound of the exact one; or both are refused alike."""
    try:
        exact = run_of(one, folder, exact=True)
    except UserError as refused:
        with pytest.raises(UserError) as found:
            run_of(one, folder)
        assert str(found.value) == str(refused), one
        return "refused"
    read = run_of(one, folder)
    bounds = read.pricing.bounds
    for name in ("time_to_first_token_s", "time_per_output_token_s", "latency_s"):
        for figure in FIGURES if getattr(exact, name) is not None else ():
            true, mine = (getattr(getattr(found, name), figure) for found in (exact, read))
            bound = bounds.get(f"{name}.{figure}", 0.0)
            assert abs(mine - true) <= bound * true + 1e-12, (one, name, figure, mine / true - 1, read.pricing)
    for name in ("time_s", "energy_j"):
        if (true := getattr(exact, name)) is not None:
            mine = getattr(read, name)
            assert abs(mine - true) <= bounds[name] * true + 1e-12, (one, name, mine / true - 1, read.pricing)
    assert read.pricing.error_bound == max(bounds.values())
    assert all(kind.error_bound == 0 for kind in read.pricing.kinds.values() if kind.exact)
    return "exact" if read.pricing.exact else "interpolated"


@pytest.mark.parametrize("seed", range(40))
def test_results_are_within_their_bound_of_exact_ones(seed, tmp_path, monkeypatch):
    """Short ones; the slow test has long ones."""
    one = drawn(seed, QUICK)
    one.options["requests"] = min(one.options["requests"], 24 if one.steps else 5)
    set_steps(monkeypatch, one.steps)
    check_within_bounds(one, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_results_of_all_systems_are_within_their_bound_of_exact_ones(seed, tmp_path, monkeypatch):
    one = drawn(seed, SLOW)
    set_steps(monkeypatch, one.steps)
    check_within_bounds(one, tmp_path)


def test_a_prompt_alone_is_no_share_of_several(tmp_path, monkeypatch):
    """Stages of CENT hold several requests at once: a prompt's last token ends behind all others of its own."""
    given: dict[str, Any] = {"model": "llama-2-7b", "arrivals": "burst", "requests": 1, "lengths": "32:2"}
    exact = pimloom.serve("cent", **given, exact=True)
    set_steps(monkeypatch, 0)
    read = pimloom.serve("cent", **given)
    assert not read.pricing.exact and read.time_to_first_token_s.mean == pytest.approx(
        exact.time_to_first_token_s.mean, rel=read.pricing.bounds["time_to_first_token_s.mean"]
    )
    assert read.pricing.error_bound < 0.05


def test_phases_on_other_units_are_mended(tmp_path, monkeypatch):
    """Decode of this phone is on its PIM alone and on its processor beside prompts: the sum of both is far off."""
    options = {"arrivals": "poisson:300/s", "lengths": "40:12", "requests": 60, "seed": 1}
    one = Drawn("phone", "dense", "mixed", 6, options)
    set_steps(monkeypatch, one.steps)
    read = run_of(one, tmp_path)
    mixed = read.pricing.kinds["mixed"]
    assert mixed.iterations > 10 and not mixed.exact and mixed.error_bound < 0.02 and read.pricing.holds
    assert check_within_bounds(one, tmp_path) == "interpolated"


def test_phases_that_a_device_never_mixes_are_refused_without_exact_too(monkeypatch):
    given: dict[str, Any] = {"model": "llama-2-7b", "arrivals": "poisson:9/s", "requests": 9, "lengths": "64:32"}
    for steps in (None, 0):
        set_steps(monkeypatch, steps)
        for more in ({}, {"exact": True}, {"sample": 0}):
            with pytest.raises(UserError, match="an AttAcc system runs prompts and decode in separate steps"):
                pimloom.serve("attacc_gpu", **given, **more)


def test_what_is_beyond_the_limit_has_an_exit_code_of_its_own_and_all_outputs(tmp_path, monkeypatch):
    set_steps(monkeypatch, 0)
    words = ("serve", "gpu_a100", "--model", "gpt2", "--layers", "2", "--arrivals", "poisson:400/s", "--requests", "30")
    held, beyond = (call(*words, "--json", str(tmp_path / f"{limit}.json"), "--price-error", limit)
                    for limit in ("0.5", "1e-9"))  # fmt: skip
    assert (held.code, beyond.code) == (0, 3)
    assert beyond.err.endswith("pimloom: errors of prices may exceed --price-error 1e-09; all outputs are written\n")
    assert "results are within these shares of those of --exact: TTFT" in beyond.out
    found = json.loads((tmp_path / "1e-9.json").read_text())["pricing"]
    assert found["holds"] is False and found["error_bound"] == max(found["bounds"].values()) > 0
    assert {*found["kinds"]} == {"decode", "prompt", "mixed"}


def test_goodput_has_the_error_of_its_prices(monkeypatch):
    set_steps(monkeypatch, 0)
    found = pimloom.serve(
        "gpu_a100", model="gpt2", layers=2, arrivals="poisson:1/s", requests=40, goodput=True, slo="ttft=3ms,tpot=1ms",
        rate="50:20000", lengths="64:16",
    )  # fmt: skip
    assert not found.pricing.exact and found.pricing.sampled and {"energy_j", "latency_s.p90"} < {*found.pricing.bounds}


def test_rows_of_a_static_batch_have_no_more_than_the_models_positions(tmp_path, monkeypatch):
    """By hand: 900 + 300 - 1 tokens of a row would be more than the 1,024 of the model, so there are two batches."""
    file = tmp_path / "trace.csv"
    file.write_text("timestamp,prompt_tokens,output_tokens\n0,900,20\n0,30,300\n0,40,10\n")
    for steps in (None, 0):
        set_steps(monkeypatch, steps)
        found = pimloom.serve("gpu_a100", model="gpt2", layers=2, trace=file, scheduler="static")
        rows = found.iterations["context_tokens"] / found.iterations["requests"]
        assert found.iterations["requests"].tolist() == [1] * 20 + [2] * 300 and rows.max() == 900 + 19


def test_corrections_are_those_of_near_points():
    """By hand: at a point all that it lacks, in a share of the time; left out, what the other one lacks."""
    one, other = ([Piece(1, 99, 1)], [10.0, 0.0, 4.0], [12.0, 0.0, 5.0]), ([Piece(1, 99, 1)], [20.0, 0.0], [20.0, 0.0])
    found = Residuals([(where(pieces), priced, true) for pieces, priced, true in (one, other)])
    assert found.corrected(where(one[0]), [10.0, 0.0, 4.0]) == pytest.approx([11.0, 0.0, 4.5])
    assert found.left_out()[0] == pytest.approx([10.0, 0.0, 4.0])
    assert found.left_out()[1] == pytest.approx([24.0, 0.0, 2.0])


def test_a_sample_that_is_spread_out_has_the_rare_ones():
    many = [[Piece(1, 100 + i, 1)] * 8 for i in range(50)] + [[Piece(1, 4000, 1)]]
    chosen, weights = spread_out(many, 3)
    assert many[-1] in chosen and sum(weights) == 51 and weights[chosen.index(many[-1])] == 1
    assert len(spread_out(many[:1] * 9, 3)[0]) == 1


def test_bounds_of_a_sample_by_hand():
    """Student with one degree of freedom, 12.706; squares of deviations from the mean, 0.015 and 0.005, add up."""
    mean, bound, single = estimate([0.01, 0.03], [1.0, 3.0], 100)
    assert mean == pytest.approx(0.025) and bound == pytest.approx(0.025 + 12.706 * (0.00025 / 2) ** 0.5, rel=1e-3)
    assert single == pytest.approx(0.025 + 12.706 * (0.00025 * 1.5) ** 0.5, rel=1e-3)
