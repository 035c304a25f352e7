"""Requests of a list, a data set or a trace: with embedding, LM head and sampling or without, and their energy."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.serving.machine import Plan, machine_of
from pimloom.workload.batch import Batch
from tests.command import call

PHONE = "examples/systems/phone.yaml"
ARRIVALS = "timestamp,prompt_tokens,output_tokens\n0,30,4\n0,20,3\n0,9,5\n"
TABLES = {"embed_tokens", "embed_positions", "lm_head", "sampling"}
GPT2 = load_llm("gpt2")
CONFIG = {"model_type": "gpt2", "n_layer": 12, "n_embd": 128, "n_head": 2, "n_positions": 1024, "vocab_size": 1000}
SMALLER = replace(  # of fewer cycles
    GPT2, hidden_size=128, num_attention_heads=2, num_key_value_heads=2, intermediate_size=512, vocab_size=1000
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "t.csv").write_text(ARRIVALS)
    return tmp_path / "t.csv"


def run(system: str, requests: Path, **options: Any) -> Any:
    given = {"batch": 3} if requests.name == "t.csv" else {}
    return pimloom.run(system, requests=requests, **{"model": requests.parent / "config.json"} | given | options)


def steps_of(system: str, contexts: list[list[int]], outside: bool | None) -> list[Any]:
    device = device_of(load_system(system), SMALLER, Share(1, 2, outside=outside))
    return [device.step(Batch.decode(some)) for some in contexts]


@pytest.mark.parametrize("system", ["neupims", "npu_only", "gpu_a100", PHONE])
@pytest.mark.parametrize("lm_head", [True, False, None])
def test_iterations_are_steps_with_it_or_without(system: str, lm_head: bool | None, trace: Path) -> None:
    found = run(system, trace, iterations=2, layers=2, lm_head=lm_head)
    steps = steps_of(system, [[30, 20, 9], [31, 21, 10]], lm_head)
    assert found.lm_head is bool(lm_head)
    assert found.iteration_s == pytest.approx([step.time_s for step in steps], rel=1e-9)
    energies = [step.energy_j for step in steps]
    assert found.energy_j == pytest.approx(sum(energies), rel=1e-9) == sum(found.energy_by_cause_j.values())
    assert found.energy_per_token_j == pytest.approx(found.energy_j / 6, rel=1e-12)
    assert (set(found.spans["operator"]) & TABLES == TABLES) is found.lm_head


@pytest.mark.parametrize("system", ["npu_pim", "gpu_a100", PHONE])
def test_only_what_changes_a_result_changes_its_digest(system: str, trace: Path) -> None:
    plain, on, off = (run(system, trace, iterations=2, layers=1, lm_head=on) for on in (None, True, False))
    assert off == plain and on.spec_digest != plain.spec_digest and on.time_s != plain.time_s


def test_prompts_beside_decode_have_it_too(trace: Path) -> None:
    without, whole = (run("npu_only", trace, chunk=64, layers=1, lm_head=on) for on in (False, True))
    assert (without.lm_head, whole.lm_head) == (False, True) and whole.time_s > 1.05 * without.time_s
    assert whole.energy_j > without.energy_j and without.requests_finished == whole.requests_finished == 3


def test_pim_gpt_has_its_head(trace: Path) -> None:
    asked: dict[str, Any] = {"batch": 1, "iterations": 3}
    plain, head = (run("pim_gpt", trace, lm_head=on, **asked) for on in (None, True))
    by_place = run("pim_gpt", trace, set={"workload.lm_head": True}, **asked)
    assert not plain.lm_head and head.lm_head and head.iteration_s == by_place.iteration_s > plain.iteration_s


def test_one_iteration_with_it_is_one_of_many(trace: Path) -> None:
    """Its stages are not told, as embedding and LM head are in none of them."""
    assert run("neupims", trace, layers=1).stages_cyc
    found = run("neupims", trace, layers=1, lm_head=True)
    assert found.iterations == 1 and found.lm_head


def test_caches_have_less_room_beside_the_tables(trace: Path) -> None:
    """GPT-2's tables take as much as some 2,100 tokens of 36,864 bytes in its layers."""
    trace.write_text("timestamp,prompt_tokens,output_tokens\n" + "0,900,3\n" * 6)
    weights, tables, token = 170_035_200, 2 * (50257 * 768 + 1024 * 768 + 2 * 768), 36_864
    room = {"memory_bytes": weights + tables + 1000 * token}
    asked: dict[str, Any] = {"model": "gpt2", "batch": 6, "iterations": 2, "set": room}
    without, whole = (run("gpu_a100", trace, lm_head=on, **asked) for on in (False, True))
    assert (without.batch_mean, whole.batch_mean) == (3, 1)
    neupims = load_system("neupims", {"dram.channels": "2"})
    plans = [Plan(6, 1, 1, None, 0, 1, 1, 12, "physical", None, on) for on in (False, True)]
    most = [machine_of(neupims, GPT2, plan).room().most_tokens for plan in plans]
    assert most[0] - most[1] == pytest.approx(tables / token, abs=1)


