"""`pimloom fabric cost`: what the networks of scale-up fabrics cost and draw."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pimloom import __version__
from pimloom.arch.error import UserError
from pimloom.fabric.options import Arch, Csv, GpusPerNode
from pimloom.output import Json, Quiet, output

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


def cost(
    arch: Arch = "all",
    gpus_per_node: GpusPerNode = 4,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another price or count (repeatable).")
    ] = None,
    parts: Annotated[bool, typer.Option("--parts", help="Show every line: count × price.")] = False,
    gpu_usd: Annotated[
        float | None, typer.Option(metavar="X", min=0, max=1e9, help="Price of a GPU [$], for the cost with faults.")
    ] = None,
    waste: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --gpu-usd: rows of `pimloom fabric waste --csv FILE`.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the rows as FILE.svg.")] = None,
    json: Json = None,
    csv: Csv = None,
    quiet: Quiet = False,
) -> None:
    """Cost and power of each network per GPU and per GB/s, from lists of its parts; with faults, of idle GPUs too."""
    from pimloom.fabric.writing import check_outputs, write_figure, write_rows
    from pimloom.reports.fabric.cost import aggregate_figure, cost_figure, cost_rows, part_rows
    from pimloom.running import parse_settings
    from pimloom.show import show_rows

    if (gpu_usd is None) != (waste is None):
        raise UserError("--gpu-usd and --waste go together: the cost with faults needs a GPU's price and the waste")
    if parts and waste:
        raise UserError("--parts: leave out --waste, or --parts; one table at a time")
    check_outputs({"--json": json, "--csv": csv, "--figure": figure})
    prices = parse_settings(settings or (), such_as="ocstrx.usd=500")
    if gpu_usd is not None and waste is not None:
        rows, columns = _aggregate(arch, waste, gpu_usd, prices), AGGREGATE
    elif parts:
        rows, columns = part_rows(arch, gpus_per_node, prices), PARTS
    else:
        rows, columns = cost_rows(arch, gpus_per_node, prices), COST
    write_rows(csv, rows)
    if figure is not None:
        drawn = aggregate_figure(rows) if waste else cost_figure(part_rows(arch, gpus_per_node, prices))
        write_figure(figure, drawn)
    value: dict[str, Any] = {"rows": rows, "gpus_per_node": gpus_per_node, "version": __version__}
    output(value, json, None if quiet else lambda found: show_rows(columns, found["rows"]))


def _aggregate(arch: str, waste: Path, gpu_usd: float, prices: dict[str, str]) -> list[dict[str, Any]]:
    """Rows of the waste file whose architecture was asked for; of `all`, those that have a list of parts."""
    from pimloom.arch.fabric_cost import bill_names, load_components
    from pimloom.reports.fabric.cost import aggregate_rows
    from pimloom.reports.fabric.waste_file import read_waste

    points = read_waste(waste)
    there = list(dict.fromkeys(point.arch for point in points))
    known = [*bill_names(load_components().value), "tpuv4-slices"]
    wanted = arch.split(",") if arch != "all" else [name for name in there if name in known]
    if missing := [name for name in wanted if name not in there]:
        raise UserError(f"--arch {missing[0]}: no row of it in {waste}; it has {', '.join(there)}")
    if not wanted:
        raise UserError(f"{waste}: no architecture with a list of parts; it has {', '.join(there)}")
    return aggregate_rows([point for point in points if point.arch in wanted], gpu_usd, prices)
