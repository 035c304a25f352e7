"""The `pimloom fabric` command: optical fabrics, their faults, placements, costs and speed.

What a subcommand needs is imported inside it, so that `--help` is quick.
"""

import typer

from pimloom.fabric.switch import switch

app = typer.Typer(
    help="Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.", rich_markup_mode=None
)

app.command(epilog="Example:  pimloom fabric switch --part ocstrx --events examples/ocs_events.yaml --timeline t.json")(
    switch
)
