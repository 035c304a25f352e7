"""Steps of models beyond GPT-2's kind, counted by hand: one layer, one token, 8 channels of 16 banks, rows of 1024."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.program import AsicStep, PimStep, Step
from pimloom.arch.system import PimSystem, load_part, load_system
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.asic import latency_cyc
from pimloom.mappers.decode import Decoder
from pimloom.mappers.geometry import geometry
from pimloom.mappers.plan import Plan, max_tokens, plan
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.simulate import simulate
from pimloom.workload.batch import Batch

PART = load_part("gddr6_pim_gpt").value
TABLE, EIGHT = compile_table(PART), geometry(PART, 8)
MODELS = Path(__file__).parent / "models"
LLAMA = msgspec.structs.replace(
    load_llm(MODELS / "llama-3.2-1b.json"), num_hidden_layers=2
)  # 2048, 32 on 8 heads of 64
MIXTRAL = msgspec.structs.replace(
    LLAMA, name="moe", model_type="mixtral", num_experts=8, num_experts_per_tok=2, intermediate_size=1024
)


def changed(llm: LlmSpec = LLAMA, **fields: Any) -> LlmSpec:
    return msgspec.structs.replace(llm, **fields)


def steps(llm: LlmSpec, t: int, layer: int = 0, tokens: int = 300) -> list[Step]:
    return Decoder(plan(llm, EIGHT, tokens), TABLE).layer_steps(t, layer)


def step(llm: LlmSpec, name: str, t: int = 1, layer: int = 0, tokens: int = 300) -> PimStep:
    return next(s for s in steps(llm, t, layer, tokens) if isinstance(s, PimStep) and s.name == name)


def asic(llm: LlmSpec, t: int = 1, layer: int = 0) -> dict[str, tuple[str, int]]:
    return {s.name: (s.op, s.elements) for s in steps(llm, t, layer) if isinstance(s, AsicStep)}


def count(of: PimStep, command: str) -> int:
    return int(of.stream["count"][of.stream["cmd"] == TABLE.cmd(command)].sum())


def test_the_order_of_a_llama_layer() -> None:
    assert [s.name for s in steps(LLAMA, 1)] == [
        "RMSNorm 1", "QKV", "QKV partial sums and bias", "rotary embedding", "K write", "V write", "score", "softmax",
        "p V", "projection", "projection partial sums and residual", "RMSNorm 2", "FFN1", "FFN1 partial sums and bias",
        "activation", "gate", "FFN2", "FFN2 partial sums and residual",
    ]  # fmt: skip


def test_what_the_asic_of_a_llama_layer_does() -> None:
    """2048 wide: two chunks of each product but FFN2's eight (8192 inputs); 40 heads of 64 are rotated."""
    assert asic(LLAMA, 77) == {
        "RMSNorm 1": ("rmsnorm", 2048),
        "QKV partial sums and bias": ("add", 3072),  # (32 + 2 x 8) x 64 outputs, one sum each
        "rotary embedding": ("rotary", 40 * 64),
        "softmax": ("softmax", 32 * 77),
        "projection partial sums and residual": ("add", 2 * 2048),
        "RMSNorm 2": ("rmsnorm", 2048),
        "FFN1 partial sums and bias": ("add", 2 * 8192),
        "activation": ("activation", 8192),
        "gate": ("multiply", 8192),
        "FFN2 partial sums and residual": ("add", 8 * 2048),
    }


