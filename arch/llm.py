"""The shape of a language model, read from the `config.json` that Hugging Face publishes with it."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from pimloom.arch.document import check_path, nearest, short
from pimloom.arch.error import UserError
from pimloom.arch.llm_fields import fields_of
from pimloom.arch.llm_quant import Quantization
from pimloom.arch.llm_types import EXTRA_POSITIONS, QKV_BIAS_ONLY
from pimloom.arch.names import elsewhere, list_names

MODELS = Path(__file__).parent / "models"


class LlmSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Shape of a decoder-only model: names as Hugging Face spells them for llama, sizes in elements.

    A dense model has 1 expert and uses 1 per token. `sliding_window` is in tokens, None if attention sees
    all. `attention_bias` is a bias on Q, K and V (see `projection_bias`). `norm` is 'layernorm' or 'rmsnorm'.
    `parallel_attention`: attention and FFN of a block read the same input, each through a norm of its own, or both
    through one (`shared_norm`). `gated_ffn`: three FFN matrices, not two.

    The fields with a default are what newer models have: `rotary_dim`: elements of a head that are rotated, None: all.
    `full_attention_layers`: those without the window that the others have. `norm_placement`: norms before attention
    and FFN, behind them, or both. `qk_norm`: norms of Q and K, one for each head with parameters for all ('head') or
    its own ('heads'), or one over all heads ('whole'). `scaled_embedding`: the embedding is multiplied by a constant.
    `*_logit_softcapping`: scores or logits go through a tanh. `attention_sinks`: one more term in each softmax.
    `moe_intermediate_size`: FFN width of an expert, None: as `intermediate_size`. `num_shared_experts` take all tokens.
    `dense_layers` have an FFN and no experts. `router_bias`: one on the router's scores. With `kv_lora_rank` the cache
    holds so many elements and a rotated key for all heads (MLA); `head_dim` is then a query's, `v_head_dim` a value's,
    and Q goes through `q_lora_rank` elements, None: not. `quantization`: matrices and caches of fewer bits than the
    system's elements, None: all are as wide. `notes`: sentences about the file, for a person.
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
    rotary_dim: int | None = None
    full_attention_layers: tuple[int, ...] = ()
    norm_placement: Literal["pre", "post", "both"] = "pre"
    shared_norm: bool = False
    qk_norm: Literal["none", "head", "heads", "whole"] = "none"
    scaled_embedding: bool = False
    attn_logit_softcapping: bool = False
    final_logit_softcapping: bool = False
    attention_sinks: bool = False
    moe_intermediate_size: int | None = None
    num_shared_experts: int = 0
    dense_layers: tuple[int, ...] = ()
    router_bias: bool = False
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    v_head_dim: int | None = None
    quantization: Quantization | None = None
    notes: tuple[str, ...] = ()

    @property
    def projection_bias(self) -> bool:
        """A bias on the projection behind attention: as on Q, K and V, but for Qwen2 and StableLM, which have none."""
        return self.attention_bias and self.model_type not in QKV_BIAS_ONLY

    @property
    def learned_positions(self) -> int:
        """Rows of a table of positions; 0: positions are rotations of Q and K."""
        extra = EXTRA_POSITIONS.get(self.model_type)
        return 0 if extra is None else self.max_position_embeddings + extra

    @property
    def rotated_dim(self) -> int:
        """Elements of a head that a rotation turns."""
        if self.learned_positions:
            return 0
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def value_dim(self) -> int:
        """Elements of a head's value."""
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    @property
    def expert_intermediate_size(self) -> int:
        """FFN width of an expert."""
        return self.intermediate_size if self.moe_intermediate_size is None else self.moe_intermediate_size

    def window_of(self, layer: int) -> int | None:
        """Tokens that a layer's attention sees; None: all."""
        return None if layer in self.full_attention_layers else self.sliding_window

    @property
    def widest_window(self) -> int | None:
        """Tokens that the attention of any layer sees; None: all."""
        return None if self.full_attention_layers else self.sliding_window

    def cache_bits(self, element_bits: int) -> int | float:
        """Bits of an element of keys and values, on a system with elements of so many bits."""
        found = self.quantization.cache_bits if self.quantization else None
        return element_bits if found is None else found

    def is_dense(self, layer: int) -> bool:
        """Whether a layer has one FFN for all tokens."""
        return self.num_experts == 1 or layer in self.dense_layers

    def quantized_row(self, layer: int) -> int | None:
        """Layers with an equal number have matrices of the same bits; None: as wide as the system's elements."""
        return self.quantization.layers[layer] if self.quantization else None

    def decisive(self) -> dict[str, Any]:
        """All but name and notes, and of the fields with a default those that differ from it."""
        names, plain = self.__struct_fields__, self.__struct_defaults__
        defaults = dict(zip(names[-len(plain) :], plain, strict=True))
        values = msgspec.structs.asdict(self) | {"name": "", "notes": ()}
        return {f: v for f, v in values.items() if f not in defaults or v != defaults[f]}


def list_presets() -> list[str]:
    """Names of the models in `arch/models`."""
    return list_names("models")


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
        known = f"{elsewhere(text) or nearest(text, presets)}; presets: {', '.join(presets)}"
        raise UserError(f"model {short(text)!r}: no such preset or file{known}")
    named_by_folder = path.stem == "config" and path.resolve().parent.name
    check_path(named_by_folder or path)
    return _spec(named_by_folder or path.stem, path)


def _spec(name: str, path: Path) -> LlmSpec:
    fields = fields_of(path)
    notes = () if path.parent == MODELS else tuple(f"{name}: {said}" for said in fields["notes"])  # ours are known
    return LlmSpec(name=name, **fields | {"notes": notes})
