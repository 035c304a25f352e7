"""Rows of the report on overlap and shares: what was measured comes out, and what does not is known."""

import pytest

from pimloom.reports.serving import overlapping, pooling, sharing
from pimloom.reports.serving.overlapping import measured_ms, predicted_ms
from pimloom.reports.serving.rows import Row
from pimloom.reports.serving.tokenweave_data import FUSED_US, PROMPTS, TOKENS
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest


def judged(rows: list[Row]) -> dict[str, str]:
    return {f"{one['machine']}: {one['what']}": str(one["verdict"]) for one in rows if one["tolerance"] != "shown only"}


def test_woven_prompts_are_as_measured_but_one():
    """Two halves of 1,024 tokens of Llama took longer than tiles and weights explain."""
    rows = list(overlapping.tokenweave())
    found = judged(rows)
    assert len(found) == 22
    assert [name for name, verdict in found.items() if verdict != "pass"] == [
        "Llama-3.3-70B on 8 H100, from its time without all-reduces: prompt of 1,024 tokens [ms]"
    ]
    long = PROMPTS["Qwen2.5-72B"][4]
    assert predicted_ms("Qwen2.5-72B", long) == pytest.approx(long.woven, rel=0.02) and long.tokens == 16384
    assert measured_ms(FUSED_US, 64, 8192) == FUSED_US[0] / 1000
    slope = (FUSED_US[-1] - FUSED_US[-2]) / (TOKENS[-1] - TOKENS[-2])
    assert measured_ms(FUSED_US, 65536, 4096) == pytest.approx((FUSED_US[-1] + slope * 32768) / 2000)


def test_nano_batches_gain_what_they_may():
    rows = list(overlapping.nanoflow())
    assert set(judged(rows).values()) == {"pass"} and len(judged(rows)) == 2
    reached = rows[-1]["value"]
    assert isinstance(reached, float) and 0.5 < reached < 1


def test_jobs_keep_machines_busy():
    rows = list(sharing.muxflow())
    values = [one["value"] for one in rows]
    assert values[0] == pytest.approx(100) and rows == list(sharing.muxflow()) and not judged(rows)


def test_fits_are_those_of_the_paper():
    """By hand: 18.1 + 0.10191 x 200 + 7.122e-6 x (100^2 + 100^2) ms; 19.93 + 6.269e-4 x 202 + 0.03851 x 2 ms."""
    prompts = [LiveRequest(i, 0, 100, 9) for i in range(2)]
    assert pooling.FITS[1].ps(Iteration(prompts, [100, 100])) == round(38.62444e9)
    for one in prompts:
        one.cached = 100
    assert pooling.FITS[1].ps(Iteration(prompts, [1, 1])) == pytest.approx(20.1336538e9, rel=1e-9)
    many = [LiveRequest(i, 0, 100, 9) for i in range(95)]
    for one in many:
        one.cached = 9
    assert pooling.FITS[1].ps(Iteration(many, [1] * 95)) == pytest.approx((7.166 + 5.798e-4 * 950 + 0.15831 * 95) * 1e9)
