"""The operators of the feed-forward network of one layer, dense or of experts."""

from collections.abc import Iterator
from math import fsum
from typing import Any

from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import ceil_div
from pimloom.workload.op import Op
from pimloom.workload.routing import Chosen, Expectation, busy_chances, chances, tokens_of
from pimloom.workload.shard import Cut, Shard


def dense(llm: LlmSpec, width: int, rows: int, after: tuple[str, ...], name: str = "mlp") -> Iterator[Op]:
    """Two matrices, or three where the FFN is gated: `width` columns of it are this device's."""
    gates = 2 if llm.gated_ffn else 1
    up = f"{name}.gate_up_proj" if llm.gated_ffn else f"{name}.up_proj"
    sizes: dict[str, Any] = {"rows": rows, "biased": llm.ffn_bias, "held": 1}
    yield Op(name=up, kind="gemm", n_in=llm.hidden_size, n_out=gates * width, after=after, **sizes)
    yield _activation(llm, f"{name}.act_fn", rows, width, (up,))
    yield Op(
        name=f"{name}.down_proj", kind="gemm", n_in=width, n_out=llm.hidden_size, after=(f"{name}.act_fn",), **sizes
    )


def experts(llm: LlmSpec, mine: Cut, shard: Shard, rows: int, routing: Chosen, after: tuple[str, ...]) -> Iterator[Op]:
    """The router, the experts that it chooses, those that take all tokens, and the sum of what they say.

    With `ep` groups each serves as many requests as this one: a device's experts take tokens of all of them, as many as
    its part of the experts is sent.
    """
    hidden, each, count = llm.hidden_size, llm.num_experts_per_tok, llm.num_experts
    yield Op(name="mlp.gate", kind="gemm", rows=rows, n_in=hidden, n_out=count, held=1, alike=True,
             biased=llm.router_bias, after=after)  # fmt: skip
    yield Op(name="mlp.router", kind="router", rows=rows, n_in=count, n_out=each, alike=True, after=("mlp.gate",))
    ready = "mlp.router"
    if shard.ep > 1:
        ready = "mlp.experts.dispatch"
        yield _exchange(llm, ready, shard, rows, ("mlp.router",))
    here = count // shard.ep
    used, busy, sent = _used(llm, shard, rows, routing)
    gates = 2 if llm.gated_ffn else 1
    up = "mlp.experts.gate_up_proj" if llm.gated_ffn else "mlp.experts.up_proj"
    sizes: dict[str, Any] = {"kind": "gemm", "rows": sent, "each": used, "busy": busy, "held": here}
    sizes["biased"] = llm.ffn_bias
    yield Op(name=up, n_in=hidden, n_out=gates * mine.expert_ffn, after=(ready,), **sizes)
    if sent:
        yield _activation(llm, "mlp.experts.act_fn", sent, mine.expert_ffn, (up,), used)
    last = "mlp.experts.down_proj"
    yield Op(name=last, n_in=mine.expert_ffn, n_out=hidden, after=("mlp.experts.act_fn",) if sent else (up,), **sizes)
    if shard.ep > 1:
        yield _exchange(llm, "mlp.experts.combine", shard, rows, (last,))
        last = "mlp.experts.combine"
    parts: tuple[str, ...] = (last,)
    if llm.num_shared_experts:
        width = llm.num_shared_experts * mine.expert_ffn
        yield from dense(llm, width, rows, after, "mlp.shared_experts")
        parts += ("mlp.shared_experts.down_proj",)
    if (terms := each + bool(llm.num_shared_experts)) > 1:
        yield Op(name="mlp.experts.sum", kind="add", rows=rows, n_out=hidden, terms=terms, function="weighted",
                 after=parts)  # fmt: skip


def _used(
    llm: LlmSpec, shard: Shard, rows: int, routing: Chosen
) -> tuple[tuple[int, ...], float, int]:
    """Of a device's experts: tokens of each that has any, and none but how many have some in the mean where the routing
    is an expectation; tokens of all of them."""
    of = llm.num_experts_per_tok, llm.num_experts
    here, every = llm.num_experts // shard.ep, rows * shard.ep
    mine = slice(shard.rank * here, (shard.rank + 1) * here)
    if isinstance(routing, Expectation):
        busy = fsum(busy_chances(every, *of, routing.of)[mine])
        return (), busy, round(every * fsum(chances(*of, routing.of)[mine]))
    found = tokens_of(every, *of, routing)
    if not routing.drawn and routing.uniform:  # those with a token more are spread over the ranks
        mine = slice(shard.rank, None, shard.ep)
    used = tuple(n for n in found[mine] if n)
    return used, 0.0, sum(used)


def _activation(
    llm: LlmSpec, name: str, rows: int, width: int, after: tuple[str, ...], each: tuple[int, ...] = ()
) -> Op:
    terms = 2 if llm.gated_ffn else 1
    return Op(
        name=name, kind="activation", rows=rows, n_in=terms * width, n_out=width, terms=terms, each=each,
        function=llm.activation, after=after,
    )  # fmt: skip


def _exchange(llm: LlmSpec, name: str, shard: Shard, rows: int, after: tuple[str, ...]) -> Op:
    """Tokens to the devices of their experts, or back; each device of a tp group carries its part of the elements."""
    part = ceil_div(llm.hidden_size, shard.tp)
    return Op(
        name=name, kind="all_to_all", rows=rows * llm.num_experts_per_tok, n_out=part, devices=shard.ep, after=after
    )
