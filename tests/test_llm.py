"""Model shapes from published config.json files, and the one line for each kind of bad config."""

import json
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import MODELS, LlmSpec, list_presets, load_llm
from pimloom.workload.need import weights

PRESETS = (
    "glam-143b, gpt2, gpt2-large, gpt2-medium, gpt2-xl, gpt3-13b, gpt3-175b, gpt3-30b, gpt3-7b, "
    "gpt3-large, gpt3-medium, gpt3-small, gpt3-xl, grok-1, llama-2-13b, llama-2-70b, llama-2-7b, llama-3-70b, "
    "llama-3-8b, llama-3.1-405b, llama-65b, mixtral-8x7b, mt-nlg-530b, opt-66b"
)
SUPPORTED = (
    "deepseek_v2, deepseek_v3, falcon, gemma, gemma2, gemma3_text, gpt2, gpt_neox, gpt_oss, llama, mistral, "
    "mixtral, olmo2, opt, phi3, qwen2, qwen3, qwen3_moe, stablelm"
)

# As published on the Hugging Face hub, without keys that say nothing about the shape.
LLAMA_2_7B = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "vocab_size": 32000,
}
MISTRAL_7B = {
    "architectures": ["MistralForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}
MIXTRAL_8X7B = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mixtral",
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}
OPT_1_3B = {
    "activation_function": "relu",
    "architectures": ["OPTForCausalLM"],
    "do_layer_norm_before": True,
    "ffn_dim": 8192,
    "hidden_size": 2048,
    "max_position_embeddings": 2048,
    "model_type": "opt",
    "num_attention_heads": 32,
    "num_hidden_layers": 24,
    "prefix": "</s>",
    "vocab_size": 50272,
    "word_embed_proj_dim": 2048,
}
PYTHIA_1_4B = {
    "architectures": ["GPTNeoXForCausalLM"],
    "hidden_act": "gelu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 2048,
    "model_type": "gpt_neox",
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "use_parallel_residual": True,
    "vocab_size": 50304,
}
QWEN2_7B = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "max_position_embeddings": 131072,
    "max_window_layers": 28,
    "model_type": "qwen2",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 152064,
}
GPT2 = json.loads((MODELS / "gpt2.json").read_text())


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(config: dict[str, Any], drop: tuple[str, ...] = (), **changes: Any) -> LlmSpec:
    Path("m.json").write_text(json.dumps({k: v for k, v in config.items() if k not in drop} | changes))
    return load_llm("m.json")


def error_of(config: dict[str, Any], drop: tuple[str, ...] = (), **changes: Any) -> str:
    with pytest.raises(UserError) as error:
        load(config, drop, **changes)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads", "positions"),
    [
        ("gpt2", 12, 768, 12, 1024),
        ("gpt2-medium", 24, 1024, 16, 1024),
        ("gpt2-large", 36, 1280, 20, 1024),
        ("gpt2-xl", 48, 1600, 25, 1024),
        ("gpt3-small", 12, 768, 12, 2048),
        ("gpt3-medium", 24, 1024, 16, 2048),
        ("gpt3-large", 24, 1536, 16, 2048),
        ("gpt3-xl", 24, 2048, 16, 2048),
    ],
)
def test_presets(name: str, layers: int, hidden: int, heads: int, positions: int) -> None:
    assert load_llm(name) == LlmSpec(
        name=name,
        model_type="gpt2",
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        intermediate_size=4 * hidden,
        vocab_size=50257,
        max_position_embeddings=positions,
        activation="gelu_new",
        gated_ffn=False,
        norm="layernorm",
        attention_bias=True,
        ffn_bias=True,
        num_experts=1,
        num_experts_per_tok=1,
        sliding_window=None,
        tie_word_embeddings=True,
        parallel_attention=False,
    )
    assert weights(load_llm(name)).blocks == 12 * layers * hidden**2


