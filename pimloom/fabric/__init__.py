"""The `pimloom fabric` command: optical fabrics, their faults, placements, costs and speed.

What a subcommand needs is imported inside it, so that `--help` is quick.
"""

import typer

from pimloom.fabric.cost import cost
from pimloom.fabric.mfu import mfu

app = typer.Typer(
    help="Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.", rich_markup_mode=None
)

app.command(epilog="Example:  pimloom fabric cost --arch all --set ocstrx.usd=500 --json -")(cost)
app.command(epilog="Example:  pimloom fabric mfu --model llama-3.1-405b --gpus 1024,8192,131072 --json -")(mfu)
