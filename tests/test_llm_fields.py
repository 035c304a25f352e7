"""Every field of a model decides what a run on PIM-GPT or a roofline takes, is refused, or there is a reason why not.

NPUs, and rooflines that serve batches: tests/test_llm_fields_npu.py.
"""

from functools import cache
from math import ceil
from typing import Any

import msgspec
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.llm_quant import Quantization
from pimloom.arch.system import RooflineSystem, load_system
from pimloom.cycle_sim.roofline import check_fits
from pimloom.systems.devices.device import Share
from pimloom.systems.devices.result import Result
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.devices.roofline_sequence import Passes
from pimloom.systems.devices.simulate import simulate
from pimloom.workload.batch import Batch

HEAD = {"workload.lm_head": "true", "npu.multipliers": "1", "npu.adders": "1"}  # so that each element takes a clock
GPT2 = load_llm("gpt2")
MIXTRAL_LIKE = LlmSpec(
    name="tiny", model_type="mixtral", num_hidden_layers=4, hidden_size=512, num_attention_heads=4,
    num_key_value_heads=2, head_dim=128, intermediate_size=1024, vocab_size=32000, max_position_embeddings=600,
    activation="silu", gated_ffn=True, norm="rmsnorm", attention_bias=True, ffn_bias=True, num_experts=4,
    num_experts_per_tok=2, sliding_window=5, tie_word_embeddings=False, parallel_attention=False,
)  # fmt: skip
LLAMA_LIKE = msgspec.structs.replace(
    MIXTRAL_LIKE, model_type="llama", num_experts=1, num_experts_per_tok=1, ffn_bias=False, sliding_window=None
)
OTHER: dict[str, Any] = {
    "name": "other", "model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 1024, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048, "vocab_size": 50000,
    "max_position_embeddings": 300, "activation": "quick_gelu", "gated_ffn": None, "norm": None,
    "attention_bias": None, "ffn_bias": None, "num_experts": 5, "num_experts_per_tok": 3, "sliding_window": 4,
    "tie_word_embeddings": None, "parallel_attention": None, "rotary_dim": 64, "full_attention_layers": (1,),
    "norm_placement": "both", "shared_norm": None, "qk_norm": "head", "scaled_embedding": None,
    "attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_sinks": None,
    "moe_intermediate_size": 512, "num_shared_experts": 1, "dense_layers": (0,), "router_bias": None,
    "q_lora_rank": 512, "kv_lora_rank": 256, "v_head_dim": 64, "notes": ("a sentence",),
    "quantization": Quantization(
        "INT8", ((("mlp.down_proj", 8.0), ("mlp.experts.down_proj", 8.0)),), (0,) * 12, cache_bits=8
    ),
}  # fmt: skip
ALWAYS_FREE = {
    "name": "a name",
    "notes": "sentences for a person",
    "tie_word_embeddings": "no embedding table is read; an LM head is a matrix of its own in any case",
    "max_position_embeddings": "a run beyond it is simulated, and `pimloom run` says so",
}
ROOFLINE_FREE = {name: why for name, why in ALWAYS_FREE.items() if name != "rotary_dim"} | {
    "scaled_embedding": "no roofline looks tokens up",
    "final_logit_softcapping": "no LM head",
    "vocab_size": "no LM head",
    "activation": "its operations do not count, and kernels_per_layer is the system's",
    "norm": "as the activation",
    "attn_logit_softcapping": "as the activation",
}
SYSTEMS: dict[str, tuple[str, dict[str, str], LlmSpec, dict[str, str]]] = {
    "pim_gpt": ("pim_gpt", HEAD, GPT2, ALWAYS_FREE),
    "pim_gpt, mixtral": (
        "pim_gpt",
        HEAD,
        MIXTRAL_LIKE,
        {k: ALWAYS_FREE[k] for k in ("name", "notes", "tie_word_embeddings")},
    ),
    "pim_gpt, llama": ("pim_gpt", HEAD, LLAMA_LIKE, ALWAYS_FREE),
    "t4": ("t4", {"memory_gb_s": "1"}, MIXTRAL_LIKE, ROOFLINE_FREE),  # so slow that each element takes nanoseconds
    "xeon_6154": ("xeon_6154", {"memory_gb_s": "1"}, MIXTRAL_LIKE, ROOFLINE_FREE),
    "gpu_a100": ("gpu_a100", {"launch_us": "1", "memory_gb_s": "1"}, MIXTRAL_LIKE, ROOFLINE_FREE),
}


