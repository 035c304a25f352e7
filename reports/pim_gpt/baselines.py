"""The chapter on the T4 and Xeon baselines of the PIM-GPT report."""

from pimloom.arch.system import load_system
from pimloom.reports.figures import Range, horizontal_ranges
from pimloom.reports.page import Column, Figure, Notes, Section, TableData
from pimloom.reports.pim_gpt.checks import Findings, published
from pimloom.reports.pim_gpt.points import MODELS, SHAPES, Point

TITLES = {"t4": "NVIDIA T4", "xeon_6154": "Xeon Gold 6154"}


def baselines(found: Findings) -> Section:
    """Speed-up and efficiency over T4 and Xeon, published ranges beside ours."""
    intro = (
        "How the paper measured its T4 and Xeon is unknown, so these ratios are shown, never checked. The roofline "
        "reads every weight and cached value once at the data-sheet bandwidth, and what operators hand on; eager "
        "frameworks add a cost per kernel."
    )
    blocks: list[Figure | TableData | Notes] = [
        *_charts(found),
        _table(found),
        Notes("Baseline figures", _baseline_notes()),
    ]
    return Section("Baselines", "baselines", intro, blocks)


def _charts(found: Findings) -> list[Figure]:
    paper, speed, efficient = published(), [], []
    for name, title in TITLES.items():
        short = "t4" if name == "t4" else "cpu"
        line, energy_line = paper[f"speedup_{short}"], paper[f"energy_{short}"]
        for launch, how in ((False, "roofline"), (True, "with launch cost")):
            values = {m: found.speedup(m, name, launch) for m in SHAPES}
            speed.append(Range(f"{title}, {how}", line.low, line.high, values))
        values = {m: found.efficiency(m, name) for m in SHAPES}
        efficient.append(Range(title, energy_line.low, energy_line.high, values))
    return [
        horizontal_ranges(
            "Speed-up over the baselines: published range and ours",
            speed,
            xlabel="speed-up [×]",
            ylabel="baseline model",
            log_x=True,
            caption="Bars: published. Our baselines are rooflines, so the published ranges lie further right.",
        ),
        horizontal_ranges(
            "Energy efficiency over the baselines: published range and ours",
            efficient,
            xlabel="energy ratio [×]",
            ylabel="baseline",
            log_x=True,
            caption="2024 accounting, with interface energy; baselines at data-sheet power.",
        ),
    ]


def _table(found: Findings) -> TableData:
    rows = [
        {
            "baseline": title,
            "model": m,
            "roofline": 1e3 * (other.roofline_s or 0) / other.workload.generated_tokens,
            "total": 1e3 * other.time_per_token_s,
            "low": found.speedup(m, name, False),
            "high": found.speedup(m, name),
            "energy": found.efficiency(m, name),
        }
        for name, title in TITLES.items()
        for m in MODELS
        for other in [found.results[Point(name, m)]]
    ]
    return TableData(
        "Baselines",
        [
            Column("baseline", "baseline"),
            Column("model", "model"),
            Column("roofline", "roofline", "ms/token", format=",.2f"),
            Column("total", "with launch cost", "ms/token", format=",.2f"),
            Column("low", "speed-up, roofline", "×", format=",.1f"),
            Column("high", "speed-up, with launch", "×", format=",.1f"),
            Column("energy", "energy ratio", "×", format=",.0f"),
        ],
        rows,
        "Energy of a baseline is its data-sheet power × its latency with launch cost.",
    )


def _baseline_notes() -> list[str]:
    notes = []
    for name, title in TITLES.items():
        for place, source in load_system(name).sources.items():
            if source.text:
                value = getattr(load_system(name).spec, place, "")
                notes.append(f"{title}: `{place}` = {value}: {source.text}")
    return notes
