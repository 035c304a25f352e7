"""Pools whose replicas are pipelines, as DistServe has them: schedules, memory, what crosses the link, all devices."""

import json
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.reports.served import page
from pimloom.reports.served.curves import Over
from pimloom.systems.serving.clock import distserve as released
from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.pools.clock import Pooled
from pimloom.systems.serving.pools.distserve import DistServeDecodes, DistServePrompts
from pimloom.systems.serving.pools.routes import distserve
from pimloom.systems.serving.pools.stages import Line, Ring
from pimloom.systems.serving.pools.wire import Wire
from pimloom.systems.serving.pools.written import Link
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.channel_blocks import ChannelBlocks
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest
from tests.command import call
from tests.test_pools import FREE, TIMES, drawn, of, price, through


@given(
    seed=st.integers(0, 2**32), prompts=st.integers(1, 2), decodes=st.integers(1, 2), most=st.sampled_from([300, 2000]),
    before=st.integers(1, 4), behind=st.integers(1, 4),
)  # fmt: skip
@settings(max_examples=40)
def test_stages_have_the_schedule_of_distserve_s_simulator(seed, prompts, decodes, most, before, behind):
    """With memory for all and a link that takes no time; the simulator makes a token more of each request. Where a
    prompt ends at a tick at which decode goes on, ours has it wait for the next time, by its order of a tick."""
    requests, events, decoded = drawn(seed, 2), Events(), set[int]()
    theirs = [LiveRequest(r.number, r.arrival, r.prompt, r.output - 1) for r in requests]

    def started(worker: released.Worker, kind: str, made: Iteration) -> None:
        if kind == "decode":
            decoded.add(made.end)

    def rings(number: int, stages: int) -> list[list[released.Worker]]:
        return [released.ring(events, price("lin"), stages, 300, started) for _ in range(number)]

    known = released.MOST_CACHED
    released.MOST_CACHED = most
    released.disaggregated(theirs, events, rings(prompts, before), rings(decodes, behind))
    released.MOST_CACHED = known
    assume(decoded.isdisjoint(r.first_token for r in theirs))
    ample = 10**6
    pools = (
        [Line(DistServePrompts(Blocks(ample, 16), ample, 300), price("lin"), before) for _ in range(prompts)],
        [Ring(DistServeDecodes(Blocks(ample, 16), ample, most), price("lin"), behind) for _ in range(decodes)],
    )
    ours = through(Pooled(*pools, Wire(FREE, 0, 1), distserve(*pools), by_layer=False), requests)
    assert [[getattr(r, name) for name in TIMES] for r in ours] == [[getattr(r, n) for n in TIMES] for r in theirs]


class Batch:
    """On a stage until a tick; new: tokens of each of its requests there."""

    def __init__(self, requests: list[LiveRequest], new: list[int]) -> None:
        self.requests, self.new, self.until = requests, new, -1


