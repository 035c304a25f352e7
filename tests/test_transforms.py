"""`pimloom serve` with decoding transforms: what comes of drafts and branches under every scheduler that takes them."""

from functools import cache
from math import fsum
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.serving.options.named import Limits, scheduler_of
from pimloom.systems.serving.pricing.costs import Piece, pieces_of
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest
from pimloom.systems.serving.transforms.branched import Branched, Branching, lengths_of
from pimloom.systems.serving.transforms.speculated import Chain, Speculated, Tree
from pimloom.workload.batch import Batch, Request
from pimloom.workload.decoding.density import Density
from pimloom.workload.decoding.formats import FORMATS
from tests.command import call
from tests.slow import slow

TAKE = ("vllm-v1", "vllm-v0", "sarathi", "orca", "faster-transformer")
DRAFT = "draft=gpt2,gamma=3,alpha=0.7"


def served(system: str = "gpu_a100", **given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt2-medium", "arrivals": "burst", "lengths": "64:17", "requests": 8}
    return pimloom.serve(system, **options | given)


def device(name: str, model: str, layers: int | None = None, **more: Any) -> Device:
    llm = load_llm(model)
    return device_of(load_system(name), llm, Share(1, layers or llm.num_hidden_layers, **more))


@cache
def plainly(scheduler: str) -> Any:
    return served(scheduler=scheduler)


@pytest.mark.parametrize("scheduler", TAKE)
@pytest.mark.parametrize("how", [{"speculate": DRAFT}, {"speculate": "medusa,nodes=6"}, {"branches": "3"},
                                 {"branches": "4,stop=2,spread=0.6", "shared_kv": True}])  # fmt: skip
def test_every_request_gets_its_tokens(scheduler, how):
    found = served(scheduler=scheduler, **how)
    table, plain = found.requests, plainly(scheduler)
    if "speculate" in how:
        assert (table["output_tokens"] == 17).all() and 0 < found.accepted_share < 1
        assert found.iteration_count < plain.iteration_count
        assert found.token_gap_s.count == 8 * 16
    else:
        many = 51 if how["branches"] == "3" else None
        assert (table["output_tokens"] == many).all() if many else table["output_tokens"].nunique() > 1
        assert found.token_gap_s.count == table["output_tokens"].sum() - 8
    assert fsum(found.energy_by_cause_j.values()) == pytest.approx(found.energy_j, rel=1e-9)
    assert table["energy_j"].sum() == pytest.approx(found.energy_j, rel=1e-9)
    assert found.spec_digest != plain.spec_digest
    if scheduler == TAKE[0]:
        assert found.to_dict() == served(scheduler=scheduler, **how).to_dict()


@pytest.mark.parametrize("how", [{"speculate": DRAFT}, {"speculate": "medusa,nodes=6"}, {"branches": "3"},
                                 {"branches": "3", "shared_kv": True}])  # fmt: skip
@pytest.mark.parametrize("scheduler", ["vllm-v1", "vllm-v0", slow("sarathi")])
def test_those_that_lose_their_cache_get_the_same_tokens(scheduler, how):
    blocks, of = (24 if "speculate" in how else 60), {"scheduler": scheduler, "requests": 6, "lengths": "16:100"}
    few = served(blocks=blocks, **of, **how)
    assert few.preemptions > 0 and few.blocks_used_most <= blocks
    many = served(**of, **how)
    assert (few.requests["output_tokens"] == many.requests["output_tokens"]).all()
    assert few.latency_s.mean > many.latency_s.mean


def test_all_schedulers_see_the_same_draws():
    made = {}
    for scheduler in TAKE:
        found = served(scheduler=scheduler, arrivals="poisson:200/s", speculate=DRAFT, seed=5)
        made[scheduler] = found.accepted_share
    assert len(set(made.values())) == 1


def test_drafts_are_cut_to_the_budget_but_a_tree_comes_whole():
    for accepting, cut in ((Chain([0.5] * 4, 0), [5, 4]), (Tree([1.0, 0.5], 4, 9, 0), [5, 1])):
        scheduler = scheduler_of("vllm-v1", Limits(100, 16, 8, 9, 1000))
        decoding = Speculated(accepting, 1000)
        for number in range(2):
            request = LiveRequest(number, 0, 4, 50)
            request.decoding = decoding
            scheduler.waiting.append(request)
        first = scheduler.form(0)
        assert first is not None and first.new == [4, 4]
        scheduler.ran(first, 1)
        second = scheduler.form(1)
        assert second is not None and second.new == cut
        assert [one.verify for one in pieces_of(second)] == [n > 1 for n in cut]


def test_no_draft_behind_the_models_positions():
    decoding = Speculated(Chain([0.5] * 4, 0), 10)
    request = LiveRequest(0, 0, 5, 9)
    request.decoding, request.first_token = decoding, 0
    for known, drafts in ((6, 4), (7, 3), (9, 1), (10, 0), (11, 0)):
        request.known, request.cached = known, known - 1
        assert decoding.ahead(request) == drafts
    tree = Speculated(Tree([1.0, 0.5], 4, 9, 0), 10)
    request.known, request.cached = 7, 6
    assert tree.ahead(request) == 0


def test_lookahead_slots_are_taken_and_kept():
    scheduler = scheduler_of("vllm-v0", Limits(100, 4, 8, 64, 1000))
    request = LiveRequest(0, 0, 4, 50)
    request.decoding = Speculated(Chain([0.0] * 6, 0), 1000)  # none is ever right
    scheduler.waiting.append(request)
    for now in range(2):
        made = scheduler.form(now)
        assert made is not None
        scheduler.ran(made, now + 1)
    assert (request.known, request.cached, request.blocks) == (6, 5, 3)  # 4 + 1 + 6 slots in blocks of 4
    assert request.longest == 53 + 6


def test_rows_of_branches_and_what_is_computed_once_more():
    request = LiveRequest(0, 0, 10, 4)
    Branched([2, 4, 4], True).dress(request)
    assert (request.last, request.beside) == (20, 0)
    request.cached, request.known = 10, 10
    assert request.decoding is not None and request.decoding.ran(request) == 3 and request.known == 13
    made = pieces_of(Iteration([request], [3]))
    assert made == [Piece(1, 10, 1, shared=10, group=1)] * 3
    request.cached = 13
    assert request.decoding.ran(request) == 3
    request.restart()
    again = pieces_of(Iteration([request], [16]))
    assert again == [Piece(10, 0, 1), Piece(2, 10, 1), Piece(2, 10, 1), Piece(2, 10, 1)]
    copied = LiveRequest(1, 0, 10, 4)
    Branched([4, 4], False).dress(copied)
    assert (copied.last, copied.beside) == (28, 10)
    lengths = lengths_of(Branching(8, 4, 0.5, False), 100, 3, 0)
    assert lengths == sorted(lengths) and len(set(lengths[3:])) == 1
    drawn = [np.mean(lengths_of(Branching(8, 8, 0.5, False), 1000, i, 0)) for i in range(300)]
    assert np.mean(drawn) == pytest.approx(1000, rel=0.05)


@pytest.mark.parametrize("how", [
    slow({"speculate": DRAFT}), {"speculate": "medusa,nodes=20"}, {"branches": "4", "shared_kv": True},
    slow({"branches": "4"}), {"speculate": "mirror,draft=gpt2,on=gpu_a100,alpha=0.8,exit=8,kappa=2,rho=0.5"},
])  # fmt: skip
def test_prices_read_between_others_are_within_their_bound(how):
    ways = ({"exact": True}, {"sample": 1000})
    exact, read = (served(lengths="alpaca", requests=10, **way, **how) for way in ways)
    bound = read.pricing.error_bound
    assert bound < 0.05 and read.latency_s.mean == pytest.approx(exact.latency_s.mean, rel=3 * bound + 0.01)
    assert read.energy_j == pytest.approx(exact.energy_j, rel=3 * bound + 0.02)


def test_clients_that_wait_get_the_same_tokens():
    """What is right depends on the request alone, whenever it comes."""
    for how in ({"speculate": DRAFT}, {"branches": "3", "shared_kv": True}):
        waits, once = (served(arrivals=arrivals, **how) for arrivals in ("closed:3", "burst"))
        assert (waits.requests["output_tokens"] == once.requests["output_tokens"]).all()
        assert waits.accepted_share == once.accepted_share and waits.batch_mean < once.batch_mean


def test_weights_and_attention_alone_leave_tokens_as_they_are():
    plain, narrow = served(), served(weights="int4", density="0.5,phase=all")
    assert narrow.transforms == {"weights": "int4", "density": "0.5,phase=all"} and narrow.tokens_per_step is None
    assert narrow.iteration_count == plain.iteration_count and narrow.latency_s.mean < plain.latency_s.mean


def test_what_drafts_take_of_memory_and_energy():
    found = served(speculate=DRAFT)
    assert found.blocks < served().blocks and 0 < found.energy_by_cause_j["drafts"] < found.energy_j
    prism = served(speculate="prism,draft=gpt2,gamma=3,alpha=0.7:0.6:0.5")
    assert prism.blocks < found.blocks  # a set of weights for each place
    apart = served(speculate=f"{DRAFT},on=gpu_a100")
    assert apart.blocks == served().blocks and apart.latency_s.mean == pytest.approx(found.latency_s.mean, rel=1e-3)
    fast = served(speculate=f"{DRAFT},streams=3")
    assert fast.latency_s.mean < found.latency_s.mean


def test_a_gemv_engine_pays_for_each_row_and_a_processor_reads_once():
    pim, gpu, cent = device("pim_gpt", "gpt2"), device("gpu_a100", "gpt2"), device("cent", "llama-2-7b")
    for gamma in (1, 4):
        checked = Batch.verify([200], gamma + 1)
        rows = [Batch.decode([context]) for context in range(200 - gamma, 201)]
        assert pim.step(checked).end_ps == pytest.approx(sum(pim.step(row).end_ps for row in rows), rel=0.02)
        assert cent.step(checked).end_ps == pytest.approx(sum(cent.step(row).end_ps for row in rows), rel=1e-6)
        assert gpu.step(checked).end_ps < 1.05 * gpu.step(Batch.decode([200])).end_ps


def test_rows_that_are_checked_go_to_pim_one_by_one():
    small = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 512}
    llm = replace(load_llm("gpt3-small"), **small)
    neupims, npu = (device_of(load_system(name), llm, Share(1, 1, outside=False)) for name in ("neupims", "npu_only"))
    rows, checked, plain = 3, Batch.verify([100, 130], 3), Batch.decode([100, 130])
    dots = [neupims.step(batch).commands["COMP"] for batch in (checked, plain)]
    assert (
        dots[0] == sum(neupims.step(Batch.decode([100 - back, 130 - back])).commands["COMP"] for back in range(rows))
        and 2 * dots[1] < dots[0] <= rows * dots[1]
    )
    assert npu.step(checked).commands == npu.step(Batch.prefill([3, 3], [97, 127])).commands
    assert neupims.step(checked).macs == npu.step(checked).macs


