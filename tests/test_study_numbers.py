"""The numbers of the PIM-GPT study, on results made by hand: ratios, deviations, and verdicts at every tolerance."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import System, load_system
from pimloom.reports.page import TableData
from pimloom.reports.pim_gpt import checks, sections
from pimloom.reports.pim_gpt.baselines import baselines
from pimloom.reports.pim_gpt.checks import Findings, published, reproduction_rows
from pimloom.reports.pim_gpt.closed_form import closed_form_us
from pimloom.reports.pim_gpt.points import LM_HEAD, MODELS, SERIAL, Point, all_points, channels, clock
from pimloom.reports.published import span
from pimloom.systems.devices.result import Result, Workload
from pimloom.systems.memory.aim.macab import macab_cycles
from tests import reference_model as ref

AT_100_MHZ, AT_16_CHANNELS = clock(100), channels(16)
COUNTS = {"MACab": 10**9, "ACTab": 10**8}
CAUSES = ("background", "activate", "read", "interface", "write", "refresh", "mac", "asic")
V1_JOULES = {  # of COUNTS in one second: V x mA x ns are pJ
    "background": 8 * 1.25 * 0.142,
    "activate": 1e8 * 1.25 * 122 * 24e-12,
    "read": 1e9 * 1.25 * (530 - 142) * 1e-12,
    "mac": 1e9 * 149.29e-12,
    "asic": 0.30459,
}
V1_TOTAL = 1.42 + 0.366 + 0.485 + 0.14929 + 0.30459


def made(system: str, model: str, latency_s: float = 1.0, **fields: Any) -> Result:
    """A result of 1000 tokens."""
    return Result(
        system=system,
        model=model,
        workload=Workload(0, 1000, 1, False),
        latency_s=latency_s,
        time_to_first_token_s=latency_s / 1000,
        time_per_output_token_s=latency_s / 1000,
        time_per_token_s=latency_s / 1000,
        tokens_per_s=1000 / latency_s,
        spec_digest="",
        version="",
        seed=0,
        **fields,
    )


def on_pim(model: str, latency_s: float = 1.0) -> Result:
    """One second, two joules of it interface; every figure lies within its tolerance."""
    ends = {"gpt2": 110.0, "gpt3-xl": 259.0}
    return made(
        "pim_gpt",
        model,
        latency_s,
        energy_j=10.0,
        energy_per_token_j=0.01,
        power_w=10.0,
        energy_by_cause_j=dict(zip(CAUSES, (1.0, 2.0, 1.0, 2.0, 0.5, 0.5, 2.0, 1.0), strict=True)),
        time_by_step_s={"QKV": 0.5, "score": 0.125, "p V": 0.125, "K write": 0.0625, "V write": 0.0625, "add": 0.125},
        row_hit_rate=0.98,
        data_movement_reduction=ends.get(model, 150.0),
        data_movement_reduction_on_wires=90.0,
        non_vmm_share=0.0116,
        mac_utilisation=0.6,
        command_counts=COUNTS,
        memory_needed_bytes=2**30,
        memory_bytes=2**32,
        max_tokens=9216,
    )


LATENCIES = {AT_100_MHZ: 1.1, clock(200): 1.05, clock(500): 1.02, AT_16_CHANNELS: 0.5, channels(32): 0.3125}
LATENCIES |= {LM_HEAD: 1.5, SERIAL: 1.0625, (): 1.0}


def made_for(point: Point) -> Result:
    if point.system == "pim_gpt":
        return on_pim(point.model, LATENCIES[point.overrides])
    times = {"t4": (40.0, 100.0, 35.0), "xeon_6154": (600.0, 900.0, 5.0)}
    roofline, latency, watts = times[point.system]
    joules = {"power x time": watts * latency}
    return made(point.system, point.model, latency, roofline_s=roofline, power_w=watts, energy_by_cause_j=joules)


GOOD = Findings({point: made_for(point) for point in all_points()})


def doctored(model: str, setting: tuple[tuple[str, str], ...] = (), **changes: Any) -> Findings:
    point = Point("pim_gpt", model, setting)
    return Findings({**GOOD.results, point: msgspec.structs.replace(GOOD.results[point], **changes)})


Row = Mapping[str, object]


def rows_of(found: Findings) -> dict[str, Row]:
    return {str(row["check"]): row for row in reproduction_rows(found)}


@pytest.fixture(scope="module")
def good() -> dict[str, Row]:
    return rows_of(GOOD)


@pytest.fixture(scope="module", autouse=True)
def simulated_once() -> Iterator[None]:
    """The AiM simulator's benchmark is in every table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "macab_cycles", cache(macab_cycles))
        yield