def told(system: str, settings: dict[str, str], llm: LlmSpec, prompt: int = 4) -> dict[str, Any] | str:
    """The result without what names its inputs, or the sentence that refuses it."""
    try:
        found = simulate(load_system(system, settings), llm, 3, prompt=prompt).as_dict()
    except UserError as error:
        assert "\n" not in str(error)
        return str(error)
    return {key: value for key, value in found.items() if key not in ("model", "spec_digest", "version")}


@cache
def told_of_base(system: str) -> dict[str, Any] | str:
    return told(*SYSTEMS[system][:3])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("field", LlmSpec.__struct_fields__)
def test_every_field_counts(system: str, field: str) -> None:
    name, settings, base, free = SYSTEMS[system]
    now = getattr(base, field)
    other = {"layernorm": "rmsnorm", "rmsnorm": "layernorm"}[now] if field == "norm" else OTHER[field]
    other = not now if other is None else other
    assert other != now
    here, there = told_of_base(system), told(name, settings, msgspec.structs.replace(base, **{field: other}))
    assert isinstance(here, dict), here
    assert (here == there) == (field in free), there


def run(llm: LlmSpec, settings: dict[str, str] | None = None) -> Result:
    return simulate(load_system("pim_gpt", settings), llm, 1)


def asic_cycles(llm: LlmSpec, step: str) -> int:
    """Clocks of 1 GHz of a step in one layer, refresh off."""
    steps = run(llm, {"dram.refresh": "false"}).time_by_step_s or {}
    return round(steps.get(step, 0.0) * 1e9 / llm.num_hidden_layers)


SUMS = (
    "QKV partial sums and bias",
    "projection partial sums and residual",
    "FFN1 partial sums and bias",
    "FFN2 partial sums and residual",
)


@pytest.mark.parametrize(
    ("changed", "terms"),
    [
        ({}, (3 * 768, 2 * 768, 4 * 768, 4 * 768)),  # bias; bias, residual; bias; 3 chunks, bias, residual
        ({"attention_bias": False}, (0, 768, 4 * 768, 4 * 768)),
        ({"ffn_bias": False}, (3 * 768, 2 * 768, 0, 3 * 768)),
        ({"model_type": "qwen2"}, (3 * 768, 768, 4 * 768, 4 * 768)),  # no bias behind attention
        ({"parallel_attention": True}, (3 * 768, 768, 4 * 768, 5 * 768)),  # both residuals at the end
        ({"attention_bias": False, "ffn_bias": False, "parallel_attention": True}, (0, 0, 0, 4 * 768)),
    ],
)
def test_what_the_asic_adds(changed: dict[str, Any], terms: tuple[int, ...]) -> None:
    """256 adders: each partial result beyond the first, each bias and each residual is a term of every element."""
    llm = msgspec.structs.replace(GPT2, **changed)
    assert tuple(asic_cycles(llm, step) for step in SUMS) == tuple(ceil(n / 256) for n in terms)


@pytest.mark.parametrize(("parallel", "passes"), [(False, 3), (True, 1)])
def test_the_second_norm_of_a_parallel_block_takes_the_same_input(parallel: bool, passes: int) -> None:
    """768 elements on 128 multipliers: mean, variance and normalisation, or the last alone."""
    llm = msgspec.structs.replace(GPT2, parallel_attention=parallel)
    assert asic_cycles(llm, "LayerNorm 2") == passes * 6 and asic_cycles(llm, "LayerNorm 1") == 3 * 6


# Clocks of each field beyond GPT-2's: tests/test_decode.py. Here: whether the whole run takes them.


@pytest.mark.parametrize(
    ("changed", "step", "clocks"),
    [
        ({"norm": "rmsnorm"}, "RMSNorm 1", 2 * 6),
        ({"model_type": "gpt_neox"}, "rotary embedding", 2 * 2 * 6),  # 2 x 768 elements, two products each
        ({"gated_ffn": True}, "gate", 24),
        ({"num_experts": 4, "num_experts_per_tok": 2}, "choice of experts", 2),
        ({"norm_placement": "both"}, "LayerNorm behind FFN", 3 * 6),
        ({"attn_logit_softcapping": True}, "softcap of scores", 1),
        ({"qk_norm": "head"}, "LayerNorm of K", 3 * 6),
    ],
)
def test_a_run_takes_the_asics_clocks(changed: dict[str, Any], step: str, clocks: int) -> None:
    assert asic_cycles(msgspec.structs.replace(GPT2, **changed), step) == clocks


