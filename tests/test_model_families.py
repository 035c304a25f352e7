"""What README says of models: which `config.json` load, on which systems they run, and how the others are refused.

`tests/models/*.json` restate the keys of the published files [recalled].
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
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
REFUSED = {path.stem for path in (HERE / "models").glob("*.json")} - LOADED.keys()
TYPES = {"gpt2", "gpt_neox", "opt", "llama", "mistral", "mixtral", "qwen2"}
ON_PIM_GPT = {"gpt2", "opt-6.7b", "pythia-6.9b"}


def tree(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "models" / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", LOADED)
def test_it_has_the_published_number_of_weights(name: str) -> None:
    assert load_llm(HERE / "models" / f"{name}.json").params_matmul == LOADED[name]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_others_are_refused_by_one_line_that_names_the_key(name: str) -> None:
    file = HERE / "models" / f"{name}.json"
    key = "word_embed_proj_dim" if name == "opt-350m" else "model_type"
    for system in ("pim_gpt", "t4", "neupims"):
        done = call("run", system, "--model", file, *(["--requests", "alpaca"] if system == "neupims" else []))
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        assert f"{file}: at $.{key}: expected " in done.err and str(tree(name)[key]) in done.err


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama-2-7b", {"quantization_config": {"bits": 4, "quant_method": "gptq"}}),
        ("gpt2", {"pruned_heads": {"1": [0, 2]}}),
        ("gpt2", {"add_cross_attention": True}),
        ("opt-6.7b", {"is_encoder_decoder": True}),
        ("qwen2-7b", {"layer_types": ["full_attention", "sliding_attention"] * 14}),
        ("mistral-7b-v0.1", {"layer_types": ["full_attention"] * 32}),
        ("llama-2-7b", {"layer_types": "chunked_attention"}),
        ("qwen2-7b", {"use_sliding_window": True, "max_window_layers": 14}),
        ("gpt2", {"activation_function": 3}),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}),
    ],
)
def test_keys_that_make_it_another_model_are_refused(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tree(name) | change))
    with pytest.raises(UserError) as said:
        load_llm(tmp_path)
    text = str(said.value)
    assert any(f"config.json: at $.{key}: expected " in text for key in change) and "\n" not in text


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama-2-7b", {"quantization_config": None, "pruned_heads": {}, "is_encoder_decoder": False}),
        ("qwen2-7b", {"layer_types": ["full_attention"] * 28}),
        ("mistral-7b-v0.1", {"layer_types": ["sliding_attention"] * 32}),
        ("mistral-7b-v0.1", {"sliding_window": None, "layer_types": ["full_attention"] * 32}),
    ],
)
def test_the_same_keys_are_taken_where_they_change_nothing(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tree(name) | change))
    assert load_llm(tmp_path).params_matmul == LOADED[name]


SMALL = {  # the same model with two layers, so that it fits and is quick
    "gpt2": {"n_layer": 2},
    **{name: {"num_hidden_layers": 2} for name in LOADED if name != "gpt2"},
    "qwen2-7b": {"num_hidden_layers": 2, "max_window_layers": 2},
}
RUNS = {
    "pim_gpt": ["--generate", "2"],
    "t4": ["--generate", "2"],
    "xeon_6154": ["--generate", "2"],
    "gpu_a100": ["--requests", "batch.csv"],
    "npu_only": ["--requests", "batch.csv", "--tp", "4"],
    "npu_pim": ["--requests", "batch.csv", "--tp", "4"],
    "neupims": ["--requests", "batch.csv", "--tp", "4"],
}


@pytest.mark.parametrize("system", RUNS)
@pytest.mark.parametrize("name", LOADED)
def test_all_run_on_every_system_but_pim_gpt_which_takes_the_gpt2_style_ones(
    name: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(tree(name) | SMALL[name]))
    Path("batch.csv").write_text("seq_len\n64\n64\n64\n64\n")
    done = call("run", system, "--model", "config.json", *RUNS[system], "--json", "-", "--quiet")
    if system == "pim_gpt" and name not in ON_PIM_GPT:
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert "PIM-GPT maps GPT-2-style decoders (gpt2, opt, gpt_neox)" in done.err
        return
    assert done.code == 0 and done.err == "" and json.loads(done.out)["model"], done


def test_readme_names_the_types() -> None:
    named = re.findall(r"`model_type`s ((?:`\w+`(?:, | and )?)+)", README)
    assert named and all(set(re.findall(r"`(\w+)`", each)) == TYPES for each in named)
    for kind in ("gemma", "falcon", "phi", "deepseek"):
        assert kind in README