class NaiveStages:
    """A replica for prompts and one for decode, tick by tick, each a pipeline, with blocks of four tokens and a link
    of so many ticks a token. rooms: of each channel; a request lies in the one that held fewest when it came in. At a
    tick stages end in the order in which they began; one that ends goes on at once if it has work, and who has got some
    from it begins behind all of them."""

    def __init__(
        self, rooms: tuple[int, int], budget: int, per_token: int, stages: tuple[int, int], channels: int
    ) -> None:
        self.rooms, self.budget, self.per_token, self.stages, self.channels = rooms, budget, per_token, stages, channels
        self.lies = [dict[int, int](), dict[int, int]()]
        self.queue, self.ready, self.turn = (list[LiveRequest]() for _ in range(3))
        self.again, self.flying = list[LiveRequest](), list[tuple[int, LiveRequest]]()
        self.first, self.end, self.cached = dict[int, int](), dict[int, int](), dict[int, int]()
        self.held = [dict[int, int](), dict[int, int]()]
        self.before = [list[Batch]() for _ in range(stages[0] + 1)]  # that wait at a stage, or have left the last one
        self.on = [list[Batch]() for _ in range(stages[0])]
        self.tokens = [list[LiveRequest]() for _ in range(stages[1])]  # that have left the stage before
        self.once_more = [list[Batch]() for _ in range(stages[1])]
        self.begun = list[tuple[int, Batch]]()  # on stages of decode
        self.wire_free = 0

    def serve(self, requests: list[LiveRequest]) -> list[tuple[int, int]]:
        t = 0
        while len(self.end) < len(requests):
            self.queue += [r for r in requests if r.arrival == t]
            for _ in range(3):  # what happens at a tick may let more happen at it
                self._prompts(t)
                landed = [each for each in self.flying if each[0] <= t]
                for each in landed:
                    self.flying.remove(each)
                    self._give_back(0, each[1])
                    self.cached[each[1].number] = each[1].prompt
                    self.turn.append(each[1])
                self._decode(t, [0] * len(landed))
                self._send(t)
            t += 1
        return [(self.first[r.number], self.end[r.number]) for r in requests]

    def _prompts(self, t: int) -> None:
        for stage, on in enumerate(self.on):
            if on and on[0].until == t:
                self.before[stage + 1].append(on.pop())
        for done in self.before[-1]:
            for r in done.requests:
                self.first[r.number] = t
                if r.output == 1:
                    self.end[r.number] = t
                    self._give_back(0, r)
                else:
                    self.ready.append(r)
        self.before[-1] = []
        for stage, on in enumerate(self.on):
            if stage == 0 and not on:
                self._begin()
            if not on and self.before[stage]:
                on.append(self.before[stage].pop(0))
                on[0].until = t + -(-(3 + sum(on[0].new)) // self.stages[0])

    def _begin(self) -> None:
        left, batch = self.budget, list[LiveRequest]()
        while self.queue and self.queue[0].prompt <= left and self._free(0, self.queue[0]) >= of(self.queue[0].prompt):
            batch.append(self.queue.pop(0))
            self._give(0, batch[-1], of(batch[-1].prompt))
            left -= batch[-1].prompt
        if batch:
            self.before[0].append(Batch(batch, [r.prompt for r in batch]))

    def _left(self, pool: int, channel: int) -> int:
        there = [number for number, at in self.lies[pool].items() if at == channel]
        return self.rooms[pool] - sum(self.held[pool][number] for number in there)

    def _free(self, pool: int, r: LiveRequest) -> int:
        if r.number in self.lies[pool]:
            return self._left(pool, self.lies[pool][r.number])
        return max(self._left(pool, channel) for channel in range(self.channels))

    def _give(self, pool: int, r: LiveRequest, blocks: int) -> None:
        left = [self._left(pool, channel) for channel in range(self.channels)]
        self.lies[pool][r.number] = left.index(max(left))
        self.held[pool][r.number] = blocks

    def _give_back(self, pool: int, r: LiveRequest) -> None:
        del self.held[pool][r.number], self.lies[pool][r.number]

    def _send(self, t: int) -> None:
        while self.ready and not self.again and of(self.ready[0].prompt + 1) <= self._free(1, self.ready[0]):
            r = self.ready.pop(0)
            self._give(1, r, of(r.prompt + 1))
            self.wire_free = max(self.wire_free, t) + self.per_token * r.prompt
            self.flying.append((self.wire_free, r))

    def _decode(self, t: int, woken: list[int]) -> None:
        for stage, batch in [each for each in self.begun if each[1].until == t]:
            self.begun.remove((stage, batch))
            if stage + 1 < self.stages[1]:
                if len(batch.requests) == sum(batch.new):
                    self.tokens[stage + 1] += batch.requests
                else:
                    self.once_more[stage + 1].append(batch)
            else:
                self._token(batch, t)
            woken.append((stage + 1) % self.stages[1])
            self._go_on(stage, t)
        for stage in woken:
            self._go_on(stage, t)

    def _token(self, batch: Batch, t: int) -> None:
        for r, new in zip(batch.requests, batch.new, strict=True):
            self.cached[r.number] += new
            if self.cached[r.number] == r.prompt + r.output - 1:
                self.end[r.number] = t
                self._give_back(1, r)
            else:
                self.turn.append(r)

    def _go_on(self, stage: int, t: int) -> None:
        if any(stage == other for other, _ in self.begun):
            return
        if stage == 0:
            batch = self._known() or self._grown() or self._known()
        elif self.once_more[stage]:
            batch = self.once_more[stage].pop(0)
        else:
            batch = Batch(self.tokens[stage], [1] * len(self.tokens[stage]))
            self.tokens[stage] = []
        if batch and batch.requests:
            batch.until = t + -(-(2 + sum(batch.new)) // self.stages[1])
            self.begun.append((stage, batch))

    def _known(self) -> Batch | None:
        batch = list[LiveRequest]()
        while self.again and of(self.cached[self.again[0].number] + 1) <= self._free(1, self.again[0]):
            batch.append(self.again.pop(0))
            self._give(1, batch[-1], of(self.cached[batch[-1].number] + 1))
        new = [self.cached[r.number] + 1 for r in batch]
        self.cached |= {r.number: 0 for r in batch}
        return Batch(batch, new) if batch else None

    def _grown(self) -> Batch | None:
        batch = list[LiveRequest]()
        while self.turn:
            r = self.turn.pop(0)
            while r not in self.again and of(self.cached[r.number] + 1) - self.held[1][r.number] > self._free(1, r):
                same = [one for one in self.turn if self.lies[1][one.number] == self.lies[1][r.number]]
                victim = same[-1] if same else r
                if same:
                    self.turn.remove(victim)
                self._give_back(1, victim)
                self.again.insert(0, victim)
            if r not in self.again:
                self.held[1][r.number] = max(self.held[1][r.number], of(self.cached[r.number] + 1))
                batch.append(r)
        return Batch(batch, [1] * len(batch)) if batch else None


@given(
    seed=st.integers(0, 2**32), room=st.integers(14, 40), beside=st.integers(14, 30), per_token=st.integers(0, 3),
    stages=st.tuples(st.integers(1, 3), st.integers(1, 4)), channels=st.integers(1, 3),
)  # fmt: skip
@settings(max_examples=40)
def test_room_and_link_of_stages_are_those_of_a_naive_one(seed, room, beside, per_token, stages, channels):
    random, at, requests = Random(seed), 0, list[LiveRequest]()
    for number in range(random.randint(1, 12)):
        at += random.randint(0, 40)
        requests.append(LiveRequest(number, at, random.randint(1, 40), random.randint(1, 14)))

    def blocks(each: int) -> Blocks:
        return Blocks(each, 4) if channels == 1 else ChannelBlocks([each] * channels, 4, "min-load")

    prompts: list[Replica] = [
        Line(DistServePrompts(blocks(room), 10**6, 48), lambda made: 3 + sum(made.new), stages[0])
    ]
    decodes: list[Replica] = [Ring(DistServeDecodes(blocks(beside), 10**6), lambda made: 2 + sum(made.new), stages[1])]
    wire = Wire(Link(8000.0), per_token, 1)  # a byte a ps
    ours = through(Pooled(prompts, decodes, wire, distserve(prompts, decodes), by_layer=False), requests)
    naive = NaiveStages((room, beside), 48, per_token, stages, channels).serve(requests)
    assert [(r.first_token, r.completion) for r in ours] == naive


def pool(system: str = "prefill=gpu_a100*2,decode=gpu_a100", link: str = "400Gb/s,5pJ/bit", **given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt2-xl", "arrivals": "poisson:40/s", "lengths": "300:20", "requests": 20}
    options |= {"scheduler": "distserve", "exact": True}
    return pimloom.serve(system, link=link, **options | given)


@pytest.mark.parametrize("stages", [1, 2, 5])
def test_layers_leave_as_each_stage_makes_them(stages):
    """48 layers over the stages, the first ones the more; a layer leaves when it is made and the link is free."""
    asked: dict[str, Any] = {"arrivals": "burst", "requests": 1, "transfer": "layers", "pp": stages}
    found = pool(link="10Gb/s,600ns", **asked)
    layer_s, each_s = 300 * 2 * 1600 * 2 / 1.25e9, found.iterations["time_s"][0]
    free, at = 0.0, 0.0
    for stage in range(stages):
        layers = 48 // stages + (stage < 48 % stages)
        for layer in range(layers):
            free = max(free, at + each_s * (layer + 1) / layers) + layer_s
        at += each_s
    assert found.requests["transfer_s"][0] == pytest.approx(free - at + 600e-9, rel=1e-6)
    assert found.requests["first_token_s"][0] == pytest.approx(at, rel=1e-9)
    after = pool(link="10Gb/s,600ns", **asked | {"transfer": "after"})
    assert after.requests["transfer_s"][0] == pytest.approx(48 * layer_s + 600e-9, rel=1e-6)


def test_all_devices_of_both_pools_count():
    """Prices, rest and rates per device are of 2 x 1 x 2 and 1 x 5 x 3 devices; 53 W is what one takes at rest."""
    system = "prefill=gpu_a100*2:pp2,decode=gpu_a100:tp5:pp3"
    found, flat = pool(system, price="1:10"), pool(price="1:10")
    assert found.usd_per_h == 4 * 1 + 15 * 10 and flat.usd_per_h == 2 * 1 + 10
    assert found.rest_w == pytest.approx(53 * 19) and flat.rest_w == pytest.approx(53 * 3)
    assert (
        found.energy_by_cause_j["link between pools"]
        == pytest.approx(flat.energy_by_cause_j["link between pools"])
        == pytest.approx(20 * 300 * 2 * 48 * 1600 * 2 * 8 * 5e-12)
    )  # K and V of all layers cross once, whoever makes them
    table, both = found.requests, found.iterations
    assert table["energy_j"].sum() + found.rest_j == pytest.approx(found.energy_j, rel=1e-9)
    crossed = found.energy_by_cause_j["link between pools"]
    assert both["energy_j"].sum() + found.rest_j + crossed == pytest.approx(found.energy_j, rel=1e-9)
    assert found.blocks > 10 * flat.blocks and (table["output_tokens"] == 20).all()  # a fifteenth of the weights each
    assert set(both["stage"].dropna()) == {0, 1, 2} and "stage" not in flat.iterations
    one_s = {name: both[both["replica"] < 2 if name == "p" else both["stage"] == 0]["time_s"].sum() for name in "pd"}
    alike = [both[both["stage"] == stage]["time_s"].sum() for stage in (0, 1, 2)]
    assert found.busy_share == pytest.approx((one_s["p"] + sum(alike) / 3) / (3 * found.time_s))
    idle_s = 3 * found.time_s - one_s["p"] - sum(alike) / 3
    rest_j = 53 * (2 * (2 * found.time_s - one_s["p"]) + 15 * (found.time_s - sum(alike) / 3))
    assert idle_s > 0 and found.rest_j == pytest.approx(rest_j, rel=1e-9)
    goodput = pool(system, goodput=True, rate="1:2", slo="ttft=9s", exact=False, lengths="300:2")
    assert goodput.devices == 19


def test_stages_of_a_pool_work_on_one_batch_each_and_a_trip_is_a_token():
    found = pool(pp=3, requests=12, arrivals="burst", seed=1)
    both = found.iterations
    for (replica, stage), mine in both.groupby(["replica", "stage"]):
        spans = list(zip(mine["start_s"], mine["start_s"] + mine["time_s"], strict=True))
        assert replica == 2 and all(a[1] <= b[0] + 1e-12 for a, b in pairwise(spans)), stage
    assert [both[both["stage"] == stage]["new_tokens"].sum() for stage in (0, 1, 2)] == [12 * 19] * 3
    prompts = both[both["replica"] < 2]
    assert np.allclose(prompts["end_s"] - prompts["start_s"], 3 * prompts["time_s"])


BAD = {
    "--pp 2": "--pp 2: vllm-v1 has one stage here; in pools take distserve",
    "--pp 2 --scheduler splitwise": "--pp 2: splitwise has one stage here; in pools take distserve",
    "--pp 49 --scheduler distserve": "--pp 49: expected at most 12, the number of layers",
    "--replicas 2 --scheduler distserve": "pools go with --scheduler vllm-v1 or distserve or splitwise, without --repl",
}
BAD_POOLS = {
    "prefill=gpu_a100:pp2,decode=gpu_a100": "--pp 2: vllm-v1 has one stage here; in pools take distserve",
    "prefill=gpu_a100:pp0,decode=gpu_a100": "expected at least one of each, such as",
    "prefill=gpu_a100:pp2:pp3,decode=gpu_a100": "pp of a pool is given twice",
    "prefill=gpu_a100:dp2,decode=gpu_a100": "gpu_a100:dp2",
    "prefill=attacc,decode=gpu_a100:pp2": "one stage here",
}


@pytest.mark.parametrize("words", [*BAD, *BAD_POOLS])
def test_stages_that_cannot_be_are_one_line(words):
    system = words if words in BAD_POOLS else "prefill=gpu_a100,decode=gpu_a100"
    more = () if words in BAD_POOLS else words.split()
    asked = ("--link", "nvlink3", "--model", "gpt2", "--arrivals", "burst", "--requests", "2")
    done = call("serve", system, *asked, *more)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and (BAD | BAD_POOLS)[words] in done.err, done.err


def test_timeline_and_page_have_a_track_for_each_stage(tmp_path, monkeypatch):
    """No two iterations lie on one another, and no replica works for more than all of the time."""
    asked: dict[str, Any] = {"arrivals": "burst", "timeline": tmp_path / "out.json"}
    found = pool("prefill=gpu_a100:pp3,decode=gpu_a100:pp2", batch_tokens=600, **asked)
    trace = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    tracks = dict[Any, list[tuple[float, float]]]()
    for event in trace:
        if event["ph"] == "X" and event["name"].endswith((" request", " requests")):
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    assert sum(map(len, tracks.values())) == found.iteration_count and len(tracks) >= 2 + 3
    assert all(a[1] <= b[0] + 1e-9 for spans in tracks.values() for a, b in pairwise(sorted(spans)))
    drawn_curves = dict[str, Any]()
    monkeypatch.setattr(page, "curves", lambda title, series, **how: drawn_curves.update({title: series}))
    list(page.over_time(found, Over(0.0, found.time_s, 50)))
    busy = drawn_curves["Resources: share of time in which a replica works"]
    assert set(busy) == {"replica 0", "replica 1"}
    assert all(50 < max(share for _, share in points) < 100.001 for points in busy.values())


def test_sums_over_stages_are_those_of_all_tokens():
    """A token comes where the last stage has ended; what is done once more counts once, on whatever stages."""
    asked: dict[str, Any] = {"arrivals": "burst", "requests": 8, "lengths": "40:60", "blocks": 24}
    found, flat = (
        pool("prefill=gpu_a100:pp2,decode=gpu_a100:pp3", **asked),
        pool("prefill=gpu_a100,decode=gpu_a100", **asked),
    )
    for one in (found, flat):
        assert one.preemptions > 0 and one.recomputed_tokens == one.requests["recomputed_tokens"].sum() > 0
        assert one.iterations["output_tokens"].sum() == 8 * 60
        assert all(0 < share <= 1 for share in one.utilisation.values())
    both = found.iterations
    assert both[both["stage"] < 2]["output_tokens"].sum() == 0
    last = both[both["stage"] == 2]
    assert last["recomputed_tokens"].sum() == found.recomputed_tokens