# The closed form.


@pytest.mark.parametrize("model", ref.MODELS)
def test_the_closed_form_is_the_reference_model(model: str) -> None:
    assert closed_form_us(model) == pytest.approx(ref.run(model).us_per_token, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "us"), [("gpt2", 83.0), ("gpt2-medium", 274.3), ("gpt2-xl", 1272.0), ("gpt3-xl", 983.7)]
)
def test_the_closed_form_of_the_specification(model: str, us: float) -> None:
    assert closed_form_us(model) == pytest.approx(us, rel=0.001)


# Ratios.


def test_ratios_of_latency() -> None:
    assert [GOOD.slowdown("gpt2", mhz) for mhz in (1000, 500, 200, 100)] == [1.0, 1.02, 1.05, 1.1]
    assert [GOOD.scaling("gpt2", n) for n in (8, 16, 32)] == [1.0, 2.0, 3.2]
    slow = doctored("gpt2", latency_s=2.0)
    assert (slow.slowdown("gpt2", 100), slow.scaling("gpt2", 16)) == (0.55, 4.0)
    for baseline, roofline, launch in (("t4", 40.0, 100.0), ("xeon_6154", 600.0, 900.0)):
        assert GOOD.speedup("gpt2", baseline, launch=False) == roofline
        assert GOOD.speedup("gpt2", baseline) == GOOD.speedup("gpt2", baseline, launch=True) == launch
        assert (slow.speedup("gpt2", baseline, False), slow.speedup("gpt2", baseline)) == (roofline / 2, launch / 2)


def test_ratios_of_energy() -> None:
    assert checks.joules(GOOD.base("gpt2")) == 10.0
    assert checks.joules(GOOD.base("gpt2"), interface=False) == 8.0
    assert GOOD.efficiency("gpt2", "t4") == 350.0  # 35 W x 100 s / 10 J
    assert GOOD.efficiency("gpt2", "xeon_6154") == 450.0
    assert GOOD.efficiency("gpt2", "t4", v1=True) == pytest.approx(3500 / V1_TOTAL, rel=1e-9)


def test_the_accounting_of_2023() -> None:
    assert set(GOOD.v1) == set(MODELS)
    for model in MODELS:
        v1 = GOOD.v1[model]
        nothing = dict.fromkeys(("write", "refresh", "interface"), 0.0)
        assert v1.energy_by_cause_j == pytest.approx(V1_JOULES | nothing, rel=1e-9)
        assert (v1.energy_j, v1.power_w) == pytest.approx((V1_TOTAL, V1_TOTAL), rel=1e-9)
        assert (v1.model, v1.latency_s) == (model, 1.0)


# What is shown.


@pytest.mark.parametrize(
    ("values", "pattern", "text"),
    [
        ([1.25], ".1f", "1.2"),
        ([3.0, 1.0, 2.0], ".0f", "1 to 3"),
        ([1.01, 1.04], ".1f", "1.0"),
        ([97.514, 98.6], ".2f", "97.51 to 98.60"),
    ],
)
def test_span(values: list[float], pattern: str, text: str) -> None:
    assert span(values, pattern) == text