def test_every_preset_is_listed_and_has_a_source() -> None:
    assert ", ".join(list_presets()) == PRESETS
    sources = (MODELS / "SOURCES.md").read_text()
    assert all(f"| `{name}.json` |" in sources for name in list_presets())


@pytest.mark.parametrize(
    ("config", "shape", "params"),
    [
        # (KV heads, head dim, FFN, gated, norm, activation, window, tied), weights in the decoder's matrices
        (GPT2, (12, 64, 3072, False, "layernorm", "gelu_new", None, True), 84_934_656),
        (LLAMA_2_7B, (32, 128, 11008, True, "rmsnorm", "silu", None, False), 6_476_005_376),
        (MISTRAL_7B, (8, 128, 14336, True, "rmsnorm", "silu", 4096, False), 6_979_321_856),
        (MIXTRAL_8X7B, (8, 128, 14336, True, "rmsnorm", "silu", None, False), 46_440_382_464),
        (OPT_1_3B, (32, 64, 8192, False, "layernorm", "relu", None, True), 1_207_959_552),
        (PYTHIA_1_4B, (16, 128, 8192, False, "layernorm", "gelu", None, False), 1_207_959_552),
        (QWEN2_7B, (4, 128, 18944, True, "rmsnorm", "silu", None, False), 6_525_288_448),
    ],
)
def test_published_configs(config: dict[str, Any], shape: tuple[object, ...], params: int) -> None:
    spec = load(config)
    assert shape == (
        spec.num_key_value_heads,
        spec.head_dim,
        spec.intermediate_size,
        spec.gated_ffn,
        spec.norm,
        spec.activation,
        spec.sliding_window,
        spec.tie_word_embeddings,
    )
    assert weights(spec).blocks == params
    assert spec.vocab_size == config["vocab_size"]
    assert (spec.name, spec.model_type) == ("m", config["model_type"])


def test_flags_of_each_architecture() -> None:
    flags = {
        spec.model_type: (spec.attention_bias, spec.ffn_bias, spec.parallel_attention, spec.num_experts)
        for spec in map(load, (GPT2, LLAMA_2_7B, MISTRAL_7B, MIXTRAL_8X7B, OPT_1_3B, PYTHIA_1_4B, QWEN2_7B))
    }
    assert flags == {
        "gpt2": (True, True, False, 1),
        "llama": (False, False, False, 1),
        "mistral": (False, False, False, 1),
        "mixtral": (False, False, False, 8),
        "opt": (True, True, False, 1),
        "gpt_neox": (True, True, True, 1),
        "qwen2": (True, False, False, 1),
    }
    assert load(LLAMA_2_7B, attention_bias=True, mlp_bias=True).ffn_bias
    assert not load(OPT_1_3B, enable_bias=False).attention_bias
    assert not load(PYTHIA_1_4B, use_parallel_residual=False).parallel_attention


def test_defaults_are_those_of_transformers() -> None:
    def drop(config: dict[str, Any], *keys: str) -> LlmSpec:
        return load(config, keys)

    assert drop(LLAMA_2_7B, "num_key_value_heads").num_key_value_heads == 32
    assert drop(LLAMA_2_7B, "max_position_embeddings").max_position_embeddings == 2048
    assert drop(MISTRAL_7B, "num_key_value_heads").num_key_value_heads == 8
    assert drop(MISTRAL_7B, "sliding_window").sliding_window == 4096
    assert drop(MISTRAL_7B, "max_position_embeddings").max_position_embeddings == 131072
    mixtral = drop(MIXTRAL_8X7B, "num_key_value_heads", "num_local_experts", "num_experts_per_tok", "sliding_window")
    assert (mixtral.num_key_value_heads, mixtral.num_experts, mixtral.num_experts_per_tok) == (8, 8, 2)
    assert mixtral.sliding_window is None
    assert drop(OPT_1_3B, "word_embed_proj_dim", "vocab_size").vocab_size == 50272
    assert drop(PYTHIA_1_4B, "vocab_size", "use_parallel_residual").vocab_size == 50432
    assert drop(QWEN2_7B, "tie_word_embeddings").tie_word_embeddings is False
    assert drop(GPT2, "n_positions", "n_ctx").max_position_embeddings == 1024
    assert drop(GPT2, "activation_function").activation == "gelu_new"


