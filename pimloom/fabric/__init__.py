"""The `pimloom fabric` command: optical fabrics, their faults, placements, costs and speed.

What a subcommand needs is imported inside it, so that `--help` is quick.
"""

import typer

from pimloom.fabric.cost import cost
from pimloom.fabric.faults import faults
from pimloom.fabric.mfu import mfu
from pimloom.fabric.waste import waste

app = typer.Typer(
    help="Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.", rich_markup_mode=None
)

app.command(epilog="Example:  pimloom fabric cost --arch all --set ocstrx.usd=500 --json -")(cost)
app.command(epilog="Example:  pimloom fabric mfu --model llama-3.1-405b --gpus 1024,8192,131072 --json -")(mfu)
app.command(epilog="Example:  pimloom fabric waste --arch infinitehbd-k3,nvl72,tpuv4 --tp 32 --faults trace.json")(
    waste
)
app.command(epilog="Example:  pimloom fabric faults --synthesise trace.json --seed 1 --json -")(faults)
