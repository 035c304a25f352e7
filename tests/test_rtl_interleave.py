# amaranth: UnusedElaboratable=no
"""The interleave controller's gates run the mapper's turns, and its edges, one bent at a time, do not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.mappers.interleave import turns
from pimloom.rtl.flow import verify as flow
from pimloom.rtl.flow.interleave import Iteration, draw_iterations, has_npu, interleave_scene, schedule
from pimloom.rtl.flow.prove import prove
from pimloom.rtl.formal.interleave import claims
from pimloom.rtl.interleave import MOST_SUB_BATCHES, Edge, Interleave, Stage, edges
from tests.command import call
from tests.simulators import needs
from tests.slow import slow

PART = "gddr6_pim_gpt"
NAMES = {"C": ("C", "D"), "E": ("E",)}  # of two sub-batches


@dataclass
class Unit:
    """Takes so many clocks for each job, one after the other."""

    port: Any
    times: list[int]
    left: int = 0
    started: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def clock(self, ctx: Any, now: int) -> None:
        if ctx.get(self.port.start):
            assert self.left == 0, "started while it works"
            self.left = self.times[len(self.started)]
            self.started.append(now)
        ctx.set(self.port.done, self.left == 1)
        if self.left == 1:
            self.ended.append(now + 1)
        self.left -= self.left > 0


def run(sub_batches: int, iteration: Iteration) -> tuple[list[tuple[str, int, int]], Unit, Unit]:
    """Stages as the gates have them: name, first clock, clock after the last; and both units."""
    controller = Interleave(sub_batches)
    npu = Unit(controller.npu, [n for n, _ in iteration.clocks if n])
    pim = Unit(controller.pim, [n for _, n in iteration.clocks if n])
    seen = list[tuple[str, int, int]]()

    async def drive(ctx: Any) -> None:
        ctx.set(controller.start, 1)
        ctx.set(controller.layers, iteration.layers)
        await ctx.tick()
        ctx.set(controller.start, 0)
        now = 0
        while not ctx.get(controller.done):
            if ctx.get(controller.npu.start | controller.pim.start):
                seen.append((named(sub_batches, Stage(ctx.get(controller.stage)), ctx.get(controller.turn)), now, now))
            seen[-1] = (*seen[-1][:2], now + 1)
            npu.clock(ctx, now)
            pim.clock(ctx, now)
            await ctx.tick()
            now += 1
            assert now < 10_000

    simulator = Simulator(controller)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return seen, npu, pim


def named(sub_batches: int, stage: Stage, turn: int) -> str:
    """The mapper's name of it."""
    if sub_batches > 2 and stage in (Stage.C, Stage.E):
        return f"{stage.name}{turn + 1}"
    return NAMES.get(stage.name, (stage.name,))[turn]


@pytest.mark.parametrize("sub_batches", range(1, 6))
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_every_stage_begins_and_ends_as_the_mapper_has_it(sub_batches: int, data: st.DataObject) -> None:
    layers = data.draw(st.integers(1, 4))
    row = list(turns(sub_batches, range(layers)))
    times = data.draw(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=len(row), max_size=len(row)))
    clocks = [
        (npu * has_npu(turn), pim * (turn.stage.attention is not None))
        for (npu, pim), turn in zip(times, row, strict=True)
    ]
    want = list(schedule(sub_batches, Iteration(layers, clocks, 0)))
    seen, npu, pim = run(sub_batches, Iteration(layers, clocks, 0))
    assert seen == [(span.turn.stage.name, span.start, span.end) for span in want]
    for unit, ends in ((npu, [s.npu_end for s in want]), (pim, [s.pim_end for s in want])):
        both = [(span.start, end) for span, end in zip(want, ends, strict=True) if end > span.start]
        assert list(zip(unit.started, unit.ended, strict=True)) == both


def differs(controller: Interleave, scene: Any) -> str | None:
    """The first output that is not as the scene has it."""
    wrong: list[str | None] = [None]
    inputs = {name: rows[:, 0].tolist() for name, rows in scene.given.items() if name not in ("clocks", "results")}
    ports = {name: port(controller, name) for name in (*inputs, *scene.expected)}

    async def drive(ctx: Any) -> None:
        for i in range(len(next(iter(scene.expected.values())))):
            for name, values in inputs.items():
                ctx.set(ports[name], values[i])
            await ctx.tick()
            for name, values in scene.expected.items():
                if int(ctx.get(ports[name])) != values[i]:
                    wrong[0] = scene.place(name, i)
                    return

    simulator = Simulator(controller)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return wrong[0]


def port(controller: Interleave, name: str) -> Any:
    found: Any = controller
    for part in name.split("__"):
        found = getattr(found, part)
    return found.as_value() if hasattr(found, "as_value") else found


