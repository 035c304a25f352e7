"""Systolic arrays in a composition: what today's NPU takes, alone and beside PIM of NeuPIMs on the same channels."""

import json
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.run import Run
from pimloom.workload.batch import Batch

TOY = """
description: arrays, and PIM in the banks of their memory
kind: composed
element_bits: 16
memories:
  hbm:
    part: hbm2_neupims
    channels: 4
    controller: {entries: 32, queue_entries: 128, window: 4352, row_hit_cap: 4, drain_idle: 8, offers_per_ck: 2}
units:
  npu: {type: arrays, memory: hbm, clock_mhz: 1000, arrays: 8, rows: 128, dataflow: ws, least_step_cyc: 4,
        gemv_load_cyc: 8, vector_units: 8, vector_lanes: 128}
"""
ALONE = TOY + "runs: {prefill: {all: npu}, decode: {all: npu}}\noverlap: serial\n"
OF_PIM = "offers_per_ck: 2, pim_queue_entries: 128, pim_floor_ck: 10"
BESIDE = TOY.replace("offers_per_ck: 2", OF_PIM) + (
    "  pim: {type: gemv, memory: hbm, at: bank, lanes: 16, pim_precharge: bank}\n"
    "runs: {prefill: {all: npu}, decode: {score: pim, value: pim, all: npu}}\noverlap: {sub_batches: 2}\n"
)
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 2,
    "num_key_value_heads": 2, "vocab_size": 500, "intermediate_size": 512,
}  # fmt: skip


@pytest.fixture
def llm(tmp_path: Path) -> LlmSpec:
    (tmp_path / "small.json").write_text(json.dumps(CONFIG))
    return load_llm(tmp_path / "small.json")


def composed(folder: Path, text: str, llm: LlmSpec, tp: int = 1) -> Any:
    (folder / "toy.yaml").write_text(text)
    return device_of(load_system(str(folder / "toy.yaml")), llm, Share(tp, 2, outside=True))


def layers_ps(run: Run) -> int:
    """What stands in the layers."""
    ends = ("embed", "norm", "lm_head", "sampling")
    return sum(span.end_ps - span.start_ps for span in run.spans if not span.operator.startswith(ends))


@pytest.mark.parametrize(
    ("batch", "off"), [(Batch.decode([300, 64]), 0.05), (Batch.prefill([50]), 0.15)], ids=["decode", "prefill"]
)
def test_arrays_alone_are_the_npu_operator_by_operator(batch: Batch, off: float, llm: LlmSpec, tmp_path: Path) -> None:
    """Each from an idle machine: what the operator before has stored, and its controller still holds, is not there."""
    settings = {"dram.channels": "4"}
    npu = device_of(load_system("npu_only", settings), llm, Share(1, 2)).step(batch)
    run = composed(tmp_path, ALONE, llm).step(batch)
    assert run.macs > 0 and run.commands["RD"] > npu.commands["RD"]  # embedding and LM head are in it
    assert layers_ps(run) == pytest.approx(npu.end_ps, rel=off)


@pytest.mark.parametrize("batch", [Batch.decode([300, 64, 9]), Batch.prefill([50])], ids=["decode", "prefill"])
def test_arrays_beside_pim_are_neupims(batch: Batch, llm: LlmSpec, tmp_path: Path) -> None:
    neupims = load_system("neupims", {"dram.channels": "4", "packing.constants": "derived"})
    inside = device_of(neupims, llm, Share(1, 2)).step(batch)
    run = composed(tmp_path, BESIDE, llm).step(batch)
    ends = {span for span in run.spans if span.resource == "npu"}
    first = next(span.end_ps for span in run.spans if span.operator == "embed_tokens")
    mine = [(s.start_ps - first, s.end_ps - first, *s[2:]) for s in run.spans if s not in ends]
    assert mine == [tuple(span) for span in inside.spans]
    assert {span.operator for span in ends} == {"embed_tokens", "norm", "lm_head", "sampling"}
    assert run.end_ps == inside.end_ps + sum(span.end_ps - span.start_ps for span in ends)


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (ALONE, "channels: 4", "channels: 3", "memories.hbm.channels: expected a power of two, got 3"),
        (BESIDE, "{sub_batches: 2}", "serial", "expected concurrent or sub_batches: n"),
        (BESIDE, "score: pim, ", "gemm: pim, score: pim, ", "expected gemm: npu"),
        (BESIDE, "lanes: 16, ", "lanes: 16, power_w: 3, ", "units.pim.power_w: of arrays beside PIM no energy is told"),
        (BESIDE, ", pim_precharge: bank", "", "missing key 'pim_precharge'"),
        (ALONE, "offers_per_ck: 2", OF_PIM, "controller.pim_queue_entries: no unit computes beside the banks of hbm"),
        (ALONE, "    controller: {entries", "    controller2: {entries", "unknown key 'controller2'"),
    ],
)
def test_what_is_refused(text: str, old: str, new: str, said: str, llm: LlmSpec, tmp_path: Path) -> None:
    assert old in text
    with pytest.raises(UserError) as caught:
        composed(tmp_path, text.replace(old, new), llm)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_scores_on_another_unit_leave_softmax_to_the_arrays(llm: LlmSpec, tmp_path: Path) -> None:
    text = ALONE.replace("runs:", "  pim: {type: gemv, memory: hbm, at: bank_group, lanes: 16}\nruns:")
    text = text.replace("decode: {all", "decode: {score: pim, value: pim, all")
    run = composed(tmp_path, text, llm).step(Batch.decode([64]))
    where = {span.operator: span.resource for span in run.spans}
    assert (where["self_attn.score"], where["self_attn.softmax"], where["self_attn.value"]) == ("pim", "npu", "pim")


@pytest.mark.parametrize("text", [ALONE, BESIDE], ids=["alone", "beside"])
def test_without_what_stands_outside_the_layers(text: str, llm: LlmSpec, tmp_path: Path) -> None:
    """A comparison leaves it out of all systems: then arrays beside PIM are NeuPIMs to the picosecond."""
    (tmp_path / "toy.yaml").write_text(text)
    system, batch = load_system(str(tmp_path / "toy.yaml")), Batch.decode([300, 64, 9])
    whole, layers = (device_of(system, llm, Share(1, 2, outside=outside)) for outside in (True, False))
    run = layers.step(batch)
    assert not {span.operator for span in run.spans} & {"embed_tokens", "lm_head", "sampling"}
    assert run.end_ps < whole.step(batch).end_ps
    assert layers.capacity().weight_bytes < whole.capacity().weight_bytes
    assert layers.capacity().tokens > whole.capacity().tokens
    if text == BESIDE:
        neupims = load_system("neupims", {"dram.channels": "4", "packing.constants": "derived"})
        assert run.end_ps == device_of(neupims, llm, Share(1, 2)).step(batch).end_ps


def test_an_lm_head_that_does_not_fit_beside_pim(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text(json.dumps(CONFIG | {"vocab_size": 40_000_000}))
    with pytest.raises(UserError, match=r"memories\.\w+: has .* of weights"):
        composed(tmp_path, BESIDE, load_llm(tmp_path / "large.json")).step(Batch.decode([9]))
