"""`pimloom serve --html`: what the page shows, from naive sums; foreign text; files that cannot be written."""

import json
from random import Random
from typing import Any

import numpy as np
import pytest

import pimloom
from pimloom.reports.served.curves import Over, percentiles
from pimloom.reports.served.page import cards, over_time

SERVE: dict[str, Any] = {"model": "gpt2", "arrivals": "poisson:200/s", "lengths": "64:8", "requests": 12}


def test_a_page_of_a_trace_whose_name_is_no_markup(tmp_path):
    trace = tmp_path / "<b onload=x>&.csv"
    trace.write_text("timestamp,prompt_tokens,output_tokens\n0,10,3\n1,10,3\n")
    found = pimloom.serve("gpu_a100", model="gpt2", trace=trace, slo="ttft=1s", price="1.29", html=tmp_path / "new")
    page = (tmp_path / "new" / "index.html").read_text()
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["index.html", "results.json"]
    assert json.loads((tmp_path / "new" / "results.json").read_text())["spec_digest"] == found.spec_digest
    for heading in ("Queue and batch", "KV memory", "Resources", "Latency", "Energy by cause", "Limits", "at rest"):
        assert heading in page
    assert f"{found.time_to_first_token_s.p50 * 1e3:.3f}"[:5] in page and "Preemptions," not in page
    assert "<b onload" not in page and "&lt;b onload=x&gt;&amp;.csv" in page


@pytest.mark.usefixtures("undrawn")
def test_preemptions_and_pools_with_a_single_request():
    squeezed = pimloom.serve("gpu_a100", **SERVE | {"arrivals": "burst", "lengths": "64:200"}, blocks=60)
    titles = [figure.title for figure in over_time(squeezed, Over(0.0, squeezed.time_s, 40))]
    assert squeezed.preemptions and "Preemptions, by arrival of who had to yield" in titles
    pools = pimloom.serve("prefill=gpu_a100,decode=t4", link="1Gb/s", **SERVE | {"requests": 1})
    assert "Of both pools." in [figure.caption for figure in over_time(pools, Over(0.0, 1.0, 4))]
    assert [card.label for card in cards(pools)][-1] == "Energy of an output token"


@pytest.mark.parametrize("seed", range(5))
def test_means_over_time_are_those_of_a_naive_sum(seed):
    random, over = Random(seed), Over(1.0, 3.0, 7)
    spans = [sorted((random.uniform(1, 3), random.uniform(1, 3))) for _ in range(20)]
    values = [random.uniform(0, 9) for _ in spans]
    start, end = (np.array(some) for some in zip(*spans, strict=True))
    found = over.mean(start, end, np.array(values))
    for low, high, mean in zip(over.edges, over.edges[1:], found, strict=False):
        inside = [max(min(b, high) - max(a, low), 0.0) * v for (a, b), v in zip(spans, values, strict=True)]
        assert mean == pytest.approx(sum(inside) / (high - low))
    assert over.summed(start, end, np.array(values)).sum() == pytest.approx(sum(values))


def test_percentiles_are_linear_between_values():
    assert percentiles(np.array([3.0, 1.0, 2.0])) == [(1.0, 0.0), (2.0, 50.0), (3.0, 100.0)]
    assert percentiles(np.array([4.0])) == [(4.0, 0.0), (4.0, 100.0)]


def test_folders_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(pimloom.UserError, match="html"):
        pimloom.serve("gpu_a100", **SERVE, html=tmp_path / "file")
    with pytest.raises(pimloom.UserError, match="draws one run, and goodput makes many"):
        pimloom.serve("gpu_a100", **SERVE, html=tmp_path / "x", goodput=True, rate="1:2", slo="ttft=1s")
    with pytest.raises(pimloom.UserError, match="model"):
        pimloom.serve("gpu_a100", **SERVE | {"model": "nothing"}, html=tmp_path / "y")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
