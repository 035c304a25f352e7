"""Room for keys and values of models in which layers have a window: what is kept, in blocks, under each manager."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.mappers.kv_pages import KvTokens
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.workload.need import Windowed, windowed

MODELS = Path(__file__).parent / "models"
GEMMA = {  # Gemma-3-27B: of 62 layers each sixth sees everything, the others 1,024 tokens
    "model_type": "gemma3_text", "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "vocab_size": 262208,
    "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16, "sliding_window": 1024,
    "sliding_window_pattern": 6, "max_position_embeddings": 131072,
}  # fmt: skip


@pytest.fixture
def gemma(tmp_path: Path) -> str:
    (tmp_path / "gemma.json").write_text(json.dumps(GEMMA))
    return str(tmp_path / "gemma.json")


def kept(full: int, windowed: int, window: int, size: int, tokens: int) -> int:
    """Blocks of each layer, one by one: of its window those that any place of the window may lie in."""
    blocks = -(-tokens // size)
    most = max(len({place // size for place in range(at, at + window)}) for at in range(size))
    return full * blocks + windowed * min(blocks, most)


windows = st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(2, 40))


@given(windows, st.integers(1, 17), st.integers(0, 300))
def test_units_are_the_blocks_of_each_layer(window, size, tokens):
    full, some, seen = window
    pool = Blocks(1000, size, Windowed(full, some, seen, Fraction(full + some)))
    assert pool.cost(pool.of(tokens)) == kept(full, some, seen, size, tokens)
    assert pool.units == 1000 * (full + some)


@given(windows, st.integers(1, 17), st.integers(0, 60), st.integers(0, 400))
def test_room_is_the_most_blocks_that_fit(window, size, held, free):
    full, some, seen = window
    pool = Blocks(1000, size, Windowed(full, some, seen, Fraction(full + some)))
    most = max(k for k in range(500) if pool.cost(held + k) - pool.cost(held) <= free)
    assert min(pool.more(held, free), 499) == most


def test_managers_by_hand(gemma: str) -> None:
    """10 layers that see all and 52 with a window: 5 to 26; vLLM makes groups of 10, the last of which is padded."""
    model, mistral = load_llm(gemma), load_llm(MODELS / "mistral-7b-v0.1.json")
    assert windowed(model, 62) == Windowed(5, 26, 1024, Fraction(31))
    assert windowed(model, 62, "hybrid") == Windowed(1, 6, 1024, Fraction(62, 10))
    assert windowed(model, 62, "uniform") is None and windowed(load_llm("gpt2"), 12) is None
    for manager in ("by-layer", "uniform"):
        assert windowed(mistral, 32, manager) == Windowed(0, 1, 4096, Fraction(1))
    sinks = load_llm(MODELS / "gpt-oss-20b.json")  # each second layer: two groups of half the layers
    assert windowed(sinks, sinks.num_hidden_layers, "hybrid") == windowed(sinks, sinks.num_hidden_layers)


def test_a_burst_that_fits_runs_without_preemption(gemma: str) -> None:
    """8 requests of 32,064 tokens: 10 layers keep all of them, 52 keep 65 blocks of 16. They fit beside the weights of
    an H100, as `compare` has it; a cache that keeps everything in all layers has room for one and a half."""
    asked: dict[str, Any] = {"model": gemma, "arrivals": "burst", "requests": 8, "lengths": "32000:64"}
    found = pimloom.serve("gpu_h100", **asked)
    assert found.preemptions == 0
    compared = pimloom.compare(["gpu_h100"], model=gemma, prompt=32000, generate=64, batch=8, every=63)
    (row,) = compared.systems
    assert row.latency_s is not None and row.latency_s < 20
    assert found.time_s == pytest.approx(17.0, rel=0.1)
    uniform = pimloom.serve("gpu_h100", **asked, kv_manager="uniform")
    hybrid = pimloom.serve("gpu_h100", **asked, kv_manager="hybrid")
    assert uniform.preemptions > 20 and uniform.time_s > 3 * found.time_s and hybrid.preemptions == 0
    assert len({found.spec_digest, uniform.spec_digest, hybrid.spec_digest}) == 3
    assert hybrid.blocks_used_most > found.blocks_used_most


def test_a_request_of_a_window_alone_takes_the_window() -> None:
    """Mistral 0.1, all layers with 4,096 tokens: 4,095 of them reach into 257 blocks of 16 at most."""
    found = pimloom.serve(
        "gpu_a100", model=str(MODELS / "mistral-7b-v0.1.json"), arrivals="burst", requests=1, lengths="16000:16"
    )
    assert found.blocks_used_most == 257


@pytest.mark.parametrize("scheduler", ["vllm-v1", "vllm-v0", "sarathi", "lightllm", "orca"])
def test_more_requests_of_a_window_run_at_once(scheduler: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(GEMMA | {"max_position_embeddings": 4096, "num_hidden_layers": 12}))
    asked: dict[str, Any] = {"arrivals": "burst", "requests": 9, "lengths": "3000:60", "blocks": 800}
    asked["model"] = str(tmp_path / "m.json")
    asked |= {"scheduler": scheduler} | ({} if scheduler != "vllm-v1" else {"num_preallocate_tokens": 0})
    found, uniform = (pimloom.serve("gpu_h100", **asked, kv_manager=name) for name in ("by-layer", "uniform"))
    assert max(found.iterations["requests"]) > max(uniform.iterations["requests"])
    assert found.preemptions <= uniform.preemptions and found.time_s <= uniform.time_s


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kv_manager": "none"}, "kv_manager=none: expected one of by-layer, hybrid, uniform"),
        ({"model": "gpt2", "kv_manager": "hybrid"}, "gpt2 has no layers with a window beside others; leave it out"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str, gemma: str) -> None:
    with pytest.raises(UserError, match=said):
        asked: dict[str, Any] = {"model": gemma, "arrivals": "burst", "requests": 1, "lengths": "8:3"}
        pimloom.serve("gpu_h100", **asked | options)


@given(windows, st.lists(st.integers(0, 100), min_size=1, max_size=6))
def test_caches_of_a_batch_keep_what_layers_see(window, contexts):
    """Token by token, as `run` with a workload has them."""
    full, some, seen = window
    room, found = KvTokens(1000, Windowed(full, some, seen, Fraction(full + some))), 0
    for request, tokens in enumerate(contexts):
        assert room.grow(request, 0, tokens)
        found += full * tokens + some * min(tokens, seen)
    assert room.rows_of_channel - room.free_rows()[0] == found
    for request in range(len(contexts)):
        room.release(request)
    assert room.free_rows()[0] == room.rows_of_channel == int(np.int64(1000) * (full + some))
