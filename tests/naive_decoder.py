"""A decoder layer in plain float32 numpy, all tokens at once, from what Hugging Face's models say; and random weights.

Shares nothing with pimloom but the shape and the names under which a block takes its weights.
"""

from typing import Any

import numpy as np

from pimloom.arch.llm import LlmSpec
from pimloom.systems.devices.block import Weights

QKV, PROJECTION = "self_attn.qkv_proj", "self_attn.o_proj"
EXPERTS, SHARED = "mlp.experts.", "mlp.shared_experts."


def random_weights(llm: LlmSpec, rng: np.random.Generator, layer: int = 0) -> Weights:
    """Matrices keep the variance of their input, norms and biases are near 1 and 0."""
    d, dim, heads, kv = llm.hidden_size, llm.head_dim, llm.num_attention_heads, llm.num_key_value_heads
    matrices: dict[str, list[np.ndarray]] = {}
    biases: dict[str, list[np.ndarray]] = {}
    norms: dict[str, tuple[np.ndarray, ...]] = {}

    def vector(*shape: int, mean: float = 0.0) -> np.ndarray:
        return (mean + 0.1 * rng.normal(size=shape)).astype(np.float32)

    def matrix(name: str, n_in: int, n_out: int, bias: bool, count: int = 1) -> None:
        spread = np.float32(n_in) ** -0.5
        matrices[name] = [rng.normal(size=(n_in, n_out)).astype(np.float32) * spread for _ in range(count)]
        if bias:
            biases[name] = [vector(n_out) for _ in range(count)]

    def ffn(prefix: str, width: int, count: int = 1) -> None:
        up = prefix + ("gate_up_proj" if llm.gated_ffn else "up_proj")
        matrix(up, d, width * (2 if llm.gated_ffn else 1), llm.ffn_bias, count)
        matrix(prefix + "down_proj", width, d, llm.ffn_bias, count)

    matrix(QKV, d, (heads + 2 * kv) * dim, llm.attention_bias)
    matrix(PROJECTION, heads * dim, d, llm.projection_bias)
    if llm.num_experts > 1 and layer not in llm.dense_layers:
        matrix("mlp.gate", d, llm.num_experts, llm.router_bias)
        matrices["mlp.gate"][0] *= 3  # shares that differ
        ffn(EXPERTS, llm.moe_intermediate_size or llm.intermediate_size, llm.num_experts)
        if llm.num_shared_experts:
            ffn(SHARED, llm.num_shared_experts * (llm.moe_intermediate_size or llm.intermediate_size))
    else:
        ffn("mlp.", llm.intermediate_size)
    for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                 "post_feedforward_layernorm"):  # fmt: skip
        norms[name] = (vector(d, mean=1.0), vector(d))[: 1 + (llm.norm == "layernorm")]
    if llm.qk_norm != "none":
        for name, n in (("self_attn.q_norm", heads), ("self_attn.k_norm", kv)):
            shape = {"head": (dim,), "heads": (n, dim), "whole": (n * dim,)}[llm.qk_norm]
            norms[name] = (vector(*shape, mean=1.0),)
    turned = 0 if llm.model_type in ("gpt2", "opt") else llm.rotary_dim or dim
    frequencies = 10000.0 ** -(np.arange(0, turned, 2) / max(turned, 1)) if turned else None
    sinks = vector(heads, mean=1.0) if llm.attention_sinks else None
    return Weights(matrices, biases, norms, sinks, frequencies)


def normed(x: np.ndarray, gains: tuple[np.ndarray, ...], kind: str) -> np.ndarray:
    if kind == "layernorm":
        x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5) * gains[0]
    return x + gains[1] if len(gains) > 1 else x


def activated(name: str, x: np.ndarray) -> np.ndarray:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def linear(w: Weights, name: str, x: np.ndarray, which: int = 0) -> np.ndarray:
    y = x @ w.matrices[name][which]
    return y + w.biases[name][which] if name in w.biases else y


