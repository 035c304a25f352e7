"""Columns of what the networks of fabrics cost and draw."""

Columns = tuple[tuple[str, str, str], ...]

COST: Columns = (
    ("arch", "architecture", ""),
    ("usd_per_gpu", "$/GPU|r", ",.2f"),
    ("gb_s_per_gpu", "GB/s/GPU|r", ",.0f"),
    ("usd_per_gb_s", "$/(GB/s)|r", ",.2f"),
    ("w_per_gpu", "W/GPU|r", ",.2f"),
    ("w_per_gb_s", "W/(GB/s)|r", ".3f"),
    ("ratio_to_nvl72", "$/(GB/s) to NVL-72|r", ".1%"),
    ("evidence", "evidence", ""),
)
PARTS: Columns = (
    ("arch", "architecture", ""),
    ("gpus", "GPUs|r", ",d"),
    ("part", "part", ""),
    ("count", "count|r", ",d"),
    ("usd", "× $|r", ",.2f"),
    ("usd_per_gpu", "$/GPU|r", ",.2f"),
    ("w", "× W|r", ",.1f"),
    ("w_per_gpu", "W/GPU|r", ",.2f"),
    ("evidence", "evidence", ""),
)
AGGREGATE: Columns = (
    ("arch", "architecture", ""),
    ("gpus", "GPUs|r", ",d"),
    ("tp", "TP|r", "d"),
    ("fault_ratio", "faulty|r", ".2%"),
    ("waste_ratio_mean", "wasted|r", ".2%"),
    ("network_usd", "network $|r", ",.0f"),
    ("idle_gpu_usd", "idle GPUs $|r", ",.0f"),
    ("aggregate_usd_per_gpu", "$/GPU|r", ",.2f"),
    ("network_w_per_usable_gpu", "W/usable GPU|r", ",.2f"),
)
