"""The `pimloom fabric` command: optical fabrics, their faults, placements, costs and speed.

What a subcommand needs is imported inside it, so that `--help` is quick.
"""

import typer

app = typer.Typer(
    help="Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.", rich_markup_mode=None
)
