"""Fields of `LlmSpec` from a `config.json`: each key is used, noted as one without effect, or refused."""

import json
from difflib import SequenceMatcher
from math import isqrt
from pathlib import Path
from typing import Any

from pimloom.arch.document import NEAREST, nearest
from pimloom.arch.error import UserError
from pimloom.arch.llm_config import NEWER, SIZES, Config
from pimloom.arch.llm_keys import ONLY, ONLY_OF, QUANTISED, SAME, UNREAD, WITHOUT_EFFECT, WITHOUT_EFFECT_OF, Only
from pimloom.arch.llm_quant_file import quantization_of
from pimloom.arch.llm_rope import scale_positions
from pimloom.arch.llm_special import SPECIAL
from pimloom.arch.llm_types import DEFAULTS, FIXED, KEYS

MOST_LAYERS = 10_000  # [assumed] ten times the deepest decoder that was published; more would be simulated for hours
ACTIVATIONS = (  # of transformers' ACT2FN [recalled]; on NPUs and rooflines each costs a pass
    "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh",
    "gelu_python_tanh", "laplace", "leaky_relu", "linear", "mish", "prelu", "quick_gelu", "relu", "relu2", "relu6",
    "sigmoid", "silu", "swish", "tanh", "xielu",
)  # fmt: skip

DTYPES = ("float16", "bfloat16", "float32", "float64", "auto")  # of PyTorch; the system says how wide elements are
ALIKE, SLIP = 0.85, 0.95  # of names that are almost the same: where the known one is missing, and where it is there
ALIASES = ("half", "float", "double")  # PyTorch's other names of them


def fields_of(path: Path) -> dict[str, Any]:
    """All fields of LlmSpec except its name. Raises UserError for a bad file, an impossible shape, or keys that would
    make it another model, all in one error."""
    config = Config(path)
    kind = config.model_type
    _check_only(config, ONLY | ONLY_OF.get(kind, {}))
    _check_dtype(config)
    known = {*FIXED[kind], *DEFAULTS[kind], *KEYS[kind]}
    fields = {f: config.field(f) for f in (*SIZES, *(f for f in NEWER if f in known))}
    if fields["num_hidden_layers"] > MOST_LAYERS:
        config.fail(config.key("num_hidden_layers"), f"at most {MOST_LAYERS}")
    if (does := fields["activation"]) not in ACTIVATIONS:
        config.refuse(config.key("activation"), "a function that transformers names", nearest(does, ACTIVATIONS))
    if kind in SPECIAL:
        SPECIAL[kind](config, fields)
    _heads(config, fields)
    if fields["intermediate_size"] is None:
        fields["intermediate_size"] = 4 * fields["hidden_size"]
    if fields["num_experts_per_tok"] > fields["num_experts"]:
        config.refuse("num_experts_per_tok", f"at most {config.key('num_experts')} = {fields['num_experts']}")
    _rotary(config, fields)
    _layer_types(config, fields)
    scale_positions(config, fields)
    if fields.get("num_shared_experts", 0) is None:
        fields["num_shared_experts"] = 0
    fields["quantization"] = quantization_of(config, path, fields)
    _unread(config, fields)
    config.check()
    return fields | {"model_type": kind, "notes": tuple(config.notes)}


def _heads(config: Config, fields: dict[str, Any]) -> None:
    """Heads, where the file leaves their sizes to others."""
    hidden, heads = fields["hidden_size"], fields["num_attention_heads"]
    if fields["head_dim"] is None:
        _check_divides(config, "num_attention_heads", heads, config.key("hidden_size"), hidden)
        fields["head_dim"] = hidden // heads
    if fields["num_key_value_heads"] is None:
        fields["num_key_value_heads"] = heads
    kv_heads = fields["num_key_value_heads"]
    _check_divides(config, "num_key_value_heads", kv_heads, config.key("num_attention_heads"), heads)


