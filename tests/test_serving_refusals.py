"""What `pimloom serve` and its neighbours refuse of contradictory traces, numbers without end and options that do
nothing: one line, exit code 2, which says what, where, and what instead."""

from pathlib import Path

import pytest

from pimloom.arch.error import UserError
from pimloom.systems.serving.options.spans import check_end
from tests.command import call

BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
SPLIT = "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
TICKS = "request,arrival,prompt,output,group,shared\n"
FILES = {
    "shared.csv": f"{TICKS}0,0,10,5,a,10\n1,1,10,5,a,11\n",
    "group.csv": f"{TICKS}0,0,10,5,,4\n",
    "twice.csv": f"{TICKS}7,0,10,5,a,0\n8,0,10,5,a,0\n7,1,10,5,a,0\n",
    "split.csv": f"{SPLIT}0,2,0,1.25,1,20,3\n0,2,0,2.75,1,5,1\n",
    "batch.csv": f"{SPLIT}0,2,0,1.25,1,20,3\n1,2,0,2.75,4,5,1\n",
    "total.csv": f"{BURST}1,GPT-4,5,2,7,API log\n2,GPT-4,5,2,8,API log\n",
    "few.jsonl": '{"timestamp": 0, "input_length": 1025, "output_length": 1, "hash_ids": [1, 2]}\n',
    "many.jsonl": '{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2, 3]}\n',
    "tokens.jsonl": '{"input_toks": 3, "output_toks": 1, "arrival_time_ns": 0, "input_tok_ids": [1, 2]}\n',
    "grows.csv": "timestamp,prompt_tokens,output_tokens\n0,400,500\n0,500,400\n0,500,400\n",
    "late.csv": "timestamp,prompt_tokens,output_tokens\n0,8,4\n2305843,8,4\n2305844,8,4\n",
    "later.csv": "timestamp,prompt_tokens,output_tokens\n0,8,4\n1e130,8,4\n",
}
GPT2 = "--model gpt2"
BAD = {
    f"serve gpu_a100 {GPT2} --trace shared.csv": "shared.csv:3: shared: expected at most the 10 tokens of the prompt,",
    f"serve gpu_a100 {GPT2} --trace group.csv": "group.csv:2: shared: expected a group whose requests share 4 tokens",
    f"serve gpu_a100 {GPT2} --trace twice.csv": "twice.csv:4: request: 7 stands in line 2, too; expected another",
    f"serve gpu_a100 {GPT2} --trace split.csv": "split.csv:3: request_id: 0 stands in line 2, too; expected another",
    f"serve gpu_a100 {GPT2} --trace batch.csv": "batch.csv:3: batch_size: expected 1, a row is one request, got 4",
    f"serve gpu_a100 {GPT2} --trace total.csv": "total.csv:3: Total tokens: expected 7, Request tokens + Response",
    f"serve gpu_a100 {GPT2} --trace few.jsonl": "few.jsonl:1: hash_ids: expected 3, one for each 512 of 1,025 tokens,",
    f"serve gpu_a100 {GPT2} --trace many.jsonl": "many.jsonl:1: hash_ids: expected 2, one for each 512 of 1,024 tok",
    f"serve gpu_a100 {GPT2} --trace tokens.jsonl": "tokens.jsonl:1: input_tok_ids: expected the 3 of input_toks, got 2",
    f"serve gpu_a100 {GPT2} --trace late.csv": "late.csv: the last of 3 requests arrives 2,305,844 s behind the first,"
    " expected at most 2,305,843 s (26 days); take the first 2 (--requests 2)",
    f"serve gpu_a100 {GPT2} --trace later.csv": "later.csv:3: timestamp: expected at most 1e12 seconds, got 1e130",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 1000001": "--requests 1000001: expected 1 to 1,000,000",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 9 --batch 1e10": "--batch 10000000000: expected 1 to 1,000,000",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 10 --replicas 1e6": "--replicas 1000000: expected 1 to 4,096 c",
    f"serve prefill=gpu_a100*999999,decode=gpu_a100 {GPT2} --link nvlink3 --arrivals burst --requests 9": "gpu_a100*999"
    "999: expected 1 to 4,096 copies; serve a part of the requests on a part of the copies",
    f"run gpu_a100 {GPT2} --generate 5 --batch 1e6": "--batch 1000000: expected at most 65,536; take fewer, on fewer d",
    f"compare gpu_a100,t4 {GPT2} --batch 1e6": "--batch 1000000: expected at most 65,536; take fewer, on fewer devices",
    "trace ddr4_3200 --pattern random --requests 1e15": "--requests 1e15: expected at most 1e+10, hours of simulation",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 9 --sample 1e10": "--sample 10000000000: expected 0 to 1,000",
    f"serve gpu_a100 {GPT2} --arrivals poisson:1e-6/s --requests 9": "sharegpt: the last of 9 requests arrives",
    f"serve gpu_a100 {GPT2} --arrivals poisson:1/s --requests 9 --goodput --slo ttft=1s --rate 1:1e10": "--rate 1:1e10"
    ": expected LOW:HIGH in requests per s, the lower first, from 1e-06 to 1e+09, such as 0.5:16",
    f"serve gpu_a100 {GPT2} --arrivals poisson:1/s --requests 9 --goodput --slo ttft=1s --rate 1e-6:1": "--rate 1e-06: "
    "the last of 9 requests arrives 8,000,000 s behind the first, expected at most 2,305,843 s (26 days); take a high",
    f"serve gpu_a100 {GPT2} --arrivals closed:4 --requests 9 --goodput --slo ttft=1s --rate 1:2": "--goodput: 4 clients"
    " of --arrivals closed:4 send when requests have ended, at no rate; give --arrivals poisson:1/s or a trace",
    f"run neupims {GPT2} --batch 4 --prompt 8 --generate 2 --seed 3": "--seed 3: equal requests draw nothing; leave it",
    f"run neupims {GPT2} --requests list.csv --seed 3": "--seed 3: list.csv draws nothing; leave it out",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 8 --long-prompt 2048": "--long-prompt 2048: an iteration has n"
    "o more than 2,048 tokens; leave it out",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 9 --long-prompt 64 --batch-tokens 64": "--long-prompt 64: an",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 9 --speculate medusa,top1=0.5,nodes=11": "nodes: expected at "
    "most 10, all nodes of 1 head with 10 guesses each",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 9 --speculate draft=gpt2,gamma=2,alpha=1,streams=3": "streams: "
    "expected at most the 2 drafts, got 3",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 9 --speculate draft=gpt2,alpha=0,spread=0.1": "spread: about "
    "alpha 0 there is none; leave it out",
    f"serve gpu_a100 {GPT2} --arrivals burst --requests 9 --speculate draft=gpt2,alpha=0.5,spread=0.5": "spread: expect"
    "ed below 0.5 about alpha 0.5",
    f"serve gpu_a100 {GPT2} --scheduler vllm-v0 --batch-tokens 512 --trace grows.csv --blocks 100": "request 1 and 1 mo"
    "re wait for ever: what is known by now, of one 837 tokens, fits no iteration; give --batch-tokens or --blocks",
    "serve cent --model llama-2-7b --arrivals burst --requests 2 --scheduler orca --pp 2": "--pp 2: cent holds whole "
    "models, and its layers are stages by themselves; leave it out",
    "serve attacc --model gpt3-175b --arrivals burst --requests 2 --set gpus=2": "gpt3-175b: needs 349,208,518,656 "
    "bytes for its weights, 2 GPUs of attacc hold 171,798,691,840; take 6 (--set gpus=6)",
    "serve attacc --model gpt3-175b --arrivals burst --requests 2 --tp 2": "gpt3-175b: needs 349,208,518,656 bytes for"
    " its weights, 2 GPUs of attacc hold 171,798,691,840; take 6 (--tp 6)",
    "serve attacc --model gpt3-175b --arrivals burst --requests 2 --set gpus=7": "--set gpus=7: does not divide the",
    "run attacc --model gpt3-175b --tp 4": "--tp 4: attacc is a box of GPUs that share every layer of equal requests; "
    "write --set gpus=N",
    "run cent --model llama-2-7b --pp 33": "--pp 33: expected 32 stages, one a layer, or stages x --tp = 32 devices, "
    "at most 32 stages then",
    f"run npu_pim {GPT2} --batch 4 --prompt 8 --set dram.part=ddr9": "--set dram.part: unknown part 'ddr9'; known par",
    "aim odd.aim": "odd.aim:1: unknown instruction 'FOO'; expected one of WR_SBK, ",
}  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_it_is_refused_in_one_line(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (FILES | {"list.csv": "seq_len\n9\n", "odd.aim": "AiM FOO 1\n"}).items():
        Path(name).write_text(text)
    done = call(*words.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and BAD[words] in done.err, done.err


def test_who_may_not_come_back_is_told_where_blocks_may_run_short(tmp_path):
    """A prompt that comes whole, with what is known behind it, must fit the tokens of an iteration once more."""
    (tmp_path / "grows.csv").write_text(FILES["grows.csv"])
    words = f"serve gpu_a100 {GPT2} --trace {tmp_path}/grows.csv --batch-tokens 512 --blocks".split()
    said = "request 0 and 2 more may wait for ever: an iteration takes 512 tokens, and who has to yield when more are"
    known = {
        name: [said in call(*words, blocks, "--scheduler", *name.split()).err for blocks in ("170", "171")]
        for name in ("vllm-v0", "vidur-vllm", "vllm-v0 --chunked", "vllm-v0 --swap 999", "sarathi")
    }
    assert known == dict.fromkeys(known, [False, False]) | {"vllm-v0": [True, False], "vidur-vllm": [True, False]}


def test_what_ends_too_late_is_told(monkeypatch):
    """A clock counts picoseconds up to 2^62; the last arrival may be at half of it."""
    with pytest.raises(UserError, match=r"^requests need more than 4,611,686 s \(53 days\), the longest that is"):
        check_end(1 << 62)
    check_end((1 << 62) - 1)
