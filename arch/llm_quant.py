"""Weights and caches of fewer bits, as a checkpoint has them: `quantization_config` in its `config.json`, or ModelOpt's
`hf_quant_config.json` beside it.

Biases, norms, embeddings and routers are as wide as the system's elements. Exceptions (`ignore`, `exclude_modules`,
`modules_to_not_convert`, …) are names of modules or of what holds them, with `*`, or expressions after `re:`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import translate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pimloom.arch.llm_config import Config
from pimloom.arch.load import load_json

WIDE = 16.0  # bits of a matrix that stays as it is, where it is fused with one that does not [design]
BESIDE = "hf_quant_config.json"
KEYS = ("quantization_config", "compression_config")
COLUMN = -1  # a group: all weights of a column share a scale


class Format(NamedTuple):
    """bits: of a weight; group: weights that share `scale_bits`, of a scale and of a zero point if there is one;
    COLUMN: those of a column; 0: so many that it does not count."""

    bits: int
    group: int = 0
    scale_bits: int = 16

    def mean(self, n_in: int) -> float:
        """Bits of a weight with its part of the scale, in a matrix of `n_in` rows.

        >>> Format(4, 16, 8).mean(4096), Format(8, COLUMN, 32).mean(4096)
        (4.5, 8.0078125)
        """
        group = n_in if self.group == COLUMN else self.group
        return self.bits + self.scale_bits / group if group else float(self.bits)


Row = tuple[tuple[str, float], ...]


class Quantization(msgspec.Struct, frozen=True):
    """Bits of a weight, scales included, of the matrices that are narrower than elements.

    rows: those of a layer, each by the name of its operator; layers: of each layer its row; lm_head, cache_bits: None:
    as wide as elements; cache_bits: of an element of keys and values.
    """

    method: str
    rows: tuple[Row, ...]
    layers: tuple[int, ...]
    lm_head: float | None = None
    cache_bits: float | None = None

    def bits_of(self, layer: int) -> dict[str, float]:
        """Operator -> bits of its weights in a layer."""
        return dict(self.rows[self.layers[layer]])


class Rules(NamedTuple):
    """Formats by patterns of modules, the first that fits holds; `kept`: modules that stay as they are; head: whether
    the LM head is a module like others; cache_bits: of keys and values."""

    formats: "list[tuple[Patterns, Format]]"
    kept: "Patterns"
    head: bool = False
    cache_bits: float | None = None


_PREFIX = re.compile(
    r"^(language_model\.model\.layers|model\.language_model\.layers|transformer\.h|model\.decoder\.layers|"
    r"gpt_neox\.layers|layers)\."
)


class Patterns:
    """Names of modules: as they are, with `*`, or expressions."""

    def __init__(self, written: Iterable[str]) -> None:
        self.plain, self.others = set[str](), list[re.Pattern[str]]()
        for text in written:
            if text.startswith("re:"):
                self.others.append(re.compile(text[3:]))
                continue
            name = _PREFIX.sub("model.layers.", text).removeprefix("language_model.")
            if "*" in name or "?" in name:
                self.others += [re.compile(translate(name)), re.compile(translate(f"{name}.*"))]
            else:
                self.plain.add(name)

    def __bool__(self) -> bool:
        return bool(self.plain or self.others)

    def fit(self, names: Iterable[str]) -> bool:
        """Whether one of the names, or a part of it between dots, is meant."""
        return any(any(part in self.plain for part in _parts(name)) or self._like(name) for name in names)

    def _like(self, name: str) -> bool:
        return any(pattern.match(name) for pattern in self.others)


LINEAR = Patterns(["Linear"])


def _parts(name: str) -> Iterator[str]:
    """
    >>> list(_parts("a.b"))
    ['a', 'a.b', 'b']
    """
    steps = name.split(".")
    yield from (".".join(steps[i:k]) for i in range(len(steps)) for k in range(i + 1, len(steps) + 1))


def quantization_of(config: Config, path: Path, fields: Mapping[str, Any]) -> Quantization | None:
    """What a checkpoint's files say of its weights; refused in `config`: what is not known. Raises UserError for a file
    that cannot be read."""
    config.read.update(KEYS)
    key = next((key for key in KEYS if config.tree.get(key) is not None), None)
    if key:
        rules, place, said = _rules_of(config, key, config.tree[key]), key, config.tree[key]
    elif path.name == "config.json" and (beside := path.parent / BESIDE).exists() and not config.tree.keys() & {*KEYS}:
        tree = load_json(beside)
        said = tree.get("quantization") if isinstance(tree, dict) else None
        rules, place = _modelopt(_Said(config, BESIDE, said if isinstance(said, dict) else {})), BESIDE
    else:
        return None
    if config.wrong or rules is None:
        return None
    method = str(said.get("quant_algo") or said.get("quant_method") or "ModelOpt") if isinstance(said, dict) else ""
    found = _resolved(rules, method, fields)
    config.notes.append(_told(found, rules, place))
    return found


class _Said(NamedTuple):
    """What a file says of its quantisation, and where; a refusal stands in the config's."""

    config: Config
    place: str
    tree: dict[str, Any]

    def refuse(self, key: str, expected: str, got: Any) -> None:
        self.config.wrong.append(f"at $.{self.place}.{key}: expected {expected}, got {str(got)[:60]}")

    def whole(self, keys: Iterable[str], default: int, least: int, most: int = 1 << 20) -> int:
        """The int under the first of these keys that is there."""
        key = next((key for key in keys if self.tree.get(key) is not None), None)
        value = default if key is None else self.tree[key]
        if type(value) is not int or not least <= value <= most:
            self.refuse(key or "", f"int from {least} to {most}", value)
            return default
        return value

    def names(self, *keys: str) -> Patterns:
        """Names of modules under any of these keys."""
        found = list[str]()
        for key in keys:
            some = self.tree.get(key) or []
            if not isinstance(some, list) or not all(isinstance(name, str) for name in some):
                self.refuse(key, "a list of names", some)
                continue
            found += some
        try:
            return Patterns(found)
        except re.error as error:
            self.refuse(keys[0], "expressions that can be read", error)
            return Patterns(())


