"""Equal requests from their prompts on: what comes in which iteration, and that the sums are those of iterations run
one by one."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.neupims import Faults
from pimloom.arch.system import RooflineSystem, load_system
from pimloom.systems.devices.npu_pim.serve import serve
from pimloom.systems.serving.generation import generate
from pimloom.systems.serving.stepping import Wanted, chunked
from tests.command import call
from tests.slow import slow

PHYSICAL = {f"faults.{name}": "false" for name in Faults.__struct_fields__}
FEW = Wanted(batch=3, prompt=40, generate=6, chunk=64, every=1, tp=1, layers=12, fidelity="physical")


SHAPE = {"n_embd": 256, "n_head": 4, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    """A third of GPT-2's width, which takes less time to simulate."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **SHAPE}))
    return str(folder)


def ran(system, model, **more):
    settings = PHYSICAL if not system.startswith("gpu") else {}
    return generate(load_system(system, settings), load_llm(model), FEW._replace(**more))


@given(st.integers(1, 9), st.integers(0, 50), st.integers(1, 60))
def test_every_token_of_a_prompt_is_computed_once_and_in_order(batch, prompt, chunk):
    done = [0] * batch
    iterations = list(chunked(batch, prompt, chunk))
    for n, each in enumerate(iterations):
        tokens = sum(new for _, (new, _) in each)
        assert tokens == chunk or n == len(iterations) - 1 and 0 < tokens <= chunk
        for request, (new, before) in each:
            assert new > 0 and done[request] == before
            assert all(full == prompt for full in done[:request])
            done[request] += new
    assert done == [prompt] * batch


def alone(system, model, contexts, new):
    """Seconds and joules of one iteration by itself."""
    undivided = {"interleave.sub_batches": "1"} if max(new) > 1 else {}
    found = serve(
        load_system(system, PHYSICAL | undivided), load_llm(model), np.array(contexts), None, tp=1, layers=12,
        fidelity="physical", new=np.array(new),
    )  # fmt: skip
    return found.iteration_cyc * found.clock_ps * 1e-12, found.iteration_energy_j


@pytest.mark.parametrize("system", ["npu_only", slow("neupims"), slow("npu_pim")])
def test_all_is_the_sum_of_its_iterations(system, small):
    """Chunks of 64 tokens: 40 + 24, 16 + 40; then five iterations of 41 to 45 tokens each."""
    found = ran(system, small)
    prompts = [alone(system, small, [40, 24], [40, 24]), alone(system, small, [40, 40], [16, 40])]
    decode = [alone(system, small, [n] * 3, [1] * 3) for n in range(41, 46)]
    assert found.prompt_s == pytest.approx(sum(s for s, _ in prompts))
    assert found.latency_s == pytest.approx(sum(s for s, _ in prompts + decode))
    assert found.energy_by_cause_j is not None
    assert found.energy_j == pytest.approx(sum(j for _, j in prompts + decode))
    assert found.energy_j == pytest.approx(sum(found.energy_by_cause_j.values()))
    first, last = prompts[0][0], found.prompt_s
    assert found.time_to_first_token_s == pytest.approx((first + 2 * last) / 3)
    assert found.time_to_first_token_max_s == pytest.approx(last)
    assert found.time_per_output_token_s == pytest.approx((found.latency_s - found.time_to_first_token_s) / 5)
    assert (found.prompt_iterations, found.decode_iterations, found.simulated_iterations) == (2, 5, 7)
    assert found.tokens_per_s == pytest.approx(18 / found.latency_s)


def test_equal_iterations_are_simulated_once(small):
    found = ran("npu_only", small, batch=8, prompt=64)
    assert (found.prompt_iterations, found.simulated_iterations) == (8, 1 + 5)


def test_every_third_iteration_is_close(small):
    exact, close = ran("npu_only", small, generate=13), ran("npu_only", small, generate=13, every=3)
    assert (exact.simulated_iterations, close.simulated_iterations) == (2 + 12, 2 + 5)
    assert close.latency_s == pytest.approx(exact.latency_s, rel=0.02)
    assert close.energy_j == pytest.approx(exact.energy_j, rel=0.02)
    assert close.decode_s[0] == exact.decode_s[0] and close.decode_s[-1] == exact.decode_s[-1]


def test_without_a_prompt_or_behind_one_token():
    """Without a prompt the first token takes an iteration of its own; with one it comes with the prompt."""
    none, one = ran("gpu_a100", "gpt2", prompt=0), ran("gpu_a100", "gpt2", generate=1)
    assert (none.prompt_iterations, none.decode_iterations, none.prompt_s) == (0, 6, 0.0)
    assert none.time_to_first_token_s == none.decode_s[0]
    assert (one.decode_iterations, one.time_per_output_token_s, one.latency_s) == (0, None, one.prompt_s)


