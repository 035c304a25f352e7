"""The `pimloom fabric` command: optical fabrics, their faults, placements, costs and speed.

What a subcommand needs is imported inside it, so that `--help` is quick.
"""

import typer

from pimloom.fabric.cost import cost

app = typer.Typer(
    help="Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.", rich_markup_mode=None
)

app.command(epilog="Example:  pimloom fabric cost --arch all --set ocstrx.usd=500 --json -")(cost)
