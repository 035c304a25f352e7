"""The `pimloom trace` and `pimloom aim` commands."""

import typer

from pimloom.commands import trace_options
from pimloom.commands.output import Json, Quiet, output

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(epilog="Example:  pimloom trace hbm2 --pattern random --requests 1e6 --commands commands.csv.gz")
def trace(
    memory: trace_options.Memory,
    requests_file: trace_options.File = None,
    controller: trace_options.Controller = None,
    pattern: trace_options.Pattern = None,
    requests: trace_options.Requests = None,
    seed: trace_options.Seed = None,
    gap: trace_options.Gap = None,
    stride: trace_options.Stride = None,
    channels: trace_options.Channels = 1,
    mapping: trace_options.Mapping = None,
    settings: trace_options.Settings = None,
    idle: trace_options.Idle = 0,
    json: Json = None,
    commands: trace_options.Commands = None,
    request_log: trace_options.RequestLog = None,
    timeline: trace_options.Timeline = None,
    window: trace_options.Window = None,
    quiet: Quiet = False,
) -> None:
    """Send memory requests to DRAM controllers; print commands, latency, bandwidth and energy."""
    asked = locals()
    from pimloom.commands.tracing import run_trace
    from pimloom.reports.terminal.trace import show_outcome, show_warnings
    from pimloom.systems.memory.tracing import Wanted

    result = run_trace(Wanted(**asked))
    show_warnings(result.warnings)
    output(result, json, None if quiet else lambda: show_outcome(result))


@app.command(epilog="Example:  pimloom aim program.aim --config gddr6_aim --json -")
def aim(
    program: trace_options.Program,
    config: trace_options.Config = "gddr6_aim",
    settings: trace_options.DeviceSettings = None,
    channel: trace_options.Channel = 0,
    json: Json = None,
    commands: trace_options.Commands = None,
    data: trace_options.Data = None,
    read: trace_options.Read = None,
    quiet: Quiet = False,
) -> None:
    """Run host instructions of AiM (GDDR6-AiM) on its DMA, controllers and channels; print clocks and commands."""
    asked = locals()
    from pimloom.commands.aiming import run_aim
    from pimloom.reports.terminal.aim import show_outcome
    from pimloom.reports.terminal.trace import show_warnings
    from pimloom.systems.memory.aim.asked import Wanted

    result = run_aim(Wanted(**asked))
    show_warnings(result.warnings)
    output(result, json, None if quiet else lambda: show_outcome(result))
