"""Prompts in pieces whose requests must fit side by side: asked for without a step of decode."""

from pathlib import Path

import pytest

import pimloom

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
    asked = {"model": "gpt2", "layers": 1, "prompt": 64, "generate": 1}
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
        pimloom.run(
            system, model="gpt2", layers=1, batch=many, prompt=300, generate=1, chunk=300, set=settings
        )
