"""PIM-GPT's golden values, typed from section 7 of its specification, against the closed form and the exact machine."""

from fractions import Fraction
from functools import cache
from typing import NamedTuple

import pytest

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.part import Part
from pimloom.arch.program import PimStep
from pimloom.arch.system import PimSystem, load_system
from pimloom.arch.table import Table, compile_table
from pimloom.arch.units import mhz_to_ps
from pimloom.cycle_sim.asic import latency_cyc
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.machine import Machine, Outcome, command_counts
from pimloom.mappers.decode import Decoder
from pimloom.mappers.geometry import geometry
from pimloom.mappers.plan import Plan, max_tokens, plan
from pimloom.workload.need import weights
from tests import reference_model as ref
from tests.slow import slow

TOKENS = 1024
AIM_ROW = {  # every row costs 28 + 16 ns, and nothing is refreshed
    **{f"dram.timing.{name}": "28 ns" for name in ("tRCDMAC", "tRCDRD", "tRCDWR", "tRAS")},
    **{f"dram.timing.{name}": "16 ns" for name in ("tRP", "nPREIO")},
    "dram.timing.tRC": "44 ns",
}
AIM = ref.Memory(tRCD=28, tRP=16)
CLOSED_FORM = {  # us/token (0: not given), non-VMM %, row hit, x slower at 100 MHz, speed-up at 2x and 4x channels
    **dict.fromkeys(("gpt2", "gpt3-small"), (83.0, 2.29, 0.9817, 1.205, 1.81, 2.70)),
    **dict.fromkeys(("gpt2-medium", "gpt3-medium"), (274.3, 1.88, 0.9826, 1.169, 1.85, 3.22)),
    "gpt2-large": (0, 1.84, 0.9827, 1.165, 1.86, 3.04),
    "gpt2-xl": (1272.0, 1.56, 0.9830, 1.140, 1.83, 3.08),
    "gpt3-large": (0, 1.47, 0.9831, 1.132, 1.89, 3.38),
    "gpt3-xl": (983.7, 1.13, 0.9835, 1.102, 1.91, 3.52),
}
DISTINCT = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3-large", "gpt3-xl")
ROWS_AND_TOKENS = ((660, 111_616), (2304, 37_120), (5436, 15_360), (11_616, 3_840), (5184, 19_456), (9216, 9_216))
CAPACITY = dict(zip(DISTINCT, ROWS_AND_TOKENS, strict=True))
REDUCTION = dict(zip(DISTINCT, (108.9, 140.1, 157.5, 190.8, 195.2, 258.6), strict=True))
MAPPING = [  # model, matrix, outputs per bank, MAC commands, rows per bank, chunks, ns
    ("gpt2", "QKV", 18, 864, 14, 1, 1249),
    ("gpt2", "projection", 6, 288, 5, 1, 457),
    ("gpt2", "FFN1", 24, 1152, 18, 1, 1633),
    ("gpt2", "FFN2", 6, 1152, 18, 3, 1777),
    ("gpt3-xl", "QKV", 48, 6144, 96, 2, 8577),
    ("gpt3-xl", "projection", 16, 2048, 32, 2, 2945),
    ("gpt3-xl", "FFN1", 64, 8192, 128, 2, 11393),
    ("gpt3-xl", "FFN2", 16, 8192, 128, 8, 11777),
]


class Bench(NamedTuple):
    """A model mapped onto PIM-GPT."""

    pim: PimSystem
    part: Part
    table: Table
    spec: LlmSpec
    plan: Plan
    decoder: Decoder

    def machine(self, refresh: bool) -> Machine:
        npu = self.pim.npu
        return Machine(self.table, 500, mhz_to_ps(npu.clock_mhz), lambda s: latency_cyc(npu, s), refresh=refresh)


@cache
def bench(name: str, **overrides: str) -> Bench:
    system, spec = load_system("pim_gpt", overrides), load_llm(name)
    assert isinstance(system.spec, PimSystem) and system.part
    table, made = compile_table(system.part), plan(spec, geometry(system.part, system.spec.dram.channels), TOKENS)
    return Bench(system.spec, system.part, table, spec, made, Decoder(made, table))


@cache
def whole_run(name: str, refresh: bool = True, **overrides: str) -> Outcome:
    """All tokens; all layers with refresh, one layer without, where all layers take the same."""
    b = bench(name, **overrides)
    machine, layers = b.machine(refresh), b.spec.num_hidden_layers if refresh else 1
    for t in range(1, TOKENS + 1):
        machine.run(b.decoder.layer_steps(t), times=layers)
    return machine.outcome


