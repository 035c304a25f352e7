"""What is printed says what a result is not of: layers, prompts and requests that were left out."""

from pathlib import Path

import pytest

import pimloom
from tests.command import call

ARRIVALS = "timestamp,prompt_tokens,output_tokens\n0,30,4\n0.001,20,3\n0.002,9,5\n"
EQUAL = ("--prompt", "8", "--generate", "2", "--batch", "1")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(ARRIVALS)
    (tmp_path / "r.csv").write_text("seq_len\n40\n30\n")
    return tmp_path / "t.csv"


def said(*arguments: str | Path) -> tuple[str, str]:
    done = call(*arguments, "--model", "gpt2")
    assert done.code == 0, done
    return " ".join(done.out.split()), done.err


def test_fewer_layers_are_told_of_and_all_are_not(trace: Path, tmp_path: Path) -> None:
    of_trace = ("--requests", trace, "--batch", "2")
    for given in (
        ("run", "npu_only", *EQUAL),
        ("run", "gpu_a100", "--requests", trace.parent / "r.csv"),
        ("run", "gpu_a100", *of_trace),
        ("run", "gpu_a100", *of_trace, "--iterations", "2"),
        ("compare", "gpu_a100,npu_only", *EQUAL[:-2], "--html", tmp_path / "page"),
    ):
        some, every = (said(*given, "--layers", n)[0] for n in ("2", "12"))
        assert ", 2 of 12 layers" in some and "12 layers" not in every.split("tensor parallel")[1][:50]
    done = call("compare", "gpu_a100", *EQUAL[:-2], "--model", "gpt2", "--layers", "2", "--html", tmp_path / "page")
    assert done.code == 0 and ", 2 of 12 layers." in (tmp_path / "page" / "index.html").read_text()
    found = pimloom.run("gpu_a100", model="gpt2", requests=trace, batch=2, layers=2)
    assert (found.layers, found.model_layers) == (2, 12)


@pytest.mark.parametrize("system", ["npu_only", "gpu_a100", "examples/systems/phone.yaml"])
def test_one_iteration_of_a_trace_is_no_trace(system: str, trace: Path) -> None:
    given = ("run", system, "--requests", trace, "--batch", "2", "--layers", "1")
    out, err = said(*given)
    assert "prompts: not computed: their keys and values are taken as there" in out
    part = "in which 0 of 3 requests end" if "phone" in system else "with 1 of 3 requests in it"
    assert f"simulated: 1 iteration, {part}; what comes after is not simulated" in out
    assert "pimloom: note: of t.csv one iteration is simulated, and no prompt is computed; --iterations N" in err
    out, err = said(*given, "--iterations", "2")
    assert "simulated: 2 iterations, in which 0 of 3 requests end" in out and "one iteration" not in err
    out, err = said(*given, "--chunk", "64")
    assert "what comes after" not in out and "one iteration" not in err
    assert said(*given, "--quiet")[1] == ""


def test_a_batch_that_is_kept_alive_has_no_rest() -> None:
    out, err = said("run", "gpu_a100", "--requests", "alpaca", "--batch", "2")
    assert "prompts: not computed" in out and "what comes after" not in out and err == ""
    assert pimloom.run("gpu_a100", model="gpt2", requests="alpaca", batch=2).workload["requests"] is None


def test_both_commands_say_which_has_the_lm_head() -> None:
    phone = "examples/systems/phone.yaml"
    assert "left out on all systems, also where a run of one has them" in said("compare", f"{phone},gpu_a100")[0]
