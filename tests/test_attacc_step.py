"""Decode steps of GPUs with AttAcc's stacks against runs of the authors' simulator."""

import re
from dataclasses import fields, replace
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.mappers.attacc.layout import Placement
from pimloom.systems.devices.attacc import gpu
from pimloom.systems.devices.attacc.box import Box, Decoder, Experts, Stacks
from pimloom.systems.devices.attacc.gpu import A100A, H100, HOST, Matrix
from pimloom.systems.devices.attacc.prompt import prompts_step
from pimloom.systems.devices.attacc.step import Step, decode_step, mean_step
from pimloom.systems.reference.attacc import AS_RELEASED, PHYSICAL, Slips

PART = load_part("hbm3_attacc_5200").value
GPT, LLAMA = Decoder(96, 12_288, 96, 4 * 12_288, False), Decoder(80, 8192, 64, 8 / 3 * 8192, True)
LIMITED = Stacks(PART)
BOTH = replace(LIMITED, pipelined=True, co_processing=True)
ATTENTION, FC, LINKS = ("score", "context"), ("qkv", "projection", "up", "gate", "down"), ("all-reduce", "transfer")
OTHER = ("activation", "norm")
FRESH, TABLE = 0.001, 0.004  # of ms; what is asked: 2 %. Rows of the table take up to 4 % longer than fresh runs


class Run(NamedTuple):
    """Times of a step [ms] and its energy [J]; None: not known."""

    box: Box
    decoder: Decoder
    batch: int
    prompt: int
    generated: int
    total: float
    attention: float | None
    matrices: float | None
    links: float | None
    other: float | None
    joules: float | None
    tolerance: float


RUNS = {
    "GPUs": Run(Box(A100A, 8), GPT, 1, 2048, 128, 31.03, None, None, None, None, 11.79, FRESH),
    "16 GPUs": Run(Box(A100A, 16), GPT, 1, 2048, 128, 31.98, None, None, None, None, None, FRESH),
    "stacks, fresh": Run(Box(A100A, 8, BOTH), GPT, 1, 2048, 128, 17.07, 0.296, 6.471, 8.182, 2.126, 11.515, FRESH),
    "GPUs, batch 54": Run(Box(A100A, 8), GPT, 54, 2048, 128, 55.75, 23.805, 18.901, 10.151, 2.709, 37.847, FRESH),
    "H100, batch 54": Run(Box(H100, 8), GPT, 54, 2048, 128, 57.50, 24.246, 20.875, 9.482, 2.709, 38.146, FRESH),
    "host, batch 54": Run(
        Box(A100A, 8, host=HOST), GPT, 54, 2048, 128, 434.32, 398.974, 18.901, 10.649, 2.709, 20.002, FRESH
    ),
    "stacks, batch 54": Run(
        Box(A100A, 8, LIMITED), GPT, 54, 2048, 128, 34.73, None, 18.901, 10.169, 2.709, 22.443, TABLE
    ),
    "all, batch 54": Run(Box(A100A, 8, BOTH), GPT, 54, 2048, 128, 30.19, None, None, 10.169, 2.709, 22.443, TABLE),
    "LLaMA": Run(Box(A100A, 8), LLAMA, 16, 512, 32, 17.27, 1.655, 6.622, 7.118, 1.860, 5.891, FRESH),
    "LLaMA, all": Run(Box(A100A, 8, BOTH), LLAMA, 16, 512, 32, 13.99, 0.129, 4.876, 7.122, 1.860, 5.271, FRESH),
}  # fmt: skip


def ms(step: Step, parts: tuple[str, ...] = ()) -> float:
    return 1e3 * sum(s for name, s in step.seconds.items() if not parts or name.split()[0] in parts)


@pytest.mark.parametrize("name", RUNS)
def test_steps_of_the_simulator(name: str) -> None:
    run = RUNS[name]
    found = mean_step(run.box, run.decoder, run.batch, run.prompt, run.generated, AS_RELEASED)
    assert ms(found) == pytest.approx(run.total, rel=run.tolerance)
    for parts, wanted in ((ATTENTION, run.attention), (FC, run.matrices), (LINKS, run.links), (OTHER, run.other)):
        if wanted is not None:
            assert ms(found, parts) == pytest.approx(wanted, abs=0.0011)
    if run.joules is not None:
        assert sum(found.joules.values()) == pytest.approx(run.joules, rel=2e-4)  # asked: 1 %


def test_attention_of_the_table_takes_longer_than_of_fresh_runs() -> None:
    found = mean_step(Box(A100A, 8, LIMITED), GPT, 54, 2048, 128, AS_RELEASED)
    assert ms(found, ATTENTION) == pytest.approx(2.948, rel=0.045)


