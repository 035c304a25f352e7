"""Keys of a `config.json` that have no effect on the model here, and values that would make it another model."""

from typing import Any

WITHOUT_EFFECT = frozenset({
    # what the file is, and for which software
    "architectures", "auto_map", "is_decoder", "dtype", "torch_dtype", "transformers_version", "name_or_path",
    "model_name", "use_cache", "tokenizer_class", "torchscript", "use_bfloat16", "tf_legacy_loss",
    "gradient_checkpointing", "attn_implementation", "use_flash_attn", "output_past", "use_return_dict", "return_dict",
    "output_attentions", "output_hidden_states", "output_router_logits", "output_scores", "return_dict_in_generate",
    "chunk_size_feed_forward", "task_specific_params", "finetuning_task", "problem_type", "label2id", "id2label",
    "num_labels", "prefix", "cache_implementation", "pretraining_tp", "tp_plan", "ep_size", "model_max_length",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "classifier_dropout", "keys_to_ignore_at_inference", "unsloth_fixed", "unsloth_version", "unsloth_processed",
    "is_llama_config", "transformers.js_config", "custom_pipelines", "max_sequence_length", "max_seq_length",
    "seq_length", "tokenizer_model_max_length", "use_mrope", "dual_chunk_attention_config", "num_steps",
    "vision_config", "audio_config", "image_token_id", "video_token_id", "image_token_index", "vision_start_token_id",
    "vision_end_token_id", "vision_token_id",
    # tokens by number, and how the next one is chosen
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id", "forced_bos_token_id",
    "forced_eos_token_id", "begin_suppress_tokens", "suppress_tokens", "bad_words_ids", "do_sample",
    "early_stopping", "max_length", "min_length", "num_beams", "num_beam_groups", "diversity_penalty",
    "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "num_return_sequences", "remove_invalid_values",
    "exponential_decay_length_penalty", "tie_encoder_decoder",
    # training
    "init_std", "initializer_range", "initializer_factor", "attention_dropout", "attention_probs_dropout_prob",
    "hidden_dropout", "hidden_dropout_prob", "dropout", "activation_dropout", "classifier_dropout_prob",
    "layerdrop", "attn_pdrop", "embd_pdrop", "resid_pdrop", "embedding_dropout", "ffn_dropout", "resid_dropout",
    "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux", "router_z_loss_coef",
    "num_nextn_predict_layers", "mtp_num_hidden_layers",  # layers that only draft
    "neftune_noise_alpha",
    # constants of functions: the same operations whatever their value, and a router's choice
    "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon", "rms_norm_eps", "rope_theta",
    "rope_local_base_freq", "rotary_emb_base", "scale_attn_weights", "rope_interleaved", "rope_interleave",
    "full_attn_mod", "interpolate_factor", "mscale", "moe_router_dtype",
    "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "scoring_func", "topk_method", "norm_topk_prob",
    "n_group", "topk_group", "routed_scaling_factor", "initial_context_length", "query_pre_attn_scalar",
})  # fmt: skip

# Of one type: the reasons stand beside them.
WITHOUT_EFFECT_OF: dict[str, tuple[str, ...]] = {
    "deepseek_v2": ("head_dim", "qk_head_dim"),  # the rotated part; the sum of both parts
    "deepseek_v3": ("head_dim", "qk_head_dim"),
    "falcon": ("apply_residual_connection_post_layernorm",),  # only without parallel attention, and then as many sums
    "gemma": ("hidden_act",),  # transformers takes `hidden_activation`
    "gemma2": ("hidden_act", "sliding_window_size"),  # the same, and `sliding_window`
    "gemma3_text": ("hidden_act",),
    "gpt2": ("n_ctx", "n_special", "predict_special_tokens"),  # as many as `n_positions`; of the tokeniser
    "gpt_oss": ("swiglu_limit", "swiglu_alpha"),  # constants of the activation
    "qwen3_moe": ("max_window_layers",),  # transformers gives all layers the window, or none
    "stablelm": ("rotary_scaling_factor",),  # a constant, too
}

QUANTISED = "the format of weights is in quantization_config"
Only = dict[str, tuple[tuple[Any, ...], str]]  # key: what may stand there, and why nothing else may
ONLY: Only = {
    "pruned_heads": ((None, {}), "all layers have the same heads here"),
    "add_cross_attention": ((None, False), "only decoders are modelled"),
    "is_encoder_decoder": ((None, False), "only decoders are modelled"),
    "cross_attention_hidden_size": ((None,), "only decoders are modelled"),
    "cross_attention_layers": ((None, []), "only decoders are modelled"),
    "sparsity_config": ((None, {}, {"format": "dense"}), "sparse weights are not modelled"),
}
_FREQUENT = ((None, 1), "all layers after the dense ones have experts here")
_LATENT = ((None, True), "attention has a compressed cache (MLA) here")
ONLY_OF: dict[str, Only] = {
    "deepseek_v2": {"moe_layer_freq": _FREQUENT, "use_mla": _LATENT},
    "deepseek_v3": {"moe_layer_freq": _FREQUENT, "use_mla": _LATENT},
    "falcon": {"alibi": ((None, False), "positions are rotations here")},
    "gemma3_text": {"use_bidirectional_attention": ((None, False), "only decoders are modelled")},
    "opt": {
        "do_layer_norm_before": ((None, True), "norms stand before attention and FFN here"),
        "_remove_final_layer_norm": ((None, False), "a norm stands before the LM head here"),
        "layer_norm_elementwise_affine": ((None, True), "norms have parameters here"),
    },
    "phi3": {"attention_bias": ((None, False), "no bias")},
}
# Keys with which other types switch a further part on. A type that does not read such a key allows only "off".
Allowed = tuple[tuple[Any, ...], str]
_NO_EXPERTS: Allowed = ((None, 0, 1, []), "no such experts here")
_NO_LATENT: Allowed = ((None, 0), "no compressed cache here")
_PLAIN: Allowed = ((None, 0, []), "all layers have plain attention here")
_NO_FACTOR: Allowed = ((None, 1), "no such factor here")
UNREAD: Only = {
    **dict.fromkeys(
        ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "n_shared_experts",
         "num_shared_experts", "shared_expert_intermediate_size", "moe_intermediate_size", "first_k_dense_replace",
         "interleave_moe_layer_step"), _NO_EXPERTS,
    ),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), _NO_LATENT),
    **dict.fromkeys(
        ("index_topk", "index_n_heads", "index_head_dim", "attention_chunk_size", "no_rope_layers", "attn_output_gate",
         "num_kv_shared_layers", "linear_num_key_heads", "linear_num_value_heads", "full_attention_interval",
         "mamba_d_state", "mamba_d_conv", "ssm_state_size", "use_alibi", "alibi", "clip_qkv", "attn_logit_softcapping",
         "final_logit_softcapping", "hidden_size_per_layer_input", "laurel_rank", "block_configs", "lm_head_bias",
         "per_layer_config", "use_parallel_residual", "parallel_attn"), _PLAIN,
    ),
    **dict.fromkeys(
        ("embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale", "altup_num_inputs",
         "partial_rotary_factor", "rotary_pct"), _NO_FACTOR,
    ),
}  # fmt: skip
# Names that other types use for a field of LlmSpec.
SAME = {
    "bias": "attention_bias", "qkv_bias": "attention_bias", "use_qkv_bias": "attention_bias", "mlp_bias": "ffn_bias",
    "num_experts": "num_experts", "num_local_experts": "num_experts", "n_routed_experts": "num_experts",
}  # fmt: skip
