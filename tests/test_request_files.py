"""Request lists and arrival traces are read strictly: a number is what it says, a file has one kind of time; errors are
one line, exit code 2."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.systems.serving.requests import read_requests
from pimloom.workload.requests.table import Groups, Identities, Prefix, Tokens
from pimloom.workload.requests.trace_file import read_conversations, read_trace
from tests.command import call

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
        for read in (read_trace, lambda file: read_requests(file, 4)):
            try:
                assert (read(path)[0] >= 0).all()
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
