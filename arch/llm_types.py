"""What each `model_type` of a `config.json` fixes, calls its keys, and leaves out."""

from typing import Any

# Field of LlmSpec -> key in the file, where they differ; the first key present counts.
COMMON_KEYS = {"activation": ("hidden_act",)}
KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "gpt2": {
        "num_hidden_layers": ("n_layer",),
        "hidden_size": ("n_embd",),
        "num_attention_heads": ("n_head",),
        "intermediate_size": ("n_inner",),
        "max_position_embeddings": ("n_positions", "n_ctx"),
        "activation": ("activation_function",),
    },
    "gpt_neox": {"parallel_attention": ("use_parallel_residual",)},
    "llama": {"ffn_bias": ("mlp_bias",)},
    "mistral": {},
    "mixtral": {"num_experts": ("num_local_experts",)},
    "opt": {
        "intermediate_size": ("ffn_dim",),
        "activation": ("activation_function",),
        "attention_bias": ("enable_bias",),
        "ffn_bias": ("enable_bias",),
    },
    "qwen2": {},
}

# What the architecture fixes, whatever the file says; None is derived from the other sizes.
_DENSE = {"num_experts": 1, "num_experts_per_tok": 1}
_PLAIN = {**_DENSE, "norm": "layernorm", "gated_ffn": False, "num_key_value_heads": None, "head_dim": None}
_GATED = {"norm": "rmsnorm", "gated_ffn": True, "parallel_attention": False}
FIXED: dict[str, dict[str, Any]] = {
    "gpt2": {
        **_PLAIN,
        "attention_bias": True,
        "ffn_bias": True,
        "parallel_attention": False,
        "sliding_window": None,
    },
    "gpt_neox": {**_PLAIN, "ffn_bias": True, "sliding_window": None},
    "llama": {**_GATED, **_DENSE, "sliding_window": None},
    "mistral": {**_GATED, **_DENSE, "attention_bias": False, "ffn_bias": False},
    "mixtral": {**_GATED, "attention_bias": False, "ffn_bias": False},
    "opt": {**_PLAIN, "parallel_attention": False, "sliding_window": None},
    "qwen2": {**_GATED, **_DENSE, "attention_bias": True, "ffn_bias": False},
}

# Defaults of the transformers config classes for keys that published files leave out; others must be there.
_SILU = {"activation": "silu", "vocab_size": 32000, "head_dim": None, "tie_word_embeddings": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "intermediate_size": None,
        "vocab_size": 50257,
        "max_position_embeddings": 1024,
        "activation": "gelu_new",
        "tie_word_embeddings": True,
    },
    "gpt_neox": {
        "vocab_size": 50432,
        "max_position_embeddings": 2048,
        "activation": "gelu",
        "attention_bias": True,
        "tie_word_embeddings": False,
        "parallel_attention": True,
    },
    "llama": {
        **_SILU,
        "num_key_value_heads": None,
        "max_position_embeddings": 2048,
        "attention_bias": False,
        "ffn_bias": False,
    },
    "mistral": {
        **_SILU,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "mixtral": {
        **_SILU,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": None,
        "num_experts": 8,
        "num_experts_per_tok": 2,
    },
    "opt": {
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "activation": "relu",
        "attention_bias": True,
        "ffn_bias": True,
        "tie_word_embeddings": True,
    },
    "qwen2": {
        **_SILU,
        "vocab_size": 151936,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
        "sliding_window": 4096,
    },
}

# Keys with which a supported model is another one: what may stand there, and why nothing else may.
ONLY: dict[str, tuple[tuple[Any, ...], str]] = {
    "quantization_config": ((None,), "formats of elements are the system's"),
    "pruned_heads": ((None, {}), "all layers have the same heads here"),
    "add_cross_attention": ((None, False), "only decoders are modelled"),
    "is_encoder_decoder": ((None, False), "only decoders are modelled"),
}
