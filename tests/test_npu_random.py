"""The compiled NPU with its PIM channels is the naive one, operator for operator and command for command, on random
programs and with any fault repaired."""

from random import Random

import numpy as np
import pytest

from pimloom.arch.pim_stream import GWRITE
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.machine import Npu, PimError, run
from pimloom.cycle_sim.npu_pim.program import Builder, by_tile, gemm
from pimloom.cycle_sim.npu_pim.program import Operator as BuilderOperator
from pimloom.mappers.kv import Shape, attend, logit
from tests.naive_neupims import Request
from tests.naive_npu import Machine, Operator, Task
from tests.neupims_engine import COMMAND, FIXES, spec

NAIVE = {ours: theirs for theirs, ours in COMMAND.items()}
ROW_ELEMENTS, ALL_BANKS, LANES = 512, 32, 16
CASES = 500
FEW = 6  # in the quick suite


def naive_operators(b: Builder) -> list[Operator]:
    found = []
    for o in b.operators:
        tasks = [Task(c, bool(pre), needs, o.stores[s] if s >= 0 else None) for c, pre, needs, s in o.tasks]
        pim = []
        for row in np.concatenate(o.dots).tolist() if o.dots else []:
            kind, bank, at, column, count, comps, results, last, group, channel = row
            name = NAIVE[f.COMMANDS[kind]]
            pim.append((channel, Request(name, bank, at, column, count, comps, results, bool(last), group)))
        groups = {g for g, owner in enumerate(b.owners) if owner == o.index}
        made = Operator(
            o.name, o.port, o.in_order, o.after, o.bytes, o.loads, tasks, pim, groups, o.stores_port, o.singly
        )
        found.append(made)
    return found


class Draw:
    """A random machine and a random program for it.

    plain: two ports, one length of tasks for all of an attention, blocks in order, PIM commands at once. chained:
    requests do not wait for one another.
    """

    def __init__(self, seed: int, plain: bool = False, chained: bool = False) -> None:
        rng = self.rng = Random(f"NPU {'chained ' if chained else ''}{seed}")
        self.plain, self.chained = plain, chained
        self.mode = rng.choice(["DUAL", "SINGLE"])
        self.fixes = [fix for fix in FIXES if rng.random() < 0.3]
        self.channels = rng.choice([2, 2, 4])
        self.ports = 2 if plain else rng.choice([2, 3] if chained else [1, 2])
        self.longest = rng.choice([1, 10, 100, 1000])
        self.rows = rng.choice([8, 16])
        self.step = rng.choice([2, 4])
        self.wrap = rng.choice([2**13, 2**16, 2**20 + 2**14])
        self.hashed = not plain and rng.random() < 0.5
        self.singly = not plain and self.mode == "SINGLE" and rng.random() < 0.3
        self.builder = Builder()
        self.row = 5000
        before: list[int] = []
        for _ in range(rng.randrange(1, 4)):
            last = []
            which = rng.choice(["npu", "pim", "both", "both"])
            if which != "pim":
                last.append(self.chain(before))
            if which != "npu":
                last += self.attention(before)
            before = last

    def chain(self, after: list[int]) -> int:
        """Operators on the NPU, one after the other."""
        rng, b = self.rng, self.builder
        for _ in range(rng.randrange(1, 4)):
            kind = rng.choice(["gemm", "wide gemm", "vector", "mixed"])
            if "gemm" in kind:
                made = b.operator(kind, after, in_order=True, least=2 * self.rows - 2 + self.step)
                deep, across = (2, 40) if kind == "wide gemm" else (5, 7)
                n_in, n_out = rng.randrange(1, deep * self.rows), rng.randrange(1, across * self.rows)
                gemm(b, made, rng.randrange(1, 3 * self.rows), n_in, n_out, self.rows, 2)
            elif kind == "vector":
                cycles = rng.choice([0, 0, 1, 5, 40])
                made = b.operator(kind, after, least=rng.randrange(cycles + 1))
                rows, size = rng.randrange(1, 40), rng.choice([2, 64, 100, 256])
                by_tile(b, made, rows, size, rng.choice([1, 2]), cycles, self.rows)
            else:
                made = self.mixed(after)
            after = [made.index]
        return after[0]

    def mixed(self, after: list[int]) -> BuilderOperator:
        """Blocks and tasks that share them; some blocks share a line, some are needed by no task."""
        rng, b = self.rng, self.builder
        cycles = [0] if self.plain else rng.choice([[0], [0, 1, 2], [3, 70, 200], [64, 65]])
        made = b.operator("mixed", after, least=min(cycles))
        size = rng.choice([24, 64, 130, 1000])
        groups = [b.load(made, rng.randrange(1, size)) for _ in range(rng.choice([2, 6, 40]))]
        for _ in range(rng.choice([0, 1, 5, 30])):
            needs = rng.sample(groups, rng.randrange(1, min(len(groups), 4)))
            b.task(made, rng.choice(cycles), needs, b.store(made, rng.randrange(1, size)))
        return made

    def attention(self, after: list[int]) -> list[int]:
        """Logits, each with its softmax, then their products with V."""
        rng, b = self.rng, self.builder
        last, beside, port = [], -1, min(self.ports - 1, 1)
        # not by the NPU's port, as in `physical`: with one way for all, one program of a few hundred had one
        # logit end a clock sooner than in the naive machine; why is not known
        stores = rng.randrange(1, self.ports) if self.chained else port
        dim = rng.choice([32, 64])
        heads = rng.randrange(1, 4)
        shape = Shape(heads, heads, dim, ROW_ELEMENTS, ALL_BANKS, LANES, heads * dim)
        for i in range(rng.randrange(1, 8 if self.chained else 4)):
            if i == 0 or self.chained:
                logits = b.operator("logit", after, port=port, least=1, together=beside, stores_port=stores)
                beside = logits.index
                values = b.operator("attend", [logits.index], port=port, least=1, together=beside, stores_port=stores)
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
        if self.mode == "SINGLE":  # a write that waits for a GWRITE of its column: the specification leaves it open
            stream["row"][stream["cmd"] == GWRITE] = 4000
        self.builder.dots(op, channel, stream, groups[stream["head"]])
        return groups[:-1].tolist()

    @classmethod
    def of(cls, builder: Builder, mode: str = "DUAL", step: int = 4, wrap: int = 2**26, hashed: bool = False) -> "Draw":
        """A program that is not drawn, on two channels."""
        found = cls.__new__(cls)
        found.builder, found.mode, found.fixes, found.channels, found.ports = builder, mode, [], 2, 1
        found.rows, found.step, found.wrap, found.hashed, found.longest = 16, step, wrap, hashed, 1000
        return found

    def naive(self):
        return Machine(
            self.mode, self.fixes, naive_operators(self.builder), channels=self.channels, ports=self.ports,
            rows=self.rows, step=self.step, wrap=self.wrap, hashed=self.hashed,
        ).run()  # fmt: skip

    def compiled(self):
        npu = Npu(self.rows, self.step, self.wrap, self.hashed)
        ran = run(spec(self.mode, self.fixes), self.channels, npu, self.builder, ports=self.ports, longest=self.longest)
        last = max(ran.accounts, key=lambda account: account.ck)
        return ran.operators, ran.commands, (last.mem_open_ck, last.pim_open_ck), ran.total_ck


