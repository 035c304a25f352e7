"""Every field of a model decides what serving a batch of it takes, or there is a reason why it cannot."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import load_system
from pimloom.sweeping.point.decode import decode
from pimloom.sweeping.point.workload import work_of
from pimloom.systems.devices.npu_pim.gpu import layer_work
from pimloom.systems.devices.npu_pim.share import weight_bytes
from pimloom.systems.devices.npu_pim.work import gemm_work
from pimloom.systems.serving.decoding import decode_iterations
from pimloom.systems.serving.machine import Batch, Plan, machine_of
from pimloom.systems.serving.workload import Workload
from tests.command import call
from tests.slow import slow

SYSTEMS = ("neupims", "npu_pim", "npu_only", "gpu_a100")
TINY = LlmSpec(
    name="tiny", model_type="llama", num_hidden_layers=4, hidden_size=256, num_attention_heads=4,
    num_key_value_heads=2, head_dim=128, intermediate_size=256, vocab_size=32000, max_position_embeddings=600,
    activation="silu", gated_ffn=True, norm="layernorm", attention_bias=True, ffn_bias=True, num_experts=4,
    num_experts_per_tok=2, sliding_window=400, tie_word_embeddings=False, parallel_attention=False,
)  # fmt: skip
NARROW = replace(TINY, hidden_size=128, intermediate_size=128, head_dim=64)
WIDER = replace(TINY, hidden_size=512, intermediate_size=1024)  # of which a GPU needs a nanosecond for biases
CHANGED = {
    "name": "other", "model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 512, "vocab_size": 50000,
    "max_position_embeddings": 300, "activation": "gelu", "gated_ffn": False, "norm": "rmsnorm",
    "attention_bias": False, "ffn_bias": False, "num_experts": 2, "num_experts_per_tok": 3, "sliding_window": 200,
    "tie_word_embeddings": True, "parallel_attention": True,
}  # fmt: skip
CHANGED |= {"notes": ("a sentence",), "rotary_dim": 32, "scaled_embedding": True, "final_logit_softcapping": True}
MLA = replace(
    NARROW, num_key_value_heads=4, head_dim=96, rotary_dim=32, sliding_window=None, kv_lora_rank=128, v_head_dim=64
)  # fmt: skip
PARALLEL = replace(NARROW, parallel_attention=True)
NEWER_VALUES: dict[str, Any] = {  # a model in which the field can be, and other values of it
    "full_attention_layers": (NARROW, (1,), (0, 1)), "norm_placement": (NARROW, "post", "both"),
    "shared_norm": (PARALLEL, True), "qk_norm": (NARROW, "head", "whole"), "attn_logit_softcapping": (NARROW, True),
    "attention_sinks": (NARROW, True), "moe_intermediate_size": (NARROW, 256), "num_shared_experts": (NARROW, 1, 2),
    "dense_layers": (NARROW, (0,), (0, 1)), "router_bias": (NARROW, True), "q_lora_rank": (MLA, 256),
    "kv_lora_rank": (MLA, 256), "v_head_dim": (MLA, 128, None),
}  # fmt: skip
ELSEWHERE = {*NEWER_VALUES, "quantization"}  # NPUs refuse it, rooflines: tests/test_quantised_checkpoints.py
WITHOUT_EFFECT = {
    "notes": "sentences for a person",
    "vocab_size": "neither embeddings nor the LM head are run",
    "tie_word_embeddings": "neither embeddings nor the LM head are run",
    "activation": "every function is one pass over its vector",
    "scaled_embedding": "neither embeddings nor the LM head are run",
    "final_logit_softcapping": "neither embeddings nor the LM head are run",
}
ON_A_ROOFLINE = {
    "norm": "both kinds move the same bytes, and their few operations do not count",
    "attn_logit_softcapping": "scores stay on the chip, and their few operations do not count",
}
PLAN = Plan(batch=4, iterations=3, every=1, policy="min-load", seed=0, tp=1, pp=1, layers=2, fidelity="physical")


@cache
def served(system, llm, tokens=(500, 30, 390), plan=PLAN):
    channel = np.arange(len(tokens), dtype=np.int64)
    machine = machine_of(load_system(system), llm, plan)
    return machine.simulate(Batch(np.array(tokens), channel)).as_dict()


def told(found):
    """A result without what names its inputs as a whole."""
    return {key: value for key, value in found.items() if key not in ("spec_digest", "version")}


@pytest.mark.parametrize("system", [slow(name) if name in ("npu_pim", "npu_only") else name for name in SYSTEMS])
@pytest.mark.parametrize("field", [f for f in LlmSpec.__struct_fields__ if f not in ELSEWHERE])
def test_every_field_counts(system, field):
    base = WIDER if system == "gpu_a100" else NARROW
    assert CHANGED[field] != getattr(base, field)
    changed = replace(base, **{field: CHANGED[field]})
    without = WITHOUT_EFFECT | (ON_A_ROOFLINE if system == "gpu_a100" else {})
    plan = PLAN._replace(layers=changed.num_hidden_layers // 2 if field == "num_hidden_layers" else 2)
    if field == "max_position_embeddings":  # decides how far requests grow
        here, there = (many(system, llm) for llm in (base, changed))
    else:
        here, there = served(system, base), served(system, changed, plan=plan)
    assert (told(here) == told(there)) == (field in without)


@pytest.mark.parametrize("system", ["npu_pim", "npu_only", "gpu_a100"])
@pytest.mark.parametrize("field", NEWER_VALUES)
def test_every_field_of_newer_models_counts(system, field):
    base, *values = NEWER_VALUES[field]
    if base is MLA and system not in ("npu_only", "gpu_a100"):
        with pytest.raises(UserError, match="^tiny: PIM finds keys in rows of their own .*; npu_only and rooflines"):
            served(system, base)
        return
    found = [taken(system, base)]
    for value in values:
        other = taken(system, replace(base, **{field: value}))
        if field in ON_A_ROOFLINE and system == "gpu_a100":
            assert other == found[0]
        else:
            assert other not in (found[:1] if system == "gpu_a100" else found)  # norms of heads move as many bytes
        found.append(other)


@cache
def taken(system, llm, tokens=(500, 30, 390)):
    """What two layers of a batch take; of a GPU before it is rounded to nanoseconds."""
    if system == "gpu_a100":
        return [list(layer_work(llm, 1, tokens, layer=layer)) for layer in (0, 1)]
    return told(served(system, llm, tokens))


@cache
def many(system, llm):
    """Iterations of requests that grow to 310 tokens."""
    requests = np.full(2, 299), np.full(2, 12)
    workload = Workload("grown", np.zeros(2), *requests, True, "")
    done, _ = decode_iterations(load_system(system), llm, workload, PLAN)
    return {"tokens": done.tokens.tolist(), "seconds": done.seconds.tolist()}


@pytest.mark.parametrize(("system", "pp"), [*((s, 1) for s in SYSTEMS), *((s, 2) for s in SYSTEMS[:3])])
def test_a_window_cuts_contexts_to_it(system, pp):
    """Contexts of 500 and 401 to a window of 400 are contexts of 400; one of 399 is not."""
    plan, open_ended = PLAN._replace(pp=pp), replace(NARROW, sliding_window=None)
    cut = served(system, NARROW, (500, 401, 400, 399), plan)
    assert told(cut) == told(served(system, open_ended, (400, 400, 400, 399), plan))
    assert cut["tokens"] == 1599
    assert cut["total_cyc"] != served(system, open_ended, (500, 401, 400, 399), plan)["total_cyc"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_window_caps_the_contexts_of_iterations(system):
    """Requests of 299 to 301 tokens with a window of 300; without it the third iteration sees 2 x 301."""
    assert many(system, replace(NARROW, sliding_window=300))["tokens"] == [2 * 299, 2 * 300, 2 * 300]
    assert many(system, replace(NARROW, sliding_window=None))["tokens"] == [2 * 299, 2 * 300, 2 * 301]


def test_a_window_makes_room():
    """Memory for four requests of 400 tokens, 2 x 2 x 128 elements of 2 bytes in each of 2 layers."""
    gpu = {"memory_bytes": str(weight_bytes(TINY, 1, 2, 16) + 4 * 400 * 2 * 2 * 128 * 2 * 2)}
    system, tokens = load_system("gpu_a100", gpu), np.array([5000, 600, 401, 400])
    machine = machine_of(system, TINY, PLAN)
    assert machine.simulate(Batch(tokens, tokens * 0)).tokens == 1600
    assert machine.room().rows_of_channel == 1600
    with pytest.raises(UserError, match="at most 1,600 tokens fit"):
        machine_of(system, replace(TINY, sliding_window=401), PLAN).simulate(Batch(tokens, tokens * 0))


def test_a_growing_context_of_a_sweep_bends_at_the_window():
    """Contexts 1 to 400 with a window of 100: (1 + ... + 100 + 300 x 100) / 400 tokens, and time stops growing."""
    llm, gpu = replace(TINY, sliding_window=100), load_system("gpu_a100", {"memory_gb_s": "0.001"})
    works = [work_of({"model": "m", "generate": 400, "every": n}) for n in (399, 1)]
    coarse, fine = (decode(gpu, llm, work, None, 0)[0] for work in works)
    assert fine["context_mean"] == coarse["context_mean"] == (5050 + 30000) / 400
    assert coarse["latency_s"] == pytest.approx(fine["latency_s"], rel=1e-6)


@pytest.mark.parametrize(
    ("model_type", "attention", "ffn", "qkv", "projection", "two"),
    [
        ("llama", True, True, 1024, 256, 2 * 256 + 256),
        ("qwen2", True, True, 1024, 0, 2 * 256 + 256),
        ("llama", False, True, 0, 0, 2 * 256 + 256),
        ("llama", True, False, 1024, 256, 0),
    ],
)
def test_biases_are_bytes(model_type, attention, ffn, qkv, projection, two):
    """Q, K and V are 512 + 2 x 256 wide, the output 256, the gated FFN 2 x 256 and 256; Qwen2 has none behind PV."""
    llm = replace(TINY, model_type=model_type, attention_bias=attention, ffn_bias=ffn, num_experts=1)
    llm = replace(llm, num_experts_per_tok=1)
    bare = replace(llm, attention_bias=False, ffn_bias=False)
    more = {
        one.name: one.elements - other.elements
        for one, other in zip(layer_work(llm, 1, (20, 20, 10)), layer_work(bare, 1, (20, 20, 10)), strict=True)
        if one.elements != other.elements
    }
    assert more == {
        name: n for name, n in {"qkv": qkv, "projection": projection, "ffn1": 512, "ffn2": 256}.items()
        if n and (two or not name.startswith("ffn"))
    }  # fmt: skip
    assert weight_bytes(llm, 1, 3, 16) - weight_bytes(bare, 1, 3, 16) == 2 * 3 * (qkv + projection + two)


def test_npus_load_biases():
    """The lines of 64 bytes that biases take: reads of a layer without them are fewer by just these."""
    llm = replace(TINY, num_experts=1, num_experts_per_tok=1)
    bare = replace(llm, attention_bias=False, ffn_bias=False)
    some, none = served("npu_only", llm), served("npu_only", bare)
    assert some["commands"]["RD"] - none["commands"]["RD"] == 2 * (1024 + 256 + 512 + 256) // 64
    first, second = (gemm_work(5, 300, 100, 128, 2, biased=biased).pad_bytes for biased in (True, False))
    assert first - second == 2 * (100 + 5 * 100)  # it arrives, and each of 5 rows reads it


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_parallel_block_adds_once(system):
    """Input, attention and FFN are added in one go, and devices add up their parts of both together."""
    plan = PLAN._replace(tp=2)
    serial, parallel = (served(system, replace(TINY, parallel_attention=p), plan=plan) for p in (False, True))
    adds = [[name for name in found["operators_cyc"] if "residual" in name] for found in (serial, parallel)]
    assert len(adds[0]) == 2 * len(adds[1])
    norms = [[name for name in found["operators_cyc"] if "norm" in name] for found in (serial, parallel)]
    assert norms[0] == norms[1]
    assert parallel["link_bytes"] * 2 == serial["link_bytes"]
    assert parallel["allreduce_s"] * 2 == pytest.approx(serial["allreduce_s"])


def test_a_sum_of_three_moves_four_blocks():
    work = {p: list(layer_work(replace(TINY, parallel_attention=p), 1, (20, 20, 10))) for p in (False, True)}
    moved = {p: [w.elements for w in each if w.name == "residual"] for p, each in work.items()}
    assert moved == {False: [3 * 3 * 256] * 2, True: [4 * 3 * 256]}


def test_the_window_is_said(tmp_path):
    """A list with longer contexts: a note on stderr, and the result counts what is attended to."""
    shape = {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2}
    config = {"model_type": "mistral", **shape, "intermediate_size": 1024, "sliding_window": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "r.csv").write_text("seq_len\n100\n64\n5\n")
    done = call("run", "gpu_a100", "--model", tmp_path, "--requests", tmp_path / "r.csv", "--json", "-")
    said = "attends to the last 64 tokens; of longer contexts only those are simulated"
    assert (done.code, done.err) == (0, f"pimloom: note: {tmp_path.name} {said}\n")
    assert json.loads(done.out)["tokens"] == 64 + 64 + 5


def test_a_gpu_reads_the_rotated_part_of_compressed_keys_once_for_all_heads() -> None:
    """DeepSeek-V3, a prompt of 2,048: 128 heads with keys of 128 + 64 elements, the 64 in common, and values of 128."""
    llm = load_llm(str(Path(__file__).parent / "models" / "deepseek-v3.json"))
    attention = next(each for each in layer_work(llm, 1, [2048], [2048]) if each.name == "fused_mha")
    keys, queries, values = 2048 * (128 * 128 + 64), 2048 * 128 * 192, 2048 * 128 * 128
    assert attention.elements == keys + queries + 2 * values  # what comes out is as large as the values
