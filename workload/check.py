"""Shapes that contradict themselves: a field that nothing would use is refused, never ignored."""

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec


def check(llm: LlmSpec) -> None:
    """Raise UserError for a field that has no meaning beside the others."""
    dense, mla = llm.num_experts == 1, llm.kv_lora_rank is not None
    layers = range(llm.num_hidden_layers)
    wrong = {
        "num_key_value_heads": llm.num_attention_heads % llm.num_key_value_heads
        and f"a divisor of the {llm.num_attention_heads} heads",
        "num_experts_per_tok": llm.num_experts_per_tok > llm.num_experts and f"at most {llm.num_experts} experts",
        "full_attention_layers": _beyond(llm.full_attention_layers, layers, llm.sliding_window is None, "a window"),
        "dense_layers": _beyond(llm.dense_layers, layers, dense, "experts"),
        "moe_intermediate_size": dense and llm.moe_intermediate_size and "a model with experts",
        "num_shared_experts": dense and llm.num_shared_experts and "a model with experts",
        "router_bias": dense and llm.router_bias and "a model with experts",
        "shared_norm": llm.shared_norm and not llm.parallel_attention and "a parallel block",
        "norm_placement": llm.norm_placement != "pre" and llm.parallel_attention and "'pre' in a parallel block",
        "norm": llm.norm not in ("layernorm", "rmsnorm") and "layernorm or rmsnorm",
        "rotary_dim": _bad_rotation(llm),
        "q_lora_rank": llm.q_lora_rank and not mla and "a compressed cache (kv_lora_rank)",
        "v_head_dim": llm.v_head_dim and not mla and "a compressed cache (kv_lora_rank)",
        "qk_norm": mla and llm.qk_norm != "none" and "none beside a compressed cache",
        "kv_lora_rank": mla and llm.num_key_value_heads != llm.num_attention_heads and "as many heads of K as of Q",
    }
    for field, expected in wrong.items():
        if expected:
            raise UserError(f"{llm.name}: {field} {getattr(llm, field)!r}: expected {expected}")


def _beyond(chosen: tuple[int, ...], layers: range, without: bool, what: str) -> str:
    if chosen and without:
        return f"a model with {what}"
    return "" if all(i in layers for i in chosen) else f"layers from 0 to {layers[-1]}"


def _bad_rotation(llm: LlmSpec) -> str:
    turned = llm.rotary_dim
    if turned is not None and llm.learned_positions:
        return f"none: positions of {llm.model_type} are learned"
    if turned is not None and not 1 <= turned <= llm.head_dim:
        return f"1 to {llm.head_dim}, elements of a head"
    if llm.kv_lora_rank is not None and (turned is None or turned == llm.head_dim):
        return f"1 to {llm.head_dim - 1}: a part of a head is compressed"
    return ""
