"""What each `model_type` of a `config.json` fixes, calls its keys, and leaves out."""

from typing import Any

# Field of LlmSpec -> key in the file, where they differ; the first key present counts.
COMMON_KEYS = {
    "activation": ("hidden_act",),
    "num_shared_experts": ("n_shared_experts",),
}
Keys = dict[str, tuple[str, ...]]
_STABLE: Keys = {"attention_bias": ("use_qkv_bias",), "parallel_attention": ("use_parallel_residual",)}
_GEMMA: Keys = {"activation": ("hidden_activation",)}
_DEEPSEEK: Keys = {"num_experts": ("n_routed_experts",), "moe_intermediate_size": ("moe_intermediate_size",)}
KEYS: dict[str, Keys] = {
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "falcon": {
        "num_hidden_layers": ("num_hidden_layers", "n_layer"),
        "num_attention_heads": ("num_attention_heads", "n_head"),
        "intermediate_size": ("ffn_hidden_size",),
        "activation": ("activation",),
        "attention_bias": ("bias",),
        "ffn_bias": ("bias",),
        "parallel_attention": ("parallel_attn",),
        "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    },
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "gpt2": {
        "num_hidden_layers": ("n_layer",),
        "hidden_size": ("n_embd",),
        "num_attention_heads": ("n_head",),
        "intermediate_size": ("n_inner",),
        "max_position_embeddings": ("n_positions", "n_ctx"),
        "activation": ("activation_function",),
    },
    "gpt_neox": {"parallel_attention": ("use_parallel_residual",)},
    "gpt_oss": {
        "num_experts": ("num_local_experts",),
        "num_experts_per_tok": ("num_experts_per_tok", "experts_per_token"),
    },
    "llama": {"ffn_bias": ("mlp_bias",)},
    "mistral": {},
    "mixtral": {"num_experts": ("num_local_experts",)},
    "olmo2": {},
    "opt": {
        "intermediate_size": ("ffn_dim",),
        "activation": ("activation_function",),
        "attention_bias": ("enable_bias",),
        "ffn_bias": ("enable_bias",),
    },
    "phi3": {},
    "qwen2": {},
    "qwen3": {},
    "qwen3_moe": {},
    "stablelm": _STABLE,
}

# Types that are one of these under another name: the same operators and parameters [recalled: transformers' classes].
ALIASES = {
    "internlm2": "llama",
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",  # and a layer that only drafts, which is not run
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}
INNER = ("text_config", "language_config", "llm_config")  # where a file of text and images has its text model
# Keys that a type reads beside those of the fields above (see llm_special.py).
ALSO_READ: dict[str, tuple[str, ...]] = {
    "deepseek_v2": ("qk_nope_head_dim", "qk_rope_head_dim", "first_k_dense_replace"),
    "deepseek_v3": ("qk_nope_head_dim", "qk_rope_head_dim", "first_k_dense_replace", "scoring_func"),
    "falcon": ("new_decoder_architecture", "multi_query", "num_ln_in_parallel_attn"),
    "gemma2": ("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"),
    "gemma3_text": ("sliding_window_pattern", "rope_local_base_freq", "query_pre_attn_scalar"),
    "gpt_neox": ("rotary_pct", "partial_rotary_factor", "layer_norm_eps"),
    "gpt_oss": ("swiglu_limit", "initial_context_length"),
    "llama": ("pretraining_tp",),
    "opt": ("word_embed_proj_dim", "do_layer_norm_before"),
    "phi3": (
        "partial_rotary_factor",
        "original_max_position_embeddings",
    ),
    "qwen2": ("use_sliding_window", "max_window_layers"),
    "qwen3": ("use_sliding_window", "max_window_layers"),
    "qwen3_moe": ("use_sliding_window", "decoder_sparse_step", "mlp_only_layers", "norm_topk_prob"),
    "stablelm": ("qk_layernorm", "partial_rotary_factor", "layer_norm_eps"),
}

EXTRA_POSITIONS = {"gpt2": 0, "opt": 2}  # learned positions: rows beyond `max_position_embeddings` [recalled]
QKV_BIAS_ONLY = ("qwen2", "stablelm")  # `attention_bias` is one on Q, K and V, none behind attention [recalled]

# What the architecture fixes, whatever the file says; None is derived from the other sizes.
_DENSE = {"num_experts": 1, "num_experts_per_tok": 1}
_PLAIN = {**_DENSE, "norm": "layernorm", "gated_ffn": False, "num_key_value_heads": None, "head_dim": None}
_GATED = {"norm": "rmsnorm", "gated_ffn": True, "parallel_attention": False}
_NO_BIAS = {"attention_bias": False, "ffn_bias": False}
_ALL_SEEN = {"sliding_window": None}
_MLA = {**_GATED, **_NO_BIAS, **_ALL_SEEN, "num_key_value_heads": None, "head_dim": None}
FIXED: dict[str, dict[str, Any]] = {
    "deepseek_v2": _MLA,
    "deepseek_v3": {**_MLA, "router_bias": True},
    "falcon": {**_PLAIN, **_ALL_SEEN},
    "gemma": {**_GATED, **_DENSE, **_ALL_SEEN, "ffn_bias": False, "scaled_embedding": True},
    "gemma2": {**_GATED, **_DENSE, "ffn_bias": False, "scaled_embedding": True, "norm_placement": "both"},
    "gemma3_text": {
        **_GATED,
        **_DENSE,
        "ffn_bias": False,
        "scaled_embedding": True,
        "norm_placement": "both",
        "qk_norm": "head",
    },
    "gpt2": {
        **_PLAIN,
        "attention_bias": True,
        "ffn_bias": True,
        "parallel_attention": False,
        "sliding_window": None,
    },
    "gpt_neox": {**_PLAIN, "ffn_bias": True, "sliding_window": None},
    "gpt_oss": {**_GATED, "ffn_bias": True, "router_bias": True, "attention_sinks": True},
    "llama": {**_GATED, **_DENSE, "sliding_window": None},
    "mistral": {**_GATED, **_DENSE, "attention_bias": False, "ffn_bias": False},
    "mixtral": {**_GATED, "attention_bias": False, "ffn_bias": False},
    "olmo2": {**_GATED, **_DENSE, **_ALL_SEEN, "ffn_bias": False, "norm_placement": "post", "qk_norm": "whole"},
    "opt": {**_PLAIN, "parallel_attention": False, "sliding_window": None},
    "phi3": {**_GATED, **_DENSE, **_NO_BIAS, "head_dim": None},
    "qwen2": {**_GATED, **_DENSE, "attention_bias": True, "ffn_bias": False},
    "qwen3": {**_GATED, **_DENSE, "ffn_bias": False, "qk_norm": "head"},
    "qwen3_moe": {**_GATED, "ffn_bias": False, "qk_norm": "head"},
    "stablelm": {
        **_DENSE,
        **_ALL_SEEN,
        "norm": "layernorm",
        "gated_ffn": True,
        "ffn_bias": False,
        "head_dim": None,
    },
}

# Defaults of the transformers config classes for keys that published files leave out; others must be there [recalled].
_SILU = {"activation": "silu", "vocab_size": 32000, "head_dim": None, "tie_word_embeddings": False}
_GELU = {"activation": "gelu_pytorch_tanh", "head_dim": 256, "tie_word_embeddings": True, "attention_bias": False}
_LATENT = {"kv_lora_rank": 512, "q_lora_rank": 1536, "v_head_dim": 128, "num_shared_experts": 2}
_QWEN3 = {**_SILU, "vocab_size": 151936, "max_position_embeddings": 32768, "attention_bias": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "deepseek_v2": {**_SILU, **_LATENT, "vocab_size": 102400, "max_position_embeddings": 2048},
    "deepseek_v3": {
        **_SILU,
        **_LATENT,
        "vocab_size": 129280,
        "max_position_embeddings": 4096,
        "num_shared_experts": 1,
        "moe_intermediate_size": 2048,
    },
    "falcon": {
        "intermediate_size": None,
        "vocab_size": 65024,
        "max_position_embeddings": 2048,
        "activation": "gelu",
        "attention_bias": False,
        "ffn_bias": False,
        "tie_word_embeddings": True,
        "parallel_attention": True,
    },
    "gemma": {**_GELU, "vocab_size": 256000, "num_key_value_heads": 16, "max_position_embeddings": 8192},
    "gemma2": {
        **_GELU,
        "vocab_size": 256000,
        "num_key_value_heads": 4,
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
    },
    "gemma3_text": {
        **_GELU,
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
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
    "gpt_oss": {
        **_SILU,
        "vocab_size": 201088,
        "head_dim": 64,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 128,
        "attention_bias": True,
        "num_experts": 128,
        "num_experts_per_tok": 4,
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
    "olmo2": {
        **_SILU,
        "vocab_size": 50304,
        "num_key_value_heads": None,
        "max_position_embeddings": 2048,
        "attention_bias": False,
    },
    "opt": {
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "activation": "relu",
        "attention_bias": True,
        "ffn_bias": True,
        "tie_word_embeddings": True,
    },
    "phi3": {
        **_SILU,
        "vocab_size": 32064,
        "num_key_value_heads": None,
        "max_position_embeddings": 4096,
        "sliding_window": None,
    },
    "qwen2": {
        **_SILU,
        "vocab_size": 151936,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
        "sliding_window": 4096,
    },
    "qwen3": {**_QWEN3, "head_dim": 128, "num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3_moe": {
        **_QWEN3,
        "num_key_value_heads": 4,
        "sliding_window": 4096,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    },
    "stablelm": {
        **_SILU,
        "vocab_size": 50304,
        "num_key_value_heads": 32,
        "max_position_embeddings": 4096,
        "attention_bias": False,
        "parallel_attention": False,
    },
}