def _check_only(config: Config, only: Only) -> None:
    config.read.update(only)
    for key, (allowed, why) in only.items():
        if config.tree.get(key) not in allowed:
            config.refuse(key, f"{' or '.join(json.dumps(value) for value in allowed)} ({why})")


def _check_dtype(config: Config) -> None:
    """Weights are as wide as the system's elements, unless the file says how they are quantised."""
    for key in ("dtype", "torch_dtype"):
        if (value := config.tree.get(key)) is not None and str(value).removeprefix("torch.") not in (*DTYPES, *ALIASES):
            config.refuse(key, f"{', '.join(DTYPES[:-1])} or {DTYPES[-1]} ({QUANTISED})")


def _unread(config: Config, fields: dict[str, Any]) -> None:
    """Check keys that are not read: those that would change the model are refused, the others noted."""
    kind = config.model_type
    fixed = {key: field for field in FIXED[kind] for key in config.keys(field)}
    inert, unknown = list[str](), list[str]()
    for key, value in config.tree.items():
        if key in config.read:
            continue
        same = SAME.get(key) or fixed.get(key)
        if (
            key in WITHOUT_EFFECT
            or key in WITHOUT_EFFECT_OF.get(kind, ())
            or key.startswith("_")
            or same
            and (value is None or value == fields[same])
        ):
            inert.append(key)
        elif key in UNREAD and (value in UNREAD[key][0] or key not in fixed):
            _check_only(config, {key: UNREAD[key]})
        elif key in fixed:
            config.refuse(key, f"{json.dumps(fields[fixed[key]])}, as every {kind} model has it")
        elif same:
            config.refuse(key, f"{json.dumps(fields[same])}, the value of {config.key(same)}")
        elif value is not None and (meant := _meant(key, config)):
            config.refuse(key, "a known key", f"{NEAREST}{meant}")
        else:
            unknown.append(key)
    if inert or unknown:
        parts = [f"keys without effect on what is modelled: {', '.join(inert)}"] if inert else []
        parts += [f"unknown keys, which are not used: {', '.join(unknown)}"] if unknown else []
        config.notes.append("; ".join(parts))


def _meant(key: str, config: Config) -> str | None:
    """The known key that `key` may be a misspelling of, or None: the known key is missing from the file, or its name
    differs in about one letter and its value differs, too.
    """
    for known in sorted(config.read):
        if known in config.tree and config.tree[known] == config.tree[key]:
            continue
        alike = SequenceMatcher(None, key, known).ratio()
        if alike >= (SLIP if known in config.tree else ALIKE):
            return known
    return None


PARTLY = "partial_rotary_factor"  # transformers 5 has it below rope_parameters


def _rotary(config: Config, fields: dict[str, Any]) -> None:
    """Types in which only a part of a head is rotated, or can be."""
    part = {"gpt_neox": 0.25, "phi3": 1.0, "stablelm": 0.25}.get(config.model_type)  # of transformers [recalled]
    newer = config.tree.get("rope_parameters")
    inside = newer.get(PARTLY) if isinstance(newer, dict) else None
    if part is None:
        if inside not in (None, 1):
            config.refuse(f"rope_parameters.{PARTLY}", f"1, as {config.model_type} rotates whole heads here")
        return
    if inside is not None:
        if type(inside) not in (int, float) or not 0 < inside <= 1:
            config.refuse(f"rope_parameters.{PARTLY}", "a number above 0 and at most 1")
            return
        for key in (PARTLY, "rotary_pct"):
            if config.tree.get(key, inside) != inside:
                config.refuse(key, f"{inside}, as rope_parameters says")
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
            config.refuse("layer_types", f"{full!r} in all {layers} layers, as the other keys say")
        return
    if (
        not isinstance(kinds, list) or len(kinds) != layers or not {*map(str, kinds)} <= {full, "sliding_attention"}
        or "sliding_attention" not in kinds
    ):  # fmt: skip
        config.refuse(
            "layer_types", f"{full!r} or 'sliding_attention' for each of {layers} layers, one with the window"
        )
        return
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