def test_ours_as_shown(good: Mapping[str, Row]) -> None:
    assert {check: row["ours"] for check, row in good.items()} == {
        "parameters, GPT2-XL": "1.4",
        "parameters, GPT3-XL": "1.15",
        "operations per parameter, GPT3-XL": "2.1",
        "peak compute": "4.096",
        "power of the MAC units": "1194.3",
        "power of the ASIC": "304.6",
        "core area of the ASIC": "0.64",
        "AiM simulator, 1024 rows of 64 MACs": "231383",
        "row-hit rate, all models": "98.00",
        "data movement, least and most": "110.0 to 259.0",
        "non-VMM share, GPT3-XL": "1.16",
        "worst slow-down at 100 MHz": "10.0",
        "8 to 16 channels, least and most": "2.00",
        "tokens that GPT3-XL holds": "9216",
        "speed-up over T4, roofline": "40",
        "speed-up over T4, with launch cost": "100",
        "energy efficiency over T4, 2024 accounting": "350",
        "energy efficiency over T4, 2023 accounting": "1284",  # 3500 J / 2.72488 J
        "power of T4 / PIM-GPT, 2024 accounting": "3.50",
        "speed-up over Xeon, roofline": "600",
        "speed-up over Xeon, with launch cost": "900",
        "energy efficiency over Xeon, 2024 accounting": "450",
        "energy efficiency over Xeon, 2023 accounting": "1651",
        "power of Xeon / PIM-GPT, 2024 accounting": "0.50",
        "energy of 2024 over 2023 accounting, without interface": "2.94",  # 8 J / 2.72488 J
        "energy of 2024 over 2023 accounting, with interface": "3.67",
    }


def test_verdicts_of_what_lies_within(good: Mapping[str, Row]) -> None:
    verdicts = [row["verdict"] for row in good.values()]
    assert verdicts == ["pass"] * 14 + ["report only"] * 12
    kinds = [str(row["tolerance"]).split(":")[0] for row in good.values()]
    assert kinds == ["hard gate"] * 8 + ["soft"] * 5 + ["hard gate"] + ["report only"] * 12


def test_ranges_show_their_least_and_greatest() -> None:
    rows = rows_of(doctored("gpt2-large", latency_s=0.5, power_w=20.0))
    assert rows["speed-up over T4, roofline"]["ours"] == "40 to 80"
    assert rows["speed-up over Xeon, with launch cost"]["ours"] == "900 to 1800"
    assert rows["power of T4 / PIM-GPT, 2024 accounting"]["ours"] == "1.75 to 3.50"
    assert rows["worst slow-down at 100 MHz"]["ours"] == "120.0"
    assert rows["8 to 16 channels, least and most"]["ours"] == "1.00 to 2.00"


# Deviations.

HIT, MOVED, SLOW = "row-hit rate, all models", "data movement, least and most", "worst slow-down at 100 MHz"
TOKENS = "tokens that GPT3-XL holds"


