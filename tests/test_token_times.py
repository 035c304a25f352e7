"""Time to first token, time per output token and end to end, each by its definition, with a prompt and without."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.sweeping.definition.sweep import Axis
from pimloom.sweeping.point.evaluate import evaluate
from pimloom.sweeping.point.shared import base_of
from pimloom.systems.devices.result import Result
from tests.command import call
from tests.test_sweep_evaluate import sweep

SYSTEMS = ("pim_gpt", "t4", "xeon_6154")


def run(system: str, prompt: int, generate: int, **changed: Any) -> Result:
    return pimloom.run(system, model="gpt2", prompt=prompt, generate=generate, set=changed)


def test_a_prompt_is_in_the_time_to_first_token_and_not_in_the_time_of_a_token() -> None:
    """PIM-GPT: a run of the first n tokens is the beginning of a longer one; 40 and 3 tokens are 42 passes."""
    until = {n: run("pim_gpt", 0, n).latency_s for n in (40, 42)}
    found = run("pim_gpt", 40, 3)
    assert found.latency_s == until[42] and found.time_to_first_token_s == until[40]
    assert found.time_per_output_token_s == pytest.approx((until[42] - until[40]) / 2, rel=1e-12)
    assert 0 < (found.time_per_output_token_s or 0) < 1.1 * run("pim_gpt", 0, 1).latency_s
    assert found.time_per_token_s == pytest.approx(until[42] / 3, rel=1e-12)  # as ever: the prompt is in it


def test_the_lm_head_of_pim_gpt_runs_where_the_prompt_ends() -> None:
    """Within a prompt the next token is known."""
    on = {"workload.lm_head": True}
    plain, head = run("pim_gpt", 20, 3), run("pim_gpt", 20, 3, **on)
    one = run("pim_gpt", 0, 1, **on).latency_s - run("pim_gpt", 0, 1).latency_s
    assert head.time_to_first_token_s - plain.time_to_first_token_s == pytest.approx(one, rel=0.02)
    assert head.latency_s - plain.latency_s == pytest.approx(3 * one, rel=0.02)
    spans = head.spans[head.spans["operator"] == "LM head"]
    assert spans["phase"].tolist() == ["prefill", "decode"]


@pytest.mark.parametrize("system", ["t4", "xeon_6154"])
def test_a_roofline_takes_the_prompt_in_one_pass_which_is_the_first_token(system: str) -> None:
    found, alone = run(system, 300, 5), run(system, 300, 1)
    assert found.time_to_first_token_s == pytest.approx(alone.latency_s, rel=1e-12)
    assert found.time_per_output_token_s == pytest.approx((found.latency_s - alone.latency_s) / 4, rel=1e-9)
    later = [run(system, 0, n).latency_s for n in (300, 304)]
    assert found.time_per_output_token_s == pytest.approx((later[1] - later[0]) / 4, rel=1e-6)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_first_position_is_one_pass_with_a_prompt_or_without(system: str) -> None:
    """A prompt of one token and one generated token are one pass, as no prompt and one token are."""
    one, none = run(system, 1, 1), run(system, 0, 1)
    assert one.latency_s == one.time_to_first_token_s == pytest.approx(none.latency_s, rel=1e-3)
    assert none.time_to_first_token_s == none.latency_s and one.time_per_output_token_s is None
    assert run(system, 1, 4).latency_s == pytest.approx(run(system, 0, 4).latency_s, rel=1e-3)


@pytest.mark.parametrize("system", SYSTEMS)
@settings(max_examples=15, deadline=None)
@given(prompt=st.integers(0, 30), generate=st.integers(1, 6))
def test_first_token_and_the_others_are_the_whole(system: str, prompt: int, generate: int) -> None:
    found = run(system, prompt, generate)
    assert 0 < found.time_to_first_token_s <= found.latency_s
    if generate == 1:
        assert found.time_per_output_token_s is None
        assert found.time_to_first_token_s == pytest.approx(found.latency_s, rel=1e-12)
        return
    assert found.time_per_output_token_s is not None and found.time_per_output_token_s > 0
    rest = (generate - 1) * found.time_per_output_token_s
    assert found.time_to_first_token_s + rest == pytest.approx(found.latency_s, rel=1e-12)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_terminal_says_each_by_its_name(system: str) -> None:
    found = run(system, 40, 3)
    done = call("run", system, "--model", "gpt2", "--prompt", "40", "--generate", "3")
    rows = {line[:42].strip(): line[42:].split() for line in done.out.splitlines()}
    assert done.code == 0 and f"gpt2 on {system}, 3 tokens behind a prompt of 40" in done.out
    assert rows["time to first token"] == [f"{found.time_to_first_token_s * 1e6:,.3f}", "µs"]
    each = f"{(found.time_per_output_token_s or 0) * 1e6:,.3f}"
    assert rows["time per output token, after the first"] == [each, "µs"]
    assert rows["end to end"] == [f"{found.latency_s * 1e3:,.3f}", "ms"]
    assert "/token" not in done.out, "no part of a prompt is said to be of a token"
    one = call("run", system, "--model", "gpt2", "--generate", "1")
    assert one.code == 0 and "time per output token" not in one.out and "µs/token" in one.out


def test_json_has_null_for_one_token() -> None:
    one = json.loads(call("run", "t4", "--model", "gpt2", "--generate", "1", "--json", "-", "--quiet").out)
    assert one["time_per_output_token_s"] is None and one["time_to_first_token_s"] == one["latency_s"]


@pytest.mark.parametrize("system", ["pim_gpt", "t4"])
def test_the_rows_of_a_sweep_have_them_too(system: str) -> None:
    base = base_of(sweep(system, {"model": "gpt2", "generate": 2}, axes=[Axis("workload.prompt", (0, 7))]))
    row, found = evaluate(base, {"workload.prompt": 7}).row, run(system, 7, 2)
    for name in ("time_to_first_token_s", "time_per_output_token_s", "time_per_token_s", "latency_s"):
        assert row[name] == getattr(found, name)