def _rules_of(config: Config, key: str, tree: Any) -> Rules | None:
    if not isinstance(tree, dict):
        config.refuse(key, "an object or null")
        return None
    said = _Said(config, key, tree)
    method = tree.get("quant_method", "compressed-tensors" if "config_groups" in tree else None)
    algorithm = isinstance(tree.get("quant_algo"), str) and "config_groups" not in tree
    if algorithm or tree.get("quant_algo") == "MIXED_PRECISION":
        return _modelopt(said)
    if not isinstance(method, str) or method not in METHODS:
        said.refuse("quant_method", f"one of {', '.join(METHODS)}", method)
        return None
    return METHODS[method](said)


def _fp8(said: _Said) -> Rules:
    """FP8 in blocks with a scale each (DeepSeek-V3's `weight_scale_inv`, FP32 [secondary: its README_WEIGHTS]), or with
    one scale for a matrix."""
    block, scale = said.tree.get("weight_block_size"), 8 if said.tree.get("scale_fmt") == "ue8m0" else 32
    if block is None:
        group = 0
    elif isinstance(block, list) and len(block) == 2 and all(type(n) is int and n > 0 for n in block):
        group = block[0] * block[1]
    else:
        said.refuse("weight_block_size", "two sizes", block)
        group = 0
    return Rules([(LINEAR, Format(8, group, scale))], said.names("modules_to_not_convert", "ignored_layers"))


def _fbgemm(said: _Said) -> Rules:
    """FP8 with an FP32 scale for each column [recalled: FBGEMM's row-wise scales]."""
    return Rules([(LINEAR, Format(8, COLUMN, 32))], said.names("modules_to_not_convert"))


def _mxfp4(said: _Said) -> Rules:
    """OCP's MXFP4: 32 weights of 4 bits share a scale of 8 [secondary: OCP MX 1.0]."""
    return Rules([(LINEAR, Format(4, 32, 8))], said.names("modules_to_not_convert"))


def _gptq(said: _Said) -> Rules:
    """Groups with an FP16 scale and a zero point as wide as a weight [recalled: AutoGPTQ's qzeros, AWQ's too]."""
    bits = said.whole(("bits", "w_bit"), 4, 2, 8)
    group = said.whole(("group_size", "q_group_size"), 128, COLUMN)
    if said.tree.get("dynamic"):
        said.refuse("dynamic", "null or {}, as formats by module are not known", said.tree["dynamic"])
    kept = said.names("modules_to_not_convert")
    only = [name for some in said.tree.get("modules_in_block_to_quantize") or [] for name in _listed(some)]
    extra = said.tree.get("extra_config") or {}  # of auto-round: bits of single modules
    widths = {name: each["bits"] for name, each in extra.items() if isinstance(each, dict) and "bits" in each}
    if not all(type(width) is int and width >= 2 for width in widths.values()):
        said.refuse("extra_config", "bits of at least 2", widths)
        widths = {}
    kept.plain |= {name for name, width in widths.items() if width >= 16}
    formats = [(Patterns([name]), Format(n, group, 16 + n)) for name, n in widths.items() if n < 16]
    formats.append((Patterns(only) if only else LINEAR, Format(bits, group, 16 + bits)))
    return Rules(formats, kept, said.tree.get("lm_head") is True)


