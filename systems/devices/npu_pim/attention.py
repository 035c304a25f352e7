"""Attention of a device's requests: on PIM, on the arrays for one new token, on the arrays for many."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.program import Operator
from pimloom.cycle_sim.npu_pim.prompt import Chunk, causal_attention
from pimloom.energy.npu_pim import Work
from pimloom.mappers.kv import Cache
from pimloom.systems.devices.npu_pim.npu_program import NpuProgram
from pimloom.systems.devices.npu_pim.parts import values_in_keys
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.work import fused_work, lane_ops, prompt_work, sum_work
from pimloom.workload.batch import Request, seen
from pimloom.workload.op import Op


class Placed(NamedTuple):
    """A request of a stage, and where its keys and values lie; None: in all channels."""

    request: Request
    cache: Cache | None


def attention(
    b: NpuProgram, core: Sequence[Op], requests: Sequence[Placed], before: Sequence[int], on_npu: Sequence[int]
) -> list[int]:
    """Attention of requests with one new token, or on PIM with some that are verified, and, on the arrays and behind
    what the NPU does before, of those with more; the last operators of the stage. core: scores to sums of values."""
    alone = b.shard.system.dram.row_buffers == "none"
    many = [each for each in requests if each.request.new > 1 and (alone or each.request.phase != "verify")]
    one = [each for each in requests if each not in many]
    made = []
    if one:
        made = [_fused(b, core, one, before)] if alone else _on_pim(b, core, one, before)
    if not many:
        return [*on_npu, *made]
    busy = made if alone else []  # the arrays take one after the other
    prompts = _prompts(b, core, many, [*on_npu, *busy] or before)
    return [prompts, *([] if busy else made)]


class Softmax(NamedTuple):
    """What becomes of the scores of a query. sink: with one more term; capped: behind a tanh."""

    sink: bool
    capped: bool

    def cyc(self, shard: Shard, tokens: int, rows: int = 1) -> int:
        """Cycles of so many scores of each of so many rows."""
        cap = shard.vector_cyc("softcap", tokens, rows) if self.capped else 0
        return cap + shard.vector_cyc("softmax", tokens + self.sink, rows)

    def ops(self, tokens: int) -> int:
        """Operations of vector lanes on the scores of a row."""
        return lane_ops("softmax", tokens + self.sink) + (lane_ops("softcap", tokens) if self.capped else 0)


def _softmax(core: Sequence[Op]) -> Softmax:
    return Softmax(
        sink=any(op.kind == "softmax" and op.held > 0 for op in core),
        capped=any(op.function == "softcap" for op in core),
    )


def _heads(shard: Shard, core: Sequence[Op], request: Request) -> Heads:
    """Of the scores and sums that the request has a part in."""
    mine, softmax = {op.kind: op for op in core if request in op.requests}, _softmax(core)
    score, value, npu = mine["score"], mine["value"], shard.system.npu
    return Heads(
        kv_heads=score.kv_heads,
        shared=score.heads // score.kv_heads,
        key_dim=score.head_dim,
        value_dim=value.head_dim,
        tile=npu.rows,
        arrays=npu.arrays,
        element_bytes=shard.element_bytes,
        softmax_cyc=lambda tokens, rows: softmax.cyc(shard, tokens, rows),
        window=score.window or 0,
        values_in_keys=values_in_keys(core, value),
    )


def _prompts(b: NpuProgram, core: Sequence[Op], which: Sequence[Placed], after: Sequence[int]) -> int:
    """Causal attention of prompts, or of parts of them, on the arrays."""
    heads = _heads(b.shard, core, which[0].request)
    made = b.operator("prompt", after, in_order=True, least=1)
    chunks = [Chunk(at.new, at.context - at.new) for at, _ in which]
    causal_attention(b.builder, made, chunks, heads)
    b.work.append(prompt_work(chunks, heads, _softmax(core).ops))
    return made.index


def _fused(b: NpuProgram, core: Sequence[Op], which: Sequence[Placed], after: Sequence[int]) -> int:
    """Attention of one new token of each request on the arrays."""
    shard = b.shard
    heads = _heads(shard, core, which[0].request)
    tokens = [seen(at, heads.window or None) for at, _ in which]
    made = b.operator("fused_mha", after, in_order=True, least=shard.rule.latency_cyc + 1)
    shard.rules.fused_mha(b.builder, made, tokens, heads)
    made.singly = shard.rule.drains
    b.work.append(fused_work(tokens, heads, _softmax(core).ops))
    return made.index


def _on_pim(b: NpuProgram, core: Sequence[Op], which: Sequence[Placed], after: Sequence[int]) -> list[int]:
    """Logits, their softmax, and products with V: all requests step by step, or each by itself; the last ones."""
    rules, window, softmax = b.shard.rules, core[0].window, _softmax(core)
    port, stores, chained = rules.pim_port, rules.results_port, rules.each_by_itself
    last, beside = [], -1
    for mine in [[each] for each in which] if chained else [which]:
        logits = b.operator("logit", after, port=port, least=1, together=beside, stores_port=stores)
        beside = logits.index if chained else -1
        values = b.operator("attend", (logits.index,), port=port, least=1, together=beside, stores_port=stores)
        did = Work(), Work()
        for at, cache in mine:
            assert cache is not None
            for context in range(at.context - at.new + 1, at.context + 1):  # a GEMV takes one query
                tokens = seen(at._replace(new=1, context=context), window)
                more = _one_request(b, (logits, values), tokens, cache, softmax)
                did = did[0].plus(more[0]), did[1].plus(more[1])
        b.work += did
        logits.singly = values.singly = rules.pim_singly
        last.append(values.index)
    return last


def _one_request(
    b: NpuProgram, made: tuple[Operator, Operator], tokens: int, cache: Cache, softmax: Softmax
) -> tuple[Work, Work]:
    """Commands and vector work of a request; what the NPU does for its logits and for its results."""
    logits, values = made
    shard, shape, into, rules = b.shard, b.shard.shape, b.builder, b.shard.rules
    size = shard.element_bytes
    groups = _send(b, logits, cache.channel, rules.logit(shape, tokens, cache.row_k))
    cycles = softmax.cyc(shard, rules.logits_seen(tokens))
    for h in range(shape.heads):
        into.task(logits, cycles, [groups[h]], into.store(logits, tokens * size))
    stream = rules.attend(shape, tokens, cache.row_v)
    groups = _send(b, values, cache.channel, stream, by_tile=rules.sums_by_tile)
    partial = ceil_div(tokens, shape.row)
    add = rules.sum_cyc(partial, shape.head_dim)
    for group in groups if rules.stores_sums(partial) else ():
        into.task(values, add, [group], into.store(values, shape.head_dim * size))
    done = Work(0, shape.heads * softmax.ops(tokens), 4 * shape.heads * tokens * size)  # scores come, shares go
    return done, sum_work(partial, shape.heads * shape.head_dim, size)


def _send(b: NpuProgram, op: Operator, channel: int, stream: np.ndarray, by_tile: bool = False) -> list[int]:
    """A stream's commands, with a group for each head, or each tile of a head's V, and one for the others; returns the
    heads' groups."""
    shape, of = b.shard.shape, stream["head"]
    tiles = ceil_div(shape.head_dim, shape.banks) if by_tile else 1
    if by_tile:
        ended = np.cumsum(stream["last"]) - stream["last"]  # tiles before
        of = np.where(of < 0, -1, of * tiles + ended % tiles)
    groups = np.array(b.builder.groups(op, shape.heads * tiles + 1))
    b.builder.dots(op, channel, stream, groups[of])
    return groups[:-1].tolist()
