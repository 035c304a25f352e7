"""Kinds of operators that drawings tell apart by their colours."""

OTHER = "norms, sums and others"
KINDS = {  # what an operator's name holds: its kind; the first that fits
    "reduce": "links",
    "communication": "links",
    "gather": "links",
    "dispatch": "links",
    "combine": "links",
    "transfer": "links",
    "activations": "links",  # what composed systems move from memory to memory
    "launch": "kernel launches",
    "residual": OTHER,
    "norm": OTHER,
    "Norm": OTHER,
    "lm_head": "embedding and LM head",
    "LM head": "embedding and LM head",
    "embed": "embedding and LM head",
    "sampling": "embedding and LM head",
    "experts": "FFN",
    "ffn": "FFN",
    "FFN": "FFN",
    "mlp": "FFN",
    "activation": "FFN",
    "score": "attention",
    "softmax": "attention",
    "softcap": "attention",
    "logit": "attention",
    "attend": "attention",
    "attention": "attention",
    "p V": "attention",
    "fused_mha": "attention",
    "prompt": "attention",
    "self_attn.value": "attention",
    "K write": "K and V writes",
    "V write": "K and V writes",
    "cache": "K and V writes",
    "QKV": "QKV and projection",
    "qkv": "QKV and projection",
    "projection": "QKV and projection",
    "_proj": "QKV and projection",
}


def operator_kind(operator: str) -> str:
    """The colour of an operator in a figure.

    >>> operator_kind("QKV partial sums and bias"), operator_kind("all-reduce"), operator_kind("LayerNorm 1")
    ('QKV and projection', 'links', 'norms, sums and others')
    >>> operator_kind("self_attn.kv_b_proj.k"), operator_kind("mlp.down_proj"), operator_kind("mlp.experts.combine")
    ('QKV and projection', 'FFN', 'links')
    """
    return next((kind for part, kind in KINDS.items() if part in operator), OTHER)