def _listed(some: Any) -> list[str]:
    return [str(name) for name in some] if isinstance(some, list) else [str(some)]


def _bitsandbytes(said: _Said) -> Rules:
    """NF4 or FP4 in groups of 64 with an FP32 scale, or an 8-bit one and 32 bits for 256 of them; LLM.int8 with a scale
    for each column [secondary: QLoRA, arXiv:2305.14314, 3; LLM.int8, arXiv:2208.07339]."""
    four = said.tree.get("load_in_4bit") or said.tree.get("_load_in_4bit")
    eight = said.tree.get("load_in_8bit") or said.tree.get("_load_in_8bit")
    if not four and not eight:
        said.refuse("load_in_4bit", "true here, or in load_in_8bit", four)
    double = said.tree.get("bnb_4bit_use_double_quant")
    four_bits = Format(4, 64 * 256, 256 * 8 + 32) if double else Format(4, 64, 32)
    format_ = four_bits if four else Format(8, COLUMN, 32)
    return Rules([(LINEAR, format_)], said.names("llm_int8_skip_modules", "modules_to_not_convert"))


def _int8(said: _Said) -> Rules:
    """INT8 with a scale for each column (EETQ; Quanto's int8 and float8)."""
    if (given := said.tree.get("weights", "int8")) not in ("int8", "float8"):
        said.refuse("weights", "int8 or float8", given)
    return Rules([(LINEAR, Format(8, COLUMN))], said.names("modules_to_not_convert"))


def _compressed(said: _Said) -> Rules:
    """Groups of modules with a format each."""
    formats = list[tuple[Patterns, Format]]()
    sparse = said.tree.get("sparsity_config") or {}
    if not isinstance(sparse, dict) or sparse.get("format", "dense") != "dense":
        said.refuse("sparsity_config", "a dense format", sparse)
    groups = said.tree.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        said.refuse("config_groups", "an object with groups", groups)
        groups = {}
    for name, group in groups.items():
        weights = group.get("weights") if isinstance(group, dict) else None
        if weights is None:
            continue  # activations alone
        inner = _Said(said.config, f"{said.place}.config_groups.{name}", group)
        formats.append((inner.names("targets"), _of_weights(inner, weights)))
    cache = said.tree.get("kv_cache_scheme")
    bits = cache.get("num_bits") if isinstance(cache, dict) else None
    if cache is not None and bits not in (4, 8):
        said.refuse("kv_cache_scheme", "null, or an object whose num_bits are 4 or 8", cache)
    if bits is None and (algorithm := said.tree.get("kv_cache_quant_algo")) is not None:
        bits = _cache_of(said, algorithm)
    return Rules(formats, said.names("ignore", "exclude_modules"), True, bits)


def _of_weights(said: _Said, weights: Any) -> Format:
    """As compressed-tensors writes it."""
    said = said._replace(place=f"{said.place}.weights", tree=weights if isinstance(weights, dict) else {})
    bits, group = said.whole(("num_bits",), 8, 2, 16), said.whole(("group_size",), 0, COLUMN)
    floating = said.tree.get("type", "int") == "float"
    strategy = said.tree.get("strategy") or ("group" if group > 0 else "channel" if group == COLUMN else "tensor")
    scale = 8 if floating and bits == 4 else 16
    scale += 0 if said.tree.get("symmetric", True) else bits
    if strategy in ("group", "tensor_group") and group > 0:
        return Format(bits, group, scale)
    if strategy == "channel" or (strategy == "group" and group == COLUMN):
        return Format(bits, COLUMN, scale)
    if strategy == "block":
        block = said.tree.get("block_structure")
        if not isinstance(block, list) or len(block) != 2 or not all(type(n) is int and n > 0 for n in block):
            said.refuse("block_structure", "two sizes", block)
            block = [128, 128]
        return Format(bits, block[0] * block[1], 32)
    if strategy != "tensor":
        said.refuse("strategy", "tensor, channel, group, tensor_group with a group_size, or block", strategy)
    return Format(bits)


