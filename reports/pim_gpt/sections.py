"""The chapters of the PIM-GPT report."""

from pimloom.arch.units import MIB, S_PER_US
from pimloom.reports.figures import grouped_bars, lines, stacked_bars
from pimloom.reports.page import Column, Section, TableData
from pimloom.reports.pim_gpt.checks import Findings, published
from pimloom.reports.pim_gpt.closed_form import closed_form_us
from pimloom.reports.pim_gpt.points import CHANNELS, CLOCKS_MHZ, LM_HEAD, MODELS, SERIAL, SHAPES, TOKENS, Point
from pimloom.systems.devices.result import Result

GROUPS = {
    "QKV": "QKV",
    "projection": "projection",
    "FFN1": "FFN1",
    "FFN2": "FFN2",
    "score": "attention",
    "p V": "attention",
    "K write": "attention",
    "V write": "attention",
}


def grouped_time_s(result: Result) -> dict[str, float]:
    """Latency by the six groups of the specification's 7.1; what is no PIM step is the ASIC's."""
    groups = dict.fromkeys(("QKV", "projection", "FFN1", "FFN2", "attention", "ASIC"), 0.0)
    assert result.time_by_step_s is not None
    for step, seconds in result.time_by_step_s.items():
        groups[GROUPS.get(step, "ASIC")] += seconds
    return groups


def latency(found: Findings) -> Section:
    """Time per token, and where it goes."""
    rows = [_latency_row(found.base(model)) for model in MODELS]
    shares = {group: [_share(found.base(model), group) for model in MODELS] for group in GROUP_NAMES}
    table = TableData(
        "Latency per generated token",
        [
            Column("model", "model"),
            Column("us", "time per token", "µs", format=",.1f"),
            Column("tokens", "tokens", "1/s", format=",.0f"),
            *(Column(group, group, "µs", format=",.1f") for group in GROUP_NAMES),
            Column("closed", "closed form", "µs", format=",.1f"),
            Column("deviation", "ours − closed form", "%", format="+.2f"),
            Column("mac", "MAC clocks", "%", format=".1f"),
        ],
        rows,
        "Mean over positions 1 to 1024. The closed form is section 3.4 of the specification; ours is the exact engine. "
        "GPT2-small and GPT2-XL are above it: half of their K slots straddle two rows, which the form leaves out.",
    )
    chart = stacked_bars(
        "Where the time of a token goes",
        list(MODELS),
        shares,
        xlabel="model",
        ylabel="share of latency [%]",
        caption="Attention holds score, p·V and the writes of K and V.",
    )
    return Section("Latency", "latency", f"{TOKENS} tokens generated from an empty prompt, batch 1.", [chart, table])


GROUP_NAMES = ("QKV", "projection", "FFN1", "FFN2", "attention", "ASIC")


def _share(result: Result, group: str) -> float:
    return 100 * grouped_time_s(result)[group] / result.latency_s


def _latency_row(result: Result) -> dict[str, float | str]:
    tokens = result.workload.generated_tokens
    us = result.time_per_token_s / S_PER_US
    closed = closed_form_us(result.model)
    groups = {name: s / tokens / S_PER_US for name, s in grouped_time_s(result).items()}
    rest = {"closed": closed, "deviation": 100 * (us / closed - 1), "mac": 100 * (result.mac_utilisation or 0)}
    return {"model": result.model, "us": us, "tokens": result.tokens_per_s, **groups, **rest}


def energy(found: Findings) -> Section:
    """Energy per token by cause, in both accountings."""
    causes = list(found.base("gpt2").energy_by_cause_j or {})
    rows = [
        {
            "model": m,
            "mj": 1e3 * (r.energy_per_token_j or 0),
            "w": r.power_w,
            "v1": found.v1[m].power_w,
            **{c: _watts(r, c) for c in causes},
        }
        for m in MODELS
        for r in [found.base(m)]
    ]
    table = TableData(
        "Energy per token and power by cause, 2024 accounting",
        [
            Column("model", "model"),
            Column("mj", "energy per token", "mJ", format=",.2f"),
            Column("w", "power", "W", format=".2f"),
            *(Column(c, c, "W", format=".3f") for c in causes),
            Column("v1", "power, 2023 accounting", "W", format=".2f"),
        ],
        rows,
        "The 2024 accounting charges 16 activations and 3 reads per all-bank command, the 2023 accounting one of each. "
        "Interface energy is not part of the specification's sums (5.0 to 5.3 W and 14.0 to 14.8 W).",
    )
    charts = [
        stacked_bars(
            f"Power by cause, {year} accounting",
            list(SHAPES),
            {c: [_watts(source(m), c) for m in SHAPES] for c in causes},
            xlabel="model",
            ylabel="power [W]",
            caption=f"The accounting that fits the {year} version of the paper, whose own formula is not known.",
        )
        for year, source in (("2024", found.base), ("2023", lambda m: found.v1[m]))
    ]
    return Section(
        "Energy", "energy", "DRAM state currents per channel, MAC units, interface and ASIC.", [*charts, table]
    )


def _watts(result: Result, cause: str) -> float:
    assert result.energy_by_cause_j is not None
    return result.energy_by_cause_j[cause] / result.latency_s


