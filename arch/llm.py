"""The shape of a language model, read from the `config.json` that Hugging Face publishes with it."""

import json
from math import isqrt
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from pimloom.arch.document import check_path, nearest, short
from pimloom.arch.error import UserError
from pimloom.arch.llm_types import COMMON_KEYS, DEFAULTS, FIXED, KEYS, ONLY
from pimloom.arch.load import load_json

MODELS = Path(__file__).parent / "models"


class LlmSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Shape of a decoder-only model: names as Hugging Face spells them for llama, sizes in elements.

    A dense model has 1 expert and uses 1 per token. `sliding_window` is in tokens, None if attention sees
    all. `attention_bias` is a bias on Q, K and V (see `projection_bias`). `norm` is 'layernorm' or 'rmsnorm'.
    `parallel_attention`: attention and FFN of a block read the same input, each through a norm of its own.
    `gated_ffn`: three FFN matrices, not two.
    """

    name: str
    model_type: str
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    activation: str
    gated_ffn: bool
    norm: str
    attention_bias: bool
    ffn_bias: bool
    num_experts: int
    num_experts_per_tok: int
    sliding_window: int | None
    tie_word_embeddings: bool
    parallel_attention: bool

    @property
    def projection_bias(self) -> bool:
        """A bias on the projection behind attention: Qwen2 has none there, all others as on Q, K and V."""
        return self.attention_bias and self.model_type != "qwen2"

    @property
    def params_matmul(self) -> int:
        """Weights in the matrices of all decoder blocks: no embeddings, LM head, biases or norms.

        All experts count, and their router where there is more than one.
        """
        heads = 2 * self.num_attention_heads + 2 * self.num_key_value_heads  # Q and output, K and V
        attention = self.hidden_size * heads * self.head_dim
        ffn = (3 if self.gated_ffn else 2) * self.hidden_size * self.intermediate_size
        router = self.hidden_size * self.num_experts if self.num_experts > 1 else 0
        return self.num_hidden_layers * (attention + self.num_experts * ffn + router)


def list_presets() -> list[str]:
    """Names of the models in `arch/models`."""
    return sorted(p.stem for p in MODELS.glob("*.json"))


def load_llm(path_or_preset: str | Path) -> LlmSpec:
    """Read a preset by name, a config.json, or the folder that holds one; a preset's name beats a path.

    Raises UserError: unknown name, bad file, unsupported model_type, a shape that is impossible.
    """
    text, presets = str(path_or_preset), list_presets()
    if text in presets:
        return _spec(text, MODELS / f"{text}.json")
    path = Path(text)
    if text and path.is_dir():
        path /= "config.json"
    elif not text or "/" not in text and path.suffix != ".json" and not path.exists():
        known = f"{nearest(text, presets)}; presets: {', '.join(presets)}"
        raise UserError(f"model {short(text)!r}: no such preset or file{known}")
    named_by_folder = path.stem == "config" and path.resolve().parent.name
    check_path(named_by_folder or path)
    return _spec(named_by_folder or path.stem, path)


_KIND = {f: kind for f, kind in LlmSpec.__annotations__.items() if kind in (bool, str)}
_NULLABLE = {"num_key_value_heads", "head_dim", "sliding_window"}
_LARGEST = 2**31 - 1


class _Config:
    """One config.json: reads checked values by key or by field of LlmSpec."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = load_json(path)
        if not isinstance(self.tree, dict):
            raise UserError(f"{path}: at $: expected an object, got {_shown(self.tree)}")
        supported = ", ".join(KEYS)
        if "model_type" not in self.tree:
            raise UserError(f"{path}: at $: missing key 'model_type', expected one of {supported}")
        self.model_type = self.tree["model_type"]
        if self.model_type not in list(KEYS):
            self.fail("model_type", f"one of {supported}")

    def fail(self, key: str, expected: str) -> NoReturn:
        raise UserError(f"{self.path}: at $.{key}: expected {expected}, got {_shown(self.tree.get(key))}")

    def key(self, field: str) -> str:
        """The key that gives a field: the first one present, or the usual one if none is."""
        keys = {**COMMON_KEYS, **KEYS[self.model_type]}.get(field, (field,))
        return next((k for k in keys if k in self.tree), keys[0])

    def field(self, field: str) -> Any:
        """A field of LlmSpec: fixed by the architecture, or from the file, or the default."""
        fixed, defaults = FIXED[self.model_type], DEFAULTS[self.model_type]
        if field in fixed:
            return fixed[field]
        key = self.key(field)
        kind = _KIND.get(field, int)
        if key not in self.tree and field not in defaults:
            remedy = f"({_EXPECTED[kind]}), which every {self.model_type} config has"
            raise UserError(f"{self.path}: at $: missing key {key!r} {remedy}{nearest(key, self.tree)}")
        nullable = field in _NULLABLE or defaults.get(field, 0) is None
        return self.value(key, kind, defaults.get(field), nullable)

    def value(self, key: str, kind: type, default: Any, nullable: bool = False) -> Any:
        """The value of a key, of just that type; an int is at least 1."""
        value: Any = self.tree.get(key, default)
        if nullable and value is None:
            return None
        if type(value) is not kind or (type(value) is int and not 1 <= value <= _LARGEST):
            self.fail(key, _EXPECTED[kind] + " or null" * nullable)
        return value


