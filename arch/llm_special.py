"""What some types of a `config.json` say in keys of their own."""

from collections.abc import Callable
from typing import Any

from pimloom.arch.llm_config import Config


def _opt(config: Config, fields: dict[str, Any]) -> None:
    hidden = fields["hidden_size"]
    if config.value("word_embed_proj_dim", int, hidden, nullable=True) not in (None, hidden):
        config.fail("word_embed_proj_dim", f"hidden_size = {hidden}, other projections are not supported")


def _qwen(config: Config, fields: dict[str, Any]) -> None:
    """The window of the last layers: the first `max_window_layers` see all."""
    full, layers = config.whole("max_window_layers", 28), fields["num_hidden_layers"]
    if not config.value("use_sliding_window", bool, False) or full >= layers:
        fields["sliding_window"] = None
    elif fields["sliding_window"] is not None:
        fields["full_attention_layers"] = tuple(range(full))


def _qwen3_moe(config: Config, fields: dict[str, Any]) -> None:
    if not config.value("use_sliding_window", bool, False):
        fields["sliding_window"] = None  # else of every layer
    step, layers = config.whole("decoder_sparse_step", 1, 1), range(fields["num_hidden_layers"])
    only = config.tree.get("mlp_only_layers") or []
    config.read.add("mlp_only_layers")
    if not isinstance(only, list) or not all(type(i) is int and i in layers for i in only):
        config.fail("mlp_only_layers", f"a list of layers from 0 to {len(layers) - 1}")
    fields["dense_layers"] = tuple(i for i in layers if i in only or (i + 1) % step)
    _dense_by_name(config, fields)


def _dense_by_name(config: Config, fields: dict[str, Any]) -> None:
    """Files of transformers 5 say of each layer whether it has experts."""
    kinds = config.tree.get("mlp_layer_types")
    config.read.add("mlp_layer_types")
    if kinds is None:
        return
    layers = fields["num_hidden_layers"]
    if not isinstance(kinds, list) or len(kinds) != layers or not {*map(str, kinds)} <= {"dense", "sparse"}:
        config.fail("mlp_layer_types", f"'dense' or 'sparse' for each of {layers} layers")
    fields["dense_layers"] = tuple(i for i, kind in enumerate(kinds) if kind == "dense")


def _mixtral(config: Config, fields: dict[str, Any]) -> None:
    """Two keys that no published file has: for models alike, but without gates or with experts in some layers only."""
    fields["gated_ffn"] = config.value("gated_ffn", bool, True)
    step, layers = config.whole("decoder_sparse_step", 1, 1), range(fields["num_hidden_layers"])
    fields["dense_layers"] = tuple(i for i in layers if (i + 1) % step)


def _every(config: Config, fields: dict[str, Any], default: int) -> None:
    """Every so many layers one sees all; newer files begin the key with an underscore."""
    older, newer = "sliding_window_pattern", "_sliding_window_pattern"
    config.read.update((older, newer))
    every = config.whole(newer if newer in config.tree and older not in config.tree else older, default, 1)
    if fields["sliding_window"] is not None:
        layers = range(fields["num_hidden_layers"])
        fields["full_attention_layers"] = tuple(i for i in layers if (i + 1) % every == 0)


def _softcaps(config: Config, fields: dict[str, Any], default: float | None) -> None:
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        value = config.tree.get(key, default)
        config.read.add(key)
        if value is not None and (type(value) not in (int, float) or value <= 0):
            config.fail(key, "a number above 0 or null")
        fields[key] = value is not None


def _gemma2(config: Config, fields: dict[str, Any]) -> None:
    _every(config, fields, 2)
    _softcaps(config, fields, 50.0)


def _gemma3(config: Config, fields: dict[str, Any]) -> None:
    _every(config, fields, 6)
    _softcaps(config, fields, None)


def _gpt_oss(config: Config, fields: dict[str, Any]) -> None:
    if fields["sliding_window"] is not None:
        fields["full_attention_layers"] = tuple(range(1, fields["num_hidden_layers"], 2))


def _falcon(config: Config, fields: dict[str, Any]) -> None:
    """One head of keys for all in the first models; in later ones groups of them, and a norm of the FFN's own."""
    newer = config.value("new_decoder_architecture", bool, False)
    one = config.value("multi_query", bool, True)
    groups = config.value(config.key("num_key_value_heads"), int, None, nullable=True)
    config.read.update(config.keys("num_key_value_heads"))
    wide = config.value("ff_factor", int, None, nullable=True)
    fields["intermediate_size"] = fields["intermediate_size"] or wide and wide * fields["hidden_size"]
    norms = config.value("num_ln_in_parallel_attn", int, None, nullable=True) or (2 if newer else 1)
    fields["num_key_value_heads"] = groups if newer else 1 if one else None
    fields["parallel_attention"] = newer or fields["parallel_attention"]
    fields["shared_norm"] = fields["parallel_attention"] and norms == 1


def _deepseek(config: Config, fields: dict[str, Any]) -> None:
    """A query's head is a plain part and a rotated one; the first layers are dense."""
    plain, turned = (config.value(f"qk_{part}_head_dim", int, n) for part, n in (("nope", 128), ("rope", 64)))
    fields["head_dim"], fields["rotary_dim"] = plain + turned, turned
    first = config.whole("first_k_dense_replace", 3 if config.model_type == "deepseek_v3" else 0)
    fields["dense_layers"] = tuple(range(min(first, fields["num_hidden_layers"])))
    _dense_by_name(config, fields)


def _stablelm(config: Config, fields: dict[str, Any]) -> None:
    fields["qk_norm"] = "heads" if config.value("qk_layernorm", bool, False) else "none"
    fields["shared_norm"] = fields["parallel_attention"]


SPECIAL: dict[str, Callable[[Config, dict[str, Any]], None]] = {
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "falcon": _falcon,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
    "mixtral": _mixtral,
    "opt": _opt,
    "qwen2": _qwen,
    "qwen3": _qwen,
    "qwen3_moe": _qwen3_moe,
    "stablelm": _stablelm,
}