def asic_ps(out: Outcome) -> int:
    return sum(out.quiet_ps[step] for step in out.asic_steps)


def count(b: Bench, step: PimStep, name: str) -> int:
    return int(step.stream["count"][step.stream["cmd"] == b.table.cmd(name)].sum())


def step_of(b: Bench, name: str, t: int) -> PimStep:
    return next(s for s in b.decoder.layer_steps(t) if isinstance(s, PimStep) and s.name == name)


# 7.1 The closed form.


@pytest.mark.parametrize("name", CLOSED_FORM)
def test_the_closed_form_gives_its_table(name):
    us, share, hit, slower, twice, four_times = CLOSED_FORM[name]
    found = ref.run(name)
    if us:
        assert found.us_per_token == pytest.approx(us, rel=0.001)
    assert found.non_vmm * 100 == pytest.approx(share, abs=0.02)
    assert found.row_hit == pytest.approx(hit, abs=0.0002)
    assert ref.run(name, a=ref.Asic(ghz=0.1)).us_per_token / found.us_per_token == pytest.approx(slower, abs=0.01)
    assert found.us_per_token / ref.run(name, ref.Memory(16)).us_per_token == pytest.approx(twice, abs=0.01)
    assert found.us_per_token / ref.run(name, ref.Memory(32)).us_per_token == pytest.approx(four_times, abs=0.01)


@pytest.mark.parametrize(
    ("name", "shares"),
    [("gpt3-xl", (22.5, 7.7, 29.9, 30.9, 7.9, 1.1)), ("gpt2", (19.5, 7.1, 25.5, 27.7, 17.9, 2.3))],
)
def test_shares_of_a_layer(name, shares):
    layer = ref.layer(*ref.MODELS[name][1:], 512)
    assert [100 * layer.time[part] / layer.total for part in ref.PARTS] == pytest.approx(shares, abs=0.1)


def test_the_closed_forms_variants():
    assert ref.run("gpt3-xl", a=ref.Asic(fill=16)).non_vmm == pytest.approx(0.0129, abs=0.0002)
    slow, fast = (ref.run("gpt2", a=ref.Asic(ghz, fill=16)).us_per_token for ghz in (0.1, 1))
    assert slow / fast == pytest.approx(1.29, abs=0.01)
    for name in DISTINCT:  # fully serial read-out
        serial = ref.run(name, ref.Memory(serial=True)).us_per_token / ref.run(name).us_per_token
        assert 1.01 < serial < 1.02
    for d, h, longer, without in ((768, 12, 101.9, 111.3), (2048, 16, 247.7, 263.9)):  # data reduction
        assert ref.data_reduction(d, h, tokens=2048) == pytest.approx(longer, abs=0.1)
        assert ref.data_reduction(d, h, write_back=False) == pytest.approx(without, abs=0.1)
    assert ref.data_reduction(2048, 24) == pytest.approx(248.5, abs=0.1)
    head = [ref.Vmm(d, 50257).time(ref.PIM) * ref.REFRESH / 1000 for d in (768, 2048)]
    assert head == pytest.approx([28, 74], abs=0.5)
    more = [head[0] / ref.run("gpt2").us_per_token, head[1] / ref.run("gpt3-xl").us_per_token]
    assert more == pytest.approx([0.34, 0.08], abs=0.005)


@pytest.mark.parametrize(("name", "every_row", "attention_24"), [("gpt2", 94.7, 92), ("gpt3-xl", 1123, 1111)])
def test_the_closed_form_with_aim_rows(name, every_row, attention_24):
    assert ref.run(name, AIM, refresh=1).us_per_token == pytest.approx(every_row, rel=0.002)
    assert round(ref.run(name, AIM._replace(attention_row=24), refresh=1).us_per_token) == attention_24


def test_row_rate():
    """64 MACs fill 64 of 88 ns, with AiM's rows 64 of 113 ns (28 ns, 63 MACs, 12 clocks tRTP, 16 ns)."""
    assert round(64 / (64 + ref.PIM.row), 3) == 0.727
    assert round(64 / (28 + 63 + 6 + 16), 3) == 0.566


# 7.1 The machine: the closed form, and exactly what it rounds away.