ALGORITHMS = {  # of ModelOpt [recalled: its export of quantised checkpoints]; None: weights as they are
    "FP8": Format(8), "FP8_PER_CHANNEL_PER_TOKEN": Format(8, COLUMN, 32), "FP8_PB_WO": Format(8, 128 * 128, 32),
    "FP8_PB_REAL": Format(8, 128 * 128, 32), "MXFP8": Format(8, 32, 8), "NVFP4": Format(4, 16, 8),
    "NVFP4_AWQ": Format(4, 16, 8), "W4A16_NVFP4": Format(4, 16, 8), "W4A8_NVFP4_FP8": Format(4, 16, 8),
    "MXFP4": Format(4, 32, 8), "W4A8_MXFP4_FP8": Format(4, 32, 8), "W4A16": Format(4, 128), "W4A16_AWQ": Format(4, 128),
    "W4A8_AWQ": Format(4, 128), "W8A8_SQ_PER_CHANNEL": Format(8, COLUMN, 32), "W8A16": Format(8, COLUMN),
    "INT8": Format(8, COLUMN), "INT4_AWQ": Format(4, 128),
}  # fmt: skip
CACHES = {"FP8": 8.0, "INT8": 8.0, "NVFP4": 4.5}  # bits of an element, scales included


def _modelopt(said: _Said) -> Rules | None:
    """One algorithm for all modules, or one for each of those that are listed."""
    algorithm, cache = said.tree.get("quant_algo"), said.tree.get("kv_cache_quant_algo")
    kept = said.names("exclude_modules", "ignore")
    formats = list[tuple[Patterns, Format]]()
    if algorithm == "MIXED_PRECISION":
        listed: dict[Format, list[str]] = {}
        for name, each in (said.tree.get("quantized_layers") or {}).items():
            each = each if isinstance(each, dict) else {}
            if (found := _algorithm(said, f"quantized_layers.{name}", each)) is None:
                return None
            listed.setdefault(found, []).append(name)
        formats = [(Patterns(names), found) for found, names in listed.items()]
        if said.tree.get("quant_method") == "fp8":  # what is not listed
            formats += _fp8(said).formats
    elif algorithm is not None:
        if (found := _algorithm(said, "", said.tree)) is None:
            return None
        formats = [(LINEAR, found)]
    elif cache is None:
        said.refuse("quant_algo", f"one of {', '.join(ALGORITHMS)} or MIXED_PRECISION", algorithm)
    head = said.tree.get("quant_method") != "fp8"
    return Rules(formats, kept, head, None if cache is None else _cache_of(said, cache))


def _algorithm(said: _Said, where: str, tree: Mapping[str, Any]) -> Format | None:
    name, group = tree.get("quant_algo"), tree.get("group_size")
    if not isinstance(name, str) or name not in ALGORITHMS:
        said.refuse(f"{where}.quant_algo".lstrip("."), f"one of {', '.join(ALGORITHMS)} or MIXED_PRECISION", name)
        return None
    found = ALGORITHMS[name]
    return found._replace(group=group) if found.group > 0 and type(group) is int and group > 0 else found


def _cache_of(said: _Said, algorithm: Any) -> float | None:
    if not isinstance(algorithm, str) or algorithm not in CACHES:
        said.refuse("kv_cache_quant_algo", f"null or one of {', '.join(CACHES)}", algorithm)
        return None
    return CACHES[algorithm]


METHODS: dict[str, Callable[[_Said], Rules | None]] = {
    "fp8": _fp8, "fbgemm_fp8": _fbgemm, "mxfp4": _mxfp4, "gptq": _gptq, "awq": _gptq, "auto-round": _gptq,
    "intel/auto-round": _gptq, "bitsandbytes": _bitsandbytes, "eetq": _int8, "quanto": _int8,
    "compressed-tensors": _compressed, "modelopt": _compressed, "modelopt_fp4": _compressed,
}  # fmt: skip


class Matrix(NamedTuple):
    """A matrix of an operator: how many columns it has, as a part of all, its rows, and what its module is called."""

    part: int
    n_in: int
    names: tuple[str, ...]