_EXPECTED = {int: f"int from 1 to {_LARGEST}", bool: "true or false", str: "text"}


def _check_nothing_else(config: _Config) -> None:
    for key, (allowed, why) in ONLY.items():
        if config.tree.get(key) not in allowed:
            config.fail(key, f"{' or '.join(json.dumps(value) for value in allowed)} ({why})")


def _check_layer_types(config: _Config, window: int | None) -> None:
    """Newer files say of each layer whether its attention has a window; all must, or none."""
    wanted = "full_attention" if window is None else "sliding_attention"
    kinds = config.tree.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != wanted for kind in kinds)):
        config.fail("layer_types", f"{wanted!r} in all layers, as the other keys say; a mix is not supported")


def _spec(name: str, path: Path) -> LlmSpec:
    config = _Config(path)
    _check_nothing_else(config)
    fields = {f: config.field(f) for f in LlmSpec.__struct_fields__ if f not in ("name", "model_type")}
    hidden, heads = fields["hidden_size"], fields["num_attention_heads"]
    if fields["head_dim"] is None:
        _check_divides(config, "num_attention_heads", heads, config.key("hidden_size"), hidden)
        fields["head_dim"] = hidden // heads
    if fields["num_key_value_heads"] is None:
        fields["num_key_value_heads"] = heads
    kv_heads = fields["num_key_value_heads"]
    _check_divides(config, "num_key_value_heads", kv_heads, config.key("num_attention_heads"), heads)
    if fields["intermediate_size"] is None:
        fields["intermediate_size"] = 4 * hidden
    if fields["num_experts_per_tok"] > fields["num_experts"]:
        config.fail("num_experts_per_tok", f"at most {config.key('num_experts')} = {fields['num_experts']}")
    if config.model_type == "opt":
        _check_projection(config, hidden)
    if config.model_type == "qwen2":
        fields["sliding_window"] = _qwen2_window(config, fields)
    _check_layer_types(config, fields["sliding_window"])
    return LlmSpec(name=name, model_type=config.model_type, **fields)


def _check_divides(config: _Config, field: str, part: int, whole_key: str, whole: int) -> None:
    if whole % part == 0:
        return
    small = [d for d in range(1, isqrt(whole) + 1) if whole % d == 0]
    divisors = small + [whole // d for d in reversed(small)]
    below, above = max(d for d in divisors if d < part), [d for d in divisors if d > part][:1]
    remedy = " or ".join(map(str, [below, *above]))
    key = config.key(field)
    said = f"a divisor of {whole_key} = {whole}, such as {remedy}"
    if key in config.tree:
        config.fail(key, said)
    raise UserError(f"{config.path}: at $: missing key {key!r} (default {part}), expected {said}")


def _check_projection(config: _Config, hidden: int) -> None:
    if config.value("word_embed_proj_dim", int, hidden, nullable=True) not in (None, hidden):
        config.fail("word_embed_proj_dim", f"hidden_size = {hidden}, other projections are not supported")


def _qwen2_window(config: _Config, fields: dict[str, Any]) -> int | None:
    """The window of all layers; qwen2 uses full attention in its first `max_window_layers` layers."""
    if not config.value("use_sliding_window", bool, False):
        return None
    full, layers = config.tree.get("max_window_layers", 28), fields["num_hidden_layers"]
    if type(full) is not int or 0 < full < layers:
        config.fail("max_window_layers", f"0 or >= num_hidden_layers = {layers}, a mix is not supported")
    return fields["sliding_window"] if full <= 0 else None


def _shown(value: Any) -> str:
    return short(json.dumps(value)) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