def straddles(d: int, t: int, banks: int = 128) -> int:
    """Rows that the K write of token t touches beyond one for each chunk."""
    slot, widths = (t - 1) // banks, [min(1024, d - first) for first in range(0, d, 1024)]
    return sum((slot * w + w - 1) // 1024 - slot * w // 1024 for w in widths)


def rounded_away(d: int, t: int, m: ref.Memory) -> Fraction:
    """ns: K slots across a row's end open two rows; p comes in whole bursts of 16 values, once for each slot of V."""
    part_of_a_burst = -(-t // 16) - Fraction(t, 16)
    return straddles(d, t, m.banks) * Fraction(m.tRCD + m.tWR + m.tRP) + -(-d // m.banks) * part_of_a_burst


def explained_us(name: str, m: ref.Memory = ref.PIM, refresh: float = 1.0) -> float:
    layers, d, h = ref.MODELS[name]
    total = sum(ref.layer(d, h, t, m).total + float(rounded_away(d, t, m)) for t in range(1, TOKENS + 1))
    return layers * total * refresh / TOKENS / 1000


@pytest.mark.parametrize(
    ("name", "m", "overrides"),
    [(name, ref.PIM, {}) for name in DISTINCT]
    + [(name, AIM, AIM_ROW) for name in ("gpt2", "gpt2-xl")]
    + [(name, ref.Memory(n), {"dram.channels": str(n)}) for name in ("gpt2", "gpt2-xl") for n in (16, 32)],
)
@pytest.mark.parametrize("every", [11, slow(1)])
def test_the_machine_is_the_closed_form_exactly(name, m, overrides, every):
    """At every t, or at every eleventh, without refresh; neither PIM nor ASIC time is rounded."""
    b, (_, d, h) = bench(name, **overrides), ref.MODELS[name]
    machine, before_pim, before_asic = b.machine(refresh=False), 0, 0
    for t in range(1, TOKENS + 1, every):
        machine.run(b.decoder.layer_steps(t))
        out, cost = machine.outcome, ref.layer(d, h, t, m)
        asic = asic_ps(out)
        pim = sum(out.quiet_ps.values()) - asic
        assert asic - before_asic == 1000 * cost.asic
        assert pim - before_pim == 1000 * (Fraction(cost.total - cost.asic) + rounded_away(d, t, m))
        before_pim, before_asic = pim, asic
    assert machine.outcome.end_ps == pim + asic  # nothing waits for a clock edge


def test_half_of_the_slots_straddle():
    found = {d: sum(straddles(d, t) for t in range(1, 1025)) for d in (768, 1024, 1280, 1536, 1600, 2048)}
    assert found == {768: 512, 1024: 0, 1280: 0, 1536: 0, 1600: 512, 2048: 0}


@pytest.mark.parametrize("name", ["gpt2-medium", slow("gpt2-xl"), slow("gpt3-xl")])
def test_the_machine_with_refresh(name):
    found, (us, share, hit, *_) = whole_run(name), CLOSED_FORM[name]
    assert found.end_ps / TOKENS / 1e6 == pytest.approx(us, rel=0.001)
    check_share_and_hits(name, found, share, hit)


def test_the_machine_with_refresh_where_slots_straddle():
    """0.024 % below what is explained: a layer lasts about one tREFI, so that many a REFab runs beside the softmax."""
    found, (us, share, hit, *_) = whole_run("gpt2"), CLOSED_FORM["gpt2"]
    assert found.end_ps / TOKENS / 1e6 == pytest.approx(explained_us("gpt2", refresh=ref.REFRESH), rel=0.0003)
    assert found.end_ps / TOKENS / 1e6 == pytest.approx(us * 1.003, rel=0.0002)
    check_share_and_hits("gpt2", found, share, hit)


def check_share_and_hits(name: str, out: Outcome, share: float, hit: float) -> None:
    assert 100 * asic_ps(out) / sum(out.quiet_ps.values()) == pytest.approx(share, abs=0.02)
    assert row_hit(name, out) == pytest.approx(hit, abs=0.0002)


def row_hit(name: str, out: Outcome) -> float:
    steps = [out.steps[key] for key in out.executions]
    n = command_counts(bench(name).table, steps, list(out.executions.values()), channels=1)
    return 1 - (n["ACTab"] + n["ACT"]) / (n["MACab"] + n["WR"] + n["WRAab"])


@pytest.mark.parametrize(("name", "us"), [("gpt2", 94.7), ("gpt3-xl", 1123)])
def test_the_machine_with_aim_rows(name, us):
    found = ref.MODELS[name][0] * whole_run(name, False, **AIM_ROW).end_ps / TOKENS / 1e6
    assert found == pytest.approx(explained_us(name, AIM), rel=1e-12)
    assert found == pytest.approx(us * {"gpt2": 1.0036, "gpt3-xl": 1}[name], rel=0.002)


# 7.2 to 7.4 The mapping.


@pytest.mark.parametrize(("name", "matrix", "slots", "macs", "rows", "chunks", "ns"), MAPPING)
def test_mapping_counts_and_time(name, matrix, slots, macs, rows, chunks, ns):
    b = bench(name)
    layout = b.plan.layer().weights[ref.PARTS.index(matrix)]
    assert (layout.slots, layout.rows, len(layout.chunks)) == (slots, rows, chunks)
    step = step_of(b, matrix, 1)
    assert [count(b, step, c) for c in ("MACab", "ACTab", "RDMAC")] == [macs, rows, slots * chunks]
    assert issue(b.table, [step.stream], refresh=False).idle_ck * 500 == ns * 1000


@pytest.mark.parametrize(("name", "macs", "rows"), [("gpt2", 192, (3, 6)), ("gpt3-xl", 512, (8, 16))])
def test_attention_counts_at_512(name, macs, rows):
    b = bench(name)
    steps = [step_of(b, matrix, 512) for matrix in ("score", "p V")]
    assert [count(b, step, "MACab") for step in steps] == [macs, macs]
    assert tuple(count(b, step, "ACTab") for step in steps) == rows


@pytest.mark.parametrize(("name", "capacity"), CAPACITY.items())
def test_capacity(name, capacity):
    """Weight rows per bank, and the largest token count in steps of 128."""
    b = bench(name)
    assert (b.plan.weight_rows, max_tokens(b.spec, b.plan.geo)) == capacity
    assert (ref.weight_rows(name), ref.max_tokens(name)) == capacity


@pytest.mark.parametrize("name", DISTINCT)
def test_data_reduction(name):
    decoder, (_, d, h), moved, baseline = bench(name).decoder, ref.MODELS[name], 0, 0
    for t in range(1, TOKENS + 1):
        steps = [s for s in decoder.layer_steps(t) if isinstance(s, PimStep)]
        here = sum(s.sent_values + s.received_values for s in steps)
        assert here == ref.moved(d, h, t)
        moved, baseline = moved + here, baseline + decoder.moved_by_baseline(t)
    assert baseline / moved == pytest.approx(REDUCTION[name], abs=0.1)
    assert baseline / moved == pytest.approx(ref.data_reduction(d, h), rel=1e-12)


# 9 The reproduction table: rows 1 to 10. Rows 14 to 16 have files of their own.


def test_published_shape_of_the_models():
    """Rows 1 (1.4 and 1.15 billion parameters, in units of 2**20), 2, 8, 9 and 10."""
    sizes = {name: weights(load_llm(name)).blocks for name in ("gpt2-xl", "gpt3-xl")}
    assert [n // 2**20 for n in sizes.values()] == [1406, 1152]
    assert [round(n / 1e9, 3) for n in sizes.values()] == [1.475, 1.208]
    b = bench("gpt3-xl")
    assert round(2 * 24 * b.decoder.moved_by_baseline(TOKENS // 2) / sizes["gpt3-xl"], 1) == 2.1
    assert max_tokens(b.spec, b.plan.geo) >= 8096
    channels, unit = b.pim.dram.channels, b.part.pim_unit
    assert unit and b.part.cycles("tCCD_L") * b.part.tCK_ps == 1000
    assert 2 * channels * b.part.organization.banks * unit.lanes * 10**9 == 4_096_000_000_000
    assert (round(channels * unit.mac_power_mw, 1), round(b.pim.npu.power_mw, 1)) == (1194.3, 304.6)


@pytest.mark.parametrize("names", [("gpt2", "gpt3-xl"), slow(DISTINCT)])
def test_published_results(names):
    """Rows 3 to 7; the smallest and the largest model have the extremes."""
    here = {name: whole_run(name, refresh=False) for name in names}
    assert all(0.975 < row_hit(name, out) < 0.986 for name, out in here.items())
    assert [REDUCTION["gpt2"], REDUCTION["gpt3-xl"]] == pytest.approx([110, 259], rel=0.03)
    assert 0.009 < asic_ps(here["gpt3-xl"]) / here["gpt3-xl"].end_ps < 0.015
    slow = {n: whole_run(n, False, **{"npu.clock_mhz": "100"}).end_ps / here[n].end_ps for n in names}
    assert slow == pytest.approx({name: CLOSED_FORM[name][3] for name in names}, abs=0.01)
    assert max(slow.values()) <= 1.22
    wide = {n: here[n].end_ps / whole_run(n, False, **{"dram.channels": "16"}).end_ps for n in names}
    assert wide == pytest.approx({n: CLOSED_FORM[n][4] for n in names}, abs=0.01)
    assert min(wide.values()) >= 1.75 and wide["gpt3-xl"] >= 1.9
