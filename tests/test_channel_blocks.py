"""Keys and values in channels of PIM: each request in one, where a policy puts it; a scheduler sees the room there."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.systems.devices.npu_pim.device import NpuDevice
from pimloom.systems.serving.clock.cluster import round_robin, serve
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.online.prepared import prepared
from pimloom.systems.serving.options.named import scheduler_of
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.pricing.costs import Exact, Piece
from pimloom.systems.serving.pricing.grid import Grid
from pimloom.systems.serving.pricing.interpolated import Interpolated
from pimloom.systems.serving.schedulers.channel_blocks import POLICIES, ChannelBlocks
from pimloom.systems.serving.schedulers.channel_rows import MOST, ChannelRows, Rows
from pimloom.systems.serving.schedulers.faster_transformer import FasterTransformer
from pimloom.systems.serving.schedulers.live import NOWHERE, Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.sarathi import Sarathi, VidurSarathi
from pimloom.systems.serving.schedulers.vidur_vllm import VidurVllm
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.systems.serving.schedulers.vllm_v0_chunked import VllmV0Chunked
from pimloom.systems.serving.schedulers.vllm_v1 import VllmV1
from pimloom.workload.requests.table import Requests
from tests import naive_schedulers as naive
from tests.command import call
from tests.serving_cases import lin
from tests.test_price_bounds import LLAMA
from tests.test_schedulers import LONGEST, RULES, Case, cases, requests_of, reserved

MAKE: dict[str, Callable[[Case, Callable[..., ChannelBlocks]], Scheduler]] = {
    "vidur-vllm": lambda c, pool: VidurVllm(pool(c.watermark), c.watermark, c.cap, c.budget),
    "sarathi": lambda c, pool: Sarathi(pool(c.watermark), c.watermark, c.cap, c.budget),
    "vidur-sarathi": lambda c, pool: VidurSarathi(pool(c.watermark), c.watermark, c.cap, c.budget),
    "orca": lambda c, pool: Orca(pool(), reserved(c), c.cap),
    "faster-transformer": lambda c, pool: FasterTransformer(pool(), reserved(c), c.cap),
    "vllm-v0": lambda c, pool: VllmV0(pool(c.watermark), c.watermark, c.cap, c.budget),
    "vllm-v0 chunked": lambda c, pool: VllmV0Chunked(pool(c.watermark), c.watermark, c.cap, c.budget),
    "vllm-v1": lambda c, pool: VllmV1(pool(), c.cap, c.budget, LONGEST, c.threshold),
}
WITHOUT_WATERMARK = ("orca", "faster-transformer", "vllm-v1")


@st.composite
def channels(draw: st.DrawFn, case: Case, less: int) -> list[int]:
    """As many blocks, in equal parts, of which the first one may have less."""
    many = draw(st.integers(1, 4))
    each = -(-case.N // many)
    return [each - draw(st.integers(0, min(less, each - 1))), *[each] * (many - 1)]


@pytest.mark.parametrize("name", MAKE)
@given(data=st.data(), case=cases(), policy=st.sampled_from(sorted(POLICIES)), by_row=st.booleans())
@settings(max_examples=20)
def test_a_scheduler_sees_the_room_of_a_channel(name, data, case, policy, by_row):
    """In blocks, or in rows of which a request takes two for every three blocks and one for every five."""
    parts = data.draw(channels(case, 3 if name in WITHOUT_WATERMARK else 0))
    most = data.draw(st.integers(max(parts), 2 * max(parts)))

    def rows_of(blocks: int) -> int:
        return 2 * -(-blocks // 3) + -(-blocks // 5)

    rows = Rows([rows_of(blocks) for blocks in range(case.N + 64)], most)

    def pool(spare: int = 0) -> ChannelBlocks:
        by_block = ChannelBlocks(parts, case.size, policy, spare)
        return ChannelRows(parts, case.size, policy, spare, rows) if by_row else by_block

    first = MAKE[name](case, pool)
    kept = [row for row, r in zip(case.table, requests_of(case), strict=True) if not first.never(r)]
    case = case._replace(table=[row | {"number": i} for i, row in enumerate(kept)])
    scheduler, requests = MAKE[name](case, pool), requests_of(case)
    there = cast(ChannelBlocks, scheduler.blocks)
    made, homes = list[Iteration](), dict[int, set[int]]()

    def seen(one: Iteration) -> None:
        made.append(one)
        for r in one.requests:
            homes.setdefault(r.number, set()).add(r.channel)
        held = [0] * len(parts)
        for r in requests:
            if r.blocks:
                held[r.channel] += r.blocks
        assert held == [whole - left for whole, left in zip(parts, there.left, strict=True)]

    replicas = [Replica(scheduler, lambda one: lin(one.new, one.cached), 1, seen)]
    serve(requests, replicas, round_robin(replicas))
    rule, more = RULES[name]
    limits: dict[str, Any] = case._asdict() | more | {"reserved": reserved(case), "channels": parts, "policy": policy}
    limits["spare"] = 0 if name in WITHOUT_WATERMARK else case.watermark
    limits["N"] = sum(parts)
    limits |= {"rows_of": rows_of, "rows": most} if by_row else {}
    del limits["table"]
    log, ends = naive.simulate(rule, case.table, lin, **limits)
    assert [(m.start, [r.number for r in m.requests], m.new, m.cached) for m in made] == log
    assert [(r.first_token, r.completion, r.restarts) for r in requests] == ends
    assert there.left == parts and there.free == sum(parts)
    assert not isinstance(there, ChannelRows) or there.rows_left == [most] * len(parts)
    for r in requests:
        assert r.channel == NOWHERE and NOWHERE not in homes[r.number] and len(homes[r.number]) <= 1 + r.restarts


def test_policies():
    def placed(policy: str, *needs: int) -> list[int]:
        pool, found = ChannelBlocks([10, 10, 6], 16, policy), []
        for number, need in enumerate(needs):
            request = LiveRequest(number, 0, 16 * need, 1)
            pool.take(request, need)
            found.append(request.channel)
        return found

    assert placed("min-load", 4, 3, 5, 2, 6, 1) == [0, 1, 2, 1, 0, 1]
    assert placed("round-robin", 4, 3, 5, 6, 7, 1) == [0, 1, 2, 0, 1, 2]
    assert placed("round-robin", 9, 3, 5, 2, 1) == [0, 1, 2, 1, 2]


def test_a_full_channel_yields_though_others_are_empty():
    """The first and the third request share a channel and grow until it is full; then the third one yields, though the
    other channel, where the second one ended long ago, is empty; it goes on there."""
    pool, seen = ChannelBlocks([6, 6], 4, "round-robin"), set[tuple[int, int]]()
    requests = [LiveRequest(i, 0, *lengths) for i, lengths in enumerate([(4, 12), (16, 2), (4, 12)])]
    scheduler = VllmV0(pool, 0, 8, 100)
    replicas = [
        Replica(scheduler, lambda one: 10, 1, lambda one: seen.update((r.number, r.channel) for r in one.requests))
    ]
    serve(requests, replicas, round_robin(replicas))
    assert [r.restarts for r in requests] == [0, 0, 1]
    assert seen == {(0, 0), (1, 1), (2, 0), (2, 1)}
    assert pool.most == [6, 5] and pool.free == 12


ASKED: dict[str, Any] = {
    "model": "gpt2",
    "layers": 1,
    "arrivals": "burst",
    "lengths": "40:2",
    "requests": 5,
    "lm_head": False,
}


def test_a_machine_computes_where_requests_lie(monkeypatch):
    """What a simulation is told of channels is what blocks say; two in one channel take longer than one in each."""
    told, step = list[list[int]](), NpuDevice.step

    def watched(self: Any, batch: Any, channel: Any = None) -> Any:
        told.append(channel.tolist())
        return step(self, batch, channel)

    monkeypatch.setattr(NpuDevice, "step", watched)
    small = {"dram.channels": 4}
    found = pimloom.serve("neupims", **ASKED, policy="round-robin", exact=True, set=small)
    assert found.channels is not None and (found.channels.policy, found.channels.number) == ("round-robin", 4)
    assert found.channels.blocks * 4 - 1 == found.blocks and min(found.channels.most) > 0
    assert told and all(sorted(one) == [0, 0, 1, 2, 3] for one in told)
    assert max(found.channels.most) == 2 * min(found.channels.most)


def test_interpolated_prices_know_of_no_channel_and_samples_do():
    """So the error that is measured tells what placement costs, too."""
    told = list[Any]()

    class Watching:
        most_requests, in_order, exact_steps = None, False, 0

        def capacity(self) -> Any:
            return SimpleNamespace(tokens=10_000)

        def step(self, batch: Any, channel: Any = None) -> Any:
            told.append(None if channel is None else channel.tolist())
            return SimpleNamespace(end_ps=1000, least_ps={}, energy_by_cause_j=None)

    pieces = [Piece(1, 90, 1, channel=3), Piece(1, 50, 1, channel=0), Piece(1, 50, 1, channel=2)]
    exact = Exact(Watching())  # type: ignore[arg-type]
    grid = Grid(exact, [1.0, 1.0], 4096)
    grid.of(pieces)
    assert told and told == [None] * len(told)
    costs = Interpolated(grid, exact, exact, 0, 1, 0)
    costs.begin(whole=False, sampled=True)
    sample = costs.draw()
    assert sample is not None
    sample.see(pieces, 1000.0)
    costs.learn(0.02, lambda done, total: None, last=True)
    assert told[-1] == [0, 2, 3] and told.count(None) == len(told) - 1


@pytest.mark.parametrize("block_size", [16, 48])
def test_rows_that_a_request_leaves_half_empty_are_its_own(block_size):
    """Llama 2 7B on four NeuPIMs has keys of 1,024 values on each: two rows of 512 for the 32 tokens that a channel has
    banks for, and values of 512 tokens in 32 rows, however few there are. --blocks counts no rows."""
    llm, requests = load_llm("llama-2-7b"), Requests("three", [0] * 3, [40] * 3, [8] * 3, "")
    wanted = Wanted("neupims", "llama-2-7b", tp=4, policy="min-load", scheduler="static", block_size=block_size)

    def come_in(wanted: Wanted) -> tuple[int, int]:
        by, count = prepared(wanted, llm, requests), 0
        pool: Any = scheduler_of("static", by.plan.limits).blocks
        while pool.room(r := LiveRequest(count, 0, 40, 8)) >= 48 // block_size:
            pool.take(r, 48 // block_size)
            count += 1
        return count, by.exact.device.capacity().tokens

    count, tokens = come_in(wanted)
    there = tokens // 32 * 2 * 1024 // (512 * 32)
    assert count == 32 * (there // (2 * 2 + 32)) and count < tokens / 48 / 5
    blocks = 32 * (48 // block_size) * 90
    assert come_in(wanted._replace(blocks=blocks))[0] == 32 * 90


BAD = {
    "gpu_a100 --policy min-load": "--policy min-load: keys and values of a request lie all over the memory of gpu_a100",
    "npu_only --policy min-load": "none has a channel of its own; leave it out, or take an NPU with PIM, such as neu",
    "neupims --policy min-laod": "--policy min-laod: expected one of min-load, round-robin; nearest: min-load",
    "neupims --policy min-load --blocks 100": "--blocks 100: 32 channels share them evenly (--policy); take a multiple",
    "neupims --policy min-load --blocks 64": "8:40: request 0 needs 3 blocks of KV cache, and there are 2 for it",
    "neupims --policy min-load --scheduler lightllm": "--policy min-load: lightllm knows but one pool; take one of",
    "neupims --policy min-load --branches 2": "--branches: beside --policy a request is on one machine, token by",
    "neupims --policy min-load --scheduler vllm-v0 --swap 9": "--swap: beside --policy a request is on one machine,",
    "neupims --policy min-load --scheduler semi-pd": "--policy: semi-pd takes tokens one by one on one machine; leave",
    "prefill=gpu_a100,decode=t4 --link nvlink3 --policy min-load": "all over the memory of gpu_a100 and t4, none has",
}


@pytest.mark.parametrize("words", BAD)
def test_what_lies_in_no_channel_is_refused(words):
    done = call(
        "serve", *words.split(), "--model", "gpt2", "--arrivals", "burst", "--requests", "2", "--lengths", "8:40"
    )
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and BAD[words] in done.err, done.err


def test_rows_that_suffice_for_any_request_bound_none():
    """Of requests of up to three blocks; a watermark counts blocks beyond these."""
    rows = Rows((0, 1, 3, 4), 10)
    assert rows.blocks(0, 10) == rows.blocks(2, 1) == MOST
    assert rows.blocks(0, 3) == 2 and rows.blocks(1, 1) == 0


def test_a_model_with_few_positions_leaves_the_watermark_of_a_large_channel_free(tmp_path):
    """2,048 positions are 128 blocks, and a hundredth of a channel more than that."""
    model = tmp_path / "small.json"
    model.write_text(json.dumps(LLAMA))
    found = pimloom.serve("neupims", model=model, arrivals="burst", lengths="24:2", requests=1, scheduler="vllm-v0",
                          policy="min-load")  # fmt: skip
    assert found.iteration_count == 2