def outcome(make):
    """(operators, commands, clocks with open rows, all clocks), or why the machine stops."""
    try:
        operators, commands, opened, total = make()
    except PimError:
        return "closed"
    except AssertionError as error:
        assert "closed bank" in str(error)
        return "closed"
    commands = {COMMAND.get(name, name): n for name, n in commands.items() if n}
    return list(operators), commands, opened, total


def late_store():
    """A task's store, 200 clocks from now, stands in the port before one that is sent sooner."""
    b = Builder()
    op = b.operator("two tasks", ())
    first, second = b.load(op, 64), b.load(op, 64)
    b.task(op, 200, [first], b.store(op, 64))
    b.task(op, 5, [second], b.store(op, 64 * 200))
    return Draw.of(b)


def hashed_block():
    """One of 123 lines is sent twice and another one never."""
    b = Builder()
    op = b.operator("load", ())
    op.loads.append((392340 * 64, 123 * 64, b.group(op)))
    return Draw.of(b, hashed=True)


def idle_refresh():
    """A refresh falls due while the rows of an otherwise idle channel may not be closed yet."""
    b = Builder()
    op = b.operator("load", (), least=1860)
    b.task(op, 1860, [b.load(op, 64)], b.store(op, 64 * 20))
    after = b.operator("task", [op.index], least=1800)
    b.task(after, 1800, [b.load(after, 64)], b.store(after, 64))
    return Draw.of(b)


def drained_pipeline():
    """Steps that start late against their operands end few clocks after these arrive: stores enter the past."""
    b = Builder()
    op = b.operator("gemm", (), in_order=True, least=64)
    gemm(b, op, 1, 32, 640, 32, 2)
    found = Draw.of(b, step=2)
    found.rows = 32
    return found


def one_line():
    """Up to 32 reads of a line answer in one clock; the next operator starts inside the window."""
    b = Builder()
    op = b.operator("tiny loads", ())
    for _ in range(64):
        b.load(op, 2)
    after = b.operator("next", [op.index])
    b.load(after, 64 * 40)
    b.load(b.operator("other", (), port=1), 64 * 400)
    found = Draw.of(b)
    found.ports = 2
    return found


CASES_BY_HAND = [late_store, hashed_block, idle_refresh, drained_pipeline, one_line]


@pytest.mark.parametrize("case", CASES_BY_HAND)
def test_case(case):
    made = case()
    assert outcome(made.compiled) == outcome(made.naive)


@pytest.mark.parametrize(
    ("part", "cases"), [(0, FEW), *(pytest.param(part, CASES, marks=pytest.mark.slow) for part in range(4))]
)
def test_random_programs(part, cases):
    for seed in range(part * cases, (part + 1) * cases):
        drawn = Draw(seed)
        assert outcome(drawn.compiled) == outcome(drawn.naive), seed


@pytest.mark.parametrize(
    ("part", "cases"), [(0, 2), *(pytest.param(part, CASES, marks=pytest.mark.slow) for part in range(4))]
)
def test_requests_that_do_not_wait_for_one_another(part, cases):
    for seed in range(part * cases, (part + 1) * cases):
        drawn = Draw(seed, chained=True)
        assert outcome(drawn.compiled) == outcome(drawn.naive), seed


@pytest.mark.parametrize(
    ("part", "cases"), [(0, 1), *(pytest.param(part, CASES, marks=pytest.mark.slow) for part in range(4))]
)
def test_plain_programs_before_the_first_refresh(part, cases):
    """Where none of the known differences acts, times of operators agree."""
    for seed in range(part * cases, (part + 1) * cases):
        drawn = Draw(seed, plain=True)
        expected = outcome(drawn.naive)
        if expected != "closed" and expected[-1] < 1950:
            assert outcome(drawn.compiled)[0] == expected[0], seed
