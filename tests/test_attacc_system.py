"""AttAcc as a system: what a user types, its study, and what is refused."""

import json
import re
from typing import Any

import pytest
from markupsafe import escape

from pimloom.arch.error import GateError, UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.reports.attacc import further, measured, study
from pimloom.reports.attacc.measured import rows_of
from pimloom.systems.asked import Asked
from pimloom.systems.devices.attacc.asked import attacc_work
from pimloom.systems.devices.attacc.boxed import boxed
from pimloom.systems.devices.attacc.step import Step
from pimloom.systems.devices.device import Share, device_of
from pimloom.workload.batch import Batch
from tests.command import call

GPT = load_llm("gpt3-175b")


def ran(*settings: str, system: str = "attacc", **options):
    asked = Asked(system, "gpt3-175b", settings, **{"generate": 4, "prompt": 1024, "batch": 8} | options)
    return attacc_work(asked).run(lambda done, total: None)


def test_the_command_gives_the_throughput_of_its_authors_simulator() -> None:
    options = ("--model", "gpt3-175b", "--prompt", "2048", "--generate", "128", "--batch", "54")
    found = call("run", "attacc", *options, "--fidelity", "released", "--json", "-")
    plain = json.loads(found.out)
    assert plain["tokens_per_s"] == pytest.approx(1788.79, rel=0.002)
    assert plain["step_j"] == pytest.approx(22.443, rel=1e-3)
    assert plain["step_s"] == pytest.approx(sum(plain["step_by_part_s"].values()))
    assert (plain["gpus"], plain["stacks"], plain["placement"]) == (8, 40, "bank")
    assert "positions for 2,048 tokens" in plain["notes"][0]


@pytest.mark.parametrize("setting", [
    "gpus=16", "element_bits=8", "gpu.cores=120", "gpu.peak_tflops=600", "gpu.memory_gb_s=2000",
    "link.gbps=3600", "collective_us=9", "link.latency_ns=9", "link.pj_per_bit=9", "link.topology=ring",
    "gpu.l1_bytes=65536", "gpu.l2_bytes=1048576", "stacks.each=4", "stacks.placement=bg", "stacks.power_limited=false",
    "stacks.pipelined=false", "stacks.co_processing=false", "dram.part=hbm3_attacc_6400", "dram.timing.nCCDAB=8 nCK",
])  # fmt: skip
def test_each_field_decides_something(setting: str) -> None:
    more = ("gpus=12",) if setting == "gpus=16" else ()
    plain, other = ran(*more), ran(setting)
    assert (other.step_s, other.prefill_s, other.step_j) != (plain.step_s, plain.prefill_s, plain.step_j)
    assert other.spec_digest != plain.spec_digest


def test_energy_by_cause_is_that_by_part_and_systems_are_compared() -> None:
    device = device_of(load_system("attacc"), GPT, Share(tp=1, layers=96))
    assert device.step(Batch.decode([100] * 4)).energy_j == pytest.approx(ran(prompt=99, generate=2, batch=4).step_j)
    options = ("--model", "gpt3-175b", "--prompt", "64", "--generate", "4", "--batch", "4", "--every", "1")
    found = json.loads(call("compare", "attacc_gpu,attacc,cent", *options, "--json", "-").out)
    gpu, attacc, cent = found["systems"]
    assert attacc["decode"]["time_s"] < gpu["decode"]["time_s"] and "reason" in cent
    known = {key for key, cell in attacc["energy_by_cell"].items() if cell["j"] is not None}
    assert known == {
        "dynamic DRAM core", "dynamic DRAM interface", "dynamic DRAM core + dynamic DRAM interface", "dynamic compute",
        "dynamic on-chip memory", "dynamic links",
    }  # fmt: skip
    assert found["first"] == "attacc" and "4 requests" not in str(cent["reason"])


def test_memory_of_the_gpus_decides_what_fits() -> None:
    assert ran("gpu.memory_bytes=99999999999", system="attacc_gpu").fits > ran(system="attacc_gpu").fits


