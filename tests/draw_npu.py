"""Random machines and programs, for the compiled machine and for the naive one."""

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import numpy as np

from pimloom.arch.pim_channel import PrechargeScope
from pimloom.arch.pim_stream import COPY
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.machine import Npu, PimError, drained, run
from pimloom.cycle_sim.npu_pim.operators import WHAT_IT_NEEDS, GemmMoves, by_tile, gemm
from pimloom.cycle_sim.npu_pim.program import Builder
from pimloom.cycle_sim.npu_pim.program import Operator as BuilderOperator
from pimloom.cycle_sim.npu_pim.prompt import Chunk, causal_attention
from pimloom.mappers.kv import Shape, attend, logit
from pimloom.systems.reference.neupims import by_row
from tests.naive_cores import InOrder, OutOfOrder
from tests.naive_neupims import Request
from tests.naive_npu import Operator, Rules, Task
from tests.neupims_engine import COMMAND, FIXES, spec

NAIVE = {ours: theirs for theirs, ours in COMMAND.items()}
ROW_ELEMENTS, ALL_BANKS, LANES = 512, 32, 16
SHIFT = 2  # bytes of an element
CLOCK_PS = 1000  # of the memory


def naive_operators(b: Builder) -> list[Operator]:
    found = []
    for o in b.operators:
        tasks = [
            Task(
                c,
                pre in (k.TILE, k.VECTOR),
                needs,
                store,
                i in o.wide,
                o.entry.get(i, -1),
                *o.follows.get(i, (-1, 0)),
                on_unit=pre == k.ON_UNIT,
            )
            for i, (c, pre, needs, store) in enumerate(o.tasks)
        ]
        pim = []
        for row in np.concatenate(o.dots).tolist() if o.dots else []:
            kind, bank, at, column, count, comps, results, last, group, channel = row
            name = NAIVE[f.COMMANDS[kind]]
            pim.append((channel, Request(name, bank, at, column, count, comps, results, bool(last), group)))
        groups = {g for g, owner in enumerate(b.owners) if owner == o.index}
        gates = {load: o.stores[store][2] for load, store in o.gates.items()}
        made = Operator(
            o.name, o.port, o.in_order, o.after, o.bytes, o.loads, gates, tasks, o.stores,
            {store: group for store, group in o.bias.items() if group >= 0}, pim, groups, o.stores_port, o.singly,
            o.pause,
        )  # fmt: skip
        found.append(made)
    return found


