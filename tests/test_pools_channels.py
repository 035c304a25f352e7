"""Where keys and values of a request lie: in a channel of the pool that has PIM, of arrays beside PIM that a YAML
composes, and nowhere in particular where nothing works in a channel."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.mappers.kv_pages import KvPages, KvTokens
from pimloom.sweeping.definition.load_sweep import sweep_from
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.npu_pim.device import NpuDevice
from pimloom.systems.devices.npu_pim.share import shard_of
from pimloom.systems.serving.clock.cluster import round_robin
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.machine import Plan, machine_of
from pimloom.systems.serving.pools.clock import Pooled, Routes
from pimloom.systems.serving.pools.distserve import DistServeDecodes, DistServePrompts
from pimloom.systems.serving.pools.routes import Mixed, distserve, fewest_coming, routed
from pimloom.systems.serving.pools.sides import VllmV1Decodes, VllmV1Prompts
from pimloom.systems.serving.pools.splitwise import Splitwise
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.pools.written import Link
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.channel_blocks import POLICIES, ChannelBlocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from tests.test_composed_arrays import ALONE, BESIDE, CONFIG
from tests.test_pools import through

ROOMS = st.tuples(st.integers(14, 20), st.integers(14, 20))
SIDES: dict[str, tuple[Any, Any]] = {
    "distserve": (
        lambda pool: DistServePrompts(pool, 6, 64),
        lambda pool: DistServeDecodes(pool, 6),
    ),
    "vllm-v1": (lambda pool: VllmV1Prompts(pool, 6, 24, 99), lambda pool: VllmV1Decodes(pool, 6, 24, 99)),
    "splitwise": (lambda pool: Splitwise(pool, 6, 64), lambda pool: Splitwise(pool, 6, 64)),
}


def routes_of(name: str, prompts: list[Replica], decodes: list[Replica]) -> Routes:
    if name == "distserve":
        return distserve(prompts, decodes)
    if name == "splitwise":
        return Mixed(prompts, decodes).routes()
    turn: Any = round_robin(prompts)
    return routed(turn, fewest_coming(decodes))


@pytest.mark.parametrize("name", SIDES)
@given(
    seed=st.integers(0, 2**32), policy=st.sampled_from(sorted(POLICIES)), rooms=st.tuples(*[st.integers(14, 20)] * 2)
)
@settings(max_examples=20)
def test_requests_of_pools_lie_in_a_channel_of_each(name, seed, policy, rooms):
    """All end; whoever computes lies in a channel of that replica, which holds what its requests hold and no more than
    it has; in the end all is free again. A request stays in its channel while it holds blocks."""
    random, at, requests = Random(seed), 0, list[LiveRequest]()
    for number in range(random.randint(1, 14)):
        at += random.randint(0, 30)
        requests.append(LiveRequest(number, at, random.randint(1, 40), random.randint(1, 14)))
    lay = dict[tuple[int, int, bool, int], int]()

    def watched(scheduler: Scheduler, place: int) -> Any:
        def seen(made: Iteration) -> None:
            pool: Any = scheduler.blocks
            held = Counter[int]()
            for r in made.requests:
                assert 0 <= r.channel < len(pool.each) and r.blocks * 4 >= r.cached
                held[r.channel] += r.blocks
                assert lay.setdefault((place, r.number, r.output == 1, r.restarts), r.channel) == r.channel
            assert all(held[c] <= each - left for c, (each, left) in enumerate(zip(pool.each, pool.left, strict=True)))
            assert min(pool.left) >= 0 and sum(pool.left) == pool.free

        return seen

    pools = list[list[Replica]]()
    for side, room in zip(SIDES[name], rooms, strict=True):
        made = [side(ChannelBlocks([room] * 3, 4, policy)) for _ in range(2)]
        first = 2 * len(pools)
        pools.append([
            Replica(one, lambda made: 3 + sum(made.new), 1, watched(one, first + i)) for i, one in enumerate(made)
        ])  # fmt: skip
    prompts, decodes = pools
    clock = Pooled(prompts, decodes, Wire(Link(8000.0), 2, 1), routes_of(name, *pools), by_layer=False)
    ended = through(clock, requests)
    assert all(r.completion >= r.first_token >= 0 and r.known == r.prompt + r.output for r in ended)
    for replica in (*prompts, *decodes):
        pool: Any = replica.scheduler.blocks
        assert tuple(pool.left) == pool.each and pool.free == pool.total and not pool.holders


NARROW = Path(__file__).parent / "narrow_gpt2.json"
SMALL: dict[str, Any] = {"model": NARROW, "layers": 1, "lm_head": False, "exact": True, "arrivals": "burst"}


@pytest.mark.parametrize("scheduler", ["vllm-v1", "distserve", "splitwise"])
def test_a_pool_with_pim_places_what_comes_over_the_link(scheduler, monkeypatch):
    """Prompts of a GPU lie anywhere; decode in channels, as blocks say it, and the result tells of them alone."""
    told, step = list[Any](), NpuDevice.step

    def watched(self: Any, batch: Any, channel: Any = None) -> Any:
        told.append(None if channel is None else channel.tolist())
        return step(self, batch, channel)

    monkeypatch.setattr(NpuDevice, "step", watched)
    asked = SMALL | {"lengths": "8:2", "requests": 3, "scheduler": scheduler, "link": "nvlink3"}
    found = pimloom.serve("prefill=gpu_a100,decode=neupims", policy="round-robin", **asked)
    assert found.channels is not None and (found.channels.policy, found.channels.number) == ("round-robin", 32)
    assert len(found.channels.most) == 32 and sum(n > 0 for n in found.channels.most) == 3
    assert told and all(one is not None and len(set(one)) == len(one) for one in told)


def test_channels_of_prompts_are_told_where_decode_has_none():
    asked = SMALL | {"lengths": "8:2", "requests": 2, "scheduler": "distserve", "link": "nvlink3"}
    found, free = (pimloom.serve("prefill=neupims,decode=gpu_a100", policy=one, **asked) for one in ("min-load", None))
    assert found.channels is not None and sum(n > 0 for n in found.channels.most) == 2
    assert free.channels is None and free.spec_digest != found.spec_digest


def test_sub_batches_by_an_option_go_with_channels_as_by_a_setting():
    asked = SMALL | {"lengths": "8:2", "requests": 2, "policy": "min-load"}
    by_option = pimloom.serve("neupims", overlap="sub-batches,parts=1", **asked)
    by_setting = pimloom.serve("neupims", set={"interleave.sub_batches": 1}, **asked)
    assert by_option == by_setting and by_option.channels is not None


def test_arrays_beside_pim_that_are_composed_place_requests_too(tmp_path):
    """Two requests in one channel of four take longer than one in each of two; arrays alone have no channels."""
    (tmp_path / "beside.yaml").write_text(BESIDE)
    (tmp_path / "alone.yaml").write_text(ALONE)
    (tmp_path / "small.json").write_text(json.dumps(CONFIG | {"max_position_embeddings": 2048}))
    asked: dict[str, Any] = {"model": tmp_path / "small.json", "arrivals": "burst", "lengths": "40:2", "exact": True}
    four, five = (
        pimloom.serve(tmp_path / "beside.yaml", policy="min-load", **asked, requests=n, lm_head=False) for n in (4, 5)
    )
    assert four.channels is not None and four.channels.number == 4 and len(set(four.channels.most)) == 1
    assert max(five.channels.most) == 2 * min(five.channels.most)
    assert pimloom.serve(tmp_path / "beside.yaml", policy="min-load", **asked, requests=2).lm_head
    with pytest.raises(UserError, match="all over the memory of alone, none has a channel"):
        pimloom.serve(tmp_path / "alone.yaml", policy="min-load", **asked, requests=2)


def test_an_npu_without_pim_has_room_for_tokens_anywhere():
    """As many as its capacity says, whatever the rows of a channel; with PIM caches lie in rows of a channel."""
    llm, share = load_llm("gpt2"), Share(1, 12)
    plan = Plan(2, 1, 1, None, 0, 1, 1, 12, "physical")
    room = machine_of(load_system("npu_only"), llm, plan).room()
    assert isinstance(room, KvTokens)
    assert room.most_tokens == device_of(load_system("npu_only"), llm, share).capacity().tokens
    assert isinstance(machine_of(load_system("neupims"), llm, plan).room(), KvPages)


def test_a_policy_without_pim_is_a_row_with_its_reason():
    work = {"model": "gpt2", "requests": "sharegpt", "batch": 2, "policy": "min-load", "layers": 1}
    made = base_of(sweep_from({"system": "npu_only", "workload": work, "axes": {"npu.clock_mhz": [500, 600]}}))
    said = evaluate(made, {"npu.clock_mhz": 500}).row["error"]
    assert said.startswith("workload.policy min-load: npu_only has no PIM, so caches lie in all channels")


@given(contexts=st.lists(st.integers(1, 4000), min_size=1, max_size=6))
@settings(max_examples=40)
def test_blocks_as_long_as_a_row_count_rows_that_are_half_empty(contexts):
    """Of Llama 2 7B on NeuPIMs: 512 tokens fill 8 x 512 / 32 rows with K and 4096 / 32 with V; blocks of 16 tokens take
    a part of that each, though a page of V is held by the first of them."""
    shape = shard_of(load_system("neupims"), load_llm("llama-2-7b"), 1).shape
    rows, whole = KvPages(shape, 1, 0, 10**6, allotted=False).rows(np.array(contexts)), 128 + 128
    blocks = [Blocks(10**6, 512).of(n) for n in contexts]
    assert all(held <= many * whole < held + whole for held, many in zip(rows.tolist(), blocks, strict=True))
    assert KvPages(shape, 1, 0, 10**6, allotted=False).rows(np.array([512])) == [whole]
    assert KvPages(shape, 1, 0, 10**6, allotted=False).rows(np.array([1]))[0] > whole // 32 * Blocks(10**6, 16).of(1)
