"""What is printed says what a result is not of: layers, prompts and requests that were left out."""

from pathlib import Path

import pytest

import pimloom
from tests.command import call

ARRIVALS = "timestamp,prompt_tokens,output_tokens\n0,30,4\n0.001,20,3\n0.002,9,5\n"
NARROW = Path(__file__).parent / "narrow_gpt2.json"
EQUAL = ("--prompt", "8", "--generate", "2", "--batch", "1")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(ARRIVALS)
    (tmp_path / "r.csv").write_text("seq_len\n40\n30\n")
    return tmp_path / "t.csv"


def said(*arguments: str | Path, model: str | Path = "gpt2") -> tuple[str, str]:
    done = call(*arguments, "--model", model)
    assert done.code == 0, done
    return " ".join(done.out.split()), done.err


@pytest.mark.usefixtures("undrawn")
def test_fewer_layers_are_told_of_and_all_are_not(trace: Path, tmp_path: Path) -> None:
    of_trace = ("--requests", trace, "--batch", "2")
    for given in (
        ("run", "npu_only", *EQUAL),
        ("run", "gpu_a100", "--requests", trace.parent / "r.csv"),
        ("run", "gpu_a100", *of_trace),
        ("run", "gpu_a100", *of_trace, "--iterations", "2"),
        ("compare", "gpu_a100,npu_only", *EQUAL[:-2]),
    ):
        some, every = (said(*given, "--layers", n, model=NARROW)[0] for n in ("1", "2"))
        assert ", 1 of 2 layers" in some and "2 layers" not in every.split("tensor parallel")[1][:50]
    done = call("compare", "gpu_a100", *EQUAL[:-2], "--model", "gpt2", "--layers", "2", "--html", tmp_path / "page")
    assert done.code == 0 and ", 2 of 12 layers." in (tmp_path / "page" / "index.html").read_text()
    found = pimloom.run("gpu_a100", model="gpt2", requests=trace, batch=2, layers=2)
    assert (found.layers, found.model_layers) == (2, 12)


@pytest.mark.parametrize("system", ["npu_only", "gpu_a100", "examples/systems/phone.yaml"])
def test_one_iteration_of_a_trace_is_no_trace(system: str, trace: Path) -> None:
    given = ("run", system, "--requests", trace, "--batch", "2", "--layers", "1")
    out, err = said(*given, model=NARROW)
    assert "prompts: not computed: their keys and values are taken as there" in out
    part = "in which 0 of 3 requests end" if "phone" in system else "with 1 of 3 requests in it"
    assert f"simulated: 1 iteration, {part}; what comes after is not simulated" in out
    assert "pimloom: note: of t.csv one iteration is simulated, and no prompt is computed; --iterations N" in err
    out, err = said(*given, "--iterations", "2", model=NARROW)
    assert "simulated: 2 iterations, in which 0 of 3 requests end" in out and "one iteration" not in err
    out, err = said(*given, "--chunk", "64", model=NARROW)
    assert "what comes after" not in out and "one iteration" not in err
    assert said(*given, "--quiet", model=NARROW)[1] == ""


def test_a_batch_that_is_kept_alive_has_no_rest() -> None:
    out, err = said("run", "gpu_a100", "--requests", "alpaca", "--batch", "2")
    assert "prompts: not computed" in out and "what comes after" not in out and err == ""
    assert pimloom.run("gpu_a100", model="gpt2", requests="alpaca", batch=2).workload["requests"] is None


def test_both_commands_say_which_has_the_lm_head() -> None:
    phone = "examples/systems/phone.yaml"
    assert "LM head and sampling are left out on all systems." in said("compare", f"{phone},gpu_a100")[0]


def refused(*arguments: str | Path) -> str:
    done = call("run", *arguments)
    assert done.code == 2 and done.err.count("\n") == 1 and not done.out, done
    return done.err