@pytest.mark.parametrize(
    ("check", "model", "setting", "changes", "percent"),
    [
        (HIT, "gpt2", (), {}, 0.0),
        (HIT, "gpt2", (), {"row_hit_rate": 0.49}, -50.0),
        (HIT, "gpt2", (), {"row_hit_rate": 0.9996}, 2.0),
        (MOVED, "gpt2", (), {"data_movement_reduction": 130.0}, 0.0),  # inside
        (MOVED, "gpt2", (), {"data_movement_reduction": 99.0}, -10.0),
        (MOVED, "gpt3-xl", (), {"data_movement_reduction": 284.9}, 10.0),
        (MOVED, "gpt2", (), {"data_movement_reduction": 518.0}, 100.0),
        (SLOW, "gpt2", AT_100_MHZ, {"latency_s": 1.15}, 0.0),  # at most 20 %: nothing lies below
        (SLOW, "gpt2", AT_100_MHZ, {"latency_s": 1.25}, 25.0),
        (TOKENS, "gpt3-xl", (), {"max_tokens": 4048}, -50.0),
        (TOKENS, "gpt3-xl", (), {"max_tokens": 80960}, 0.0),  # at least 8096: nothing lies above
        ("non-VMM share, GPT3-XL", "gpt3-xl", (), {"non_vmm_share": 0.01276}, 10.0),
        ("8 to 16 channels, least and most", "gpt2", AT_16_CHANNELS, {"latency_s": 10.0}, None),  # qualitative
        ("speed-up over T4, roofline", "gpt2", (), {}, -2.4),  # 40 of 41
        ("speed-up over T4, with launch cost", "gpt2", (), {}, 0.0),
        ("power of T4 / PIM-GPT, 2024 accounting", "gpt2", (), {}, 16.7),  # 3.5 of 3.0
        ("power of Xeon / PIM-GPT, 2024 accounting", "gpt2", (), {}, -2.0),  # 0.50 of 0.51
        ("energy of 2024 over 2023 accounting, without interface", "gpt2", (), {}, 3.7),
    ],
)
def test_deviation(
    check: str, model: str, setting: tuple[tuple[str, str], ...], changes: dict[str, Any], percent: float | None
) -> None:
    row = rows_of(doctored(model, setting, **changes))[check]
    assert row["deviation"] == percent and str(row["deviation"]) != "-0.0"


@pytest.mark.parametrize(("low", "high", "percent"), [(99.0, 264.0, -10.0), (108.9, 310.8, 20.0), (110.0, 259.0, 0.0)])
def test_deviation_is_that_of_the_worse_end(low: float, high: float, percent: float) -> None:
    here = doctored("gpt2", data_movement_reduction=low).results[Point("pim_gpt", "gpt2")]
    found = doctored("gpt3-xl", data_movement_reduction=high).results
    assert rows_of(Findings({**found, Point("pim_gpt", "gpt2"): here}))[MOVED]["deviation"] == percent


def test_deviations_of_the_configuration(good: Mapping[str, Row]) -> None:
    """From the value itself, not from its printed digits."""
    found = [row["deviation"] for row in list(good.values())[:8]]
    assert found == [0.4, 0.2, -0.8, 0.0, 0.0, 0.0, 0.0, 0.0]  # 1.40625, 1.152, 2 + 1025 / 12288


# Verdicts at the edge of each tolerance.


def changed_verdicts(found: Findings, good: Mapping[str, Row]) -> dict[str, object]:
    return {check: row["verdict"] for check, row in rows_of(found).items() if row["verdict"] != good[check]["verdict"]}


SCALE, SHARE = "8 to 16 channels, least and most", "non-VMM share, GPT3-XL"


@pytest.mark.parametrize(
    ("check", "model", "setting", "field", "inside", "outside"),
    [
        (HIT, "gpt2", (), "row_hit_rate", 0.97501, 0.97499),
        (HIT, "gpt3-xl", (), "row_hit_rate", 0.98599, 0.98601),
        (MOVED, "gpt2", (), "data_movement_reduction", 106.71, 106.69),
        (MOVED, "gpt2", (), "data_movement_reduction", 113.29, 113.31),
        (MOVED, "gpt3-xl", (), "data_movement_reduction", 251.24, 251.22),
        (MOVED, "gpt3-xl", (), "data_movement_reduction", 266.76, 266.78),
        (SHARE, "gpt3-xl", (), "non_vmm_share", 0.00901, 0.00899),
        (SHARE, "gpt3-xl", (), "non_vmm_share", 0.01499, 0.01501),
        (SLOW, "gpt2", AT_100_MHZ, "latency_s", 1.2199, 1.2201),
        (SLOW, "gpt3-large", AT_100_MHZ, "latency_s", 1.2199, 1.2201),
        (SCALE, "gpt2", AT_16_CHANNELS, "latency_s", 1 / 1.7501, 1 / 1.7499),
        (SCALE, "gpt3-large", AT_16_CHANNELS, "latency_s", 1 / 1.7501, 1 / 1.7499),
        (SCALE, "gpt3-xl", AT_16_CHANNELS, "latency_s", 1 / 1.9001, 1 / 1.8999),
        (TOKENS, "gpt3-xl", (), "max_tokens", 8096, 8095),
    ],
)
def test_simulated_values_at_the_edge(
    good: Mapping[str, Row],
    check: str,
    model: str,
    setting: tuple[tuple[str, str], ...],
    field: str,
    inside: float,
    outside: float,
) -> None:
    assert changed_verdicts(doctored(model, setting, **{field: inside}), good) == {}
    verdict = "FAIL" if check == TOKENS else "deviates"
    assert changed_verdicts(doctored(model, setting, **{field: outside}), good) == {check: verdict}


