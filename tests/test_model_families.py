"""What README says of models: which `config.json` load, on which systems they run, and how the others are refused.

`tests/models/*.json` restate the keys of the published files [recalled].
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.llm_types import KEYS
from pimloom.arch.system import load_part, load_system
from pimloom.mappers.geometry import geometry
from pimloom.mappers.plan import Plan, max_tokens
from pimloom.systems.devices.npu_pim.parallel import serve_on_devices
from pimloom.workload.need import active_parameters, kv_bytes_per_token, parameters, weights
from tests.command import call

HERE = Path(__file__).parent
README = (HERE.parent / "README.md").read_text()
LOADED = {  # weights in the matrices of all blocks: the published total less embeddings, head, norms and biases
    "gpt2": 124_439_808 - 50257 * 768 - 1024 * 768 - 12 * (3 + 1 + 4 + 1) * 768 - 25 * 2 * 768,
    "opt-6.7b": 6_658_473_984 - 50272 * 4096 - 2050 * 4096 - 32 * (4 + 4 + 1) * 4096 - 65 * 2 * 4096,
    "pythia-6.9b": 6_857_302_016 - 2 * 50432 * 4096 - 32 * (3 + 1 + 4 + 1) * 4096 - 65 * 2 * 4096,
    "llama-2-7b": 6_738_415_616 - 2 * 32000 * 4096 - 65 * 4096,
    "llama-3.2-1b": 1_235_814_400 - 128256 * 2048 - 33 * 2048,
    "mistral-7b-v0.1": 7_241_732_096 - 2 * 32000 * 4096 - 65 * 4096,
    "mixtral-8x7b": 46_702_792_704 - 2 * 32000 * 4096 - 65 * 4096,
    "qwen2-7b": 7_615_616_512 - 2 * 152064 * 3584 - 57 * 3584 - 28 * (3584 + 2 * 512),
}
PARAMETERS = {  # of all weights, as the safetensors files of the model cards have them [recalled, unless said]
    "gpt2": 124_439_808,
    "opt-6.7b": 6_658_473_984,
    "pythia-6.9b": 6_857_302_016,
    "llama-2-7b": 6_738_415_616,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2-7b": 7_615_616_512,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,  # without the layer for multi-token prediction
    "falcon-7b": 6_921_720_704,  # the table of the embedding once: it is tied
    "falcon-40b": 41_303_293_952,
    "gemma-2b": 2_506_172_416,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "gpt-oss-20b": 20_914_757_184,  # gpt-oss model card: 20.91 B
    "olmo2-7b": 7_298_617_344,
    "phi-3-mini": 3_821_079_552,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "stablelm-3b-4e1t": 2_795_443_200,
    "stablelm-2-1_6b": 1_644_515_328,
}
ALSO_LOADED = {"falcon-11b", "gemma-3-4b"}  # published totals are known to three digits only
NEW = PARAMETERS.keys() - LOADED.keys()
REFUSED = {path.stem for path in (HERE / "models").glob("*.json")} - PARAMETERS.keys() - ALSO_LOADED
NOT_ON_PIM_GPT = {"deepseek_v2", "deepseek_v3"}


def tree(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "models" / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", LOADED)
def test_its_blocks_have_the_published_number_of_weights(name: str) -> None:
    assert weights(load_llm(HERE / "models" / f"{name}.json")).blocks == LOADED[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_it_has_the_published_number_of_weights(name: str) -> None:
    assert parameters(load_llm(HERE / "models" / f"{name}.json")) == PARAMETERS[name]


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("deepseek-v3", 671, 37),  # arXiv:2412.19437, abstract; without the embedding
        ("gpt-oss-20b", 20.91, 3.61),  # gpt-oss model card, table 1: the embedding does not count as active
        ("mixtral-8x7b", 46.7, 12.9),  # arXiv:2401.04088, 2: 47 B and 13 B
        ("qwen3-30b-a3b", 30.5, 3.3),  # model card
        ("falcon-11b", 11.1, 11.1),  # arXiv:2407.14885
        ("gemma-3-4b", 3.88, 3.88),  # arXiv:2503.19786, table 1: 675 M of the embedding and 3,209 M
    ],
)
def test_active_weights(name: str, total: float, active: float) -> None:
    llm = load_llm(HERE / "models" / f"{name}.json")
    embedding = 0 if llm.tie_word_embeddings else llm.vocab_size * llm.hidden_size
    assert parameters(llm) / 1e9 == pytest.approx(total, rel=3e-3)
    assert active * 1e9 - embedding * 1.01 < active_parameters(llm) * 1.005 and active_parameters(llm) < active * 1.01e9


LLAMA_LIKE = {"num_attention_heads": 32, "rms_norm_eps": 1e-5, "hidden_size": 4096, "intermediate_size": 11008}


@pytest.mark.parametrize(
    ("kind", "keys", "nearest"),
    [
        ("llama4", {"text_config": {**LLAMA_LIKE, "model_type": "llama4_text"}}, "mixtral, which has no shared expert"),
        ("llama4_text", LLAMA_LIKE, "mixtral, which has no shared expert and no chunked attention"),
        ("qwen2_moe", LLAMA_LIKE | {"num_experts": 60}, "qwen3_moe, which has no shared expert and normalises Q and K"),
        ("mamba", {"hidden_size": 768, "state_size": 16, "num_hidden_layers": 24}, "none: "),
        ("bert", {"num_attention_heads": 12, "hidden_size": 768}, "none: "),
        ("granite", LLAMA_LIKE, "llama, "),
        ("olmo", LLAMA_LIKE, "llama"),  # its name sounds like olmo2's, whose norms stand elsewhere
        ("unheard", LLAMA_LIKE, "llama"),
        ("unheard", {**LLAMA_LIKE, "num_local_experts": 8}, "mixtral"),
        ("unheard", {key: 12 for key in LLAMA_LIKE if key != "rms_norm_eps"} | {"num_hidden_layers": 2}, "gpt_neox"),
        ("gpt-2", {"n_head": 12, "n_embd": 768, "n_layer": 12}, "gpt2"),
        ("lama", {}, "llama"),
    ],
)
def test_the_nearest_type_is_of_the_same_family_or_structure(kind: str, keys: dict, nearest: str, tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **keys}))
    with pytest.raises(UserError, match=f"at \\$.model_type: .*; nearest: {nearest}"):
        load_llm(tmp_path)


def test_nothing_is_near_to_a_name_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "xyz"}')
    with pytest.raises(UserError, match='got "xyz"$'):
        load_llm(tmp_path)


def test_caches_have_the_published_size() -> None:
    """Insights into DeepSeek-V3 (arXiv:2505.09343), table 1: 70.272 KB a token, Llama 3.1 405B 516.096 KB, BF16."""
    assert kv_bytes_per_token(load_llm(HERE / "models" / "deepseek-v3.json")) == 70_272
    assert kv_bytes_per_token(load_llm("llama-3.1-405b")) == 516_096


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_others_are_refused_by_one_line_that_names_the_key(name: str) -> None:
    file = HERE / "models" / f"{name}.json"
    key = {"opt-350m": "do_layer_norm_before", "llava-1.5-7b": "text_config"}.get(name, "model_type")
    for system in ("pim_gpt", "t4", "neupims"):
        done = call("run", system, "--model", file, *(["--requests", "alpaca"] if system == "neupims" else []))
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        if name == "llava-1.5-7b":  # which leaves the sizes to the defaults of a class
            assert f"{file}: at $.text_config: missing key 'num_hidden_layers'" in done.err
            continue
        assert f"{file}: at $.{key}: expected " in done.err and json.dumps(tree(name)[key]) in done.err
        assert name != "opt-350m" or "; at $.word_embed_proj_dim: expected hidden_size = 1024" in done.err
        assert key != "model_type" or "; nearest: " in done.err


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("bloom-7b1", "falcon, which has no norm behind the embedding and no ALiBi"),
        ("mpt-7b", "falcon, which has no ALiBi, and would also need num_hidden_layers, .*"),
        ("gpt-j-6b", "gpt_neox, which has a norm more in each layer, and would also need num_hidden_layers, .*"),
        ("phi-2", "gpt_neox, which has a norm more in each layer"),
        ("t5-base", "none: models are decoders with attention in every layer here"),
    ],
)
def test_an_unknown_type_names_the_one_whose_keys_come_closest(name: str, nearest: str) -> None:
    with pytest.raises(UserError, match=f"; nearest: {nearest}$"):
        load_llm(HERE / "models" / f"{name}.json")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama-2-7b", {"quantization_config.quant_method": "aqlm"}),
        ("gpt2", {"pruned_heads": {"1": [0, 2]}}),
        ("gpt2", {"add_cross_attention": True}),
        ("opt-6.7b", {"is_encoder_decoder": True}),
        ("opt-6.7b", {"do_layer_norm_before": False}),
        ("qwen2-7b", {"layer_types": ["full_attention", "sliding_attention"] * 14}),
        ("mistral-7b-v0.1", {"layer_types": ["full_attention"] * 32}),
        ("mistral-7b-v0.1", {"layer_types": ["sliding_attention"] * 31}),
        ("llama-2-7b", {"layer_types": "chunked_attention"}),
        ("llama-2-7b", {"sliding_window": 4096}),
        ("llama-2-7b", {"layer_types": []}),
        ("llama-2-7b", {"layer_types": ["full_attention"] * 31}),
        ("gpt2", {"activation_function": 3}),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}),
        ("falcon-7b", {"alibi": True}),
        ("deepseek-v3", {"moe_layer_freq": 2}),
        ("qwen3-30b-a3b", {"mlp_only_layers": [48]}),
        ("gemma-2-9b", {"attn_logit_softcapping": "50"}),
        ("stablelm-3b-4e1t", {"partial_rotary_factor": 2}),
        ("deepseek-v3", {"first_k_dense_replace": -1}),
        ("stablelm-3b-4e1t", {"rope_parameters.partial_rotary_factor": 2}),
        ("stablelm-3b-4e1t", {"rope_parameters.partial_rotary_factor": 0.5, "partial_rotary_factor": 0.25}),
        ("llama-2-7b", {"rope_parameters.partial_rotary_factor": 0.5}),
    ],
)
def test_keys_that_make_it_another_model_are_refused(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tree(name) | nested(change)))
    with pytest.raises(UserError) as said:
        load_llm(tmp_path)
    text = str(said.value)
    assert any(f"config.json: at $.{key}: expected " in text for key in change) and "\n" not in text


def nested(change: dict[str, Any]) -> dict[str, Any]:
    """Keys with a dot are of a mapping."""
    found: dict[str, Any] = {}
    for key, value in change.items():
        head, _, rest = key.partition(".")
        found[head] = {rest: value} if rest else value
    return found


@pytest.mark.parametrize(
    ("name", "share", "rotated"), [("stablelm-3b-4e1t", 0.5, 40), ("phi-3-mini", 0.75, 72), ("pythia-6.9b", 1.0, None)]
)
def test_a_share_that_is_rotated_stands_at_the_top_or_among_rope_parameters(
    name: str, share: float, rotated: int | None, tmp_path: Path
) -> None:
    plain = {key: value for key, value in tree(name).items() if key not in ("partial_rotary_factor", "rotary_pct")}
    for change in ({"rope_parameters": {"partial_rotary_factor": share}}, {"partial_rotary_factor": share}):
        (tmp_path / "config.json").write_text(json.dumps(plain | change))
        assert load_llm(tmp_path).rotary_dim == rotated


def test_what_published_files_of_two_types_leave_out(tmp_path: Path) -> None:
    short = {key: value for key, value in tree("deepseek-v2-lite").items() if key != "n_shared_experts"}
    (tmp_path / "config.json").write_text(json.dumps(short))
    assert load_llm(tmp_path).num_shared_experts == 2
    (tmp_path / "config.json").write_text(json.dumps(tree("qwen3-30b-a3b") | {"mlp_only_layers": None}))
    assert load_llm(tmp_path).dense_layers == ()


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_keys_of_other_models_and_slips_are_refused_together(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tree(name) | {"mamba_d_state": 16, "vocab_sizes": 16}))
    with pytest.raises(UserError) as said:
        load_llm(tmp_path)
    text = str(said.value)
    assert "at $.mamba_d_state: expected null or 0 or [] (all layers have plain attention here), got 16; " in text
    assert "at $.vocab_sizes: expected a known key, got 16; nearest: vocab_size" in text


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama-2-7b", {"quantization_config": None, "pruned_heads": {}, "is_encoder_decoder": False}),
        ("llama-2-7b", {"sliding_window": None, "unheard_of": None, "_commit_hash": "5af"}),
        ("qwen2-7b", {"layer_types": ["full_attention"] * 28}),
        ("mistral-7b-v0.1", {"layer_types": ["sliding_attention"] * 32}),
        ("mistral-7b-v0.1", {"sliding_window": None, "layer_types": ["full_attention"] * 32}),
    ],
)
def test_the_same_keys_are_taken_where_they_change_nothing(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tree(name) | change))
    assert weights(load_llm(tmp_path)).blocks == LOADED[name]


@pytest.mark.parametrize(
    ("name", "change", "full"),
    [
        ("gemma-2-9b", {}, range(1, 42, 2)),
        ("gemma-3-1b", {}, range(5, 26, 6)),
        ("gemma-3-1b", {"sliding_window_pattern": 13}, range(12, 26, 13)),
        ("gpt-oss-20b", {"layer_types": None}, range(1, 24, 2)),
        ("gpt-oss-20b", {"layer_types": ["full_attention"] * 23 + ["sliding_attention"]}, range(23)),
        ("qwen2-7b", {"use_sliding_window": True, "max_window_layers": 14}, range(14)),
        ("qwen3-8b", {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 28}, range(28)),
        ("qwen3-8b", {"use_sliding_window": False}, ()),
        ("qwen3-30b-a3b", {"use_sliding_window": True, "sliding_window": 4096}, ()),
    ],
)
def test_windows_in_some_layers(name: str, change: dict[str, Any], full: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tree(name) | change))
    assert load_llm(tmp_path).full_attention_layers == tuple(full)


@pytest.mark.parametrize("name", sorted(NEW))
def test_the_new_types_say_what_they_have(name: str) -> None:
    llm = load_llm(HERE / "models" / f"{name}.json")
    newest = llm.__struct_fields__[20:]
    has = {field: value for field, value in llm.decisive().items() if field in newest and type(value) is not tuple}
    scaled: dict[str, Any] = {"scaled_embedding": True}
    both: dict[str, Any] = {"norm_placement": "both"}
    capped: dict[str, Any] = {"attn_logit_softcapping": True, "final_logit_softcapping": True}
    latent: dict[str, Any] = {"kv_lora_rank": 512, "v_head_dim": 128, "rotary_dim": 64}
    expected: dict[str, dict[str, Any]] = {
        "deepseek-v2-lite": latent | {"moe_intermediate_size": 1408, "num_shared_experts": 2},
        "deepseek-v3": latent
        | {"moe_intermediate_size": 2048, "num_shared_experts": 1, "q_lora_rank": 1536, "router_bias": True},
        "falcon-7b": {"shared_norm": True},
        "falcon-40b": {},
        "gemma-2b": scaled,
        "gemma-2-9b": scaled | both | capped,
        "gemma-3-1b": scaled | both | {"qk_norm": "head"},
        "gpt-oss-20b": {"router_bias": True, "attention_sinks": True},
        "olmo2-7b": {"norm_placement": "post", "qk_norm": "whole"},
        "phi-3-mini": {},
        "qwen3-8b": {"qk_norm": "head"},
        "qwen3-30b-a3b": {"qk_norm": "head", "moe_intermediate_size": 768},
        "stablelm-3b-4e1t": {"rotary_dim": 20},
        "stablelm-2-1_6b": {"rotary_dim": 16},
    }
    assert has == expected[name]


SMALL: dict[str, dict[str, Any]] = {  # the same model with two layers, so that it fits and is quick; experts are alike
    "gpt2": {"n_layer": 2},
    **{name: {"num_hidden_layers": 2} for name in PARAMETERS if name != "gpt2"},
    "mixtral-8x7b": {"num_hidden_layers": 2, "num_local_experts": 2},
    "qwen2-7b": {"num_hidden_layers": 2, "max_window_layers": 2},
    "gpt-oss-20b": {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
}
RUNS = {
    "pim_gpt": ["--generate", "2", "--set", "dram.channels=64"],
    "t4": ["--generate", "2"],
    "xeon_6154": ["--generate", "2"],
    "gpu_a100": ["--requests", "batch.csv"],
    "npu_only": ["--requests", "batch.csv", "--tp", "4"],
    "npu_pim": ["--requests", "batch.csv", "--tp", "4"],
    "neupims": ["--requests", "batch.csv", "--tp", "4"],
}


BATCHED = ("npu_only", "npu_pim", "neupims")
WIDTHS = ("hidden_size", "intermediate_size", "n_embd", "ffn_dim", "word_embed_proj_dim")


@pytest.mark.parametrize("system", RUNS)
@pytest.mark.parametrize("name", LOADED)
def test_all_run_on_every_system(name: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = tree(name) | SMALL[name]
    if system in BATCHED:  # as many heads, that are narrower
        keys |= {key: keys[key] // 8 for key in WIDTHS if key in keys}
    Path("config.json").write_text(json.dumps(keys))
    Path("batch.csv").write_text("seq_len\n64\n64\n64\n64\n")
    done = call("run", system, "--model", "config.json", *RUNS[system], "--json", "-", "--quiet")
    assert done.code == 0 and done.err == "" and json.loads(done.out)["model"], done


@pytest.mark.parametrize("system", ["pim_gpt", "t4", "gpu_a100"])
@pytest.mark.parametrize("name", sorted(NEW))
def test_a_new_type_runs_on_rooflines_and_pim_gpt(
    name: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(tree(name) | SMALL[name]))
    Path("batch.csv").write_text("seq_len\n64\n64\n64\n64\n")
    options = [option if "=" in option else option.replace("4", "1") for option in RUNS[system]]
    done = call("run", system, "--model", "config.json", *options, "--json", "-", "--quiet")
    llm = load_llm("config.json")
    if system == "pim_gpt" and llm.model_type in NOT_ON_PIM_GPT:
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        assert "PIM-GPT has no rule for a compressed cache (MLA)" in done.err
    else:
        assert done.code == 0 and json.loads(done.out)["model"], done


@pytest.mark.parametrize("system", ["npu_only", "neupims"])
@pytest.mark.parametrize("name", sorted(NEW))
def test_a_new_type_runs_on_npus(name: str, system: str) -> None:
    """With what makes it a type of its own, and small matrices; a compressed cache without PIM."""
    llm = load_llm(HERE / "models" / f"{name}.json")
    few = {
        "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 256,
        "num_key_value_heads": {llm.num_attention_heads: 4, 1: 1}.get(llm.num_key_value_heads, 2),
        "num_experts": min(llm.num_experts, 4), "num_experts_per_tok": min(llm.num_experts_per_tok, 2),
        "full_attention_layers": tuple(i for i in llm.full_attention_layers if i < 2),
        "dense_layers": tuple(i for i in llm.dense_layers if i < 1),
    }  # fmt: skip
    small = {"moe_intermediate_size": 128, "q_lora_rank": 128, "kv_lora_rank": 128}
    few |= {field: size for field, size in small.items() if getattr(llm, field) is not None}
    llm, hardware, tokens = replace(llm, **few), load_system(system), np.full(4, 64)
    if llm.kv_lora_rank and system == "neupims":
        with pytest.raises(UserError, match="a compressed cache"):
            serve_on_devices(hardware, llm, tokens, None, tp=1, pp=1, layers=2, fidelity="physical")
        return
    found = serve_on_devices(hardware, llm, tokens, None, tp=2, pp=1, layers=2, fidelity="physical")
    unlike = bool(llm.dense_layers) or 0 < len(llm.full_attention_layers) < 2
    assert found.iteration_cyc > 0 and (len(found.layer_kinds) > 0) == (unlike and system == "npu_only")


def test_readme_names_the_types() -> None:
    named = re.findall(r"`model_type`s\s((?:`\w+`(?:,\s|\sand\s)?)+)", README)
    assert named and all(set(re.findall(r"`(\w+)`", each)) == set(KEYS) for each in named)
    for kind in ("bloom", "mpt", "gptj", "phi"):
        assert f"`{kind}`" in README


def test_readme_names_the_types_that_pim_gpt_refuses() -> None:
    (named,) = re.findall(r"PIM-GPT runs all of\s+them but ((?:`\w+`(?:,\s|\sand\s)?)+)", README)
    assert set(re.findall(r"`(\w+)`", named)) == NOT_ON_PIM_GPT < KEYS.keys()


def test_the_table_of_what_pim_gpt_needs() -> None:
    """docs/pim_gpt.md: the fewest channels that hold all weights and one token, and the tokens that fit then."""
    page = (HERE.parent / "docs" / "pim_gpt.md").read_text()
    rows = re.findall(r"^\| `([\w.-]+)` \| ([\d,]+) \| ([\d,]+) \|", page, re.MULTILINE)
    models = PARAMETERS.keys() | ALSO_LOADED
    runs = {name for name in models if load_llm(HERE / "models" / f"{name}.json").model_type not in NOT_ON_PIM_GPT}
    assert {name for name, *_ in rows} == runs
    part = load_part("gddr6_pim_gpt").value
    for name, channels, tokens in rows:
        llm, n = load_llm(HERE / "models" / f"{name}.json"), int(channels)
        least, less = (geometry(part, count) for count in (n, max(n - 1, 1)))
        assert Plan(llm, least, 1).rows <= least.rows and (n == 1 or Plan(llm, less, 1).rows > less.rows), name
        assert max_tokens(llm, least) == int(tokens.replace(",", "")), name
