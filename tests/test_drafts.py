"""Drafts that are checked: as many are right as the formulas say, and what comes of it on each kind of machine."""

from typing import Any

import pytest

import pimloom
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.transforms.speculated import BetaChain, Chain, Speculated, Tree
from pimloom.workload.decoding import chain


def test_each_number_of_drafts_is_right_as_often_as_the_formula_says():
    alphas = [0.9, 0.7, 0.5]
    accepting, reach = Chain(alphas, 1), [*chain.reached(alphas), 0.0]
    drawn = [accepting.accepted(number, known, 3) for number in range(200) for known in range(200)]
    assert 1 + sum(drawn) / len(drawn) == pytest.approx(chain.tokens_per_step(reach), abs=0.03)
    for k in range(4):
        assert drawn.count(k) / len(drawn) == pytest.approx(reach[k] - reach[k + 1], abs=0.01)


@pytest.mark.parametrize("accepting", [
    Chain([0.8, 0.5, 0.5], 1), BetaChain(chain.beta(0.7, 0.2), 3, 1), Tree([1.0, 0.7, 0.4, 0.1], 9, 20, 1),
])  # fmt: skip
def test_tokens_of_a_step_are_those_of_the_formula(accepting):
    decoding, steps, tokens = Speculated(accepting, 10**6), 0, 0
    for number in range(400):
        request = LiveRequest(number, 0, 5, 200)
        request.decoding, request.first_token, request.known, request.cached = decoding, 0, 6, 5
        while request.known < request.last - 10:
            drafts = decoding.ahead(request)
            assert drafts == accepting.most
            (piece,) = decoding.pieces(request, 1 + drafts, request.cached)
            assert piece.verify and piece.logits == piece.new == 1 + drafts and piece.pairs == accepting.pairs
            request.cached += 1 + drafts
            tokens, steps = tokens + decoding.ran(request), steps + 1
            assert request.cached == request.known - 1
    expected = {
        Chain: chain.tokens_per_step(chain.reached([0.8, 0.5, 0.5])), Tree: 2.2,
        BetaChain: None,  # requests with a high chance have fewer steps
    }[type(accepting)]  # fmt: skip
    assert expected is None or tokens / steps == pytest.approx(expected, rel=0.01)


def test_drafted_tokens_come_as_often_as_the_formula_says():
    given: dict[str, Any] = {"model": "gpt2-large", "arrivals": "burst", "lengths": "20:200"}
    given |= {"requests": 60, "batch": 8}
    found = pimloom.serve("gpu_a100", speculate="draft=gpt2,gamma=4,alpha=0.7", **given)
    assert found.transforms == {"speculate": "draft=gpt2,gamma=4,alpha=0.7"}
    assert found.tokens_per_step == pytest.approx(chain.tokens_per_step(chain.reached([0.7] * 4)), rel=0.05)
    assert (found.requests["output_tokens"] == 200).all() and found.token_gap_s.count == 60 * 199
    plain = pimloom.serve("gpu_a100", **given)
    assert found.iteration_count < plain.iteration_count / 2
    assert found.blocks < plain.blocks  # the draft has weights and a cache, too
    all_right = pimloom.serve("gpu_a100", speculate="draft=gpt2,gamma=4,alpha=1", **given | {"batch": 1, "requests": 1})
    assert all_right.iteration_count == 1 + 199 // 5 + 1 and all_right.tokens_per_step == 5.0
    none = pimloom.serve("gpu_a100", speculate="draft=gpt2,gamma=4,alpha=0", **given | {"batch": 1, "requests": 1})
    assert none.iteration_count == 200 and none.tokens_per_step == 1.0


def test_other_requests_beside_it_do_not_change_what_is_accepted():
    given: dict[str, Any] = {"arrivals": "burst", "lengths": "20:50", "model": "gpt2-large"}
    given |= {"speculate": "draft=gpt2,gamma=3,alpha=0.6,spread=0.2", "batch": 1, "sample": 0}
    alone, many = (pimloom.serve("gpu_a100", requests=n, **given) for n in (1, 3))
    assert alone.requests["latency_s"][0] == many.requests["latency_s"][0]


def test_checking_what_a_draft_proposes_pays_on_a_gpu_and_not_on_gemv_units():
    """A GPU reads its weights once for all rows that are checked; PIM multiplies each row by itself."""
    given: dict[str, Any] = {"model": "gpt2-xl", "arrivals": "burst", "lengths": "16:24"}
    given |= {"requests": 2, "sample": 0, "batch": 1}
    how = "draft=gpt2,gamma=4,alpha=0.8"
    for system, pays in (("gpu_a100", True), ("pim_gpt", False)):
        plain, drafted = (pimloom.serve(system, speculate=said, **given) for said in (None, how))
        assert (drafted.time_per_output_token_s.mean < plain.time_per_output_token_s.mean) == pays
