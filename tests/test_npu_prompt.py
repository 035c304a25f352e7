"""Prompts on an NPU: causal attention in tiles, its traffic and its time beside closed forms, an NPU with a clock of
its own. That the machine is the naive one on random chunks is in `test_npu_random.py`."""

from itertools import islice
from math import ceil

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_system
from pimloom.cycle_sim.npu_pim.prompt import Chunk, columns_of, tiles_of
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.serve import serve
from tests.slow import slow

SYSTEMS = ("npu_only", "npu_pim", "neupims")
LLM = msgspec.structs.replace(  # gpt2 with a third of its heads, so that it is quick
    load_llm("gpt2"), hidden_size=256, intermediate_size=1024, num_attention_heads=4, num_key_value_heads=4
)


def machine(system):
    spec = load_system(system).spec
    assert isinstance(spec, NpuPimSystem)
    return spec


def iteration(system, llm, new, before=0, layers=1, **more):
    new = np.atleast_1d(new)
    tokens = new + np.atleast_1d(before)
    changed = {"interleave.sub_batches": "1"} | more
    return serve(
        load_system(system, changed), llm, tokens, None, tp=1, layers=layers, fidelity="physical", new=new
    )  # fmt: skip


@given(st.integers(1, 300), st.integers(0, 300), st.sampled_from([4, 16, 128]), st.sampled_from([0, 1, 7, 200, 5000]))
def test_a_tile_covers_what_its_rows_attend_to(new, before, tile, window):
    """Every new token, in exactly one tile of queries, finds each token that it attends to in a tile of keys; tiles in
    which no row of the queries finds any are left out."""
    tiles = list(tiles_of(Chunk(new, before), tile, window))
    assert sum(rows.height for rows in tiles) == new
    tokens = iter(range(before, before + new))
    for rows in tiles:
        seen = set()
        for token in islice(tokens, rows.height):
            first = max(token - window + 1, 0) if window else 0
            seen |= {at // tile for at in range(first, token + 1)}
        assert seen == set(columns_of(rows, tile))


@pytest.mark.parametrize("system", SYSTEMS)
def test_time_of_a_prompt_is_that_of_its_busiest_unit(system):
    """512 tokens, one layer: no sooner than arrays, vector units or memory allow one by one, and no later than
    all of them one after the other and half as much again."""
    llm, n = LLM, 512
    found = iteration(system, llm, n)
    spec = machine(system)
    npu, width = spec.npu, llm.hidden_size
    step = npu.rows // npu.arrays
    tiles = lambda rows, n_in, n_out: ceil(rows / npu.rows) * ceil(n_in / npu.rows) * ceil(n_out / npu.rows)  # noqa: E731
    gemms = [(n, width, 3 * width), (n, width, width), (n, width, 4 * width), (n, 4 * width, width)]
    pairs = (n // npu.rows) * (n // npu.rows + 1) // 2  # of tiles of queries and keys
    # a step of 16 cycles, or 8 where the columns of 64 elements of V stream; a new tile of queries or probabilities
    # takes 128 cycles to enter
    products = llm.num_attention_heads * (pairs * step + n // npu.rows * npu.rows + pairs * npu.rows)
    arrays = step * sum(tiles(*sizes) for sizes in gemms) + products
    loads = llm.num_attention_heads * 2 * n * llm.head_dim + n * width
    rows = [(1, 1), (3, 1), (3, 1), (1, 1), (4, 4)]
    moved = 2 * (12 * width**2 + loads + sum(a * n * width + b * n * width for a, b in rows))
    memory = moved / (spec.dram.channels * 64 / 2)  # bytes in a clock: 64 in two
    assert max(arrays, memory) < found.total_cyc < 1.5 * (arrays + memory + 40_000)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_prompt_reads_and_writes_what_it_must(system):
    """Requests of 64 bytes: weights once, K and V once for each head, activations between operators."""
    llm, n = LLM, 256
    found = iteration(system, llm, n)
    width = llm.hidden_size
    weights = 12 * width**2 + 9 * width  # matrices and biases
    through = {"norm": (1, 1), "qkv": (1, 3), "attention": (3, 1), "projection": (1, 1), "residual": (2, 1)}
    through |= {"norm 2": (1, 1), "ffn1": (1, 4), "activation": (4, 4), "ffn2": (4, 1), "residual 2": (2, 1)}
    reads = weights + n * width * sum(a for a, _ in through.values())
    writes = n * width * sum(b for _, b in through.values())
    assert found.memory_requests == (reads + writes) * 2 / 64
    waiting = machine(system).dram.channels * 256  # writes that are still queued when the last answer comes
    assert writes * 2 / 64 - waiting < found.commands["WR"] <= writes * 2 / 64


def test_chunks_multiply_all_that_one_prompt_does():
    """1,000 tokens in one piece, or in four of 250: the same products but for whole tiles on the diagonal; no fewer
    than the tokens that each one attends to."""
    llm = LLM

    def macs(chunks):
        found = 0
        for new, before in chunks:
            laid = lay_out(
                load_system("npu_only"), llm, np.array([new + before]), None, tp=1, layers=1, new=np.array([new])
            )
            at = [o.name for o in laid.layer.builder.operators].index("prompt")
            found += laid.layer.work[at].macs
        return found

    exact = 2 * llm.hidden_size * 1000 * 1001 // 2
    whole, parts = macs([(1000, 0)]), macs([(250, at) for at in range(0, 1000, 250)])
    assert exact < parts < whole + exact * 0.1 and whole < exact * 1.13


def test_sliding_windows_bound_a_prompt():
    llm = LLM
    short = msgspec.structs.replace(llm, sliding_window=128)
    full, windowed = (iteration("npu_only", each, 1024) for each in (llm, short))
    assert windowed.operators_cyc["B.prompt"] < 0.6 * full.operators_cyc["B.prompt"]
    assert windowed.operators_cyc["A.qkv"] == full.operators_cyc["A.qkv"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_prompts_beside_decode(system):
    """One prompt of 300 tokens beside three requests that decode: PIM decodes while the arrays attend to the prompt."""
    llm = LLM
    mixed = iteration(system, llm, [300, 1, 1, 1], [0, 400, 500, 20])
    alone, decode = iteration(system, llm, 300), iteration(system, llm, [1, 1, 1], [400, 500, 20])
    assert mixed.batch == 4 and mixed.tokens == 300 + 401 + 501 + 21
    assert max(alone.total_cyc, decode.total_cyc) < mixed.total_cyc < alone.total_cyc + decode.total_cyc
    if system != "npu_only":
        assert mixed.commands["COMP"] == decode.commands["COMP"] > 0 == alone.commands.get("COMP", 0)
    with_two = iteration(system, llm, [300, 1, 1, 1], [0, 400, 500, 20], **(
        {} if system == "npu_only" else {"interleave.sub_batches": "2"}))  # fmt: skip
    assert with_two.batch == 4


@pytest.mark.parametrize("mhz", [1250, slow(500), slow(2000)])
def test_an_npu_with_a_clock_of_its_own(mhz):
    """Attention, which the arrays bound, takes as much longer as their clock is slower, the rest no more than that."""
    llm = LLM
    usual, other = (iteration("npu_only", llm, 2048, **{"npu.clock_mhz": str(each)}) for each in (1000, mhz))
    assert usual.clock_ps == other.clock_ps == 1000 and usual.memory_requests == other.memory_requests
    attention = other.operators_cyc["B.prompt"] / usual.operators_cyc["B.prompt"]
    assert attention == pytest.approx(1000 / mhz, rel=0.05)
    assert min(1, 1000 / mhz) < other.total_cyc / usual.total_cyc < max(1, 1000 / mhz)


@pytest.mark.parametrize(
    ("new", "before", "settings", "said"),
    [
        (0, 5, {}, "expected at least one of each request"),
        (64, 0, {"faults.queues_in_order": "true"}, "computes no prompts; take --fidelity physical"),
        (64, 0, {"faults.interconnect": "true", "npu.clock_mhz": "700"}, "npu.clock_mhz: with faults.interconnect"),
    ],
)
def test_what_cannot_be_computed_is_refused(new, before, settings, said):
    with pytest.raises(UserError, match=said):
        iteration("neupims", LLM, new, before, **settings)
