"""Devices behind one protocol: a step's spans, counts and energies are those of the results that commands print."""

from math import fsum, isclose
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.npu_pim.serve import serve
from pimloom.systems.devices.roofline_served import serve_gpu
from pimloom.systems.devices.run import LIMITS, Run, Span, behind, covered_ps
from pimloom.systems.devices.simulate import simulate
from pimloom.workload.batch import Batch
from pimloom.workload.derive import layer_ops, ops
from pimloom.workload.shard import Shard

GPT2 = load_llm("gpt2")
NARROW = load_llm(Path(__file__).parent / "narrow_gpt2.json")
THREE = replace(NARROW, num_hidden_layers=3)
NAMES = ("pim_gpt", "neupims", "npu_pim", "npu_only", "gpu_a100", "t4")


def device(name, llm=GPT2, *, tp=1, layers=None, **settings):
    system = load_system(name, {key.replace("__", "."): str(value) for key, value in settings.items()})
    return device_of(system, llm, Share(tp, layers or llm.num_hidden_layers))


def checked(run: Run) -> Run:
    """What holds of every run."""
    assert run.spans and all(0 <= span.start_ps <= span.end_ps for span in run.spans)
    assert all(isinstance(x, int) for span in run.spans for x in span[:2]) and isinstance(run.end_ps, int)
    assert max(span.end_ps for span in run.spans) == run.end_ps
    assert all(0 <= share <= 1 for share in run.utilisation().values())
    assert set(run.least_ps) <= set(LIMITS) and all(0 <= ps <= run.end_ps for ps in run.least_ps.values())
    assert all(isinstance(n, int) and n >= 0 for n in (*run.commands.values(), run.interface_bytes, run.macs))
    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_step_of_every_device(name):
    run = checked(device(name, layers=None if name == "pim_gpt" else 2).step(Batch.decode([64])))
    assert run.energy_j is not None and run.energy_by_cause_j is not None
    assert isclose(run.energy_j, fsum(run.energy_by_cause_j.values())) and run.energy_j > 0
    assert run.bound() is not None


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("batch", [Batch.decode([64]), Batch.prefill([20])], ids=["decode", "prefill"])
def test_products_are_those_of_the_operators(batch, outside):
    """Wherever they run: on arrays, in PIM, whole tiles or not, half of a square or all of it."""
    made = [op for op in ops(NARROW, batch) if op.layers or outside]
    wanted = sum(op.macs * op.times for op in made)
    for name in (*NAMES, "neupims", "examples/systems/phone.yaml"):
        run = device_of(load_system(name), NARROW, Share(1, 2, outside=outside)).step(batch)
        assert run.macs == wanted, name


def test_steps_of_pim_gpt_are_its_run():
    whole = simulate(load_system("pim_gpt"), GPT2, 5)
    one = device("pim_gpt")
    runs = [checked(one.step(Batch.decode([t]))) for t in range(1, 6)]
    told = behind(runs)
    assert told.end_ps == sum(run.end_ps for run in runs) == round(whole.latency_s * 1e12)
    assert told.interface_bytes == whole.interface_bytes and whole.command_counts is not None
    counts = {name: n for name, n in whole.command_counts.items() if name != "REFab"}
    assert {name: n for name, n in told.commands.items() if name != "REFab"} == counts
    assert whole.time_by_step_s == pytest.approx(told.time_by_operator_s())
    assert all(a.end_ps == b.start_ps for a, b in zip(told.spans, told.spans[1:], strict=False))


def test_a_prompt_of_pim_gpt_is_its_tokens():
    one, other = device("pim_gpt"), device("pim_gpt")
    whole = one.step(Batch.prefill([4]))
    assert whole.spans == behind([other.step(Batch.decode([t])) for t in range(1, 5)]).spans


@pytest.mark.parametrize(("name", "n"), [("npu_only", 1), ("npu_pim", 1), ("neupims", 2), ("neupims", 3)])
@pytest.mark.parametrize("tp", [1, 4])
def test_a_step_of_an_npu_is_its_iteration(name, n, tp):
    contexts = [20, 300, 64, 7, 90, 12]
    system = load_system(name, {"interleave.sub_batches": str(n)})
    told = serve(system, THREE, np.array(contexts), None, tp=tp, layers=3, fidelity="physical")
    run = checked(device(name, THREE, tp=tp, layers=3, interleave__sub_batches=n).step(Batch.decode(contexts)))
    assert run.end_ps == told.iteration_cyc * told.clock_ps and run.link_bytes == told.link_bytes
    assert run.device_j == told.iteration_energy_by_cause_j and run.devices == tp
    assert ("link" in run.resources) == (tp > 1) and ("PIM" in run.resources) == (name != "npu_only")
    running = [(s.start_ps, s.end_ps) for s in run.spans if s.operator in ("qkv", "projection", "ffn1", "ffn2")]
    assert len(running) >= 4 * 3
    if n == 1:  # each layer once: as many of all commands as three layers have
        assert run.commands == {command: 3 * times for command, times in told.commands.items()}
        ffn = [s for s in run.spans if s.operator == "ffn1"]
        assert len(ffn) == 3 and {s.end_ps - s.start_ps for s in ffn} == {told.operators_cyc["E.ffn1"] * told.clock_ps}


