"""Kinds of operators that drawings tell apart by their colours."""

KINDS = {  # what an operator's name holds: its kind; the first that fits
    "score": "attention",
    "softmax": "attention",
    "logit": "attention",
    "attend": "attention",
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
    "o_proj": "QKV and projection",
    "ffn": "FFN",
    "FFN": "FFN",
    "mlp": "FFN",
    "activation": "FFN",
    "reduce": "links",
    "transfer": "links",
    "launch": "kernel launches",
}
OTHER = "norms, sums and others"


def kind_of(operator: str) -> str:
    """The colour of an operator in a figure.

    >>> kind_of("QKV partial sums and bias"), kind_of("all-reduce"), kind_of("LayerNorm 1")
    ('QKV and projection', 'links', 'norms, sums and others')
    """
    return next((kind for part, kind in KINDS.items() if part in operator), OTHER)
