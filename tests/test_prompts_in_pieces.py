"""Prompts in pieces whose requests must fit side by side: asked for without a step of decode."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.devices.run import Run
from pimloom.systems.serving.batching import Rules, decode
from pimloom.systems.serving.machine import Pieces, Plan, machine_of
from pimloom.systems.serving.workload import load_workload
from pimloom.workload.batch import Batch

PREFILL = """
description: a processor that computes prompts only
kind: composed
element_bits: 16
memories:
  hbm: {gb_s: 1000, bytes: 16000000000}
units:
  gpu: {type: roofline, memory: hbm, peak_tflops: 100, peak_share: 0.5, memory_share: 0.9, launch_us: 1}
runs:
  prefill: {all: gpu}
overlap: serial
"""


def test_a_system_without_decode_computes_prompts_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "pre.yaml").write_text(PREFILL)
    asked: dict[str, Any] = {"model": "gpt2", "layers": 1, "prompt": 64, "generate": 1}
    whole = pimloom.run(tmp_path / "pre.yaml", **asked)
    pieces = pimloom.run(tmp_path / "pre.yaml", chunk=32, **asked)
    assert pieces.prompt_iterations == 2 and pieces.decode_iterations == 0
    assert pieces.latency_s > whole.latency_s


@pytest.mark.parametrize(
    ("system", "settings", "said"),
    [
        ("neupims", {"dram.channels": 2, "dram.organization.rows": 8700}, "the caches of 24 requests need"),
        ("npu_only", {"dram.channels": 2, "dram.organization.rows": 8192}, "at most"),
        ("gpu_a100", {"memory_bytes": 20_000_000}, "at most"),
    ],
)
def test_what_does_not_fit_side_by_side_is_refused(system: str, settings: dict[str, int], said: str) -> None:
    if "dram.organization.rows" in settings:
        bytes_of_channel = settings["dram.organization.rows"] * 32 * 1024
        settings = settings | {"dram.organization.capacity_bytes": bytes_of_channel}
    many = 24 if system != "npu_only" else 2000
    with pytest.raises(pimloom.UserError, match=said):
        pimloom.run(system, model="gpt2", layers=1, batch=many, prompt=300, generate=1, chunk=300, set=settings)


def trace(folder: Path, many: int, prompt: int, output: int) -> Path:
    lines = ["timestamp,prompt_tokens,output_tokens", *[f"0,{prompt},{output}"] * many]
    (folder / "trace.csv").write_text("\n".join(lines) + "\n")
    return folder / "trace.csv"


def small(rows: int) -> dict[str, int | str]:
    """Two channels of so many rows."""
    there = {"dram.channels": 2, "dram.organization.rows": rows, "dram.organization.capacity_bytes": rows * 32768}
    return there | {"packing.constants": "derived"}


def test_requests_wait_for_room_in_all_layers(tmp_path: Path) -> None:
    """Of a token all layers keep 2 x 768 x 12 elements; the rows of one layer would do for all of the requests."""
    rows, weight_bytes, token_bytes = 14_000, 170_035_200, 2 * 768 * 12 * 2
    system = load_system("neupims", {name: str(value) for name, value in small(rows).items()})
    machine = machine_of(system, load_llm("gpt2"), Plan(90, 100, 1, None, 0, 1, 1, 12, "physical"))
    most = (2 * rows * 32768 - weight_bytes) // token_bytes
    seen = []

    def step(tokens: np.ndarray, channel: np.ndarray) -> float:
        seen.append(len(tokens))
        return 1.0

    work = load_workload(trace(tmp_path, 90, 300, 2))
    decode(work, machine.room(), Rules(90, 1024, "min-load", machine.cost, False), step)
    assert max(seen) == most // 300 == 67 and sum(seen) == 180


def test_prompts_wait_for_the_rows_of_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve requests of some 300 tokens fit into two channels of 8,700 rows."""
    seen, ran = list[Pieces](), list[Run]()

    def on(self: Pieces, device: Device) -> Run:
        seen.append(self)
        ran.extend([] if ran else [device.step(Batch.decode([5]))])
        return ran[0]

    monkeypatch.setattr(Pieces, "on", on)
    asked: dict[str, Any] = {"model": "gpt2", "layers": 1, "batch": 24, "set": small(8700)}
    found = pimloom.run("neupims", requests=trace(tmp_path, 24, 300, 3), chunk=2048, **asked)
    assert found.requests_finished == 24 and max(found.iteration_batch) == 12
    assert all(np.bincount(one.channel).max() <= 6 for one in seen)


def test_steps_run_in_the_channels_of_their_requests() -> None:
    narrow = load_llm(str(Path(__file__).parent / "narrow_gpt2.json"))
    device = device_of(load_system("neupims"), narrow, Share(1, 1))
    apart, together = (Pieces(Batch.decode([200, 200]), np.array(channel)).on(device) for channel in ([0, 1], [0, 0]))
    assert together.end_ps != apart.end_ps == device.step(Batch.decode([200, 200])).end_ps
