"""Interpolated prices: TTFT, TPOT, latency and energy lie within the printed bound of a run that simulates all."""

import json
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import pimloom
from pimloom.arch.error import UserError

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
            assert abs(mine - true) <= bounds[name] * true + 1e-12, (one, name, figure, mine / true - 1, read.pricing)
    for name in ("time_s", "energy_j"):
        if (true := getattr(exact, name)) is not None:
            mine = getattr(read, name)
            assert abs(mine - true) <= bounds[name] * true + 1e-12, (one, name, mine / true - 1, read.pricing)
    assert read.pricing.error_bound == max(bounds.values())
    return "exact" if read.pricing.exact else "interpolated"


@pytest.mark.parametrize("seed", range(40))
def test_results_are_within_their_bound_of_exact_ones(seed, tmp_path, monkeypatch):
    one = drawn(seed, QUICK)
    set_steps(monkeypatch, one.steps)
    check_within_bounds(one, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_results_of_all_systems_are_within_their_bound_of_exact_ones(seed, tmp_path, monkeypatch):
    one = drawn(seed, SLOW)
    set_steps(monkeypatch, one.steps)
    check_within_bounds(one, tmp_path)
