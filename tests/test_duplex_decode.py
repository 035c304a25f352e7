"""Duplex's decode steps: against plain arithmetic with an ideal memory, and against what its authors' simulator
measures; how fast bundles are read; draws of experts."""

from math import fsum
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.duplex import load_duplex
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.routing import Routing
from pimloom.reports.duplex.grid import GRID, GridPoint, decode_grid, deployed, draw_steps
from pimloom.reports.duplex.measured import OF_S, TOLERANCES, over, point_of, ratios_of_s, rows_of
from pimloom.systems.devices.duplex.beside import APART, measured
from pimloom.systems.devices.duplex.layers import Processors
from pimloom.systems.devices.duplex.memory import BANK, LOGIC, XPU, IdealDram, SimulatedDram
from pimloom.systems.devices.duplex.stage import Stages
from pimloom.systems.devices.duplex.variants import ROUTERS, VARIANTS, Variant
from pimloom.workload.routing import drawn
from tests import naive_duplex

OURS = load_duplex(overrides={"xpu_gb_s": "3352"})
IDEAL = Processors(OURS, IdealDram(OURS))
NAMES = [variant.name for variant in VARIANTS[1:]]


def small(random: Random) -> LlmSpec:
    """A model of few layers, some of them dense."""
    model = random.choice(("mixtral-8x7b", "glam-143b"))
    layers, heads = random.randint(1, 4), random.choice((16, 32))
    shape = {
        "num_hidden_layers": layers,
        "hidden_size": random.choice((512, 4096)),
        "head_dim": 128,
        "num_attention_heads": heads,
        "num_key_value_heads": random.choice((8, heads)),
        "intermediate_size": random.choice((1024, 16384)),
        "num_experts": random.choice((8, 16)),
        "dense_layers": tuple(i for i in range(layers) if random.random() < 0.3),
    }
    return msgspec.structs.replace(load_llm(model), **shape)


def test_steps_with_an_ideal_memory_are_those_of_plain_arithmetic() -> None:
    random = Random("duplex")
    for _ in range(60):
        llm, low = small(random), random.choice((None, LOGIC, BANK))
        nodes, devices, tp = random.choice(((1, 4, False), (1, 8, True), (2, 4, False), (2, 8, True), (2, 8, False)))
        stages = Stages(llm, Variant("any", low, expert_tp=tp), IDEAL, nodes, devices)
        contexts = [random.randint(1, 3000) for _ in range(random.choice((2, 8, 32)))]
        (tokens,) = draw_steps(llm, len(contexts), 1, random.randint(0, 9))
        found = stages.decode(contexts, tokens)
        naive = naive_duplex.step(llm, low, nodes, devices, stages.expert_tp, contexts, tokens)
        assert found.time_s == pytest.approx(naive.s) and found.macs == pytest.approx(naive.macs)
        assert fsum(found.pj.values()) == pytest.approx(naive.pj)


@pytest.mark.parametrize("router", ROUTERS)
def test_co_processing_takes_the_slower_of_two_sides(router: str) -> None:
    random, llm = Random(router), load_llm("glam-143b")
    alone = Stages(llm, Variant("alone", LOGIC), IDEAL, 1, 8)
    both = Stages(llm, Variant("both", LOGIC, co_processing=True), IDEAL, 1, 8, router)
    gained = 0
    for _ in range(20):
        tokens = 16 * [drawn(128, 2, 64, random, Routing(zipf=random.choice((0, 1))))]
        apart, together = (stages.decode([500] * 8, tokens) for stages in (alone, both))
        assert apart.macs == pytest.approx(together.macs)
        gained += together.time_s < apart.time_s * 0.999
    assert gained > 3


def test_the_optimum_is_not_beaten_by_the_papers_rule() -> None:
    llm, tokens = load_llm("glam-143b"), draw_steps(load_llm("glam-143b"), 128, 1, 1)[0]
    system = Variant("both", LOGIC, co_processing=True)
    best, paper = (
        Stages(llm, system, IDEAL, 1, 8, router).decode([500] * 128, tokens) for router in ("optimum", "idlest_to_pim")
    )
    assert best.time_s <= paper.time_s * (1 + 1e-9)


def test_a_bundle_is_read_row_by_row_and_refreshed() -> None:
    device = load_duplex()
    memory, row_bytes = SimulatedDram(device), 160 * 8 * 1024
    first = memory._bundle_ck(32, 0)  # ALL_ACT, nRCD 19, 31 gaps of nCCDL 4, nCL 19 + nBL 2
    assert first == (19 + 31 * 4 + 21, 1)
    cycle = 19 + 31 * 4 + 6 + 19  # last ALL_RD, nRTPS, nRP
    assert memory._bundle_ck(96, 0) == (2 * cycle + first[0], 3)
    long = memory.move(LOGIC, 3000 * row_bytes)
    share = 3000 * 32 * 4 / (long.time_s / 769e-12)
    assert share == pytest.approx(32 * 4 / cycle * (1 - 456 / 5070), rel=0.01)
    assert long.counts == (3000 * 32 * 160 * 8, 3000 * 160 * 8)
    assert memory.move(BANK, 4 * 3000 * row_bytes).time_s == long.time_s  # four times the banks


