"""`pimloom serve`: what it says, what it refuses, and that interpolated prices are within their bound."""

import json
import re
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.reports.terminal.online import pricing_lines
from pimloom.systems.serving.results.limits import parse_slo
from tests.command import call

GPU = ("serve", "gpu_a100", "--model", "gpt2", "--layers", "2")
DRAWN = (*GPU, "--arrivals", "poisson:500/s", "--lengths", "64:16", "--requests", "40")
SCHEDULERS = (
    "vllm-v1", "vllm-v0", "sarathi", "orca", "lightllm", "faster-transformer", "static", "vidur-vllm", "vidur-sarathi",
)  # fmt: skip


def served(**given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt2", "arrivals": "poisson:500/s", "lengths": "64:16", "requests": 40}
    return pimloom.serve("gpu_a100", **options | {"layers": 2} | given)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_serves_all_requests(scheduler):
    found = served(scheduler=scheduler, requests=30)
    table = found.requests
    assert (table["output_tokens"] == 16).all() and found.workload["name"] == "64:16"
    assert (table["arrival_s"] <= table["first_scheduled_s"]).all()
    assert (table["first_token_s"] < table["completion_s"]).all()
    assert table["energy_j"].sum() + found.rest_j == pytest.approx(found.energy_j, rel=1e-9)
    assert fsum(found.energy_by_cause_j.values()) == pytest.approx(found.energy_j, rel=1e-9)
    assert len(found.iterations) == found.iteration_count
    assert found.iterations["energy_j"].sum() + found.rest_j == pytest.approx(found.energy_j, rel=1e-9)
    assert found.token_gap_s.count == 30 * 15


def test_a_result_is_what_the_command_prints_and_the_same_each_time():
    found = served(slo="ttft=1s,tpot=50ms", seed=3)
    done = [call(*DRAWN, "--slo", "ttft=1s,tpot=50ms", "--seed", "3", "--json", "-") for _ in range(2)]
    assert done[0] == done[1] and done[0].code == 0
    assert json.loads(done[0].out) == json.loads(json.dumps(found.to_dict()))
    assert found.slo.all == 1.0
    (row,) = found.to_frame().to_dict("records")
    assert row["scheduler"] == "vllm-v1" and not [name for name in row if name.startswith("by_")]


def test_requests_of_one_token_have_no_time_per_output_token():
    found = served(lengths="8:1", slo="tpot=1us")
    assert found.time_per_output_token_s is None and found.token_gap_s is None and found.slo.all == 1.0
    assert found.by_request["time_per_output_token_s"] == [None] * 40
    assert found.requests["time_per_output_token_s"].isna().all()
    assert "NaN" not in call(*DRAWN[:-3], "8:1", "--requests", "3", "--json", "-").out


def test_another_rate_keeps_lengths_and_gaps():
    slow, fast = (served(arrivals=f"gamma:{rate}/s,cv=2", lengths="alpaca") for rate in (100, 400))
    for name in ("prompt_tokens", "output_tokens"):
        assert (slow.requests[name] == fast.requests[name]).all()
    np.testing.assert_allclose(slow.requests["arrival_s"], 4 * fast.requests["arrival_s"], atol=1e-11)
    assert slow.spec_digest != fast.spec_digest


def test_clients_send_the_next_request_when_the_last_has_ended():
    found = served(arrivals="closed:3", lengths="sharegpt", requests=30)
    table = found.requests
    starts, ends = (sorted(table[name]) for name in ("arrival_s", "completion_s"))
    assert starts[:3] == [0.0] * 3 and starts[3:] == ends[:27]
    assert (found.iterations["requests"] <= 3).all()


def test_a_pipeline_and_replicas():
    one = served(arrivals="burst", scheduler="orca")
    two = served(arrivals="burst", scheduler="orca", replicas=2)
    assert two.time_s < one.time_s and set(two.iterations["replica"]) == {0, 1}
    piped = served(arrivals="burst", scheduler="orca", pp=2)
    assert piped.pp == 2 and piped.requests["completion_s"].max() > 0


@pytest.mark.parametrize("pp", [2, 5])
def test_stages_take_what_the_model_takes(pp):
    """Its layers, 12, and once its embedding and LM head; a stage that waits draws power at rest."""
    alone = {"arrivals": "burst", "requests": 1, "scheduler": "orca", "model": "gpt2", "exact": True, "layers": None}
    one, piped = served(**alone), served(**alone, pp=pp)
    assert piped.time_s == pytest.approx(one.time_s, rel=1e-6)
    every = [found.energy_by_cause_j for found in (one, piped)]
    joules = [{cause: j for cause, j in each.items() if cause != "at rest"} for each in every]
    assert joules[1] == pytest.approx(joules[0], rel=1e-6) and joules[0]


def test_prefixes_of_a_trace_are_found(tmp_path):
    rows = [
        {"timestamp": 100 * i, "input_length": 1030, "output_length": 4, "hash_ids": [1, 2, 10 + i]} for i in range(5)
    ]
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    found = served(arrivals=None, lengths=None, trace=file, requests=None, model="gpt3-xl", cut=True)
    assert found.requests["prefix_hit_tokens"].tolist() == [0, 1024, 1024, 1024, 1024]
    assert found.prefix_hit_share == pytest.approx(4 * 1024 / (5 * 1030))
    without = served(arrivals=None, lengths=None, trace=file, requests=None, model="gpt3-xl", prefix_cache=False)
    assert without.prefix_hit_share is None and without.energy_j > found.energy_j


def test_rules_of_later_versions_of_vllm():
    """Blocks that are taken ahead keep others out; who comes in though its whole prompt does not fit has to yield."""
    given: dict[str, Any] = {"arrivals": "burst", "lengths": "100:8", "requests": 12, "blocks": 33, "batch_tokens": 64}
    found = {
        (ahead, whole): served(**given, num_preallocate_tokens=ahead, scheduler_reserve_full_isl=whole)
        for ahead in (64, 0, None)
        for whole in (False, True)
    }
    for whole in (False, True):
        assert found[None, whole] == found[64, whole]
    assert len({one.spec_digest for one in found.values()}) == 4
    most = {key: int(one.iterations["requests"].max()) for key, one in found.items()}
    assert most[0, False] > most[64, False]
    assert found[0, False].preemptions > found[0, True].preemptions
    assert (found[0, True].requests["output_tokens"] == 8).all()


def test_pim_gpt_serves_one_at_a_time():
    found = pimloom.serve("pim_gpt", model="gpt2", arrivals="burst", lengths="8:4", requests=3)
    assert found.batch == 1 and (found.iterations["requests"] == 1).all()
    ends = found.requests["completion_s"].tolist()
    assert ends == sorted(ends)


def test_goodput_is_the_last_rate_that_holds():
    limits = {"slo": "ttft=2ms,tpot=300us", "lengths": "64:16", "requests": 100, "batch": 2}
    found = served(goodput=True, rate="50:20000", **limits)
    tried = {rate.rate_per_s: rate.attained for rate in found.rates}
    assert found.goodput_per_s in tried and found.fails_per_s in tried and found.devices == 1
    assert found.goodput_per_s < found.fails_per_s <= 1.03 * found.goodput_per_s
    assert all((share >= 0.9) == (rate <= found.goodput_per_s) for rate, share in tried.items())
    assert served(arrivals=f"poisson:{0.7 * found.goodput_per_s}/s", **limits).slo.all > 0.9
    assert served(goodput=True, rate="1:2", **limits).fails_per_s is None


def test_a_timeline_has_all_iterations_and_requests(tmp_path):
    file = tmp_path / "out.json"
    found = served(scheduler="orca", pp=2, replicas=2, timeline=file)
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]
    named = [event["name"] for event in events if event["name"].endswith((" request", " requests"))]
    said = [f"{n} request{'s' * (n != 1)}" for n in found.iterations["requests"]]
    assert sorted(named) == sorted(said) and "1 request" in named
    decode = {event["tid"]: event for event in events if event["name"] == "decode"}
    assert len(decode) == 40
    ends = sorted(event["ts"] + event["dur"] for event in decode.values())
    np.testing.assert_allclose(ends, sorted(found.requests["completion_s"] * 1e6))