def test_one_token_and_no_prompt_are_what_they_are_in_a_comparison() -> None:
    """The prompt's end is the first token; without one the first token is a decode step."""
    only, none = ran(generate=1), ran(prompt=0, generate=2)
    assert (only.step_s, only.tokens_per_s, only.step_j, only.step_by_part_s) == (None, None, None, {})
    assert only.latency_s == only.prefill_s > 0 and none.prefill_s == 0 and none.latency_s == 2 * none.step_s
    for prompt, wanted in ((1024, only), (0, none)):
        options = ("--prompt", str(prompt), "--generate", str(2 - (prompt > 0)), "--batch", "8", "--chunk", "8192")
        out = call("compare", "attacc", "--model", "gpt3-175b", *options, "--json", "-").out
        (found,) = json.loads(out)["systems"]
        assert found["latency_s"] == pytest.approx(wanted.latency_s, rel=1e-6)


def test_spans_of_a_step_and_of_a_prompt() -> None:
    found = ran()
    frame = found.spans
    decode = frame[frame.phase == "decode"]
    assert list(decode.operator[:4]) == ["norm 1", "qkv", "transfer", "score"]
    assert decode.end_ps.max() == pytest.approx(found.step_s * 1e12, rel=0.01)  # the step in the middle
    assert frame[frame.phase == "prefill"].end_ps.max() == pytest.approx(found.prefill_s * 1e12, rel=1e-6)
    assert found._repr_html_()


def test_a_step_of_different_lengths_lies_between_those_of_one() -> None:
    device = device_of(load_system("attacc", {"stacks.pipelined": "false"}), GPT, Share(tp=1, layers=96))
    short, mixed, long = (device.step(Batch.decode(each)) for each in ([200] * 20, [200, 1800] * 10, [1800] * 20))
    assert short.time_s < mixed.time_s < long.time_s
    assert (short.energy_j or 0) < (mixed.energy_j or 0) < (long.energy_j or 0)
    order = device.step(Batch.decode([1800, 200] * 10))
    assert order.time_s == mixed.time_s and order.energy_j == pytest.approx(mixed.energy_j)
    pieces = device.step(Batch.prefill([1024, 100], cached=[0, 924]))
    whole = device.step(Batch.prefill([1024, 1024]))
    assert device.step(Batch.prefill([1024])).time_s < pieces.time_s < whole.time_s


@pytest.mark.parametrize("model", ["mixtral-8x7b", "llama-3-70b", "grok-1", "glam-143b"])
def test_models_with_groups_and_experts_run(model) -> None:
    options = ("--model", model, "--prompt", "512", "--generate", "3", "--batch", "12", "--json", "-")
    gpu, attacc = json.loads(call("compare", "attacc_gpu,attacc", *options).out)["systems"]
    assert attacc["decode"]["time_s"] < gpu["decode"]["time_s"]
    assert attacc["memory_needed_bytes"] == gpu["memory_needed_bytes"]


def test_layers_without_experts_are_added_to_those_with() -> None:
    glam = load_llm("glam-143b")
    found = boxed(load_system("attacc"), glam, released=False)
    assert [decoder.layers for decoder in found.decoders] == [16, 16]
    dense, sparse = (found._replace(decoders=(one,)).decode([300] * 9) for one in found.decoders)
    both = found.decode([300] * 9)
    assert "router" in sparse.seconds and "router" not in dense.seconds
    assert both.seconds["up"] == dense.seconds["up"] + sparse.seconds["up"]
    assert sum(both.causes.values()) == pytest.approx(sum(dense.causes.values()) + sum(sparse.causes.values()))


def test_without_stacks_the_gpus_attend() -> None:
    gpu, stacks = ran(system="attacc_gpu"), ran()
    assert gpu.placement is None and gpu.step_s > stacks.step_s and gpu.prefill_s == stacks.prefill_s


