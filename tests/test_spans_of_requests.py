"""Spans of batches of requests: those of an iteration that the result counts, on every system."""

from pathlib import Path

import pytest

import pimloom
from pimloom.arch.units import S_PER_PS
from tests.slow import slow

NPUS = ("neupims", "npu_pim", "npu_only", "gpu_a100")
CARD = "examples/systems/pim_card.yaml"
NARROW = Path(__file__).parent / "narrow_gpt2.json"


def end_s(found, phase: str) -> float:
    """When the last span of a phase ends."""
    spans = found.spans
    assert list(spans.columns) == ["phase", "operator", "resource", "start_ps", "end_ps"]
    mine = spans[spans["phase"] == phase]
    assert len(mine) and (mine["start_ps"] >= 0).all() and (mine["end_ps"] >= mine["start_ps"]).all()
    return mine["end_ps"].max() * S_PER_PS


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    rows = "".join(f"{n / 1000},{20 + 10 * n},{3 + n % 3}\n" for n in range(3))
    file.write_text("timestamp,prompt_tokens,output_tokens\n" + rows)
    return file


@pytest.mark.parametrize("system", NPUS)
def test_one_iteration_ends_when_the_result_says(system: str, tmp_path: Path) -> None:
    """A list that names channels: the spans are of these channels, not of where Algorithm 2 would put requests."""
    file = tmp_path / "batch.csv"
    file.write_text("seq_len,ch_idx\n" + "".join(f"{100 + 40 * n},{n % 2}\n" for n in range(4)))
    found = pimloom.run(system, model=NARROW, requests=file)
    assert end_s(found, "decode") == pytest.approx(found.time_s, rel=1e-12)
    assert set(found.spans["phase"]) == {"decode"}


@pytest.mark.parametrize("system", NPUS)
def test_the_middle_iteration_of_many_is_shown(system: str) -> None:
    """Of those that are simulated: 0, 1 and 3."""
    found = pimloom.run(system, model=NARROW, requests="alpaca", batch=4, iterations=7, every=4)
    assert end_s(found, "decode") == pytest.approx(found.iteration_s[1], rel=1e-12)


def test_a_data_set_of_one_iteration_has_spans() -> None:
    found = pimloom.run("npu_pim", model=NARROW, requests="alpaca", batch=4)
    assert end_s(found, "decode") == pytest.approx(found.time_s, rel=1e-12)


def test_of_a_pipeline_the_first_micro_batch_on_the_first_group_is_shown() -> None:
    whole = pimloom.run("npu_pim", model=NARROW, requests="alpaca", batch=4)
    found = pimloom.run("npu_pim", model=NARROW, requests="alpaca", batch=4, pp=2)
    assert 0.25 * whole.time_s < end_s(found, "decode") < 0.6 * whole.time_s
    names = whole.spans["operator"].tolist(), found.spans["operator"].tolist()
    assert names[0].count("qkv") == 2 and names[1].count("qkv") == 1


@pytest.mark.parametrize("system", ["pim_gpt", "npu_only", CARD, *(slow(name) for name in NPUS if name != "npu_only")])
def test_prompts_beside_decode_are_shown_by_themselves(system: str, trace: Path) -> None:
    batch = 1 if system == "pim_gpt" else 4
    found = pimloom.run(system, model=NARROW, requests=trace, batch=batch, chunk=16)
    assert set(found.spans["phase"]) == {"prefill", "decode"}
    for phase in ("prefill", "decode"):
        near = [abs(end_s(found, phase) / s - 1) for s in found.iteration_s]
        assert min(near) < 1e-9 or (system == "pim_gpt" and phase == "prefill")  # a prompt is cut
    assert "spans" not in found.to_dict()


@pytest.mark.parametrize("system", ["pim_gpt", CARD])
def test_devices_of_other_kinds_show_their_decode(system: str, trace: Path) -> None:
    found = pimloom.run(system, model=NARROW, requests=trace, batch=1, iterations=3)
    assert end_s(found, "decode") == pytest.approx(found.iteration_s[1], rel=0.01)
