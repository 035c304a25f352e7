"""The chapters on faults and on waste."""

from collections.abc import Sequence

from pimloom.arch.topology import topology
from pimloom.arch.units import H_PER_DAY
from pimloom.reports.fabric.waste_figures import job_figure, ratio_figure, time_figure
from pimloom.reports.figures import lines
from pimloom.reports.infinitehbd.findings import CLUSTER, FAULT_RATIOS, JOB_GPUS, TP, Findings, Row
from pimloom.reports.page import Column, Section, TableData

WASTE = (
    "Waste is the share of all GPUs that are healthy and in no tensor-parallel group. A fault takes a whole node; "
    "faulty GPUs are no waste."
)


def faults(found: Findings) -> Section:
    """What the trace says."""
    said = found.statistics
    facts: Sequence[Row] = [
        {"what": "servers, of which ever fail", "value": f"{said.servers}, {said.servers_that_fail}"},
        {"what": "outages (overlapping faults of a server are one)", "value": f"{said.outages:,}"},
        {"what": "mean share of servers that are down", "value": f"{100 * said.fault_ratio_mean:.2f} %"},
        {
            "what": "servers down at once: median, 90 %, 99 % of the time, most",
            "value": f"{said.faulty_p50}, {said.faulty_p90}, {said.faulty_p99}, {said.faulty_max}",
        },
        {
            "what": "time to repair: mean, median",
            "value": f"{(said.mttr_mean_h or 0) / H_PER_DAY:.2f}, {(said.mttr_median_h or 0) / H_PER_DAY:.2f} days",
        },
        {"what": "up-time of a server between outages", "value": f"{(said.mtbf_h or 0) / H_PER_DAY:.0f} days"},
    ]
    table = TableData("The fault trace", [Column("what", "figure"), Column("value", "value", align="right")], facts)
    shares = said.fault_ratio_by_window
    windows = [(number + 1.0, 100 * ratio) for number, ratio in enumerate(shares)]
    chart = lines(
        "Servers that are down, by window",
        {"trace": windows},
        xlabel=f"Window [{said.window_h / H_PER_DAY:.0f} days]",
        ylabel="Servers down [%]",
        caption=f"Far from steady: {100 * max(shares):.2f} % in the worst window, {100 * min(shares):.2f} % in the "
        "best.",
    )
    return Section("Faults", "faults", _whose(found), [table, chart])


def _whose(found: Findings) -> str:
    if found.public:
        return "The public trace of 400 servers of 8 GPUs over 348 days; 169 of them never fail."
    return (
        f"{found.trace.name}, not the public trace of the paper: figures that rest on the trace are shown beside the "
        "published ones without a verdict. `--faults FILE` takes the public trace."
    )


def waste(found: Findings) -> Section:
    """Waste on the trace, against the fault ratio, and the largest job."""
    columns = [
        Column("arch", "fabric"),
        Column("tp", "TP"),
        *(
            Column(key, label, "%", format=".2f")
            for key, label in (("mean", "mean"), ("p50", "median"), ("p99", "P99"))
        ),
        Column("least", "least usable", "GPUs", format=",.0f"),
        Column("wait", f"{JOB_GPUS:,}-GPU job waits", "% of time", format=".1f"),
    ]
    rows = [
        {
            "arch": row["arch"],
            "tp": row["tp"],
            "mean": 100 * row["waste_ratio_mean"],
            "p50": 100 * row["waste_ratio_p50"],
            "p99": 100 * row["waste_ratio_p99"],
            "least": row["usable_gpus_min"],
            "wait": 100 * row["job_wait_ratio"],
        }
        for row in found.trace_rows
    ]
    table = TableData(
        "Waste on the trace",
        columns,
        rows,
        f"Means over {found.scope.trace_draws} random choices and placements of 360 of the servers, each an 8-GPU "
        "server split into two 4-GPU nodes. 100 %: a group of this size does not fit the fabric's units.",
    )
    alone = TableData(
        f"Waste where nodes fail alone, TP-{TP}",
        [Column("arch", "fabric"), *(Column(f"f{p}", f"{p} % faulty", "%", format=".2f") for p in SHOWN)],
        [_over_ratios(found, fabric.name) for fabric in found.iid_plan.fabrics],
        f"{_corners(found)} {found.scope.iid_draws} draws. NVL-72 first falls: its 8 left-over GPUs absorb two "
        "faulty nodes.",
    )
    plan = found.trace_plan
    return Section(
        "Waste",
        "waste",
        f"{WASTE} {CLUSTER.gpus:,} GPUs in nodes of {CLUSTER.gpus_per_node}.",
        [
            time_figure(plan, found.trace, TP),
            ratio_figure(found.iid_plan, found.iid_rows, TP),
            job_figure(plan, found.trace_rows),
            table,
            alone,
        ],
    )


SHOWN = (0, 1, 3, 5, 7, 10, 15)


def _corners(found: Findings) -> str:
    counts = {percent: found.corners[FAULT_RATIOS.index(percent / 100)] for percent in (5, 10, 15)}
    text = ", ".join(f"{count:.4f} at {percent} %" for percent, count in counts.items())
    return f"Nodes that K = 3 would need one bundle twice for, which waste ignores: {text} of {CLUSTER.nodes}."


def _over_ratios(found: Findings, name: str) -> Row:
    known = {
        round(100 * row["fault_ratio"]): 100 * row["waste_ratio_mean"] for row in found.iid_rows if row["arch"] == name
    }
    return {"arch": topology(name).name} | {f"f{percent}": known[percent] for percent in SHOWN}