def test_each_slip_changes_something() -> None:
    boxes = Box(A100A, 8), Box(A100A, 8, LIMITED), Box(A100A, 8, host=HOST), Box(A100A, 1), Box(A100A, 8, BOTH)
    narrow = Box(A100A, 8, BOTH, element_bytes=1)

    def found(slips: Slips) -> list[Step]:
        # 24 heads a stack: a pair, half of it; 27 on four stacks, 24 on the fifth
        steps = [decode_step(box, GPT, batch, 2049, slips) for box in boxes for batch in (10, 11)]
        steps += [prompts_step(box, GPT, [(100, 0)], slips) for box in boxes]
        steps.append(decode_step(Box(A100A, 8, BOTH), GPT, 10, 9, slips))
        return [*steps, decode_step(narrow, GPT, 2000, 9, slips)]

    right = found(PHYSICAL)
    assert all(found(Slips(**{slip.name: True})) != right for slip in fields(Slips))
    assert not any(vars(PHYSICAL).values()) and all(vars(AS_RELEASED).values())


def test_heads_that_are_not_there_draw_nothing() -> None:
    """Twelve heads of a GPU on five stacks; fifteen requests fill them evenly."""
    box = Box(A100A, 8, LIMITED)
    one, many = (decode_step(box, GPT, batch, 2048).joules["score"] for batch in (1, 15))
    assert 15 * one == pytest.approx(many)
    padded = decode_step(box, GPT, 1, 2048, Slips(padded_stacks=True)).joules["score"]
    assert padded == pytest.approx(15 / 12 * one)


def test_one_gpu_sends_nothing() -> None:
    step = decode_step(Box(A100A, 1), LLAMA, 4, 100)
    assert step.joules["all-reduce 1"] == step.seconds["all-reduce 1"] == step.counts["sent_bytes"] == 0
    slipped = decode_step(Box(A100A, 1), LLAMA, 4, 100, Slips(links_of_one_gpu=True))
    assert slipped.joules["all-reduce 2"] > 0


def test_stacks_read_at_the_rate_of_their_part() -> None:
    """A part of 6.4 Gb/s a pin takes more of the feed-forward weights off the GPUs; as released all take as many."""
    fast = replace(BOTH, part=load_part("hbm3_attacc_6400").value)
    steps = [
        [decode_step(Box(A100A, 8, stacks), GPT, 4, 100, slips).seconds["up"] for stacks in (BOTH, fast)]
        for slips in (PHYSICAL, AS_RELEASED)
    ]
    assert steps[0][1] < 0.97 * steps[0][0] and steps[1][1] == steps[1][0]
    gpu, units = 3352, 5 * 9 * 64 * 6.4 / 8 * 16 / 4
    whole = decode_step(Box(A100A, 8, LIMITED), GPT, 4, 100).seconds["up"]
    assert steps[0][1] == pytest.approx(whole * gpu / (gpu + units))


def test_keys_and_values_of_prompts_go_to_the_stacks() -> None:
    """Two vectors of each token and layer, 16 bits, 10.4 pJ a byte; on GPUs alone nothing moves."""
    with_stacks, alone = (prompts_step(box, GPT, [(700, 0), (64, 128)]) for box in (Box(A100A, 8, BOTH), Box(A100A, 8)))
    sent = 96 * 764 * 2 * 12_288 * 2
    assert with_stacks.counts["sent_bytes"] - alone.counts["sent_bytes"] == sent
    more = sum(with_stacks.joules.values()) - sum(alone.joules.values())
    assert more == pytest.approx(with_stacks.joules["transfer"]) == pytest.approx(10.4 * sent * 1e-12)
    assert sum(with_stacks.seconds.values()) == sum(alone.seconds.values())


def test_a_prompt_of_one_token_attends_as_a_token_of_decode() -> None:
    """Eight heads of keys for 64 of queries: each is read once, on GPUs alone."""
    box, decoder = Box(A100A, 8), Decoder(80, 8192, 64, 28_672, True, 8)
    prompt, decode = prompts_step(box, decoder, [(1, 7_999)]), decode_step(box, decoder, 1, 8_000)
    assert prompt.counts["macs"] == decode.counts["macs"]
    for part in ("score", "context"):
        assert prompt.joules[part] == pytest.approx(decode.joules[part], rel=0.1)  # tiles may differ
    pairs = [prompts_step(box, decoder, [(new, 50)]).counts["macs"] for new in (1, 2, 3)]
    of_a_key = 2 * 64 * 128 * 80  # scores and contexts, of all heads and layers
    assert pairs[1] - 2 * pairs[0] == pytest.approx(of_a_key)  # the second token sees one key more
    assert pairs[2] - 3 * pairs[0] == pytest.approx(3 * of_a_key)