@pytest.mark.parametrize(
    ("fields", "name", "expected"),
    [
        ({"attention_bias": True}, "QKV partial sums and bias", ("add", 2 * 3072)),
        ({"attention_bias": True, "model_type": "qwen2"}, "projection partial sums and residual", ("add", 2 * 2048)),
        ({"attention_bias": True}, "projection partial sums and residual", ("add", 3 * 2048)),
        ({"rotary_dim": 16}, "rotary embedding", ("rotary", 40 * 16)),
        ({"qk_norm": "head"}, "RMSNorm of Q", ("rmsnorm", 32 * 64)),
        ({"qk_norm": "heads", "norm": "layernorm"}, "LayerNorm of K", ("layernorm", 8 * 64)),
        ({"qk_norm": "whole"}, "RMSNorm of K", ("rmsnorm", 8 * 64)),
        ({"attn_logit_softcapping": True}, "softcap of scores", ("softcap", 32 * 5)),
        ({"attention_sinks": True}, "softmax", ("softmax", 32 * 6)),
        ({"sliding_window": 3}, "softmax", ("softmax", 32 * 3)),
        ({"sliding_window": 3, "full_attention_layers": (0,)}, "softmax", ("softmax", 32 * 5)),
        ({"norm_placement": "both"}, "RMSNorm behind FFN", ("rmsnorm", 2048)),
        ({"norm_placement": "post"}, "residual", ("add", 2048)),
        ({"parallel_attention": True}, "RMSNorm 2", ("normalise", 2048)),
        ({"parallel_attention": True}, "FFN2 partial sums and residual", ("add", 9 * 2048)),
        ({"gated_ffn": False}, "FFN1 partial sums and bias", ("add", 8192)),
    ],
)
def test_what_a_field_adds(fields: dict[str, Any], name: str, expected: tuple[str, int]) -> None:
    assert asic(changed(**fields), 5)[name] == expected


def test_one_norm_for_both_and_norms_behind_only() -> None:
    assert "RMSNorm 2" not in asic(changed(parallel_attention=True, shared_norm=True))
    behind = asic(changed(norm_placement="post"))
    assert [name for name in behind if "Norm" in name] == ["RMSNorm behind attention", "RMSNorm behind FFN"]
    assert behind["projection partial sums and residual"] == ("add", 2048)


# Query heads that share keys and values.


@pytest.mark.parametrize(
    ("kv_heads", "loads", "opened"),
    [
        (32, 2, 2 * 1),  # 2048 wide: two chunks of a row each; every head by itself
        (16, 2, 2 * 1),  # 1024: one q at a time fills the buffer, two sweeps over one row
        (8, 2, 2 * 1),  # 512: two of four q in a load, two sweeps over half a row
        (4, 2, 2 * 1),  # 256: four of eight
        (1, 2, 2 * 1),  # 64: sixteen of 32
    ],
)
def test_a_score_takes_as_many_macs_as_query_heads_need(kv_heads: int, loads: int, opened: int) -> None:
    """Up to 128 tokens have one slot in each bank: 32 heads of 4 columns, however many of them share K."""
    found = step(changed(num_key_value_heads=kv_heads), "score", 100)
    assert (count(found, "MACab"), count(found, "RDMAC"), count(found, "WRGB")) == (32 * 4, 32, 32 * 4)
    assert (found.stream["cmd"] == TABLE.cmd("WRGB")).sum() == loads
    assert count(found, "ACTab") == opened
    assert (found.sent_values, found.received_values) == (8 * 2048, 32 * 100)