def test_what_is_wrong_with_a_file_or_a_model_comes_before_options(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time,prompt,output\n0,5,5\n")
    asked = ("npu_only", "--model", "gpt2", "--requests", tmp_path / "x.csv")
    for options in ((), ("--batch", "2"), ("--chunk", "64", "--batch", "2"), ("--policy", "none"), ("--every", "0")):
        assert "x.csv:1: expected the header seq_len, seq_len,ch_idx or timestamp" in refused(*asked, *options)
    for options in ((), ("--batch", "2"), ("--policy", "none")):
        assert "gpt5" in refused("npu_only", "--model", "gpt5", *options)


def test_a_default_is_called_one() -> None:
    npu = ("npu_only", "--model", "gpt2")
    assert "--prompt 9000 --generate 1024 (the default): gpt2 has positions" in refused(*npu, "--prompt", "9000")
    assert "--prompt 9000 --generate 7: gpt2" in refused(*npu, "--prompt", "9000", "--generate", "7")
    assert "pimloom: --generate 2000: gpt2" in refused(*npu, "--generate", "2000")
    with pytest.raises(pimloom.UserError, match=r"prompt=9000 generate=1024 \(the default\): gpt2"):
        pimloom.run("npu_only", model="gpt2", prompt=9000)
    with pytest.raises(pimloom.UserError, match=r"prompt=9000 generate=256 \(the default\): gpt2"):
        pimloom.compare(["npu_only"], model="gpt2", prompt=9000)
    for typed, said in ((), "256 (the default)"), (("--generate", "256"), "256"):
        done = call("compare", "t4", "--model", "gpt2", "--prompt", "1000", *typed)
        assert f"--prompt 1000 --generate {said}: gpt2 has positions" in done.err
    as_default = ("--prompt", "1000", "--generate", "1024")
    assert "--generate 1024: gpt2 has positions" in refused(*npu, *as_default)


def test_counts_may_be_typed_as_1e9() -> None:
    npu = ("npu_only", "--model", "gpt2")
    assert "--generate 1000000000: gpt2 has positions for 1,024 tokens" in refused(*npu, "--generate", "1e9")
    assert "--batch -1: expected at least 1" in refused(*npu, "--generate", "2", "--batch", "-1")
    for text in ("1.5", "nan", "1e99", "many"):
        words = f"expected a whole number of at most 2^63 - 1, such as 4096 or 1e6, got {text}"
        assert words in refused(*npu, "--generate", text)
    one = ("--model", "gpt2", "--prompt", "1e1", "--generate", "2", "--batch", "1", "--layers", "1e0")
    assert "prompts of 10 tokens" in " ".join(call("run", "gpu_a100", *one).out.split())


def test_causes_that_a_system_cannot_have_are_left_out(trace: Path) -> None:
    of_pim = {"gwrite", "g_act", "comp", "readres"}
    for system, there in (("npu_only", False), ("npu_pim", True), ("neupims", True)):
        found = pimloom.run(system, model=NARROW, requests=trace, batch=2, layers=1)
        for by_cause in (found.energy_pj_by_cause, found.iteration_energy_by_cause_j):
            assert of_pim & set(by_cause) == (of_pim if there else set())


def test_channels_that_no_request_lies_in_are_told(tmp_path):
    """`ch_idx` of a list changes nothing without PIM that works in the channel of a request; `--policy` is refused."""
    (tmp_path / "here.csv").write_text("seq_len,ch_idx\n40,3\n30,1\n")
    (tmp_path / "any.csv").write_text("seq_len\n40\n30\n")
    said = "pimloom: note: {} is not used, as on {} no request lies in one channel\n"
    asked = ("--model", NARROW, "--layers", "1", "--requests")
    for system in ("npu_only", "gpu_a100"):
        assert call("run", system, *asked, tmp_path / "here.csv").err == said.format("here.csv: ch_idx", system)
        assert call("run", system, *asked, tmp_path / "any.csv").err == ""
    for requests in ((tmp_path / "any.csv",), ("sharegpt", "--batch", "2")):
        placed = call("run", "npu_only", *asked, *requests, "--policy", "round-robin")
        assert placed.code == 2 and placed.err == (
            "pimloom: --policy round-robin: npu_only has no PIM, so caches lie in all channels and no request in one; "
            "leave it out, or take an NPU with PIM, such as neupims\n"
        )
    assert call("run", "neupims", *asked, tmp_path / "here.csv").err == ""
