"""MFU by fabric and scale, and what its ratio to the baseline hangs on."""

from collections.abc import Mapping
from typing import Any

from pimloom.arch.units import GIB
from pimloom.reports.terminal.tables import show_line, show_rows

PARTS = ("compute", "tp_all_reduce", "all_to_all", "p2p", "bubble", "dp_all_reduce")


def show_mfu(value: Mapping[str, Any]) -> None:
    """Print the best splits of a training job, and what their steps consist of."""
    moe = any(row["ep"] > 1 for row in value["rows"])
    sizes = ("tp", "pp", "dp", "ep") if moe else ("tp", "pp", "dp")
    rows = []
    for row in value["rows"]:
        shares = {f"{part}_share": row[f"{part}_s"] / row["step_s"] for part in PARTS}
        split = {"split": "×".join(str(row[key]) for key in sizes), "memory_gib": row["memory_bytes"] / GIB}
        rows.append(row | shares | split)
    columns = [
        ("arch", "architecture", ""),
        ("gpus", "GPUs|r", ",d"),
        ("split", "×".join(sizes).upper() + "|r", ""),
        *([("interleave", "v|r", "d")] if any(row["interleave"] > 1 for row in value["rows"]) else []),
        ("mfu", "MFU|r", ".1%"),
        ("ratio_to_dgx8", "to DGX|r", ".2f"),
        ("step_s", "step s|r", ",.3f"),
        ("compute_share", "work|r", ".1%"),
        ("tp_all_reduce_share", "TP|r", ".1%"),
        *([("all_to_all_share", "EP|r", ".1%")] if moe else []),
        ("p2p_share", "P2P|r", ".1%"),
        ("bubble_share", "bubble|r", ".1%"),
        ("dp_all_reduce_share", "DP|r", ".1%"),
        ("memory_gib", "GiB|r", ",.1f"),
    ]
    show_rows(columns, rows)
    at_most = "" if value["interleave"] == 1 else f", at most {value['interleave']} chunks"
    show_line(
        f"{value['model']} on {value['gpu']}: batch {value['batch']} of {value['sequence_tokens']} tokens, "
        f"schedule {value['schedule']}{at_most}; ratios hold for these alone."
    )


def show_sensitivity(value: Mapping[str, Any]) -> None:
    """Print what the best split comes to where one thing is another."""
    columns = (
        ("case", "case", ""),
        ("batch", "batch|r", ",d"),
        ("schedule", "schedule", ""),
        ("interleave", "v ≤|r", "d"),
        ("most_tp", "TP ≤|r", "d"),
        ("hbd_gb_s", "GB/s|r", ",g"),
        ("baseline_hbd_gb_s", "DGX GB/s|r", ",g"),
        ("mfu", "MFU|r", ".1%"),
        ("baseline_mfu", "of DGX|r", ".1%"),
        ("ratio_to_dgx8", "ratio|r", ".2f"),
    )
    for gpus in dict.fromkeys(row["gpus"] for row in value["rows"]):
        show_rows(columns, [row for row in value["rows"] if row["gpus"] == gpus])
        show_line(
            f"{value['model']} on {gpus:,d} {value['gpu']}; the first case is as asked, half is of its bandwidth."
        )
