"""The operators of attention in one layer: with keys and values of its own heads, or with a compressed cache (MLA)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pimloom.arch.llm import LlmSpec
from pimloom.workload.batch import Batch
from pimloom.workload.op import Op
from pimloom.workload.shard import Cut


class Sight(NamedTuple):
    """What a layer's attention works on. window: tokens that it sees, None: all."""

    batch: Batch
    window: int | None
    tp: int


def attention(llm: LlmSpec, mine: Cut, at: Sight, after: tuple[str, ...]) -> Iterator[Op]:
    """All operators from the norm's output to what the projection makes of it."""
    yield from _compressed(llm, mine, at, after) if llm.kv_lora_rank else _by_heads(llm, mine, at, after)


def projection(llm: LlmSpec, mine: Cut, rows: int, after: tuple[str, ...]) -> Op:
    """The matrix behind attention; its bias is on every device of the tp group."""
    n_in, biased = mine.heads * llm.value_dim, llm.projection_bias
    return Op(
        name="self_attn.o_proj", kind="gemm", rows=rows, n_in=n_in, n_out=llm.hidden_size, held=1, biased=biased,
        after=after,
    )  # fmt: skip


def _by_heads(llm: LlmSpec, mine: Cut, at: Sight, after: tuple[str, ...]) -> Iterator[Op]:
    rows, dim, both = at.batch.rows, llm.head_dim, mine.heads + mine.kv_heads
    made = "self_attn.qkv_proj"
    yield Op(
        name=made, kind="gemm", rows=rows, n_in=llm.hidden_size, n_out=(both + mine.kv_heads) * dim, held=1,
        biased=llm.attention_bias, after=after,
    )  # fmt: skip
    values = made
    if llm.qk_norm != "none":
        for op in _qk_norms(llm, mine, at, (made,)):
            yield op
            made = op.name
    if turned := llm.rotated_dim:
        yield Op(name="self_attn.rotary_emb", kind="rotary", rows=rows * both, n_out=turned, after=(made,))
        made = "self_attn.rotary_emb"
    ready = tuple(dict.fromkeys((made, values)))
    yield Op(name="self_attn.cache", kind="cache_write", rows=rows, n_out=2 * mine.kv_heads * dim, after=ready)
    yield from _core(llm, at, Heads(mine.heads, mine.kv_heads, dim, dim), at.batch, ("self_attn.cache",))
    yield projection(llm, mine, rows, ("self_attn.value",))


def _qk_norms(llm: LlmSpec, mine: Cut, at: Sight, after: tuple[str, ...]) -> Iterator[Op]:
    """Norms of Q and K: of each head with the same parameters or its own, or of all heads together, whose squares the
    devices then add up."""
    rows, dim, whole = at.batch.rows, llm.head_dim, llm.qk_norm == "whole"
    for name, heads in (("self_attn.q_norm", mine.heads), ("self_attn.k_norm", mine.kv_heads)):
        yield Op(
            name=name, kind="norm", rows=rows if whole else rows * heads, n_in=heads * dim if whole else dim,
            n_out=heads * dim if whole else dim, held=heads if llm.qk_norm == "heads" else 1, function=llm.norm,
            alike=llm.qk_norm == "head", after=after,
        )  # fmt: skip
        after = (name,)
    if whole and at.tp > 1:
        yield Op(name="self_attn.qk_norm.all_reduce", kind="all_reduce", rows=rows, n_out=2, devices=at.tp, after=after)


class Heads(NamedTuple):
    """Heads that look, heads that are looked at, elements of a key and of a value, and elements of a key that all heads
    have in common."""

    query: int
    kv: int
    key_dim: int
    value_dim: int
    shared: int = 0


def _core(
    llm: LlmSpec, at: Sight, of: Heads, batch: Batch, after: tuple[str, ...], suffix: str = "", from_cache: bool = True
) -> Iterator[Op]:
    """Scores, their softmax, and the sum of the values that it weights."""
    rows, attended, cached = batch.rows, batch.attended(at.window), batch.cached(at.window)
    sizes: dict[str, Any] = {
        "rows": rows, "heads": of.query, "kv_heads": of.kv, "attended": attended, "cached": cached,
        "requests": batch.requests, "window": at.window,
        "from_cache": from_cache,
    }  # fmt: skip
    score, value = f"self_attn.score{suffix}", f"self_attn.value{suffix}"
    yield Op(name=score, kind="score", head_dim=of.key_dim, shared=of.shared, after=after, **sizes)
    if llm.attn_logit_softcapping:
        name = f"self_attn.softcap{suffix}"
        yield Op(name=name, kind="activation", rows=attended, n_in=of.query, n_out=of.query, function="softcap",
                 after=(score,))  # fmt: skip
        score = name
    sinks: dict[str, Any] = {"held": of.query, "biased": True} if llm.attention_sinks else {}
    yield Op(name=f"self_attn.softmax{suffix}", kind="softmax", after=(score,), **sizes, **sinks)
    yield Op(name=value, kind="value", head_dim=of.value_dim, after=(f"self_attn.softmax{suffix}",), **sizes)


