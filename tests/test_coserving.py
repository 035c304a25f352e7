"""Other work beside requests: fine-tuning that fills iterations up, and offline jobs on machines of services."""

from collections.abc import Sequence
from itertools import permutations
from math import fsum
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.arch.llm import load_llm
from pimloom.systems.serving.pricing.costs import Cost, Piece
from pimloom.systems.serving.sharing.finetuning import GRAIN, Filled
from pimloom.systems.serving.sharing.muxflow import Wants, done, matched, share_within, slowdown, use
from pimloom.workload.finetuning import Job, Step, activation_bytes, total_ratio
from tests.command import call


@given(length=st.integers(1, 40), most=st.lists(st.integers(1, 50), min_size=1, max_size=40))
@settings(max_examples=80)
def test_a_sequence_goes_forward_and_back_token_by_token(length, most):
    """Against lists of the tokens that wait for each pass."""
    job, forward, backward, ended = Job(length), list(range(length)), list[int](), 0
    for n in most:
        step = job.took(job.next(n))
        if forward:
            now, forward = forward[:n], forward[n:]
            assert step == Step(len(now), now[0], False)
            backward = list(range(length)) if not forward else []
        else:
            now, backward = backward[-n:], backward[:-n]
            assert step == Step(len(now), now[0], True)
            if not backward:
                forward, ended = list(range(length)), ended + length
    assert job.tokens == ended + (length - len(backward) if backward else 0) and job.sequences == ended // length


class Plain:
    """Costs that a hand reckons: 5 for an iteration, 2 a token, 1 / 100 for each pair of tokens."""

    def of(self, pieces: Sequence[Piece]) -> Cost:
        rows = sum(one.new for one in pieces)
        pairs = sum(one.new * one.cached + one.new * (one.new + 1) // 2 for one in pieces)
        return [5.0 + 2 * rows + pairs / 100, 7.0 * rows]


@given(seed=st.integers(0, 2**32), limit=st.integers(1, 400))
@settings(max_examples=80)
def test_an_iteration_is_filled_up_to_its_limit(seed, limit):
    random, length = Random(seed), 150
    filled, other = Filled(Plain(), Job(length), float(limit)), Job(length)
    for _ in range(20):
        pieces = [Piece(1, random.randint(1, 99), 1) for _ in range(random.randint(0, 20))]
        best, cost = None, Plain().of(pieces)[0] if pieces else 0.0
        whole = other.next(length).new
        for n in [*range(GRAIN, whole, GRAIN), whole]:
            step = other.next(n)
            pairs = step.new * step.cached + step.new * (step.new + 1) // 2
            far = (step.new**2) / step.new**2 / 100  # a pair, by hand
            ps = Plain().of([*pieces, Piece(step.new, step.cached, 0)])[0] + (1.5 * pairs * far if step.backward else 0)
            if ps <= limit:
                best, cost = step, ps
        found, price = filled.fill(pieces)
        assert found == best and price[0] == pytest.approx(cost)
        if best:
            other.took(best)


def served(**given: Any) -> Any:
    options: dict[str, Any] = {"model": "gpt2-xl", "arrivals": "poisson:30/s", "lengths": "100:20", "requests": 30}
    return pimloom.serve("gpu_a100", layers=6, **options | {"slo": "tpot=4ms"} | given)


def test_requests_hold_their_limit_and_fine_tuning_has_the_rest():
    alone, beside = served(), served(finetune="sequence=512,rank=8")
    told = beside.beside
    assert alone.beside is None and told["share_of_peak"] > 0.5
    assert told["finetuned_tokens_per_s"] == pytest.approx(told["finetuned_tokens"] / beside.time_s)
    assert beside.requests["energy_j"].sum() + told["energy_j"] == pytest.approx(
        beside.energy_j - beside.rest_j, rel=1e-9
    )
    assert fsum(beside.energy_by_cause_j.values()) == pytest.approx(beside.energy_j, rel=1e-9)
    assert beside.slo.tpot == 1.0 and alone.token_gap_s.max < beside.token_gap_s.max <= 4e-3
    assert (beside.requests["output_tokens"] == 20).all()
    idle = beside.iterations[beside.iterations["requests"] == 0]
    assert len(idle) and (idle["new_tokens"] > 0).all() and (beside.iterations["time_s"] <= 4e-3).all()
    assert beside.blocks < alone.blocks and beside.spec_digest != alone.spec_digest
    assert served(finetune="sequence=512,rank=8").to_dict() == beside.to_dict()


def test_a_limit_below_the_smallest_step_is_refused_between_requests_too():
    with pytest.raises(pimloom.UserError, match="slo.*never met"):
        served(finetune="sequence=512", requests=3, slo="tpot=10us")


def test_what_ran_beside_is_told():
    words = ("--model", "gpt2", "--arrivals", "burst", "--requests", "3", "--lengths", "8:4", "--slo", "tpot=9ms")
    done = call("serve", "gpu_a100", *words, "--finetune", "sequence=64")
    assert done.code == 0 and "beside requests" in done.out and "of what they would be alone" in done.out


def test_an_iteration_has_one_pass_of_one_sequence():
    """Whatever the limit: by hand 5 + 2 x 30 + 465 / 100 forward, 1.5 x 465 / 100 more back."""
    filled = Filled(Plain(), Job(30), 1e9)
    assert filled.passes() == pytest.approx([69.65, 69.65 + 6.975]) and filled.peak() == pytest.approx(146.275)
    assert [filled.fill([])[0] for _ in range(3)] == [Step(30, 0, False), Step(30, 0, True), Step(30, 0, False)]


@pytest.mark.parametrize(
    ("sequence", "limit", "advised"), [(512, "3ms", None), (512, "50ms", True), (1024, "1s", False)]
)
def test_a_limit_that_is_not_filled_is_noted(sequence, limit, advised):
    """Where a pass does not take as long by itself; a longer sequence is advised if the model has positions for it."""
    words = ("--model", "gpt2-large", "--arrivals", "burst", "--requests", "3", "--lengths", "8:4")
    done = call("serve", "gpu_a100", *words, "--slo", f"tpot={limit}", "--finetune", f"sequence={sequence}")
    noted = "note: --finetune: an iteration has at most one pass of one sequence, "
    assert done.code == 0 and (noted in done.err) == (advised is not None)
    assert ("a longer sequence fills more" in done.err) == bool(advised)


def test_more_requests_leave_less_for_fine_tuning():
    shares = [
        served(finetune="sequence=256", arrivals=f"poisson:{rate}/s").beside["share_of_peak"] for rate in (20, 400)
    ]
    assert 0 < shares[1] < shares[0] < 1


def test_what_a_sequence_keeps():
    llm = load_llm("llama-3-8b")
    whole = 32 * 1024 * 2 * (4 * 4096 + 4096 + 2 * 1024 + 4096 + 3 * 14336 + 2 * 32 * 1024)
    pruned = 32 * 1024 * 2 * (2 * 4096 + 4096 + 2 * 1024 + 4096 + 2 * 14336)
    assert activation_bytes(llm, 1024, pruned=False) == whole and activation_bytes(llm, 1024) == pruned
    assert 0.5 < total_ratio(llm, 1024, 16) < 1


WANTS = st.tuples(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0, 1)).map(lambda of: Wants(*of))