def test_a_roofline_takes_a_prompt_in_one_pass():
    """512 tokens: the operations of the matrices, of attention over half a square, and of nothing else."""
    system, llm, n = load_system("gpu_a100"), load_llm("gpt3-7b"), 512
    wanted = Wanted(batch=1, prompt=n, generate=1, chunk=n, every=1, tp=1, layers=32, fidelity="physical")
    found = generate(system, llm, wanted)
    flops = 2 * 12 * llm.hidden_size**2 * n + 4 * llm.hidden_size * n * (n + 1) / 2
    spec = system.spec
    assert isinstance(spec, RooflineSystem)
    least = 32 * flops / (spec.peak_tflops * 1e12 * spec.peak_share)
    assert least < found.prompt_s < 1.15 * least


def test_the_command_and_the_function_say_the_same(tmp_path, small):
    options: dict[str, Any] = {"prompt": 100, "generate": 3, "batch": 2, "chunk": 128, "tp": 2, "every": 2}
    given = [x for name, value in options.items() for x in (f"--{name}", str(value))]
    done = call("run", "npu_only", "--model", small, *given, "--json", tmp_path / "r.json")
    assert (done.code, done.err) == (0, "")
    assert "time to first token" in done.out and "mJ per generated token" in done.out
    found = pimloom.run("npu_only", model=small, **options)
    assert json.loads((tmp_path / "r.json").read_text()) == found.as_dict()
    assert pimloom.frame([found])["generated_tokens"].tolist() == [3]


@pytest.mark.parametrize(
    ("system", "options", "said"),
    [
        ("npu_only", ("--generate", "34"), "each of 33 decode iterations is simulated; --every 16 simulates 3"),
        slow("npu_only", ("--generate", "33"), ""),
        ("npu_only", ("--generate", "34", "--every", "16"), ""),
        slow("npu_only", ("--generate", "34", "--quiet"), ""),
        ("gpu_a100", ("--generate", "34", "--batch", "2"), ""),
    ],
)
def test_many_iterations_are_announced(system, options, said, small):
    done = call("run", system, "--model", small, "--layers", "1", "--prompt", "4", *options)
    whole = f"pimloom: note: {said}, and reads the others between"
    assert done.code == 0 and done.err.splitlines() == ([whole] if said else [])
    if "--every" in options:
        assert "33 of decode; 4 different ones simulated" in done.out  # the prompt, and as many as were announced


def test_a_memory_with_a_clock_of_its_own(small):
    """HBM3 at 1,600 MHz under an NPU at 1,000 MHz."""
    settings: dict[str, object] = {"dram.part": "hbm3_6400"}
    found = pimloom.run("npu_only", model=small, prompt=128, generate=2, set=settings)
    slower = pimloom.run("npu_only", model=small, prompt=128, generate=2, set=settings | {"npu.clock_mhz": 500})
    assert found.prompt_s < slower.prompt_s < 2 * found.prompt_s and found.energy_j is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--prompt", "0", "--generate", "0"), "--generate 0: expected at least 1"),
        (("--prompt", "1000", "--generate", "100"), "gpt2 has positions for 1,024 tokens; take fewer"),
        (("--prompt", "10", "--pp", "2"), "--pp 2: makes a pipeline for --requests on an NPU; write --tp N, or"),
        (("--prompt", "10", "--policy", "greedy"), "--policy greedy: places the requests of --requests in"),
        (("--prompt", "10", "--check"), "--check: checks the commands of one sequence on PIM, such as pim_gpt; leave"),
        (("--prompt", "10", "--timeline", "t.json"), "; `pimloom compare neupims --model gpt2 --html DIR` draws oper"),
        (("--prompt", "10", "--fidelity", "released"), "no simulator of neupims computes prompts; leave it out"),
        (("--prompt", "10", "--batch", "0"), "--batch 0: expected at least 1"),
        (("--prompt", "10", "--generate", "9" * 18), "gpt2 has positions for 1,024 tokens; take fewer"),
        (("--prompt", "10", "--iterations", "3"), "--iterations 3: counts iterations of --requests; write"),
        (("--prompt", "10", "--generate", "2", "--tp", "5"), "--tp 5: expected a divisor of the 12 heads"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(given, said):
    done = call("run", "neupims", "--model", "gpt2", *given)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


def test_caches_that_do_not_fit_are_refused_before_anything_is_simulated():
    with pytest.raises(UserError, match="room for keys and values of 24,514 tokens in all; lower it or"):
        generate(
            load_system("npu_only", PHYSICAL | {"dram.channels": "1"}), load_llm("gpt2"), FEW._replace(batch=60000)
        )


def test_weights_that_do_not_fit_are_told_from_caches():
    done = call("run", "npu_only", "--model", "llama-3-8b", "--prompt", "10", "--set", "dram.channels=8")
    assert done.code == 2 and "--model llama-3-8b: its weights take 13.00 GiB, and npu_only has 8.00 GiB" in done.err
