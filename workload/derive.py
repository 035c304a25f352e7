"""A model's operators for one step of a batch on one device: `ops`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.routing import EVEN
from pimloom.workload.attention import Sight, attention
from pimloom.workload.batch import Batch
from pimloom.workload.check import check
from pimloom.workload.ffn import dense, experts
from pimloom.workload.op import Bits, Op
from pimloom.workload.routing import Chosen
from pimloom.workload.shard import Cut, Shard, check_experts, cut, layers_of

PARTS = re.compile(r"\.(k|v|prefill)$")  # of the matrix that expands a compressed cache
ALONE = Shard()
WIDE = Bits()


def ops(
    llm: LlmSpec, batch: Batch, shard: Shard = ALONE, *, routing: Chosen = EVEN, bits: Bits = WIDE
) -> tuple[Op, ...]:
    """The operators of one step on one device, those of equal layers once.

    A later operator of a layer waits for those that its `after` names, and for what they wait for. Of phase `train`
    they are those of the forward pass; the backward pass multiplies twice for each of their products, for the gradient
    of what came in and for that of the weights. Raises UserError: contexts beyond the model's positions, a shard that
    does not come out even.
    """
    first, last = outside(llm, batch, shard, bits=bits)
    layers = [
        op
        for group in equal_layers(llm, layers_of(llm, shard))
        for op in _named(layer_ops(llm, batch, shard, group[0], routing=routing), group)
    ]
    return (*first, *_in_bits(layers, bits), *last)


def outside(llm: LlmSpec, batch: Batch, shard: Shard = ALONE, *, bits: Bits = WIDE) -> tuple[list[Op], list[Op]]:
    """Of the same step the operators before all layers, and those behind them. Raises UserError as `ops`."""
    longest = max((at.context for at in batch.requests), default=0)
    if longest > llm.max_position_embeddings:
        raise UserError(
            f"{llm.name}: a context of {longest:,} tokens, the model has {llm.max_position_embeddings:,} positions"
        )
    mine = cut(llm, shard.tp)
    check_experts(llm, shard)
    first = _entry(llm, mine, shard, batch) if shard.stage == 0 else ()
    return _in_bits(first, bits), _in_bits(_exit(llm, mine, shard, batch), bits)


def _in_bits(found: Iterable[Op], bits: Bits) -> list[Op]:
    return list(found) if bits == WIDE else [msgspec.structs.replace(op, bits=bits) for op in found]


@lru_cache(maxsize=256)
def layer_ops(
    llm: LlmSpec, batch: Batch, shard: Shard = ALONE, layer: int = 0, *, routing: Chosen = EVEN
) -> tuple[Op, ...]:
    """The operators of one layer, in an order in which they can run; positions are not checked. Raises UserError: a
    shape that contradicts itself, a shard that does not come out even.
    """
    check(llm)
    mine, rows = cut(llm, shard.tp), batch.rows
    at = Sight(batch, llm.window_of(layer), shard.tp)
    if llm.parallel_attention:
        return _quantised(llm, layer, _parallel(llm, mine, shard, at, layer, routing))
    found: list[Op] = []
    last = _norm_before(llm, found, "input_layernorm", rows, ())
    found += attention(llm, mine, at, last)
    last = _reduced(llm, found, "self_attn", shard, rows)
    last = _norm_after(llm, found, "post_attention_layernorm", rows, last)
    last = _residual(llm, found, "self_attn.residual", rows, last, 2)
    before = "pre_feedforward_layernorm" if llm.norm_placement == "both" else "post_attention_layernorm"
    last = _norm_before(llm, found, before, rows, last)
    found += _ffn(llm, mine, shard, rows, layer, routing, last)
    last = _reduced(llm, found, "mlp", shard, rows)
    last = _norm_after(llm, found, "post_feedforward_layernorm", rows, last)
    _residual(llm, found, "mlp.residual", rows, last, 2)
    return _quantised(llm, layer, found)


def _quantised(llm: LlmSpec, layer: int, found: Iterable[Op]) -> tuple[Op, ...]:
    """The same operators, with the bits of the matrices that the checkpoint has narrower."""
    if llm.quantization is None:
        return tuple(found)
    bits = llm.quantization.bits_of(layer)
    named = ((op, bits.get(PARTS.sub("", op.name))) for op in found)
    return tuple(op if n is None else msgspec.structs.replace(op, weight_bits=n) for op, n in named)


def in_order(found: Sequence[Op]) -> Iterator[tuple[int | None, Op]]:
    """Every operator with its layer, layer by layer, as they run one after the other; None: before or behind them."""
    before, behind = ends(found)
    yield from ((None, op) for op in before)
    for layer in sorted({layer for op in found for layer in op.layers}):
        yield from ((layer, op) for op in found if layer in op.layers)
    yield from ((None, op) for op in behind)


def ends(found: Sequence[Op]) -> tuple[list[Op], list[Op]]:
    """The operators before all layers, and those behind them."""
    first = next((i for i, op in enumerate(found) if op.layers), len(found))
    return list(found[:first]), [op for op in found[first:] if not op.layers]


def equal_layers(llm: LlmSpec, layers: Iterable[int]) -> list[tuple[int, ...]]:
    """Layers with the same operators together."""
    groups: dict[tuple[int | None, bool, int | None], list[int]] = {}
    for layer in layers:
        kind = (llm.window_of(layer), llm.is_dense(layer), llm.quantized_row(layer))
        groups.setdefault(kind, []).append(layer)
    return [tuple(group) for group in groups.values()]


def _named(found: Iterable[Op], layers: tuple[int, ...]) -> Iterator[Op]:
    return (msgspec.structs.replace(op, layers=layers) for op in found)


def _parallel(llm: LlmSpec, mine: Cut, shard: Shard, at: Sight, layer: int, routing: Chosen) -> Iterator[Op]:
    """Attention and FFN of the same input, through one norm or one each; one sum of both and the input."""
    rows, found = at.batch.rows, list[Op]()
    second = first = _norm_before(llm, found, "input_layernorm", rows, ())
    found += attention(llm, mine, at, first)
    if not llm.shared_norm:
        second = _norm_before(llm, found, "post_attention_layernorm", rows, ())
    found += _ffn(llm, mine, shard, rows, layer, routing, second)
    yield from found
    ends: tuple[str, ...] = ("self_attn.o_proj", found[-1].name)
    if shard.tp > 1:
        yield _all_reduce("mlp.all_reduce", shard, rows, llm.hidden_size, ends)
        ends = ("mlp.all_reduce",)
    yield Op(name="mlp.residual", kind="add", rows=rows, n_out=llm.hidden_size, terms=3, after=ends)


def _ffn(
    llm: LlmSpec, mine: Cut, shard: Shard, rows: int, layer: int, routing: Chosen, after: tuple[str, ...]
) -> Iterator[Op]:
    if llm.is_dense(layer):
        return dense(llm, mine.ffn, rows, after)
    return experts(llm, mine, shard, rows, routing, after)


def _norm_before(llm: LlmSpec, found: list[Op], name: str, rows: int, after: tuple[str, ...]) -> tuple[str, ...]:
    if llm.norm_placement == "post":
        return after
    found.append(_norm(llm, name, rows, after))
    return (name,)


def _norm_after(llm: LlmSpec, found: list[Op], name: str, rows: int, after: tuple[str, ...]) -> tuple[str, ...]:
    if llm.norm_placement == "pre":
        return after
    found.append(_norm(llm, name, rows, after))
    return (name,)


def _norm(llm: LlmSpec, name: str, rows: int, after: tuple[str, ...]) -> Op:
    width = llm.hidden_size
    return Op(
        name=name, kind="norm", rows=rows, n_in=width, n_out=width, held=1, biased=llm.norm == "layernorm",
        alike=True, function=llm.norm, after=after,
    )  # fmt: skip


def _reduced(llm: LlmSpec, found: list[Op], name: str, shard: Shard, rows: int) -> tuple[str, ...]:
    """The last operator's sum over the tp group, where there is one."""
    last = (found[-1].name,)
    if shard.tp == 1:
        return last
    found.append(_all_reduce(f"{name}.all_reduce", shard, rows, llm.hidden_size, last))
    return (f"{name}.all_reduce",)


