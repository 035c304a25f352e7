"""One `config.json`, read key by key: checked values, and which keys were read."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from pimloom.arch.document import nearest, short
from pimloom.arch.error import UserError
from pimloom.arch.llm_nearest import nearest_type
from pimloom.arch.llm_types import ALIASES, COMMON_KEYS, DEFAULTS, FIXED, INNER, KEYS
from pimloom.arch.load import load_json

SIZES = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "vocab_size", "max_position_embeddings", "activation", "gated_ffn", "norm", "attention_bias", "ffn_bias",
    "num_experts", "num_experts_per_tok", "sliding_window", "tie_word_embeddings", "parallel_attention",
)  # fmt: skip
NEWER = (
    "norm_placement", "qk_norm", "scaled_embedding", "attention_sinks", "moe_intermediate_size", "num_shared_experts",
    "router_bias", "q_lora_rank", "kv_lora_rank", "v_head_dim",
)  # fmt: skip
FLAGS = ("gated_ffn", "attention_bias", "ffn_bias", "tie_word_embeddings", "parallel_attention")
TEXTS = ("activation", "norm")
# A file of text and images has them above both.
OF_BOTH = ("dtype", "torch_dtype", "quantization_config", "compression_config", "quantization", "tie_word_embeddings")
_NULLABLE = {"num_key_value_heads", "head_dim", "sliding_window", "q_lora_rank", "num_shared_experts"}
_LARGEST = 2**31 - 1
_EXPECTED = {int: f"int from 1 to {_LARGEST}", bool: "true or false", str: "text", float: "a number above 0, at most 1"}


def _is_quantisation(tree: dict[str, Any]) -> bool:
    """Whether a file is ModelOpt's hf_quant_config.json."""
    inner = tree.get("quantization")
    return isinstance(inner, dict) and not inner.keys().isdisjoint(("quant_algo", "kv_cache_quant_algo"))


class Config:
    """One config.json: reads checked values by key or by field of LlmSpec. read: keys that were read; wrong: refusals;
    notes: sentences for the user."""

    def __init__(self, path: Path) -> None:
        self.path, self.prefix, self.outside = path, "", set[str]()  # outside: keys above those of the prefix
        self.wrong, self.notes = list[str](), list[str]()
        self.tree = load_json(path, finite=False)
        if not isinstance(self.tree, dict):
            raise UserError(f"{path}: at $: expected an object, got {_shown(self.tree)}")
        self.read = {"model_type"}
        supported = ", ".join(KEYS)
        if "model_type" not in self.tree:
            if _is_quantisation(self.tree):
                raise UserError(
                    f"{path}: is a hf_quant_config.json of ModelOpt, which says how weights are quantised and has no "
                    "shapes of a model; name the config.json of its folder"
                )
            raise UserError(f"{path}: at $: missing key 'model_type', expected one of {supported}")
        whole, self.whole_type = self.tree, str(self.tree["model_type"])
        if place := text_model(whole):
            inner, self.prefix = whole[place], f"{place}."
            outside = {key: whole[key] for key in OF_BOTH if key in whole}
            self.tree = {"model_type": "gemma3_text", **outside, **inner}
            self.outside = outside.keys() - inner.keys()
            self.notes.append(
                f"{self.whole_type} is modelled by its text model ({place}); parts for images and sound are left out"
            )
        given = self.tree["model_type"]
        self.model_type = ALIASES.get(given, given) if isinstance(given, str) else given
        if self.model_type not in list(KEYS):
            self.fail("model_type", f"one of {supported}", nearest_type(self.tree, SIZES))

    def refuse(self, key: str, expected: str, remedy: str = "") -> None:
        """Add the refusal of a value; `check` raises all of them in one error."""
        value: Any = self.tree
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        prefix = self.prefix if key.partition(".")[0] not in self.outside else ""
        self.wrong.append(f"at $.{prefix}{key}: expected {expected}, got {_shown(value)}{remedy}")

    def fail(self, key: str, expected: str, remedy: str = "") -> NoReturn:
        """Refuse a value and raise UserError at once, with all earlier refusals."""
        self.refuse(key, expected, remedy)
        self.check()
        raise AssertionError

    def check(self) -> None:
        """Raise UserError if anything was refused."""
        if self.wrong:
            raise UserError(f"{self.path}: {'; '.join(self.wrong)}")

    def keys(self, field: str) -> tuple[str, ...]:
        """The keys that may give a field."""
        return {**COMMON_KEYS, **KEYS[self.model_type]}.get(field, (field,))

    def key(self, field: str) -> str:
        """The key that gives a field: the first one present, or the usual one if none is."""
        keys = self.keys(field)
        return next((k for k in keys if k in self.tree), keys[0])

    def field(self, field: str) -> Any:
        """A field of LlmSpec: fixed by the architecture, or from the file, or the default."""
        fixed, defaults = FIXED[self.model_type], DEFAULTS[self.model_type]
        if field in fixed:
            return fixed[field]
        self.read.update(self.keys(field))
        key = self.key(field)
        kind: type = bool if field in FLAGS else str if field in TEXTS else int
        if key not in self.tree and field not in defaults:
            remedy = f"({_EXPECTED[kind]}), which every {self.model_type} config has"
            place = f"$.{self.prefix}".removesuffix(".")
            raise UserError(f"{self.path}: at {place}: missing key {key!r} {remedy}{nearest(key, self.tree)}")
        if key == "hidden_activation" and self.tree.get(key) is None:
            return defaults[field]
        nullable = field in _NULLABLE or defaults.get(field, 0) is None
        return self.value(key, kind, defaults.get(field), nullable)

    def value(self, key: str, kind: type, default: Any, nullable: bool = False) -> Any:
        """The value of a key, of just that type; an int is at least 1."""
        self.read.add(key)
        if key not in self.tree:
            return default
        value: Any = self.tree[key]
        if nullable and value is None:
            return None
        if type(value) is not kind or (type(value) is int and not 1 <= value <= _LARGEST):
            self.fail(key, _EXPECTED[kind] + " or null" * nullable)
        return value

    def whole(self, key: str, default: int, least: int = 0) -> int:
        """An int from `least`."""
        value = self.tree.get(key, default)
        self.read.add(key)
        if type(value) is not int or not least <= value <= _LARGEST:
            self.fail(key, f"int from {least} to {_LARGEST}")
        return value

    def share(self, keys: Iterable[str], default: float) -> float:
        """A number above 0 and at most 1 under the first of these keys that is there."""
        self.read.update(keys)
        key = next((k for k in keys if k in self.tree), "")
        value = self.tree.get(key, default)
        if type(value) not in (int, float) or not 0 < value <= 1:
            self.fail(key, _EXPECTED[float])
        return float(value)


def text_model(tree: dict[str, Any]) -> str | None:
    """The key of a supported text model in the file of a model of text and images; None if there is none."""
    for place in INNER:
        inner = tree.get(place)
        if isinstance(inner, dict):
            kind = inner.get("model_type", "gemma3_text" if tree["model_type"] == "gemma3" else None)
            if isinstance(kind, str) and (kind in KEYS or kind in ALIASES):
                return place
    return None


def _shown(value: Any) -> str:
    return short(json.dumps(value)) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