# Rooflines: bytes at 1 GB/s and two bytes an element, or operations at 1 TFLOPS.

BYTES = {"memory_gb_s": "1", "peak_tflops": "1000", "launch_us": "0"}
FORMER = {"routing.drawn": "false"}
WORK = {"memory_gb_s": "1000000", "peak_tflops": "1", "launch_us": "0"}
PLAIN = msgspec.structs.replace(
    MIXTRAL_LIKE, num_experts=1, num_experts_per_tok=1, attention_bias=False, ffn_bias=False, sliding_window=None
)
WEIGHTS = 4 * (512 * 128 * (2 * 4 + 2 * 2) + 3 * 512 * 1024)  # of four layers


def baseline(settings: dict[str, str]) -> RooflineSystem:
    spec = load_system("t4", settings).spec
    assert isinstance(spec, RooflineSystem)
    return spec


def passes(settings: dict[str, str], llm: LlmSpec) -> Passes:
    return Passes(load_system("t4", settings), llm, outside=False)


def elements(llm: LlmSpec, t: int) -> float:
    """Weights, keys, values and activations of a token, each read or written once for an operator."""
    return passes(BYTES, llm).token(t).roofline_s * 1e9 / 2


def operations(llm: LlmSpec, t: int) -> float:
    """Of products; what else there is takes its bytes, which take no time here to speak of."""
    return passes(WORK, llm).token(t).roofline_s * 1e12


CLOSE = 1e-3


def test_a_roofline_moves_weights_cache_and_activations() -> None:
    """A layer of PLAIN by hand, with 4 heads of 128 and 2 of keys: what an operator takes and what it gives."""
    h, q, kv, ffn, t = 512, 4 * 128, 2 * 128, 1024, 10
    vectors = 2 * h + (h + q + 2 * kv) + (2 * q) + (q + h) + 2 * h  # norm, qkv, attention, projection, norm
    vectors += h + 2 * ffn + ffn + h  # gate and up together, down
    found = elements(PLAIN, t) - WEIGHTS - 4 * 2 * kv * t
    assert 4 * vectors <= found < 4 * 2 * vectors  # activation, sums and rotations, as the layer has them, besides
    assert operations(PLAIN, t) == pytest.approx(2 * WEIGHTS + 4 * 4 * 512 * t, rel=CLOSE)


@pytest.mark.parametrize(
    ("changed", "biases"),
    [
        ({"attention_bias": True}, 4 * (512 + 2 * 256 + 512)),
        ({"attention_bias": True, "model_type": "qwen2"}, 4 * (512 + 2 * 256)),
        ({"ffn_bias": True}, 4 * (2 * 1024 + 512)),
    ],
)
def test_a_roofline_reads_biases(changed: dict[str, Any], biases: int) -> None:
    llm = msgspec.structs.replace(PLAIN, **changed)
    assert elements(llm, 10) - elements(PLAIN, 10) == pytest.approx(biases, abs=60)
    without = msgspec.structs.replace(PLAIN, gated_ffn=False)
    assert operations(PLAIN, 10) - operations(without, 10) == pytest.approx(2 * 4 * 512 * 1024, rel=CLOSE)


@pytest.mark.parametrize(("t", "seen"), [(99, 99), (100, 100), (101, 100), (5000, 100)])
def test_a_roofline_sees_no_more_than_the_window(t: int, seen: int) -> None:
    llm = msgspec.structs.replace(PLAIN, sliding_window=100)
    assert elements(llm, t) == elements(PLAIN, seen) and operations(llm, t) == operations(PLAIN, seen)


def test_a_prompt_within_and_beyond_the_window() -> None:
    """Of 250 tokens the first 100 see 1 to 100 and the others 100 each; all their K and V move once."""
    llm = msgspec.structs.replace(PLAIN, sliding_window=100)
    attended = sum(min(i, 100) for i in range(1, 251))
    found = passes(WORK, llm).prompt(250).roofline_s * 1e12
    assert found == pytest.approx(250 * 2 * WEIGHTS + 4 * 4 * 512 * attended, rel=CLOSE)
    assert passes(BYTES, llm).prompt(250) == passes(BYTES, PLAIN).prompt(250)
    assert passes(WORK, llm).prompt(100) == passes(WORK, PLAIN).prompt(100)


