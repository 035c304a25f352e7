"""PIM-GPT with 8, 16, 32 and 64 banks a channel: counts from the layout, and numbers through the banks.

A burst is 256 bits, 16 values: a result of each of 16 banks, or an element of V for each of them. With more banks a
channel, the next burst has those of the next 16.
"""

from math import ceil, gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import list_presets, load_llm
from pimloom.arch.system import System, load_part, load_system
from pimloom.arch.table import compile_table
from pimloom.mappers.gemv import product, weighted_sum, write_v
from pimloom.mappers.geometry import Geometry, geometry
from pimloom.mappers.layout import Packed, RowAligned
from pimloom.mappers.plan import plan
from pimloom.systems.devices.block import Block
from pimloom.systems.devices.functional import BF16, Memory
from pimloom.systems.devices.simulate import simulate
from tests import naive_decoder
from tests.naive_decoder import random_weights
from tests.test_functional import spec_of

BANKS = (8, 16, 32, 64)
CHANNELS, BURST, ROW = 8, 16, 1024  # of pim_gpt; in values
TABLE = compile_table(load_part("gddr6_pim_gpt").value)


def settings(banks: int) -> dict[str, str]:
    """As `--set` takes them: banks, with the 32 MiB that each of the part's has."""
    return {
        "dram.organization.bank_groups": str(banks // 4),
        "dram.organization.capacity_bytes": str(banks * 16384 * 2048),
    }


def system(banks: int) -> System:
    return load_system("pim_gpt", settings(banks))


@pytest.mark.parametrize("banks", BANKS)
@pytest.mark.parametrize("model", list_presets())
def test_every_preset_runs_or_is_refused_with_a_sentence(model: str, banks: int) -> None:
    spec, tokens = load_llm(model), 2
    q, f, layers = spec.hidden_size, spec.intermediate_size, spec.num_hidden_layers
    kv, sharing = spec.num_key_value_heads * spec.head_dim, spec.num_attention_heads // spec.num_key_value_heads
    matrices = ((q, q + 2 * kv), (q, q), (q, (1 + spec.gated_ffn) * f), (f, q))
    copies = (layers, layers, *[sum(1 if spec.is_dense(i) else spec.num_experts for i in range(layers))] * 2)
    weights = sum(n * a * b for n, (a, b) in zip(copies, matrices, strict=True)) * 2  # bytes
    try:
        result = simulate(system(banks), spec, tokens)
    except UserError as error:
        (said,) = str(error).splitlines()
        cut = spec.head_dim % banks and said.endswith(
            f"head_dim {spec.head_dim} must be a multiple of the {banks} banks of a channel: "
            f"they share one buffered head of softmax probabilities; take a part with {gcd(spec.head_dim, banks)}"
        )
        full = weights > 0.9 * CHANNELS * banks * 2**25 and "bytes of PIM memory" in said
        assert cut or full, said
        return
    assert spec.head_dim % banks == 0 and weights < CHANNELS * banks * 2**25
    assert result.command_counts is not None and result.interface_bytes is not None
    parts, every = ceil(banks / BURST), CHANNELS * banks
    slots = ceil(kv / every)
    writes = tokens * layers * CHANNELS * slots * parts
    assert result.command_counts["WRAab"] == writes
    whole = sum(ceil(n_out / every) * ceil(n_in / ROW) for n_in, n_out in matrices)
    pieces = sum(len(cuts(kv, spec.head_dim, chunk)) for chunk in range(ceil(kv / ROW)))
    assert result.command_counts["RDMAC"] == tokens * layers * CHANNELS * parts * (whole + sharing * (pieces + slots))
    read = layers * sum(sum(a * b for a, b in matrices) + 2 * kv * t for t in (1, 2))
    moved = read / (result.data_movement_reduction or 0)
    assert result.interface_bytes >= 2 * moved


def cuts(d: int, head_dim: int, chunk: int) -> set[int]:
    """Heads, or pieces of heads, in one chunk of K."""
    return {i // head_dim for i in range(chunk * ROW, min(d, (chunk + 1) * ROW))}


@pytest.mark.parametrize("banks", BANKS)
def test_a_result_of_each_bank_and_an_element_of_v_for_each_cross_in_bursts_of_sixteen(banks: int) -> None:
    geo = geometry(system(banks).part, CHANNELS)  # type: ignore[arg-type]
    w, v = Packed(geo, 64, 2 * geo.all_banks), RowAligned(geo, 2048, geo.all_banks)
    burst = {8: 1, 16: 1, 32: 2, 64: 4}[banks]

    def commands(stream: np.ndarray, name: str) -> int:
        return int(stream["count"][stream["cmd"] == TABLE.cmd(name)].sum())

    assert commands(product(TABLE, w), "RDMAC") == 2 * burst
    assert commands(weighted_sum(TABLE, v, 1025), "RDMAC") == 2 * burst
    assert [commands(write_v(TABLE, v, 7), name) for name in ("ACTab", "WRAab")] == [burst, burst]


def test_more_bursts_take_more_time() -> None:
    """Half the columns a bank, so at best half the MACs: a second burst for each result is on top of it."""
    one, two = (simulate(system(banks), load_llm("gpt2"), 1).time_by_step_s for banks in (16, 32))
    assert one is not None and two is not None
    assert one["V write"] == pytest.approx(12 * 6 * 37e-9)  # 6 slots: 12 + 1 + 12 + 12 ns
    assert two["V write"] == pytest.approx(12 * 3 * 2 * 37e-9)
    assert one["FFN1"] / 2 < two["FFN1"] < one["FFN1"]


@pytest.mark.parametrize("banks", BANKS)
@pytest.mark.parametrize("channels", [1, 2])
def test_a_block_is_the_float32_block(banks: int, channels: int) -> None:
    geo = Geometry(channels, banks, banks // 4, 2048, 128, 16, 128, 2)
    d, heads, tokens = 192, 192 // 64, 10 if geo.all_banks == 8 else 5  # of 8 banks, keys in two slots
    rng = np.random.default_rng(banks)
    spec = spec_of(d, heads)
    weights, x = random_weights(spec, rng), rng.normal(size=(tokens, d)).astype(BF16)
    block = Block(plan(spec, geo, tokens), TABLE, weights)
    y = np.array([block.run(row) for row in x]).astype(np.float32)
    right = naive_decoder.layer(spec, weights, x.astype(np.float32))
    assert (np.linalg.norm(y - right, axis=1) < 0.007 * np.linalg.norm(right, axis=1)).all()


@pytest.mark.parametrize("command", ["RDMAC", "WRAab"])
def test_a_burst_that_is_missing_is_missed(command: str) -> None:
    """The numbers of 32 banks do not come out with the commands of 16."""
    geo = Geometry(1, 32, 8, 2048, 128, 16, 128, 2)
    if command == "RDMAC":
        w = Packed(geo, 64, 64)
        stream = product(TABLE, w)
        stream["count"][stream["cmd"] == TABLE.cmd("RDMAC")] = 1
        with pytest.raises(ValueError, match="a MAC between burst 1 and the next of one result"):
            Memory(TABLE, geo, w.rows).multiply(stream, np.ones((1, 1, 64), BF16))
        return
    v = RowAligned(geo, 16, 32)
    writes: Any = write_v(TABLE, v, 0)
    with pytest.raises(ValueError, match="reshape"):
        Memory(TABLE, geo, v.rows).write_all_banks(writes[:2], 0, np.ones((1, 32), BF16))


@given(st.sampled_from(BANKS), st.sampled_from((1, 2, 4)), st.integers(1, 4), st.integers(1, 300), st.data())
def test_products_of_any_shape(banks: int, channels: int, wide: int, n_out: int, data: st.DataObject) -> None:
    """Small integers are exact in bfloat16 and in float32 sums, so every partial result is the integers' own."""
    geo = Geometry(channels, banks, banks // 4, 2048, 64, 16, 64, 2)
    n_in = 16 * wide
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    matrix, x = rng.integers(-2, 3, (n_in, n_out)), rng.integers(-2, 3, n_in)
    w = Packed(geo, n_in, n_out)
    memory = Memory(TABLE, geo, w.rows)
    memory.store(w, matrix.astype(BF16))
    results = memory.multiply(product(TABLE, w), x.astype(BF16).reshape(1, 1, n_in))
    assert np.array_equal(results.reshape(-1)[:n_out].astype(int), x @ matrix)
