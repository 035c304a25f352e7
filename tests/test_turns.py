"""Prompts beside decode: a naive simulation of the rule, and one request alone is that of a run from its prompt on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pimloom
from pimloom.mappers.kv_pages import KvTokens
from pimloom.systems.serving.batching import POLICIES, Rules, decode
from pimloom.systems.serving.workload import Workload
from pimloom.workload.batch import Batch

LONGEST = 30
NARROW = Path(__file__).parent / "narrow_gpt2.json"


def workload(requests: list[tuple[float, int, int]], timed: bool = True) -> Workload:
    at, prompt, output = zip(*requests, strict=True)
    return Workload("test", np.array(at, float), np.array(prompt), np.array(output), timed, "")


def rules(slots: int, chunk: int, kept: bool = False) -> Rules:
    return Rules(slots, LONGEST, POLICIES[0], lambda tokens: tokens, kept, 3, chunk)


def seconds(batch: Batch) -> float:
    return 0.001 + sum(at.new * 1e-4 + at.context * 1e-6 for at in batch.requests)


def naive(
    requests: list[tuple[float, int, int]], slots: int, room: int, chunk: int
) -> tuple[list[list[tuple[str, int, int]]], dict[int, float], dict[int, float], dict[int, float]]:
    """Each iteration as (phase, new, context) of its requests; when each request joined for the first time, and when
    its first and its last token came.

    A request that joins takes room for its prompt and all that it has said, one that decodes for a token more, of both
    for LONGEST tokens at most; where that is not there, the newest yields and computes all again when it comes back,
    before all that wait. Who has said something and lacks no more than its newest token decodes, and is in every
    iteration; the rest of `chunk` tokens goes to prompts in the order in which they joined, also where only one token
    of a prompt is left.
    """
    now, alive, log = 0.0, list[dict[str, Any]](), []
    wait = [{"i": i, "at": at, "prompt": p, "out": o, "said": 0, "there": 0} for i, (at, p, o) in enumerate(requests)]
    joined, first, last = dict[int, float](), dict[int, float](), dict[int, float]()

    def taken(some: list[dict[str, Any]]) -> int:
        return sum(min(a["prompt"] + a["said"], LONGEST) for a in some)

    while wait or alive:
        if not alive and wait[0]["at"] > now:
            now = wait[0]["at"]
        for one in list(alive):
            while one in alive and taken(alive) > room:
                gone = alive.pop()
                gone["there"] = 0
                wait.insert(0, gone)
        while wait and wait[0]["at"] <= now and len(alive) < slots:
            if taken([*alive, wait[0]]) > room:
                break
            alive.append(wait.pop(0))
            joined.setdefault(alive[-1]["i"], now)
        left = chunk - sum(a["said"] > 0 and a["prompt"] + a["said"] - a["there"] == 1 for a in alive)
        made = []
        for a in alive:
            lacks = a["prompt"] + a["said"] - a["there"]
            decodes = a["said"] > 0 and lacks == 1
            new = 1 if decodes else max(min(lacks, left), 0)
            left -= 0 if decodes else new
            a["there"] += new
            if new:
                made.append(("decode" if decodes else "prefill", new, a["there"]))
        log.append(made)
        now += 0.001 + sum(new * 1e-4 + context * 1e-6 for _, new, context in made)
        for a in list(alive):
            if a["there"] == a["prompt"] + a["said"]:
                a["said"] += 1
                first.setdefault(a["i"], now)
                if a["said"] == a["out"]:
                    last[a["i"]] = now
                    alive.remove(a)
    return log, joined, first, last


REQUESTS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=9)


@settings(max_examples=80, deadline=None)
@given(REQUESTS, st.integers(1, 5), st.integers(30, 100), st.integers(0, 50))
def test_iterations_are_those_of_the_naive_simulation(
    drawn: list[tuple[int, int, int]], slots: int, room: int, more: int
) -> None:
    chunk = slots + more
    requests = [(at / 1000, prompt, output) for at, prompt, output in sorted(drawn)]
    log, joined, first, last = naive(requests, slots, room, chunk)
    seen = list[list[tuple[str, int, int]]]()

    def step(batch: Batch, channel: np.ndarray) -> float:
        seen.append([(at.phase, at.new, at.context) for at in batch.requests])
        return seconds(batch)

    ended, there = list[int](), KvTokens(room)
    done = decode(workload(requests), there, rules(slots, chunk), step, progress=ended.append)
    assert seen == log and all(0 < sum(new for _, new, _ in each) <= chunk for each in seen)
    assert done.tokens.tolist() == [sum(min(context, LONGEST) for *_, context in each) for each in log]
    assert done.requests["start_s"].tolist() == pytest.approx([joined[i] for i in range(len(requests))])
    assert done.requests["first_token_s"].tolist() == pytest.approx([first[i] for i in range(len(requests))])
    assert done.end_s.tolist() == pytest.approx([last[i] for i in range(len(requests))])
    tokens = sum(output for _, _, output in requests)
    assert done.came.sum() == tokens and len(done.gap_s) == tokens - len(requests)
    assert done.tokens_per_s == pytest.approx(tokens / done.time_s) and ended[-1] == len(requests)
    assert there.free_rows().tolist() == [room]
    if not done.preemptions:
        assert sum(new for each in seen for _, new, _ in each) == sum(p + o - 1 for _, p, o in requests)


def test_the_naive_simulation_meets_a_full_memory() -> None:
    log, *_ = naive([(0.0, 15, 12), (0.0, 15, 12)], 2, 35, 64)
    assert ("prefill", 18, 18) in [one for each in log for one in each]  # its prompt and what it had said, once more


def test_the_last_token_of_a_prompt_is_no_decode() -> None:
    seen = list[list[tuple[str, int, int]]]()

    def step(batch: Batch, channel: np.ndarray) -> float:
        seen.append([(at.phase, at.new, at.context) for at in batch.requests])
        return 1.0

    decode(workload([(0, 13, 2)]), KvTokens(100), rules(1, 12), step)
    assert seen == [[("prefill", 12, 12)], [("prefill", 1, 13)], [("decode", 1, 14)]]


def test_a_request_that_yields_in_its_prompt_has_waited_until_it_joined() -> None:
    done = decode(workload([(0, 10, 18), (0, 25, 5)]), KvTokens(42), rules(2, 4), lambda *batch: 1.0)
    assert done.preemptions == 1 and done.requests["start_s"].tolist() == [0, 0]


def test_one_token_of_each_request_has_no_time_between_tokens(tmp_path: Path) -> None:
    once = trace(tmp_path, (0, 20, 1), (0, 9, 1))
    found = pimloom.run("gpu_a100", model="gpt2", layers=1, requests=once, batch=2, chunk=16)
    assert found.token_time_s is None and found.requests_finished == 2
    assert "| `token_time_s` | object or null |" in Path("CONVENTIONS.md").read_text()


def test_a_warm_up_leaves_no_joining_behind() -> None:
    """Who joined in the warm-up and yields after it joins again, but has no time at which it joined."""
    rows = workload([(0, 10, 18)], timed=False)
    done = decode(rows, KvTokens(60), rules(3, 4, kept=True), lambda *batch: 1.0, warm_up=9, iterations=60)
    assert done.preemptions and np.isnan(done.requests["start_s"][:3]).all()


def test_a_batch_kept_alive_computes_its_prompts() -> None:
    """Of each request that ends another one takes the place, whose prompt is computed beside the others' decode."""
    seen = list[Batch]()

    def step(batch: Batch, channel: np.ndarray) -> float:
        seen.append(batch)
        return 1.0

    rows = workload([(0, 9, 3), (0, 30, 5)], timed=False)
    done = decode(rows, KvTokens(10_000), rules(4, 16, kept=True), step, warm_up=40, iterations=60)
    assert len(seen) == 60 and {at.phase for batch in seen for at in batch.requests} == {"prefill", "decode"}
    assert done.tokens_per_s == done.came.sum() / 60


