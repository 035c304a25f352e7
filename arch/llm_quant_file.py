"""Reads how a checkpoint is quantised: `quantization_config` of its `config.json`, or ModelOpt's
`hf_quant_config.json` in the same folder.

Exceptions (`ignore`, `exclude_modules`, `modules_to_not_convert`, …) are names of modules or of their parents, globs
with `*`, or regular expressions after `re:`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pimloom.arch import llm_quant
from pimloom.arch.llm_config import Config
from pimloom.arch.llm_quant import COLUMN, LINEAR, Format, Patterns, Quantization, QuantRules, resolved
from pimloom.arch.load import load_json

BESIDE = "hf_quant_config.json"
KEYS = ("quantization_config", "compression_config", "quantization")


def quantization_of(config: Config, path: Path, fields: Mapping[str, Any]) -> Quantization | None:
    """The quantisation of a checkpoint, None: weights as wide as elements. Unknown values are added to `config.wrong`,
    a note to `config.notes`. Raises UserError for a file that cannot be read."""
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
    found = resolved(rules, _named(said, place), fields)
    if rules.formats and not any(found.rows) and found.lm_head is None:
        config.wrong.append(f"at $.{place}: expected formats of modules of this model, got none that it has")
    config.notes.append(_told(found, place))
    return found


def _named(said: Any, place: str) -> str:
    """The name of the method, for messages."""
    named = [str(said[key]) for key in ("quant_algo", "quant_method") if isinstance(said, dict) and said.get(key)]
    return named[0] if named else "ModelOpt" if place == BESIDE else "MLX" if "bits" in said else "compressed-tensors"


class _Said(NamedTuple):
    """The quantisation section of a file, and its place in errors, which go to the config's."""

    config: Config
    place: str
    tree: dict[str, Any]

    def refuse(self, key: str, expected: str, got: Any) -> None:
        self.config.wrong.append(f"at $.{self.place}.{key}: expected {expected}, got {str(got)[:60]}")

    def whole(self, keys: Iterable[str], default: int, least: int, most: int = 1 << 20) -> int:
        """The integer of the first of these keys that exists, or the default."""
        key = next((key for key in keys if self.tree.get(key) is not None), None)
        value = default if key is None else self.tree[key]
        if type(value) is not int or not least <= value <= most:
            self.refuse(key or "", f"int from {least} to {most}", value)
            return default
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        """The object of a key, empty if there is none."""
        found = self.tree.get(key)
        if found is not None and not isinstance(found, dict):
            self.refuse(key, "an object or null", found)
        return found if isinstance(found, dict) else {}

    def names(self, *keys: str) -> Patterns:
        """Patterns of the module names under all of these keys."""
        found = list[str]()
        for key in keys:
            some = self.tree.get(key) or []
            if not isinstance(some, list) or not all(isinstance(name, str) for name in some):
                self.refuse(key, "a list of names", some)
                continue
            found += some
        return self.patterns(keys[0], found)

    def patterns(self, key: str, names: Iterable[str]) -> Patterns:
        """Patterns of these names. key: place of an error."""
        try:
            return Patterns(names)
        except re.error as error:
            self.refuse(key, "expressions that can be read", error)
            return Patterns(())


def _rules_of(config: Config, key: str, tree: Any) -> QuantRules | None:
    if not isinstance(tree, dict):
        config.refuse(key, "an object or null")
        return None
    said = _Said(config, key, tree)
    of_mlx = "mlx" if {"bits", "group_size"} <= tree.keys() else None
    method = tree.get("quant_method", "compressed-tensors" if "config_groups" in tree else of_mlx)
    algorithm = isinstance(tree.get("quant_algo"), str) and "config_groups" not in tree
    if algorithm or tree.get("quant_algo") == "MIXED_PRECISION":
        return _modelopt(said)
    if not isinstance(method, str) or method not in METHODS:
        said.refuse("quant_method", f"one of {', '.join(METHODS)}", method)
        return None
    return METHODS[method](said)


def _fp8(said: _Said) -> QuantRules:
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
    return QuantRules([(LINEAR, Format(8, group, scale))], said.names("modules_to_not_convert", "ignored_layers"))


