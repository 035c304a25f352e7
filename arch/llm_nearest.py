"""What to say of a `model_type` that is not modelled: the nearest one that is, and what its file would need."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from pimloom.arch.llm_types import ALSO_READ, COMMON_KEYS, DEFAULTS, FIXED, INNER, KEYS

# Well-known types: the nearest of ours, and what that one lacks or does otherwise [recalled: transformers' classes].
RELATIVES = {
    "bloom": ("falcon", "has no norm behind the embedding and no ALiBi"),
    "chatglm": ("qwen2", "rotates whole heads and has names of its own for its keys"),
    "codegen": ("gpt_neox", "has a norm more in each layer"),
    "cohere": ("stablelm", "scales no logits"),
    "deepseek_v32": ("deepseek_v3", "has no index that chooses tokens (DSA)"),
    "gemma4": ("gemma3_text", "has heads of one size and no experts"),
    "gemma4_text": ("gemma3_text", "has heads of one size and no experts"),
    "glm_moe_dsa": ("deepseek_v3", "has no index that chooses tokens (DSA)"),
    "gpt_bigcode": ("gpt2", "has no shared keys and values"),
    "gptj": ("gpt_neox", "has a norm more in each layer"),
    "granite": ("llama", "scales neither sums nor logits"),
    "llama4": ("mixtral", "has no shared expert and no chunked attention"),
    "llama4_text": ("mixtral", "has no shared expert and no chunked attention"),
    "mpt": ("falcon", "has no ALiBi"),
    "phi": ("gpt_neox", "has a norm more in each layer"),
    "qwen2_moe": ("qwen3_moe", "has no shared expert and normalises Q and K"),
    "qwen3_next": ("qwen3_moe", "has attention in every layer"),
    "qwen3_5": ("qwen3", "has attention in every layer"),
    "qwen3_5_text": ("qwen3", "has attention in every layer"),
    "qwen3_5_moe": ("qwen3_moe", "has attention in every layer and no shared expert"),
    "qwen3_5_moe_text": ("qwen3_moe", "has attention in every layer and no shared expert"),
    "starcoder2": ("gpt_neox", "has no grouped keys and values"),
}
NO_DECODERS = {"albert", "bert", "deberta-v2", "distilbert", "electra", "mamba", "mamba2", "roberta", "rwkv", "xlnet"}
_NO_DECODER = "models are decoders with attention in every layer here"
PLAIN = ("llama", "gpt_neox", "mixtral")  # types with the fewest parts of their own
RECURRENT = ("mamba", "ssm_", "rwkv")  # parts of keys of layers without attention
ALIKE = 0.75  # of names that are spelled almost the same


def nearest_type(tree: dict[str, Any], fields: Iterable[str]) -> str:
    """A remedy for the file `tree` of an unknown type; fields: those of LlmSpec that a file may give.

    >>> nearest_type({"model_type": "mamba", "hidden_size": 768}, [])
    '; nearest: none: models are decoders with attention in every layer here'
    """
    name, inner = str(tree["model_type"]), [tree[key] for key in INNER if isinstance(tree.get(key), dict)]
    tree = {**inner[0], "model_type": name} if inner else tree
    recurrent = any(part in key for key in tree for part in RECURRENT)
    headless = recurrent or len(tree) > 1 and not any("head" in key for key in tree)
    like = get_close_matches(name, KEYS, 1, ALIKE)
    if name in NO_DECODERS or tree.get("is_encoder_decoder") or (headless and not like and name not in RELATIVES):
        return f"; nearest: none: {_NO_DECODER}"
    kind, lacks = RELATIVES.get(name, ("", ""))
    kind = kind or _fitting(name, tree, list(fields))
    if not kind:
        return f"; nearest: {like[0]}" if like else ""
    missing = _missing(tree, kind, fields) if len(tree) > 1 or lacks else []
    said = [f"which {lacks}"] if lacks else []
    said += [f"{'and ' if lacks else 'which '}would also need {', '.join(missing)}"] if missing else []
    return ", ".join([f"; nearest: {kind}", *said])


def _missing(tree: dict[str, Any], kind: str, fields: Iterable[str]) -> list[str]:
    """Keys that a file of this type would also need."""
    needed = [f for f in fields if f not in FIXED[kind] and f not in DEFAULTS[kind]]
    spelled = [{**COMMON_KEYS, **KEYS[kind]}.get(f, (f,)) for f in needed]
    return [keys[0] for keys in spelled if not any(k in tree for k in keys)]


def _fitting(name: str, tree: dict[str, Any], fields: list[str]) -> str:
    """The type whose keys fit best, '' if none does.

    A key of the file that a type reads counts for it. A key that only other types read counts against it, and so do
    missing keys and another kind of norm. Between equal types a plain one wins, then the one with the nearest name.
    """
    reads = {kind: _reads(kind, fields) for kind in KEYS}
    there = {key for key in tree if tree[key] is not None}
    known = there & set().union(*reads.values())

    norm = "rmsnorm" if any("rms" in key for key in there) else "layernorm"

    def fit(kind: str) -> tuple[int, bool, float]:
        score = 2 * len(known & reads[kind]) - len(known) - len(_missing(tree, kind, fields))
        return score + (FIXED[kind]["norm"] == norm), kind in PLAIN, SequenceMatcher(None, name, kind).ratio()

    return max(KEYS, key=fit) if known else ""


def _reads(kind: str, fields: list[str]) -> set[str]:
    """The keys that describe the shape in files of this type."""
    spelled = {**COMMON_KEYS, **KEYS[kind]}
    known = {f for f in (*fields, *DEFAULTS[kind], *KEYS[kind]) if f not in FIXED[kind]}
    return {key for f in known for key in spelled.get(f, (f,))} | set(ALSO_READ.get(kind, ()))