def _matrices(fields: Mapping[str, Any], layer: int) -> Iterator[tuple[str, list[Matrix]]]:
    """Each operator of a layer that multiplies weights, but the router, with the matrices that it fuses."""
    hidden, heads, kv_heads = (fields[f] for f in ("hidden_size", "num_attention_heads", "num_key_value_heads"))
    dim = fields["head_dim"]
    value_dim = fields.get("v_head_dim") or dim

    def attention(*names: str) -> tuple[str, ...]:
        return _names(layer, ("self_attn", "attn", "self_attention", "attention", ""), names)

    whole = ("qkv_proj", "query_key_value", "c_attn", "Wqkv")
    if latent := fields.get("kv_lora_rank"):
        q_rank = fields.get("q_lora_rank")
        if q_rank:
            yield "self_attn.q_a_proj", [Matrix(1, hidden, attention("q_a_proj"))]
        query = "q_b_proj" if q_rank else "q_proj"
        yield f"self_attn.{query}", [Matrix(1, q_rank or hidden, attention(query))]
        yield "self_attn.kv_a_proj_with_mqa", [Matrix(1, hidden, attention("kv_a_proj_with_mqa"))]
        yield "self_attn.kv_b_proj", [Matrix(1, latent, attention("kv_b_proj"))]
    else:
        parts = (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads))
        yield "self_attn.qkv_proj", [Matrix(n, hidden, attention(name, *whole)) for name, n in parts]
    out = attention("o_proj", "out_proj", "dense", "c_proj")
    yield "self_attn.o_proj", [Matrix(1, heads * value_dim, out)]
    experts = fields["num_experts"] > 1 and layer not in fields.get("dense_layers", ())
    if not experts:
        yield from _network("mlp", layer, hidden, fields["intermediate_size"], ("mlp", ""), fields["gated_ffn"])
        return
    width = fields.get("moe_intermediate_size") or fields["intermediate_size"]
    places = ("mlp.experts.0", "mlp.experts", "block_sparse_moe.experts.0", "block_sparse_moe.experts")
    yield from _network("mlp.experts", layer, hidden, width, places, fields["gated_ffn"])
    if shared := fields.get("num_shared_experts"):
        yield from _network(
            "mlp.shared_experts", layer, hidden, width * shared, ("mlp.shared_experts",), fields["gated_ffn"]
        )


def _network(
    operator: str, layer: int, hidden: int, width: int, places: tuple[str, ...], gated: bool
) -> Iterator[tuple[str, list[Matrix]]]:
    up = ("up_proj", "w3", "gate_up_proj", "fc1", "c_fc", "dense_h_to_4h")
    gate, down = ("gate_proj", "w1", "gate_up_proj"), ("down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h")
    if gated:
        parts = [Matrix(1, hidden, _names(layer, places, names)) for names in (gate, up)]
        yield f"{operator}.gate_up_proj", parts
    else:
        yield f"{operator}.up_proj", [Matrix(1, hidden, _names(layer, places, up))]
    yield f"{operator}.down_proj", [Matrix(1, width, _names(layer, places, down))]


def _names(layer: int, places: tuple[str, ...], names: Iterable[str]) -> tuple[str, ...]:
    first = f"model.layers.{layer}."
    return tuple(f"{first}{place}.{name}" if place else f"{first}{name}" for name in names for place in places)


def _resolved(rules: Rules, method: str, fields: Mapping[str, Any]) -> Quantization:
    """Bits of the matrices of each layer; those of elements' width are left out."""
    rows: dict[Row, int] = {}
    layers = list[int]()
    for layer in range(fields["num_hidden_layers"]):
        row = list[tuple[str, float]]()
        for operator, parts in _matrices(fields, layer):
            bits = [_bits(rules, part) for part in parts]
            if any(each is not None for each in bits):
                all_bits = sum(m.part * (WIDE if b is None else b) for m, b in zip(parts, bits, strict=True))
                row.append((operator, all_bits / sum(m.part for m in parts)))
        layers.append(rows.setdefault(tuple(row), len(rows)))
    head = Matrix(1, fields["hidden_size"], ("lm_head",))
    listed = rules.head and not fields["tie_word_embeddings"]
    return Quantization(method, tuple(rows), tuple(layers), _bits(rules, head) if listed else None, rules.cache_bits)


def _bits(rules: Rules, matrix: Matrix) -> float | None:
    """Bits of a weight; None: as wide as elements."""
    if rules.kept.fit(matrix.names):
        return None
    found = next((f for names, f in rules.formats if names is LINEAR or "Linear" in names.plain
                  or names.fit(matrix.names)), None)  # fmt: skip
    return None if found is None else found.mean(matrix.n_in)


def _told(found: Quantization, rules: Rules, place: str) -> str:
    widths = sorted({round(bits, 3) for row in found.rows for _, bits in row})
    narrow = f"weights of {', '.join(f'{bits:g}' for bits in widths)} bits, scales included" if widths else "no weights"
    cache = "" if found.cache_bits is None else f", keys and values of {found.cache_bits:g} bits"
    return f"quantised as {found.method} ({place}): {narrow}{cache}; products run at the rate of the system's elements"