def locality(found: Findings) -> Section:
    """Row hits and data movement."""
    paper = published()
    hit, moved = paper["row_hit"], paper["data_reduction"]
    rows = [
        {
            "model": m,
            "hit": 100 * (r.row_hit_rate or 0),
            "moved": r.data_movement_reduction,
            "wires": r.data_movement_reduction_on_wires,
            "share": 100 * (r.non_vmm_share or 0),
        }
        for m in MODELS
        for r in [found.base(m)]
    ]
    table = TableData(
        "Row hits, data movement and the ASIC's share",
        [
            Column("model", "model"),
            Column("hit", "row-hit rate", "%", format=".2f"),
            Column("moved", "less data moved, values", "×", format=".1f"),
            Column("wires", "less data moved, on the wires", "×", format=".1f"),
            Column("share", "non-VMM share of latency", "%", format=".2f"),
        ],
        rows,
        f"Published: row hits about {hit.text} %, data movement {moved.text}× [{moved.tag}], non-VMM share "
        "1.16 % (GPT3-XL). Values count inputs and q once per channel, p and results once; "
        "on the wires, bursts are whole and p is sent "
        "once per pass.",
    )
    chart = grouped_bars(
        "Off-chip data movement avoided",
        list(MODELS),
        {
            "values": [found.base(m).data_movement_reduction for m in MODELS],
            "on the wires": [found.base(m).data_movement_reduction_on_wires for m in MODELS],
        },
        xlabel="model",
        ylabel="baseline / PIM-GPT [×]",
        caption=f"Published range: {moved.text}×.",
    )
    return Section("Row hits and data movement", "locality", "", [chart, table])


def sensitivity(found: Findings) -> Section:
    """ASIC clock, channels, and modelling options."""
    clocks = {m: [(float(mhz), found.slowdown(m, mhz)) for mhz in CLOCKS_MHZ] for m in SHAPES}
    ways = {m: [(1.0 * n, 1.0 if n == CHANNELS[0] else found.scaling(m, n)) for n in CHANNELS] for m in SHAPES}
    charts = [
        lines(
            "Slow-down with a slower ASIC",
            clocks,
            xlabel="ASIC clock [MHz]",
            ylabel="latency / latency at 1 GHz [×]",
            log_x=True,
            caption="Published: at most 20 % at 100 MHz.",
        ),
        lines(
            "Speed-up with more channels",
            ways | {"linear": [(1.0 * n, n / CHANNELS[0]) for n in CHANNELS]},
            xlabel="channels [1]",
            ylabel="speed-up over 8 channels [×]",
            caption="Published: near linear (qualitative).",
        ),
    ]
    rows = [
        {"model": m, "slow": found.slowdown(m, 100), "two": found.scaling(m, 16), "four": found.scaling(m, 32)}
        for m in SHAPES
    ]
    table = TableData(
        "Clock and channel sweeps",
        [
            Column("model", "model"),
            Column("slow", "latency at 100 MHz / 1 GHz", "×", format=".3f"),
            Column("two", "speed-up, 16 channels", "×", format=".2f"),
            Column("four", "speed-up, 32 channels", "×", format=".2f"),
        ],
        rows,
    )
    return Section("Sensitivity", "sensitivity", "", [*charts, table, _options(found)])


def _options(found: Findings) -> TableData:
    rows = []
    for what, overrides in (("with LM head", LM_HEAD), ("serial result read-out", SERIAL)):
        for m in ("gpt2", "gpt3-xl"):
            base, other = found.base(m), found.results[Point("pim_gpt", m, overrides)]
            more = other.time_per_token_s - base.time_per_token_s
            percent = 100 * more / base.time_per_token_s
            setting = " ".join(f"--set {k}='{v}'" for k, v in overrides)
            rows.append({"option": what, "model": m, "us": more / S_PER_US, "percent": percent, "set": setting})
    return TableData(
        "Options",
        [
            Column("option", "option"),
            Column("model", "model"),
            Column("us", "more time per token", "µs", format="+.1f"),
            Column("percent", "more", "%", format="+.1f"),
            Column("set", "setting"),
        ],
        rows,
        "The specification expects +28 µs and +74 µs for the LM head, 1 to 2 % for serial read-out.",
    )


def capacity(found: Findings) -> Section:
    """What fits."""
    rows = [
        {
            "model": m,
            "need": (r.memory_needed_bytes or 0) / MIB,
            "share": 100 * (r.memory_needed_bytes or 0) / (r.memory_bytes or 1),
            "tokens": r.max_tokens,
        }
        for m in MODELS
        for r in [found.base(m)]
    ]
    table = TableData(
        "Memory",
        [
            Column("model", "model"),
            Column("need", f"weights, and K and V of {TOKENS} tokens", "MiB", format=",.0f"),
            Column("share", "of the memory", "%", format=".1f"),
            Column("tokens", "most tokens that fit", "tokens", format=",.0f"),
        ],
        rows,
        "Rows taken in every bank × bank rows, padding included; token counts in steps of 128.",
    )
    return Section("Capacity", "capacity", "", [table])
