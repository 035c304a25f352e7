"""The `pimloom fabric` command: optical fabrics, their faults, placements, costs and speed.

What a subcommand needs is imported inside it, so that `--help` is quick.
"""

import typer

from pimloom.fabric.place import place

app = typer.Typer(
    help="Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.", rich_markup_mode=None
)
app.command(epilog="Example:  pimloom fabric place --tp 32 --job-gpus 2448 --faulty 17,203-205 --figure rings.svg")(
    place
)