def _always(one: Format) -> Callable[[_Said], QuantRules]:
    """One format for all modules except the named ones."""
    return lambda said: QuantRules([(LINEAR, one)], said.names("modules_to_not_convert"))


def _gptq(said: _Said) -> QuantRules:
    """Groups with an FP16 scale and a zero point as wide as a weight [recalled: AutoGPTQ's qzeros, AWQ's too]."""
    bits = said.whole(("bits", "w_bit"), 4, 2, 8)
    group = said.whole(("group_size", "q_group_size"), 128, COLUMN)
    if said.tree.get("dynamic"):
        said.refuse("dynamic", "null or {}, as formats by module are not known", said.tree["dynamic"])
    kept = said.names("modules_to_not_convert")
    only = _listed(said.tree.get("modules_in_block_to_quantize") or [])
    extra = said.mapping("extra_config").items()  # of auto-round: bits of single modules
    widths = {name: each["bits"] for name, each in extra if isinstance(each, dict) and "bits" in each}
    if not all(type(width) is int and width >= 2 for width in widths.values()):
        said.refuse("extra_config", "bits of at least 2", widths)
        widths = {}
    kept.plain |= {name for name, width in widths.items() if width >= 16}
    own = {name: Format(n, group, 16 + n) for name, n in widths.items() if n < 16}
    formats = [(said.patterns("extra_config", [name]), each) for name, each in own.items()]
    where = said.patterns("modules_in_block_to_quantize", only) if only else LINEAR
    formats.append((where, Format(bits, group, 16 + bits)))
    return QuantRules(formats, kept, said.tree.get("lm_head") is True)


def _listed(some: Any) -> list[str]:
    """All names of nested lists."""
    return [name for each in some for name in _listed(each)] if isinstance(some, list) else [str(some)]


def _bitsandbytes(said: _Said) -> QuantRules:
    """NF4 or FP4 in groups of 64 with an FP32 scale, or an 8-bit one and 32 bits for 256 of them; LLM.int8 with a scale
    for each column [secondary: QLoRA, arXiv:2305.14314, 3; LLM.int8, arXiv:2208.07339]."""
    four = said.tree.get("load_in_4bit") or said.tree.get("_load_in_4bit")
    eight = said.tree.get("load_in_8bit") or said.tree.get("_load_in_8bit")
    if not four and not eight:
        said.refuse("load_in_4bit", "true here, or in load_in_8bit", four)
    double = said.tree.get("bnb_4bit_use_double_quant")
    four_bits = Format(4, 64 * 256, 256 * 8 + 32) if double else Format(4, 64, 32)
    format_ = four_bits if four else Format(8, COLUMN, 32)
    return QuantRules([(LINEAR, format_)], said.names("llm_int8_skip_modules", "modules_to_not_convert"))


def _quanto(said: _Said) -> QuantRules:
    """INT8 or FP8 with a scale for each column."""
    if (given := said.tree.get("weights", "int8")) not in ("int8", "float8"):
        said.refuse("weights", "int8 or float8", given)
    return QuantRules([(LINEAR, Format(8, COLUMN))], said.names("modules_to_not_convert"))


def _mlx(said: _Said) -> QuantRules:
    """Groups of all matrices, the table of words among them; modules by name have bits of their own, or none
    [recalled: mlx-lm's `quantize`]."""
    mode = said.tree.get("mode", "affine")
    if not isinstance(mode, str) or mode not in llm_quant.MLX_SCALE_BITS:
        said.refuse("mode", f"one of {', '.join(llm_quant.MLX_SCALE_BITS)}", mode)
        mode = "affine"
    formats, kept = list[tuple[Patterns, Format]](), list[str]()
    for name, own in said.tree.items():
        if own is False:
            kept.append(name)
        elif isinstance(own, dict):
            inner = said._replace(place=f"{said.place}.{name}", tree=said.tree | own)
            formats.append((said.patterns(name, [name]), _mlx_format(inner, mode)))
    return QuantRules([*formats, (LINEAR, _mlx_format(said, mode))], said.patterns("false", kept), True, None, True)


