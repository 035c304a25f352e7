"""A training step, its memory and the search, against the specification's formulas, known values and brute force."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from pimloom.arch.fabric_cost import Hbd
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.training import Job, Split, load_training
from pimloom.cycle_sim.schedule import is_regular
from pimloom.cycle_sim.training import Step, memory_bytes, sequence_flops, step
from pimloom.mappers.training import Cost, best, splits
from pimloom.workload.need import weights
from tests.naive_pipeline import busiest_link
from tests.naive_training import LLAMA, Shape
from tests.naive_training import step as naive_step

H100 = load_training("h100").value
LLAMA_405B = load_llm("llama-3.1-405b")
RING = Hbd("infinitehbd-k2", 800, None, "ring")
SWITCH = Hbd("dgx8", 450, 8, "switch")
MIXTRAL = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mixtral",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
}
SIZES = st.sampled_from([1, 2, 4, 8])


@pytest.fixture
def mixtral(tmp_path: Path) -> LlmSpec:
    file = tmp_path / "mixtral.json"
    file.write_text(json.dumps(MIXTRAL))
    return load_llm(file)


def dense(shape: Shape) -> LlmSpec:
    return changed(
        LLAMA_405B,
        num_hidden_layers=shape.layers,
        hidden_size=shape.h,
        intermediate_size=shape.ffn,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv,
        head_dim=shape.h // shape.heads,
        vocab_size=shape.vocabulary,
    )


# Formulas


def test_flops_and_weights_of_llama() -> None:
    layer = 2 * 16384**2 + 2 * 16384**2 * 8 // 128 + 3 * 16384 * 53248
    of = weights(LLAMA_405B)
    assert (of.dense, of.experts, of.embedding) == (126 * layer, 0, 2 * 128256 * 16384)
    assert of.total == pytest.approx(405.8e9, rel=1e-3)
    flops = 3 * (2 * of.total * 8192 - 2 * 128256 * 16384 * 8192 + 126 * 4 * 8192**2 * 16384 / 2)
    assert sum(sequence_flops(LLAMA_405B, 8192)) == pytest.approx(flops, rel=1e-12)


def test_a_tied_table_counts_once_and_a_window_limits_attention() -> None:
    tied = changed(LLAMA_405B, tie_word_embeddings=True)
    assert weights(tied).embedding == weights(LLAMA_405B).embedding // 2
    assert sequence_flops(tied, 8192) == sequence_flops(LLAMA_405B, 8192)  # the output matrix works either way
    window = changed(LLAMA_405B, sliding_window=512)
    rest = 3 * 2 * (weights(window).dense + 128256 * 16384)
    seen = sum(min(i + 0.5, 512) for i in range(8192))  # the token itself counts half, as s² / 2 has it
    assert sequence_flops(window, 8192)[0] - rest * 8192 == pytest.approx(3 * 4 * 126 * seen * 16384, rel=1e-4)


def test_flops_of_a_compressed_cache_and_shared_experts() -> None:
    """DeepSeek-V2-Lite by hand: 27 layers, the first of them dense; two of 66 experts take all tokens, 6 of 64 each."""
    model = load_llm(Path(__file__).parent / "models/deepseek-v2-lite.json")
    h, tokens = 2048, 4096
    attention = h * 16 * 192 + h * (512 + 64) + 512 * 16 * (128 + 128) + 16 * 128 * h
    expert, first, router = 3 * h * 1408, 3 * h * 10944, 64 * h
    of = weights(model)
    assert of.dense == 27 * attention + first + 26 * (router + 2 * expert)
    assert (of.experts, of.output, of.embedding) == (26 * 64 * expert, 102400 * h, 2 * 102400 * h)
    scores = 27 * 16 * (192 + 128) * tokens**2 // 2
    dense, experts = sequence_flops(model, tokens)
    assert dense == 6 * ((of.dense + of.output) * tokens + scores)
    assert experts == 6 * 26 * 6 * expert * tokens
    done = step(Job(model, H100, RING, 16, 64), Split(4, 1, 4, 4))
    assert 0 < done.mfu < 1
    every = step(Job(changed(model, dense_layers=()), H100, RING, 16, 64), Split(4, 1, 4, 4))
    assert done.all_to_all_s == pytest.approx(every.all_to_all_s * 26 / 27)


@given(
    st.builds(
        Shape, st.integers(1, 6), st.sampled_from([1024, 2048]), st.integers(256, 9999), st.just(16), SIZES, SIZES
    ),
    st.tuples(SIZES, SIZES.filter(lambda pp: pp > 1), SIZES),
    st.tuples(SIZES, SIZES),
    st.floats(1, 5000),
)
def test_a_step_is_the_specifications(
    shape: Shape, sizes: tuple[int, int, int], work: tuple[int, int], hbd: float
) -> None:
    (tp, pp, dp), (m, b) = sizes, work
    shape = shape._replace(layers=shape.layers * pp)
    job = Job(dense(shape), H100, replace(RING, gb_s=hbd), tp * pp * dp, dp * m * b)
    done = step(job, Split(tp, pp, dp, micro_batch=b))
    wanted = naive_step(shape, job.gpus, tp, pp, job.batch, hbd * 1e9, b)
    assert wanted is not None
    assert (done.memory_bytes, done.step_s, done.mfu) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(("pp", "padded"), [(4, 128), (16, 128), (64, 128), (128, 128)])
def test_layers_are_padded_to_a_multiple_of_the_stages(pp: int, padded: int) -> None:
    job = Job(LLAMA_405B, H100, RING, 8 * pp * 2, 2048)
    done = step(job, Split(8, pp, 2))
    wanted = naive_step(Shape(**LLAMA), job.gpus, 8, pp, 2048, 800e9, padded=padded)
    assert wanted is not None
    assert (done.memory_bytes, done.step_s, done.mfu) == pytest.approx(wanted, rel=1e-9)


def test_without_stages_nothing_is_padded_and_nothing_sent() -> None:
    done = step(Job(LLAMA_405B, H100, RING, 8, 4), Split(8, 1, 1))
    assert (done.p2p_s, done.bubble_s, done.dp_all_reduce_s) == (0, 0, 0)
    assert done.tp_all_reduce_s == pytest.approx(4 * 126 * 4 * 2 * 7 / 8 * 8192 * 16384 * 2 / 800e9)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_parts_add_up(chunks: int, pp: int, m: int) -> None:
    model = changed(LLAMA_405B, num_hidden_layers=64)
    job = Job(model, H100, RING, 8 * pp * 2, 2 * m * pp, "interleaved")
    done = step(job, Split(8, pp, 2, 1, chunks))
    each = (done.compute_s + done.tp_all_reduce_s + done.p2p_s) / (m * pp)
    assert done.bubble_s == pytest.approx((pp - 1) / chunks * each)  # m is a multiple of the stages
    one = step(job, Split(8, pp, 2))
    assert done.p2p_s == pytest.approx(chunks * one.p2p_s) and done.compute_s == one.compute_s
    assert done.memory_bytes >= one.memory_bytes
    busy = sum(sequence_flops(model, 8192)) * job.batch / (job.gpus * 989e12 * 0.65)
    assert done.compute_s == pytest.approx(busy) and done.mfu == pytest.approx(0.65 * busy / done.step_s)


def test_a_split_that_does_not_divide_is_refused() -> None:
    for split in (Split(8, 2, 3), Split(8, 2, 2, micro_batch=3)):
        with pytest.raises(ValueError, match="does not divide 32 GPUs and a batch of 2048"):
            step(Job(LLAMA_405B, H100, RING, 32, 2048), split)


# Experts


def test_mixtral_has_its_weights(mixtral: LlmSpec) -> None:
    of = weights(mixtral)
    assert of.total == pytest.approx(46.7e9, rel=2e-3)
    assert of.experts == 32 * 8 * 3 * 4096 * 14336
    used = of.dense + of.experts // 4 + of.embedding
    assert used == pytest.approx(12.9e9, rel=2e-3)
    assert sequence_flops(mixtral, 100)[1] == 6 * of.experts / 4 * 100


@pytest.mark.parametrize("ep", [1, 2, 4, 8])
def test_experts_are_split_among_replicas(mixtral: LlmSpec, ep: int) -> None:
    job = Job(mixtral, H100, RING, 4 * 2 * 8, 64)
    done = step(job, Split(4, 2, 8, ep))
    of, m = weights(mixtral), 8
    rest, experts = (of.dense + of.embedding) / 8, of.experts / 8 / ep
    layers = 34 * 8192 * 4096 * 16 / 4 * 2 * 0.2
    assert done.memory_bytes == pytest.approx(rest * (6 + 12 / 8) + experts * (6 + 12 * ep / 8) + layers)
    sent = 8192 * 2 * 4096 * 2 / 4 * (ep - 1) / ep  # two experts a token, BF16, a quarter of the channels each
    assert done.all_to_all_s == pytest.approx(m * 16 * 4 * sent / 50e9)
    gradients = 2 * 7 / 8 * rest * 4 + 2 * (8 / ep - 1) / (8 / ep) * experts * 4
    assert done.dp_all_reduce_s == pytest.approx(gradients / 50e9)


def test_the_busiest_experts_are_waited_for(mixtral: LlmSpec) -> None:
    uneven = changed(H100, recipe=changed(H100.recipe, expert_imbalance=1.5))
    even, late = (step(Job(mixtral, how, RING, 64, 64), Split(4, 2, 8, 4)) for how in (H100, uneven))
    flops, experts = sequence_flops(mixtral, 8192)
    assert late.all_to_all_s == pytest.approx(1.5 * even.all_to_all_s)
    assert late.compute_s / even.compute_s == pytest.approx((flops + 1.5 * experts) / (flops + experts))
    assert late.mfu < even.mfu
    one = [step(Job(mixtral, how, RING, 64, 64), Split(4, 2, 8, 1)) for how in (H100, uneven)]
    assert one[0] == one[1]  # every GPU has all experts


@pytest.mark.parametrize(("tp", "ep"), [(1, 2), (4, 2), (4, 8), (2, 4), (16, 8), (8, 4)])
def test_all_to_all_on_a_ring_is_its_busiest_link(mixtral: LlmSpec, tp: int, ep: int) -> None:
    job = Job(mixtral, H100, RING, tp * 8, 8, all_to_all="hbd")
    done = step(job, Split(tp, 1, 8, ep))
    sent = 8192 * 2 * 4096 * 2 / tp * (ep - 1) / ep
    each = busiest_link(tp, ep, sent) / (800e9 / 2)  # half the bandwidth each way round
    assert done.all_to_all_s == pytest.approx(32 * 4 * each)
    switch = step(replace(job, hbd=replace(SWITCH, gpus=None)), Split(tp, 1, 8, ep))
    assert switch.all_to_all_s == pytest.approx(32 * 4 * sent / 450e9)


# Search


def search(job: Job, tensor: tuple[int, ...], chunks: int = 1, micro: tuple[int, ...] = (1,)) -> list[Split]:
    regular = lambda stages, m, v: is_regular(job.schedule, stages, m, v)  # noqa: E731
    return list(splits(job, tensor=tensor, regular=regular, micro_batches=micro, most_chunks=chunks))


def price(job: Job, split: Split) -> Cost:
    return Cost(step(job, split).step_s, memory_bytes(job, split))


@pytest.mark.parametrize("gpus", [16, 48, 64, 96])
def test_the_search_tries_all_that_comes_out_even(mixtral: LlmSpec, gpus: int) -> None:
    job = Job(mixtral, H100, RING, gpus, 96, "interleaved")
    sizes = range(1, 97)
    wanted = {
        Split(tp, pp, dp, ep, v, b)
        for tp, pp, b in product((2, 3, 4), (1, 2, 4, 8, 16, 32), (1, 2))
        for dp in sizes
        if tp * pp * dp == gpus and 32 % tp == 0 and 96 % (dp * b) == 0
        for ep, v in product((1, 2, 4, 8), (1, 2, 4))
        if dp % ep == 0 and 32 // pp % v == 0
        if v == 1 or pp > 1 and (96 // (dp * b) <= pp or 96 // (dp * b) % pp == 0)
    }
    found = search(job, (2, 3, 4), 4, (1, 2))
    assert len(found) == len(set(found)) and set(found) == wanted and wanted
    quickest = best(found, lambda split: price(job, split), 80e9)
    assert quickest is not None and quickest.split is not None
    fit = [(price(job, split).step_s, split) for split in wanted if price(job, split).memory_bytes <= 80e9]
    assert price(job, quickest.split).step_s == min(fit)[0]
    assert quickest.least_bytes == min(price(job, split).memory_bytes for split in wanted)


def test_groups_stay_within_the_domain(mixtral: LlmSpec) -> None:
    assert {split.tp for split in search(Job(LLAMA_405B, H100, SWITCH, 1024, 2048), (8, 16, 32))} == {8}
    over = Job(mixtral, H100, SWITCH, 64, 64, all_to_all="hbd")
    assert {split.tp * split.ep for split in search(over, (2, 4, 8))} == {2, 4, 8}
    assert max(split.ep for split in search(replace(over, all_to_all="dcn"), (2, 4, 8))) == 8


def test_the_search_without_any_split_or_without_one_that_fits() -> None:
    def cost(split: Split) -> Cost:
        return Cost(1.0 / split.tp, 100.0 * split.pp)

    assert best([], cost, 1e9) is None
    found = best([Split(8, 2, 1), Split(16, 1, 1)], cost, 50)
    assert found is not None and (found.split, found.least, found.least_bytes) == (None, Split(16, 1, 1), 100)
    tied = best([Split(8, 2, 1), Split(8, 1, 2)], cost, 200)
    assert tied is not None and tied.split == Split(8, 2, 1)  # the first of equals


@settings(max_examples=30)
@given(st.floats(10, 2000), st.floats(1.0, 4), st.sampled_from([1024, 16384, 131072]))
def test_more_bandwidth_never_lowers_mfu(gb_s: float, more: float, gpus: int) -> None:
    def mfu(rate: float) -> float:
        job = Job(LLAMA_405B, H100, replace(RING, gb_s=rate), gpus, 2048)
        found = best(search(job, (8, 16, 32, 64)), lambda split: price(job, split), H100.gpu.memory_limit_bytes)
        assert found is not None and found.split is not None
        return step(job, found.split).mfu

    assert mfu(gb_s * more) >= mfu(gb_s) * (1 - 1e-12)


def test_narrow_matrices_lose_what_the_recipe_says() -> None:
    gpu = changed(H100.gpu, efficiency_loss=0.05)
    assert [gpu.reached_tflops(tp) for tp in (1, 8, 16)] == pytest.approx([989 * 0.65, 989 * 0.65, 989 * 0.65 / 1.05])


def test_a_step_knows_its_time() -> None:
    assert Step(1, 2, 3, 4, 5, 6, 0, 0).step_s == 21
