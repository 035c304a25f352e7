"""The `pimloom` command."""

import os
import signal
import sys
from collections.abc import Callable
from copy import copy
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from pimloom import end_silently
from pimloom.arch.files import together
from pimloom.arch.inputs import begin
from pimloom.arch.version import __version__
from pimloom.failing import say
from pimloom.streams import mend_streams
from pimloom.systems.interrupts import Raised, end_at_once, remembered_by

INTERRUPTED = 130


class Place(NamedTuple):
    """Where a command is: the module whose `app` has it, or is it where it is a group; and what the help says of it."""

    module: str
    help: str


COMMANDS = {  # imported when asked for: what they need would slow `--help` and one another down
    "list": Place(
        "pimloom.commands.catalogue", "List parts, systems, AiM devices, controllers, GPUs, models and studies."
    ),
    "run": Place("pimloom.commands.run", "Simulate a model on a system and print latency, energy and more."),
    "serve": Place("pimloom.commands.serve", "Serve requests as they arrive, by a scheduler's rules."),
    "compare": Place("pimloom.commands.run", "Run one workload on several systems, side by side."),
    "trace": Place("pimloom.commands.trace", "Send memory requests to DRAM controllers, command by command."),
    "aim": Place("pimloom.commands.trace", "Run host instructions on an AiM device, clock by clock."),
    "explain": Place("pimloom.commands.catalogue", "Explain a field or a DRAM standard."),
}
GROUPS = {
    "report": Place("pimloom.commands.report", "Run a study and write its report."),
    "rtl": Place("pimloom.commands.rtl", "The hardware in gates: emit, verify, prove and synthesise it."),
    "fabric": Place(
        "pimloom.commands.fabric",
        "Scale-up fabrics: waste under faults, placement, cost, MFU, the optical switch.",
    ),
    "sweep": Place(
        "pimloom.commands.sweep",
        "Compare thousands of designs: grid, random, nsga2 or tpe; resumes, scales out, ends in one HTML file. "
        "`pimloom sweep FILE` is `pimloom sweep run FILE`.",
    ),
}


class Porch(TyperGroup):
    """All commands; one is imported when it is run, not when it is listed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands = {name: TyperCommand(name, help=place.help) for name, place in (COMMANDS | GROUPS).items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is run."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, command(str(name)), rest

    def whole(self) -> dict[str, Any]:
        """All commands with their options, for who looks for one."""
        return {name: command(name) for name in COMMANDS}


@cache
def command(name: str) -> Any:
    """A command, or a group with its commands."""
    if name in COMMANDS:
        alone = copy(import_module(COMMANDS[name].module).app)  # the options of its other commands are not built
        alone.registered_commands = [each for each in alone.registered_commands if name == _named(each)]
        return refusing_empty_paths(typer.main.get_command(alone))
    found = typer.main.get_command(import_module(GROUPS[name].module).app)
    found.name, found.help = name, GROUPS[name].help
    return refusing_empty_paths(found)


def refusing_empty_paths(found: Any) -> Any:
    """The same command, or group, whose paths are no empty text: Python takes it for the current folder."""
    from pimloom.options import PATHS  # `--help` of all commands needs none of it

    for inner in getattr(found, "commands", {}).values():
        refusing_empty_paths(inner)
    for param in found.params:
        if param.metavar in PATHS:
            here = "; . is the current one" if param.metavar == "DIR" else ""
            said = f"expected {PATHS[param.metavar]}, got an empty name{here}"
            param.type_cast_value = partial(_cast, param.type_cast_value, said)
    return found


def _cast(cast: Callable[[Any, Any], Any], said: str, context: Any, value: Any) -> Any:
    if value == "":
        raise typer.BadParameter(said)
    return cast(context, value)


def _named(registered: Any) -> str:
    name: str = registered.name or typer.main.get_command_name(registered.callback.__name__)
    return name


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
    alone = signal.getsignal(signal.SIGINT) is end_silently
    try:
        code = _run(alone)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if alone or code == INTERRUPTED:  # else one more would be a traceback of what Python does at exit
        signal.signal(signal.SIGINT, end_at_once)
    if code == INTERRUPTED:
        print("pimloom: interrupted; nothing half-written", file=sys.stderr)
    raise SystemExit(code if isinstance(code, int) else 0)


def _run(alone: bool) -> object:
    """The command's exit code. alone: from now on an interrupt is an exception, until the command has ended."""
    mend_streams()
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # so that workers end with us
    os.environ["PYTHONSAFEPATH"] = "1"  # no Python that we start imports files of the current folder
    begin()
    raised = Raised()
    try:
        if alone:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        with remembered_by(raised):
            with together():
                code = app(args=arguments or ["--help"], prog_name="pimloom", standalone_mode=False)
                raised.check()
                if code == INTERRUPTED:  # typer has turned the exception into its code
                    raise KeyboardInterrupt
            sys.stdout.flush()
            raised.check()
        return code
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        return INTERRUPTED if raised.interrupted else say(error, shown=debug)
    except SystemExit as end:  # typer and rich end a process whose output nobody reads
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return say(end.__context__)
    finally:
        if alone:
            signal.signal(signal.SIGINT, end_at_once)


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


if __name__ == "__main__":
    main()