def trace(folder: Path, *requests: tuple[float, int, int]) -> Path:
    lines = ["timestamp,prompt_tokens,output_tokens", *(f"{at},{p},{o}" for at, p, o in requests)]
    (folder / "trace.csv").write_text("\n".join(lines) + "\n")
    return folder / "trace.csv"


@pytest.mark.parametrize("system", ["pim_gpt", "npu_only", "neupims", "gpu_a100", "examples/systems/phone.yaml"])
def test_one_request_is_a_run_from_its_prompt_on(system: str, tmp_path: Path) -> None:
    served = pimloom.run(system, model=NARROW, requests=trace(tmp_path, (0, 20, 4)), batch=1, chunk=8)
    chunk: Any = {} if system == "pim_gpt" else {"chunk": 8}
    alone = pimloom.run(system, model=NARROW, prompt=20, generate=4, **chunk)
    assert served.time_s == pytest.approx(alone.latency_s, rel=1e-9)
    assert served.time_to_first_token_s.mean == pytest.approx(alone.time_to_first_token_s, rel=1e-9)
    assert served.requests_finished == 1 and served.chunk == 8


def test_prompts_beside_decode_take_their_time(tmp_path: Path) -> None:
    many = trace(tmp_path, (0, 300, 6), (0, 200, 9), (0, 5, 3))
    with_prompts = pimloom.run("npu_only", model=NARROW, layers=2, requests=many, batch=2, chunk=128)
    without = pimloom.run("npu_only", model=NARROW, layers=2, requests=many, batch=2, iterations=1000)
    assert with_prompts.requests_finished == without.requests_finished == 3
    assert with_prompts.time_s > without.time_s and with_prompts.spec_digest != without.spec_digest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": 3}, "every=3: does not go with"),
        ({"policy": "min-load"}, "policy=min-load: does not go with"),
        ({"pp": 2}, "pp=2: does not go with"),
        ({"fidelity": "released"}, "fidelity=released: does not go with"),
        ({"chunk": 0}, "chunk=0: expected at least 1"),
        ({"chunk": 3, "batch": 4}, "chunk=3: expected at least the 4 of batch"),
    ],
)
def test_what_does_not_go_with_prompts(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"requests": trace(tmp_path, (0, 9, 3)), "batch": 1, "chunk": 8} | options
    with pytest.raises(pimloom.UserError) as error:
        pimloom.run("neupims", model="gpt3-7b", **asked)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_request_longer_than_the_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pimloom.UserError, match=r"request 1 needs 1,026 positions, gpt2 has 1,024"):
        pimloom.run("npu_only", model="gpt2", requests=trace(tmp_path, (0, 9, 3), (1, 1000, 27)), batch=1, chunk=8)