def test_a_step_of_the_device_is_that_of_the_run() -> None:
    device = device_of(load_system("attacc"), GPT, Share(tp=1, layers=96))
    found, whole = device.step(Batch.decode([1025] * 8)), ran(generate=2)
    assert found.time_s == pytest.approx(whole.step_s, rel=1e-9) and found.energy_j == pytest.approx(whole.step_j)
    assert set(found.resources) == {"GPUs", "stacks", "links"}
    assert device.step(Batch.prefill([1024] * 8)).time_s == pytest.approx(whole.prefill_s, rel=1e-9)
    with pytest.raises(UserError, match="in separate steps; take --scheduler vllm-v0"):
        device.step(Batch.decode([10]) + Batch.prefill([11]))
    with pytest.raises(UserError, match="fit; take fewer requests"):
        device.check(Batch.decode([2048] * 100))


@pytest.mark.parametrize(("options", "said"), [
    ("--model llama-3-8b --fidelity released", "llama-3-8b has 32 heads that share 8 heads of keys"),
    ("--model llama-3-8b --set gpus=16", "gpus: expected a divisor of the heads of keys of the model, 8, got 16"),
    ("--model gpt3-175b --batch 100", "there are 687,194,767,360: 145,635 fit; take fewer requests or shorter ones"),
    ("--model gpt3-175b --set gpus=4", "4 GPUs of attacc hold 343,597,383,680; take 6 (--set gpus=6)"),
    ("--model gpt3-175b --set gpus=7", "gpus: expected a divisor of the heads of the model, 96, got 7"),
    ("--model gpt3-175b --tp 4", "--tp 4: attacc is a box of GPUs that share every layer"),
    ("--model gpt3-175b --set stacks.each=0", "set stacks.pipelined=false and stacks.co_processing=false, too"),
    ("--model gpt3-175b --set stacks.placement=chip", "--set stacks.placement: expected one of bank, bg, buffer"),
    ("--model gpt3-175b --generate 0", "--generate 0: expected at least 1 token"),
    ("--model gpt3-175b --prompt -1", "--prompt -1: expected at least 0 tokens"),
    ("--model gpt3-175b --every 0", "--every 0: expected at least 1"),
    ("--model gpt3-175b --batch 0", "--batch 0: expected at least 1"),
    ("--model gpt3-175b --seed 7", "--seed 7: attacc draws nothing; leave it out"),
    ("--model gpt3-175b --set gpu.memory_gb_s=1e-320", "energy of a step is not finite"),
])  # fmt: skip
def test_what_is_refused(options: str, said: str) -> None:
    found = call("run", "attacc", *options.split())
    assert found.code == 2 and found.out == "" and said in found.err and found.err.count("\n") == 1


def test_the_study_holds_and_says_if_it_does_not(tmp_path, monkeypatch) -> None:
    steps, checked = dict[str, Any](), list[Any]()  # of the first study, for the second one, too

    study_checks = further.checks

    def step_of(row, fidelity):
        asked = json.dumps([row, fidelity])
        if asked not in steps:
            steps[asked] = measured.step_of(row, fidelity)
        return steps[asked]

    def further_checks(*of):
        checked.extend([] if checked else study_checks(*of))
        return checked

    monkeypatch.setattr(study, "BATCHES", study.BATCHES[:2])  # of a curve
    monkeypatch.setattr(study, "step_of", step_of)
    monkeypatch.setattr(further, "checks", further_checks)
    page = study.run_study(tmp_path / "a", lambda done, total: None)
    checks = json.loads((page.parent / "results.json").read_text())["checks"]
    assert len(checks) == 25 + 12 + 17 + 32 + 3 + 6 + 1 and {check["verdict"] for check in checks[:-9]} == {"pass"}
    assert [check["verdict"] for check in checks[-9:]] == ["pass"] + ["deviates"] * 6 + ["report only"] * 2
    shown = page.read_text()
    assert "1.847" in shown and "headline claim" not in shown and "not reproduced" in shown and "does not fit" in shown
    assert ">1 of 7</dd>" in shown.replace("\n", "") and "2 more are shown without a verdict" in shown
    for row in study.headline(checks).rows:  # of gains over the boxes, not of options, which name a model, too
        for what, ours, verdict in (("over DGX_Base", "ours", "over_verdict"), ("saved", "saved", "saved_verdict")):
            (own,) = (c for c in checks if f"gain, {row['model']}, " in c["check"] and c["check"].endswith(what))
            assert (row[ours], row[verdict]) == (own["ours"], own["verdict"])
    monkeypatch.setattr(study, "counts_of", lambda row: dict.fromkeys(("MAC", "SFM", "MVGB", "MVSB", "WRGB"), 1))
    monkeypatch.setattr(study, "rows_of", lambda name: [] if name == "cycles.csv" else rows_of(name))
    monkeypatch.setattr("pimloom.reports.figures.draw_svg", lambda label, draw, height_in: escape(label))
    with pytest.raises(GateError, match="hard gates that do not hold: MAC: 3 heads"):
        study.run_study(tmp_path / "b", lambda done, total: None)


