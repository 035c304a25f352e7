"""The chapters on cost and power, and on MFU."""

from pimloom.arch.units import GIB
from pimloom.reports.fabric.cost_figures import cost_figure, power_figure
from pimloom.reports.fabric.mfu_figure import mfu_figure
from pimloom.reports.infinitehbd.findings import Findings, Row, totals
from pimloom.reports.page import Column, Section, TableData

STEP_PARTS = ("compute", "tp_all_reduce", "bubble", "other")


def cost(found: Findings) -> Section:
    """Price and power of every network, and of what it is made."""
    published = totals()
    table = TableData(
        "Cost and power of a GPU's share of the network",
        [
            Column("arch", "fabric"),
            Column("usd_per_gpu", "price", "$/GPU", format=",.2f"),
            Column("usd_published", "published", "$/GPU", format=",.2f"),
            Column("gb_s_per_gpu", "rate each way", "GB/s", format=",.0f"),
            Column("usd_per_gb_s", "price of a GB/s", "$", format=".2f"),
            Column("ratio_to_nvl72", "over NVL-72", "×", format=".3f"),
            Column("w_per_gpu", "power", "W/GPU", format=".2f"),
            Column("w_published", "published", "W/GPU", format=",.2f"),
            Column("w_per_gb_s", "power of a GB/s", "W", format=".3f"),
            Column("evidence", "evidence"),
        ],
        [row | dict(zip(("usd_published", "w_published"), published[row["arch"]], strict=True)) for row in found.cost],
        "Published: recalled totals. "
        "Three prices (NVLink cable, 1.6T module, 1.6T ACC) were solved from the totals of the recalled table, so rows "
        "that use them cannot disagree with it.",
    )
    parts = TableData(
        "What the networks are made of",
        [
            Column("arch", "fabric"),
            Column("gpus", "GPUs"),
            Column("part", "part"),
            Column("count", "count", format=",.0f"),
            Column("usd", "price", "$", format=",.1f"),
            Column("w", "power", "W", format=",.1f"),
            Column("usd_per_gpu", "price", "$/GPU", format=",.2f"),
            Column("evidence", "evidence"),
        ],
        found.parts,
        "Counts are for as many GPUs as the second column says.",
    )
    intro = "Component lists times unit prices; GPUs themselves are not counted, and no price of theirs is claimed."
    return Section("Cost and power", "cost", intro, [cost_figure(found.parts), power_figure(found.parts), table, parts])


def mfu(found: Findings) -> Section:
    """MFU against scale, the best split of each, and what the ratio hangs on."""
    first = found.mfu[0]
    table = TableData(
        "The best split by number of GPUs",
        [
            Column("gpus", "GPUs"),
            Column("arch", "fabric"),
            Column("mfu_percent", "MFU", "%", format=".1f"),
            Column("ratio_to_dgx8", "over DGX", "×", format=".2f"),
            Column("split", "TP × PP × DP", align="right"),
            Column("micro_batches", "micro-batches"),
            Column("step_s", "step", "s", format=".2f"),
            *(Column(f"{part}_percent", part.replace("_", " "), "%", format=".1f") for part in STEP_PARTS),
            Column("memory_gib", "memory", "GiB", format=".1f"),
        ],
        [
            dict(row)
            | {"mfu_percent": 100 * row["mfu"], "split": f"{row['tp']} × {row['pp']} × {row['dp']}"}
            | {f"{part}_percent": 100 * seconds / row["step_s"] for part, seconds in _parts(row).items()}
            | {"memory_gib": row["memory_bytes"] / GIB}
            for row in found.mfu
        ],
        "Shares of the step; other: messages between stages, all-reduce of gradients. "
        "Splits within 0.1 % of each other tie, and the first one found is shown.",
    )
    hangs = TableData(
        f"What the ratio at {max(found.scope.gpus):,} GPUs hangs on",
        [
            Column("case", "case"),
            Column("batch", "sequences a step"),
            Column("schedule", "schedule"),
            Column("interleave", "v at most"),
            Column("most_tp", "TP at most"),
            Column("hbd_gb_s", "rate inside", "GB/s"),
            Column("baseline_hbd_gb_s", "DGX's", "GB/s"),
            Column("mfu", "MFU", format=".3f"),
            Column("baseline_mfu", "DGX's", format=".3f"),
            Column("ratio_to_dgx8", "over DGX", "×", format=".2f"),
        ],
        found.sensitivity,
        "Batch, schedule and rates of the published 3.37 × are not known.",
    )
    intro = (
        f"{first['model']}, {first['batch']:,} sequences a step, schedule {first['schedule']} without interleaving; "
        "recomputation of activations is assumed and not counted, and the gradients' all-reduce is not overlapped."
    )
    return Section("MFU", "mfu", intro, [mfu_figure(found.mfu), table, hangs])


def _parts(row: Row) -> dict[str, float]:
    """What a step is made of [s], by STEP_PARTS."""
    named = {part: row[f"{part}_s"] for part in STEP_PARTS[:-1]}
    return named | {"other": row["step_s"] - sum(named.values())}
