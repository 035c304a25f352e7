"""Bits of a checkpoint's weights: formats, the modules that have them, and the mean bits of each operator.

Biases, norms, routers and, unless MLX quantises them, embeddings are as wide as the system's elements.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from typing import Any, NamedTuple

import msgspec

WIDE = 16.0  # bits of an unquantised matrix that is fused with a quantised one [design]
COLUMN = -1  # a group: all weights of a column share a scale


class Format(NamedTuple):
    """A format of weights. bits: of a weight; group: number of weights that share `scale_bits`; COLUMN: those of a
    column; 0: so many that the scale does not count; scale_bits: of a scale, and of a zero point if there is one."""

    bits: int
    group: int = 0
    scale_bits: int = 16

    def mean(self, n_in: int) -> float:
        """Mean bits of a weight, scales included, in a matrix of `n_in` rows.

        >>> Format(4, 16, 8).mean(4096), Format(8, COLUMN, 32).mean(4096)
        (4.5, 8.0078125)
        """
        group = n_in if self.group == COLUMN else self.group
        return self.bits + self.scale_bits / group if group else float(self.bits)


ALGORITHMS = {  # of ModelOpt [recalled: its export of quantised checkpoints]; None: weights as they are
    "FP8": Format(8), "FP8_PER_CHANNEL_PER_TOKEN": Format(8, COLUMN, 32), "FP8_PB_WO": Format(8, 128 * 128, 32),
    "FP8_PB_REAL": Format(8, 128 * 128, 32), "MXFP8": Format(8, 32, 8), "NVFP4": Format(4, 16, 8),
    "NVFP4_AWQ": Format(4, 16, 8), "W4A16_NVFP4": Format(4, 16, 8), "W4A8_NVFP4_FP8": Format(4, 16, 8),
    "MXFP4": Format(4, 32, 8), "W4A8_MXFP4_FP8": Format(4, 32, 8), "W4A16": Format(4, 128), "W4A16_AWQ": Format(4, 128),
    "W4A8_AWQ": Format(4, 128), "W8A8_SQ_PER_CHANNEL": Format(8, COLUMN, 32), "W8A16": Format(8, COLUMN),
    "INT8": Format(8, COLUMN), "INT4_AWQ": Format(4, 128),
}  # fmt: skip
CACHES = {"FP8": 8.0, "INT8": 8.0, "NVFP4": 4.5}  # bits of an element, scales included
MLX_SCALE_BITS = {"affine": 32, "mxfp4": 8, "nvfp4": 8}  # of a group: FP16 scale and bias, or the scale of the format
Row = tuple[tuple[str, float], ...]


class Quantization(msgspec.Struct, frozen=True):
    """Bits per weight, scales included, of matrices that are narrower than the system's elements.

    method: name of the method; rows: different kinds of layers, each as (operator, bits) pairs; layers: for each layer
    the index of its row; lm_head, embedding: of these matrices; cache_bits: of an element of keys and values. None: as
    wide as the system's elements.
    """

    method: str
    rows: tuple[Row, ...]
    layers: tuple[int, ...]
    lm_head: float | None = None
    cache_bits: float | None = None
    embedding: float | None = None

    def bits_of(self, layer: int) -> dict[str, float]:
        """Bits per weight of a layer, by operator."""
        return dict(self.rows[self.layers[layer]])


class QuantRules(NamedTuple):
    """What a file says. formats: formats by patterns of modules, of which the first match holds; kept: modules that are
    not quantised; head, tables: whether the LM head and the embedding are quantised like other modules; cache_bits: of
    keys and values, None: not quantised."""

    formats: "list[tuple[Patterns, Format]]"
    kept: "Patterns"
    head: bool = False
    cache_bits: float | None = None
    tables: bool = False


_PREFIX = re.compile(
    r"^(language_model\.model\.layers|model\.language_model\.layers|transformer\.h|model\.decoder\.layers|"
    r"gpt_neox\.layers|layers)\."
)


class Patterns:
    """Patterns of module names: plain names, globs with `*` or `?`, or regular expressions after `re:`."""

    def __init__(self, written: Iterable[str]) -> None:
        self.plain, self.others, globs = set[str](), list[re.Pattern[str]](), list[str]()
        for text in written:
            if text.startswith("re:"):
                self.others.append(re.compile(text[3:]))
                continue
            name = _PREFIX.sub("model.layers.", text).removeprefix("language_model.")
            if "*" in name or "?" in name:
                globs += [translate(name), translate(f"{name}.*")]
            else:
                self.plain.add(name)
        if globs:
            self.others.append(re.compile("|".join(globs)))

    def fit(self, names: Iterable[str]) -> bool:
        """Whether a pattern matches one of the names, or a part of it between dots."""
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


class QuantMatrix(NamedTuple):
    """A matrix of an operator: its columns as a share of the operator's, its rows, and the names of its module."""

    part: int
    n_in: int
    names: tuple[str, ...]


