"""Fields of `LlmSpec` from a `config.json`: each key is used, known to be without effect on hardware, or refused."""

import json
from collections.abc import Iterable
from math import isqrt
from pathlib import Path
from typing import Any

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.arch.llm_config import NEWER, SIZES, Config
from pimloom.arch.llm_keys import ONLY, ONLY_OF, QUANTISED, WITHOUT_EFFECT, WITHOUT_EFFECT_OF
from pimloom.arch.llm_special import SPECIAL
from pimloom.arch.llm_types import DEFAULTS, FIXED, KEYS

MOST_LAYERS = 10_000  # [assumed] ten times the deepest decoder that was published; more would be simulated for hours
ACTIVATIONS = (  # of transformers' ACT2FN [recalled]; on NPUs and rooflines each costs a pass
    "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh",
    "gelu_python_tanh", "laplace", "leaky_relu", "linear", "mish", "prelu", "quick_gelu", "relu", "relu2", "relu6",
    "sigmoid", "silu", "swish", "tanh", "xielu",
)  # fmt: skip

DTYPES = ("float16", "bfloat16", "float32", "float64", "auto")  # of PyTorch; the system says how wide elements are
ALIASES = ("half", "float", "double")  # PyTorch's other names of them


def fields_of(path: Path) -> dict[str, Any]:
    """All fields of LlmSpec but its name. Raises UserError: a bad file, an impossible shape, a key of no use."""
    config = Config(path)
    _check_only(config, ONLY)
    _check_dtype(config)
    kind = config.model_type
    known = {*FIXED[kind], *DEFAULTS[kind], *KEYS[kind]}
    fields = {f: config.field(f) for f in (*SIZES, *(f for f in NEWER if f in known))}
    if fields["num_hidden_layers"] > MOST_LAYERS:
        config.fail(config.key("num_hidden_layers"), f"at most {MOST_LAYERS}")
    if (does := fields["activation"]) not in ACTIVATIONS:
        config.fail(config.key("activation"), "a function that transformers names", nearest(does, ACTIVATIONS))
    if kind in SPECIAL:
        SPECIAL[kind](config, fields)
    _check_only(config, only := ONLY_OF.get(kind, {}))
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
    _rotary(config, fields)
    _layer_types(config, fields)
    _check_all_read(config, fields, {*ONLY, *only})
    if fields.get("num_shared_experts", 0) is None:
        fields["num_shared_experts"] = 0
    return fields | {"model_type": kind}


def _check_only(config: Config, only: dict[str, tuple[tuple[Any, ...], str]]) -> None:
    for key, (allowed, why) in only.items():
        if config.tree.get(key) not in allowed:
            config.fail(key, f"{' or '.join(json.dumps(value) for value in allowed)} ({why})")


def _check_dtype(config: Config) -> None:
    """Weights are as wide as the system's elements; a type that is none of floating point means quantised ones."""
    for key in ("dtype", "torch_dtype"):
        if (value := config.tree.get(key)) is not None and str(value).removeprefix("torch.") not in (*DTYPES, *ALIASES):
            config.fail(key, f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]} ({QUANTISED})")


def _check_all_read(config: Config, fields: dict[str, Any], only: Iterable[str]) -> None:
    """No key is left over: what the architecture fixes is said as it is, the rest has no effect on hardware."""
    kind = config.model_type
    fixed = {key: field for field in FIXED[kind] for key in config.keys(field)}
    for key, value in config.tree.items():
        if key in config.read or key in only or key in WITHOUT_EFFECT or key.startswith("_"):
            continue
        if key in WITHOUT_EFFECT_OF.get(kind, ()) or value is None:
            continue
        if key in fixed:
            if value != (is_ := fields[fixed[key]]):
                config.fail(key, f"{json.dumps(is_)}, as every {kind} model has it")
            continue
        known = sorted(config.read)
        remedy = f"{nearest(key, known)}; take it out if it says nothing about the shape"
        raise UserError(f"{config.path}: at $.{config.prefix}{key}: nothing here would use this key{remedy}")


PARTLY = "partial_rotary_factor"  # transformers 5 has it below rope_parameters


def _rotary(config: Config, fields: dict[str, Any]) -> None:
    """Types in which only a part of a head is rotated, or can be."""
    part = {"gpt_neox": 0.25, "phi3": 1.0, "stablelm": 0.25}.get(config.model_type)  # of transformers [recalled]
    newer = config.tree.get("rope_parameters")
    inside = newer.get(PARTLY) if isinstance(newer, dict) else None
    if part is None:
        if inside not in (None, 1):
            config.fail(f"rope_parameters.{PARTLY}", f"1, as {config.model_type} rotates whole heads here")
        return
    if inside is not None:
        if type(inside) not in (int, float) or not 0 < inside <= 1:
            config.fail(f"rope_parameters.{PARTLY}", "a number above 0 and at most 1")
        for key in (PARTLY, "rotary_pct"):
            if config.tree.get(key, inside) != inside:
                config.fail(key, f"{inside}, as rope_parameters says")
        part = float(inside)
    share = config.share((PARTLY, "rotary_pct"), part)
    rotated = int(fields["head_dim"] * share)
    fields["rotary_dim"] = None if share == 1 else max(rotated, 1)


def _layer_types(config: Config, fields: dict[str, Any]) -> None:
    """Newer files say of each layer whether its attention has a window."""
    window, layers = fields["sliding_window"], fields["num_hidden_layers"]
    kinds = config.tree.get("layer_types")
    config.read.add("layer_types")
    if kinds is None:
        return
    full = "full_attention"
    if window is None:
        if kinds != [full] * layers:
            config.fail("layer_types", f"{full!r} in all {layers} layers, as the other keys say")
        return
    if (
        not isinstance(kinds, list) or len(kinds) != layers or not {*map(str, kinds)} <= {full, "sliding_attention"}
        or "sliding_attention" not in kinds
    ):  # fmt: skip
        config.fail("layer_types", f"{full!r} or 'sliding_attention' for each of {layers} layers, one with the window")
    fields["full_attention_layers"] = tuple(i for i, kind in enumerate(kinds) if kind == full)


def _check_divides(config: Config, field: str, part: int, whole_key: str, whole: int) -> None:
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