def test_attacc_says_that_it_has_no_such_step():
    box = device("attacc", "gpt3-175b", outside=False)
    with pytest.raises(pimloom.UserError, match="attacc: drafts to verify, and a step is of prompts or of a token"):
        box.step(Batch.verify([200], 5))


def test_a_roofline_reads_what_is_shared_once_and_weights_as_wide_as_they_are():
    plain, narrow = device("gpu_a100", "gpt3-7b", outside=False), device("gpu_a100", "gpt3-7b", weights=FORMATS["int4"])
    one = Request("decode", 1, 2000, 1, 1900, 1)
    shared, apart = Batch((one,) * 8), Batch.decode([2000] * 8)
    each = plain.capacity().cache_bytes_per_token
    saved = plain.step(apart).interface_bytes - plain.step(shared).interface_bytes
    assert saved == pytest.approx(7 * 1900 * int(each), rel=1e-6)
    assert plain.step(apart).macs == plain.step(shared).macs
    step = narrow.step(Batch.decode([2000]))
    wide = plain.step(Batch.decode([2000]))
    assert wide.interface_bytes - step.interface_bytes == pytest.approx(
        plain.capacity().weight_bytes * (1 - 4.125 / 16), rel=1e-3
    )
    assert narrow.capacity().tokens > plain.capacity().tokens