def _matrices(fields: Mapping[str, Any], layer: int) -> Iterator[tuple[str, list[QuantMatrix]]]:
    """Each operator of a layer that multiplies weights, except the router, with the matrices that it fuses."""
    hidden, heads, kv_heads = (fields[f] for f in ("hidden_size", "num_attention_heads", "num_key_value_heads"))
    dim = fields["head_dim"]
    value_dim = fields.get("v_head_dim") or dim

    def attention(*names: str) -> tuple[str, ...]:
        return _names(layer, ("self_attn", "attn", "self_attention", "attention", ""), names)

    whole = ("qkv_proj", "query_key_value", "c_attn", "Wqkv")
    if latent := fields.get("kv_lora_rank"):
        q_rank = fields.get("q_lora_rank")
        if q_rank:
            yield "self_attn.q_a_proj", [QuantMatrix(1, hidden, attention("q_a_proj"))]
        query = "q_b_proj" if q_rank else "q_proj"
        yield f"self_attn.{query}", [QuantMatrix(1, q_rank or hidden, attention(query))]
        yield "self_attn.kv_a_proj_with_mqa", [QuantMatrix(1, hidden, attention("kv_a_proj_with_mqa"))]
        yield "self_attn.kv_b_proj", [QuantMatrix(1, latent, attention("kv_b_proj"))]
    else:
        parts = (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads))
        yield "self_attn.qkv_proj", [QuantMatrix(n, hidden, attention(name, *whole)) for name, n in parts]
    out = attention("o_proj", "out_proj", "dense", "c_proj")
    yield "self_attn.o_proj", [QuantMatrix(1, heads * value_dim, out)]
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
) -> Iterator[tuple[str, list[QuantMatrix]]]:
    up = ("up_proj", "w3", "gate_up_proj", "fc1", "c_fc", "dense_h_to_4h")
    gate, down = ("gate_proj", "w1", "gate_up_proj"), ("down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h")
    if gated:
        parts = [QuantMatrix(1, hidden, _names(layer, places, names)) for names in (gate, up)]
        yield f"{operator}.gate_up_proj", parts
    else:
        yield f"{operator}.up_proj", [QuantMatrix(1, hidden, _names(layer, places, up))]
    yield f"{operator}.down_proj", [QuantMatrix(1, width, _names(layer, places, down))]


def _names(layer: int, places: tuple[str, ...], names: Iterable[str]) -> tuple[str, ...]:
    first = f"model.layers.{layer}."
    return tuple(f"{first}{place}.{name}" if place else f"{first}{name}" for name in names for place in places)


def resolved(rules: QuantRules, method: str, fields: Mapping[str, Any]) -> Quantization:
    """The bits of each layer's matrices. Matrices as wide as the system's elements are left out."""
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
    tables = [QuantMatrix(1, fields["hidden_size"], (name,)) for name in ("lm_head", "model.embed_tokens")]
    head, words = (_bits(rules, table) for table in tables)
    words = words if rules.tables else None
    head = words if fields["tie_word_embeddings"] else head if rules.head else None
    return Quantization(method, tuple(rows), tuple(layers), head, rules.cache_bits, words)


def _bits(rules: QuantRules, matrix: QuantMatrix) -> float | None:
    """Bits per weight of a matrix; None: as wide as the system's elements."""
    if rules.kept.fit(matrix.names):
        return None
    found = next((f for names, f in rules.formats if names is LINEAR or "Linear" in names.plain
                  or names.fit(matrix.names)), None)  # fmt: skip
    return None if found is None else found.mean(matrix.n_in)
