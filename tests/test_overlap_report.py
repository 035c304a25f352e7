"""Rows of the report on overlap and shares: what was measured comes out, and what does not is known."""

import pytest

from pimloom.reports.serving import distserving, overlapping, sharing
from pimloom.reports.serving.distserve_data import OF_13B, OF_66B, PROFILED, REQUESTS
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
    fit, prompts = OF_13B.theirs[1], [LiveRequest(i, 0, 100, 9) for i in range(2)]
    assert fit.ps(Iteration(prompts, [100, 100])) == round(38.62444e9)
    for one in prompts:
        one.cached = 100
    assert fit.ps(Iteration(prompts, [1, 1])) == pytest.approx(20.1336538e9, rel=1e-9)
    many = [LiveRequest(i, 0, 100, 9) for i in range(95)]
    for one in many:
        one.cached = 9
    assert fit.ps(Iteration(many, [1] * 95)) == pytest.approx((7.166 + 5.798e-4 * 950 + 0.15831 * 95) * 1e9)


def test_requests_are_those_of_its_runs():
    """Counts of the artifact's own file: 300 of them, 780 and 176 tokens in the mean, each below 2,048."""
    rows = [line.split(",") for line in REQUESTS.read_text().splitlines()[1:]]
    pairs = [(int(prompt), int(output)) for _, _, prompt, output in rows]
    assert pairs[:3] == [(55, 4), (829, 170), (697, 431)] and pairs[-1] == (818, 20) and len(pairs) == 300
    assert sum(p for p, _ in pairs) == 233_976 and sum(o for _, o in pairs) == 52_928
    assert max(p + o for p, o in pairs) < 2048


def test_placements_and_memory_are_those_of_the_artifact():
    """Its servers hold 66,144 and 163,008 tokens of OPT-13B on one and two devices, 78,496 of OPT-66B on four."""
    assert (OF_13B.devices, OF_66B.devices) == (3, 8)
    tokens = [16 * of.blocks(n) for of, n in ((OF_13B, 1), (OF_13B, 2), (OF_66B, 4))]
    assert tokens == pytest.approx([66144, 163008, 78496], rel=0.15)
    assert PROFILED[1].prompt == pytest.approx([one / 1.5 for one in OF_13B.vllms[1].prompt], rel=1e-3)


def test_prompts_alone_take_what_the_fit_says():
    """At a rate at which requests hardly meet, by hand: the first prompt of 55 tokens on two devices, then its three
    further tokens on one, behind the link; vLLM on one device does both."""
    served = distserving.apart(OF_13B, 0.001, 2)
    ps = served[0].first_token - served[0].arrival
    assert ps == pytest.approx((14.74 + 0.06858 * 55 + 2.45e-6 * 55**2) * 1e9, rel=1e-9)
    each = [19.93 + 6.269e-4 * (55 + k) + 0.03851 for k in (1, 2, 3)]
    link_ms = 55 * 2 * 40 * 5120 * 2 * 8 / 2400e6 + 600e-6
    assert served[0].completion - served[0].first_token == pytest.approx((sum(each) + link_ms) * 1e9, rel=1e-3)
    both = distserving.colocated_requests(OF_13B, PROFILED, 1, 0.001, 2)
    assert both[0].first_token - both[0].arrival == round((15.752 + 0.10036 * 55 + 5.769e-6 * 55**2) * 1e9)


def test_a_gain_over_nothing_is_a_bound():
    one = distserving.gain("over X", 2.0, 0.0, "4", "paper", "", checked=False)
    assert (one["what"], one["ours"], one["verdict"]) == ("over X, below 0.1/s", "above 20", "report only")
    two = distserving.gain("over X", 2.0, 1.6, "4", "paper", "", checked=True, below=True)
    assert (two["what"], two["ours"], two["verdict"]) == ("over X, below 1.6/s", "above 1.25", "deviates")
    three = distserving.gain("over X", 4.0, 1.6, "4", "paper", "", checked=True)
    assert (three["what"], three["ours"], three["verdict"]) == ("over X, 1.6/s", "2.5", "pass")
