"""The `pimloom fabric place` command: where a job's groups go on a ring with faulty nodes."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pimloom.answer import Answer
from pimloom.arch.error import GateError, UserError
from pimloom.arch.version import __version__
from pimloom.commands.counts import count
from pimloom.commands.fabric.options import Csv, GpusPerNode, Seed
from pimloom.commands.output import Json, Quiet, answer
from pimloom.commands.outputs import check_outputs
from pimloom.systems.fabric.place_asked import faults_asked, job_asked

if TYPE_CHECKING:
    from pimloom.systems.fabric.place import Placed


class Algorithm(StrEnum):
    """Those of `pimloom.systems.fabric.place`, whose import is slow."""

    SPARES = "spares"
    ALIGNED = "aligned"
    UNCONSTRAINED = "unconstrained"
    RING = "ring"


def place(
    nodes: Annotated[int, typer.Option(metavar="N", parser=count, help="Nodes of the cluster.")] = 720,
    tp: Annotated[int, typer.Option(metavar="T", parser=count, help="GPUs of a tensor-parallel group.")] = 32,
    job_gpus: Annotated[
        int | None,
        typer.Option(metavar="G", parser=count, help="GPUs of the job, rounded down to groups; else 85 % of all."),
    ] = None,
    faulty: Annotated[
        str | None, typer.Option(metavar="NODES", help="Faulty nodes, as 17,203-205; node t p + r is in ToR t.")
    ] = None,
    fault_ratio: Annotated[
        float | None, typer.Option(metavar="F", help="Instead: each node is faulty with this probability.")
    ] = None,
    seed: Seed = 0,
    tor_size: Annotated[int, typer.Option(metavar="P", parser=count, help="Nodes of a top-of-rack switch (ToR).")] = 8,
    gpus_per_node: GpusPerNode = 4,
    arch: Annotated[str, typer.Option(metavar="NAME", help="infinitehbd-kN.")] = "infinitehbd-k3",
    algorithm: Annotated[
        Algorithm,
        typer.Option(
            help="spares: keeps groups in their ToRs; aligned: blocks of ToRs, by binary search; unconstrained: row by "
            "row; ring: along the ring, the most groups."
        ),
    ] = Algorithm.SPARES,
    corners: Annotated[
        bool, typer.Option("--corners", help="Allow nodes that need one bundle for both sides; the verifier objects.")
    ] = False,
    optimum: Annotated[
        bool, typer.Option("--optimum", help="Also the most groups that fit, exactly (small clusters).")
    ] = False,
    dcn_share: Annotated[float, typer.Option(metavar="F", help="Share of all traffic that runs between groups.")] = 1.0,
    json: Json = None,
    csv: Csv = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the cluster as SVG.")] = None,
    quiet: Quiet = False,
) -> Answer:
    """Place the groups of a job around faulty nodes and check that the hardware can hold it.

    Waste: healthy nodes that no further group fits on, as a share of all nodes.
    """
    check_outputs({"--json": json, "--csv": csv, "--figure": figure})
    if not 0 <= dcn_share <= 1:
        raise UserError(f"--dcn-share {dcn_share}: expected a share from 0 to 1")
    job = job_asked(
        nodes, tp, job_gpus, faults_asked(nodes, faulty, fault_ratio, seed), tor_size, gpus_per_node, arch, corners
    )
    from pimloom.commands.progress import progress_bar
    from pimloom.reports.terminal.fabric.place import show_placed
    from pimloom.systems.fabric.place import node_rows, place_job, summary

    with progress_bar(f"{job.groups} groups on {nodes} nodes", quiet) as progress:
        placed = place_job(job, algorithm.value, progress)
        found = summary(placed, optimum, dcn_share)
    rows = list(node_rows(placed))
    _write(placed, csv, figure, rows)
    found |= {"fault_ratio": fault_ratio, "seed": None if fault_ratio is None else seed, "version": __version__}
    told = answer(Answer(found, lambda: show_placed(placed, found, optimum), rows), json, quiet)
    if placed.complaints:
        more = f" (and {len(placed.complaints) - 1} more)" if len(placed.complaints) > 1 else ""
        raise GateError(f"the hardware cannot hold this placement: {placed.complaints[0]}{more}", told)
    return told


def _write(placed: "Placed", csv: Path | None, figure: Path | None, rows: Iterable[Mapping[str, Any]]) -> None:
    """Both files, or none: the drawing is made before either is written."""
    from pimloom.arch.files import write_atomic, write_table_csv

    drawing = None
    if figure is not None:
        from pimloom.reports.fabric.place_draw import cluster_figure

        drawing = str(cluster_figure(placed).svg)
    if csv is not None:
        write_table_csv(csv, list(rows))
    if figure is not None and drawing is not None:
        write_atomic(figure, drawing)