def bent(sub_batches: int) -> Iterator[tuple[str, Sequence[Edge]]]:
    """The table with one edge changed: another successor, a bound or a count off by one."""
    table = edges(sub_batches)
    for i, edge in enumerate(table):
        others = [
            stage for stage in Stage if stage is not edge.to and (sub_batches > 1 or stage not in (Stage.C, Stage.F))
        ]
        changes: list[dict[str, Any]] = [{"to": stage} for stage in others]
        if edge.to is not Stage.IDLE:  # where the layer is no more looked at
            changes += [{"layer": edge.layer + 1}] + ([{"layer": 0}] if edge.layer else [])
        if sub_batches > 2 or (sub_batches == 2 and edge.at is not Stage.C) or edge.turn == "next":
            changes += [
                {"turn": "next" if edge.turn == "zero" else "zero"}
            ]  # of two, the one after the last is the first
        for bound in ("turns", "beyond"):
            if (value := getattr(edge, bound)) is not None:
                changes += [{bound: value + by} for by in (1, -1)]
        for change in changes:
            yield f"{edge.at.name} to {edge.to.name}: {change}", [*table[:i], edge._replace(**change), *table[i + 1 :]]


def few(sub_batches: int) -> Any:
    """A scene of 2, 1 and 3 layers, in which every edge is taken and left."""
    rng, found = np.random.default_rng(1), list[Iteration]()
    for layers in (2, 1, 3):
        row = turns(sub_batches, range(layers))
        times = rng.integers(1, 4, (100, 2)).tolist()
        clocks = [
            (t[0] * has_npu(turn), t[1] * (turn.stage.attention is not None))
            for turn, t in zip(row, times, strict=False)
        ]
        found.append(Iteration(layers, clocks, 1))
    return interleave_scene(sub_batches, found, seed=1)


@pytest.mark.parametrize("sub_batches", [slow(1), 2, slow(3)])
def test_each_bent_edge_is_caught(sub_batches: int) -> None:
    scene = few(sub_batches)
    assert differs(Interleave(sub_batches), scene) is None
    missed = [told for told, table in bent(sub_batches) if differs(Interleave(sub_batches, table), scene) is None]
    assert missed == []


@pytest.mark.parametrize("sub_batches", [1, 3])
def test_each_twin_of_the_proofs_is_caught(sub_batches: int) -> None:
    scene = few(sub_batches)
    for twin in {twin for claim in claims(sub_batches).values() for twin in claim.twins}:
        assert differs(twin(sub_batches), scene), twin


def test_a_mismatch_names_port_clock_and_stage() -> None:
    scene = interleave_scene(2, [Iteration(1, [(2, 0), (3, 1), (1, 4), (2, 0)], 0)])
    table = [edge._replace(to=Stage.F) if edge.to is Stage.B else edge for edge in edges(2)]
    assert differs(Interleave(2, table), scene) == "stage in CK 3, stage B of layer 0,"


@pytest.mark.slow
def test_verify_runs_the_gates() -> None:
    (found,) = flow.verify("interleave", PART, simulator=needs("icarus"), commands=200, sizes={"sub_batches": 4})
    assert (found.block, found.mismatches, found.first_mismatch) == ("interleave", 0, None)
    assert found.commands >= 200 and found.cycles > 200


@pytest.mark.slow
@pytest.mark.parametrize("sub_batches", range(1, 6))
def test_every_property_holds_is_seen_and_fails_for_its_twins(sub_batches: int) -> None:
    found = list(prove("interleave", PART, sizes={"sub_batches": sub_batches}))
    assert [proof.property for proof in found] == ["units", "order", "whole", "bounded"]
    assert {(proof.method, proof.result) for proof in found} == {("k-induction", "proved")}
    assert all(proof.covered and proof.twin_failed for proof in found)


def test_sizes_that_cannot_be_are_one_line() -> None:
    for wrong in (0, MOST_SUB_BATCHES + 1):
        with pytest.raises(UserError, match=f"has 1 to 16 sub-batches, not {wrong}"):
            Interleave(wrong)
    done = call("rtl", "emit", "interleave", "--sub-batches", "99")
    assert (done.code, done.err) == (
        2,
        "pimloom: interleave: an interleave controller has 1 to 16 sub-batches, not 99\n",
    )
    for command in ("emit", "verify", "prove"):
        done = call("rtl", command, "timer", "--sub-batches", "3")
        told = "pimloom: --sub-batches 3: timer cannot have it; name a block that can: interleave\n"
        assert (done.code, done.err) == (2, told)


def test_emitted_ports_are_as_wide_as_sub_batches_ask_for() -> None:
    done = call("rtl", "emit", "interleave", "--sub-batches", "5")
    assert done.code == 0 and "out npu__job [24:0]: through [0], sub_batch [3:1], layer [11:4], qkv [16:12]" in done.out


def test_a_stray_done_and_a_start_while_busy_are_in_the_scene() -> None:
    scene = interleave_scene(2, draw_iterations(2, 40, seed=1), seed=1)
    start, done = (scene.given[name][:, 0].astype(bool) for name in ("start", "pim__done"))
    stage = scene.expected["stage"]
    assert (start[1:] & (stage[:-1] != 0)).sum() > 5
    assert (done[1:] & np.isin(stage[:-1], (Stage.A.value, Stage.F.value))).sum() > 0


def test_jobs_that_are_wider_than_a_word_are_compared_whole():
    """16 sub-batches: the NPU's job has 41 bits."""
    (found,) = flow.verify("interleave", PART, simulator=needs("icarus"), commands=40, sizes={"sub_batches": 16})
    assert (found.mismatches, found.first_mismatch) == (0, None)