def test_energy_is_read_between_iterations_as_times_are(trace: Path) -> None:
    trace.write_text("timestamp,prompt_tokens,output_tokens\n" + "0,200,30\n" * 4)
    every, some = (run("npu_only", trace, batch=4, iterations=20, layers=1, every=k) for k in (1, 5))
    assert some.simulated_iterations == 6 and some.energy_j != every.energy_j
    assert some.energy_j == pytest.approx(every.energy_j, rel=0.02)
    assert sum(some.energy_by_cause_j.values()) == pytest.approx(some.energy_j, rel=1e-12)
    two = run("npu_only", trace, batch=4, iterations=2, layers=1, tp=2)
    one = run("npu_only", trace, batch=4, layers=1, tp=2)
    assert two.energy_j == pytest.approx(2 * one.energy_per_token_j * 4, rel=0.02)


@pytest.mark.parametrize("tp", [1, 2])
def test_energy_of_a_gpu_is_its_power_in_all_its_iterations(tp: int, trace: Path) -> None:
    """Exactly, also of those that are interpolated."""
    trace.write_text("timestamp,prompt_tokens,output_tokens\n" + "0,200,30\n" * 4 + "9,100,9\n")
    found = run("gpu_a100", trace, batch=4, iterations=33, every=7, tp=tp)
    spec: Any = load_system("gpu_a100").spec
    assert found.simulated_iterations < found.iterations == 33 and found.time_s > 9 > sum(found.iteration_s)
    assert found.energy_j == pytest.approx(tp * spec.power_w * sum(found.iteration_s), rel=1e-12)


def test_what_has_no_energy_says_why(trace: Path) -> None:
    model = trace.parent / "config.json"
    work = ("--model", model, "--requests", trace, "--layers", "2", "--batch", "3", "--iterations", "2")
    for given, said in (
        (("npu_only",), "J of all devices in these iterations, without the idle time between arrivals; "),
        (("npu_only", "--set", "dram.part=hbm3_6400"), "no energy: dram.part hbm3_6400 gives no dram.current"),
        (("npu_only", "--pp", "2"), "no energy of a pipeline"),
    ):
        done = call("run", *given, *work)
        assert done.code == 0 and said in " ".join(done.out.split()), done
        assert "without embedding and LM head" in " ".join(done.out.split())
    for n in ("1", "2"):
        out = call("run", "npu_only", *work[:-1], n).out
        assert "without embedding and LM head, 2 of 12 layers" in " ".join(out.split())
    kept = call("run", "gpu_a100", "--model", "gpt2", "--requests", "alpaca", "--batch", "2", "--iterations", "2")
    assert "idle time" not in kept.out and "J of all devices in these iterations; " in " ".join(kept.out.split())
    assert pimloom.run("npu_only", model=model, requests=trace, batch=3, iterations=2, pp=2).energy_j is None


def test_where_only_layers_are_simulated_it_is_refused_by_its_name(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("seq_len\n40\n30\n")
    for given, said in (
        (("--requests", tmp_path / "r.csv"), "lists the contexts of one iteration, whose stages are those of the"),
        (("--requests", trace, "--batch", "3", "--pp", "2"), "the stages of a pipeline (--pp 2) hold layers only"),
        (("--requests", trace, "--batch", "3", "--fidelity", "released"), "no simulator of neupims has an LM head"),
    ):
        done = call("run", "neupims", "--model", "gpt2", *given, "--lm-head")
        assert done.code == 2 and said in done.err and done.err.count("\n") == 1, done
    plain, off = (run("neupims", tmp_path / "r.csv", layers=1, lm_head=on) for on in (None, False))
    assert plain == off


def test_the_option_and_the_key_of_pim_gpt_are_one_choice(tmp_path: Path) -> None:
    """Equal digests for equal runs, whichever way it is chosen."""
    (tmp_path / "t.csv").write_text("timestamp,prompt_tokens,output_tokens\n0,4,2\n")
    gemma = tmp_path / "config.json"
    config = json.loads((Path(__file__).parent / "models/gemma-3-1b.json").read_text())
    gemma.write_text(json.dumps(config | {"num_hidden_layers": 1}))
    asked: dict[str, Any] = {"model": gemma, "requests": tmp_path / "t.csv", "batch": 1, "iterations": 1}
    found = {
        (key, option): pimloom.run("pim_gpt", **asked, lm_head=option, set={"workload.lm_head": key})
        for key in (False, True)
        for option in (None, False, True)
    }
    digests: dict[bool, set[Any]] = {True: set(), False: set()}
    for (key, option), run in found.items():
        digests[key if option is None else option].add((run.spec_digest, run.time_s, run.lm_head))
    assert len(digests[True]) == len(digests[False]) == 1 and digests[True] != digests[False]
