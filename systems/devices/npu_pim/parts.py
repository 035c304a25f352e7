"""A layer's operators in the parts of which the stages of `mappers.interleave` are made, and what results call them."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.workload.batch import Batch, Phase, Request
from pimloom.workload.op import LINKS, Op

FREE = ("cache_write",)  # K and V are stored by the last operator before it
TITLES = {  # of a module, by the end of its name
    "input_layernorm": "norm",
    "post_attention_layernorm": "norm",
    "pre_feedforward_layernorm": "norm",
    "post_feedforward_layernorm": "norm",
    "qkv_proj": "qkv",
    "rotary_emb": "rotary",
    "o_proj": "projection",
    "residual": "residual",
    "mlp.gate": "router",
    "mlp.router": "choice",
    "up_proj": "ffn1",
    "gate_up_proj": "ffn1",
    "act_fn": "activation",
    "down_proj": "ffn2",
    "experts.sum": "mix",
}


class Parts(NamedTuple):
    """Operators before attention, scores to sums of values, operators behind; each in an order that works."""

    before: tuple[Op, ...]
    attention: tuple[Op, ...]
    behind: tuple[Op, ...]


def parts_of(made: Sequence[Op]) -> Parts:
    """What attention waits for, attention, and all the rest: of a parallel block also what does not wait for it."""
    core = [op for op in made if op.kind in ("score", "softmax", "value") or op.function == "softcap"]
    named, wanted = {op.name for op in core}, {name for op in core for name in op.after}
    for op in reversed(made):
        if op.name in wanted:
            wanted.update(op.after)
    before = tuple(op for op in made if op.name in wanted - named)
    return Parts(before, tuple(core), tuple(op for op in made if op.name not in wanted | named))


def on_device(made: Sequence[Op], *, links: bool = False) -> Iterator[Op]:
    """Those that take time on a device, one behind the other: each expert by itself, its matrices and what is between
    them. links: with what devices send one another."""
    there = [op for op in made if op.kind not in FREE and (links or op.kind not in LINKS)]
    for experts, group in groupby(there, lambda op: op.name.startswith("mlp.experts.") and bool(op.each)):
        some = list(group)
        if not experts:
            yield from some
            continue
        for i, rows in enumerate(some[0].each):
            yield from (replace(op, rows=rows, each=(), held=0, name=f"{op.name}.{i}") for op in some)


def title(op: Op) -> str:
    """What the results call it."""
    return _title(op.name)


@lru_cache(1 << 12)
def _title(name: str) -> str:
    name = name.rstrip(".0123456789")
    known = [said for end, said in TITLES.items() if name == end or name.endswith(f".{end}")]
    return known[0] if known else name.split(".", 1)[1].replace(".", "_")


def on_arrays(said: str) -> bool:
    """Whether an operator of this name in the results runs on the arrays."""
    return said in ("qkv", "projection", "router", "ffn1", "ffn2", "fused_mha", "prompt") or "_proj" in said


def values_in_keys(core: Sequence[Op], value: Op) -> bool:
    """Whether the values of a sum are parts of the keys of its scores: of a compressed cache for all heads (MLA)."""
    score = next(op for op in core if op.kind == "score" and op.requests == value.requests)
    return value.from_cache and value.kv_heads == 1 and value.head_dim < score.head_dim


def batch_of(tokens: Sequence[int], new: Sequence[int] | None = None, checked: Sequence[bool] = ()) -> Batch:
    """Contexts of `tokens`, of which the last one, or the last `new`, are computed; `checked` ones are verified."""
    each = zip(new or [1] * len(tokens), tokens, checked or [False] * len(tokens), strict=True)
    return Batch(tuple(Request(_phase(n, drafts), n, context, 1) for n, context, drafts in each))


def _phase(new: int, checked: bool) -> Phase:
    if new == 1:
        return "decode"
    return "verify" if checked else "prefill"
