"""`pimloom fabric cost`: what the networks of scale-up fabrics cost and draw."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pimloom.answer import Answer
from pimloom.arch.error import UserError
from pimloom.arch.version import __version__
from pimloom.commands.counts import count, number
from pimloom.commands.fabric.options import Arch, Csv, Gpus, GpusPerNode, Seed
from pimloom.commands.output import Json, Quiet, answer
from pimloom.systems.fabric.asked import MOST_USD, read_counts, read_ratios
from pimloom.systems.fabric.waste_asked import plan_asked, points_asked

if TYPE_CHECKING:
    from pimloom.systems.fabric.waste import Plan
    from pimloom.systems.fabric.waste_file import WastePoint


def cost(
    arch: Arch = "all",
    gpus_per_node: GpusPerNode = 4,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another price or count (repeatable).")
    ] = None,
    parts: Annotated[bool, typer.Option("--parts", help="Show every line: count × price.")] = False,
    gpu_usd: Annotated[
        float | None,
        typer.Option(
            metavar="X", parser=number(0, MOST_USD), help="Price of a GPU, 0 to 10^9 [$], for the cost with faults."
        ),
    ] = None,
    fault_ratio: Annotated[
        str | None, typer.Option(metavar="F", help="With --gpu-usd: nodes down, 0.02,0.05 or FROM:TO:STEP.")
    ] = None,
    gpus: Gpus = 2880,
    tp: Annotated[str, typer.Option(metavar="N,N", help="With --fault-ratio: GPUs of a group.")] = "32",
    draws: Annotated[int, typer.Option(metavar="N", parser=count, help="With --fault-ratio: random draws.")] = 100,
    seed: Seed = 0,
    waste: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --gpu-usd, and no --fault-ratio: what `fabric waste --csv` wrote."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the rows as FILE.svg.")] = None,
    json: Json = None,
    csv: Csv = None,
    quiet: Quiet = False,
) -> Answer:
    """Cost and power of each network per GPU and per GB/s, from lists of its parts; with faults, of idle GPUs too."""
    from pimloom.arch.topology.cluster import Cluster
    from pimloom.commands.fabric.writing import check_files, write_figure, write_rows
    from pimloom.reports.fabric.cost_figures import aggregate_figure, cost_figure
    from pimloom.reports.terminal.fabric.cost import AGGREGATE, COST, PARTS
    from pimloom.reports.terminal.tables import show_rows
    from pimloom.systems.fabric.cost import aggregate_rows, cost_rows, part_rows
    from pimloom.systems.settings import parse_settings

    _check_asked(gpu_usd, waste, fault_ratio, parts)
    check_files(json, csv, figure, waste)
    prices = parse_settings(settings or (), such_as="ocstrx.usd=500")
    if gpu_usd is not None:
        if waste is not None:
            points = points_asked(arch, waste)
        else:
            assert fault_ratio is not None
            plan = plan_asked(arch, Cluster(gpus, gpus_per_node), read_counts(tp, "--tp"), draws, seed)
            points = _draw_points(plan, read_ratios(fault_ratio, "--fault-ratio"), quiet)
        rows, columns = aggregate_rows(points, gpu_usd, prices), AGGREGATE
    elif parts:
        rows, columns = part_rows(arch, gpus_per_node, prices), PARTS
    else:
        rows, columns = cost_rows(arch, gpus_per_node, prices), COST
    write_rows(csv, rows)
    if figure is not None:
        drawn = aggregate_figure(rows) if gpu_usd is not None else cost_figure(part_rows(arch, gpus_per_node, prices))
        write_figure(figure, drawn)
    value: dict[str, Any] = {"rows": rows, "gpus_per_node": gpus_per_node, "version": __version__}
    return answer(Answer(value, lambda: show_rows(columns, rows), rows), json, quiet)


def _check_asked(gpu_usd: float | None, waste: Path | None, fault_ratio: str | None, parts: bool) -> None:
    """Raise UserError for options that do not go together."""
    if (gpu_usd is None) != (waste is None and fault_ratio is None):
        raise UserError("the cost with faults needs --gpu-usd, and one of --fault-ratio and --waste")
    if waste and fault_ratio:
        raise UserError(f"--waste {waste}: has the waste of its own faults; leave out --fault-ratio")
    if parts and gpu_usd is not None:
        raise UserError("--parts: leave out --gpu-usd, or --parts; one table at a time")


def _draw_points(plan: "Plan", ratios: list[float], quiet: bool) -> "list[WastePoint]":
    from pimloom.commands.progress import progress_bar
    from pimloom.systems.fabric.waste import iid_rows
    from pimloom.systems.fabric.waste_file import points_of

    with progress_bar("draws", quiet) as progress:
        return points_of(iid_rows(plan, ratios, progress))