def test_short_transfers_take_the_mean_over_the_next_refresh() -> None:
    memory = SimulatedDram(load_duplex())
    alone, mean = memory._bundle_ck(320, 0)[0], memory._simulated(False, False, 320)[0]
    at = [memory._bundle_ck(320, start)[0] for start in (0, 1267, 2535, 3802)]
    assert mean == pytest.approx(sum(at) / 4) and alone == min(at) < mean < alone + 456


def test_pins_reach_what_a_controller_lets_them() -> None:
    memory = SimulatedDram(load_duplex())
    for n_bytes, write in ((117_440_512, False), (117_440_512, True)):
        found = memory.move(XPU, n_bytes, write=write)
        assert 0.8 < n_bytes / found.time_s / 3.328e12 < 1 - 456 / 5070
        assert found.counts.columns == pytest.approx(n_bytes / 32, rel=1e-3)
        assert found.counts.rows >= n_bytes / 1024
    assert memory.move(XPU, 0) == (0, (0, 0))
    with pytest.raises(ValueError, match="nothing is written on path logic"):
        memory.move(LOGIC, 1, write=True)


@pytest.mark.parametrize("point", [GRID[0], GRID[6]], ids=["mixtral", "glam"])
def test_steps_are_near_what_is_measured(point: GridPoint) -> None:
    rows = list(decode_grid(load_duplex(overrides=OF_S), [point], steps=4, router="busiest_to_xpu", contention=False))
    found, theirs = {row.system: over(row, rows[0]) for row in rows}, ratios_of_s()
    for name in NAMES:
        for kind, most in TOLERANCES.items():
            assert found[name][kind] == pytest.approx(theirs[point, name][kind], rel=most)
    if point.model == "glam-143b":  # MHA, few tokens for each expert
        assert all(found["Bank-PIM"]["throughput"] > found[name]["throughput"] for name in NAMES[1:4])
    assert all(found[name]["energy"] < 1 for name in NAMES[1:])
    assert found["Duplex"]["step"] < found["2xGPU"]["step"]


@pytest.mark.parametrize(("batch", "length"), [(32, 256), (32, 1024), (32, 4096), (64, 256)])
def test_steps_with_an_ideal_memory_are_near_what_is_measured(batch: int, length: int) -> None:
    """S draws other experts, records 299 steps and runs a prompt in some."""
    points = [GridPoint("mixtral-8x7b", batch, length)]
    theirs = [float(row["step_ms"]) for row in rows_of("ideal.csv") if point_of(row) == points[0]]
    rows = decode_grid(OURS, points, steps=4, memory="ideal", router="busiest_to_xpu", contention=False)
    assert [row.step_ms for row in rows] == [pytest.approx(ms, rel=0.02) for ms in theirs] != []


def test_where_experts_of_twenty_tokens_go() -> None:
    """S's xPU takes 8,760.2 us for 64 experts of a device, so that those of 20 end sooner in the banks, of 21 not:
    6 % of the experts, and 10 % of the energy. So it is under its memory's conditions, and not without them."""
    device = load_duplex(overrides=OF_S)
    at = Processors(device, SimulatedDram(device))
    xpu, banks = ([at.expert(path, n, 4096, 14_336, 2).time_s * 1e6 for n in (19, 20, 21)] for path in (XPU, BANK))
    assert xpu == pytest.approx([8760.2 / 64] * 3, rel=0.01)
    assert banks[1] < min(xpu[1], 8760.2 / 64) and max(xpu[2], 8760.2 / 64) < banks[2]
    freed = load_duplex(overrides={name: OF_S[name] for name in ("xpu_gb_s", "part.timing.tRFC")})
    assert Processors(freed, SimulatedDram(freed)).expert(XPU, 20, 4096, 14_336, 2).time_s * 1e6 < banks[1]
    times = [2 * n * 3 * 4096 * 14_336 / (16 * 3.352) / 1e6 for n in (19, 20, 21)]  # 16 times the pins' rate in bytes
    assert banks == pytest.approx(times, rel=0.02)


