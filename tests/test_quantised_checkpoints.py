"""Checkpoints of fewer bits: formats, groups and exceptions of every published kind, and the bytes that they take.

Sizes are those of the model cards, or of the files on the hub [recalled].
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.llm_quant import Patterns
from pimloom.arch.llm_quant_file import METHODS
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.workload.batch import Batch
from pimloom.workload.decoding.formats import format_of
from pimloom.workload.derive import ops
from pimloom.workload.need import kv_bytes_per_token, parameters, weight_bytes
from tests.command import call
from tests.reference_data import needed

GIB = 1 << 30
HERE = Path(__file__).parent / "models"
NAMES = {"quant_method": "gptq", "bits": 4, "group_size": 128}
LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 1000, "max_position_embeddings": 512,
}  # fmt: skip
QKV, OUT, UP, DOWN = 256 * 512, 256 * 256, 256 * 1024, 512 * 256  # weights of a layer's matrices
LAYER = QKV + OUT + UP + DOWN
AROUND = 2 * 1000 * 256 + 7 * 256  # embedding, LM head and norms


def load(folder: Path, config: dict[str, Any], **keys: Any) -> LlmSpec:
    (folder / "config.json").write_text(json.dumps(config | keys))
    return load_llm(folder / "config.json")


def small(folder: Path, quantization: Any) -> LlmSpec:
    return load(folder, LLAMA, quantization_config=quantization)


@pytest.mark.parametrize(
    ("stem", "size_bytes"),
    [
        ("gpt_oss_20b", 12.8 * GIB),  # gpt-oss model card, table 1
        ("openai--gpt-oss-120b", 60.8 * GIB),  # the same
        ("moonshotai--Kimi-K2-Instruct", 1.03e12),
        ("Qwen--Qwen3-32B-FP8", 34.3e9),
        ("Qwen--Qwen3-30B-A3B-FP8", 31.2e9),
        ("qwen3_8b_fp8", 9.44e9),
        ("llama3_1_405b", 410e9),
        ("nvidia--Kimi-K2.6-NVFP4", 594e9),
    ],
)
def test_published_checkpoints_have_their_size(stem: str, size_bytes: float) -> None:
    assert weight_bytes(load_llm(needed(f"configs/{stem}.json"))) == pytest.approx(size_bytes, rel=0.015)


def test_deepseek_r1_is_fp8_but_for_embeddings_head_and_routers() -> None:
    llm = load_llm(needed("configs/deepseek-ai--DeepSeek-R1.json"))
    wide = 2 * 129280 * 7168 + 58 * 256 * 7168  # BF16
    eight = parameters(llm) - wide
    assert weight_bytes(llm) == pytest.approx(2 * wide + eight * (1 + 4 / 128**2), rel=1e-5)


def test_modelopt_says_it_beside_a_clean_config() -> None:
    """Llama-3.1-70B-Instruct-FP8: 70.55 G parameters, embedding and LM head BF16, keys and values FP8."""
    llm = load_llm(needed("cases/05_hf_quant_config"))
    assert weight_bytes(llm) == pytest.approx(68.45e9 + 2 * 2 * 128256 * 8192, rel=1e-3)
    system = load_system("gpu_h100", {"memory_bytes": "160000000000"})
    device, wide = (device_of(system, each, Share(1, 80)) for each in (llm, load_llm(needed("configs/llama3_1.json"))))
    assert device.capacity().weight_bytes * 2 == pytest.approx(wide.capacity().weight_bytes, rel=1e-3)
    assert device.capacity().cache_bytes_per_token * 2 == wide.capacity().cache_bytes_per_token
    free = [160e9 - each.capacity().weight_bytes for each in (device, wide)]
    assert device.capacity().tokens / wide.capacity().tokens == pytest.approx(2 * free[0] / free[1], rel=1e-3)
    took = [each.step(Batch.decode([100])).end_ps for each in (device, wide)]
    assert took[0] / took[1] == pytest.approx(0.5, abs=0.01)


def test_a_modelopt_file_named_as_a_model_says_which_file_to_name() -> None:
    for name in ("nvidia--GLM-5-NVFP4", "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"):
        path = needed(f"configs/{name}_hf_quant.json")
        with pytest.raises(UserError) as error:
            load_llm(path)
        assert str(error.value) == (
            f"{path}: is a hf_quant_config.json of ModelOpt, which says how weights are quantised and has no shapes of "
            "a model; name the config.json of its folder"
        )


def test_a_null_in_the_config_means_weights_as_wide_as_elements(tmp_path: Path) -> None:
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    assert load(tmp_path, LLAMA).quantization is not None
    assert load(tmp_path, LLAMA, quantization_config=None).quantization is None
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP9"}}))
    with pytest.raises(UserError, match=r"at \$\.hf_quant_config\.json\.quant_algo: expected one of FP8, .*, got FP9"):
        load(tmp_path, LLAMA)


GROUP = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel"}


def compressed(weights: dict[str, Any], **keys: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]} | keys


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [  # of a weight of a column of 256, with its part of the scale
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
        ({"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}, 8 + 8 / 128**2),
        ({"quant_method": "fp8", "activation_scheme": "static"}, 8),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, 8 + 32 / 256),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8 + 24 / 256),
        ({"quant_method": "gptq", "bits": 3, "group_size": 64}, 3 + 19 / 64),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "zero_point": True}, 4 + 20 / 64),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, 4.5),
        ({"quant_method": "bitsandbytes", "_load_in_4bit": True, "bnb_4bit_use_double_quant": True},
         4 + 8 / 64 + 32 / 64 / 256),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8 + 32 / 256),
        ({"quant_method": "eetq"}, 8 + 16 / 256),
        (compressed(GROUP), 4 + 16 / 128),
        (compressed(GROUP | {"symmetric": False}), 4 + 20 / 128),
        (compressed(CHANNEL), 8 + 16 / 256),
        (compressed({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}),
         8 + 32 / 128**2),
        (compressed({"num_bits": 8, "type": "int", "strategy": "tensor"}), 8),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}, quant_method="modelopt", quant_algo="NVFP4"),
         4.5),
        (compressed({"num_bits": 4, "type": "float", "group_size": 32, "strategy": "group"}), 4.25),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}, 4.5),
        ({"quant_algo": "W4A16_AWQ", "group_size": 64, "exclude_modules": ["lm_head"]}, 4 + 16 / 64),
    ],
)  # fmt: skip
def test_bits_of_a_weight(quantization: dict[str, Any], bits: float, tmp_path: Path) -> None:
    llm = small(tmp_path, quantization)
    assert llm.quantization is not None and llm.quantization.bits_of(0)["self_attn.qkv_proj"] == bits
    assert llm.quantization.lm_head is None and llm.quantization.layers == (0, 0, 0)
    columns = {256: QKV + OUT + UP, 512: DOWN}
    stored = sum(n * llm.quantization.bits_of(0)[name] for name, n in
                 zip(("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"),
                     (QKV, OUT, UP, DOWN), strict=True))  # fmt: skip
    assert sum(columns.values()) == LAYER
    assert weight_bytes(llm) == -int(-(3 * stored + 16 * AROUND) // 8)


@pytest.mark.parametrize(
    ("keys", "wide"),
    [
        ({"modules_to_not_convert": ["model.layers.0", "lm_head"]}, LAYER),
        ({"modules_to_not_convert": ["model.layers.0.mlp.down_proj", "model.layers.2.self_attn.o_proj"]}, DOWN + OUT),
        ({"modules_to_not_convert": ["k_proj"]}, 3 * QKV // 4),
        ({"modules_to_not_convert": ["model.layers.1.mlp.gate_proj"]}, UP // 2),
        ({"modules_to_not_convert": ["model.layers.*.self_attn"]}, 3 * (QKV + OUT)),
        ({"modules_to_not_convert": ["*.mlp.*"]}, 3 * (UP + DOWN)),
        ({"modules_to_not_convert": ["language_model.model.layers.1*"]}, LAYER),
        ({"ignored_layers": ["re:.*self_attn.*", "re:.*lm_head"]}, 3 * (QKV + OUT)),
        ({"modules_to_not_convert": ["gate", "mlp.gate", "model.layers.10"]}, 0),
        ({"modules_to_not_convert": None}, 0),
    ],
)
def test_exceptions_stay_as_they_are(keys: dict[str, Any], wide: int, tmp_path: Path) -> None:
    llm = small(tmp_path, {"quant_method": "fp8", **keys})
    assert weight_bytes(llm) == 3 * LAYER + wide + 2 * AROUND


def test_mixed_formats_by_layer(tmp_path: Path) -> None:
    layers = {
        "model.layers.0.mlp.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "model.layers.1.self_attn.o_proj": {"quant_algo": "FP8"},
    }
    said = {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "NVFP4", "quantized_layers": layers}
    llm = small(tmp_path, said)
    assert weight_bytes(llm) == (UP * 4.5 + OUT * 8 + (3 * LAYER - UP - OUT) * 16) / 8 + 2 * AROUND
    assert kv_bytes_per_token(llm) == 3 * 2 * 2 * 64 * 4.5 / 8
    bits = {op.name: op.weight_bits for op in ops(llm, Batch.decode([4])) if op.layers == (1,)}
    assert bits["self_attn.o_proj"] == 8 and bits["mlp.gate_up_proj"] is None
    rest = small(tmp_path, said | {"quant_method": "fp8"})
    assert weight_bytes(rest) == (UP * 4.5 + (3 * LAYER - UP) * 8) / 8 + 2 * AROUND


def test_experts_alone_and_the_lm_head_too(tmp_path: Path) -> None:
    mixtral = json.loads((HERE / "mixtral-8x7b.json").read_text())
    llm = load(tmp_path, mixtral, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128,
                                                       "modules_to_not_convert": ["gate", "self_attn"]})  # fmt: skip
    experts = 32 * 8 * 3 * 4096 * 14336
    assert weight_bytes(llm) == experts * (4 + 20 / 128) / 8 + 2 * (parameters(llm) - experts)
    head = small(tmp_path, compressed(CHANNEL, ignore=[]))
    assert head.quantization is not None and head.quantization.lm_head == 8 + 16 / 256


def test_mlx_narrows_the_tables_of_words_too(tmp_path: Path) -> None:
    """mlx-community/Meta-Llama-3.1-8B-Instruct-4bit: 4.52 GB [recalled]; FP16 scale and bias for 64 weights."""
    four = {"group_size": 64, "bits": 4}
    llama = json.loads((HERE / "llama-3.2-1b.json").read_text()) | {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "head_dim": 128,
        "tie_word_embeddings": False,
    }  # fmt: skip
    both = load(tmp_path, llama, quantization=four, quantization_config=four)
    assert weight_bytes(both) == pytest.approx(4.52e9, rel=2e-3)
    assert both.decisive() == load(tmp_path, llama, quantization=four).decisive()
    own = four | {"lm_head": False, "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 8}, "mode": "affine"}
    llm, norms = load(tmp_path, LLAMA, quantization=own), 7 * 256
    narrow = (3 * LAYER - DOWN + 256_000) * 4.5 + DOWN * 9
    assert weight_bytes(llm) == narrow / 8 + 2 * (256_000 + norms)
    tied = load(tmp_path, LLAMA, quantization=four, tie_word_embeddings=True)
    assert tied.quantization is not None and tied.quantization.lm_head == tied.quantization.embedding == 4.5
    with pytest.raises(UserError, match=r"at \$\.quantization\.mode: expected one of affine, .*, got spiral"):
        load(tmp_path, LLAMA, quantization=four | {"mode": "spiral"})


def test_the_cache_alone(tmp_path: Path) -> None:
    llm, wide = small(tmp_path, {"quant_algo": None, "kv_cache_quant_algo": "FP8", "quant_method": "modelopt",
                                 "config_groups": {"g": {"weights": None}}}), load(tmp_path, LLAMA)  # fmt: skip
    assert weight_bytes(llm) == weight_bytes(wide) and kv_bytes_per_token(llm) * 2 == kv_bytes_per_token(wide)


@pytest.mark.parametrize(
    ("quantization", "said"),
    [
        ([4], r"at \$\.quantization_config: expected an object or null"),
        ({"quant_method": "aqlm"}, r"quantization_config\.quant_method: expected one of fp8, .*, got aqlm"),
        ({"bits": 4}, r"quantization_config\.quant_method: expected one of fp8"),
        ({"quant_method": "gptq", "bits": 40}, r"quantization_config\.bits: expected int from 2 to 8, got 40"),
        ({"quant_method": "gptq", "dynamic": {"-:.*": {}}}, r"quantization_config\.dynamic: expected null"),
        ({"quant_method": "bitsandbytes"}, r"quantization_config\.load_in_4bit: expected true"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "weight_block_size: expected two sizes"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:("]}, "expected expressions that can be read"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "expected a list of names"),
        (compressed(GROUP, kv_cache_scheme={"num_bits": 3}), "kv_cache_scheme: expected null"),
        (compressed(GROUP, sparsity_config={"format": "sparse-24"}), "sparsity_config: expected a dense format"),
        (compressed(GROUP | {"strategy": "lattice"}), "weights.strategy: expected tensor"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP2"}, "kv_cache_quant_algo: expected null or one of FP8"),
        (compressed(GROUP, ignore=["re:.*"]), "expected formats of modules of this model, got none that it has"),
        ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "X"}}}, "quantized_layers.a"),
    ],
)
def test_what_cannot_be_honoured_is_refused(quantization: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said) as error:
        small(tmp_path, quantization)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("system", ["pim_gpt", "npu_pim", "npu_only", "attacc_gpu", "cent", "duplex"])
def test_systems_of_one_width_say_so(system: str, tmp_path: Path) -> None:
    config = json.loads((HERE / "llama-2-7b.json").read_text())
    load(tmp_path, config, quantization_config={"quant_method": "fp8"})
    done = call("run", system, "--model", tmp_path / "config.json", "--prompt", "4", "--generate", "2", "--quiet")
    assert done.code == 2 and "quantised as fp8, and the " in done.err and "a roofline takes it, or set " in done.err


def test_weights_of_the_command_line_do_not_go_with_a_quantised_checkpoint(tmp_path: Path) -> None:
    small(tmp_path, NAMES)
    options = ("--arrivals", "burst", "--requests", "2", "--lengths", "32:4", "--weights", "int4")
    done = call("serve", "gpu_a100", "--model", tmp_path / "config.json", *options)
    assert done.code == 2 and "--weights: " in done.err and "is quantised already, as gptq; leave it out" in done.err


def test_serving_a_checkpoint_is_serving_with_such_weights(tmp_path: Path) -> None:
    """INT8 without scales beside `--weights int8` of the same model: the same steps and the same room."""
    llm, wide = small(tmp_path, {"quant_method": "fp8"}), load(tmp_path, LLAMA)
    system = load_system("gpu_a100")
    there = device_of(system, llm, Share(1, 3, outside=True))
    here = device_of(system, wide, Share(1, 3, outside=True, weights=format_of("int8")))
    assert there.capacity() == here.capacity()
    for batch in (Batch.decode([9, 300]), Batch.prefill([64])):
        assert there.step(batch) == here.step(batch)


def test_one_sequence_of_a_quantised_checkpoint(tmp_path: Path) -> None:
    config = json.loads((HERE / "llama-2-7b.json").read_text())
    took = []
    for quantization in (None, {"quant_method": "fp8"}):
        load(tmp_path, config, quantization_config=quantization)
        file = tmp_path / "config.json"
        done = call("run", "t4", "--model", file, "--prompt", "8", "--generate", "4", "--json", "-", "--quiet",
                    "--set", "memory_bytes=20000000000", "--set", "launch_us=0")  # fmt: skip
        took.append(json.loads(done.out)["time_per_output_token_s"])
    assert took[1] / took[0] == pytest.approx(0.5, abs=0.02)


def test_names_are_parts_between_dots() -> None:
    found = Patterns(["lm_head", "mlp.gate", "layers.3", "*.shared_expert*"])
    assert found.fit(["model.layers.3.mlp.up_proj"]) and found.fit(["a.mlp.gate"]) and found.fit(["x.shared_experts.y"])
    assert not found.fit(["model.layers.33.mlp.gate_proj"]) and not found.fit(["lm_heads"])


SAID = (
    "bits", "group_size", "weight_block_size", "modules_to_not_convert", "ignore", "config_groups", "quant_algo",
    "kv_cache_quant_algo", "quantized_layers", "kv_cache_scheme", "load_in_4bit", "extra_config", "dynamic", "targets",
    "sparsity_config", "weights", "modules_in_block_to_quantize", "num_bits", "strategy", "block_structure", "group_0",
)  # fmt: skip
ATOMS = st.sampled_from([None, True, 0, 4, -1, 2.5, "FP8", "MIXED_PRECISION", "re:(", "*", [], {}, [8, 8], {"a": 1}])
ANY = st.recursive(ATOMS, lambda of: st.lists(of, max_size=2) | st.dictionaries(st.sampled_from(SAID), of, max_size=3))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=st.sampled_from([None, *METHODS]), tree=st.dictionaries(st.sampled_from(SAID), ANY, max_size=5))
def test_no_quantisation_is_more_than_a_user_error(tmp_path: Path, method: str | None, tree: dict[str, Any]) -> None:
    try:
        small(tmp_path, tree | ({"quant_method": method} if method else {}))
    except UserError as error:
        assert "\n" not in str(error)