def softmax(x: np.ndarray) -> np.ndarray:
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def attention(llm: LlmSpec, w: Weights, x: np.ndarray, window: int | None) -> np.ndarray:
    """[tokens, d] to [tokens, d]: every head by itself."""
    tokens, dim, heads, kv = len(x), llm.head_dim, llm.num_attention_heads, llm.num_key_value_heads
    made = linear(w, QKV, x)
    q, k, v = np.split(made, (heads * dim, (heads + kv) * dim), axis=1)
    if llm.qk_norm == "whole":
        q, k = (normed(y, w.norms[f"self_attn.{n}_norm"], llm.norm) for n, y in (("q", q), ("k", k)))
    q, k, v = (y.reshape(tokens, -1, dim) for y in (q, k, v))
    if llm.qk_norm in ("head", "heads"):
        q, k = (normed(y, w.norms[f"self_attn.{n}_norm"], llm.norm) for n, y in (("q", q), ("k", k)))
    if w.frequencies is not None:
        q, k = (turned(y, w.frequencies) for y in (q, k))
    out = np.zeros((tokens, heads, dim), np.float32)
    for head in range(heads):
        mine = head * kv // heads  # groups of query heads that follow each other share a head of K and V
        for t in range(tokens):
            first = 0 if window is None else max(t + 1 - window, 0)
            scores = k[first : t + 1, mine] @ q[t, head] / np.sqrt(dim)
            if llm.attn_logit_softcapping:
                scores = w.cap * np.tanh(scores / w.cap)
            if w.sinks is not None:
                scores = np.append(scores, w.sinks[head])
            out[t, head] = softmax(scores)[: t + 1 - first] @ v[first : t + 1, mine]
    return linear(w, PROJECTION, out.reshape(tokens, -1))


def turned(x: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Hugging Face's apply_rotary_pos_emb on the first elements of each head; token i from 0 on turns by i."""
    n = 2 * len(frequencies)
    angles = np.arange(len(x))[:, None] * np.concatenate([frequencies, frequencies])
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    part = x[..., :n]
    rotated = np.concatenate([-part[..., n // 2 :], part[..., : n // 2]], axis=-1)
    return np.concatenate([part * cos + rotated * sin, x[..., n:]], axis=-1)


def feed_forward(llm: LlmSpec, w: Weights, x: np.ndarray, prefix: str = "mlp.", which: int = 0) -> np.ndarray:
    if not llm.gated_ffn:
        return linear(
            w, prefix + "down_proj", activated(llm.activation, linear(w, prefix + "up_proj", x, which)), which
        )
    gate, up = np.split(linear(w, prefix + "gate_up_proj", x, which), 2, axis=-1)
    return linear(w, prefix + "down_proj", activated(llm.activation, gate) * up, which)


def mixture(llm: LlmSpec, w: Weights, x: np.ndarray) -> np.ndarray:
    """Each token goes to its experts; their shares add up to 1."""
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        scores = linear(w, "mlp.gate", row)
        chosen = np.argsort(-scores, kind="stable")[: llm.num_experts_per_tok]
        for share, expert in zip(softmax(scores[chosen]), chosen, strict=True):
            out[t] += share * feed_forward(llm, w, row, EXPERTS, expert)
    return out + feed_forward(llm, w, x, SHARED) if llm.num_shared_experts else out


def layer(llm: LlmSpec, w: Weights, x: np.ndarray, index: int = 0) -> np.ndarray:
    """The output of layer `index` for all tokens x[tokens, d], float32."""
    window = None if index in llm.full_attention_layers else llm.sliding_window
    dense = llm.num_experts == 1 or index in llm.dense_layers

    def norm(name: str, y: np.ndarray) -> np.ndarray:
        return normed(y, w.norms[name], llm.norm)

    def ffn(y: np.ndarray) -> np.ndarray:
        return feed_forward(llm, w, y) if dense else mixture(llm, w, y)

    before: dict[str, Any] = {"pre": "post_attention_layernorm", "both": "pre_feedforward_layernorm"}
    into = norm("input_layernorm", x) if llm.norm_placement != "post" else x
    if llm.parallel_attention:
        second = into if llm.shared_norm else norm("post_attention_layernorm", x)
        return x + attention(llm, w, into, window) + ffn(second)
    made = attention(llm, w, into, window)
    x = x + (made if llm.norm_placement == "pre" else norm("post_attention_layernorm", made))
    made = ffn(norm(before[llm.norm_placement], x) if llm.norm_placement != "post" else x)
    return x + (made if llm.norm_placement == "pre" else norm("post_feedforward_layernorm", made))
