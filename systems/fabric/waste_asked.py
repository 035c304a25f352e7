"""The fabrics, faults and plans whose waste a user asks for."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pimloom.arch.error import UserError
from pimloom.systems.fabric.asked import read_ratios
from pimloom.systems.fabric.faults.asked import find_trace

if TYPE_CHECKING:
    from pimloom.arch.topology import Topology
    from pimloom.arch.topology.cluster import Cluster
    from pimloom.systems.fabric.faults.trace import Trace
    from pimloom.systems.fabric.waste import Plan
    from pimloom.systems.fabric.waste_file import WastePoint


def buildable(
    fabrics: Sequence["Topology"], cluster: "Cluster", tps: Sequence[int], everything: bool
) -> tuple[list["Topology"], dict["Topology", str]]:
    """Those that can be built of the cluster's nodes; of `all`, the others with the reason. Raises UserError."""
    from pimloom.mappers.fabric.usable import check_usable

    good: list[Topology] = []
    left_out: dict[Topology, str] = {}
    for size in tps:
        cluster.group_nodes(size)
    for fabric in fabrics:
        try:
            check_usable(fabric, cluster, tps[0])
        except UserError as error:
            if not everything:
                raise
            left_out[fabric] = str(error).partition(": ")[2]
        else:
            good.append(fabric)
    return good, left_out


def ratios_asked(text: str | None, of_a_trace: Mapping[str, object]) -> list[float] | None:
    """The fault ratios of `--fault-ratio`, or None if a trace is to be walked. Raises UserError."""
    if text is None:
        return None
    for option, value in of_a_trace.items():
        if value is not None:
            raise UserError(f"{option} {value}: belongs to a trace, and --fault-ratio {text} needs none; leave one out")
    return read_ratios(text, "--fault-ratio")


def trace_asked(faults: Path | None, servers: int | None, days: float | None, seed: int, cluster: "Cluster") -> "Trace":
    """The fault trace to walk: a file's, or a synthetic one of so many servers, or as many as the GPUs need, and days.

    Raises UserError if it cannot be read or made, or has fewer servers than the cluster's GPUs stand in.
    """
    from pimloom.arch.units import ceil_div
    from pimloom.systems.fabric.faults.replay import check_replay
    from pimloom.systems.fabric.faults.synthetic import MOST_SERVERS
    from pimloom.systems.fabric.faults.trace import GPUS_PER_SERVER

    needed = ceil_div(cluster.gpus, GPUS_PER_SERVER)
    if faults is None and servers is None and needed > MOST_SERVERS:
        raise UserError(
            f"--gpus {cluster.gpus}: a synthetic trace has at most {MOST_SERVERS} servers of {GPUS_PER_SERVER} GPUs; "
            f"expected at most {MOST_SERVERS * GPUS_PER_SERVER}, or --fault-ratio"
        )
    trace = find_trace(faults, servers, days, seed, least=needed)
    check_replay(trace, cluster)
    return trace


def waste_rows(
    plan: "Plan",
    trace: "Trace | None",
    ratios: Sequence[float],
    left_out: Mapping["Topology", str],
    progress: Callable[[int, int], None],
) -> list[dict[str, Any]]:
    """Waste of a trace, or of fault ratios; rows without figures of fabrics that are left out."""
    from pimloom.systems.fabric.waste import iid_rows, left_out_row, trace_rows

    rows = trace_rows(plan, trace, progress) if trace else iid_rows(plan, ratios, progress)
    return [*rows, *(left_out_row(plan, fabric, tp, why) for fabric, why in left_out.items() for tp in plan.tps)]


def describe_trace(trace: "Trace", file: Path | None) -> dict[str, object]:
    """What results say of a trace: its name, whether it is synthetic (no file), servers, length [h], and the mean share
    of servers that are down."""
    from pimloom.systems.fabric.faults.statistics import fault_statistics

    ratio = fault_statistics(trace).fault_ratio_mean
    return {
        "name": trace.name,
        "synthetic": file is None,
        "servers": trace.servers,
        "horizon_h": trace.horizon_h,
        "server_fault_ratio": ratio,
    }


def points_asked(arch: str, waste: Path) -> "list[WastePoint]":
    """Rows of the waste file whose architecture was asked for; of `all`, those that have a list of parts."""
    from pimloom.systems.fabric.waste_file import read_waste

    points = read_waste(waste)
    there = list(dict.fromkeys(point.arch for point in points))
    wanted = arch.split(",") if arch != "all" else [name for name in there if name in priced()]
    if missing := [name for name in wanted if name not in there]:
        raise UserError(f"--arch {missing[0]}: no row of it in {waste}; it has {', '.join(there)}")
    if not wanted:
        raise UserError(f"{waste}: no architecture with a list of parts; it has {', '.join(there)}")
    return [point for point in points if point.arch in wanted]


def plan_asked(arch: str, cluster: "Cluster", tps: list[int], draws: int, seed: int) -> "Plan":
    """Fabrics that were asked for; of `all`, those with a topology, a list of parts, and units of whole nodes."""
    from pimloom.arch.topology import NAMED, topologies
    from pimloom.mappers.fabric.usable import check_usable
    from pimloom.systems.fabric.waste import Plan

    def fits(fabric: "Topology") -> bool:
        try:
            check_usable(fabric, cluster, tps[0])
        except UserError:
            return False
        return fabric.name in priced()

    for tp in tps:
        cluster.group_nodes(tp)
    if alone := [name for name in arch.split(",") if name in priced() and name not in NAMED and "-k" not in name]:
        raise UserError(f"--arch {alone[0]}: has parts but no topology, so no waste is known; leave it out")
    fabrics = [one for one in topologies(arch) if arch != "all" or fits(one)]
    return Plan(cluster, fabrics, tps, draws, seed)


def priced() -> list[str]:
    """Architectures with a list of parts."""
    from pimloom.arch.fabric_cost import bill_names, load_components

    return [*bill_names(load_components().value), "tpuv4-slices"]
