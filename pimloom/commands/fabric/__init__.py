"""The `pimloom fabric` command: optical fabrics, their faults, placements, costs and speed.

What a subcommand needs is imported inside it, so that `--help` is quick.
"""

import typer

from pimloom.commands.fabric.cost import cost
from pimloom.commands.fabric.faults import faults
from pimloom.commands.fabric.mfu import mfu
from pimloom.commands.fabric.place import place
from pimloom.commands.fabric.switch import switch
from pimloom.commands.fabric.waste import waste

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    epilog="Example:  pimloom fabric waste --arch infinitehbd-k3,nvl72 --tp 32",
)

for command, example in (
    (waste, "waste --arch infinitehbd-k3,nvl72,tpuv4 --tp 32 --faults trace.json"),
    (faults, "faults --synthesise trace.json --seed 1 --json -"),
    (place, "place --tp 32 --job-gpus 2448 --faulty 17,203-205 --figure rings.svg"),
    (cost, "cost --arch all --set ocstrx.usd=500 --json -"),
    (mfu, "mfu --model llama-3.1-405b --gpus 1024,8192,131072 --json -"),
    (switch, "switch --part ocstrx --events examples/ocs_events.yaml --timeline t.json"),
):
    app.command(epilog=f"Example:  pimloom fabric {example}")(command)
