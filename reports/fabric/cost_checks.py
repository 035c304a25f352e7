"""What of the specification's section 9 cost and MFU decide: checks 11 and 12, hard gates, and 14 and 15, soft ones."""

from collections.abc import Sequence

from pimloom.arch.llm import load_llm
from pimloom.arch.training import load_training
from pimloom.reports.fabric.cost import cost_rows
from pimloom.reports.fabric.mfu import Search, domains, mfu_rows, trend
from pimloom.reports.fabric.waste_checks import Gate

MODEL = "llama-3.1-405b"
SCALES = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)  # [recalled] ends; every doubling between [design]
TABLE = (1024, 65536, 131072)  # of the specification, 7.5
# [recalled] $/GPU and W/GPU; three prices were solved from them (arch/fabrics/components.yaml)
TOTALS = {
    "infinitehbd-k2": (2626.80, 48.10),
    "infinitehbd-k3": (3740.60, 72.05),
    "tpuv4": (1567.20, 19.39),
    "nvl36": (9563.20, 75.95),
    "nvl72": (9563.20, 75.95),
    "nvl36x2": (17924.00, 150.32),
    "nvl576": (30417.60, 413.45),
}
CLOSE = 0.001  # relative tolerance of a total


def cost_gates() -> list[Gate]:
    """Checks 11 and 12: the price of a GB/s over NVL-72's, and what each network costs and draws per GPU."""
    rows = {row["arch"]: row for row in cost_rows()}
    ratio = 100 * rows["infinitehbd-k2"]["ratio_to_nvl72"]
    gates = [Gate(11, "price of a GB/s, InfiniteHBD K=2 over NVL-72", ratio, 31, 0.5, "%", "paper")]
    for name, (usd, watts) in TOTALS.items():
        gates.append(Gate(12, f"network of {name}", rows[name]["usd_per_gpu"], usd, CLOSE * usd, "$/GPU", "recalled"))
        gates.append(Gate(12, f"power of {name}", rows[name]["w_per_gpu"], watts, CLOSE * watts, "W/GPU", "recalled"))
    return gates


def mfu_checks(scales: Sequence[int] = SCALES) -> list[Gate]:
    """Checks 14 and 15, soft: the ratio at the largest scale (2,048 sequences a step, 1F1B), and that it never falls.

    The ratio is looked at over the specification's scales and over all of `scales`.
    """
    ring, dgx = domains("infinitehbd-k2,dgx8")
    rows = mfu_rows(Search(load_llm(MODEL), load_training("h100").value), [ring, dgx], scales)
    mine = [row for row in rows if row["arch"] == ring.arch]
    few = trend([row for row in mine if row["gpus"] in TABLE], ring.arch)
    every = trend(mine, ring.arch)
    last = max(mine, key=lambda row: row["gpus"])["ratio_to_dgx8"]
    return [
        Gate(14, f"MFU ratio at {max(scales):,} GPUs, batch 2048, 1f1b", last, 3.37, 0.15 * 3.37, "1", "paper"),
        Gate(15, "fall of the ratio, 3 scales", 100 * few["ratio_largest_fall"], 0, 0, "%", "recalled"),
        Gate(15, "fall of the ratio, every doubling", 100 * every["ratio_largest_fall"], 0, 0, "%", "recalled"),
        Gate(15, "best TP rises with scale", float(every["tp_rises"]), 1, 0, "1", "recalled"),
    ]