@pytest.mark.parametrize("setting", ["stacks.placement=bg", "stacks.power_limited=false", "dram.part=hbm3_attacc_6400"])
def test_a_box_without_stacks_takes_no_key_of_theirs(setting: str) -> None:
    with pytest.raises(UserError, match=f"--set {setting.partition('=')[0]}: attacc_gpu has no stacks"):
        ran(setting, system="attacc_gpu")


def test_attention_on_processors_of_the_host() -> None:
    """As released a step of the authors' run, 434.32 ms and 20.002 J; else two processors serve eight GPUs."""
    released = ran(system="attacc_host", batch=54, prompt=2048, generate=128, every=127, fidelity="released")
    found = ran(system="attacc_host", batch=54, prompt=2048, generate=128, every=127)
    assert released.mean_s == pytest.approx(0.43432, rel=1e-3) and released.mean_j == pytest.approx(20.002, rel=1e-3)
    parts = ("score", "context", "softmax", "transfer")
    for part in parts:
        assert found.step_by_part_s[part] == pytest.approx(4 * released.step_by_part_s[part], rel=1e-12)
        assert found.step_by_part_j[part] == 0
    assert (found.attention, found.stacks, found.placement) == ("host", 0, None)
    assert ran(system="attacc_gpu").attention == "GPUs" and ran().attention == "stacks"
    assert "energy is without the host's processors and the links to them: what they draw is not known" in found.notes
    assert set(found.spans.query("operator == 'score'")["resource"]) == {"GPUs", "host"}  # of prompts, of decode
    kv = 2 * 96 * 12_288 * 2  # bytes of a token: K and V of 96 layers
    assert found.fits == 2 * 2**40 // kv // (2048 + 128)
    asked = ("--model", "gpt3-175b", "--prompt", "9", "--generate", "2", "--json", "-")
    compared = json.loads(call("compare", "attacc_host,attacc_gpu", *asked).out)
    assert any("attacc_host: energy is without the host's processors" in note for note in compared["notes"])


