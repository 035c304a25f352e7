"""Cost and power of the networks of scale-up fabrics as rows, without faults and with them."""

from collections.abc import Iterable, Mapping
from typing import Any

from pimloom.arch.document import short
from pimloom.arch.error import UserError
from pimloom.arch.fabric_cost import Bill, bill, bill_names, load_components
from pimloom.arch.topology.cluster import Cluster
from pimloom.energy.cost import aggregate, network_cost
from pimloom.systems.fabric.asked import MOST_USD
from pimloom.systems.fabric.waste_file import WastePoint

REFERENCE = "nvl72"
Row = dict[str, Any]


def bills(names: str, gpus_per_node: int = 4, settings: Mapping[str, str] | None = None) -> list[Bill]:
    """Lists of parts of architectures `a,b,c`, or of `all` that have one. Raises UserError."""
    loaded = load_components(overrides=settings)
    Cluster(gpus_per_node, gpus_per_node)
    if names == "all":
        known = bill_names(loaded.value)
        return [bill(loaded, name, gpus_per_node) for name in known if _fits(name, gpus_per_node)]
    if "all" in (listed := list(dict.fromkeys(names.split(",")))):
        raise UserError(f"--arch {short(names)}: all stands alone; leave out the others")
    return [bill(loaded, name, gpus_per_node) for name in listed]


def _fits(name: str, gpus_per_node: int) -> bool:
    """Whether `all` includes it: a ring has no more bundles than slots."""
    return not name.startswith("infinitehbd-k") or int(name.removeprefix("infinitehbd-k")) <= gpus_per_node


def cost_rows(names: str = "all", gpus_per_node: int = 4, settings: Mapping[str, str] | None = None) -> list[Row]:
    """Price and power of each network per GPU and per GB/s (each way), and the price of a GB/s over NVL-72's.

    Keys: arch, usd_per_gpu, gb_s_per_gpu, usd_per_gb_s, w_per_gpu, w_per_gb_s, ratio_to_nvl72, evidence.
    """
    (reference,) = map(network_cost, bills(REFERENCE, gpus_per_node, settings))
    rows = []
    for one in bills(names, gpus_per_node, settings):
        cost = network_cost(one)
        rows.append(
            {
                "arch": one.arch,
                "usd_per_gpu": cost.usd_per_gpu,
                "gb_s_per_gpu": cost.gb_s_per_gpu,
                "usd_per_gb_s": cost.usd_per_gb_s,
                "w_per_gpu": cost.w_per_gpu,
                "w_per_gb_s": cost.w_per_gb_s,
                "ratio_to_nvl72": cost.usd_per_gb_s / reference.usd_per_gb_s if reference.usd_per_gb_s else None,
                "evidence": ", ".join(one.evidence),
            }
        )
    return rows


def part_rows(names: str = "all", gpus_per_node: int = 4, settings: Mapping[str, str] | None = None) -> list[Row]:
    """Every line of every list: count × price, and what it adds per GPU.

    Keys: arch, gpus, part, count, usd, w, usd_per_gpu, usd_per_gb_s, w_per_gpu, evidence.
    """
    return [
        {
            "arch": one.arch,
            "gpus": one.gpus,
            "part": line.part,
            "count": line.count,
            "usd": line.price.usd,
            "w": line.price.w,
            "usd_per_gpu": line.count * line.price.usd / one.gpus,
            "usd_per_gb_s": line.count * line.price.usd / one.gpus / one.gb_s,
            "w_per_gpu": line.count * line.price.w / one.gpus,
            "evidence": ", ".join(sorted(line.evidence)),
        }
        for one in bills(names, gpus_per_node, settings)
        for line in one.lines
    ]


def aggregate_rows(
    points: Iterable[WastePoint], gpu_usd: float, settings: Mapping[str, str] | None = None
) -> list[Row]:
    """What a cluster costs with faults: C = G c_net + (faulty + wasted GPUs) c_GPU. No GPU price is claimed.

    Keys: arch, gpus, gpus_per_node, tp, fault_ratio, waste_ratio_mean, usable_gpus_mean, gpu_usd, network_usd,
    idle_gpu_usd, aggregate_usd, aggregate_usd_per_gpu, network_w, network_w_per_usable_gpu. Raises UserError.
    """
    if not 0 <= gpu_usd <= MOST_USD:
        raise UserError(f"price of a GPU {gpu_usd}: expected a number from 0 to {MOST_USD:,} [$]")
    loaded, rows = load_components(overrides=settings), []
    for point in points:
        network = network_cost(bill(loaded, point.arch, point.gpus_per_node))
        try:
            found = aggregate(network, point.gpus, point.usable_gpus_mean, gpu_usd)
        except ValueError as error:
            raise UserError(f"waste of {point.arch} at fault ratio {point.fault_ratio:g}: {error}") from None
        rows.append(
            {
                **point._asdict(),
                "gpu_usd": gpu_usd,
                "network_usd": found.network_usd,
                "idle_gpu_usd": found.idle_gpu_usd,
                "aggregate_usd": found.usd,
                "aggregate_usd_per_gpu": found.usd_per_gpu,
                "network_w": found.network_w,
                "network_w_per_usable_gpu": found.network_w_per_usable_gpu,
            }
        )
    return rows
