"""The `pimloom run` and `pimloom compare` commands."""

from pathlib import Path
from typing import Annotated

import typer

from pimloom.arch.error import UserError
from pimloom.commands import run_options
from pimloom.commands.completing import names
from pimloom.commands.counts import count
from pimloom.commands.output import Json, Quiet, output

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(epilog=run_options.EXAMPLES)
def run(
    system: run_options.Systems,
    model: run_options.Model,
    generate: run_options.Generate = None,
    prompt: run_options.Prompt = None,
    requests: run_options.Requests = None,
    batch: run_options.Batch = None,
    chunk: run_options.Chunk = None,
    iterations: run_options.Iterations = None,
    every: run_options.Every = None,
    policy: run_options.Policy = None,
    tp: run_options.Tp = None,
    pp: run_options.Pp = None,
    devices: run_options.CxlDevices = None,
    context: run_options.Context = None,
    layers: run_options.Layers = None,
    fidelity: run_options.Fidelity = None,
    lm_head: run_options.LmHead = None,
    settings: run_options.Settings = None,
    json: Json = None,
    timeline: run_options.Timeline = None,
    window: run_options.Window = None,
    check: run_options.Check = False,
    seed: run_options.Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Simulate a model on a system and print latency, energy and more."""
    asked = locals()
    from pimloom.commands.running import run_any
    from pimloom.systems.asked import Asked

    ran = run_any(Asked(**asked))
    output(ran.found, json, None if quiet else ran.show)


@app.command(
    epilog="Example:  pimloom compare pim_gpt,npu_only,gpu_a100 --model gpt2-xl --prompt 512 --generate 512 --html DIR"
)
def compare(
    systems: Annotated[
        str,
        typer.Argument(
            help="System names or paths to system YAMLs, separated by commas.",
            autocompletion=names("systems", several=True),
        ),
    ],
    model: run_options.Model,
    generate: run_options.Tokens = None,
    prompt: run_options.Prompt = 0,
    batch: run_options.Equal = 1,
    chunk: run_options.Pieces = 2048,
    every: Annotated[
        int,
        typer.Option(metavar="K", parser=count, help="Simulate one in K decode iterations, interpolate the others."),
    ] = 16,
    tp: run_options.Devices = None,
    layers: run_options.Layers = None,
    lm_head: run_options.Ends = False,
    settings: run_options.SystemSettings = None,
    price: run_options.Prices = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for index.html, results.json and timeline.json."),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run one workload on several systems: times, energy by cell, sizes, memory, what bounds each phase, and why."""
    asked = locals() | {"systems": [name.strip() for name in systems.split(",")]}
    if "" in asked["systems"]:
        raise UserError(f"{systems or repr(systems)}: expected names with a comma between two, got an empty name")
    from pimloom.commands.running import run_compare

    ran = run_compare(**asked)
    output(ran.found, json, None if quiet else ran.show)