def test_sparse_attention_of_prompts_or_of_all():
    full = device("gpu_a100", "llama-3-8b", outside=False)
    prompts, every = (
        device("gpu_a100", "llama-3-8b", outside=False, density=Density(0.2, 0.1, only)) for only in (True, False)
    )

    def attention(of: Device, batch: Batch) -> int:
        return sum(span.end_ps - span.start_ps for span in of.step(batch).spans if span.operator == "fused_mha")

    prefill, decode = Batch.prefill([8000]), Batch.decode([8000] * 4)
    assert attention(prompts, prefill) == pytest.approx(0.3 * attention(full, prefill), rel=1e-3)
    assert attention(prompts, decode) == attention(full, decode)
    assert attention(every, decode) == pytest.approx(0.3 * attention(full, decode), rel=2e-3)
    mixed = attention(prompts, prefill + decode)
    assert mixed == pytest.approx(attention(prompts, prefill) + attention(full, decode), rel=1e-3)


ONE = ("--model", "gpt2", "--arrivals", "burst", "--lengths", "16:8", "--requests", "2")
BAD = {
    ("gpu_a100", "--speculate", "draft=gpt2-xl,alpha=0.7"): "weights, more than the 124,439,808 of gpt2 that it drafts",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.7,gama=3"): "expected draft, gamma, alpha, spread, on, streams",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.7,gamma=2,gamma=3"): "gamma is given twice",
    ("gpu_a100", "--speculate", "meduza"): "expected draft=MODEL, medusa, prism or mirror",
    ("gpu_a100", "--speculate", "draft=gpt2"): "chain has no alpha; add alpha=...",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=1.5"): "alpha: expected 0 to 1, got '1.5'",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.5:0.4,gamma=1"): "2 values of alpha for 1 drafts; give gamma more",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.5:0.4,spread=0.1"): "a spread needs one alpha",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.5,spread=0.6"): "spread: expected below 0.5 about alpha",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.5,gamma=0"): "gamma: expected 1 to 256, got '0'",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.7", "--scheduler", "lightllm"): "lightllm computes one new token",
    ("gpu_a100", "--speculate", "draft=gpt2,alpha=0.7", "--scheduler", "vllm-v0", "--chunked"): "--chunked computes",
    ("gpu_a100", "--speculate", "medusa", "--branches", "2"): "drafts for branches are not supported",
    ("gpu_a100", "--speculate", "mirror,draft=gpt2,on=gpu_a100,alpha=0.7,exit=12,rho=0.5"): "exit: expected less than",
    ("gpu_a100", "--shared-kv"): "--shared-kv: belongs to --branches N; add them, or leave it out",
    ("gpu_a100", "--branches", "0"): "--branches 0: number, such as 8, or 8,stop=4,spread=0.5: expected 1 to 256",
    ("gpu_a100", "--branches", "4,stop=5"): "stop: expected at most the 4 branches, got 5",
    ("pim_gpt", "--branches", "4"): "--branches 4: pim_gpt runs at most 1 at once",
    ("pim_gpt", "--speculate", "medusa"): "pim_gpt has no steps of one layer, which price the heads",
    ("neupims", "--branches", "4", "--shared-kv"): "a row of a bank is multiplied with one query at a time",
    ("npu_only", "--branches", "4", "--shared-kv"): "npu_only: its attention is simulated request by request",
    ("neupims", "--weights", "int4"): "the banks of neupims multiply elements of one width",
    ("npu_only", "--weights", "int4"): "the arrays of npu_only multiply elements of one width",
    ("neupims", "--density", "0.2"): "rows of banks hold tokens side by side",
}  # fmt: skip


@pytest.mark.parametrize("given", BAD)
def test_what_is_refused(given):
    done = call("serve", *given, *ONE)
    assert done.code == 2 and BAD[given] in done.err and done.err.count("\n") == 1, done.err
