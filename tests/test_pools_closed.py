"""Clients in front of pools: each sends its next request when the one before has ended, wherever that was."""

from typing import Any

import pytest

import pimloom

ASKED: dict[str, Any] = {
    "model": "gpt2",
    "layers": 2,
    "lengths": "alpaca",
    "requests": 20,
    "link": "40Gb/s",
    "seed": 4,
}


def served(system: str, scheduler: str, **more: Any) -> Any:
    return pimloom.serve(system, **ASKED | {"arrivals": "closed:5"} | more, scheduler=scheduler)


@pytest.mark.parametrize(
    ("scheduler", "more"),
    [
        ("vllm-v1", {}), ("distserve", {}), ("splitwise", {}), ("splitwise", {"mixed": True}),
        ("vllm-v1", {"transfer": "layers"}), ("splitwise", {"transfer": "layers", "mixed": True}),
    ],
)  # fmt: skip
def test_five_clients_have_five_requests_under_way(scheduler, more):
    found = served("prefill=gpu_a100*2,decode=gpu_a100*2", scheduler, **more)
    sent, done = (found.requests[name].tolist() for name in ("arrival_s", "completion_s"))
    ended = sorted(done)
    assert sent[:5] == [0.0] * 5 and sent[5:] == ended[: len(sent) - 5]  # each at the very time at which one ends
    for at in {*sent, *done}:
        assert sum(a <= at < b for a, b in zip(sent, done, strict=True)) <= 5
    assert (found.requests["output_tokens"] > 0).all() and max(found.requests["time_to_first_token_s"]) > 0


def test_one_client_waits_for_nobody():
    """Its requests follow one another: latencies are those of requests that come one by one."""
    alone = served("prefill=gpu_a100,decode=gpu_a100", "distserve", arrivals="closed:1")
    late = served("prefill=gpu_a100,decode=gpu_a100", "distserve", arrivals="uniform:0.001/s")
    assert alone.requests["latency_s"].tolist() == pytest.approx(late.requests["latency_s"].tolist(), rel=1e-9)
    assert alone.time_s == pytest.approx(sum(late.requests["latency_s"]), rel=1e-9)