@pytest.mark.parametrize(("setting", "said"), [
    ("stacks.each=5", "--set stacks.each: stacks need dram.part; set it, too, or take attacc"),
    ("stacks.each=5 dram.part=hbm3_attacc_5200", "--set stacks.each: stacks attend, and so does the host; set stacks."),
    ("stacks.placement=bg", "--set stacks.placement: attacc_host has no stacks; take attacc, which has some"),
    ("host.cores=0", "--set host.cores: expected"),
])  # fmt: skip
def test_what_a_box_with_a_host_refuses(setting: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        ran(*setting.split(), system="attacc_host")


def test_memory_is_that_of_the_box_whatever_the_model() -> None:
    models = (("gpt3-175b", 96), ("llama-2-7b", 32))
    devices = [device_of(load_system("attacc"), load_llm(name), Share(tp=1, layers=n)) for name, n in models]
    assert {device.capacity().memory_bytes for device in devices} == {2 * 8 * 80 * 2**30}


def test_what_bounds_a_step() -> None:
    """Weights from the memory of the GPUs; many tokens' products; commands of the stacks; links of few tokens."""
    device = device_of(load_system("attacc", {"stacks.pipelined": "false"}), GPT, Share(tp=1, layers=96))
    gpus = device_of(load_system("attacc_gpu"), GPT, Share(tp=1, layers=96))
    bounds = (gpus.step(batch).bound() for batch in (Batch.decode([10] * 40), Batch.prefill([2048] * 8)))
    assert [bound and bound.name for bound in bounds] == ["memory bandwidth", "compute"]
    step = device.step(Batch.decode([1000] * 40))
    score = next(span for span in step.spans if span.operator == "score")
    read = [span for span in step.spans if span.resource == "stacks" and span.operator in ("up", "down")]
    beside = {span.operator: span for span in step.spans if span.resource == "GPUs"}
    assert len(read) == 2 and all(span.start_ps == beside[span.operator].start_ps for span in read)
    commands = sum(span.end_ps - span.start_ps for span in (score, *read))
    assert step.least_ps["commands"] == pytest.approx(commands, abs=2)
    assert step.busy["stacks"] == pytest.approx(commands, abs=1)  # its softmax hides
    assert all(0 < step.least_ps[limit] < step.end_ps for limit in ("compute", "memory bandwidth", "link"))
    width, context = 12_288, 1000
    assert step.macs == 96 * 40 * (12 * width**2 + 2 * width * context)  # of a token in a layer
    assert step.link_bytes == 96 * 40 * 2 * (2 * 2 * 7 * width + 4 * width)  # two all-reduces; q, k, v, context


def test_a_common_tp_stands_in_place_of_the_gpus() -> None:
    four, box = (
        device_of(load_system("attacc", settings), load_llm("llama-2-70b"), Share(tp=tp, layers=80))
        for settings, tp in (({}, 4), ({"gpus": "4"}, 1))
    )
    for batch in (Batch.decode([500, 300]), Batch.prefill([64])):
        one, whole = four.step(batch), box.step(batch)
        assert one.spans == whole.spans and one.energy_j == pytest.approx(whole.energy_j)
        assert (one.devices, one.link_bytes) == (4, whole.link_bytes) and 4 * one.macs == whole.macs
    assert 4 * four.capacity().memory_bytes == box.capacity().memory_bytes
    assert four.capacity().tokens == box.capacity().tokens
    options = ("--model", "llama-2-7b", "--batch", "2", "--prompt", "64", "--generate", "3", "--tp", "2", "--json", "-")
    found = json.loads(call("compare", "attacc,gpu_h100", *options).out)["systems"]
    assert all(one["latency_s"] and one["energy_by_cell"] for one in found)
    with pytest.raises(UserError, match=r"--tp 16: does not divide the heads of keys of .*, 8; take one of 1, 2, 4, 8"):
        device_of(load_system("attacc"), load_llm("llama-2-70b"), Share(tp=16, layers=80))


@pytest.mark.parametrize(("prompt", "generate", "every"), [(64, 67, 64), (64, 130, 50), (0, 66, 64), (300, 4, 1000)])
def test_steps_that_are_not_simulated_count_once(prompt: int, generate: int, every: int, monkeypatch) -> None:
    """Where time and energy of a step are linear in the context, totals are those of all steps."""

    def decode(self, contexts):
        line = {"score": 3.0 + 0.5 * contexts[0]}
        return Step(line, line, {"cells": 1.0}, {}, {"macs": 1.0, "sent_bytes": 0.0}, {})

    monkeypatch.setattr("pimloom.systems.devices.attacc.boxed.Boxed.decode", decode)
    asked: dict[str, Any] = {"system": "attacc_gpu", "prompt": prompt, "generate": generate}
    found = ran(every=every, **asked)
    contexts = range(prompt + 1, prompt + generate + (prompt == 0))
    step = sum(3.0 + 0.5 * context for context in contexts) / len(contexts)
    assert (found.step_s, found.step_j) == pytest.approx((step, step), rel=1e-12)
    assert found.latency_s == pytest.approx(found.prefill_s + len(contexts) * step, rel=1e-12)
    assert ran(**asked).step_s == pytest.approx(step, rel=1e-12)


def test_a_rough_every_is_noted() -> None:
    options: dict[str, Any] = {"system": "attacc_gpu", "prompt": 8, "generate": 130, "batch": 1}
    assert any("too few iterations" in note for note in ran(every=129, **options).notes)
    assert not any("interpolated" in note for note in ran(every=1, **options).notes)
