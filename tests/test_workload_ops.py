"""Operators of models: every field counts, sums hold, and a layer is what English rules in plain loops say it is."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.llm_quant import Quantization
from pimloom.arch.llm_types import FIXED
from pimloom.arch.routing import Routing
from pimloom.workload.batch import Batch, Request
from pimloom.workload.derive import in_order, layer_ops, ops
from pimloom.workload.need import flops, kv_bytes, kv_bytes_per_token, parameters, weight_bytes
from pimloom.workload.op import KINDS, LINKS, Bits, Op
from pimloom.workload.routing import dealt
from pimloom.workload.shard import Shard
from tests.naive_workload import layer as naive_layer

DENSE = LlmSpec(
    name="dense", model_type="llama", num_hidden_layers=6, hidden_size=64, num_attention_heads=8,
    num_key_value_heads=4, head_dim=16, intermediate_size=96, vocab_size=128, max_position_embeddings=600,
    activation="silu", gated_ffn=True, norm="rmsnorm", attention_bias=False, ffn_bias=False, num_experts=1,
    num_experts_per_tok=1, sliding_window=None, tie_word_embeddings=False, parallel_attention=False,
)  # fmt: skip
WINDOW = msgspec.structs.replace(DENSE, sliding_window=40, attention_bias=True)
PARALLEL = msgspec.structs.replace(DENSE, parallel_attention=True, norm="layernorm")
EXPERTS = msgspec.structs.replace(DENSE, num_experts=4, num_experts_per_tok=2)
MLA = msgspec.structs.replace(
    EXPERTS, num_key_value_heads=8, head_dim=24, rotary_dim=8, kv_lora_rank=32, q_lora_rank=48, v_head_dim=16,
    moe_intermediate_size=32, num_shared_experts=1, dense_layers=(0,), router_bias=True,
)  # fmt: skip
BASES = (DENSE, WINDOW, PARALLEL, EXPERTS, MLA)
BATCH = Batch.decode([100, 7, 41]) + Batch.prefill([50, 3], [0, 90]) + Batch.verify([60], 4)
OTHER: dict[str, list[Any]] = {
    "name": ["other"], "model_type": ["opt", "qwen2"], "activation": ["relu"],
    "norm": ["layernorm", "rmsnorm"], "sliding_window": [33, 5],
    "rotary_dim": [4, 12], "full_attention_layers": [(1,), (0, 5)], "norm_placement": ["post", "both"],
    "qk_norm": ["head", "heads", "whole"], "moe_intermediate_size": [48], "dense_layers": [(1,), (0, 2)],
    "q_lora_rank": [40], "kv_lora_rank": [16], "v_head_dim": [8],
    "quantization": [Quantization("INT8", ((("self_attn.o_proj", 8.0),),), (0,) * 20)],
}  # fmt: skip
WHOLE = Shard()
NO_SAY = {"name": "what it is called", "notes": "sentences about its file"}


def told(llm: LlmSpec, batch: Batch = BATCH, shard: Shard = WHOLE) -> tuple[Op, ...] | str:
    """Its operators, or the sentence that refuses it."""
    try:
        return ops(llm, batch, shard)
    except UserError as error:
        assert "\n" not in str(error)
        return str(error)


def others(field: str, now: Any) -> list[Any]:
    """Other values of a field: listed, or the other truth, or numbers around it."""
    if field in OTHER:
        return [value for value in OTHER[field] if value != now]
    return [not now] if type(now) is bool else [now * 2, now + 1, max(now // 2, 1)] if now else [1, 2]


@settings(max_examples=250, deadline=None)
@given(data=st.data(), field=st.sampled_from([f for f in LlmSpec.__struct_fields__ if f not in NO_SAY]))
def test_a_changed_field_changes_an_operator_or_is_refused(data: st.DataObject, field: str) -> None:
    base = data.draw(st.sampled_from(BASES))
    now = getattr(base, field)
    value = data.draw(st.sampled_from([v for v in others(field, now) if v != now] or [now]))
    changed = msgspec.structs.replace(base, **{field: value})
    if value == now or changed.decisive() == base.decisive():
        return
    if field == "max_position_embeddings" and not changed.learned_positions:
        assert ops(changed, Batch.decode([value])) and "positions" in told(changed, Batch.decode([value + 1]))
    elif field == "model_type" and value == "qwen2" and not base.attention_bias:
        assert told(changed) == told(base)  # qwen2 is llama but for a bias that is not there
    else:
        assert told(changed) != told(base)


@pytest.mark.parametrize("field", LlmSpec.__struct_fields__)
def test_every_field_has_a_model_in_which_it_changes_operators(field: str) -> None:
    """Not only a sentence: in some model it is built."""
    long = Batch.decode([599])
    found = [
        told(msgspec.structs.replace(base, **{field: value}), long)
        for base in (*BASES, msgspec.structs.replace(DENSE, model_type="opt", max_position_embeddings=599))
        for value in others(field, getattr(base, field))
        if field not in NO_SAY and told(msgspec.structs.replace(base, **{field: value}), long) != told(base, long)
    ]
    assert field in NO_SAY or any(not isinstance(each, str) for each in found)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dense_layers": (1,)}, "dense_layers (1,): expected a model with experts"),
        ({"full_attention_layers": (1,)}, "full_attention_layers (1,): expected a model with a window"),
        ({"sliding_window": 9, "full_attention_layers": (6,)}, "layers from 0 to 5"),
        ({"num_shared_experts": 1}, "a model with experts"),
        ({"shared_norm": True}, "a parallel block"),
        ({"v_head_dim": 8}, "a compressed cache"),
        ({"kv_lora_rank": 8, "num_key_value_heads": 8}, "a part of a head is compressed"),
        ({"rotary_dim": 17}, "1 to 16, elements of a head"),
        ({"model_type": "gpt2", "rotary_dim": 8}, "positions of gpt2 are learned"),
        ({"num_experts_per_tok": 2}, "at most 1 experts"),
        ({"max_position_embeddings": 99}, "a context of 100 tokens, the model has 99 positions"),
    ],
)
def test_what_contradicts_itself_is_refused(changed: dict[str, Any], said: str) -> None:
    refused = told(msgspec.structs.replace(DENSE, **changed), Batch.decode([100]))
    assert isinstance(refused, str) and refused.startswith("dense: ") and said in refused


@pytest.mark.parametrize("base", BASES)
def test_training_runs_a_sequence_as_a_prompt_all_of_whose_logits_are_wanted(base: LlmSpec) -> None:
    train, prompt = ops(base, Batch((Request("train", 8, 8, 8),))), ops(base, Batch.prefill([8]))
    names = [[op.name for op in made] for made in (train, prompt)]
    assert names[0] == names[1] and next(op for op in train if op.name == "lm_head").rows == 8
    assert flops(op for op in train if op.layers) == flops(op for op in prompt if op.layers)


# --- batches


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 40), st.integers(0, 60), st.integers(1, 50) | st.none())
def test_causal_attention_counts_every_token(new: int, cached: int, window: int | None) -> None:
    batch = Batch.prefill([new], [cached])
    seen = [set(range(max(0, i + 1 - (window or 10**9)), i + 1)) for i in range(cached, cached + new)]
    assert batch.attended(window) == sum(map(len, seen))
    assert batch.cached(window) == len(set[int]().union(*seen))
    assert batch.kept(window) == min(cached + new, window or 10**9)


def test_a_prompt_in_chunks_does_the_same_attention() -> None:
    for window in (None, 17, 64):
        whole = Batch.prefill([100]).attended(window)
        parts = [Batch.prefill([n], [before], ends=before + n == 100) for before, n in ((0, 30), (30, 1), (31, 69))]
        assert sum(part.attended(window) for part in parts) == whole
        assert [part.logits for part in parts] == [0, 0, 1]


@pytest.mark.parametrize("request_", [(0, 5, 0), (3, 2, 1), (1, 1, 2), (-1, 4, 0)])
def test_impossible_requests(request_: tuple[int, int, int]) -> None:
    with pytest.raises(UserError, match="expected at least one new token"):
        Batch((Request("decode", *request_),))


# --- structure


@pytest.mark.parametrize("base", BASES, ids=lambda b: b.name)
@pytest.mark.parametrize("shard", [Shard(), Shard(tp=2), Shard(pp=3, stage=1), Shard(tp=2, pp=2, stage=1)])
def test_operators_wait_for_earlier_ones_of_their_layer(base: LlmSpec, shard: Shard) -> None:
    made = ops(base, BATCH, shard)
    done: dict[int | None, set[str]] = {}
    for layer, op in in_order(made):
        before = done.setdefault(layer, set())
        assert op.kind in KINDS and op.name not in before and set(op.after) <= before, (layer, op.name, op.after)
        before.add(op.name)
    layers = sorted(layer for layer in done if layer is not None)
    assert layers == list(range(shard.stage * 6 // shard.pp, (shard.stage + 1) * 6 // shard.pp))
    for op in made:
        assert op.flops >= 0 and op.bytes_read > 0 and op.bytes_written > 0 and op.moved.weights >= 0
        assert op.kind in LINKS or op.kind == "embedding" or op.devices == 1


def test_a_parallel_block_saves_a_sum_and_with_one_norm_a_norm() -> None:
    def names(llm: LlmSpec) -> list[str]:
        return [op.name for op in layer_ops(llm, BATCH, Shard(tp=2))]

    serial, shared = (
        msgspec.structs.replace(PARALLEL, **c) for c in ({"parallel_attention": False}, {"shared_norm": True})
    )
    gone = {"self_attn.residual", "self_attn.all_reduce"}
    assert set(names(serial)) - set(names(PARALLEL)) == gone
    assert set(names(PARALLEL)) - set(names(shared)) == {"post_attention_layernorm"}
    by_name = {op.name: op for op in layer_ops(shared, BATCH)}
    assert by_name["mlp.gate_up_proj"].after == by_name["self_attn.qkv_proj"].after == ("input_layernorm",)
    assert by_name["mlp.residual"].terms == 3 and set(by_name["mlp.residual"].after) == {
        "self_attn.o_proj",
        "mlp.down_proj",
    }


def test_a_compressed_cache_is_expanded_for_prompts_and_multiplied_into_q_for_decode() -> None:
    def found(batch: Batch) -> dict[str, Op]:
        return {op.name: op for op in layer_ops(MLA, batch, layer=1)}

    prompt, decode = found(Batch.prefill([10], [20])), found(Batch.decode([30]))
    assert prompt["self_attn.kv_b_proj"].rows == 30 and not prompt["self_attn.score"].from_cache
    assert (prompt["self_attn.score"].head_dim, prompt["self_attn.value"].head_dim) == (24, 16)
    assert (decode["self_attn.score"].head_dim, decode["self_attn.value"].head_dim) == (32 + 8, 32)
    assert decode["self_attn.score"].kv_heads == 1 and decode["self_attn.score"].moved.cache_read == 30 * 40
    keys, values, made = (prompt[f"self_attn.{name}"] for name in ("score", "value", "kv_b_proj"))
    assert made.moved.cache_read + keys.moved.cache_read == 30 * (32 + 8)  # every cached element once
    new = keys.moved.read + values.moved.read - 10 * keys.heads * 24 - values.heads * values.attended  # no Q, no scores
    assert new == made.moved.written
    assert parameters(MLA) == sum(op.parameters * op.times for op in ops(MLA, BATCH))
    assert sum(op.parameters for op in decode.values()) == sum(op.parameters for op in prompt.values())


def test_logits_of_a_batch() -> None:
    head = {op.name: op for op in ops(DENSE, BATCH)}
    assert head["lm_head"].rows == 3 + 2 + 4 and head["embed_tokens"].rows == 3 + 53 + 4
    assert "lm_head" not in {op.name for op in ops(DENSE, Batch.prefill([5], ends=False))}


# --- conservation


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("base", BASES, ids=lambda b: b.name)
def test_shards_of_weights_make_the_whole(base: LlmSpec, tp: int) -> None:
    """What tp devices hold alike counts once, and so do the biases behind row-parallel matrices (none here)."""
    alike = sum(op.parameters * op.times for op in ops(base, BATCH, Shard(tp=tp)) if op.alike)
    own = sum(op.parameters * op.times for op in ops(base, BATCH, Shard(tp=tp)) if not op.alike)
    biases = base.projection_bias * base.hidden_size * base.num_hidden_layers
    assert tp * (own - biases) + biases + alike == parameters(base)


@pytest.mark.parametrize("base", BASES, ids=lambda b: b.name)
def test_stages_and_groups_of_experts_make_the_whole(base: LlmSpec) -> None:
    stages = [parameters(base, Shard(pp=4, stage=i)) for i in range(4)]
    assert sum(stages) == parameters(base)
    for tp in (1, 2):
        whole = sum(op.macs * op.times for op in ops(base, BATCH, Shard(tp=tp)) if op.kind == "gemm")
        parts = [ops(base, BATCH, Shard(tp=tp, pp=4, stage=i)) for i in range(4)]
        assert sum(op.macs * op.times for part in parts for op in part if op.kind == "gemm") == whole
        assert [op.name for part in parts for op in part if op.kind == "send"] == ["send"] * 3
    if base.num_experts > 1:
        ranks = [ops(base, BATCH, Shard(ep=2, rank=i)) for i in range(2)]
        held, whole_ = ([_experts(part) for part in group] for group in (ranks, [ops(base, BATCH)]))
        assert sum(p for p, _ in held) == whole_[0][0] and sum(m for _, m in held) == 2 * whole_[0][1]


@pytest.mark.parametrize("tokens", [1, 3, 50])
@pytest.mark.parametrize("ep", [1, 2, 4, 8])
def test_ranks_hold_their_experts_whoever_is_sent_tokens(tokens: int, ep: int) -> None:
    """Alike shares: the ranks hold as much, and are sent as many tokens, give or take one of each expert."""
    llm = load_llm("tests/models/qwen3-30b-a3b.json")
    batch = Batch.decode([9] * tokens)
    ranks = [ops(llm, batch, Shard(ep=ep, rank=i)) for i in range(ep)]
    whole = _experts(ops(llm, Batch.decode([9]), Shard()))[0]
    assert [_experts(made)[0] for made in ranks] == [whole // ep] * ep
    rows = [sum(op.rows for op in made if op.name == "mlp.experts.down_proj") for made in ranks]
    assert sum(rows) == tokens * ep * llm.num_experts_per_tok
    assert max(rows) - min(rows) <= 1
    idle = [op for made in ranks for op in made if op.kind == "gemm" and not op.rows]
    assert all(op.flops == op.bytes_read == op.bytes_written == 0 for op in idle)


def _experts(made: tuple[Op, ...]) -> tuple[int, int]:
    mine = [op for op in made if op.name.startswith("mlp.experts.") and op.kind == "gemm"]
    return sum(op.parameters * op.times for op in mine), sum(op.macs * op.times for op in mine)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_devices_share_the_work_of_attention(tp: int) -> None:
    whole, part = (
        {op.name: op for op in layer_ops(DENSE, BATCH, Shard(tp=n))} for n in (1, tp)
    )  # fmt: skip
    for name in ("self_attn.score", "self_attn.softmax", "self_attn.value", "mlp.gate_up_proj", "self_attn.o_proj"):
        assert part[name].flops * tp == whole[name].flops
    copies = max(tp // DENSE.num_key_value_heads, 1)  # 8 devices hold each of 4 heads of keys twice
    assert part["self_attn.cache"].moved.cache_written * tp == whole["self_attn.cache"].moved.cache_written * copies


@pytest.mark.parametrize(
    ("shard", "said"),
    [
        (Shard(tp=3), "--tp 3: expected a divisor of the 8 heads (4 of keys) of dense"),
        (Shard(tp=16), "--tp 16: expected a divisor"),
        (Shard(tp=0), "--tp 0: expected a divisor"),
        (Shard(pp=7), "--pp 7: expected 1 to 6, the layers of dense"),
        (Shard(pp=2, stage=2), "stage 2: expected 0 to 1, one of --pp 2"),
        (Shard(ep=2), "--ep 2: expected a divisor of the 1 experts of dense"),
    ],
)
def test_shards_that_do_not_come_out_even(shard: Shard, said: str) -> None:
    with pytest.raises(UserError) as error:
        ops(DENSE, BATCH, shard)
    assert str(error.value).startswith(said)


# --- routing


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 200), st.integers(1, 8), st.integers(0, 24),
    st.floats(0, 4) | st.integers(0, 2**32).map(lambda seed: Random(seed).choices([0] * 30 + [*range(51)], k=32)),
)  # fmt: skip
def test_every_token_goes_to_its_number_of_experts(rows: int, each: int, more: int, how: Any) -> None:
    experts = each + more
    routing = (
        Routing(zipf=how)
        if isinstance(how, float)
        else Routing(counts=tuple(how[:experts]) if any(how[:experts]) else (1,) * experts)
    )
    sent = dealt(rows, each, experts, routing)
    assert len(sent) == experts and sum(sent) == rows * each and all(0 <= n <= rows for n in sent)
    if isinstance(how, float):
        assert list(sent) == sorted(sent, reverse=True)


def test_routing_decides_which_experts_work() -> None:
    counts = Routing(counts=(3, 1, 0, 0))
    (up,) = (
        op
        for op in ops(EXPERTS, Batch.decode([9, 9]), routing=Routing(counts=(2, 2, 0, 0)))
        if op.name == "mlp.experts.gate_up_proj"
    )
    assert (up.each, up.rows, up.held) == ((2, 2), 4, 4) and up.moved.weights == 2 * 64 * 192
    assert dealt(3, 1, 4, counts) == (2, 1, 0, 0) and dealt(4, 1, 4, counts) == (3, 1, 0, 0)
    for wrong in (Routing(counts=(1, 1)),):
        with pytest.raises(UserError, match="counts of 2 experts: expected 4"):
            ops(EXPERTS, BATCH, routing=wrong)
    for arguments in ({"zipf": -1.0}, {"zipf": 17.0}, {"counts": (0, 0)}, {"counts": (1, -1)}):
        with pytest.raises(UserError):
            Routing(**arguments)


# --- literal values, and a layer in plain loops


def test_gpt3_takes_two_operations_a_weight() -> None:
    """GPT-3 (arXiv:2005.14165), table D.1: 174,600 M parameters, and of the forward pass two operations on each."""
    made = ops(load_llm("gpt3-175b"), Batch.decode([1]))
    assert flops(made) == pytest.approx(2 * 174_600e6, rel=5e-3)
    assert parameters(load_llm("gpt3-175b")) == pytest.approx(174_600e6, rel=2e-3)


def test_sizes_of_llama() -> None:
    """8.03 B of BF16 (model card: 16.07 GB); 128 KiB a token: 2 x 8 heads x 128 x 32 layers x 2 bytes."""
    llm = load_llm("llama-3-8b")
    assert weight_bytes(llm) == 16_060_522_496  # model.safetensors.index.json, total_size [recalled]
    assert kv_bytes_per_token(llm) == 131_072
    assert kv_bytes_per_token(llm, Shard(tp=16)) == 131_072 // 8  # eight heads of keys: held twice
    assert kv_bytes(llm, Batch.decode([1000, 24]), bits=Bits(cache=8)) == 1024 * 65_536
    window = msgspec.structs.replace(llm, sliding_window=512, full_attention_layers=tuple(range(0, 32, 2)))
    assert kv_bytes(window, Batch.decode([1000, 24])) == (1024 + 512 + 24) * 65_536


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_layer_is_what_plain_loops_count(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from((DENSE, WINDOW, PARALLEL, EXPERTS)))
    draw = data.draw
    llm = msgspec.structs.replace(
        base, gated_ffn=draw(st.booleans()), ffn_bias=draw(st.booleans()), attention_bias=draw(st.booleans()),
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])), qk_norm=draw(st.sampled_from(["none", "head"])),
        rotary_dim=draw(st.sampled_from([None, 4])), attention_sinks=draw(st.booleans()),
        sliding_window=draw(st.sampled_from([None, 1, 6, 30])), num_key_value_heads=draw(st.sampled_from([1, 2, 8])),
    )  # fmt: skip
    contexts = draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
    new = [draw(st.integers(1, n)) for n in contexts]
    batch = Batch.prefill(new, [c - n for c, n in zip(contexts, new, strict=True)])
    made = layer_ops(llm, batch)
    expected = naive_layer(msgspec.structs.asdict(llm), list(zip(new, contexts, strict=True)))
    found = {
        "macs": sum(op.macs for op in made),
        "weights": sum(op.moved.weights for op in made),
        "parameters": sum(op.parameters for op in made),
        "cache_read": sum(op.moved.cache_read for op in made),
        "cache_written": sum(op.moved.cache_written for op in made),
        "scores": sum(op.moved.written for op in made if op.kind == "score"),
        "rotated": sum(op.moved.written for op in made if op.kind == "rotary"),
        "normed": sum(op.moved.written for op in made if op.kind == "norm"),
        "added": sum(op.flops for op in made if op.kind == "add" and op.function != "weighted"),
        "activated": sum(op.moved.written for op in made if op.kind == "activation"),
    }
    assert found == expected


def test_known_types_have_positions_or_rotations() -> None:
    learned = {kind for kind in FIXED if msgspec.structs.replace(DENSE, model_type=kind).learned_positions}
    assert learned == {"gpt2", "opt"}