class Draw:
    """A random machine and a random program for it.

    plain: two ports, one length of tasks for all of an attention, blocks in order, PIM commands at once. chained:
    requests do not wait for one another. released: as NeuPIMs' simulator, or with some of its rules.
    """

    def __init__(self, seed: int, plain: bool = False, chained: bool = False, released: bool = False) -> None:
        name = "chained " if chained else "released " if released else ""
        rng = self.rng = Random(f"NPU {name}{seed}")
        self.plain, self.chained, self.released = plain, chained, released
        self.mode = rng.choice(["DUAL", "SINGLE"])
        self.fixes = [fix for fix in (*FIXES, 21) if rng.random() < 0.3]
        self.precharge: PrechargeScope = rng.choice(["bank", "group", "channel"]) if self.mode == "DUAL" else "bank"
        self.channels = rng.choice([2, 2, 4])
        self.ports = 2 if plain else rng.choice([2, 3] if chained else [1, 2])
        self.longest = rng.choice([1, 10, 100, 1000])
        self.singly = not plain and self.mode == "SINGLE" and rng.random() < 0.3
        rows, step, units = rng.choice([8, 16]), rng.choice([2, 4]), rng.choice([1, 2, 8])
        wrap = rng.choice([2**13, 2**16, 2**20 + 2**14])
        self.rules = Rules(rows, step, wrap, not plain and rng.random() < 0.5, units, 21 in self.fixes)
        if not plain and not released and rng.random() < 0.4:
            self.rules = replace(self.rules, cycle=Fraction(rng.choice([500, 625, 937, 1600, 2500]), CLOCK_PS))
        self.window: int | None = None
        self.moves, self.loads_singly = WHAT_IT_NEEDS, False
        if released:
            self.switch()
        self.builder = Builder()
        self.row = 5000
        self.build()

    def switch(self) -> None:
        """Rules of NeuPIMs' simulator: all of them, or each with an even chance."""
        rng = self.rng
        every = rng.random() < 0.4

        def on() -> bool:
            return every or rng.random() < 0.5

        if every:
            self.fixes = []
        self.mode = rng.choice([self.mode, self.mode, "DRAM"])
        self.loads_singly = rng.random() < 0.2
        if self.mode != "SINGLE":  # reads that fill it would wait for the PIM commands of a header, and these for them
            self.window = rng.choice([None, None, None, 8, 40])
        self.moves = GemmMoves(on(), on(), on(), on())
        self.rules = replace(
            self.rules, hashed=on(), waits=21 in self.fixes, in_order=on(), shift=SHIFT * on(), late=on(),
            steps=rng.choice([2, 2, 2, 1, 3]) * on(), drained=rng.random() < 0.2,
        )  # fmt: skip

    def build(self) -> None:
        """Phases of one or two programs side by side, each phase behind the one before."""
        rng = self.rng
        before: list[int] = []
        for i in range(rng.randrange(1, 4)):
            if i and self.released and rng.random() < 0.3:  # they end in one clock
                before = [self.operator("nothing", before).index for _ in range(rng.randrange(1, 4))]
            last = []
            which = rng.choice(["npu", "pim", "both", "both"]) if self.mode != "DRAM" else "npu"
            if which != "pim":
                last.append(self.chain(before))
            if which != "npu":
                last += self.attention(before)
            before = last

    def operator(self, name: str, after: list[int], **more: Any) -> BuilderOperator:
        return self.builder.operator(name, after, pause=self.rng.choice([0, 0, 1, 5]) if self.released else 0, **more)

    def size(self, most: int) -> int:
        """Bytes of a block: whole elements, where places of elements count."""
        found = self.rng.randrange(1, most)
        return found + found % SHIFT if self.rules.shift else found

    def chain(self, after: list[int]) -> int:
        """Operators on the NPU, one after the other."""
        rng, b, rows, step = self.rng, self.builder, self.rules.rows, self.rules.step
        for _ in range(rng.randrange(1, 4)):
            kinds = ["rows", "gated"] if self.released else [] if self.plain else ["prompt"]
            kind = rng.choice(["gemm", "wide gemm", "vector", "mixed", *kinds])
            if "gemm" in kind:
                made = self.operator(kind, after, in_order=True, least=2 * rows - 2 + step)
                made.singly = self.loads_singly
                deep, across = (2, 40) if kind == "wide gemm" else (5, 7)
                n_in, n_out = rng.randrange(1, deep * rows), rng.randrange(1, across * rows)
                gemm(b, made, rng.randrange(1, 3 * rows), n_in, n_out, rows, 2, moves=self.moves)
            elif kind in ("vector", "rows"):
                cycles = rng.choice([0, 0, 1, 5, 40])
                made = self.operator(kind, after, least=rng.randrange(cycles + 1))
                made.singly = self.loads_singly
                high, size = rng.randrange(1, 40), rng.choice([2, 64, 100, 256])
                if kind == "rows":
                    by_row(b, made, high, size, rng.choice([1, 2]), cycles, rng.choice([0, 2]))
                else:
                    by_tile(b, made, high, size, rng.choice([1, 2]), cycles, rows)
            else:
                made = {"mixed": self.mixed, "gated": self.gated, "prompt": self.prompt}[kind](after)
            after = [made.index]
        return after[0]

    def prompt(self, after: list[int]) -> BuilderOperator:
        """Causal attention of a few chunks."""
        rng, tile = self.rng, self.rules.rows
        made = self.operator("prompt", after, in_order=True, least=1)
        shared, window = rng.choice([1, 1, 2]), rng.choice([0, 0, 1, 5, 3 * tile])
        softmax = rng.choice([lambda n, rows: 1, lambda n, rows: n + rows, lambda n, rows: 5 * n])
        kv_heads, dim, arrays = rng.choice([1, 2]), rng.choice([4, 8, 12]), rng.choice([1, 4])
        heads = Heads(kv_heads, shared, dim, dim, tile, arrays, 2, softmax, window)
        before = [0, 0, 1, 2 * tile, 37]
        chunks = [Chunk(rng.randrange(1, 3 * tile), rng.choice(before)) for _ in range(rng.choice([1, 2]))]
        causal_attention(self.builder, made, chunks, heads)
        return made

    def mixed(self, after: list[int]) -> BuilderOperator:
        """Blocks and tasks that share them; some blocks share a line, some are needed by no task."""
        rng, b = self.rng, self.builder
        cycles = [0] if self.plain else rng.choice([[0], [0, 1, 2], [3, 70, 200], [64, 65]])
        made = self.operator("mixed", after, least=min(cycles))
        made.singly = self.loads_singly
        size = rng.choice([24, 64, 130, 1000])
        groups = [b.load(made, self.size(size)) for _ in range(rng.choice([2, 6, 40]))]
        for _ in range(rng.choice([0, 1, 5, 30])):
            needs = rng.sample(groups, rng.randrange(1, min(len(groups), 4)))
            store = b.store(made, self.size(size))
            b.task(made, rng.choice(cycles), needs, store, wide=rng.random() < 0.3)
        return made

    def gated(self, after: list[int]) -> BuilderOperator:
        """Loads that wait for a store of an earlier part of the operator."""
        rng, b = self.rng, self.builder
        made, gate = self.operator("gated", after), -1
        made.singly = rng.random() < 0.5
        for _ in range(rng.randrange(2, 5)):
            groups = [b.load(made, self.size(300), gate if i == 0 else -1) for i in range(rng.choice([1, 3]))]
            for group in groups:
                gate = b.store(made, self.size(100))
                b.task(made, rng.choice([0, 1, 30]), [group], gate)
        return made

    def attention(self, after: list[int]) -> list[int]:
        """Logits, each with its softmax, then their products with V."""
        rng, b = self.rng, self.builder
        last, beside, port = list[int](), -1, min(self.ports - 1, 1)
        stores = rng.randrange(self.ports) if self.chained else port
        dim = rng.choice([32, 64])
        heads = rng.randrange(1, 4)
        shape = Shape(heads, heads, dim, ROW_ELEMENTS, ALL_BANKS, LANES, heads * dim)
        for i in range(rng.randrange(1, 8 if self.chained else 4)):
            if i == 0 or self.chained:
                how = {"port": port, "least": 1, "stores_port": stores}
                logits = self.operator("logit", after, together=beside, **how)
                beside = logits.index
                values = self.operator("attend", [logits.index], together=beside, **how)
                logits.singly = values.singly = self.singly
                last.append(values.index)
            tokens, channel, exact = rng.choice([1, 20, 33, 70, 520]), rng.randrange(self.channels), rng.random() < 0.5
            fused = self.mode == "DUAL"
            groups = self.send(logits, channel, heads, logit(shape, tokens, self.row, fused=fused, exact=exact))
            self.row += shape.rows_k(tokens)
            for g in groups:
                b.task(logits, 5 if self.plain else rng.choice([1, 5, 60]), [g], b.store(logits, tokens * 2))
            groups = self.send(values, channel, heads, attend(shape, tokens, self.row, fused=fused, exact=exact))
            self.row += shape.rows_v(tokens)
            if tokens > ROW_ELEMENTS:
                for g in groups:
                    b.task(values, 5 if self.plain else rng.choice([1, 9]), [g], b.store(values, dim * 2))
        return last

    def send(self, op, channel, heads, stream):
        groups = np.array([self.builder.group(op) for _ in range(heads + 1)])
        if self.mode == "SINGLE":  # full of writes, the first of which waits for a GWRITE, a channel never goes on
            stream["row"][stream["cmd"] == COPY] = 4000
        self.builder.dots(op, channel, stream, groups[stream["head"]])
        return groups[:-1].tolist()

    @classmethod
    def of(cls, builder: Builder, mode: str = "DUAL", step: int = 4, wrap: int = 2**26, **more: Any) -> "Draw":
        """A program that is not drawn, on two channels."""
        found = cls.__new__(cls)
        found.builder, found.mode, found.fixes, found.channels, found.ports = builder, mode, [], 2, 1
        found.rules, found.precharge, found.longest, found.window = Rules(16, step, wrap, **more), "bank", 1000, None
        return found

    def naive(self):
        kind = InOrder if self.rules.in_order else OutOfOrder
        return kind(
            self.rules, self.mode, self.fixes, naive_operators(self.builder), channels=self.channels, ports=self.ports,
            precharge=self.precharge, window=self.window,
        ).run()  # fmt: skip

    def compiled(self):
        r = self.rules
        npu = Npu(
            r.rows, r.step, r.wrap, r.hashed, rule=drained(r.rows, 0) if r.drained else None, starts_early=not r.waits,
            vector_units=r.units, in_order=r.in_order, shift_bytes=r.shift, steps=r.steps, late=r.late,
            clock_ps=int(r.cycle * CLOCK_PS),
        )  # fmt: skip
        device = spec(self.mode, self.fixes, self.precharge)
        if self.window:
            controller = msgspec.structs.replace(device.controller, window=self.window)
            device = device._replace(controller=controller)
        ran = run(device, self.channels, npu, self.builder, ports=self.ports, longest=self.longest)
        last = max(ran.accounts, key=lambda account: account.ck)
        return ran.operators, ran.commands, (last.mem_open_ck, last.pim_open_ck), ran.total_ck


def outcome(make):
    """(operators, commands, clocks with open rows, all clocks), or why the machine stops."""
    try:
        operators, commands, opened, total = make()
    except PimError as error:
        return "for ever" if "for ever" in str(error) else "closed"
    except AssertionError as error:
        if "it never ends" in str(error):
            return "for ever"
        assert "closed bank" in str(error)
        return "closed"
    commands = {COMMAND.get(name, name): n for name, n in commands.items() if n}
    return list(operators), commands, opened, total
