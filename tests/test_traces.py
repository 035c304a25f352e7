"""Formats of public traces, and the excerpts that ship."""

import json
from pathlib import Path

import pytest

from pimloom.arch.error import UserError
from pimloom.workload.requests.read import read
from pimloom.workload.requests.statistics import statistics
from pimloom.workload.requests.table import hit_share

HERE = Path(__file__).parent.parent / "examples" / "serving"


def test_the_excerpts_are_what_they_were():
    code, conv = (statistics(read(HERE / f"azure2023_{name}_0_1000.csv")) for name in ("code", "conv"))
    assert (code.requests, code.prompt_tokens.max, code.output_tokens.max) == (1000, 7436, 841)
    assert code.gap_cv == pytest.approx(11.01, abs=0.01) and conv.gap_cv == pytest.approx(1.245, abs=0.001)
    assert (conv.prompt_tokens.mean, conv.output_tokens.mean) == (1014.189, 247.262)
    assert conv.span_s == pytest.approx(216.0273930, abs=1e-9)


def test_a_prefix_cache_without_end_finds_what_the_identities_say():
    """A cache that is walked block by block, beside one that looks at whole prompts."""
    requests = read(HERE / "mooncake_conversation_0_400.jsonl")
    rows = [json.loads(line) for line in (HERE / "mooncake_conversation_0_400.jsonl").read_text().splitlines()]
    known: set[int] = set()
    hits = blocks = 0
    for row in rows:
        ids = row["hash_ids"][: row["input_length"] // 512]
        blocks += len(ids)
        hits += next((k for k, one in enumerate(ids) if one not in known), len(ids))
        known |= set(ids)
    assert hit_share(requests, 512) == hits / blocks
    with pytest.raises(UserError, match="--block-size 48: expected a divisor of 512"):
        hit_share(requests, 48)


TEXTS = {
    "burst.csv": "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,a,1,GPT-4,10,0,10,API log\n7.5,a,1,ChatGPT,20,3,23,Conversation log\n9,b,1,GPT-4,5,1,6,API log\n",
    "split.csv": "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
    "0,2,0,1.25,1,20,3\n1,2,0,2.75,1,5,1\n",
    "images.csv": "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
    "2024-01-01 00:00:00,1,20,3\n2024-01-01 00:00:01.5,0,5,1\n",
    "apex.jsonl": '{"StartTimeOffset": 500000000, "ContextTokens": 20, "GeneratedTokens": 3}\n'
    '{"StartTimeOffset": 2000000000, "ContextTokens": 5, "GeneratedTokens": 1}\n',
    "sim.jsonl": '{"input_toks": 20, "output_toks": 3, "arrival_time_ns": 0}\n'
    '{"input_toks": 5, "output_toks": 1, "arrival_time_ns": 1500000000}\n',
}


@pytest.mark.parametrize("name", TEXTS)
def test_formats_of_others(name, tmp_path):
    file = tmp_path / name
    file.write_text(TEXTS[name])
    found = read(file)
    assert (found.prompt, found.output, found.arrival_ps) == ([20, 5], [3, 1], [0, 1_500_000_000_000])
    assert ("1 failed ones" in found.note) == (name == "burst.csv") and ("images" in found.note) == (
        name == "images.csv"
    )


def test_tokens_tell_what_prompts_share(tmp_path):
    file = tmp_path / "sim.jsonl"
    prompts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9, 9], [3, 4, 1, 2]]
    rows = [{"input_toks": len(p), "output_toks": 1, "arrival_time_ns": 0, "input_tok_ids": p} for p in prompts]
    file.write_text("\n".join(map(json.dumps, rows)))
    prefix = read(file).prefix
    assert prefix is not None
    first, second, third = ([prefix.block(i, k, 2) for k in range(len(p) // 2)] for i, p in enumerate(prompts))
    assert first[:2] == second[:2] and first[2] != second[2] and not set(third) & {*first, *second}
    assert prefix.block(0, 3, 2) is None