def test_null_means_derived() -> None:
    assert load(GPT2, n_inner=None).intermediate_size == 3072
    assert load(GPT2, n_inner=1000).intermediate_size == 1000
    assert load(MISTRAL_7B, num_key_value_heads=None, sliding_window=None).num_key_value_heads == 32
    assert load(LLAMA_2_7B, head_dim=None).head_dim == 128


def test_spellings_that_vary() -> None:
    assert load(GPT2, drop=("n_positions",), n_ctx=512).max_position_embeddings == 512
    nemo = load(MISTRAL_7B, hidden_size=5120, head_dim=128)
    assert (nemo.head_dim, weights(nemo).blocks // 32) == (128, 5120 * (80 * 128 + 3 * 14336))
    assert load(QWEN2_7B, use_sliding_window=True).sliding_window is None
    assert load(QWEN2_7B, use_sliding_window=True, max_window_layers=0).sliding_window == 131072


FLOATING = "expected float16, bfloat16, float32, float64 or auto (the format of weights is in quantization_config)"
NONE = "nearest: none: models are decoders with attention in every layer here"


@pytest.mark.parametrize(
    ("config", "drop", "changes", "said"),
    [
        (GPT2, ("model_type",), {}, f"$: missing key 'model_type', expected one of {SUPPORTED}"),
        (GPT2, (), {"model_type": "bert"}, f'$.model_type: expected one of {SUPPORTED}, got "bert"; {NONE}'),
        (GPT2, (), {"model_type": ["gpt2"]}, f"$.model_type: expected one of {SUPPORTED}, got a list; nearest: gpt2"),
        (
            GPT2,
            ("n_head",),
            {"n_heads": 12},
            "$: missing key 'n_head' (int from 1 to 2147483647), which every gpt2 config has; nearest: n_heads, n_embd",
        ),
        (GPT2, (), {"n_head": 0}, "$.n_head: expected int from 1 to 2147483647, got 0"),
        (GPT2, (), {"n_head": True}, "$.n_head: expected int from 1 to 2147483647, got true"),
        (GPT2, (), {"n_head": 12.0}, "$.n_head: expected int from 1 to 2147483647, got 12.0"),
        (GPT2, (), {"n_head": "12"}, '$.n_head: expected int from 1 to 2147483647, got "12"'),
        (GPT2, (), {"n_head": None}, "$.n_head: expected int from 1 to 2147483647, got null"),
        (GPT2, (), {"n_layer": 2**31}, "$.n_layer: expected int from 1 to 2147483647, got 2147483648"),
        (GPT2, (), {"n_inner": -1}, "$.n_inner: expected int from 1 to 2147483647 or null, got -1"),
        (GPT2, (), {"vocab_size": {}}, "$.vocab_size: expected int from 1 to 2147483647, got a dict"),
        (GPT2, (), {"activation_function": 1}, "$.activation_function: expected text, got 1"),
        (GPT2, (), {"n_layer": 10_001}, "$.n_layer: expected at most 10000, got 10001"),
        (GPT2, (), {"torch_dtype": "int4"}, f'$.torch_dtype: {FLOATING}, got "int4"'),
        (GPT2, (), {"dtype": "float8_e4m3fn"}, f'$.dtype: {FLOATING}, got "float8_e4m3fn"'),
        (GPT2, (), {"dtype": 16}, f"$.dtype: {FLOATING}, got 16"),
        (
            GPT2,
            (),
            {"activation_function": "gelo"},
            '$.activation_function: expected a function that transformers names, got "gelo"; nearest: gelu',
        ),
        (GPT2, (), {"tie_word_embeddings": 1}, "$.tie_word_embeddings: expected true or false, got 1"),
        (GPT2, (), {"n_head": 7}, "$.n_head: expected a divisor of n_embd = 768, such as 6 or 8, got 7"),
        (GPT2, (), {"n_head": 769}, "$.n_head: expected a divisor of n_embd = 768, such as 768, got 769"),
        (
            LLAMA_2_7B,
            (),
            {"num_key_value_heads": 5},
            "$.num_key_value_heads: expected a divisor of num_attention_heads = 32, such as 4 or 8, got 5",
        ),
        (
            MISTRAL_7B,
            ("num_key_value_heads",),
            {"num_attention_heads": 4},
            "$: missing key 'num_key_value_heads' (default 8), "
            "expected a divisor of num_attention_heads = 4, such as 4",
        ),
        (
            LLAMA_2_7B,
            (),
            {"head_dim": 0},
            "$.head_dim: expected int from 1 to 2147483647 or null, got 0",
        ),
        (
            MIXTRAL_8X7B,
            (),
            {"num_experts_per_tok": 9},
            "$.num_experts_per_tok: expected at most num_local_experts = 8, got 9",
        ),
        (
            OPT_1_3B,
            (),
            {"word_embed_proj_dim": 512},
            "$.word_embed_proj_dim: expected hidden_size = 2048, other projections are not supported, got 512",
        ),
        (
            QWEN2_7B,
            (),
            {"use_sliding_window": True, "max_window_layers": -1},
            "$.max_window_layers: expected int from 0 to 2147483647, got -1",
        ),
        (
            LLAMA_2_7B,
            (),
            {"num_experts": 4},
            "$.num_experts: expected 1, as every llama model has it, got 4",
        ),
        (
            LLAMA_2_7B,
            (),
            {"intermediate_sizes": 4},
            "$.intermediate_sizes: expected a known key, got 4; nearest: intermediate_size",
        ),
    ],
)
def test_bad_config_is_one_line(config: dict[str, Any], drop: tuple[str, ...], changes: Any, said: str) -> None:
    assert error_of(config, drop, **changes) == f"m.json: at {said}"


def test_paths_and_names() -> None:
    folder = Path("my-model")
    folder.mkdir()
    with pytest.raises(UserError, match=r"^my-model/config\.json: no such file$"):
        load_llm("my-model")
    (folder / "config.json").write_text(json.dumps(GPT2))
    assert load_llm("my-model").name == "my-model"
    assert load_llm(folder / "config.json").name == "my-model"
    Path("gpt2").mkdir()
    assert load_llm("gpt2").name == "gpt2"
    for text, said in {
        "gpt2-lx": f"model 'gpt2-lx': no such preset or file; nearest: gpt2-xl, gpt2, gpt3-xl; presets: {PRESETS}",
        "zzz": f"model 'zzz': no such preset or file; presets: {PRESETS}",
        "": f"model '': no such preset or file; presets: {PRESETS}",
        "none.json": "none.json: no such file",
        "none/here": "none/here: no such file",
    }.items():
        with pytest.raises(UserError) as error:
            load_llm(text)
        assert str(error.value) == said


def test_a_config_is_an_object() -> None:
    Path("m.json").write_text("[1]")
    with pytest.raises(UserError) as error:
        load_llm("m.json")
    assert str(error.value) == "m.json: at $: expected an object, got a list"


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_types_of_weights_by_all_their_names(key: str) -> None:
    shapes = [load(config).decisive() for config in (GPT2, {**GPT2, key: "half"}, {**GPT2, key: "torch.float"})]
    assert shapes[0] == shapes[1] == shapes[2]


@pytest.mark.parametrize(("key", "value"), [("torch_dtype", "int8"), ("quantization_config", [4])])
def test_weights_of_text_and_images_are_told_above_both(key: str, value: object, tmp_path: Path) -> None:
    text = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    whole = {"model_type": "gemma3", "text_config": text}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(whole))
    assert load_llm(str(path)).hidden_size == 64
    path.write_text(json.dumps(whole | {key: value}))
    with pytest.raises(UserError, match=rf"config.json: at \$\.{key}: expected "):
        load_llm(str(path))