@given(
    online=st.lists(WANTS, min_size=1, max_size=4),
    jobs=st.lists(WANTS, min_size=1, max_size=4),
    bound=st.floats(1, 1.5),
)
@settings(max_examples=80)
def test_jobs_are_matched_for_the_largest_sum(online, jobs, bound):
    found = matched(online, jobs, bound)
    assert len(found) == min(len(online), len(jobs)) == len({one.service for one in found})
    for one in found:
        on, off = online[one.service], jobs[one.job]
        assert slowdown(on, off, one.share) <= bound + 1e-9
        more = one.share + 1e-3
        assert one.share == 1.0 or slowdown(on, off, more) > bound - 1e-9  # none larger would do
        assert one.done == done(on, off, one.share)
    worth = [[done(on, off, share_within(on, off, bound)) for off in jobs] for on in online]
    few, many = sorted((len(online), len(jobs)))
    best = max(
        sum(worth[i][j] if len(online) == few else worth[j][i] for i, j in enumerate(some))
        for some in permutations(range(many), few)
    )
    assert sum(one.done for one in found) == pytest.approx(best)
    before, after = use(online), use(online, jobs, found)
    assert after.busy >= before.busy - 1e-12 and after.compute >= before.compute - 1e-12


def test_no_jobs_change_nothing():
    some = [Wants(0.5, 0.5, 0.2)]
    assert matched(some, [], 1.1) == [] and use(some).busy == 0.2


DRAWN = ("--arrivals", "burst", "--requests", "2", "--lengths", "8:4")
BAD = {
    "gpu_a100 --finetune sequence=64": "--finetune: expected a time per output token to fill iterations up to",
    "gpu_a100 --finetune rank=4 --slo tpot=1s": "--finetune rank=4: expected the tokens of a sequence, such as",
    "gpu_a100 --finetune sequence=0 --slo tpot=1s": "expected sequence and rank, each at least 1, such as",
    "gpu_a100 --finetune sequence=9999 --slo tpot=1s": "sequence: gpt2 has 1,024 positions; take fewer",
    "gpu_a100 --finetune sequence=64 --slo tpot=1s --overlap serial": "--overlap: beside --finetune tokens come one by",
    "gpu_a100 --finetune sequence=64 --slo tpot=1s --pp 2 --scheduler orca": "--pp 2: fine-tuning is on one stage",
    "gpu_a100 --finetune sequence=64 --slo tpot=1s --scheduler semi-pd": "--finetune: semi-pd takes tokens one by one",
}


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_served_beside_is_one_line(words):
    done = call("serve", *words.split(), "--model", "gpt2", *DRAWN)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and BAD[words] in done.err, done.err


def test_experts_are_not_derived():
    done = call("serve", "gpu_a100", "--model", "mixtral-8x7b", *DRAWN, "--finetune", "sequence=64", "--slo", "tpot=1s")
    assert done.code == 2 and "mixtral-8x7b has experts, whose stored activations are not modelled" in done.err