POOLS = "prefill=gpu_a100*2,decode=gpu_a100"


def pooled(link: str = "400Gb/s,5pJ/bit", **given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt2-xl", "arrivals": "poisson:40/s", "lengths": "300:20", "requests": 30}
    return pimloom.serve(POOLS, **options | {"link": link} | given)


def test_pools_serve_prompts_and_decode_apart():
    found = pooled()
    both, table = found.iterations, found.requests
    assert found.system == POOLS and set(both["replica"]) == {0, 1, 2}
    assert (both[both["replica"] < 2]["context_tokens"] >= 300).all()
    assert (both[both["replica"] == 2]["new_tokens"] == both[both["replica"] == 2]["requests"]).all()  # decode alone
    assert (table["first_token_s"] < table["completion_s"]).all() and (table["output_tokens"] == 20).all()
    assert found.token_gap_s.count == 30 * 19
    assert table["energy_j"].sum() + found.rest_j == pytest.approx(found.energy_j, rel=1e-9)
    assert fsum(found.energy_by_cause_j.values()) == pytest.approx(found.energy_j, rel=1e-9)
    cache_bits = 300 * 2 * 48 * 1600 * 2 * 8  # K and V of 48 layers of 1600 values of 2 bytes
    assert found.energy_by_cause_j["link between pools"] == pytest.approx(30 * cache_bits * 5e-12)


def test_a_slower_link_delays_the_second_token_by_what_it_takes_longer():
    one = {"arrivals": "burst", "requests": 1}
    slow, fast = pooled("10Gb/s", **one), pooled("400Gb/s", **one)
    cache_bits = 300 * 2 * 48 * 1600 * 2 * 8
    assert slow.latency_s.mean - fast.latency_s.mean == pytest.approx(cache_bits / 10e9 - cache_bits / 400e9, rel=1e-6)
    assert slow.time_to_first_token_s == fast.time_to_first_token_s and slow.spec_digest != fast.spec_digest


def test_requests_of_one_token_never_reach_the_link():
    found = pooled(lengths="300:1", requests=3, arrivals="burst", slo="ttft=1s")
    assert found.energy_by_cause_j["link between pools"] == 0.0 and set(found.iterations["replica"]) <= {0, 1}
    assert found.slo.all == 1.0


BAD_POOLS = {
    f"{POOLS} --arrivals burst --requests 2": f"{POOLS}: expected --link, which carries keys and values",
    f"{POOLS} --link 4GB --arrivals burst --requests 2": "--link 4GB: expected Gb/s above 0, such as 400Gb/s",
    "prefill=gpu_a100 --link 4Gb/s --arrivals burst --requests 2": "prefill=gpu_a100: there is no decode; expected one",
    "gpu_a100 --link 4Gb/s --arrivals burst --requests 2": "--link 4Gb/s: is between pools, such as",
    f"{POOLS} --link 4Gb/s --scheduler orca --arrivals burst --requests 2": f"{POOLS}: pools go with --scheduler",
    f"{POOLS} --link 4Gb/s --speculate medusa --arrivals burst --requests 2": f"--speculate: {POOLS}: pools take",
    f"{POOLS} --link 4Gb/s --branches 2 --arrivals burst --requests 2": f"--branches: {POOLS}: pools take",
    "prefill=gpu_a100*0,decode=t4 --link 4Gb/s --arrivals burst --requests 2": "prefill=gpu_a100*0,decode=t4: expected",
}


@pytest.mark.parametrize("words", BAD_POOLS)
def test_pools_that_cannot_be_are_one_line(words):
    done = call("serve", *words.split(), "--model", "gpt2")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and BAD_POOLS[words] in done.err, done.err


FILES = {
    "falling.csv": "timestamp,prompt_tokens,output_tokens\n2,1,1\n1,1,1\n",
    "unknown.csv": "time,prompt,answer\n1,2,3\n",
    "long.csv": "timestamp,prompt_tokens,output_tokens\n0,1000,1000\n",
    "whole.csv": "timestamp,prompt_tokens,output_tokens\n0,900,10\n",
    "none.csv": "timestamp,prompt_tokens,output_tokens\n",
    "zero.csv": "timestamp,prompt_tokens,output_tokens\n0,0,4\n",
    "failed.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,GPT-4,5,0,5,API log\n",
    "not.jsonl": '{"timestamp": 0,\n',
    "keys.jsonl": '{"timestamp": 0, "input_length": 4}\n',
    "hashes.jsonl": '{"timestamp": 0, "input_length": 4, "output_length": 1}\n',
    "more.csv": "timestamp,prompt_tokens,output_tokens,foo\n0,1,2,3\n",
    "half.jsonl": '{"timestamp": 0, "input_length": 4.5, "output_length": 1, "hash_ids": []}\n',
}
BAD = {
    "--trace falling.csv": "falling.csv:3: timestamp: earlier than the line before; expected rising times",
    "--trace unknown.csv": "unknown.csv:1: unknown columns time,prompt,answer; expected timestamp,prompt_tokens,",
    "--trace long.csv": "long.csv: request 0 of 1,000 + 1,000 tokens does not fit the 1,024 positions of gpt2",
    "--trace whole.csv --scheduler vllm-v0 --batch-tokens 512": "whole.csv: request 0 has a prompt of 900 tokens",
    "--trace whole.csv --blocks 20": "whole.csv: request 0 needs 57 blocks of KV cache, and there are 19 for it",
    "--trace none.csv": "none.csv: expected at least one request",
    "--trace zero.csv": "zero.csv:2: prompt_tokens: expected 1 to 1048576 tokens, got 0",
    "--trace failed.csv": "failed.csv: expected at least one request with output",
    "--trace not.jsonl": "not.jsonl:1: is no JSON; expected an object on each line",
    "--trace keys.jsonl": "keys.jsonl:1: unknown columns timestamp,input_length; expected timestamp,input_length,",
    "--trace half.jsonl": "half.jsonl:1: input_length: expected a whole number, got 4.5",
    "--trace no.csv": "no.csv: no such file",
    "": "--trace: expected a file of requests; or write --arrivals poisson:2/s --requests N",
    "--arrivals poisson:2/s": "--requests: expected how many come with --arrivals poisson:2/s",
    "--arrivals poison:2/s --requests 3": "--arrivals poison:2/s: expected one such as poisson:2/s, gamma:2/s,cv=3",
    "--arrivals closed:0 --requests 3": "--arrivals closed:0: expected one such as poisson:2/s",
    "--arrivals poisson:0/s --requests 3": "--arrivals poisson:0/s: expected 1e-06 to 1e+09 requests per s",
    "--arrivals burst --requests 3 --lengths sharegtp": "--lengths sharegtp: expected alpaca, sharegpt or PROMPT",
    "--arrivals burst --requests 3 --scheduler vllm": "--scheduler vllm: expected one of vllm-v1, vllm-v0",
    "--arrivals burst --requests 3 --lengths 8:4 --slo ttft=1ns": "--slo ttft=1ns: expected a time in s, ms or us",
    "--arrivals burst --requests 3 --lengths 8:4 --slo tpot=1us": "--slo tpot=1us: never met: the least time per",
    "--arrivals burst --requests 3 --scheduler orca --num-preallocate-tokens 0": "--num-preallocate-tokens: belongs to",
    "--arrivals burst --requests 3 --scheduler orca --scheduler-reserve-full-isl": "--scheduler-reserve-full-isl: belo",
    "--arrivals burst --requests 3 --num-preallocate-tokens -1": "--num-preallocate-tokens -1: expected 0 to 1,000,000",
    "--arrivals burst --requests 3 --scheduler vllm-v0 --chunked --swap 9": "--chunked: with --swap vLLM v0's order",
    "--arrivals poisson:1/s --requests 9 --goodput": "--goodput: expected limits and rates, such as --slo ttft=1s",
    "--arrivals poisson:1/s --requests 9 --rate 1:2": "--rate 1:2: belongs to --goodput; leave it out",
    "--arrivals poisson:1/s --requests 9 --goodput --slo ttft=1s --rate 2:1": "--rate 2:1: expected LOW:HIGH in",
    "--arrivals burst --requests 9 --goodput --slo ttft=1s --rate 1:2": "--goodput: all requests arrive at once",
    "--arrivals poisson:1/s --requests 9 --goodput --slo ttft=1us --rate 1:2": "--slo: never met: at the lowest rate",
    "--arrivals poisson:1/s --requests 9 --goodput --slo ttft=1s --rate 1:2 --timeline t.json": "--timeline t.json: ",
    "--arrivals burst --requests 3 --chunked": "--chunked: belongs to --scheduler vllm-v0, not vllm-v1; leave it out",
    "--arrivals burst --requests 3 --pp 2": "--pp 2: vllm-v1 has one stage here",
    "--arrivals burst --requests 3 --scheduler sarathi --batch 1 --pp 2": "--batch 1: expected at least 2, one for e",
    "--arrivals burst --requests 3 --scheduler orca --batch-tokens 5": "--batch-tokens 5: orca counts requests, not",
    "--arrivals poisson:2/s --requests 9 --price-error 0": "--price-error 0: expected above 0 and at most 1",
    "--arrivals poisson:2/s --requests 9 --exact --price-error 0.1": "--price-error 0.1: --exact interpolates no price",
    "--arrivals burst --requests 3 --router random": "--router random: expected one of round-robin, least-waiting",
    "--arrivals burst --requests 3 --blocks 100000000": "--blocks 100000000: ",
    "--arrivals burst --requests 0": "--requests 0: expected 1 to 1,000,000",
    "--arrivals burst --requests 3 --prefix-cache": "--prefix-cache: sharegpt has no data on shared prefixes",
}


@pytest.mark.parametrize(("name", "said"), [("hashes.jsonl", "has hash_ids, too"), ("more.csv", "has no foo")])
def test_columns_that_are_nearly_known(name, said, tmp_path):
    (tmp_path / name).write_text(FILES[name])
    assert call(*GPU, "--trace", str(tmp_path / name)).err.endswith(f"; the nearest {said}\n")


@pytest.mark.parametrize("options", BAD)
def test_what_cannot_be_served_is_one_line(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    done = call(*GPU, *options.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"pimloom: error: {BAD[options]}") or done.err.startswith(f"pimloom: {BAD[options]}"), (
        done.err
    )


def test_limits_are_read_with_their_units():
    assert parse_slo("ttft=250ms, latency=2s") == (0.25, None, 2.0)


def test_times_are_read_to_the_last_digit(tmp_path):
    file = tmp_path / "azure.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,8,2\n2023-11-16 18:17:04.0319601,8,2\n"
    )
    found = served(arrivals=None, lengths=None, trace=file, requests=None)
    assert found.requests["arrival_s"].tolist() == [0.0, 0.0520001]


def test_a_run_of_few_iterations_is_simulated_whole(tmp_path):
    """On arrays side by side."""
    shape = {"n_embd": 256, "n_head": 4, "n_layer": 2, "n_positions": 1024, "vocab_size": 1000}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", **shape}))
    asked: dict[str, Any] = {"model": tmp_path, "arrivals": "burst", "requests": 12, "layers": 1}
    short, whole = (pimloom.serve("npu_only", lengths="16:4", exact=exact, **asked) for exact in (False, True))
    assert short.pricing.exact and short.pricing.bounds == whole.pricing.bounds and short.pricing.error_bound == 0
    assert whole.pricing.simulated == len(short.iterations)
    assert pricing_lines(short.pricing) == [
        "each different iteration of this run is simulated, no price is interpolated"  # of rough runs too: no number
    ]
    assert short.requests.equals(whole.requests)


def test_a_goodput_says_what_a_dollar_pays_for():
    asked = "serve gpu_a100 --model gpt2 --arrivals poisson:1/s --requests 20 --lengths 8:4 --slo latency=1s --goodput"
    said = " ".join(call(*asked.split(), "--rate", "1:2", "--price", "1").out.split())
    assert re.search(r" requests per J, [\d.,e+]+ requests for a dollar", said), said


@pytest.mark.parametrize("scheduler", ["orca", "faster-transformer", "static", "vllm-v1"])
def test_the_last_token_needs_no_position(scheduler):
    """A prompt and all but the last token lie in the cache: 1,000 + 25 tokens in 1,024 positions; not one more."""
    asked: dict[str, Any] = {"model": "gpt2", "arrivals": "burst", "requests": 1, "scheduler": scheduler}
    for tokens, cut in ((25, False), (26, True)):
        found = pimloom.serve("gpu_a100", lengths=f"1000:{tokens}", cut=cut, **asked)
        assert found.iterations["output_tokens"].sum() == tokens
    with pytest.raises(UserError, match="does not fit the 1,024 positions"):
        pimloom.serve("gpu_a100", lengths="1000:26", **asked)
