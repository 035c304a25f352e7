"""Counts below their least are one line and exit code 2, from the command and from Python."""

import json

import pytest

import pimloom
from pimloom.arch.error import UserError
from tests.command import call

GPT2 = ("--model", "gpt2")
ODD_SEED = "expected a whole number from 0 to 2^64 - 1"


@pytest.mark.parametrize("system", ["gpu_a100", "neupims"])
@pytest.mark.parametrize("number", [0, -1, -3])
def test_stages_of_a_pipeline(tmp_path, system, number):
    (tmp_path / "r.csv").write_text("seq_len\n100\n")
    said = f"--pp {number}: expected at least 1"
    done = call("run", system, *GPT2, "--requests", tmp_path / "r.csv", "--pp", number)
    assert done == (2, "", f"pimloom: {said}\n")
    with pytest.raises(UserError, match=f"^pp={number}: expected at least 1$"):
        pimloom.run(system, model="gpt2", requests=tmp_path / "r.csv", pp=number)


@pytest.mark.parametrize(
    "command",
    [
        ("run", "pim_gpt", *GPT2, "--generate", "1"),
        ("run", "t4", *GPT2, "--generate", "1"),
        ("run", "gpu_a100", *GPT2, "--requests", "alpaca", "--batch", "2"),
        ("run", "neupims", *GPT2, "--requests", "alpaca", "--batch", "2"),
        ("trace", "ddr4", "--pattern", "random", "--requests", "9"),
    ],
)
@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_seeds(command, seed):
    done = call(*command, "--seed", seed)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"--seed {seed}: {ODD_SEED}" in done.err or f"'--seed': {ODD_SEED}, got {seed}" in done.err


def test_a_seed_of_a_run_from_python():
    with pytest.raises(UserError, match="^seed=-1: expected a whole number"):
        pimloom.run("t4", model="gpt2", generate=1, seed=-1)


@pytest.mark.parametrize("text", ["1e999999999999", "-1e999999999999", "1e-999999999999", "9" * 32, "1e30", "-1e30"])
def test_counts_beyond_what_is_counted(text):
    done = call("run", "npu_only", *GPT2, "--generate", text)
    said = f"'--generate': expected a whole number of at most 2^63 - 1, such as 4096 or 1e6, got {text}. See"
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err


def test_a_seed_may_be_typed_as_a_power_of_ten():
    given = ("run", "t4", *GPT2, "--generate", "1", "--json", "-", "--seed")
    assert [json.loads(call(*given, text).out)["seed"] for text in ("1e3", "1000", str(2**64 - 1))] == [
        1000, 1000, 2**64 - 1,
    ]  # fmt: skip
    for text in ("1e20", "1.5", "1e999999999999", "x"):
        done = call(*given, text)
        assert (done.code, done.err.count("\n")) == (2, 1) and f"'--seed': {ODD_SEED}, got {text}. See" in done.err
