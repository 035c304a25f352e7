"""The reproduction table: our value beside the published one, the deviation and the verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import PimSystem, load_system
from pimloom.reports.pim_gpt.points import (
    CHANNELS,
    CLOCKS_MHZ,
    MODELS,
    TOKENS,
    V1,
    Point,
    channels,
    clock,
)
from pimloom.reports.published import Published, read_published, span
from pimloom.systems.devices.result import Result
from pimloom.systems.devices.simulate import account
from pimloom.systems.memory.aim.macab import macab_cycles
from pimloom.workload.need import weights

HARD, SOFT, REPORT = "hard gate", "soft", "report only"
MEBI = 2**20  # the paper's millions of parameters are 2^20 [derived]


def published() -> dict[str, Published]:
    """All lines of paper.csv by id."""
    return read_published(Path(__file__).parent)


@dataclass(frozen=True)
class Findings:
    """Everything the study computed, and the figures derived from it."""

    results: Mapping[Point, Result]

    def base(self, model: str) -> Result:
        """A model on PIM-GPT as it is."""
        return self.results[Point("pim_gpt", model)]

    def slowdown(self, model: str, mhz: int) -> float:
        """Latency at an ASIC clock over latency at 1 GHz."""
        return self.results[Point("pim_gpt", model, clock(mhz))].latency_s / self.base(model).latency_s

    def scaling(self, model: str, n: int) -> float:
        """Speed-up with n channels over eight."""
        return self.base(model).latency_s / self.results[Point("pim_gpt", model, channels(n))].latency_s

    def speedup(self, model: str, baseline: str, launch: bool = True) -> float:
        """Latency of a baseline over ours, with or without its kernel-launch cost."""
        other = self.results[Point(baseline, model)]
        seconds = other.latency_s if launch else other.roofline_s
        assert seconds is not None
        return seconds / self.base(model).latency_s

    def efficiency(self, model: str, baseline: str, v1: bool = False) -> float:
        """Energy of a baseline (launch cost included) over ours, in the 2024 or the 2023 accounting."""
        return joules(self.results[Point(baseline, model)]) / joules(self.v1[model] if v1 else self.base(model))

    @cached_property
    def v1(self) -> dict[str, Result]:
        """The base results in the energy accounting of the 2023 version."""
        system = load_system("pim_gpt", dict(V1))
        return {model: account(self.base(model), system) for model in MODELS}


def joules(result: Result, interface: bool = True) -> float:
    """Energy of a result [J], with or without the interface."""
    assert result.energy_by_cause_j is not None
    return sum(j for cause, j in result.energy_by_cause_j.items() if interface or cause != "interface")


def reproduction_rows(found: Findings) -> list[dict[str, object]]:
    """The table of the specification's section 9: one dict per check."""
    paper = published()
    rows = _configuration_rows(paper) + _simulated_rows(paper, found) + _ratio_rows(paper, found)
    for row in rows:
        line = paper[str(row["id"])]
        row["deviation"] = line.deviation(row.pop("compare"))  # type: ignore[arg-type]
        row |= {"tag": line.tag, "published": line.text, "unit": line.unit, "basis": line.basis}
    return rows


def _row(
    check: str, id: str, ours: str, compare: Sequence[float], ok: bool | None, kind: str, need: str = ""
) -> dict[str, object]:
    verdict = "report only" if ok is None else "pass" if ok else "FAIL" if kind == HARD else "deviates"
    tolerance = f"{kind}: {need}" if need else kind
    return {"check": check, "id": id, "ours": ours, "compare": compare, "tolerance": tolerance, "verdict": verdict}


Rows = list[dict[str, object]]


def _configuration_rows(paper: Mapping[str, Published]) -> Rows:
    system = load_system("pim_gpt")
    hardware, part = system.of_kind(PimSystem), system.memory
    assert part.pim_unit is not None
    xl2, xl3 = (load_llm(name) for name in ("gpt2-xl", "gpt3-xl"))
    macs = hardware.dram.channels * part.organization.banks * part.pim_unit.lanes
    peak = 2 * macs / (part.cycles("tCCD_L") * part.tCK_ps)  # operations per ps are TFLOPS

    def row(check: str, id: str, value: float, pattern: str, need: str = "printed digits") -> dict[str, object]:
        text = f"{value:{pattern}}"
        return _row(check, id, text, [value], text == f"{paper[id].low:{pattern}}", HARD, need)

    return [
        row("parameters, GPT2-XL", "params_gpt2_xl", weights(xl2).blocks / MEBI / 1000, ".1f"),
        row("parameters, GPT3-XL", "params_gpt3_xl", weights(xl3).blocks / MEBI / 1000, ".2f"),
        row("operations per parameter, GPT3-XL", "ops_per_parameter", _operations_per_parameter(xl3), ".1f"),
        row("peak compute", "peak", peak, ".9g", "exact"),
        row("power of the MAC units", "power_mac", hardware.dram.channels * part.pim_unit.mac_power_mw, ".1f"),
        row("power of the ASIC", "power_asic", hardware.npu.power_mw, ".1f"),
        row("core area of the ASIC", "area_asic", hardware.npu.area_mm2, ".2f"),
        row("AiM simulator, 1024 rows of 64 MACs", "aim_macab", macab_cycles(), ".0f", "exact"),
    ]


