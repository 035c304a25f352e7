"""Prices that are fitted to the work of steps, on devices with known synthetic times."""

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_system
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.outline import Outliner
from pimloom.systems.devices.outline import Outline, Part
from pimloom.systems.serving.pricing.costs import Exact, Piece, batch_of
from pimloom.systems.serving.pricing.fitted import Fit, Fitted
from pimloom.systems.serving.pricing.interpolated import Interpolated
from pimloom.workload.batch import Batch


class TwoUnits:
    """A device with two stages. Arrays take rows, banks the longest context, at the same time; with one request, one
    after the other. Energy is linear in rows, time and cache."""

    most_requests, in_order, exact_steps = None, False, 0

    def __init__(self, hidden: float = 0.8) -> None:
        self.hidden, self.asked = hidden, list[Batch]()

    def outline(self, decode: Sequence[Part], prompts: Sequence[Part], logits: int) -> Outline:
        contexts = sorted((one.context for one in decode), reverse=True)
        rows = [len(decode[0::2]), len(decode[1::2]) + sum(one.new for one in prompts)]
        banks = [[max(contexts[i::2], default=0)] for i in range(2)]
        return Outline(len(decode) > 1, [[1, n] for n in rows], banks, [1], [sum(contexts)])

    def step(self, batch: Batch) -> Any:
        self.asked.append(batch)
        decode = [Part(at.new, at.context) for at in batch.of("decode").requests]
        told = self.outline(decode, [Part(at.new, at.context) for at in batch.of("prefill").requests], batch.logits)
        ps = 100_000.0
        for (_, rows), (context,) in zip(told.arrays, told.banks, strict=True):
            first, second = 1_000_000 + 3000 * rows, 2000 * context
            ps += first + second - (self.hidden * min(first, second) if told.together else 0)
        joules = {"rows": 1e-9 * batch.rows, "time": 2e-12 * ps, "cache": 3e-10 * told.more[0]}
        return SimpleNamespace(end_ps=ps, least_ps={"compute": ps / 4}, energy_by_cause_j=joules)

    def capacity(self) -> Any:
        return SimpleNamespace(tokens=10**6)

    def check(self, batch: Batch) -> None:
        """Accepts all batches."""


def drawn(random: Random) -> list[Piece]:
    """A random iteration: up to 30 decoding requests, sometimes with a prompt."""
    decode = [Piece(1, random.randint(10, 3000), 1) for _ in range(random.randint(0, 30))]
    return decode + [Piece(random.randint(2, 900), 0, 1)] * (not decode or random.random() < 0.4)


def exact_of(machine: TwoUnits) -> Exact:
    return Exact(machine)  # type: ignore[arg-type]


@pytest.mark.parametrize("hidden", [1.0, 0.8, 0.3])
def test_what_a_device_is_made_of_is_found(hidden):
    """A fit to 40 iterations predicts all others to 0.5 %: time, work of each limit and energy by cause."""
    random, exact = Random(1), exact_of(TwoUnits(hidden))
    read = Fitted(exact)
    read.learn({tuple(sorted(one)): exact.of(one) for one in (drawn(random) for _ in range(40))})
    for _ in range(100):
        pieces = drawn(random)
        assert read.of(pieces) == pytest.approx(exact.of(pieces), rel=0.005, abs=1e-12)


def test_an_iteration_far_from_all_others_is_simulated_and_others_are_not():
    machine = TwoUnits()
    read = Fitted(exact_of(machine))
    near, far = [Piece(1, 400, 1)] * 8, [Piece(800, 0, 1)]
    read.of(near)
    for context in (380, 420, 450):
        read.of([Piece(1, context, 1)] * 8)
    assert len(machine.asked) == 1
    assert read.of(far)[0] == pytest.approx(machine.step(batch_of(far)).end_ps, rel=0.01)
    assert len(machine.asked) == 3 and [*read.points] == [tuple(near), tuple(far)]


def test_what_is_left_out_does_not_help_to_price_itself():
    """A point unlike all others has its full error."""
    random, exact, odd = Random(2), exact_of(TwoUnits()), (Piece(1, 700, 1),) * 5
    read, true = Fitted(exact), exact.of(odd)
    points = {tuple(sorted(one)): exact.of(one) for one in (drawn(random) for _ in range(40))}
    read.learn(points | {odd: [2 * true[0], *true[1:]]})
    assert read.left_out([odd])[0][0] == pytest.approx(true[0], rel=0.02)


def test_causes_that_few_iterations_have_are_0_in_the_others():
    outlines = [Outline(False, [[1, n]], [[0]], [1], [n]) for n in (1, 5, 9)]
    fit = Fit(outlines, [[10.0, 1.0], [50.0, 5.0], [90.0, 9.0, 4.0]])
    assert len(fit.of(outlines[0])) == 3 and fit.of(outlines[1])[:2] == pytest.approx([50.0, 5.0], rel=1e-3)


def test_outlines_have_the_sub_batches_of_the_device():
    """The rows and the longest context of each sub-batch equal those of the device."""
    system, llm, random = load_system("neupims"), load_llm("llama-3-8b"), Random(5)
    outliner = Outliner(system.of_kind(NpuPimSystem), llm, 32)
    for _ in range(12):
        contexts = [random.randint(20, 4000) for _ in range(random.randint(2, 24))]
        new = [1] * len(contexts) + [random.randint(2, 300)] * random.randint(0, 1)
        contexts += [900] * (len(new) - len(contexts))
        laid = lay_out(system, llm, np.array(contexts), None, tp=4, layers=32, new=np.array(new))
        decode = [Part(1, n) for n, more in zip(contexts, new, strict=True) if more == 1]
        prompts = [Part(more, n) for n, more in zip(contexts, new, strict=True) if more > 1]
        told = outliner.of(decode, prompts, len(new))
        rows = [sum(new[i] for i in part) for part in laid.parts]
        longest = [max((contexts[i] for i in part if new[i] == 1), default=0) for part in laid.parts]
        assert [one[2] / 32 for one in told.arrays] == rows
        assert [one[1] / 32 for one in told.banks] == longest[1:] + longest[:1]


def test_a_kind_with_few_iterations_is_simulated_once_others_are_corrected():
    """The only prompt would be priced without any other prompt."""
    random, exact = Random(4), exact_of(TwoUnits())
    costs = Interpolated(Fitted(exact), exact, exact, 0, 5, 0)
    costs.begin(whole=False, sampled=True)
    sample = costs.draw()
    assert sample is not None
    decode = [[Piece(1, random.randint(10, 3000), 1) for _ in range(random.randint(1, 30))] for _ in range(30)]
    for pieces in (*decode, [Piece(300, 0, 1)]):
        sample.see(pieces, costs.of(pieces)[0])
    assert costs.learn(1e-6, lambda done, total: None, last=False)
    assert costs.phases["prompt"].simulated and not costs.phases["decode"].simulated
