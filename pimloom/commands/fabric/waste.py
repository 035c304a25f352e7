"""`pimloom fabric waste`: healthy GPUs that no tensor-parallel group can use, on each fabric."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pimloom.answer import Answer
from pimloom.arch.error import UserError
from pimloom.commands.counts import count
from pimloom.commands.fabric.faults import Days, Faults, Servers
from pimloom.commands.fabric.options import Arch, Csv, Gpus, GpusPerNode, Seed
from pimloom.commands.output import Json, Quiet, answer
from pimloom.commands.outputs import check_outputs
from pimloom.systems.fabric.asked import read_counts
from pimloom.systems.fabric.waste_asked import buildable, describe_trace, ratios_asked, trace_asked, waste_rows

if TYPE_CHECKING:
    from pimloom.reports.page import Figure
    from pimloom.systems.fabric.faults.trace import Trace
    from pimloom.systems.fabric.waste import Plan


def waste(
    arch: Arch = "all",
    gpus: Gpus = 2880,
    gpus_per_node: GpusPerNode = 4,
    tp: Annotated[str, typer.Option(metavar="N,N", help="GPUs of a tensor-parallel group, one or several.")] = "32",
    faults: Faults = None,
    servers: Servers = None,
    days: Days = None,
    fault_ratio: Annotated[
        str | None,
        typer.Option(metavar="F", help="Instead of a trace, each node down alone with F: 0.02,0.05 or 0:0.15:0.01."),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(metavar="N", parser=count, help="Random draws; else 10 of a trace, 100 of a --fault-ratio."),
    ] = None,
    job_gpus: Annotated[
        int | None,
        typer.Option(metavar="N", parser=count, help="Also show how much of the time a job of N GPUs must wait."),
    ] = None,
    seed: Seed = 0,
    json: Json = None,
    csv: Csv = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw waste over time, or against F; needs one --tp.")
    ] = None,
    quiet: Quiet = False,
) -> Answer:
    """GPU waste under faults. Waste is the share of all GPUs that are healthy and fit in no tensor-parallel group;
    faulty GPUs are not waste.

    Faults come from a trace walked through time, by default a synthetic one like the public trace, or with
    --fault-ratio from nodes that fail alone.
    """
    from pimloom.arch.files import write_atomic, write_table_csv
    from pimloom.arch.topology import topologies
    from pimloom.arch.topology.cluster import Cluster
    from pimloom.arch.version import __version__
    from pimloom.commands.progress import progress_bar
    from pimloom.reports.terminal.fabric.waste import show_waste
    from pimloom.systems.fabric.waste import IID_DRAWS, TRACE_DRAWS, Plan

    check_outputs({"--json": json, "--csv": csv, "--figure": figure}, {"--faults": faults})
    tps = read_counts(tp, "--tp")
    ratios = ratios_asked(fault_ratio, {"--faults": faults, "--servers": servers, "--days": days})
    cluster = Cluster(gpus, gpus_per_node)
    fabrics, left_out = buildable(topologies(arch), cluster, tps, arch == "all")
    number = (TRACE_DRAWS if ratios is None else IID_DRAWS) if draws is None else draws
    plan = Plan(cluster, fabrics, tps, number, seed, job_gpus)
    if figure is not None:
        _check_figure(figure, plan)
    trace = None if ratios else trace_asked(faults, servers, days, seed, cluster)
    with progress_bar("draws", quiet) as progress:
        rows = waste_rows(plan, trace, ratios or [], left_out, progress)
    if csv is not None:
        write_table_csv(csv, rows)
    if figure is not None:
        write_atomic(figure, _figure(plan, trace, rows, tps[0]).svg)
    described = None if trace is None else describe_trace(trace, faults)
    result = {"rows": rows, "trace": described, "seed": seed, "version": __version__}
    return answer(Answer(result, lambda: show_waste(rows, plan, trace), rows), json, quiet)


def _check_figure(file: Path, plan: "Plan") -> None:
    """Raise UserError unless there is something to draw, and no more than can be told apart."""
    from pimloom.reports.figures import MOST_SERIES
    from pimloom.systems.fabric.waste import forms_groups

    if len(plan.tps) > 1:
        raise UserError(f"--figure {file}: shows one --tp, got {','.join(map(str, plan.tps))}; name one")
    fit = sum(forms_groups(fabric, plan.cluster, plan.tps[0]) for fabric in plan.fabrics)
    if not fit:
        raise UserError(f"--figure {file}: no group of --tp {plan.tps[0]} fits these architectures; name others")
    if fit > MOST_SERIES:
        raise UserError(f"--figure {file}: {fit} architectures; at most {MOST_SERIES} can be told apart")


def _figure(plan: "Plan", trace: "Trace | None", rows: Sequence[dict[str, Any]], tp: int) -> "Figure":
    from pimloom.reports.fabric.waste_figures import ratio_figure, time_figure

    return time_figure(plan, trace, tp) if trace else ratio_figure(plan, rows, tp)
