"""The `pimloom` command."""

import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pimloom.answer import Answer
from pimloom.arch.inputs import begin
from pimloom.arch.version import __version__
from pimloom.commands import run_options, trace_options
from pimloom.commands.completing import names
from pimloom.commands.counts import count, some_folder
from pimloom.commands.output import Json, Quiet, output
from pimloom.commands.output import answer as give
from pimloom.commands.serve import EXAMPLE, SHORT, serve
from pimloom.failing import say
from pimloom.streams import mend_streams
from pimloom.systems.interrupts import Raised, end_at_once, remembered_by

# What a command needs is imported inside it: numba and matplotlib would slow `--help` down.

INTERRUPTED = 130
GROUPS = {  # name -> module of its `app`, imported when asked for, and help
    "report": ("pimloom.commands.report", "Run a study and write its report."),
    "rtl": ("pimloom.commands.rtl", "The hardware in gates: emit, verify, prove and synthesise it."),
    "fabric": (
        "pimloom.commands.fabric",
        "Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.",
    ),
    "sweep": (
        "pimloom.commands.sweep",
        "Compare thousands of designs: grid, random, nsga2 or tpe; resumes, scales out, ends in one HTML file. "
        "`pimloom sweep FILE` is `pimloom sweep run FILE`.",
    ),
}


class Porch(TyperGroup):
    """All commands; a group of commands is imported when it is run, not when it is listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        return [*self.commands, *GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command; of a group what the help says of it."""
        if cmd_name in GROUPS:
            return TyperGroup(name=cmd_name, help=GROUPS[cmd_name][1], rich_markup_mode=None)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is run."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, group(name) if name in GROUPS else command, rest


def group(name: str) -> Any:
    """A group with its commands."""
    module, text = GROUPS[name]
    found = typer.main.get_command(import_module(module).app)
    found.name, found.help = name, text
    return found


app = typer.Typer(
    name="pimloom",
    cls=Porch,
    help="Exact cycles, energy and reports for processing-in-memory LLM accelerators.",
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Example:  pimloom run pim_gpt --model gpt2 --generate 64. With --debug, errors come with their traceback.",
)


def main() -> None:
    """Entry point: errors are one line on stderr; exit codes as CONVENTIONS.md has them."""
    mend_streams()
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that workers end with us
    os.environ["PYTHONSAFEPATH"] = "1"  # no Python that we start imports files of the current folder
    begin()
    raised = Raised()
    try:
        with remembered_by(raised):
            code = app(args=arguments or ["--help"], prog_name="pimloom", standalone_mode=False)
            sys.stdout.flush()
            raised.check()
    except Exception as error:
        if debug:
            raise
        code = INTERRUPTED if raised.interrupted else say(error)
    except SystemExit as end:  # typer and rich end a process whose output nobody reads
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        code = say(end.__context__)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, end_at_once)  # else one more would be a traceback of what Python does at exit
        code = INTERRUPTED
    if code == INTERRUPTED:  # typer may have turned the exception into its code
        signal.signal(signal.SIGINT, end_at_once)
        print("pimloom: interrupted; nothing half-written", file=sys.stderr)
    raise SystemExit(code if isinstance(code, int) else 0)


def _version(asked: bool) -> None:
    if asked:
        print(f"pimloom {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exact cycles, energy and reports for processing-in-memory LLM accelerators."""


@app.command("list", epilog="Example:  pimloom list --json -")
def list_(json: Json = None) -> Answer:
    """List parts, systems, AiM devices, controllers, GPUs, models and studies."""
    from pimloom.commands.catalogue import listing

    return give(listing(), json)


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


app.command(short_help=SHORT, epilog=EXAMPLE)(serve)


@app.command(
    short_help="Run one workload on several systems, side by side.",
    epilog="Example:  pimloom compare pim_gpt,npu_only,gpu_a100 --model gpt2-xl --prompt 512 --generate 512 --html DIR",
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
    html: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=some_folder, help="Folder for index.html, results.json and timeline.json."),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run one workload on several systems: times, energy by part, memory, what bounds each phase, and why."""
    asked = locals() | {"systems": [name.strip() for name in systems.split(",") if name.strip()]}
    from pimloom.commands.running import run_compare

    ran = run_compare(**asked)
    output(ran.found, json, None if quiet else ran.show)


@app.command(
    short_help="Send memory requests to DRAM controllers, command by command.",
    epilog="Example:  pimloom trace hbm2 --pattern random --requests 1e6 --commands commands.csv.gz",
)
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


@app.command(
    short_help="Run host instructions on an AiM device, clock by clock.",
    epilog="Example:  pimloom aim program.aim --config gddr6_aim --json -",
)
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


@app.command(
    short_help="Explain a field or a DRAM standard.",
    epilog="Example:  pimloom explain dram.timing.tCCD_L",
)
def explain(
    field: Annotated[
        str | None,
        typer.Argument(help="Field of a system or a result, what it begins with (faults), standard or name; else all."),
    ] = None,
    json: Json = None,
) -> Answer:
    """Explain a field of a system: meaning, unit, values, source, rules; or of a result; or what a standard models."""
    from pimloom.commands.catalogue import explained

    return give(explained(field), json)


if __name__ == "__main__":
    main()
