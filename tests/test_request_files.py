"""Request lists and arrival traces are read strictly: a number is what it says, a file has one kind of time; errors are
one line, exit code 2."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom.commands.progress
from pimloom.arch.error import UserError
from pimloom.systems.serving.requests import read_requests
from pimloom.workload.requests.read import read
from pimloom.workload.requests.table import (
    Answered,
    Groups,
    Identities,
    Prefix,
    Tokens,
    first,
    hit_share,
)
from pimloom.workload.requests.trace_file import read_conversations, read_trace
from tests.command import call
from tests.reference_data import needed

HEADER = "timestamp,prompt_tokens,output_tokens\n"
BAD_TIMES = {
    "0,5,5\n2024-01-01,5,5\n": ":3: timestamp: expected seconds as in the lines before, got 2024-01-01",
    "2024-01-01,5,5\n1e9,5,5\n": ":3: timestamp: expected a date and time such as 2024-05-10 12:00:00 as in the lines "
    "before, got 1e9",
    "20240101,5,5\n": ":2: timestamp: 20240101 may be seconds or a date; write 20240101.0 or 2024-01-01",
    "1_0,5,5\n": ":2: timestamp: expected seconds or a date and time such as 2024-05-10 12:00:00, got 1_0",
    "inf,5,5\n": "got inf",
    "nan,5,5\n": "got nan",
    "1e999,5,5\n": ":2: timestamp: expected at most 1e+12 seconds, got 1e999",
    "-1e308,5,5\n1e308,5,5\n": ":2: timestamp: expected at most 1e+12 seconds, got -1e308",
    "-1,5,5\n0,5,5\n": ":2: timestamp: expected at least 0 seconds, got -1",
    "-.5,5,5\n": ":2: timestamp: expected at least 0 seconds, got -.5",
    "0x10,5,5\n": "got 0x10",
    "\u0663,5,5\n": "got \u0663",  # an Arabic digit, which float() takes
    "5,5,5\n4,5,5\n": ":3: timestamp: earlier than the line before; expected rising times",
    f"{'1' * 5000},5,5\n": ":2: expected at most 100 characters between commas, got 5000",
    f"0,{'1' * 5000},5\n": ":2: expected at most 100 characters between commas, got 5000",
    f"{'x' * 200_000},5,5\n": ":2: not CSV: field larger than field limit (131072); expected numbers between commas",
    '0,"5,5\n': ": not CSV: unexpected end of data; expected numbers between commas",
    "0,1_0,5\n": ":2: prompt_tokens: expected 1 to 1048576 tokens, got 1_0",
    "0,5,+5\n": ":2: output_tokens: expected 1 to 1048576 tokens, got +5",
    "0,5,\u0665\n": ":2: output_tokens: expected 1 to 1048576 tokens, got \u0665",
    "0,5,1048577\n": ":2: output_tokens: expected 1 to 1048576 tokens, got 1048577",
    "0,0,5\n": ":2: prompt_tokens: expected 1 to 1048576 tokens, got 0",
}
BAD_LISTS = {
    f"seq_len\n{'1' * 5000}\n": ":2: expected at most 100 characters between commas, got 5000",
    f"seq_len\n{'1' * 100}\n": ":2: seq_len: expected 1 to 1048576, got 1111",
    f"seq_len\n{'x' * 200_000}\n": ":2: not CSV: field larger than field limit (131072)",
    "seq_len\n1_0\n": ":2: seq_len: expected 1 to 1048576, got 1_0",
    "seq_len\n\u0665\n": ":2: seq_len: expected 1 to 1048576, got \u0665",
    "seq_len,ch_idx\n5,-0\n": ":2: ch_idx: expected 0 to 31, got -0",
    "seq_len,ch_idx\n5,32\n": ":2: ch_idx: expected 0 to 31, got 32",
    "seq_len,ch_idx\n5\n": ":2: expected 2 values, got 1",
    'seq_len\n"5\n': ":2: not CSV: unexpected end of data",
    "seq_len\n": ": expected at least one request below the header",
}


@pytest.mark.parametrize("body", BAD_TIMES)
def test_traces_are_read_strictly(body, tmp_path):
    (tmp_path / "t.csv").write_text(HEADER + body)
    options = ("--model", "gpt3-7b", "--requests", tmp_path / "t.csv", "--batch", "2")
    done = call("run", "gpu_a100", *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert BAD_TIMES[body] in done.err and len(done.err) < 400


@pytest.mark.parametrize("text", BAD_LISTS)
def test_lists_are_read_strictly(text, tmp_path):
    (tmp_path / "r.csv").write_text(text)
    done = call("run", "neupims", "--model", "gpt3-7b", "--requests", tmp_path / "r.csv")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert BAD_LISTS[text] in done.err and len(done.err) < 400


def test_numbers_as_people_write_them(tmp_path):
    """Exponents, a leading or a closing point, spaces, quotes; dates of different zones."""
    path = tmp_path / "t.csv"
    path.write_text(HEADER + '.5, 5 ,007\r\n"1.",5,5\r\n1.5e1,5,5\r\n')
    arrivals, prompt, output = read_trace(path)
    assert (arrivals.tolist(), prompt.tolist(), output.tolist()) == ([0, 0.5, 14.5], [5, 5, 5], [7, 5, 5])
    path.write_text(HEADER + "2024-01-01,5,5\n2024-01-01T00:00:02Z,5,5\n2024-01-01 02:00:03.5+02:00,5,5\n")
    assert read_trace(path)[0].tolist() == [0, 2, 3.5]
    path.write_text("seq_len,ch_idx\r7,0\r8,3\r")
    tokens, channel = read_requests(path, 4)
    assert tokens.tolist() == [7, 8] and channel is not None and channel.tolist() == [0, 3]


@settings(max_examples=50)
@given(st.text(max_size=40) | st.sampled_from(["1e5", "1_0", "-1", "2024-01-01", '"', ",", "\x00", "9" * 4301]))
def test_no_text_is_more_than_a_user_error(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp()
    for body in (f"{HEADER}{text},5,5\n", f"{HEADER}0,{text},5\n1,1,{text}", f"seq_len\n{text}\n", text):
        path = folder / "any.csv"
        path.write_text(body, newline="")
        for reads in (read_trace, lambda file: read_requests(file, 4)):
            try:
                assert (reads(path)[0] >= 0).all()
            except UserError as error:
                assert len(str(error)) < 400


def test_conversations_of_any_depth(tmp_path):
    path = tmp_path / "t.json"
    deep = "[" * 100_000
    for text in (deep, f'[{{"id": {deep}', '[{"conversations": "\\ud800"}]', json.dumps([{"a": 1e308}])):
        path.write_text(text)
        with pytest.raises(UserError, match="t.json"):
            read_conversations(path)


PREFIXES: dict[str, Prefix] = {
    "groups": Groups(["a", "b", "a", "a", ""], [40, 17, 8, 64, 0]),
    "identities": Identities([[7, 9], [7], [3, 9], [7, 9, 1], []], 32),
    "answered": Answered(Groups(["a", "b", "a", "a", ""], [40, 17, 8, 64, 0]), [30, 10, 4, 50, 0], [10, 7, 4, 14, 0]),
    "tokens": Tokens([list(range(40)), list(range(17)), [*range(16), *range(24)], [5] * 64, [5] * 32]),
}


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_blocks_have_equal_numbers_where_they_are_equal(prefix, size):
    of, counts = PREFIXES[prefix], [10, 4, 6, 16, 8]
    counts = [count * 4 // size for count in counts]
    told = of.numbered(range(5), counts, size)
    blocks = [(of.block(i, k, size), int(told[i][k])) for i in range(5) for k in range(counts[i])]
    assert [len(one) for one in told] == counts
    for block, number in blocks:
        assert (block is None) == (number == -1)
        assert all((block == other) == (number == its) for other, its in blocks if block is not None)
    assert len({number for _, number in blocks}) > 3


def lines(folder, rows):
    path = folder / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


SIM = {"input_toks": 64, "output_toks": 8, "input_tok_ids": list(range(64))}


def test_token_ids_make_prefix_hits(tmp_path):
    """Three equal prompts of 64 tokens, blocks of 16: all but the last token may come from the cache, 0 + 48 + 48."""
    path = lines(tmp_path, [SIM | {"arrival_time_ns": n * 10**9} for n in range(3)])
    done = call("serve", "gpu_a100", "--model", "gpt2", "--trace", path, "--json", "-", "--quiet")
    assert done.code == 0 and json.loads(done.out)["prefix_hit_share"] == (48 + 48) / (3 * 64), done
    other = lines(tmp_path, [SIM | {"arrival_time_ns": n * 10**9, "input_tok_ids": [n] * 64} for n in range(3)])
    again = call("serve", "gpu_a100", "--model", "gpt2", "--trace", other, "--json", "-", "--quiet")
    assert json.loads(again.out)["spec_digest"] != json.loads(done.out)["spec_digest"]


def test_workloads_of_llmservingsim_load(tmp_path):
    """Its loader sorts by arrival."""
    rows = [SIM | {"arrival_time_ns": at, "output_toks": 8 + at} for at in (2000, 0, 1000)]
    found = read(lines(tmp_path, rows))
    assert found.arrival_ps == [0, 10**6, 2 * 10**6] and found.output == [8, 1008, 2008]
    session = {"session_id": "s", "arrival_time_ns": 0, "sub_requests": [{"input_toks": 1, "output_toks": 1}]}
    with pytest.raises(UserError, match=r"t.jsonl:1: sub_requests: a session whose calls wait for one another"):
        read(lines(tmp_path, [session]))


@pytest.mark.parametrize("exact", [(), ("--exact",)])
def test_generated_tokens_are_the_beginning_of_later_prompts(exact, tmp_path):
    """32 + 32 tokens, the last of which is in no cache: 63, so 3 full blocks of 16; the third prompt differs."""
    one: dict[str, Any] = {"input_toks": 32, "output_toks": 32, "arrival_time_ns": 0}
    one |= {"input_tok_ids": list(range(32)), "output_tok_ids": list(range(100, 132))}
    ids = [*range(32), *range(100, 132), *range(16)]
    two: dict[str, Any] = {"input_toks": 80, "output_toks": 2, "arrival_time_ns": 10**10}
    two |= {"input_tok_ids": ids, "output_tok_ids": [1, 2]}
    three = two | {"arrival_time_ns": 2 * 10**10, "input_tok_ids": [*range(32), *range(200, 248)]}
    path = lines(tmp_path, [one, two, three])
    done = call("serve", "gpu_a100", "--model", "gpt2", "--trace", path, "--json", "-", "--quiet", *exact)
    assert json.loads(done.out)["prefix_hit_share"] == (48 + 32) / (32 + 80 + 80), done
    assert hit_share(read(path), 16) == (3 + 2) / (2 + 5 + 5)
    with pytest.raises(UserError, match=r"t.jsonl:1: output_tok_ids: expected the 32 of output_toks, got 1"):
        read(lines(tmp_path, [one | {"output_tok_ids": [1]}]))


def talks(folder, *conversations):
    path = folder / "t.json"
    path.write_text(json.dumps([{"conversations": [{"from": who, "value": "x" * n} for who, n in each]}
                                for each in conversations]))  # fmt: skip
    return path


def test_later_turns_have_their_history(tmp_path):
    """Of 4 characters a token: the second prompt is the first, its answer and its own; a system's text stands first."""
    first = [("human", 400), ("gpt", 80), ("human", 40), ("gpt", 8), ("human", 4)]
    second = [("system", 100), ("user", 4), ("chatgpt", 4)]
    found = read(talks(tmp_path, first, second, [("gpt", 4)], [], [("human", 4), ("bing", 0)]))
    assert (found.prompt, found.output) == ([100, 130, 26], [20, 2, 1])
    assert "a prompt holds all earlier turns of its conversation; 1 pairs without a text left out" in found.note
    assert "; 2 conversations without an answered turn left out" in found.note
    assert found.prefix is not None and found.prefix.block(0, 0, 16) == found.prefix.block(1, 0, 16) is not None
    assert found.prefix.block(0, 7, 16) is None and found.prefix.block(2, 0, 16) != found.prefix.block(0, 0, 16)
    assert read(talks(tmp_path, second)).prefix is None  # nothing is shared


