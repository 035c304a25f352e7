"""Published `config.json` files load as they are: what has no effect is noted once, what cannot be honoured is refused.

The files of `../shared/data/configs` are taken verbatim (skipped where they are not); totals are the model cards'.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.workload.need import parameters
from tests.command import call
from tests.reference_data import needed, ours_alone

HERE = Path(__file__).parent / "models"
TOTALS = {  # parameters [10^9] of the model cards
    "meta-llama--Meta-Llama-3.1-8B": 8.03, "llama3": 70.6, "llama3_1": 70.6, "llama3_1_405b": 405.9,
    "llama3_2_1b": 1.24, "llama3_2_3b": 3.21, "mistral": 7.24, "mistral_7b_instruct": 7.24,
    "mistralai--Mixtral-8x22B-v0.1": 140.6, "qwen2_7b": 7.62, "qwen2.5_0.5b": 0.494, "qwen2.5_3b": 3.09,
    "qwen2.5_7b": 7.62, "qwen2.5_14b": 14.8, "qwen2.5_72b": 72.7, "Qwen--Qwen3-0.6B": 0.596, "Qwen--Qwen3-8B": 8.19,
    "qwen3_8b_fp8": 8.19, "Qwen--Qwen3-32B": 32.8, "Qwen--Qwen3-32B-FP8": 32.8, "Qwen--Qwen3-235B-A22B": 235,
    "Qwen--Qwen3-30B-A3B-FP8": 30.5, "Qwen--Qwen3-Coder-480B-A35B-Instruct": 480, "gemma3_text": 1.0,
    "gemma_2_2b": 2.61, "gemma_7b": 8.54, "deepseek_v3": 671, "deepseek-ai--DeepSeek-R1": 671, "gpt_oss_20b": 20.9,
    "openai--gpt-oss-120b": 116.8, "stablelm_3b": 2.80, "kimi_k2_instruct": 1026, "moonshotai--Kimi-K2-Instruct": 1026,
    "nvidia--Kimi-K2.6-NVFP4": 1026, "nvidia--Kimi-K2.7-Code-NVFP4": 1026, "Qwen--Qwen3-VL-2B-Instruct": 1.72,
    "internlm2_7b": 7.74, "XiaomiMiMo--MiMo-7B-Base": 7.62,  # 7.83 with the layer that only drafts
    "Qwen--Qwen3-VL-30B-A3B-Instruct": 30.5, "Qwen--Qwen3-VL-32B-Instruct": 32.8,
}  # fmt: skip
NEAREST = {  # of types that are not supported: what stands behind `nearest`
    "baichuan2_7b": "llama", "command_r_35b": "stablelm, which scales no logits", "config": "gpt_neox, which",
    "glm4_9b": "qwen2, which rotates", "google--gemma-4-26B-A4B": "gemma3_text, which has heads",
    "MiniMaxAI--MiniMax-M2.7": "mixtral", "MiniMaxAI--MiniMax-M3": "gpt_oss", "minicpm3_4b": "deepseek_v3, which",
    "moonshotai--Kimi-K3": "deepseek_v3, which would also need", "nvidia--DeepSeek-V4-Pro-NVFP4": "deepseek_v3, which",
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": "llama", "nvidia--MiniMax-M2.7-NVFP4": "mixtral",
    "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4": "none: models are decoders with attention in every layer",
    "nvidia--Nemotron-H-56B-Base-8K": "none: models are decoders with attention in every layer",
    "sgl-project--DeepSeek-V4-Flash-FP8": "deepseek_v3, which would also need",
    "stepfun-ai--Step-3.7-Flash-FP8": "qwen3_moe",
    "XiaomiMiMo--MiMo-V2-Flash": "qwen3_moe",
    **dict.fromkeys(("nvidia--GLM-5.1-NVFP4", "zai-org--GLM-5.1", "zai-org--GLM-5.2", "zai-org--GLM-5.2-FP8"),
                    "deepseek_v3, which has no index that chooses tokens"),
    **dict.fromkeys(("llama4", "llama4_scout_17b_16e", "meta-llama--Llama-4-Maverick-17B-128E-Instruct",
                     "meta-llama--Llama-4-Scout-17B-16E-Instruct"), "mixtral, which has no shared expert"),
    **dict.fromkeys(("Qwen--Qwen3.5-27B", "nvidia--Qwen3.6-27B-NVFP4", "qwen3_5_27b"),
                    "qwen3, which has attention in every layer"),
    **dict.fromkeys(("Qwen--Qwen3.5-35B-A3B", "Qwen--Qwen3.5-397B-A17B", "nvidia--Qwen3.5-122B-A10B-NVFP4",
                     "nvidia--Qwen3.6-35B-A3B-NVFP4"), "qwen3_moe, which has attention in every layer"),
}  # fmt: skip
OTHER_REASONS = {
    "deepseek_vl2_tiny": r"at \$\.language_config\.use_mla: expected null or true .*, got false; at .*kv_lora_rank",
}
QUANTISATIONS = "_hf_quant"  # such files stand beside a config.json, and are none


def changed(folder: Path, config: dict[str, Any], **keys: Any) -> LlmSpec:
    (folder / "config.json").write_text(json.dumps(config | keys))
    return load_llm(folder / "config.json")


def ours(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    return found


def test_every_file_has_its_row() -> None:
    ours_alone()
    stems = {path.stem for path in needed("configs").glob("*.json")}
    assert {stem for stem in stems if not stem.endswith(QUANTISATIONS)} == {*TOTALS, *NEAREST, *OTHER_REASONS}


@pytest.mark.parametrize("stem", TOTALS)
def test_it_loads_and_has_the_parameters_of_its_card(stem: str) -> None:
    llm = load_llm(needed(f"configs/{stem}.json"))
    assert parameters(llm) / 1e9 == pytest.approx(TOTALS[stem], rel=4e-3)
    assert sum("keys without effect on what is modelled: " in note for note in llm.notes) == 1
    assert all("\n" not in note and note.startswith(f"{stem}: ") for note in llm.notes)


@pytest.mark.parametrize("stem", [*NEAREST, *OTHER_REASONS])
def test_others_are_refused_for_the_reason_of_the_table(stem: str) -> None:
    with pytest.raises(UserError) as said:
        load_llm(needed(f"configs/{stem}.json"))
    expected = OTHER_REASONS.get(stem) or f"nearest: {re.escape(NEAREST.get(stem, ''))}"
    assert re.search(expected, str(said.value)) and "\n" not in str(said.value)


def test_a_run_says_once_what_has_no_effect(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(ours("qwen3-8b") | {"unheard": 3, "max_window_layers": 36}))
    options = ("--prompt", "8", "--generate", "2", "--json", "-")
    done = call("run", "gpu_h100", "--model", tmp_path / "config.json", *options)
    assert done.code == 0 and done.err.count("keys without effect on what is modelled: ") == 1, done
    assert "unknown keys, which are not used: unheard" in done.err and "bos_token_id" in done.err
    quiet = call("run", "gpu_h100", "--model", tmp_path / "config.json", *options, "--quiet")
    assert quiet.err == "" and json.loads(quiet.out)["spec_digest"] == json.loads(done.out)["spec_digest"]


INERT = ("unsloth_fixed", "pretraining_tp", "transformers_version", "use_cache", "_name_or_path", "my_note", "zz")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["gpt2", "llama-2-7b", "qwen3-30b-a3b", "deepseek-v3", "gemma-2-9b", "falcon-7b"]),
    keys=st.dictionaries(st.sampled_from(INERT), st.sampled_from([None, True, 0, 1, "x", [1], {"a": 1}])),
)
def test_inert_keys_change_nothing_but_the_note(tmp_path: Path, name: str, keys: dict[str, Any]) -> None:
    plain = changed(tmp_path, {key: value for key, value in ours(name).items() if key not in INERT})
    other = changed(tmp_path, ours(name), **keys)
    assert other.decisive() == plain.decisive()
    assert (other.notes == plain.notes) == (not keys.keys() | (ours(name).keys() & {*INERT}))
    assert all(key in other.notes[0] for key in keys)


def test_all_that_cannot_be_honoured_is_told_together(tmp_path: Path) -> None:
    bad = {"add_cross_attention": True, "torch_dtype": "int4", "num_experts": 8, "kv_lora_rank": 512, "head_dims": 64}
    with pytest.raises(UserError) as said:
        changed(tmp_path, ours("llama-2-7b"), **bad, rope_scaling={"type": "yarm", "factor": 4.0})
    text = str(said.value)
    assert all(f"at $.{key}: expected " in text for key in (*bad, "rope_scaling.type")) and text.count("\n") == 0
    assert "nearest: yarn" in text and "nearest: head_dim" in text


@pytest.mark.parametrize(
    ("name", "keys", "said"),
    [
        ("qwen3-30b-a3b", {"shared_expert_intermediate_size": 512}, "no such experts here"),
        ("qwen3-30b-a3b", {"qkv_bias": True}, "false, the value of attention_bias"),
        ("llama-2-7b", {"num_key_value_head": 8}, "a known key, got 8; nearest: num_key_value_heads"),
        ("llama-2-7b", {"attention_chunk_size": 8192}, "all layers have plain attention here"),
        ("llama-2-7b", {"residual_multiplier": 0.22}, "no such factor here"),
        ("gemma-2-9b", {"num_kv_shared_layers": 4}, "all layers have plain attention here"),
        ("deepseek-v3", {"index_topk": 2048}, "all layers have plain attention here"),
    ],
)
def test_a_part_that_the_type_has_not_is_refused(name: str, keys: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        changed(tmp_path, ours(name), **keys)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("qwen3-30b-a3b", {"max_window_layers": 48, "shared_expert_intermediate_size": 0, "qkv_bias": False}),
        ("qwen2-7b", {"use_mrope": False, "dual_chunk_attention_config": {"chunk_size": 262144}}),
        ("gemma-2-9b", {"sliding_window_size": 4096, "cache_implementation": "hybrid"}),
        ("phi-3-mini", {"lm_head_bias": False, "full_attn_mod": 1, "interpolate_factor": 1, "mlp_bias": False}),
        ("llama-2-7b", {"num_experts": None, "kv_lora_rank": 0, "layer_types": None, "partial_rotary_factor": 1.0}),
        ("deepseek-v3", {"mlp_layer_types": ["dense"] * 3 + ["sparse"] * 58, "rope_interleave": True}),
        ("llama-3.2-1b", {"max_sequence_length": 4096, "transformers.js_config": {}, "is_llama_config": True}),
        ("falcon-7b", {"ff_factor": 4}),
        ("qwen3-30b-a3b", {"num_local_experts": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
        ("mixtral-8x7b", {"num_experts_per_token": 2}),  # what another key says, too
        ("deepseek-v3", {"num_local_experts": 256, "head_dim": 64, "qk_head_dim": 192}),
        ("llama-2-7b", {"num_local_experts": 0, "num_experts": 0, "sliding_window": None, "mlp_bias": False}),
    ],
)
def test_keys_of_the_wild_change_nothing(name: str, keys: dict[str, Any], tmp_path: Path) -> None:
    assert changed(tmp_path, ours(name), **keys).decisive() == changed(tmp_path, ours(name)).decisive()


def test_layers_by_name_are_honoured(tmp_path: Path) -> None:
    kinds = ["dense"] * 2 + ["sparse"] * 59
    assert changed(tmp_path, ours("deepseek-v3"), mlp_layer_types=kinds).dense_layers == (0, 1)
    newer = {key: value for key, value in ours("gemma-3-1b").items() if key != "sliding_window_pattern"}
    assert changed(tmp_path, newer, _sliding_window_pattern=13).full_attention_layers == (12, 25)


@pytest.mark.parametrize("place", ["text_config", "language_config", "llm_config"])
def test_a_wrapper_is_modelled_by_its_text_model(place: str, tmp_path: Path) -> None:
    outer = {"model_type": "mistral3", "vision_config": {"hidden_size": 8}, "image_token_index": 10}
    llm = changed(tmp_path, outer, **{place: ours("mistral-7b-v0.1")})
    assert llm.decisive() == changed(tmp_path, ours("mistral-7b-v0.1")).decisive()
    inside = f"mistral3 is modelled by its text model ({place}); parts for images and sound are left out"
    assert inside in changed(tmp_path, outer, **{place: ours("mistral-7b-v0.1")}).notes[0]
    with pytest.raises(UserError, match=rf"at \$\.{place}\.num_hidden_layers: expected int"):
        changed(tmp_path, outer, **{place: ours("mistral-7b-v0.1") | {"num_hidden_layers": "32"}})


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG = {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}


@pytest.mark.parametrize(
    ("name", "keys", "positions"),
    [  # vLLM's longest context [recalled]
        ("llama-2-7b", {"rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ("llama-2-7b", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, 8192),
        ("llama-2-7b", {"rope_scaling": {"rope_type": "dynamic", "alpha": 1000.0}}, 4096),
        ("llama-2-7b", {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 2048}}, 4096),
        ("llama-2-7b", {"rope_scaling": {"mrope_section": [16, 24, 24], "type": "mrope"}}, 4096),
        ("llama-2-7b", {"rope_scaling": {"rope_type": "default"}, "rope_parameters": None}, 4096),
        ("llama-2-7b", {"rope_parameters": {"rope_theta": 1e4, "rope_type": "linear", "factor": 2}}, 8192),
        ("qwen3-8b", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                       "original_max_position_embeddings": 32768}}, 131072),
        ("qwen3-8b", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "max_position_embeddings": 32768}, 131072),
        ("phi-3-mini", {"rope_scaling": LONG, "max_position_embeddings": 131072,
                        "original_max_position_embeddings": 4096}, 131072),
        ("phi-3-mini", {"rope_scaling": LONG | {"type": "su"}, "max_position_embeddings": 131072}, 131072),
        ("gemma-3-4b", {}, 131072),  # linear, by 8, and in max_position_embeddings already
        ("deepseek-v3", {}, 163840),
        ("gpt-oss-20b", {}, 131072),
        ("gpt2", {"rope_scaling": {"type": "linear", "factor": 4.0}}, 1024),  # positions are learned
    ],
)  # fmt: skip
def test_positions_of_scaled_rotations(name: str, keys: dict[str, Any], positions: int, tmp_path: Path) -> None:
    llm, own = changed(tmp_path, ours(name), **keys), (ours(name) | keys).get("max_position_embeddings", positions)
    assert llm.max_position_embeddings == positions
    assert any(f" {positions:,} positions, scaled by rope_scaling" in said for said in llm.notes) == (own != positions)


def test_positions_for_each_kind_of_layer(tmp_path: Path) -> None:
    each = {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_type": "default"}}
    assert changed(tmp_path, ours("gemma-3-1b"), rope_parameters=each).max_position_embeddings == 32768
    assert changed(tmp_path, ours("olmo2-7b"), rope_parameters=each).max_position_embeddings == 4096  # the shorter


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ("yarn", r"at \$\.rope_scaling: expected an object or null"),
        ({"type": "yarn", "factor": "4"}, r"at \$\.rope_scaling\.factor: expected a number of at least 1"),
        ({"type": "linear", "factor": 0.5}, r"at \$\.rope_scaling\.factor: expected a number of at least 1"),
        ({"type": "linear", "factor": float("inf")}, r"at \$\.rope_scaling\.factor: expected a number of at least 1"),
        ({"type": "yarn"}, r"at \$\.rope_scaling\.factor: expected a number of at least 1, which yarn scales by, got"),
        ({"rope_type": "dynamic"}, r"at \$\.rope_scaling\.factor: expected a number of at least 1, which dynamic"),
        ({"factor": 2.0}, r"at \$\.rope_scaling\.rope_type: expected one of linear"),
        ({"rope_type": "xpos"}, r"at \$\.rope_scaling\.rope_type: expected one of linear"),
        ({"type": "yarn", "factor": 2, "original_max_position_embeddings": -1}, "original_max_position_embeddings"),
    ],
)
def test_scalings_that_are_none(scaling: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        changed(tmp_path, ours("llama-2-7b"), rope_scaling=scaling)