def test_a_token_takes_its_own_experts_only() -> None:
    """Two of four, and the router; all four fill the memory. Of n tokens some choose alike: they read
    4 (1 - (1 - 2/4)^n) experts in the mean, which are 2, 3 and 3.5."""
    llm, expert = msgspec.structs.replace(PLAIN, num_experts=4, num_experts_per_tok=2), 3 * 512 * 1024
    weights = WEIGHTS + 4 * (expert + 512 * 4)
    assert operations(llm, 10) == pytest.approx(2 * weights + 4 * 4 * 512 * 10, rel=CLOSE)
    moved = {tokens: passes(BYTES, llm).prompt(tokens).roofline_s * 1e9 / 2 for tokens in (1, 2, 3)}
    assert moved[2] - moved[1] == pytest.approx(4 * 1 * expert, rel=0.02)  # and the activations of a token
    assert moved[3] - moved[2] == pytest.approx(4 * 0.5 * expert, rel=0.04)
    all_differ = {tokens: passes(BYTES | FORMER, llm).prompt(tokens).roofline_s * 1e9 / 2 for tokens in (1, 2, 3)}
    assert all_differ[2] - all_differ[1] == pytest.approx(4 * 2 * expert, rel=0.02)
    assert all_differ[3] - all_differ[2] < 0.02 * 4 * expert


@pytest.mark.parametrize("kind", ["plain", "window", "experts", "parallel", "gemma-2-9b", "deepseek-v2-lite", "gpt2"])
@pytest.mark.parametrize("outside", [False, True])
def test_a_sequence_takes_what_the_steps_of_the_device_take(kind: str, outside: bool) -> None:
    """One workload, one result: passes are read from lines, steps are made one by one."""
    changes: dict[str, dict[str, Any]] = {
        "plain": {}, "window": {"sliding_window": 20, "full_attention_layers": (1,)},
        "experts": {"num_experts": 4, "num_experts_per_tok": 2}, "parallel": {"parallel_attention": True},
    }  # fmt: skip
    named = kind not in changes
    llm = load_llm(f"tests/models/{kind}.json") if named else msgspec.structs.replace(PLAIN, **changes[kind])
    system = load_system("t4", {"memory_bytes": str(10**12)})
    device = RooflineDevice(system, llm, Share(1, llm.num_hidden_layers, outside=outside))
    made = Passes(system, llm, outside=outside)
    for t in (1, 2, 19, 20, 21, 300):
        for found, step in ((made.token(t), Batch.decode([t])), (made.prompt(t), Batch.prefill([t]))):
            assert found.roofline_s + found.launch_s == pytest.approx(device.step(step).time_s, rel=1e-12), (t, step)


@pytest.mark.parametrize(("prompt", "generate"), [(0, 4), (512, 1), (16, 3)])
@pytest.mark.parametrize("lm_head", [None, True])
def test_a_batch_of_one_is_the_sequence(prompt: int, generate: int, lm_head: bool | None) -> None:
    for system in ("gpu_a100", "t4"):
        asked: dict[str, Any] = {"model": "gpt2", "prompt": prompt, "generate": generate, "lm_head": lm_head}
        alone, batch = pimloom.run(system, **asked), pimloom.run(system, **asked, batch=1)
        for name in ("latency_s", "time_to_first_token_s", "time_per_output_token_s", "energy_j", "tokens_per_s"):
            one, other = getattr(alone, name), getattr(batch, name)
            assert one == other or one == pytest.approx(other, rel=1e-9), (system, name)


def test_what_a_window_and_biases_need_in_memory() -> None:
    cache, biases = 4 * 2 * 256, 4 * (2 * 1024 + 512)
    room = baseline({"memory_bytes": str(2 * (WEIGHTS + 100 * cache))})
    check_fits(room, PLAIN, 100)
    check_fits(room, msgspec.structs.replace(PLAIN, sliding_window=100), 10**6)
    with pytest.raises(UserError, match="at most 100 tokens fit"):
        check_fits(room, PLAIN, 101)
    with pytest.raises(UserError, match=f"needs {2 * (WEIGHTS + biases + 100 * cache):,} bytes"):
        check_fits(room, msgspec.structs.replace(PLAIN, ffn_bias=True), 100)


def test_a_parallel_block_sums_in_one_kernel() -> None:
    parallel = msgspec.structs.replace(PLAIN, parallel_attention=True)
    for kernels, fewer in ((24, 23), (1, 0), (0, 0)):
        found = passes({"launch_us": "10", "kernels_per_layer": str(kernels)}, parallel).token(1)
        assert found.launch_s == pytest.approx(4 * fewer * 10e-6, rel=1e-12)
    assert elements(parallel, 7) <= elements(PLAIN, 7)