def with_ffn(name: str, width: int) -> Callable[[str], LlmSpec]:
    """Models as they are, but `name` with an FFN of another width: 2 L d weights for each neuron."""

    def load(model: str) -> LlmSpec:
        spec = load_llm(model)
        return msgspec.structs.replace(spec, intermediate_size=width) if model == name else spec

    return load


@pytest.mark.parametrize(
    ("check", "name", "inside", "outside"),
    [  # 0.1465 M a neuron of GPT2-XL, 1350 to 1450 M; 0.09375 M of GPT3-XL, 1145 to 1155 M
        ("parameters, GPT2-XL", "gpt2-xl", 6400 + 298, 6400 + 299),
        ("parameters, GPT2-XL", "gpt2-xl", 6400 - 383, 6400 - 385),
        ("parameters, GPT3-XL", "gpt3-xl", 8192 + 31, 8192 + 33),
        ("parameters, GPT3-XL", "gpt3-xl", 8192 - 74, 8192 - 75),
    ],
)
def test_parameters_at_the_edge(
    good: Mapping[str, Row], monkeypatch: pytest.MonkeyPatch, check: str, name: str, inside: int, outside: int
) -> None:
    monkeypatch.setattr(checks, "load_llm", with_ffn(name, inside))
    assert changed_verdicts(GOOD, good) == {}
    monkeypatch.setattr(checks, "load_llm", with_ffn(name, outside))
    assert changed_verdicts(GOOD, good) == {check: "FAIL"}


@pytest.mark.parametrize(("inside", "outside"), [(614, 613), (1842, 1843)])
def test_operations_per_parameter_at_the_edge(
    good: Mapping[str, Row], monkeypatch: pytest.MonkeyPatch, inside: int, outside: int
) -> None:
    """2 + (T + 1) / 12288 from 2.05 to 2.15."""
    monkeypatch.setattr(checks, "TOKENS", inside)
    assert changed_verdicts(GOOD, good) == {}
    monkeypatch.setattr(checks, "TOKENS", outside)
    assert changed_verdicts(GOOD, good) == {"operations per parameter, GPT3-XL": "FAIL"}


def system_with(place: str, value: float) -> Callable[..., System]:
    """`load_system`, but with `value` at a dotted place of the system or, behind `part.`, of its part."""

    def put(struct: Any, steps: list[str]) -> Any:
        inner = put(getattr(struct, steps[0]), steps[1:]) if steps[1:] else value
        return msgspec.structs.replace(struct, **{steps[0]: inner})

    def load(name: str, overrides: Mapping[str, str] | None = None) -> System:
        system, (root, *steps) = load_system(name, overrides or {}), place.split(".")
        return replace(system, **{root: put(getattr(system, root), steps)})

    return load