def test_the_published_case_of_conversations(tmp_path):
    found = read(needed("cases/12_sharegpt_history/sg.json"))
    assert found.prompt == [100, 130, 26, 10] and found.output == [20, 2, 1, 10]


def test_rows_of_burstgpt_without_a_response_are_counted(tmp_path):
    path = tmp_path / "b.csv"
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    rows = ("5,GPT-4,472,18,490", "45,GPT-4,1087,0,1087", "60,GPT-4,0,0,0", "61,GPT-4,9,,")
    path.write_text(head + "".join(f"{row},API log\n" for row in rows))
    found = read(path)
    assert (found.prompt, found.output) == ([472], [18]) and "; 3 failed ones, without output, left out" in found.note
    path.write_text(head + "5,ChatGPT,0,18,18,API log")
    with pytest.raises(UserError, match="Request tokens: expected 1 to 1048576 tokens, got 0$"):
        read(path)


SERVING = Path(__file__).parents[1] / "examples/serving"


@pytest.mark.parametrize("name", ["azure2023_conv_0_1000.csv", "mooncake_conversation_0_400.jsonl"])
def test_rows_after_the_last_request_are_not_read(name, tmp_path):
    whole, lines = read(SERVING / name), (SERVING / name).read_text().splitlines()
    head = name.endswith("csv")
    path = tmp_path / name
    path.write_text("\n".join([*lines[: 20 + head], "no row, ]", *lines[20 + head :]]))
    some, ours = read(path, 20), first(whole, 20)
    assert len(some.prompt) == 20 and some == ours
    for count in (None, 21):
        with pytest.raises(UserError, match=f":{21 + head}: "):
            read(path, count)


