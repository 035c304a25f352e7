"""What to say of a `model_type` that is not modelled: the nearest one that is, and what its file would need."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from pimloom.arch.llm_types import COMMON_KEYS, DEFAULTS, FIXED, KEYS

# Well-known types: the nearest of ours, and what that one lacks or does otherwise [recalled: transformers' classes].
RELATIVES = {
    "bloom": ("falcon", "has no norm behind the embedding and no ALiBi"),
    "codegen": ("gpt_neox", "has a norm more in each layer"),
    "cohere": ("stablelm", "scales no logits"),
    "gpt_bigcode": ("gpt2", "has no shared keys and values"),
    "gptj": ("gpt_neox", "has a norm more in each layer"),
    "granite": ("llama", "scales neither sums nor logits"),
    "llama4": ("mixtral", "has no shared expert and no chunked attention"),
    "llama4_text": ("mixtral", "has no shared expert and no chunked attention"),
    "mpt": ("falcon", "has no ALiBi"),
    "phi": ("gpt_neox", "has a norm more in each layer"),
    "qwen2_moe": ("qwen3_moe", "has no shared expert and normalises Q and K"),
    "qwen3_next": ("qwen3_moe", "has attention in every layer"),
    "starcoder2": ("gpt_neox", "has no grouped keys and values"),
}
NO_DECODERS = {"albert", "bert", "deberta-v2", "distilbert", "electra", "mamba", "mamba2", "roberta", "rwkv", "xlnet"}
_NO_DECODER = "models are decoders with attention in every layer here"
ALIKE = 0.75  # of names that are spelled almost the same


def nearest_type(tree: dict[str, Any], fields: Iterable[str]) -> str:
    """A remedy for the file `tree` of an unknown type; fields: those of LlmSpec that a file may give.

    >>> nearest_type({"model_type": "mamba", "hidden_size": 768}, [])
    '; nearest: none: models are decoders with attention in every layer here'
    """
    name, inner = str(tree["model_type"]), tree.get("text_config")
    if isinstance(inner, dict) and inner.get("model_type") in list(KEYS):
        return f"; nearest: {inner['model_type']}, its text_config: write that into a file of its own"
    tree = {**inner, "model_type": name} if isinstance(inner, dict) else tree
    headless = len(tree) > 1 and not any("head" in key for key in tree)
    like = get_close_matches(name, KEYS, 1, ALIKE)
    if name in NO_DECODERS or tree.get("is_encoder_decoder") or (headless and not like and name not in RELATIVES):
        return f"; nearest: none: {_NO_DECODER}"
    if len(tree) == 1 and name not in RELATIVES:  # nothing is known but the name
        return f"; nearest: {like[0]}" if like else ""
    missing = {kind: _missing(tree, kind, fields) for kind in KEYS}
    kind, lacks = RELATIVES.get(name, ("", ""))
    kind = kind or _most_like(name, tree, missing)
    said = [f"which {lacks}"] if lacks else []
    said += [f"{'and ' if lacks else 'which '}would need {', '.join(missing[kind])} besides"] if missing[kind] else []
    return ", ".join([f"; nearest: {kind}", *said])


def _missing(tree: dict[str, Any], kind: str, fields: Iterable[str]) -> list[str]:
    """Keys that a file of this type would need besides."""
    needed = [f for f in fields if f not in FIXED[kind] and f not in DEFAULTS[kind]]
    spelled = [{**COMMON_KEYS, **KEYS[kind]}.get(f, (f,)) for f in needed]
    return [keys[0] for keys in spelled if not any(k in tree for k in keys)]


def _most_like(name: str, tree: dict[str, Any], missing: dict[str, list[str]]) -> str:
    """Of one family by its name, else of the structure that the keys tell: experts, RMS norms or layer norms."""
    stem = _stem(name)
    if family := [kind for kind in KEYS if _stem(kind) == stem]:
        return min(family, key=lambda kind: (len(missing[kind]), -SequenceMatcher(None, name, kind).ratio()))
    experts, rms = (any(part in key for key in tree) for part in ("expert", "rms"))
    alike = ("mixtral", "qwen3_moe") if experts else ("llama", "qwen2") if rms else ("gpt_neox", "gpt2", "falcon")
    return min(alike, key=lambda kind: len(missing[kind]))


def _stem(name: str) -> str:
    """
    >>> _stem("qwen2_moe"), _stem("gpt-2"), _stem("GPT_neox")
    ('qwen', 'gpt', 'gpt')
    """
    return (re.match(r"[a-z]*", name.lower()) or [""])[0]