@pytest.mark.parametrize(
    ("check", "place", "inside", "outside"),
    [
        ("power of the MAC units", "part.pim_unit.mac_power_mw", 149.293, 149.294),  # 1194.25 to 1194.35 mW
        ("power of the MAC units", "part.pim_unit.mac_power_mw", 149.282, 149.281),
        ("power of the ASIC", "spec.npu.power_mw", 304.64, 304.66),
        ("power of the ASIC", "spec.npu.power_mw", 304.56, 304.54),
        ("core area of the ASIC", "spec.npu.area_mm2", 0.644, 0.646),
        ("core area of the ASIC", "spec.npu.area_mm2", 0.636, 0.634),
        ("peak compute", "part.pim_unit.lanes", 16, 17),
        ("peak compute", "part.pim_unit.lanes", 16, 15),
        ("peak compute", "part.organization.bank_groups", 4, 5),
        ("peak compute", "part.tCK_ps", 500, 501),
    ],
)
def test_configuration_at_the_edge(
    good: Mapping[str, Row],
    monkeypatch: pytest.MonkeyPatch,
    check: str,
    place: str,
    inside: float,
    outside: float,
) -> None:
    monkeypatch.setattr(checks, "load_system", system_with(place, inside))
    assert changed_verdicts(GOOD, good) == {}
    monkeypatch.setattr(checks, "load_system", system_with(place, outside))
    assert changed_verdicts(GOOD, good) == {check: "FAIL"}


def test_channels_count_in_peak_and_power(good: Mapping[str, Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "load_system", system_with("spec.dram.channels", 7))
    assert changed_verdicts(GOOD, good) == {"peak compute": "FAIL", "power of the MAC units": "FAIL"}


@pytest.mark.parametrize("cycles", [231_382, 231_384])
def test_aim_cycles_at_the_edge(good: Mapping[str, Row], monkeypatch: pytest.MonkeyPatch, cycles: int) -> None:
    monkeypatch.setattr(checks, "macab_cycles", lambda: cycles)
    assert changed_verdicts(GOOD, good) == {"AiM simulator, 1024 rows of 64 MACs": "FAIL"}


def test_ratios_never_fail(good: Mapping[str, Row]) -> None:
    far = {
        p: msgspec.structs.replace(r, latency_s=1e6) if p.system != "pim_gpt" else r for p, r in GOOD.results.items()
    }
    assert changed_verdicts(Findings(far), good) == {}


# What the paper says, typed from sections 5, 6 and 9 of the specification.

PAPER = {
    "params_gpt2_xl": (1.4, 1.4, "paper"),
    "params_gpt3_xl": (1.15, 1.15, "paper"),
    "ops_per_parameter": (2.1, 2.1, "paper"),
    "speedup_t4": (41, 137, "paper"),
    "speedup_cpu": (631, 1074, "paper"),
    "energy_t4_v1": (339, 1085, "paper"),
    "energy_t4": (123, 383, "paper"),
    "energy_cpu_v1": (890, 1632, "paper"),
    "energy_cpu": (320, 602, "paper"),
    "row_hit": (98, 98, "secondary"),
    "data_reduction": (110, 259, "secondary"),
    "non_vmm_gpt3_xl": (1.16, 1.16, "secondary"),
    "slowdown_100mhz": (None, 20, "secondary"),
    "channel_scaling": (None, None, "secondary"),
    "tokens_gpt3_xl": (8096, None, "recalled"),
    "peak": (4.096, 4.096, "derived"),
    "power_mac": (1194.3, 1194.3, "secondary"),
    "power_asic": (304.6, 304.6, "secondary"),
    "area_asic": (0.64, 0.64, "secondary"),
    "power_ratio_t4": (2.8, 3.0, "derived"),
    "power_ratio_cpu": (0.51, 0.56, "derived"),
    "energy_factor": (2.71, 2.83, "derived"),
    "aim_macab": (231_383, 231_383, "derived"),
}


def test_published_values_and_their_evidence() -> None:
    lines = published()
    assert {id: (line.low, line.high, line.tag) for id, line in lines.items()} == PAPER
    assert all(line.id == id for id, line in lines.items())
    versions = {id: line.version for id, line in lines.items() if id.startswith(("energy_t4", "energy_cpu", "speedup"))}
    energy = {"energy_t4_v1": "v1", "energy_t4": "v2", "energy_cpu_v1": "v1", "energy_cpu": "v2"}
    assert versions == energy | {"speedup_t4": "v1 and v2", "speedup_cpu": "v1 and v2"}


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("row_hit", "98"),
        ("speedup_t4", "41 to 137"),
        ("slowdown_100mhz", "≤ 20"),
        ("tokens_gpt3_xl", "≥ 8096"),
        ("channel_scaling", "qualitative"),
        ("power_ratio_t4", "2.8 to 3"),
    ],
)
def test_published_values_as_shown(good: Mapping[str, Row], id: str, text: str) -> None:
    assert published()[id].text == text
    shown = {(row["id"], row["published"], row["tag"], row["unit"]) for row in good.values() if row["id"] == id}
    assert shown == {(id, text, PAPER[id][2], published()[id].unit)}


