"""`--branches N --mode NAME`: what serving simulates beside sums over steps written from the methods' rules."""

from collections.abc import Iterator
from typing import Any

import pytest

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.serving.transforms.moded import KEYS
from pimloom.workload.batch import Batch, Request
from pimloom.workload.decoding import branches, staged

P, N = 50, 3


def served(mode: str, output: int = 20, branches: str = str(N), **given: Any) -> Any:
    options: dict[str, Any] = {"arrivals": "burst", "requests": 1, "lengths": f"{P}:{output}"}
    options |= {} if "sample" in given else {"exact": True}
    return pimloom.serve("gpu_a100", model="gpt2", branches=branches, mode=mode, **options | given)


@pytest.fixture(scope="module")
def gpu() -> Device:
    return device_of(load_system("gpu_a100"), load_llm("gpt2"), Share(1, 12, outside=True))


def rows(contexts: list[int], shared: int = 0) -> Batch:
    return Batch(tuple(Request("decode", 1, n, 1, shared, int(shared > 0)) for n in contexts))


def multiverse(first: int, each: list[int], last: int, shared: bool) -> Iterator[Batch]:
    """Branches go on behind the first part; the last part begins when the longest has ended, and sees all."""
    for at in range(1, first + 1):
        yield rows([P + at])
    for at in range(1, max(each) + 1):
        live = [P + first + at for n in each if n >= at]
        yield rows(live, P + first if shared else 0)
    for at in range(1, last):
        yield rows([P + first + sum(each) + at])


def threadweaver(first: int, each: list[int], last: int) -> Iterator[Batch]:
    """Threads end with a token that is not computed; all their text is a prompt then."""
    for at in range(1, first + 1):
        yield rows([P + at])
    for at in range(1, max(each)):
        yield rows([P + first + at for n in each if n > at])
    again = sum(each)
    yield Batch((Request("prefill", again, P + first + again, 1),))
    for at in range(1, last):
        yield rows([P + first + again + at])


def hogwild(each: list[int]) -> Iterator[Batch]:
    for at in range(1, max(each)):
        live = [n for n in each if n >= at]
        yield rows([P + sum(min(n, at) for n in each)] * len(live))


def parathinker(length: int, summary: int) -> Iterator[Batch]:
    for at in range(1, length + 1):
        yield rows([P + at] * N)
    for at in range(1, summary):
        yield rows([P + N * length + at])


def parscale(tokens: int) -> Iterator[Batch]:
    for at in range(1, tokens):
        yield Batch(tuple(Request("decode", 1, 48 + P + at, int(i == 0)) for i in range(N)))


CASES = {  # 20 tokens of output
    "multiverse,share=0.5": multiverse(5, [4, 3, 3], 5, False), "threadweaver": threadweaver(5, [4, 3, 3], 5),
    "hogwild": hogwild([7, 7, 6]), "parathinker,summary=9": parathinker(20, 9), "parscale": parscale(20),
}  # fmt: skip


@pytest.mark.parametrize("mode", CASES)
def test_events_are_the_sum_of_the_steps(gpu, mode):
    found, steps = served(mode), list(CASES[mode])
    lanes, before = (N, 48) if mode == "parscale" else (1, 0)
    prompt = Batch(tuple(Request("prefill", P, P + before, int(i == 0)) for i in range(lanes)))
    times = [gpu.step(batch).time_s for batch in (prompt, *steps)]
    assert found.latency_s.mean == pytest.approx(sum(times), rel=1e-9)
    assert found.iteration_count == len(times) and found.time_to_first_token_s.mean == pytest.approx(times[0], rel=1e-9)
    output = {"parathinker,summary=9": 3 * 20 + 9}.get(mode, 20)
    assert found.requests["output_tokens"].tolist() == [output]
    assert found.token_gap_s.count == output - 1


def test_shared_caches_are_read_once(gpu):
    found = served("multiverse,share=0.5", shared_kv=True)
    steps = [Batch.prefill([P]), *multiverse(5, [4, 3, 3], 5, True)]
    assert found.latency_s.mean == pytest.approx(sum(gpu.step(batch).time_s for batch in steps), rel=1e-9)
    for mode in ("multiverse", "hogwild", "parathinker", "threadweaver", "ets"):
        apart, once = (served(mode, 16, shared_kv=shared, lengths="700:16") for shared in (False, True))
        assert once.latency_s.mean < apart.latency_s.mean and once.blocks_used_most <= apart.blocks_used_most


