"""One decoder layer of one tensor-parallel shard as a program of operators, stage by stage.

Stages are those of `mappers.interleave`: a stage begins when both programs of the one before, that of the NPU and that
of PIM, have ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pimloom.arch.pim_stream import GWRITE
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu.vectors import VectorOp
from pimloom.cycle_sim.npu_pim.fused import Heads, fused_mha
from pimloom.cycle_sim.npu_pim.operators import GemmFaults, by_row, by_tile, gemm
from pimloom.cycle_sim.npu_pim.program import Builder, Operator
from pimloom.cycle_sim.npu_pim.prompt import Chunk, PromptHeads, causal_attention
from pimloom.energy.npu_pim import Work
from pimloom.mappers.interleave import Stage, stages
from pimloom.mappers.kv import Cache, attend, logit
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.systems.devices.npu_pim.work import fused_work, gemm_work, prompt_work, sum_work, vector_work

NPU, PIM, RESULTS = range(3)  # ports
ACTIVATION_BYTES = 512 * 2**20  # casys-kaist/NeuPIMs@f299af3: the buffer before the cache
PARAMETERS = {"norm": 2, "rmsnorm": 1}  # rows that are loaded for all: beta and gamma, or gamma
HEADER_BITS = 32  # casys-kaist/NeuPIMs@f299af3, NeuPIMSLogitSoftmax.cc: what it keeps of the address of a header for K


@dataclass
class LayerProgram:
    """The operators of a layer, what each makes the NPU do, and which of them make a stage."""

    shard: Shard
    tokens: Sequence[int]
    caches: Sequence[Cache]
    new: Sequence[int] = ()  # tokens of each request, of its context; empty: one of each
    builder: Builder = field(default_factory=Builder)
    work: list[Work] = field(default_factory=list)
    stages: dict[str, list[int]] = field(default_factory=dict)

    def build(self, sub_batches: Sequence[Sequence[int]], order: Sequence[Stage] = ()) -> "LayerProgram":
        """The stages in `order`, or all once each, for these sub-batches: numbers of requests, at least one in each."""
        before: Sequence[int] = ()
        for stage in order or stages(len(sub_batches)):
            last: list[int] = []
            if stage.through is not None:
                last = [self._projection_ffn(self.rows(sub_batches[stage.through]), before)]
            if stage.qkv:
                last = [self._qkv(sum(self.rows(sub_batches[i]) for i in stage.qkv), last or before)]
            if stage.attention is not None:
                last = self._attend_all(self._in_turn(sub_batches[stage.attention]), before, last)
            before = self.stages[stage.name] = last
        return self

    def rows(self, requests: Sequence[int]) -> int:
        """Rows of the matrices for these requests: their new tokens."""
        return sum(self.new[i] for i in requests) if self.new else len(requests)

    def _attend_all(self, requests: Sequence[int], before: Sequence[int], on_npu: list[int]) -> list[int]:
        """Attention of requests with one new token and, on the arrays and behind what the NPU does before, of those
        with more; the last operators of the stage."""
        many = [i for i in requests if self.new and self.new[i] > 1]
        one = [i for i in requests if i not in set(many)]
        made = self._attention(one, before) if one else []
        if not many:
            return on_npu + made
        busy = made if self.shard.system.dram.row_buffers == "none" else []  # the arrays take one after the other
        prompts = self._prompts(many, on_npu + busy or before)
        return [prompts, *([] if busy else made)]

    def _prompts(self, which: Sequence[int], after: Sequence[int]) -> int:
        """Causal attention of prompts, or of parts of them, on the arrays."""
        shard, shape, npu = self.shard, self.shard.shape, self.shard.system.npu
        heads = PromptHeads(
            kv_heads=shape.kv_heads,
            shared=shape.shared,
            head_dim=shape.head_dim,
            tile=npu.rows,
            arrays=npu.arrays,
            element_bytes=shard.element_bytes,
            window=shard.llm.sliding_window or 0,
            softmax_cyc=lambda tokens, rows: shard.vector_cyc("softmax", tokens, rows),
        )
        made = self._operator("prompt", after, in_order=True, least=1)
        chunks = [Chunk(self.new[i], self.tokens[i] - self.new[i]) for i in which]
        causal_attention(self.builder, made, chunks, heads)
        self.work.append(prompt_work(chunks, heads))
        return made.index

    def _in_turn(self, requests: Sequence[int]) -> Sequence[int]:
        """The requests of a sub-batch in the order in which PIM takes them."""
        by_channel = self.shard.system.faults.requests_by_channel and self.caches
        return sorted(requests, key=lambda i: self.caches[i].channel) if by_channel else requests

    def _operator(self, name: str, after: Sequence[int], **options: Any) -> Operator:
        """An operator behind others; the first ones of a stage may start later."""
        begins = not after or (self.changes_late and after[0] in next(reversed(self.stages.values()), ()))
        return self.builder.operator(name, after, pause=int(self.ends_late and begins), **options)

    @property
    def ends_late(self) -> bool:
        """Whether an operator's end is seen a cycle late, and the first one starts in cycle 1."""
        return self.shard.system.faults.ends_seen_late

    @property
    def changes_late(self) -> bool:
        """Whether a cycle goes by between two stages, which the simulator's total leaves out."""
        return self.ends_late and self.shard.system.dram.row_buffers != "none"

    # --- operators; each returns the number of the last one

    def _vector(
        self, name: str, rows: int, width: int, operands: int, after: Sequence[int], op: VectorOp = "add"
    ) -> int:
        shard, npu = self.shard, self.shard.system.npu
        faults, size = shard.system.faults, width * shard.element_bytes
        together = 1 if faults.vectors_by_row else min(rows, npu.rows)
        cycles = shard.vector_cyc(op, 0) if faults.vector_sizes_lost else shard.vector_cyc(op, width, together)
        made = self._operator(name, after, least=cycles)
        if faults.vectors_by_row:
            by_row(self.builder, made, rows, size, operands, cycles, PARAMETERS.get(op, 0))
        else:
            by_tile(self.builder, made, rows, size, operands, cycles, npu.rows)
        made.singly = shard.rule.drains
        self.work.append(vector_work(op, rows, width, operands, shard.element_bytes))
        return made.index

    def _gemm(self, name: str, rows: int, n_in: int, n_out: int, after: Sequence[int], *, biased: bool) -> int:
        shard, npu = self.shard, self.shard.system.npu
        made = self._operator(name, after, in_order=True, least=shard.least_cyc)
        sizes, f = (rows, n_in, n_out, npu.rows, shard.element_bytes), shard.system.faults
        faults = GemmFaults(f.strip_stored, f.bias_by_rows, f.weights_first, f.stores_when_idle and f.queues_in_order)
        gemm(self.builder, made, *sizes, by_output=npu.dataflow == "os", biased=biased, faults=faults)
        made.singly = shard.rule.drains
        self.work.append(gemm_work(*sizes, biased=biased))
        return made.index

    def _qkv(self, rows: int, after: Sequence[int]) -> int:
        llm, shape = self.shard.llm, self.shard.shape
        norm = self._norm(rows, after)
        width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        return self._gemm("qkv", rows, llm.hidden_size, width, (norm,), biased=llm.attention_bias)

    def _projection_ffn(self, rows: int, after: Sequence[int]) -> int:
        llm, shape, tp = self.shard.llm, self.shard.shape, self.shard.tp
        width, parallel = shape.heads * shape.head_dim, llm.parallel_attention
        done = self._gemm("projection", rows, width, llm.hidden_size, after, biased=llm.projection_bias)
        if not parallel:  # else one sum of the block's input, attention and FFN
            done = self._vector("residual", rows, llm.hidden_size, 2, (done,))
        done = self._ffn(rows, ceil_div(llm.intermediate_size, tp), (self._norm(rows, (done,)),))
        return self._vector("residual", rows, llm.hidden_size, 3 if parallel else 2, (done,))

    def _norm(self, rows: int, after: Sequence[int]) -> int:
        llm = self.shard.llm
        return self._vector("norm", rows, llm.hidden_size, 1, after, "rmsnorm" if llm.norm == "rmsnorm" else "norm")

    def _ffn(self, rows: int, width: int, after: Sequence[int]) -> int:
        """Two matrices, or three where the FFN is gated; of experts, each those rows that the router sends it."""
        llm = self.shard.llm
        if llm.num_experts > 1:
            after = (self._gemm("router", rows, llm.hidden_size, llm.num_experts, after, biased=False),)
        done = after[-1]
        for expert_rows in dealt(rows * llm.num_experts_per_tok, llm.num_experts):
            if expert_rows:
                gates = 2 if llm.gated_ffn else 1
                done = self._gemm("ffn1", expert_rows, llm.hidden_size, gates * width, (done,), biased=llm.ffn_bias)
                done = self._vector("activation", expert_rows, width, gates, (done,))
                done = self._gemm("ffn2", expert_rows, width, llm.hidden_size, (done,), biased=llm.ffn_bias)
        if llm.num_experts_per_tok > 1:
            done = self._vector("mix", rows, llm.hidden_size, llm.num_experts_per_tok, (done,))
        return done

    def _attention(self, which: Sequence[int], after: Sequence[int]) -> list[int]:
        """Logits, their softmax, and products with V: all requests step by step, or each by itself; the last ones."""
        system = self.shard.system
        if system.dram.row_buffers == "none":
            return [self._fused_attention(which, after)]
        port, waits = NPU if self._one_port() else PIM, system.faults.attend_waits_for_all
        dispatched = system.faults.pim_dispatched_singly and system.dram.row_buffers == "blocked"
        last, beside, stores = [], -1, port if waits or port == NPU else RESULTS
        for mine in [which] if waits else [[i] for i in which]:
            logits = self._operator("logit", after, port=port, least=1, together=beside, stores_port=stores)
            beside = -1 if waits else logits.index
            values = self._operator("attend", (logits.index,), port=port, least=1, together=beside, stores_port=stores)
            self.work += [Work(), Work()]
            for i in mine:
                self._one_request(logits, values, self.tokens[i], self.caches[i])
            logits.singly = values.singly = dispatched
            last.append(values.index)
        return last

    def _fused_attention(self, which: Sequence[int], after: Sequence[int]) -> int:
        shard, shape, npu = self.shard, self.shard.shape, self.shard.system.npu
        faults = shard.system.faults
        heads = Heads(
            kv_heads=shape.kv_heads,
            shared=shape.shared,
            head_dim=shape.head_dim,
            tile=npu.rows,
            arrays=npu.arrays,
            element_bytes=shard.element_bytes,
            softmax_cyc=lambda tokens: shard.vector_cyc("softmax", tokens),
        )
        made = self._operator("fused_mha", after, in_order=True, least=shard.rule.latency_cyc + 1)
        fused_mha(self.builder, made, [self.tokens[i] for i in which], heads, serial=faults.attention_serial)
        made.singly = shard.rule.drains
        tokens = [self.tokens[i] for i in which]
        self.work.append(fused_work(tokens, shape.kv_heads, shape.shared, shape.head_dim, shard.element_bytes))
        return made.index

    def _one_port(self) -> bool:
        system = self.shard.system
        return system.faults.one_queue and system.interleave.sub_batches == 1

    def _one_request(self, logits: Operator, values: Operator, tokens: int, cache: Cache) -> None:
        shard, shape, b = self.shard, self.shard.shape, self.builder
        faults, size = shard.system.faults, shard.element_bytes
        fused = shard.system.dram.row_buffers == "dual"
        exact = not faults.header_counts_rounded
        seen = tokens * size if faults.vector_sizes_lost else tokens  # the simulator takes bytes for elements
        wraps = 2**HEADER_BITS // shard.row_bytes if faults.header_rows_wrap else None
        stream = logit(shape, tokens, cache.row_k, fused=fused, exact=exact, header_rows=wraps)
        groups = self._send(logits, cache.channel, self._from_its_row(stream))
        for h in range(shape.heads):
            b.task(logits, shard.vector_cyc("softmax", seen), [groups[h]], b.store(logits, tokens * size))
        self._did(logits, vector_work("softmax", shape.heads, tokens, 1, size))
        stream = attend(shape, tokens, cache.row_v, fused=fused, exact=exact, same_rows=faults.same_rows)
        by_tile = faults.adds_by_tile
        groups = self._send(values, cache.channel, self._from_its_row(stream), by_tile=by_tile)
        self._did(values, sum_work(ceil_div(tokens, shape.row), shape.heads * shape.head_dim, size))
        partial = ceil_div(tokens, shape.row)
        if partial == 1 and faults.attend_not_stored:
            return
        one = shard.vector_cyc("add", shape.head_dim * (size if faults.vector_sizes_lost else 1))
        add = one if faults.vector_sizes_lost else (partial - 1) * one
        for group in groups:
            b.task(values, add, [group], b.store(values, shape.head_dim * size))

    def _from_its_row(self, stream: np.ndarray) -> np.ndarray:
        """The stream with q and logits where they lie: at the end of the buffer of activations."""
        if not self.shard.system.faults.gwrites_of_row_0:
            stream["row"][stream["cmd"] == GWRITE] = ceil_div(ACTIVATION_BYTES, self.shard.row_bytes) - 1
        return stream

    def _did(self, op: Operator, work: Work) -> None:
        self.work[op.index] = self.work[op.index].plus(work)

    def _send(self, op: Operator, channel: int, stream: np.ndarray, by_tile: bool = False) -> list[int]:
        """A stream's commands, with a group for each head, or each tile of a head's V, and one for the others; returns
        the heads' groups."""
        shape, of = self.shard.shape, stream["head"]
        tiles = ceil_div(shape.head_dim, shape.banks) if by_tile else 1
        if by_tile:
            ended = np.cumsum(stream["last"]) - stream["last"]  # tiles before
            of = np.where(of < 0, -1, of * tiles + ended % tiles)
        groups = np.array([self.builder.group(op) for _ in range(shape.heads * tiles + 1)])
        self.builder.dots(op, channel, stream, groups[of])
        return groups[:-1].tolist()


def dealt(rows: int, experts: int) -> list[int]:
    """Rows of each expert, as even as can be."""
    return [rows // experts + (i < rows % experts) for i in range(experts)]