def _operations_per_parameter(spec: LlmSpec) -> float:
    """Mean over the run: two per weight and four per cached value, over the weights."""
    cached = 4 * spec.num_hidden_layers * spec.hidden_size * (TOKENS + 1) / 2
    return 2 + cached / weights(spec).blocks


def _simulated_rows(paper: Mapping[str, Published], found: Findings) -> Rows:
    hits = [100 * (found.base(m).row_hit_rate or 0) for m in MODELS]
    moved = [found.base(m).data_movement_reduction or 0 for m in MODELS]
    share = 100 * (found.base("gpt3-xl").non_vmm_share or 0)
    slow = 100 * (max(found.slowdown(m, CLOCKS_MHZ[-1]) for m in MODELS) - 1)
    scale = [found.scaling(m, CHANNELS[1]) for m in MODELS]
    tokens = found.base("gpt3-xl").max_tokens or 0
    ends = ((min(moved), paper["data_reduction"].low or 0), (max(moved), paper["data_reduction"].high or 0))
    near = all(abs(ours / theirs - 1) <= 0.03 for ours, theirs in ends)
    steady = min(scale) >= 1.75 and found.scaling("gpt3-xl", CHANNELS[1]) >= 1.9
    steady_need = "≥ 1.75 each, ≥ 1.9 GPT3-XL"

    def row(check: str, id: str, values: list[float], pattern: str, ok: bool, need: str) -> dict[str, object]:
        return _row(check, id, span(values, pattern), values, ok, SOFT, need)

    return [
        row("row-hit rate, all models", "row_hit", hits, ".2f", all(97.5 <= x <= 98.6 for x in hits), "97.5 to 98.6 %"),
        row("data movement, least and most", "data_reduction", moved, ".1f", near, "3 % at both ends"),
        row("non-VMM share, GPT3-XL", "non_vmm_gpt3_xl", [share], ".2f", 0.9 <= share <= 1.5, "0.9 to 1.5 %"),
        row("worst slow-down at 100 MHz", "slowdown_100mhz", [slow], ".1f", slow <= 22, "≤ 22 %"),
        row("8 to 16 channels, least and most", "channel_scaling", scale, ".2f", steady, steady_need),
        _row("tokens that GPT3-XL holds", "tokens_gpt3_xl", f"{tokens}", [tokens], tokens >= 8096, HARD, "≥ 8096"),
    ]


def _ratio_rows(paper: Mapping[str, Published], found: Findings) -> Rows:
    rows: Rows = []

    def report(check: str, id: str, values: list[float], pattern: str) -> None:
        rows.append(_row(check, id, span(values, pattern), values, None, REPORT))

    for short, baseline, what in (("t4", "t4", "T4"), ("cpu", "xeon_6154", "Xeon")):
        for launch, how in ((False, "roofline"), (True, "with launch cost")):
            ours = [found.speedup(m, baseline, launch) for m in MODELS]
            report(f"speed-up over {what}, {how}", f"speedup_{short}", ours, ".0f")
        for v1, year in ((False, "2024"), (True, "2023")):
            id = f"energy_{short}" + ("_v1" if v1 else "")
            ours = [found.efficiency(m, baseline, v1) for m in MODELS]
            report(f"energy efficiency over {what}, {year} accounting", id, ours, ".0f")
        powers = [
            (found.results[Point(baseline, m)].power_w or 0) / (found.base(m).power_w or math.inf) for m in MODELS
        ]
        report(f"power of {what} / PIM-GPT, 2024 accounting", f"power_ratio_{short}", powers, ".2f")
    for interface, how in ((False, "without interface"), (True, "with interface")):
        factors = [joules(found.base(m), interface) / joules(found.v1[m], interface) for m in MODELS]
        report(f"energy of 2024 over 2023 accounting, {how}", "energy_factor", factors, ".2f")
    return rows