def _mlx_format(said: _Said, mode: str) -> Format:
    return Format(said.whole(("bits",), 4, 2, 8), said.whole(("group_size",), 64, 1), llm_quant.MLX_SCALE_BITS[mode])


def _compressed(said: _Said) -> QuantRules:
    """Groups of modules with a format each."""
    formats = list[tuple[Patterns, Format]]()
    if (sparse := said.mapping("sparsity_config")).get("format", "dense") != "dense":
        said.refuse("sparsity_config", "a dense format", sparse)
    if not (groups := said.mapping("config_groups")):
        said.refuse("config_groups", "an object with groups", said.tree.get("config_groups"))
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
    return QuantRules(formats, said.names("ignore", "exclude_modules"), True, bits)


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


def _modelopt(said: _Said) -> QuantRules | None:
    """One algorithm for all modules, or one for each of those that are listed."""
    algorithm, cache = said.tree.get("quant_algo"), said.tree.get("kv_cache_quant_algo")
    kept = said.names("exclude_modules", "ignore")
    formats = list[tuple[Patterns, Format]]()
    if algorithm == "MIXED_PRECISION":
        listed: dict[Format, list[str]] = {}
        for name, each in said.mapping("quantized_layers").items():
            each = each if isinstance(each, dict) else {}
            if (found := _algorithm(said, f"quantized_layers.{name}", each)) is None:
                return None
            listed.setdefault(found, []).append(name)
        formats = [(said.patterns("quantized_layers", names), found) for found, names in listed.items()]
        if said.tree.get("quant_method") == "fp8":  # what is not listed
            formats += _fp8(said).formats
    elif algorithm is not None:
        if (found := _algorithm(said, "", said.tree)) is None:
            return None
        formats = [(LINEAR, found)]
    elif cache is None:
        said.refuse("quant_algo", f"one of {', '.join(llm_quant.ALGORITHMS)} or MIXED_PRECISION", algorithm)
    head = said.tree.get("quant_method") != "fp8"
    return QuantRules(formats, kept, head, None if cache is None else _cache_of(said, cache))


def _algorithm(said: _Said, where: str, tree: Mapping[str, Any]) -> Format | None:
    name, group = tree.get("quant_algo"), tree.get("group_size")
    if not isinstance(name, str) or name not in llm_quant.ALGORITHMS:
        said.refuse(
            f"{where}.quant_algo".lstrip("."), f"one of {', '.join(llm_quant.ALGORITHMS)} or MIXED_PRECISION", name
        )
        return None
    found = llm_quant.ALGORITHMS[name]
    return found._replace(group=group) if found.group > 0 and type(group) is int and group > 0 else found


def _cache_of(said: _Said, algorithm: Any) -> float | None:
    if not isinstance(algorithm, str) or algorithm not in llm_quant.CACHES:
        said.refuse("kv_cache_quant_algo", f"null or one of {', '.join(llm_quant.CACHES)}", algorithm)
        return None
    return llm_quant.CACHES[algorithm]


# FBGEMM: FP32 scales of columns [recalled]; MXFP4: 32 weights share 8 bits [secondary: OCP MX 1.0]
METHODS: dict[str, Callable[[_Said], QuantRules | None]] = {
    "fp8": _fp8, "fbgemm_fp8": _always(Format(8, COLUMN, 32)), "mxfp4": _always(Format(4, 32, 8)), "gptq": _gptq,
    "awq": _gptq, "auto-round": _gptq, "intel/auto-round": _gptq, "bitsandbytes": _bitsandbytes,
    "eetq": _always(Format(8, COLUMN)), "quanto": _quanto, "compressed-tensors": _compressed, "modelopt": _compressed,
    "modelopt_fp4": _compressed, "mlx": _mlx,
}  # fmt: skip


def _told(found: Quantization, place: str) -> str:
    widths = sorted({round(bits, 3) for row in found.rows for _, bits in row})
    narrow = f"weights of {', '.join(f'{bits:g}' for bits in widths)} bits, scales included" if widths else "no weights"
    cache = "" if found.cache_bits is None else f", keys and values of {found.cache_bits:g} bits"
    return f"quantised as {found.method} ({place}): {narrow}{cache}; products run at the rate of the system's elements"