def test_failed_rows_are_no_requests(tmp_path):
    path = tmp_path / "b.csv"
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    rows = ("5,GPT-4,7,0,7", "6,GPT-4,7,,", "7,GPT-4,7,3,10", "8,GPT-4,0,0,0", "9,GPT-4,8,10,18", "x,y,z,10,z")
    path.write_text(head + "".join(f"{row},API log\n" for row in rows))
    found = read(path, 2)
    assert (found.prompt, found.output) == ([7, 8], [3, 10]) and "; 3 failed ones" in found.note


def test_rows_in_any_order_are_all_read(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_text(
        "\n".join(json.dumps({"arrival_time_ns": at, "input_toks": at, "output_toks": 1}) for at in (30, 20, 10))
    )
    assert first(read(path, 1), 1).prompt == [10]


def test_a_trace_is_read_beneath_a_bar(tmp_path, monkeypatch):
    path, bars = tmp_path / "t.csv", dict[str, list[tuple[int, int]]]()
    path.write_text(HEADER + "".join(f"{at},5,1\n" for at in range(9000)))

    @contextmanager
    def bar(title: str, quiet: bool) -> Iterator[Any]:
        steps = bars.setdefault(title, [])
        yield lambda done, total: steps.append((done, total))

    monkeypatch.setattr(pimloom.commands.progress, "progress_bar", bar)
    assert call("serve", "gpu_a100", "--model", "gpt2", "--trace", str(path), "--layers", "1").code == 0
    steps = bars["reading t.csv"]
    assert len(steps) == 6 and steps == sorted(steps) and {total for _, total in steps} <= {27000, 27003}