@pytest.mark.parametrize("tp", [1, 2])
def test_a_step_of_a_roofline_is_its_iteration(tp):
    name = "t4" if tp == 1 else "gpu_a100"
    system = load_system(name)
    told = serve_gpu(system, GPT2, np.array([20, 300]), tp=tp, layers=2)
    run = checked(device(name, tp=tp, layers=2).step(Batch.decode([20, 300])))
    assert run.end_ps == told.iteration_cyc * told.clock_ps and run.devices == tp
    assert run.device_j == told.iteration_energy_by_cause_j
    made = layer_ops(GPT2, Batch.decode([20, 300]), Shard(tp=tp))
    assert run.macs == 2 * sum(op.macs for op in made)
    assert run.interface_bytes > 2 * 2 * sum(op.parameters for op in made if op.kind == "gemm")


def test_time_that_is_covered():
    spans = (Span(0, 10, "a", "x"), Span(5, 20, "b", "x"), Span(30, 40, "a", "y"))
    run = Run(end_ps=50, spans=spans, least_ps={"compute": 20, "link": 25})
    assert run.utilisation() == {"x": 0.4, "y": 0.2} and run.bound() == ("link", 0.5)
    assert run.time_by_operator_s() == {"a": pytest.approx(20e-12), "b": pytest.approx(15e-12)}
    assert covered_ps([]) == 0 and run.energy_j is None


def test_what_a_device_refuses():
    with pytest.raises(UserError, match="pim_gpt: runs one sequence at a time, not 2"):
        device("pim_gpt").step(Batch.decode([3, 4]))
    with pytest.raises(UserError, match=r"pim_gpt: a context of 2,000 tokens, there is room for 1,024"):
        device("pim_gpt").step(Batch.decode([2000]))
    with pytest.raises(UserError, match="runs all layers of a model on one device"):
        device("pim_gpt", layers=2)
    made = ops(GPT2, Batch.decode([4]))
    assert device("pim_gpt").can_run(made) is None and device("gpu_a100").can_run(made) is None


@pytest.mark.parametrize("name", ["pim_gpt", "neupims", "npu_only", "gpu_a100"])
def test_capacity(name):
    found = device(name).capacity()
    needed = found.weight_bytes + found.tokens * found.cache_bytes_per_token
    assert 0.9 * found.memory_bytes < needed <= found.memory_bytes * 1.01
    assert found.weight_bytes >= 2 * 12 * 12 * 768**2 and found.cache_bytes_per_token >= 2 * 2 * 12 * 768


AZURE = "timestamp,prompt_tokens,output_tokens\n0,20,3\n0.001,300,2\n0.5,64,2\n"


def test_requests_on_pim_gpt(tmp_path):
    """One at a time, each like the tokens of a run at the same contexts."""
    (tmp_path / "azure.csv").write_text(AZURE)
    found = pimloom.run("pim_gpt", model="gpt2", requests=tmp_path / "azure.csv", batch=1, iterations=9)
    assert found.iterations == 7 and found.iteration_tokens == [20, 21, 22, 300, 301, 64, 65]
    assert found.requests_finished == 3 and set(found.iteration_batch) == {1}
    one = device("pim_gpt")
    assert found.iteration_s == pytest.approx([one.step(Batch.decode([t])).time_s for t in found.iteration_tokens])
    with pytest.raises(UserError, match="batch=2: pim_gpt runs at most 1 request"):
        pimloom.run("pim_gpt", model="gpt2", requests=tmp_path / "azure.csv", batch=2)
    (tmp_path / "list.csv").write_text("seq_len\n8\n")
    with pytest.raises(UserError, match="pim_gpt takes no list of contexts; give a data set or a trace"):
        pimloom.run("pim_gpt", model="gpt2", requests=tmp_path / "list.csv")


@pytest.mark.parametrize("name", ["pim_gpt", "npu_pim", "gpu_a100"])
@pytest.mark.parametrize(
    ("prompt", "generate", "phases"), [(0, 3, {"decode"}), (5, 1, {"prefill"}), (5, 4, {"prefill", "decode"})]
)
def test_spans_of_a_result(name, prompt, generate, phases):
    found = pimloom.run(name, model="gpt2", prompt=prompt, generate=generate)
    spans = found.spans
    assert set(spans["phase"]) == phases and (spans["end_ps"] >= spans["start_ps"]).all()
    assert len(spans.query("phase == 'decode'")) >= 60 * ("decode" in phases) and found.spans.equals(spans)
    assert "spans" not in found.as_dict() and "show" not in found.as_dict()
