"""Options that the subcommands of `pimloom fabric` share, and how their texts are read."""

from pathlib import Path
from typing import Annotated

import typer

from pimloom.commands.counts import count

Arch = Annotated[str, typer.Option("--arch", metavar="NAMES", help="Architectures, a,b,c, or all.")]
Gpus = Annotated[int, typer.Option(metavar="N", parser=count, help="GPUs of the cluster.")]
GpusPerNode = Annotated[
    int, typer.Option(metavar="R", parser=count, help="GPUs of a node; a fault takes the whole node.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the rows as CSV.")]
