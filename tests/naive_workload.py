"""One decoder layer counted in plain loops, from English rules.

Every new token goes through the block. It is turned into a query for each head, and a key and a value for each group of
heads; it looks at itself and at all tokens before it, the last `sliding_window` at most. Each request's keys and values
that anyone looks at are fetched once for the scores (keys) and once for the sums (values). Every matrix that is used is
fetched once, with its bias if it has one. Experts take tokens in turn.
"""

from typing import Any


def layer(m: dict[str, Any], requests: list[tuple[int, int]]) -> dict[str, int]:
    """Counts for one layer. m: fields of the model; requests: (new tokens, context with them)."""
    counts = dict.fromkeys(
        ("macs", "weights", "parameters", "cache_read", "cache_written", "scores", "rotated", "normed", "added",
         "activated"), 0,
    )  # fmt: skip
    d, h, kv, e, f = (m[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                                     "intermediate_size"))  # fmt: skip
    tokens = [(r, position) for r, (new, context) in enumerate(requests) for position in range(context - new, context)]

    def matrix(rows: int, n_in: int, n_out: int, bias: bool, used: bool = True) -> None:
        counts["macs"] += rows * n_in * n_out
        for _ in range(n_out):
            counts["parameters"] += n_in + bias
            counts["weights"] += (n_in + bias) if used else 0

    def norm(vectors: int, width: int, own: int) -> None:
        counts["normed"] += vectors * width
        counts["weights"] += own
        counts["parameters"] += own

    both = 2 if m["norm"] == "layernorm" else 1
    norm(len(tokens), d, both * d)
    norm(len(tokens), d, both * d)
    matrix(len(tokens), d, h * e + kv * e + kv * e, m["attention_bias"])
    matrix(len(tokens), h * e, d, m["attention_bias"])
    if m["qk_norm"] == "head":
        norm(len(tokens) * h, e, e)
        norm(len(tokens) * kv, e, e)
    for _ in tokens:
        for _ in range(h + kv):
            counts["rotated"] += m["rotary_dim"] or e
        counts["cache_written"] += 2 * kv * e
    looked_at = set()
    for request, position in tokens:
        for other in range(position + 1):
            if m["sliding_window"] and other <= position - m["sliding_window"]:
                continue
            looked_at.add((request, other))
            counts["scores"] += h
            counts["macs"] += 2 * h * e
    counts["cache_read"] = sum(2 * kv * e for _ in looked_at)
    if m["attention_sinks"]:
        counts["weights"] += h
        counts["parameters"] += h
    gates = 2 if m["gated_ffn"] else 1
    if m["num_experts"] == 1:
        matrix(len(tokens), d, gates * f, m["ffn_bias"])
        matrix(len(tokens), f, d, m["ffn_bias"])
        counts["activated"] = len(tokens) * f
    else:
        matrix(len(tokens), d, m["num_experts"], False)
        turn, rows = 0, [0] * m["num_experts"]
        for _ in tokens:
            for _ in range(m["num_experts_per_tok"]):
                rows[turn % len(rows)] += 1
                turn += 1
        for n in rows:
            matrix(n, d, gates * f, m["ffn_bias"], n > 0)
            matrix(n, f, d, m["ffn_bias"], n > 0)
            counts["activated"] += n * f
    counts["added"] = 2 * len(tokens) * d  # attention to the input, and the FFN to that
    return counts