def test_an_h100_is_not_slower_without_the_slip() -> None:
    a100, h100 = (ms(mean_step(Box(one, 8), GPT, 54, 2048, 4)) for one in (A100A, H100))
    assert h100 <= a100  # both wait for the same memory, over the same links


def test_processors_of_the_host_take_turns() -> None:
    box = Box(A100A, 8, host=HOST)
    with_host, alone, stacked = (decode_step(one, GPT, 54, 2112) for one in (box, Box(A100A, 8), Box(A100A, 8, BOTH)))
    assert with_host.counts["macs"] == alone.counts["macs"]
    assert with_host.counts["sent_bytes"] == stacked.counts["sent_bytes"] > alone.counts["sent_bytes"]
    memory = with_host.least["memory bandwidth"]
    assert max(with_host.least.values()) == memory > 0.8 * sum(with_host.seconds.values())
    right, slipped = (decode_step(box, GPT, 54, 2048, slips).seconds for slips in (PHYSICAL, AS_RELEASED))
    for part in ("score", "softmax", "context", "transfer"):
        assert right[part] == pytest.approx(8 / 2 * slipped[part])


@pytest.mark.parametrize(("gpus", "gb_s"), [(1, 32), (2, 32), (4, 32), (8, 32), (16, 16)])
def test_each_gpu_has_a_link_to_its_host(gpus: int, gb_s: float) -> None:
    """PCIe of 64 GB/s both ways, four to each of two processors: GPUs beyond eight share them."""
    found = decode_step(Box(A100A, gpus, host=HOST), GPT, 54, 9)
    sent = 54 * (3 + 1) * 12_288 * 2 / gpus  # q, k, v there, contexts back
    assert found.seconds["transfer"] == pytest.approx(96 * sent / (gb_s * 1e9), rel=1e-12)
    links = [found.seconds[part] for part in ("transfer", "all-reduce 1", "all-reduce 2")]
    assert found.least["link"] == pytest.approx(sum(links))


@given(
    st.sampled_from([1, 2, 7, 60, 300, 900, 4000]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2]),
    st.sampled_from([None, Experts(8, 2), Experts(64, 3)]), st.sampled_from(Placement), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=25)
def test_stacks_end_their_share_no_later_than_the_gpu(batch, gpus, size, experts, placement, limited, gated) -> None:
    """They read each weight of theirs once for each of the tokens, of an expert for those that go to it."""
    stacks = replace(BOTH, placement=placement, power_limited=limited)
    box = Box(A100A, gpus, stacks, element_bytes=size)
    decoder = Decoder(3, 12_288, 8, 4 * 12_288, gated, head=16, experts=experts)
    found, alone = (
        decode_step(replace(box, stacks=replace(stacks, co_processing=on)), decoder, batch, 4) for on in (True, False)
    )
    gain = {Placement.BANK: (16, 9), Placement.BANK_GROUP: (8, 3), Placement.BUFFER: (1, 1)}[placement][limited]
    bytes_s = gain * 5 * 665.6e9
    assert set(found.beside) == {"up", "down"} | ({"gate"} if gated else set()) and not alone.beside
    for name, seconds in found.beside.items():
        assert 0 < seconds <= found.seconds[name] * (1 + 1e-12)
        left = found.seconds[name] / alone.seconds[name]
        tokens = batch * (experts.chosen if experts else 1)
        weights = 3 * tokens * 12_288 * 4 * 12_288 // gpus * size
        assert seconds == pytest.approx((1 - left) * weights / bytes_s, rel=1e-9)
    more = found.least["commands"] - alone.least["commands"]
    assert more == pytest.approx(sum(found.beside.values()), rel=1e-6)


def test_what_placements_and_their_options_give() -> None:
    def step(**options) -> float:
        return ms(decode_step(Box(A100A, 8, replace(LIMITED, **options)), GPT, 54, 2048))

    plain = step()
    assert step(pipelined=True) < plain and step(co_processing=True) < plain
    times = [step(placement=placement) for placement in Placement]
    assert times == sorted(times) and times[0] < ms(decode_step(Box(A100A, 8), GPT, 54, 2048))
    assert step(count=10) < plain
    assert step(co_processing=True, power_limited=False) < step(co_processing=True)  # 16 of 9 times the bandwidth


def test_transfers_hide_under_attention_head_by_head() -> None:
    """Twelve heads a GPU; queries, keys and values of 54 requests there, and contexts back."""
    box = Box(A100A, 8, LIMITED)
    found = decode_step(box, GPT, 54, 2048)
    whole = 96 * (3 * 54 * 1536 + 54 * 12 * 128) * 2 / 300e9
    assert found.seconds["transfer"] == pytest.approx(whole / 12)
    short = decode_step(box, GPT, 54, 1)
    attention = short.seconds["score"] + 96 * 5 * 648 / (5 * 16 * 64 * 5.2 / 8 * 1e9)  # and the softmax alone
    assert short.seconds["transfer"] == pytest.approx(whole - attention * 11 / 12)