def test_graphs_that_compute_nothing_again_are_those_of_their_steps():
    graphs = [branches.multiverse(3, [5, 2, 4], 6), branches.paths([4, 4, 1], 3), {"a": branches.Segment(7)}]
    for graph in graphs:
        made = staged.of_graph(graph, P, shared=False)
        formula = [sorted(at.context for at in batch.requests) for batch in branches.steps(graph, P, shared=False)]
        assert [sorted(row.context for row in stage.rows) for stage in made.stages] == formula[:-1]
        assert made.tokens == branches.total(graph) == made.first + sum(stage.made for stage in made.stages)


def test_copies_are_made_when_branches_begin():
    apart = staged.of_graph(branches.multiverse(3, [2, 2, 2], 1), P, shared=False)
    assert [stage.copied for stage in apart.stages] == [0, 0, 0, 2 * (P + 3), 0]
    roots = staged.of_graph(branches.paths([2, 2], 0), P, shared=False)
    assert [stage.copied for stage in roots.stages] == [P]
    assert not any(stage.copied for stage in staged.of_graph(branches.paths([2, 2], 0), P, shared=True).stages)


def test_a_search_keeps_its_width_and_groups_children_by_parent():
    rewards, meant = [[0.7, 0.1, 0.1, 0.1], [0.25] * 4], [[0, 1, 2, 3], [0, 0, 0, 0]]
    search = staged.Search(4, 2, lambda depth: rewards[depth - 1], lambda depth: meant[depth - 1])
    made = staged.of_search(10, search, 6, shared=True)
    assert [len(stage.rows) for stage in made.stages] == [4] * 5 and made.tokens == 24
    assert {row.shared for stage in made.stages[:2] for row in stage.rows} == {10}
    assert [row.context for stage in made.stages for row in stage.rows[:1]] == [11, 12, 13, 14, 15]
    for stage in made.stages[2:4]:
        assert {row.shared for row in stage.rows} <= {0, 12}
    assert staged._children([0.7, 0.2, 0.1], 8) == [4 + 1, 2, 1] or sum(staged._children([0.7, 0.2, 0.1], 8)) == 8


@pytest.mark.parametrize("mode", [*KEYS])
@pytest.mark.parametrize("scheduler", ["vllm-v1", "orca"])
def test_every_mode_ends_with_all_its_tokens_however_tight_memory_is(mode, scheduler):
    few = {"requests": 4, "lengths": "30:24", "arrivals": "poisson:2000/s", "scheduler": scheduler, "layers": 1}
    ample = served(mode, **few)
    tokens = {"parathinker": 3 * 24 + 64, "ets": 72}.get(mode, 24)
    if mode != "sart":
        assert ample.requests["output_tokens"].tolist() == [tokens] * 4
    if scheduler == "vllm-v1":
        tight = served(mode, **few, blocks=ample.blocks_used_most * 2 // 3, batch_tokens=40)
        assert (tight.requests["output_tokens"] == ample.requests["output_tokens"]).all()


def test_read_prices_stand_near_simulated_ones():
    for mode in ("multiverse", "parscale"):
        exact, read = (served(mode, lengths="alpaca", requests=4, arrivals="poisson:50/s", **how)
                       for how in ({"exact": True}, {"sample": 100}))  # fmt: skip
        assert read.latency_s.mean == pytest.approx(exact.latency_s.mean, rel=0.05)


WRONG = {
    "nothing": "mode.*expected one of multiverse", "ets,share=1": "ets takes step=", "ets,step=0": "whole number",
    "multiverse,share=2": "above 0 and at most 1", "multiverse,share": "multiverse takes share=",
    "hogwild,step=1": "hogwild takes no more", "ets,step=4,step=4": "each once",
}  # fmt: skip


@pytest.mark.parametrize("mode", WRONG)
def test_modes_that_are_none(mode):
    with pytest.raises(pimloom.UserError, match=WRONG[mode]):
        served(mode)


def test_branches_that_a_mode_does_not_have():
    with pytest.raises(pimloom.UserError, match="hogwild has no stop or spread"):
        served("hogwild", branches="4,stop=2")
    with pytest.raises(pimloom.UserError, match="needs at least 2"):
        served("ets", branches="1")
    with pytest.raises(pimloom.UserError, match="keys and values of its own"):
        served("parscale", shared_kv=True)
    with pytest.raises(pimloom.UserError, match="request 0 reaches a context of 1,043 tokens, and the model has 1,024"):
        served("parathinker", lengths="800:60")
    with pytest.raises(pimloom.UserError, match="belongs to"):
        pimloom.serve("gpu_a100", model="gpt2", arrivals="burst", requests=1, mode="ets")
    with pytest.raises(pimloom.UserError, match="multiplied with one query"):
        pimloom.serve("neupims", model="gpt2", arrivals="burst", requests=1, mode="ets", branches="2", shared_kv=True)