# Tables of the chapters.


def table_rows(blocks: Any, title: str) -> list[Mapping[str, Any]]:
    (table,) = [b for b in blocks if isinstance(b, TableData) and b.title.startswith(title)]
    return list(table.rows)


def test_time_by_group() -> None:
    """Score, p V and the writes of K and V are attention; what is no step of the PIM is the ASIC's."""
    groups = {"QKV": 0.5, "projection": 0.0, "FFN1": 0.0, "FFN2": 0.0, "attention": 0.375, "ASIC": 0.125}
    assert sections.grouped_time_s(GOOD.base("gpt2")) == groups
    (row,) = [r for r in table_rows(sections.latency(GOOD).blocks, "Latency") if r["model"] == "gpt2"]
    shown = {"us": 1000.0, "tokens": 1000.0, "QKV": 500.0, "attention": 375.0, "ASIC": 125.0, "mac": 60.0}
    assert {name: row[name] for name in shown} == pytest.approx(shown, rel=1e-12)
    assert row["closed"] == pytest.approx(83.0, rel=0.001)
    assert row["deviation"] == pytest.approx(100 * (1000 / ref.run("gpt2").us_per_token - 1), rel=1e-9)


@pytest.mark.usefixtures("undrawn")
def test_tables_of_the_chapters() -> None:
    first = {"model": "gpt2", "mj": 10.0, "w": 10.0, "v1": pytest.approx(V1_TOTAL), "activate": 2.0, "asic": 1.0}
    row = table_rows(sections.energy(GOOD).blocks, "Energy per token")[0]
    assert {name: row[name] for name in first} == first
    row = table_rows(sections.locality(GOOD).blocks, "Row hits")[0]
    assert row == {"model": "gpt2", "hit": 98.0, "moved": 110.0, "wires": 90.0, "share": pytest.approx(1.16)}
    row = table_rows(sections.capacity(GOOD).blocks, "Memory")[0]
    assert row == {"model": "gpt2", "need": 1024.0, "share": 25.0, "tokens": 9216}
    row = table_rows(baselines(GOOD).blocks, "Baselines")[0]
    shown = {"roofline": 40.0, "total": 100.0, "low": 40.0, "high": 100.0, "energy": 350.0}
    assert row == {"baseline": "NVIDIA T4", "model": "gpt2", **shown}


@pytest.mark.usefixtures("undrawn")
def test_tables_of_sweeps_and_options() -> None:
    blocks = sections.sensitivity(GOOD).blocks
    row = table_rows(blocks, "Clock and channel sweeps")[0]
    assert row == {"model": "gpt2", "slow": 1.1, "two": 2.0, "four": 3.2}
    found = {(r["option"], r["model"]): (r["us"], r["percent"]) for r in table_rows(blocks, "Options")}
    head, serial = pytest.approx((500.0, 50.0)), pytest.approx((62.5, 6.25))
    models = ("gpt2", "gpt3-xl")
    expected = {("with LM head", model): head for model in models}
    assert found == expected | {("serial result read-out", model): serial for model in models}