def _residual(
    llm: LlmSpec, found: list[Op], name: str, rows: int, after: tuple[str, ...], terms: int
) -> tuple[str, ...]:
    found.append(Op(name=name, kind="add", rows=rows, n_out=llm.hidden_size, terms=terms, after=after))
    return (name,)


def _all_reduce(name: str, shard: Shard, rows: int, width: int, after: tuple[str, ...]) -> Op:
    return Op(name=name, kind="all_reduce", rows=rows, n_out=width, devices=shard.tp, after=after)


def _entry(llm: LlmSpec, mine: Cut, shard: Shard, batch: Batch) -> Iterator[Op]:
    """Rows of the embedding, and of learned positions."""
    rows, hidden, tp = batch.rows, llm.hidden_size, shard.tp
    last = "embed_tokens"
    yield Op(name=last, kind="embedding", rows=rows, n_in=mine.vocabulary, n_out=hidden, held=1, devices=tp,
             weight_bits=llm.quantization.embedding if llm.quantization else None)  # fmt: skip
    if tp > 1:
        yield _all_reduce("embed_tokens.all_reduce", shard, rows, hidden, (last,))
        last = "embed_tokens.all_reduce"
    if llm.scaled_embedding:
        yield Op(name="embed_tokens.scale", kind="multiply", rows=rows, n_out=hidden, after=(last,))
        last = "embed_tokens.scale"
    if table := llm.learned_positions:
        yield Op(name="embed_positions", kind="embedding", rows=rows, n_in=table, n_out=hidden, held=1, alike=True)
        yield Op(name="embed_positions.sum", kind="add", rows=rows, n_out=hidden, terms=2,
                 after=(last, "embed_positions"))  # fmt: skip


def _exit(llm: LlmSpec, mine: Cut, shard: Shard, batch: Batch) -> Iterator[Op]:
    """What goes on to the next stage; or norm, LM head and the choice of a token, where one is wanted."""
    hidden, tp, rows = llm.hidden_size, shard.tp, batch.logits
    if shard.stage < shard.pp - 1:
        yield Op(name="send", kind="send", rows=batch.rows, n_out=hidden, devices=2)
        return
    if not rows:
        return
    yield _norm(llm, "norm", rows, ())
    held = not llm.tie_word_embeddings or shard.pp > 1  # a stage of its own keeps the table once more
    narrow = llm.quantization.lm_head if llm.quantization else None
    yield Op(name="lm_head", kind="gemm", rows=rows, n_in=hidden, n_out=mine.vocabulary, held=int(held),
             weight_bits=narrow, after=("norm",))  # fmt: skip
    last = "lm_head"
    if llm.final_logit_softcapping:
        last, n = "lm_head.softcap", mine.vocabulary
        yield Op(name=last, kind="activation", rows=rows, n_in=n, n_out=n, function="softcap", after=("lm_head",))
    if tp > 1:
        yield Op(name="lm_head.all_gather", kind="all_gather", rows=rows, n_out=mine.vocabulary, devices=tp,
                 after=(last,))  # fmt: skip
        last = "lm_head.all_gather"
    yield Op(name="sampling", kind="sampling", rows=rows, n_in=mine.vocabulary * tp, n_out=1, after=(last,))
