"""What is refused for want of memory, or for a name that belongs elsewhere: what, where, and what to write instead."""

import re
from pathlib import Path

import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.names import list_names
from pimloom.workload.need import weights
from tests.command import call

LENGTHS = "seq_len\n100\n100\n"


def refused(*arguments: str | Path) -> str:
    done = call(*arguments)
    assert (done.code, done.out) == (2, ""), done
    (said,) = done.err.splitlines()
    return said


@pytest.mark.parametrize("system", ["neupims", "npu_pim", "npu_only", "gpu_a100", "t4"])
@pytest.mark.parametrize("tp", ["1", "2"])
def test_weights_that_leave_no_room_for_caches(system: str, tp: str, tmp_path: Path) -> None:
    """12 x 12288^2 weights of two bytes and nine biases of 12288 in each of 96 layers, shared by the devices."""
    (tmp_path / "r.csv").write_text(LENGTHS)
    given = ("run", system, "--model", "gpt3-175b", "--tp", tp, "--requests")
    many = refused(*given, "alpaca", "--batch", "4", "--iterations", "2")
    listed = refused(*given, tmp_path / "r.csv")
    whole = 96 * 12 * 12288**2 * 2 // int(tp)
    for said in (many, listed):
        (weights,) = re.findall(r"(?:layers need|alone take) ([\d,]+)", said)
        assert 1 <= int(weights.replace(",", "")) / whole < 1.001
        assert "take more devices (--tp) or a larger memory" in said and "0 for caches" not in said
        assert ("each of 2 devices" in said) == (tp == "2")


@pytest.mark.parametrize("model", ["gpt3-13b", "gpt3-175b"])
def test_pim_gpt_says_how_many_channels_would_do(model: str) -> None:
    run = ("run", "pim_gpt", "--model", model, "--generate", "1", "--quiet")
    said = refused(*run)
    matrices = weights(load_llm(model)).blocks * 2
    (need,) = re.findall(r"its weights alone take ([\d,]+); take a smaller model or", said)
    assert 1 <= int(need.replace(",", "")) / matrices < 1.02  # rows and slots that are not full
    enough = int(said.rpartition("dram.channels=")[2])
    assert f"or --set dram.channels={enough}" in said
    assert "bytes of PIM memory" in refused(*run, "--set", f"dram.channels={enough - 1}")
    if model == "gpt3-13b":
        assert call(*run, "--set", f"dram.channels={enough}").code == 0


def test_tokens_that_do_not_fit_beside_weights_that_do() -> None:
    rows = ("--set", "dram.organization.rows=670", "--set", "dram.organization.capacity_bytes=21954560")
    said = refused("run", "pim_gpt", "--model", "gpt2", *rows)
    assert said.endswith(": fewer than 128 tokens fit beside its weights; for 1,024 --set dram.channels=11")


def test_a_roofline_says_how_much_memory_would_do() -> None:
    run = ("run", "t4", "--model", "gpt3-13b", "--generate", "1", "--quiet")
    need = refused(*run).rpartition("--set memory_bytes=")[2]
    assert call(*run, "--set", f"memory_bytes={need}").code == 0
    assert "needs" in refused(*run, "--set", f"memory_bytes={int(need) - 1}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "h100", "--model", "gpt2"), "a GPU to train on, for `pimloom fabric mfu --gpu h100`"),
        (("run", "ocstrx", "--model", "gpt2"), "an optical part, for `pimloom fabric switch --part ocstrx`"),
        (("run", "ramulator2", "--model", "gpt2"), "a memory controller, for `pimloom trace --controller ramulator2`"),
        (("run", "gpt2", "--model", "gpt2"), "a model, for `--model gpt2`"),
        (("trace", "pim_gpt", "--pattern", "random"), "a system, for `pimloom run pim_gpt`"),
        (("run", "pim_gpt", "--model", "gpt2", "--set", "dram.part=h100"), "a GPU to train on"),
        (("fabric", "mfu", "--gpu", "t4", "--model", "gpt2"), "a system, for `pimloom run t4`"),
    ],
)
def test_a_name_of_something_else(arguments: tuple[str, ...], said: str) -> None:
    assert re.search(f": it is {re.escape(said)}.*; known ", refused(*arguments))


def test_a_model_named_as_something_else() -> None:
    said = refused("run", "pim_gpt", "--model", "h100")
    assert "model 'h100': no such preset or file: it is a GPU to train on, for `pimloom fabric mfu --gpu h100`" in said


@pytest.mark.parametrize("name", list_names("parts"))
def test_every_memory_is_known_as_one(name: str) -> None:
    said = refused("run", name, "--model", "gpt2")
    assert f": it is a memory, for `pimloom trace {name}` and `--set dram.part={name}`; known systems: " in said


def test_a_name_of_nothing() -> None:
    said = refused("run", "pim-gpt", "--model", "gpt2")
    assert said.startswith("pimloom: unknown system 'pim-gpt'; nearest: pim_gpt;")


def test_more_devices_are_advised_only_where_there_can_be_some() -> None:
    """A composed system without `peers`, and PIM-GPT, refuse --tp."""
    phone, work = "examples/systems/phone.yaml", ("--prompt", "8", "--generate", "2", "--batch", "65536")
    for system, model, advised in (
        (phone, "gpt2-xl", False),
        ("gpu_a100", "gpt3-7b", True),
        ("npu_only", "gpt3-7b", True),
    ):
        said = refused("run", system, "--model", model, *work)
        assert said.endswith("; lower it" + " or take more devices (--tp)" * advised), said
    large = ("--model", "gpt3-175b", "--prompt", "8", "--generate", "2", "--batch", "1")
    assert refused("run", phone, *large).endswith("; take a smaller model or more memory")
    assert "; take more devices (--tp), a smaller model or more" in refused("run", "gpu_a100", *large)


def test_what_is_of_one_sequence_is_told_on_pim_to_leave_the_requests_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("timestamp,prompt_tokens,output_tokens\n0,9,2\n")
    given = ("--model", "gpt2", "--requests", tmp_path / "t.csv")
    for option, does in (("--timeline", "draws"), ("--check", "checks")):
        value = ("x.json",) * (option == "--timeline")
        said = refused("run", "pim_gpt", *given, option, *value)
        assert said.endswith(f"{' '.join((option, *value))}: {does} the commands of one sequence; leave --requests out")
    said = refused("run", "npu_only", *given, "--timeline", "x.json")
    assert said.endswith("such as pim_gpt; `pimloom compare npu_only --model gpt2 --html DIR` draws operators")
