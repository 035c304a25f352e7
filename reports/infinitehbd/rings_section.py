"""The chapters on rings, and on placements that keep traffic under the ToR switches."""

from pimloom.arch.topology.khop import khop
from pimloom.reports.fabric.place_draw import cluster_figure, ring_figure
from pimloom.reports.fabric.place_figures import cross_tor_figure, speed_figure
from pimloom.reports.infinitehbd.findings import CLUSTER, GROUPS, JOBS, TP, Findings, Row
from pimloom.reports.page import Column, Section, TableData
from pimloom.systems.fabric.place import ALGORITHMS, CROSS_TOR, Job, place_job, random_faults, summary
from pimloom.systems.fabric.place_curves import HOPS, NODES, TOR_SIZE

DRAWN_RATIO, DRAWN_JOB, DRAWN_SEED = 0.03, 0.85, 0  # [design] of the cluster that is drawn
SHOWN = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1)


def rings() -> Section:
    """One ring with bypassed nodes, and a whole cluster."""
    faulty = random_faults(CLUSTER.nodes, DRAWN_RATIO, DRAWN_SEED)
    groups = int(DRAWN_JOB * CLUSTER.gpus) // TP
    fabric = khop(HOPS)
    placed = place_job(Job(CLUSTER, fabric, TP, TOR_SIZE, faulty, groups), "spares")
    said = summary(placed)
    passed, verdict = said["bypasses_by_length"], "no complaint" if said["holds"] else "complains"
    facts: list[Row] = [
        {"what": "GPUs of the job, groups", "value": f"{said['job_gpus']:,}, {said['groups']}"},
        {"what": "faulty nodes", "value": f"{said['faulty_nodes']}"},
        {"what": "healthy nodes that no group can use", "value": f"{said['wasted_nodes']}"},
        {"what": "bypasses of one node, of two", "value": f"{passed['1']}, {passed['2']}"},
        {"what": "cuts of the ring", "value": f"{said['cuts']}"},
        {"what": "pairs across ToRs", "value": f"{100 * said['cross_tor_share']:.1f} %"},
        {"what": "an independent verifier of rings, hops and bundles", "value": verdict},
    ]
    table = TableData(
        "The cluster that is drawn",
        [Column("what", "figure"), Column("value", "value", align="right")],
        facts,
        f"A job of {DRAWN_JOB:.0%} of the GPUs, placed by `spares`; each node faulty with {DRAWN_RATIO:.0%}.",
    )
    intro = (
        "A group is a chain of healthy nodes; a hop bypasses up to K − 1 faulty ones, and the loopbacks of the end "
        "nodes close the ring, so that no fibre leads back. A longer run of faulty nodes cuts the line."
    )
    ring = ring_figure(fabric, CLUSTER.gpus_per_node, 6, {2, 3})
    return Section("Rings", "rings", intro, [ring, cluster_figure(placed), table])


def traffic(found: Findings) -> Section:
    """Traffic across ToRs against faults; the time of a placement."""
    charts = [cross_tor_figure(found.traffic, m, job) for m in reversed(GROUPS) for job in reversed(JOBS)]
    rows: list[Row] = []
    for m in reversed(GROUPS):
        for job in reversed(JOBS):
            for name in ALGORITHMS[:3]:
                mine = {
                    row["fault_ratio"]: row["cross_tor_mean"]
                    for row in found.traffic
                    if (row["group_nodes"], row["job_ratio"], row["algorithm"]) == (m, job, name)
                }
                shares = {f"f{ratio:g}": _percent(mine.get(ratio)) for ratio in SHOWN}
                rows.append({"tp": m * CLUSTER.gpus_per_node, "job": f"{job:.0%}", "algorithm": name} | shares)
    table = TableData(
        "Pairs across ToRs, mean over draws",
        [
            Column("tp", "TP"),
            Column("job", "job", align="right"),
            Column("algorithm", "algorithm"),
            *(Column(f"f{ratio:g}", f"{ratio:.0%} faulty", "%", format=".1f") for ratio in SHOWN),
        ],
        rows,
        f"{found.scope.place_draws} draws; {CROSS_TOR}. A dash: the job does not fit row by row in any draw.",
    )
    intro = (
        "`aligned` is the specification's heuristic: whole blocks of ToRs hold only aligned groups, as many blocks as "
        "leave room for the job. `spares` is ours: templates of ToRs with some left spare, groups that take a spare "
        "ToR's node in place of a faulty one, and ranks numbered so that most pairs stay. `unconstrained` goes along "
        "the rows. "
        f"The published claim, near zero under 7 % faulty nodes, says neither job scale nor metric; this is {NODES:,} "
        f"nodes, {TOR_SIZE} under a ToR switch, K = {HOPS}."
    )
    return Section("Traffic across ToRs", "cross-tor", intro, [*charts, table, speed_figure(found.times)])


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
