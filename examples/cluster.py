"""A sweep on a Dask cluster, kept in a folder, gone on with, and its report.

python examples/cluster.py         # writes the folder `designs`
"""

# %% Any scheduler will do. This one is a stand-in for `dask scheduler`, dask-jobqueue (SLURM) or dask-kubernetes.
from pathlib import Path

from distributed import LocalCluster

import pimloom
from pimloom.reports.sweep.page import write_report
from pimloom.sweeping.table import open_table

OUT = Path("designs")
SWEEP = {
    "system": "pim_gpt",
    "workload": {"model": ["gpt2", "gpt2-medium"], "generate": 2},
    "axes": {"dram.channels": [4, 8], "npu.adders": [64, 256]},
    "objectives": {"tokens_per_s": "max", "energy_per_token_j": "min"},
}


def main() -> None:
    """The workers are processes of their own: they import this file, so what it does stands in a function."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        table = pimloom.sweep(SWEEP, out=OUT, scheduler=cluster.scheduler_address)
    print(table[["workload.model", "dram.channels", "npu.adders", "tokens_per_s", "pareto"]].to_string(index=False))

    # The same folder, one more value: only the new points are simulated, here without a cluster.
    wider = SWEEP | {"axes": SWEEP["axes"] | {"npu.adders": [64, 256, 1024]}}
    table = pimloom.sweep(wider, out=OUT, workers=1)
    print(f"{len(table)} points, {int(table['pareto'].sum())} on the fronts of the two models")

    print(write_report(open_table(OUT).table, OUT / "report"))


if __name__ == "__main__":
    main()