@pytest.mark.parametrize(("batch", "context"), [(16, 1024), (64, 1024), (16, 700), (64, 1)])
def test_projections_hide_by_their_own_time(batch: int, context: int) -> None:
    """8 of 64 heads of keys, so that the first is 5/9 of both; what hides is the time of attention but for a head."""
    decoder = Decoder(80, 8192, 64, 28_672, True, 8)
    whole, hidden = (
        decode_step(Box(A100A, 8, replace(LIMITED, pipelined=on)), decoder, batch, context).seconds
        for on in (False, True)
    )
    kept = {part: hidden[part] / whole[part] for part in ("qkv", "projection")}
    assert 0 < kept["qkv"] < 1 and kept["qkv"] == pytest.approx(kept["projection"])
    assert min(hidden.values()) >= 0


def test_tiles_are_the_best_that_fit() -> None:
    """Against all of them, one by one."""
    for m, n, k, count, split in ((54, 4608, 12_288, 1, True), (1, 2049, 128, 30, False), (700, 96, 5000, 1, True)):
        work = Matrix(m, n, k, count, split)
        inner, outer = gpu._tiles(A100A, work, 2)
        edges = (8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512)

        def cost(tile, work=work):
            blocks = work.products * (-(-work.m // tile[0]) * -(-work.n // tile[1]) if work.split else 1)
            occupied = blocks / (-(-blocks // 108) * 108)
            return gpu._traffic(work, tile) / occupied**2

        tiles = [(min(a, m), min(b, n)) for a, b in product(edges, edges)]
        kept = [t for t in tiles if ((t[0] + t[1]) * 32 + t[0] * t[1]) * 2 <= 192 * 1024]
        assert cost(inner) == min(map(cost, kept))
        assert ((outer[0] + outer[1]) * k / 64 + outer[0] * outer[1]) * 2 <= 40 * 2**20
        assert gpu._traffic(work, outer) <= gpu._traffic(work, inner)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"batch": 0}, "batch: expected at least 1 request, got 0"),
        ({"box": Box(A100A, 7)}, "gpus: expected a divisor of the heads of the model, 96, got 7"),
        ({"generated": 1}, "generated: expected at least 2 tokens, got 1: the prompt gives the first"),
    ],
)
def test_what_cannot_run(change: dict, sentence: str) -> None:
    asked = {"box": Box(A100A, 8), "decoder": GPT, "batch": 1, "prompt": 5, "generated": 3} | change
    with pytest.raises(UserError, match=re.escape(sentence)):
        mean_step(**asked)


@pytest.mark.parametrize("element_bytes", [1, 2])
@pytest.mark.parametrize(("batch", "by_memory"), [(1, True), (54, True), (2000, False)])
def test_energy_of_weights_that_the_stacks_read(batch: int, by_memory: bool, element_bytes: int) -> None:
    """A share of each feed-forward matrix costs its reads from the cells of a bank, one for each request, and its
    multiply-adds; the rest costs what GPUs draw for it. Plain arithmetic of docs/attacc.md."""
    boxes = [Box(A100A, 8, replace(LIMITED, co_processing=on), element_bytes=element_bytes) for on in (False, True)]
    alone, both, free = (
        decode_step(box, GPT, batch, 100, slips)
        for box, slips in zip([*boxes, boxes[1]], [PHYSICAL, PHYSICAL, Slips(co_processing_for_free=True)], strict=True)
    )
    units_gb_s = 5 * 665.6 * 9
    peak_gb_s = 312e3  # bytes of weights a second: 156e12 multiply-adds of two bytes, or twice as many of one
    left = 3352 / (3352 + units_gb_s / batch) if by_memory else peak_gb_s / (peak_gb_s + units_gb_s)
    macs = 96 * batch * 12_288 * 4 * 12_288
    for name in ("up", "down"):
        assert both.seconds[name] == pytest.approx(left * alone.seconds[name], rel=1e-9)
        on_stacks = (1 - left) * macs * (element_bytes * 8 * (0.11 + 0.44) + 0.32) * 1e-12
        assert both.joules[name] == pytest.approx(left * alone.joules[name] + on_stacks, rel=1e-9)
        assert free.joules[name] == alone.joules[name]
    assert sum(both.causes.values()) == pytest.approx(sum(both.joules.values()), rel=1e-12)
    assert both.causes["multiply_add"] == pytest.approx(alone.causes["multiply_add"], rel=1e-12)
    others = set(both.joules) - {"up", "down"}
    assert {name: both.joules[name] for name in others} == {name: alone.joules[name] for name in others}
