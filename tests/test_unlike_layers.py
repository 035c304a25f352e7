"""Layers that differ: each kind is simulated once, and an iteration is what all of them take."""

import json

import numpy as np
import pytest
from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import RooflineSystem, load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.parallel import serve_on_devices
from pimloom.systems.devices.npu_pim.parts import batch_of
from pimloom.systems.devices.roofline_served import serve_gpu
from tests.command import call

PLAIN = LlmSpec(
    name="plain", model_type="llama", num_hidden_layers=5, hidden_size=256, num_attention_heads=4,
    num_key_value_heads=2, head_dim=64, intermediate_size=256, vocab_size=1000, max_position_embeddings=4096,
    activation="silu", gated_ffn=True, norm="rmsnorm", attention_bias=False, ffn_bias=False, num_experts=1,
    num_experts_per_tok=1, sliding_window=None, tie_word_embeddings=False, parallel_attention=False,
)  # fmt: skip
EXPERTS = replace(PLAIN, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
WIDE = replace(PLAIN, sliding_window=4000, full_attention_layers=(1, 3, 4))  # no window is ever full
TOKENS = np.array([500, 30, 7, 390])
RUNS = [
    ("gpu_a100", 1, 1), ("npu_only", 1, 1), ("npu_pim", 1, 1), ("neupims", 2, 1), ("neupims", 3, 1), ("neupims", 2, 2),
    ("npu_only", 1, 2),
]  # fmt: skip


def served(run, llm, layers=5, tokens=TOKENS):
    name, sub_batches, pp = run
    if name == "gpu_a100":
        return serve_gpu(load_system(name), llm, tokens, tp=1, layers=layers)
    system = load_system(name, {"interleave.sub_batches": str(sub_batches)})
    return serve_on_devices(system, llm, tokens, None, tp=1, pp=pp, layers=layers, fidelity="physical")


@pytest.mark.parametrize("run", RUNS)
def test_kinds_that_take_the_same_are_layers_that_are_equal(run):
    """A window that no context fills: windowed layers and the others do the same work."""
    plain, wide = served(run, PLAIN), served(run, WIDE)
    assert wide.iteration_cyc == plain.iteration_cyc
    for field in ("iteration_energy_j", "power_w", "tokens_per_s", "allreduce_s"):
        assert getattr(wide, field) == (pytest.approx(value) if (value := getattr(plain, field)) is not None else None)
    kinds = wide.layer_kinds
    assert not plain.layer_kinds and "layer_kinds" not in plain.as_dict()
    if run[2] == 1:
        assert len(kinds) == (3 if run[1] > 1 else 2)
        assert wide.stages_cyc == {name: len(kinds) * cyc for name, cyc in plain.stages_cyc.items()}
    if run[1] == 2 and run[2] == 1:  # layers W F W F F: pairs WF, FW and FF; A and B of the first, E and F of the last
        assert [(k.layer, k.next_layer) for k in kinds] == [(0, 1), (1, 0), (1, 1)]
        assert [list(k.runs.values()) for k in kinds] == [[1, 1, 2, 2, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]]


@pytest.mark.parametrize("run", [run for run in RUNS if run[1] == 1 and run[2] == 1])
@pytest.mark.parametrize(
    ("mixed", "kinds"),
    [
        ({"sliding_window": 100, "full_attention_layers": (1, 3, 4)}, [({"sliding_window": 100}, 2), ({}, 3)]),
        ({"sliding_window": 100, "full_attention_layers": (0, 1, 2, 3, 4)}, [({}, 5)]),
    ],
)
def test_an_iteration_is_the_sum_of_its_layers(run, mixed, kinds):
    parts = [(served(run, replace(PLAIN, **changed), 1), n) for changed, n in kinds]
    found = served(run, replace(PLAIN, **mixed))
    assert found.iteration_cyc == sum(n * part.iteration_cyc for part, n in parts)
    assert found.iteration_energy_j == pytest.approx(sum(n * part.iteration_energy_j for part, n in parts))
    assert sum(kind.runs["B"] for kind in found.layer_kinds) == (5 if len(kinds) > 1 else 0)


@pytest.mark.parametrize("run", RUNS[:3])
def test_first_layers_without_experts(run):
    dense, sparse = served(run, PLAIN, 1), served(run, EXPERTS, 1)
    found = served(run, replace(EXPERTS, dense_layers=(0,)))
    assert found.iteration_cyc == dense.iteration_cyc + 4 * sparse.iteration_cyc


@pytest.mark.parametrize("run", [("gpu_a100", 1), ("npu_only", 1), ("neupims", 2)])
def test_devices_answer_the_same(run):
    """A step of the device ends when the iteration does; the spans of its layers follow each other."""
    name, sub_batches = run
    system = load_system(name, {"interleave.sub_batches": str(sub_batches)} if name == "neupims" else {})
    llm = replace(PLAIN, sliding_window=100, full_attention_layers=(1, 3, 4))
    told = served((name, sub_batches, 1), llm)
    ran = device_of(system, llm, Share(1, 5)).step(batch_of(TOKENS.tolist()))
    assert ran.end_ps == told.iteration_cyc * told.clock_ps
    assert max(span.end_ps for span in ran.spans) <= ran.end_ps
    norms = [span for span in ran.spans if span.operator == "norm"]
    assert len(norms) == (10 if isinstance(system.spec, RooflineSystem) or sub_batches == 1 else 2 * 5 + 10)


def test_memory_holds_what_each_layer_keeps():
    """Contexts of 1,000 tokens: two layers of three keep 100 of them, 4 x 64 values of 2 bytes a token."""
    llm = replace(PLAIN, sliding_window=100, full_attention_layers=(1,))
    weights = 3 * 2 * (256 * (4 + 2 + 2 + 4) * 64 + 3 * 256 * 256)
    need = weights + 4 * (1000 + 2 * 100) * 2 * 2 * 64 * 2
    enough, less = (load_system("gpu_a100", {"memory_bytes": str(memory)}) for memory in (need, need - 1))
    assert serve_gpu(enough, llm, np.full(4, 1000), tp=1, layers=3).tokens == 4000
    with pytest.raises(UserError, match=f"needs {need:,} bytes"):
        serve_gpu(less, llm, np.full(4, 1000), tp=1, layers=3)


def test_a_compressed_cache_is_read_once():
    """Decode on the arrays: of each request 96 + 32 elements of a token for all heads, whose first 96 are the values;
    a query and a result of each head."""
    llm = replace(
        PLAIN, num_key_value_heads=4, head_dim=64, rotary_dim=32, kv_lora_rank=96, v_head_dim=48, attention_bias=False
    )
    laid = lay_out(load_system("npu_only"), llm, TOKENS, None, tp=1, layers=1)
    made = {op.name: op for op in laid.layer.builder.operators}
    fused = made["fused_mha"]
    assert sum(size for _, size, _ in fused.loads) == 2 * (sum(TOKENS) * 128 + 4 * 4 * 128)
    assert sum(size for _, size, _ in fused.stores) == 2 * 4 * 4 * 96
    absorbed = made["kv_b_proj_k"]  # of each of 4 heads, 32 x 96 elements and 4 queries
    assert sum(size for _, size, _ in absorbed.loads) == 2 * 4 * (32 * 96 + 4 * 32)
    work = laid.layer.work[fused.index]
    assert work.macs == 4 * sum(TOKENS) * (128 + 96)
    prompt = lay_out(load_system("npu_only"), llm, TOKENS, None, tp=1, layers=1, new=TOKENS)
    made = {op.name: op for op in prompt.layer.builder.operators}
    assert made["kv_b_proj"].stores and "kv_b_proj_k" not in made
    keys = 4 * sum(TOKENS) * (64 + 48)  # expanded, each head its own; queries of 64 elements
    assert sum(size for _, size, _ in made["prompt"].loads) == 2 * (keys + 4 * sum(TOKENS) * 64)


def test_kinds_of_layers_are_printed(tmp_path):
    config = {"model_type": "gemma2", "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 64, "num_hidden_layers": 4, "intermediate_size": 256, "sliding_window": 64}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "r.csv").write_text("seq_len\n100\n64\n5\n")
    done = call("run", "npu_only", "--model", tmp_path, "--requests", tmp_path / "r.csv")
    assert done.code == 0 and "layer 0 and its like" in done.out and "layer 1 and its like" in done.out
    found = json.loads(
        call("run", "npu_only", "--model", tmp_path, "--requests", tmp_path / "r.csv", "--json", "-").out
    )
    assert [kind["runs"] for kind in found["layer_kinds"]] == [{"A": 2, "B": 2, "E": 2}] * 2
    assert found["tokens"] == 169