def _compressed(llm: LlmSpec, mine: Cut, at: Sight, after: tuple[str, ...]) -> Iterator[Op]:
    """Multi-head latent attention: the cache holds one compressed vector and one rotated key of a token for all heads.

    Prompts and training expand all keys and values of their context; decode and verification work in the compressed
    space, where the matrix that would expand them is multiplied into Q and behind the sum of the values instead
    (DeepSeek-V2, arXiv:2405.04434, 2.1.2). Every device of a tp group holds the whole cache.
    """
    rows, turned = at.batch.rows, llm.rotated_dim
    latent = llm.kv_lora_rank or 0
    query = "self_attn.q_b_proj" if llm.q_lora_rank else "self_attn.q_proj"
    width = llm.q_lora_rank or llm.hidden_size
    if llm.q_lora_rank:
        yield _gemm("self_attn.q_a_proj", rows, llm.hidden_size, width, after, alike=True, biased=llm.attention_bias)
        yield _norm(llm, "self_attn.q_a_layernorm", rows, width, ("self_attn.q_a_proj",))
    wide = mine.heads * llm.head_dim
    yield _gemm(query, rows, width, wide, ("self_attn.q_a_layernorm",) if llm.q_lora_rank else after)
    compressed = "self_attn.kv_a_proj_with_mqa"
    yield _gemm(compressed, rows, llm.hidden_size, latent + turned, after, alike=True, biased=llm.attention_bias)
    yield _norm(llm, "self_attn.kv_a_layernorm", rows, latent, (compressed,))
    rotated = rows * (mine.heads + 1)
    yield Op(name="self_attn.rotary_emb", kind="rotary", rows=rotated, n_out=turned, after=(query, compressed))
    ready = ("self_attn.kv_a_layernorm", "self_attn.rotary_emb")
    yield Op(name="self_attn.cache", kind="cache_write", rows=rows, n_out=latent + turned, alike=True, after=ready)
    expanded, absorbed = at.batch.of("prefill", "train"), at.batch.of("decode", "verify")
    last: tuple[str, ...] = ()
    if absorbed.requests:
        last += ("self_attn.kv_b_proj.v",)
        yield from _absorbed(llm, mine, at, absorbed)
    if expanded.requests:
        mixed = bool(absorbed.requests)
        last += ("self_attn.value.prefill" if mixed else "self_attn.value",)
        yield from _expanded(llm, mine, at, expanded, suffix=".prefill" if mixed else "", held=not mixed)
    yield projection(llm, mine, rows, last)


def _absorbed(llm: LlmSpec, mine: Cut, at: Sight, batch: Batch) -> Iterator[Op]:
    latent, turned = llm.kv_lora_rank or 0, llm.rotated_dim
    each = (batch.rows,) * mine.heads
    sizes: dict[str, Any] = {"kind": "gemm", "rows": batch.rows * mine.heads, "each": each, "held": mine.heads}
    plain = llm.head_dim - turned
    yield Op(name="self_attn.kv_b_proj.k", n_in=plain, n_out=latent, after=("self_attn.rotary_emb",), **sizes)
    ready = ("self_attn.kv_b_proj.k", "self_attn.cache")
    yield from _core(llm, at, Heads(mine.heads, 1, latent + turned, latent), batch, ready)
    yield Op(name="self_attn.kv_b_proj.v", n_in=latent, n_out=llm.value_dim, after=("self_attn.value",), **sizes)


def _expanded(llm: LlmSpec, mine: Cut, at: Sight, batch: Batch, *, suffix: str, held: bool) -> Iterator[Op]:
    plain, tokens = llm.head_dim - llm.rotated_dim, batch.cached(at.window)
    name, wide = f"self_attn.kv_b_proj{suffix}", mine.heads * (plain + llm.value_dim)
    yield Op(
        name=name, kind="gemm", rows=tokens, cached=tokens, n_in=llm.kv_lora_rank or 0, n_out=wide, held=int(held),
        after=("self_attn.cache",),
    )  # fmt: skip
    of = Heads(mine.heads, mine.heads, llm.head_dim, llm.value_dim, llm.rotated_dim)  # keys turn the same for all heads
    yield from _core(llm, at, of, batch, (name,), suffix, False)


def _gemm(
    name: str, rows: int, n_in: int, n_out: int, after: tuple[str, ...], *, alike: bool = False, biased: bool = False
) -> Op:
    return Op(
        name=name, kind="gemm", rows=rows, n_in=n_in, n_out=n_out, held=1, biased=biased, alike=alike, after=after
    )


def _norm(llm: LlmSpec, name: str, rows: int, width: int, after: tuple[str, ...]) -> Op:
    return Op(
        name=name, kind="norm", rows=rows, n_in=width, n_out=width, held=1, function=llm.norm, alike=True, after=after
    )
