"""Keys of a `config.json` that say nothing about hardware, and such as would make the model another one."""

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
    "classifier_dropout",
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
    "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux",
    # constants of functions: the same operations whatever their value, and a router's choice
    "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon", "rms_norm_eps", "rope_theta",
    "rope_scaling", "rope_parameters", "rope_local_base_freq", "rotary_emb_base", "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "scoring_func", "topk_method", "norm_topk_prob",
    "n_group", "topk_group", "routed_scaling_factor", "original_max_position_embeddings", "initial_context_length",
    "query_pre_attn_scalar",
})  # fmt: skip

# Of one type: the reasons stand beside them.
WITHOUT_EFFECT_OF: dict[str, tuple[str, ...]] = {
    "deepseek_v2": ("head_dim", "qk_head_dim"),  # the rotated part; the sum of both parts
    "deepseek_v3": ("head_dim", "qk_head_dim", "num_nextn_predict_layers"),  # layers that only draft are not run
    "falcon": ("apply_residual_connection_post_layernorm",),  # only without parallel attention, and then as many sums
    "gemma": ("hidden_act",),  # transformers takes `hidden_activation`
    "gemma2": ("hidden_act",),
    "gemma3_text": ("hidden_act",),
    "gpt2": ("n_ctx", "n_special", "predict_special_tokens"),  # as many as `n_positions`; of the tokeniser
    "gpt_oss": ("swiglu_limit", "swiglu_alpha"),  # constants of the activation
    "stablelm": ("rotary_scaling_factor",),  # a constant, too
}

QUANTISED = (
    "quantised weights are not modelled: set it to null to model the same weights in the system's own format. Most "
    "systems have 16 bits an element; element_bits of a roofline is a setting"
)
# Keys with which a supported model is another one: what may stand there, and why nothing else may.
ONLY: dict[str, tuple[tuple[Any, ...], str]] = {
    "quantization_config": ((None,), QUANTISED),
    "pruned_heads": ((None, {}), "all layers have the same heads here"),
    "add_cross_attention": ((None, False), "only decoders are modelled"),
    "is_encoder_decoder": ((None, False), "only decoders are modelled"),
    "cross_attention_hidden_size": ((None,), "only decoders are modelled"),
}
ONLY_OF: dict[str, dict[str, tuple[tuple[Any, ...], str]]] = {
    "deepseek_v2": {"moe_layer_freq": ((None, 1), "all layers behind the dense ones have experts here")},
    "deepseek_v3": {"moe_layer_freq": ((None, 1), "all layers behind the dense ones have experts here")},
    "falcon": {"alibi": ((None, False), "positions are rotations here")},
    "gemma3_text": {"use_bidirectional_attention": ((None, False), "only decoders are modelled")},
    "opt": {
        "do_layer_norm_before": ((None, True), "norms stand before attention and FFN here"),
        "_remove_final_layer_norm": ((None, False), "a norm stands before the LM head here"),
        "layer_norm_elementwise_affine": ((None, True), "norms have parameters here"),
    },
    "phi3": {"attention_bias": ((None, False), "no bias")},
}
