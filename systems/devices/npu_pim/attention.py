"""Attention of a device's requests: on PIM, on the arrays for one new token, on the arrays for many."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.pim_stream import COPY
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.fused import fused_mha
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.program import Operator
from pimloom.cycle_sim.npu_pim.prompt import Chunk, causal_attention
from pimloom.energy.npu_pim import Work
from pimloom.mappers.kv import Cache, attend, logit
from pimloom.systems.devices.npu_pim.npu_program import NpuProgram
from pimloom.systems.devices.npu_pim.parts import values_in_keys
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.work import fused_work, lane_ops, prompt_work, sum_work
from pimloom.workload.batch import Request, seen
from pimloom.workload.op import Op

NPU, PIM, RESULTS = range(3)  # ports
ACTIVATION_BYTES = 512 * 2**20  # casys-kaist/NeuPIMs@f299af3: the buffer before the cache
HEADER_BITS = 32  # casys-kaist/NeuPIMs@f299af3, NeuPIMSLogitSoftmax.cc: what it keeps of the address of a header for K


class Placed(NamedTuple):
    """A request of a stage, and where its keys and values lie; None: in all channels."""

    request: Request
    cache: Cache | None


def attention(
    b: NpuProgram, core: Sequence[Op], requests: Sequence[Placed], before: Sequence[int], on_npu: Sequence[int]
) -> list[int]:
    """Attention of requests with one new token and, on the arrays and behind what the NPU does before, of those with
    more; the last operators of the stage. core: scores to sums of values."""
    many = [each for each in requests if each.request.new > 1]
    one = [each for each in requests if each.request.new == 1]
    alone = b.shard.system.dram.row_buffers == "none"
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
    fused_mha(b.builder, made, tokens, heads, serial=shard.system.faults.attention_serial)
    made.singly = shard.rule.drains
    b.work.append(fused_work(tokens, heads, _softmax(core).ops))
    return made.index


def _on_pim(b: NpuProgram, core: Sequence[Op], which: Sequence[Placed], after: Sequence[int]) -> list[int]:
    """Logits, their softmax, and products with V: all requests step by step, or each by itself; the last ones."""
    system = b.shard.system
    faults, one_port = system.faults, system.faults.one_queue and system.interleave.sub_batches == 1
    port, waits = NPU if one_port else PIM, faults.attend_waits_for_all
    dispatched = faults.pim_dispatched_singly and system.dram.row_buffers == "blocked"
    window, softmax = core[0].window, _softmax(core)
    last, beside, stores = [], -1, port if waits or port == NPU else RESULTS
    for mine in [which] if waits else [[each] for each in which]:
        logits = b.operator("logit", after, port=port, least=1, together=beside, stores_port=stores)
        beside = -1 if waits else logits.index
        values = b.operator("attend", (logits.index,), port=port, least=1, together=beside, stores_port=stores)
        did = Work(), Work()
        for at, cache in mine:
            assert cache is not None
            more = _one_request(b, (logits, values), seen(at, window), cache, softmax)
            did = did[0].plus(more[0]), did[1].plus(more[1])
        b.work += did
        logits.singly = values.singly = dispatched
        last.append(values.index)
    return last


def _one_request(
    b: NpuProgram, made: tuple[Operator, Operator], tokens: int, cache: Cache, softmax: Softmax
) -> tuple[Work, Work]:
    """Commands and vector work of a request; what the NPU does for its logits and for its results."""
    logits, values = made
    shard, shape, into = b.shard, b.shard.shape, b.builder
    faults, size = shard.system.faults, shard.element_bytes
    fused = shard.system.dram.row_buffers == "dual"
    exact = not faults.header_counts_rounded
    counted = tokens * size if faults.vector_sizes_lost else tokens  # the simulator takes bytes for elements
    wraps = 2**HEADER_BITS // shard.row_bytes if faults.header_rows_wrap else None
    stream = logit(shape, tokens, cache.row_k, fused=fused, exact=exact, header_rows=wraps)
    groups = _send(b, logits, cache.channel, _from_its_row(shard, stream))
    for h in range(shape.heads):
        into.task(logits, softmax.cyc(shard, counted), [groups[h]], into.store(logits, tokens * size))
    stream = attend(shape, tokens, cache.row_v, fused=fused, exact=exact, same_rows=faults.same_rows)
    groups = _send(b, values, cache.channel, _from_its_row(shard, stream), by_tile=faults.adds_by_tile)
    partial = ceil_div(tokens, shape.row)
    if partial > 1 or not faults.attend_not_stored:
        one = shard.vector_cyc("add", shape.head_dim * (size if faults.vector_sizes_lost else 1))
        add = one if faults.vector_sizes_lost else (partial - 1) * one
        for group in groups:
            into.task(values, add, [group], into.store(values, shape.head_dim * size))
    done = Work(0, shape.heads * softmax.ops(tokens), 4 * shape.heads * tokens * size)  # scores come, shares go
    return done, sum_work(partial, shape.heads * shape.head_dim, size)


def _from_its_row(shard: Shard, stream: np.ndarray) -> np.ndarray:
    """The stream with q and logits where they lie: at the end of the buffer of activations."""
    if not shard.system.faults.gwrites_of_row_0:
        stream["row"][stream["cmd"] == COPY] = ceil_div(ACTIVATION_BYTES, shard.row_bytes) - 1
    return stream


def _send(b: NpuProgram, op: Operator, channel: int, stream: np.ndarray, by_tile: bool = False) -> list[int]:
    """A stream's commands, with a group for each head, or each tile of a head's V, and one for the others; returns the
    heads' groups."""
    shape, of = b.shard.shape, stream["head"]
    tiles = ceil_div(shape.head_dim, shape.banks) if by_tile else 1
    if by_tile:
        ended = np.cumsum(stream["last"]) - stream["last"]  # tiles before
        of = np.where(of < 0, -1, of * tiles + ended % tiles)
    groups = np.array([b.builder.group(op) for _ in range(shape.heads * tiles + 1)])
    b.builder.dots(op, channel, stream, groups[of])
    return groups[:-1].tolist()