def test_both_processors_lose_where_they_meet() -> None:
    both = measured(load_duplex().part)
    assert 0.5 < both.xpu < 0.8 and 0.9 < both.low < 1  # one RD a clock fills the column bus; ALL_RDs go first
    random = Random("beside")
    for _ in range(50):
        xpu, low, at, left = random.uniform(0, 5), random.uniform(0, 5), 0.0, list[float]()
        left = [xpu, low]
        while max(left) > 0:  # in small steps
            keep = both if min(left) > 0 else APART
            left = [left[0] - 1e-3 * keep.xpu, left[1] - 1e-3 * keep.low]
            at += 1e-3
        assert both.together_s(xpu, low) == pytest.approx(at, abs=5e-3)
        assert both.together_s(xpu, low) >= max(xpu, low)
        assert APART.together_s(xpu, low) == pytest.approx(max(xpu, low))
    points = [GridPoint("mixtral-8x7b", 64, 256)]
    with_it, without = (
        next(decode_grid(OURS, points, steps=1, memory="ideal", contention=c, systems=[VARIANTS[4]]))
        for c in (True, False)
    )
    assert with_it.step_ms > without.step_ms and with_it.mj_per_token == without.mj_per_token


def test_duplex_is_faster_than_twice_the_gpus_at_batch_64() -> None:
    rows = list(decode_grid(load_duplex(), [GridPoint("mixtral-8x7b", 64, 256)], steps=4, systems=VARIANTS[:3]))
    found = {row.system: over(row, rows[0]) for row in rows}
    assert found["Duplex"]["step"] < found["2xGPU"]["step"]


def test_units_in_banks_win_where_no_heads_share_keys() -> None:
    """Llama 3 has eight heads for each of keys and values, OPT one: the paper's order of Bank-PIM and Duplex."""
    points = [GridPoint("opt-66b", 32, 512), GridPoint("llama-3-70b", 64, 1024)]
    rows = decode_grid(load_duplex(), points, steps=1, systems=(VARIANTS[2], VARIANTS[5]))
    opt_duplex, opt_bank, llama_duplex, llama_bank = (row.step_ms for row in rows)
    assert opt_bank < opt_duplex and llama_duplex < llama_bank


def test_contexts_and_devices_of_the_grid() -> None:
    lengths = {256: 271, 512: 783, 1024: 1807, 2048: 3855, 4096: 5903}
    assert {n: GridPoint("any", 1, n).first_context for n in lengths} == lengths
    twice = {model: deployed(model, 2) for model in ("mixtral-8x7b", "glam-143b", "grok-1")}
    assert twice == {"mixtral-8x7b": (1, 8), "glam-143b": (2, 8), "grok-1": (4, 8)}
    shares = [Stages(load_llm("grok-1"), VARIANTS[0], IDEAL, nodes, 8).expert_tp for nodes in (2, 4)]
    assert shares == [2, 4]


def test_draws_are_without_replacement_and_follow_their_shares() -> None:
    for routing in (Routing(), Routing(zipf=1), Routing(counts=(5, 0, 1, 1, 1, 1, 1, 1))):
        found = [drawn(40, 2, 8, Random(seed), routing) for seed in range(200)]
        assert all(sum(each) == 80 and max(each) <= 40 for each in found)
        assert found[3] == drawn(40, 2, 8, Random(3), routing) != found[4]
        mean = np.mean(found, axis=0)
        if routing.counts:
            assert mean[1] == 0 and mean[0] > 2 * mean[2]
        elif routing.zipf:
            assert all(mean[:-1] > mean[1:])
        else:
            assert np.allclose(mean, 10, rtol=0.05)
    steep = drawn(2000, 2, 8, Random(5), Routing(zipf=16))
    assert steep[0] == 2000 and list(steep) == sorted(steep, reverse=True) and steep[1] > 1990
    with pytest.raises(UserError, match="1 experts that tokens go to: expected at least 2"):
        drawn(1, 2, 3, Random(0), Routing(counts=(0, 0, 1)))


@given(st.integers(1, 70), st.integers(1, 8), st.integers(0, 9))
def test_equal_shares_are_drawn_as_python_samples(experts: int, each: int, seed: int) -> None:
    each = min(each, experts)
    ours, theirs, found = Random(seed), Random(seed), [0] * experts
    for _ in range(20):
        for i in theirs.sample(range(experts), each):
            found[i] += 1
    assert drawn(20, each, experts, ours) == tuple(found) and ours.getstate() == theirs.getstate()


def test_what_does_not_come_out_even_is_said() -> None:
    with pytest.raises(UserError, match="8 experts of mixtral-8x7b: expected to come out even over 12"):
        Stages(load_llm("mixtral-8x7b"), VARIANTS[0], IDEAL, 3, 4)
    with pytest.raises(UserError, match="router 'best': expected one of idlest_to_pim"):
        Stages(load_llm("mixtral-8x7b"), VARIANTS[0], IDEAL, 1, 4, "best")
    with pytest.raises(UserError, match="model gpt2: its devices are not known"):
        deployed("gpt2")
