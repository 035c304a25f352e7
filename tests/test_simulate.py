"""What `simulate` reports, against counts and closed forms that are computed here, by hand or from the specification.

Energies: V x mA x ns are pJ; 1.25 V, IDD0 122, IDD3N 142, IDD4R 530, IDD4W 470, IDD5B 277 mA.
"""

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any

import msgspec
import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import RooflineSystem, System, load_system
from pimloom.cycle_sim.dram.stream import Engine, Issue
from pimloom.cycle_sim.roofline import check_fits
from pimloom.systems.devices import simulate as module
from pimloom.systems.devices.result import Result
from pimloom.systems.devices.roofline_sequence import Passes
from pimloom.systems.devices.simulate import Window, simulate
from tests import reference_model as ref

TOKENS = 1024
MODELS = ("gpt2", "gpt3-xl")
VOCABULARY = 50257


def straddled(d: int, t: int) -> int:
    """Rows that the K write of token t touches beyond one for each chunk."""
    slot, widths = (t - 1) // 128, [min(1024, d - first) for first in range(0, d, 1024)]
    return sum((slot * w + w - 1) // 1024 - slot * w // 1024 for w in widths)


def layer_counts(d: int, h: int, t: int) -> Counter[str]:
    """Commands of all eight channels for one layer at position t (specification 3.2 and 3.3)."""
    weights, slots, there = ref.products(d, 128).values(), ceil(d / 128), ceil(t / 128)
    channel = {
        "WRGB": sum(w.n_in // 16 for w in weights) + d // 16 + slots * ceil(t / 16),
        "MACab": sum(w.macs for w in weights) + there * d // 16 + slots * ceil(t / 16),
        "RDMAC": sum(w.cols * ref.c(w.n_in) for w in weights) + there * h + slots * ref.c(t),
        "ACTab": sum(w.rows for w in weights) + slots + ceil(there * d / 1024) + slots * ref.c(t),
        "WRAab": slots,
    }
    one_bank = {"WR": d // 16, "ACT": ref.c(d) + straddled(d, t)}
    return Counter({name: 8 * n for name, n in channel.items()} | one_bank)


def counts(name: str, tokens: int = TOKENS) -> Counter[str]:
    layers, d, h = ref.MODELS[name]
    total: Counter[str] = Counter()
    for t in range(1, tokens + 1):
        total.update(layer_counts(d, h, t))
    return Counter({command: layers * n for command, n in total.items()})


@pytest.fixture(scope="module")
def results() -> Mapping[str, Result]:
    return {name: simulate(load_system("pim_gpt"), load_llm(name), TOKENS) for name in MODELS}


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def result(results: Mapping[str, Result], name: str) -> Result:
    return results[name]


def pim(name: str, tokens: int, **overrides: str) -> Result:
    return simulate(load_system("pim_gpt", overrides), load_llm(name), tokens)


# Time.


@pytest.mark.parametrize("name", ["gpt2", "gpt2-xl"])
def test_latency_without_refresh_is_the_closed_form(name: str) -> None:
    """Beside it: p comes in whole bursts of 16 values, once for each slot of V; a K slot across two rows is 36 ns."""
    (layers, d, h), tokens = ref.MODELS[name], 140
    ns = sum(ref.layer(d, h, t).total for t in range(1, tokens + 1))
    ns += sum(ceil(d / 128) * (ceil(t / 16) - t / 16) + 36 * straddled(d, t) for t in range(1, tokens + 1))
    found = pim(name, tokens, **{"dram.refresh": "false"})
    assert found.latency_s == pytest.approx(layers * ns * 1e-9, rel=1e-12)
    assert found.cycles == pytest.approx(layers * ns * 2, abs=1) and found.tck_ps == 500


def test_times_of_a_result(result: Result, name: str) -> None:
    us = {"gpt2": 83.0, "gpt3-xl": 983.7}[name]  # specification 7.1; K slots of gpt2 that straddle rows add 0.3 %
    assert result.time_per_token_s * 1e6 == pytest.approx(us, rel={"gpt2": 0.004, "gpt3-xl": 0.001}[name])
    assert result.time_per_token_s == pytest.approx(result.latency_s / 1024, rel=1e-12)
    assert result.tokens_per_s == pytest.approx(1024 / result.latency_s, rel=1e-12)
    assert result.time_by_step_s and sum(result.time_by_step_s.values()) == pytest.approx(result.latency_s, rel=1e-12)
    assert result.cycles is not None and result.cycles * 500e-12 == pytest.approx(result.latency_s, rel=1e-9)


def test_shares_of_the_specification(result: Result, name: str) -> None:
    share, hit = {"gpt2": (2.29, 0.9817), "gpt3-xl": (1.13, 0.9835)}[name]
    assert result.non_vmm_share is not None and 100 * result.non_vmm_share == pytest.approx(share, abs=0.02)
    assert result.row_hit_rate == pytest.approx(hit, abs=0.0002)


def test_non_vmm_share_is_asic_time_over_all_time_without_refresh(result: Result, name: str) -> None:
    _, d, h = ref.MODELS[name]
    costs = [ref.layer(d, h, t) for t in range(1, TOKENS + 1)]
    more = sum(ceil(d / 128) * (ceil(t / 16) - t / 16) + 36 * straddled(d, t) for t in range(1, TOKENS + 1))
    expected = sum(cost.asic for cost in costs) / (sum(cost.total for cost in costs) + more)
    assert result.non_vmm_share == pytest.approx(expected, rel=1e-12)


def test_mac_utilisation(result: Result, name: str) -> None:
    """One MAC command of a channel takes 1 ns; the specification's 55 to 63 % include refresh."""
    assert result.mac_utilisation == pytest.approx(counts(name)["MACab"] / 8 * 1e-9 / result.latency_s, rel=1e-12)
    assert result.mac_utilisation is not None and 0.55 <= result.mac_utilisation <= 0.63


def test_row_hit_rate(result: Result, name: str) -> None:
    """K's writes, to one bank, count beside the lock-step ones."""
    n = counts(name)
    accesses, misses = n["MACab"] / 8 + n["WRAab"] / 8 + n["WR"], n["ACTab"] / 8 + n["ACT"]
    assert result.row_hit_rate == pytest.approx(1 - misses / accesses, rel=1e-12)


# What crosses the interface, and what is in memory.


def test_commands_are_counted_over_all_channels(result: Result, name: str) -> None:
    assert result.command_counts is not None
    expected = counts(name)
    assert {command: result.command_counts[command] for command in expected} == expected
    # A refresh every 6825 ns; the last may still be due when the run ends.
    assert result.command_counts["REFab"] / 8 == pytest.approx(result.latency_s / 6825e-9, abs=2)


def test_interface_bytes(result: Result, name: str) -> None:
    """Bursts of 32 bytes: operands, results, and writes to the K and V cache."""
    n = counts(name)
    assert result.interface_bytes == 32 * (n["WRGB"] + n["RDMAC"] + n["WR"] + n["WRAab"])


def test_data_movement_reduction(result: Result, name: str) -> None:
    (layers, d, h), n = ref.MODELS[name], counts(name)
    values = {"gpt2": 108.9, "gpt3-xl": 258.6}[name]  # specification 7.4
    assert result.data_movement_reduction == pytest.approx(values, abs=0.1)
    assert result.data_movement_reduction == pytest.approx(ref.data_reduction(d, h), rel=1e-12)
    baseline = layers * sum(12 * d * d + 2 * d * t for t in range(1, TOKENS + 1))  # BF16 values
    bursts = n["WRGB"] + n["RDMAC"] + n["WR"] + n["WRAab"]
    assert result.data_movement_reduction_on_wires == pytest.approx(2 * baseline / (32 * bursts), rel=1e-12)


def test_memory(result: Result, name: str) -> None:
    """Rows of 2048 bytes in 128 banks: weights (specification 7.3), and K and V of 1024 tokens."""
    (layers, d, _), rows = ref.MODELS[name], {"gpt2": 660, "gpt3-xl": 9216}[name]
    rows += layers * (8 * d // 1024 + d // 128)
    assert (result.memory_needed_bytes, result.memory_bytes) == (rows * 2048 * 128, 2**32)
    assert result.max_tokens == {"gpt2": 111_616, "gpt3-xl": 9216}[name]


# Energy.


def test_energy_by_cause(result: Result, name: str) -> None:
    n, latency = counts(name), result.latency_s
    assert result.command_counts is not None and result.energy_by_cause_j is not None
    pj = {
        "activate": 1.25 * 122 * 24 * (16 * n["ACTab"] + n["ACT"]),
        "read": 3 * 1.25 * (530 - 142) * n["MACab"],
        "write": 1.25 * (470 - 142) * (n["WR"] + n["WRAab"]),
        "refresh": 1.25 * (277 - 142) * 455 * result.command_counts["REFab"],
        "mac": 149.29 * n["MACab"],
        "interface": 5.5 * 256 * (n["WRGB"] + n["RDMAC"] + n["WR"] + n["WRAab"]),
        "background": 8 * 1.25 * 142 * latency * 1e9,
        "asic": 304.59 * latency * 1e9,  # one ASIC, not one a channel
    }
    assert result.energy_by_cause_j == pytest.approx({cause: value * 1e-12 for cause, value in pj.items()}, rel=1e-9)
    assert result.energy_j == pytest.approx(sum(pj.values()) * 1e-12, rel=1e-9)
    assert result.energy_per_token_j == pytest.approx(sum(pj.values()) * 1e-12 / 1024, rel=1e-9)
    assert result.power_w == pytest.approx(sum(pj.values()) * 1e-12 / latency, rel=1e-9)


def test_background_grows_with_the_channels_and_the_asic_does_not() -> None:
    found = pim("gpt2", 2, **{"dram.channels": "16"})
    assert found.energy_by_cause_j is not None
    watts = {cause: found.energy_by_cause_j[cause] / found.latency_s for cause in ("background", "asic")}
    assert watts == pytest.approx({"background": 16 * 1.25 * 0.142, "asic": 0.30459}, rel=1e-9)


# The LM head and the traced window.

LM_HEAD = {"workload.lm_head": "true"}


def test_the_lm_head() -> None:
    """Specification 7.1: 28 us more a token."""
    tokens, (layers, d, h) = 8, ref.MODELS["gpt2"]
    plain, found = pim("gpt2", tokens), pim("gpt2", tokens, **LM_HEAD)
    assert (found.latency_s - plain.latency_s) / tokens * 1e6 == pytest.approx(28, abs=1)
    assert (plain.workload.lm_head, found.workload.lm_head) == (False, True)
    ts = range(1, tokens + 1)
    baseline = layers * sum(12 * d * d + 2 * d * t for t in ts) + tokens * d * VOCABULARY
    moved = layers * sum(ref.moved(d, h, t) for t in ts) + tokens * (8 * d + VOCABULARY)
    assert found.data_movement_reduction == pytest.approx(baseline / moved, rel=1e-12)
    assert found.command_counts and plain.command_counts
    macs = found.command_counts["MACab"] - plain.command_counts["MACab"]
    assert macs == 8 * tokens * ceil(VOCABULARY / 128) * d // 16


def test_the_whole_run_in_a_window() -> None:
    window = Window(0, 10**12)
    found = simulate(load_system("pim_gpt", LM_HEAD), load_llm("gpt2"), 2, window=window)
    names = Counter(event.step.name for event in window.events)
    last = {"final LayerNorm": 2, "LM head": 2, "LM head partial sums": 2}
    assert {name: names[name] for name in last} == last
    assert {n for name, n in names.items() if name not in last} == {24} and len(names) == 16 + 3
    assert window.events[-1].step.name == "LM head partial sums"
    assert window.events[-1].end_ps * 1e-12 == pytest.approx(found.latency_s, rel=1e-12)
    plain = simulate(load_system("pim_gpt", LM_HEAD), load_llm("gpt2"), 2)
    assert found == plain


def test_a_window_holds_what_overlaps_it() -> None:
    whole = Window(0, 10**12)
    simulate(load_system("pim_gpt", LM_HEAD), load_llm("gpt2"), 2, window=whole)
    names = [event.step.name for event in whole.events]
    at = names.index("LM head")
    head = whole.events[at]
    for early, late, held in ((0, 0, slice(at, at + 1)), (1, 0, slice(at - 1, at + 1)), (0, 1, slice(at, at + 2))):
        window = Window(head.start_ps - early, head.end_ps + late)
        simulate(load_system("pim_gpt", LM_HEAD), load_llm("gpt2"), 2, window=window)
        assert [event.step.name for event in window.events] == names[held]


# The monitor.


def early(found: Issue, stream: np.ndarray, opcode: int) -> Issue:
    """The first row of `opcode` a clock early, from its first command to its last."""
    at = np.flatnonzero(stream["cmd"] == opcode)[0]
    first, end = found.issue_ck[0].copy(), found.end_ck[0].copy()
    first[at], end[at] = first[at] - 1, end[at] - 1
    return found._replace(issue_ck=[first], end_ck=[end])


@pytest.mark.parametrize("refreshed", [False, True])
def test_check_finds_an_illegal_trace(monkeypatch: pytest.MonkeyPatch, refreshed: bool) -> None:
    """The engine issues MACs a clock too early: in undisturbed runs only, or in those that meet a refresh only."""
    right, met = Engine.issue, []

    def wrong(self: Engine, streams: Any, **how: Any) -> Issue:
        found, opcode = right(self, streams, **how), self.table.cmd("MACab")
        if how.get("refresh", True) is not refreshed or opcode not in streams[0]["cmd"]:
            return found
        met.append(how)
        return early(found, streams[0], opcode)

    monkeypatch.setattr(Engine, "issue", wrong)
    simulate(load_system("pim_gpt"), load_llm("gpt2"), 2)  # nobody looks
    with pytest.raises(RuntimeError, match='^illegal command trace, .* rule "ACTab to MACab" needs 24'):
        simulate(load_system("pim_gpt"), load_llm("gpt2"), 2, check=True)
    assert met


def test_check_sees_every_distinct_run(monkeypatch: pytest.MonkeyPatch) -> None:
    right, issued, watched, monitor = Engine.issue, [], [], module._monitor
    far = 2**40

    def issue(self: Engine, streams: Any, **how: Any) -> Issue:
        refresh = how.get("refresh", True)
        issued.append((streams[0].tobytes(), how["due_ck"] if refresh else far, how.get("refreshed_ck", -far)))
        return right(self, streams, **how)

    def watch(table: Any, stream: np.ndarray, found: Issue, due_ck: int, refreshed_ck: int) -> None:
        watched.append((stream.tobytes(), min(due_ck, far), max(refreshed_ck, -far)))
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "issue", right)
            monitor(table, stream, found, due_ck, refreshed_ck)

    monkeypatch.setattr(Engine, "issue", issue)
    monkeypatch.setattr(module, "_monitor", watch)
    system, spec = load_system("pim_gpt", LM_HEAD), load_llm("gpt2")
    checked = simulate(system, spec, 17, check=True)
    assert watched == [(stream, min(due, far), max(running, -far)) for stream, due, running in issued]
    assert len(set(watched)) == len(watched)
    # QKV, K, V, score, two lengths of p V, projection, FFN1, FFN2 and the LM head; more with refresh.
    assert sum(due == far for _, due, _ in watched) == 10 < len(watched)
    seen = len(watched)
    assert simulate(system, spec, 17) == checked and len(watched) == seen


# Rooflines.

TINY = {
    "hidden_size": 1000,
    "num_hidden_layers": 2,
    "num_attention_heads": 10,
    "num_key_value_heads": 10,
    "head_dim": 100,
    "intermediate_size": 4000,
    "attention_bias": False,
    "ffn_bias": False,
}  # 12 million weights a layer; 2000 values of K and V a layer and token


def tiny(**changes: int) -> LlmSpec:
    return msgspec.structs.replace(load_llm("gpt2"), name="tiny", **(TINY | changes))


def roofline(**overrides: object) -> System:
    defaults = {"peak_tflops": 1, "memory_gb_s": 28, "memory_bytes": 10**9, "element_bits": 16}
    defaults |= {"power_w": 70, "launch_us": 10, "kernels_per_layer": 24}
    return load_system("t4", {key: str(value) for key, value in (defaults | overrides).items()})


def spec_of(system: System) -> RooflineSystem:
    assert isinstance(system.spec, RooflineSystem)
    return system.spec


@pytest.mark.parametrize(
    ("overrides", "changes", "t", "ms"),
    [
        ({}, {}, 1000, 2.0),  # 14e6 values x 2 bytes / 28 GB/s, twice
        ({}, {}, 8000, 4.0),  # 28e6 values
        ({"element_bits": 32}, {}, 1000, 4.0),
        ({"memory_gb_s": 280}, {}, 1000, 0.2),
        ({"memory_gb_s": 2800, "peak_tflops": 0.028}, {}, 1000, 2.0),  # (2 x 12e6 + 4e6) / 0.028 TFLOPS, twice
        ({"memory_gb_s": 2800, "peak_tflops": 0.028}, {}, 8000, 4.0),
        ({}, {"num_key_value_heads": 5}, 3000, 2.0),  # (11e6 + 1000 x 3000) values
        ({"memory_gb_s": 2800, "peak_tflops": 0.017}, {"num_key_value_heads": 5}, 3000, 4.0),  # 22e6 + 12e6
        ({"memory_gb_s": 28, "peak_tflops": 0.0224}, {}, 7000, 2 * 52 / 22.4),  # 26e6 values, 52e6 operations
    ],
)
def test_a_token_on_a_roofline(overrides: dict[str, object], changes: dict[str, int], t: int, ms: float) -> None:
    """Of weights, keys and values; the activations between operators come on top."""
    found = Passes(roofline(**overrides), tiny(**changes), outside=False).token(t)
    assert ms * (1 - 1e-6) <= found.roofline_s * 1000 < 1.01 * ms
    assert found.launch_s == pytest.approx(2 * 24 * 10e-6, rel=1e-12)


def test_a_baselines_result() -> None:
    """Tokens 1 to 7: 2 x 2 bytes x (12e6 + 2000 t) / 28 GB/s each, and 480 us of launches; 70 W."""
    found = simulate(roofline(), tiny(), 7)
    work, launch = 4 * (7 * 12e6 + 2000 * 28) / 28e9, 7 * 480e-6
    assert found.roofline_s is not None and 1 < found.roofline_s / work < 1.01  # activations on top
    assert found.launch_s == pytest.approx(launch, rel=1e-12)
    work = found.roofline_s
    assert found.time_by_step_s == pytest.approx({"roofline": work, "kernel launch": launch}, rel=1e-12)
    assert found.latency_s == pytest.approx(work + launch, rel=1e-12)
    assert found.time_per_token_s == pytest.approx((work + launch) / 7, rel=1e-12)
    assert found.tokens_per_s == pytest.approx(7 / (work + launch), rel=1e-12)
    assert found.energy_j == pytest.approx(70 * (work + launch), rel=1e-12)
    assert found.energy_per_token_j == pytest.approx(10 * (work + launch), rel=1e-12)
    assert found.energy_by_cause_j == pytest.approx({"power x time": 70 * (work + launch)}, rel=1e-12)
    assert (found.power_w, found.memory_bytes, found.workload.generated_tokens) == (70, 10**9, 7)
    assert (found.row_hit_rate, found.command_counts, found.cycles, found.max_tokens) == (None,) * 4


def test_what_fits_a_baseline() -> None:
    """24 million weights and 4000 values a token, of two bytes."""
    exact = spec_of(roofline(memory_bytes=56_000_000))
    check_fits(exact, tiny(), 1000)
    with pytest.raises(UserError) as error:
        check_fits(exact, tiny(), 1001)
    said = "tiny with 1,001 tokens needs 56,008,000 bytes of memory, there are 56,000,000: at most 1,000 tokens fit"
    assert str(error.value) == said
    with pytest.raises(
        UserError,
        match="needs 48,008,000 bytes of memory, there are 47,999,999: "
        "its weights alone take 48,000,000; take more devices .--tp., a smaller model or --set memory_bytes=48008000$",
    ):
        simulate(roofline(memory_bytes=47_999_999), tiny(), 1)
    grouped = tiny(num_key_value_heads=5)  # 22 million weights, 2000 values a token
    check_fits(spec_of(roofline(memory_bytes=48_000_000)), grouped, 1000)
    with pytest.raises(UserError, match="needs 48,004,000 bytes .* at most 1,000 tokens fit$"):
        check_fits(spec_of(roofline(memory_bytes=48_000_000)), grouped, 1001)


@pytest.mark.parametrize("options", [{"check": True}, {"window": Window(0, 1)}])
def test_a_roofline_has_nothing_to_trace_or_check(options: dict[str, Any]) -> None:
    said = f"^--{'check' if 'check' in options else 'timeline'}: t4 is a roofline: it issues no commands to draw"
    with pytest.raises(UserError, match=f"{said} or check; leave it out$"):
        simulate(roofline(), tiny(), 1, **options)


@pytest.mark.parametrize("tokens", [0, -1])
def test_no_tokens(tokens: int) -> None:
    with pytest.raises(UserError, match=f"^--generate: expected at least 1 token, got {tokens}$"):
        simulate(roofline(), tiny(), tokens)


@pytest.mark.parametrize(("name", "heard"), [("pim_gpt", [1, 2, 3]), ("t4", [3])])
def test_progress(name: str, heard: list[int]) -> None:
    told: list[int] = []
    simulate(load_system(name), load_llm("gpt2"), 3, progress=told.append)
    assert told == heard