@pytest.mark.parametrize(("t", "loads", "opened"), [(100, 4, 4), (256, 4, 4), (257, 8, 8), (1024, 16, 16)])
def test_a_weighted_sum_opens_a_row_for_as_many_heads_as_the_buffer_takes(t: int, loads: int, opened: int) -> None:
    """512 dimensions of V in four slots; four query heads share: 256 tokens of each fit the buffer together."""
    found = step(LLAMA, "p V", t, tokens=1024)
    columns = -(-t // 16)
    assert (count(found, "MACab"), count(found, "WRGB"), count(found, "RDMAC")) == (16 * columns, 16 * columns, 16)
    assert ((found.stream["cmd"] == TABLE.cmd("WRGB")).sum(), count(found, "ACTab")) == (loads, opened)
    assert (found.sent_values, found.received_values) == (32 * t, 2048)


def test_k_and_v_of_fewer_heads_are_written() -> None:
    written = [step(LLAMA, name) for name in ("K write", "V write")]
    assert [s.sent_values for s in written] == [512, 512]
    assert count(written[0], "WR") == 512 / 16 and count(written[1], "WRAab") == 512 / 128


# Windows.


def test_a_window_keeps_its_tokens_only_in_a_ring() -> None:
    """A window of 200 tokens: two slots of K in a bank for ever; token 201 takes the place of the first."""
    windowed = changed(sliding_window=200, full_attention_layers=(1,))
    made = plan(windowed, EIGHT, 1000)
    assert [(made.layer(i).k.n_out, made.layer(i).v.n_in) for i in (0, 1)] == [(200, 200), (1000, 1000)]
    decoder = Decoder(made, TABLE)

    def stream(t: int, name: str, layer: int) -> Any:
        return next(s for s in decoder.layer_steps(t, layer) if s.name == name).stream.tolist()  # type: ignore[union-attr]

    for name in ("K write", "V write"):
        assert stream(201, name, 0) == stream(1, name, 0) and stream(400, name, 0) == stream(200, name, 0)
        assert stream(201, name, 1) != stream(1, name, 1)
    for name in ("score", "p V"):
        assert stream(201, name, 0) == stream(1000, name, 0) == stream(200, name, 0)
        assert stream(1000, name, 1) != stream(200, name, 1)
    assert decoder.moved_by_baseline(1000, 1) - decoder.moved_by_baseline(1000, 0) == 2 * 512 * 800


def test_any_number_of_tokens_fits_where_all_layers_have_windows() -> None:
    assert Plan(changed(sliding_window=200), EIGHT, 10**9).rows == Plan(changed(sliding_window=200), EIGHT, 200).rows
    assert max_tokens(changed(sliding_window=200, max_position_embeddings=5000), EIGHT) == 4992
    assert max_tokens(changed(sliding_window=200, full_attention_layers=(1,)), EIGHT) > 10**5


def test_layers_of_two_kinds_run_in_their_order() -> None:
    """Gemma 2's: every other layer has a window; a long run is the sum of both, refresh off."""
    times = {}
    for full in ((), (0,), (1,), (0, 1)):
        llm = changed(sliding_window=16, full_attention_layers=full)
        found = simulate(load_system("pim_gpt", {"dram.refresh": "false"}), llm, 140)
        times[full] = found.cycles or 0
    assert times[(0,)] == times[(1,)] and times[()] < times[(0,)] < times[(0, 1)]
    assert times[()] + times[(0, 1)] == 2 * times[(0,)]
    assert plan(changed(sliding_window=16, full_attention_layers=(0,)), EIGHT, 9).runs == ((0, 1), (1, 1))
    assert plan(LLAMA, EIGHT, 9).runs == ((0, 2),)


def test_the_device_steps_through_both_kinds_and_what_stands_before_them() -> None:
    """As the whole run, refresh on: its steps follow one another, from the scaled embedding to the capped logits."""
    llm = changed(
        sliding_window=3, full_attention_layers=(1,), scaled_embedding=True, final_logit_softcapping=True,
        vocab_size=1000,
    )  # fmt: skip
    system = load_system("pim_gpt", {"workload.lm_head": "true"})
    device = device_of(system, llm, Share(1, llm.num_hidden_layers, tokens=9))
    found = [device.step(Batch.decode([t])) for t in range(1, 10)]
    whole = simulate(system, llm, 9)
    assert sum(step.end_ps for step in found) == pytest.approx(whole.latency_s * 1e12, abs=1)
    names = [span.operator for span in found[-1].spans]
    assert names[0] == "scaled embedding" and names[-1] == "softcap of logits" and names.count("score") == 2
    seen = [span.end_ps - span.start_ps for span in found[-1].spans if span.operator == "softmax"]
    assert seen == [1000, 3000]  # 32 x 3 elements on 128 lanes, 32 x 9


# Experts.


def test_only_the_chosen_experts_products_run() -> None:
    """Two of eight: 2 x 2048 x 2048 and 2 x 1024 x 2048 weights, and the router's 2048 x 8."""
    found = [s for s in steps(MIXTRAL, 1) if "FFN" in s.name and isinstance(s, PimStep) or s.name == "router"]
    assert [s.name for s in found] == ["router", *["expert FFN1"] * 2, *["expert FFN2"] * 2]
    macs = [count(s, "MACab") for s in found if isinstance(s, PimStep)]
    assert macs == [2048 // 16, *[2048 // 128 * 2048 // 16] * 2, *[2048 // 128 * 1024 // 16] * 2]
    others = asic(MIXTRAL)
    assert others["choice of experts"] == ("choose", 8) and others["softmax of experts"] == ("softmax", 2)
    assert others["expert FFN1 partial sums and bias"] == ("add", 2 * 2048)
    assert others["activation"] == ("activation", 2 * 1024) and others["gate"] == ("multiply", 2 * 1024)
    assert others["weights of experts"] == ("multiply", 2 * 2048) and others["sum of experts"] == ("add", 2048)
    assert others["residual"] == ("add", 2048)


def test_all_experts_take_room() -> None:
    rows = [plan(changed(MIXTRAL, num_experts=n), EIGHT, 1).layer().rows for n in (8, 9)]
    assert rows[1] - rows[0] == 2 * 16 + 16  # 2048 x 2048 and 1024 x 2048 over 128 banks of rows of 1024


def test_dense_layers_and_shared_experts() -> None:
    llm = changed(MIXTRAL, dense_layers=(0,), num_shared_experts=3, moe_intermediate_size=512, router_bias=True)
    assert "router" not in [s.name for s in steps(llm, 1)] and "FFN1" in [s.name for s in steps(llm, 1)]
    others = asic(llm, layer=1)
    assert others["router partial sums and bias"] == ("add", 2 * 8)
    assert others["shared FFN1 partial sums and bias"] == ("add", 2 * 3 * 512)
    assert others["weights of experts"] == ("multiply", 3 * 2048) and others["sum of experts"] == ("add", 2 * 2048)


@pytest.mark.parametrize(
    "fields",
    [
        {"sliding_window": 5, "full_attention_layers": (1,), "norm_placement": "both", "qk_norm": "head"},
        {"num_key_value_heads": 1, "parallel_attention": True, "attn_logit_softcapping": True, "head_dim": 96},
        {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 48, "num_shared_experts": 1},
    ],
)
def test_whole_runs_are_legal_and_add_up(fields: dict[str, Any]) -> None:
    """The monitor looks at every trace, `check_conservation` at every count."""
    system = load_system("pim_gpt", {"workload.lm_head": "true", "dram.channels": "9"})
    found = simulate(system, changed(vocab_size=1000, intermediate_size=700, **fields), 9, check=True)
    assert found.energy_j and found.max_tokens and found.row_hit_rate and 0.5 < found.row_hit_rate < 1


# Before and behind the layers.


def test_a_scaled_embedding_and_soft_capped_logits() -> None:
    llm = changed(scaled_embedding=True, final_logit_softcapping=True)
    decoder = Decoder(plan(llm, EIGHT, 9, lm_head=True), TABLE)
    assert decoder.first_steps == [AsicStep("scaled embedding", "multiply", 2048)]
    assert [s.name for s in decoder.last_steps] == [
        "final RMSNorm",
        "LM head",
        "LM head partial sums",
        "softcap of logits",
    ]
    assert decoder.last_steps[-1] == AsicStep("softcap of logits", "softcap", llm.vocab_size)
    without = Decoder(plan(llm, EIGHT, 9), TABLE)
    assert not without.first_steps and not without.last_steps
    assert not Decoder(plan(LLAMA, EIGHT, 9), TABLE).first_steps


# Latencies.


@pytest.mark.parametrize(
    ("step", "fill", "cycles"),
    [
        (AsicStep("", "rmsnorm", 300), 0, 2 * 3),
        (AsicStep("", "rmsnorm", 300), 9, 2 * 3 + 9),
        (AsicStep("", "layernorm", 300), 9, 3 * 3 + 9),
        (AsicStep("", "normalise", 300), 9, 3 + 9),
        (AsicStep("", "activation", 300), 9, 3 + 9),
        (AsicStep("", "softcap", 300), 9, 3 + 9),
        (AsicStep("", "multiply", 300), 9, 3),
        (AsicStep("", "rotary", 300), 9, 5),  # 600 products on 128 multipliers, 300 sums on 256 adders
        (AsicStep("", "choose", 300, 8), 9, 8 * 3),
        (AsicStep("", "add", 300), 9, 2),
    ],
)
def test_clocks_of_the_asic(step: AsicStep, fill: int, cycles: int) -> None:
    system = load_system("pim_gpt", {"npu.fill_cyc": str(fill)}).spec
    assert isinstance(system, PimSystem) and latency_cyc(system.npu, step) == cycles


def test_few_adders_and_single_passes() -> None:
    system = load_system("pim_gpt", {"npu.adders": "16", "npu.layernorm_passes": "1"}).spec
    assert isinstance(system, PimSystem)
    assert latency_cyc(system.npu, AsicStep("", "rotary", 300)) == 19
    assert latency_cyc(system.npu, AsicStep("", "rmsnorm", 300)) == 3
