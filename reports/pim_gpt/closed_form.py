"""The specification's closed form of PIM-GPT's latency (3.4), to set beside the exact engine."""

from pimloom.arch.llm import load_llm
from pimloom.reports.pim_gpt.points import TOKENS


def closed_form_us(model: str) -> float:
    """Time per token by the closed form of the specification's 3.4, refresh factor included [µs]."""
    spec = load_llm(model)
    d, h, layers = spec.hidden_size, spec.num_attention_heads, spec.num_hidden_layers
    chunks, slots = -(-d // 1024), -(-d // 128)

    def product(n_in: int, n_out: int) -> float:
        cols = -(-n_out // 128)
        return n_in / 16 + cols * -(-n_in // 16) + 24 * -(-cols * n_in // 1024) + 1

    fixed = product(d, 3 * d) + product(d, d) + product(d, 4 * d) + product(4 * d, d)
    fixed += d / 16 + 36 * chunks + 37 * slots  # K and V writes
    adds = (3 * d * chunks, d * (chunks + 1), 4 * d * chunks, d * (-(-4 * d // 1024) + 1))
    fixed += 6 * -(-d // 128) + -(-4 * d // 128) + sum(-(-n // 256) for n in adds)
    total = 0.0
    for t in range(1, TOKENS + 1):
        there = -(-t // 128)
        score = d / 16 + there * h * -(-(d // h) // 16) + 24 * -(-there * d // 1024) + 1
        weighted = slots * t / 16 + slots * -(-t // 16) + 24 * slots * -(-t // 1024)
        total += fixed + score + weighted + -(-h * t // 128)
    return layers * total / TOKENS * 6825 / 6370 / 1000
