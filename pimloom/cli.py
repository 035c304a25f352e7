"""The `pimloom` command."""

import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from pimloom import run_options, trace_options
from pimloom.arch.error import UserError
from pimloom.arch.inputs import begin
from pimloom.arch.version import __version__
from pimloom.fabric import app as fabric_app
from pimloom.failing import say
from pimloom.output import Json, Quiet, output
from pimloom.rtl_cli import app as rtl_app
from pimloom.streams import mend_streams
from pimloom.sweep_cli import app as sweep_app
from pimloom.sweeping.stopping import end_at_once
from pimloom.systems.interrupts import Raised, remembered_by

# What a command needs is imported inside it: numba and matplotlib would slow `--help` down.

INTERRUPTED = 130
RUN_EXAMPLES = """Examples:

\b
  pimloom run pim_gpt --model gpt2-xl --set npu.clock_mhz=500 --json -
  pimloom run neupims --model gpt3-7b --tp 4 --requests sharegpt --batch 256
  pimloom run npu_only --model llama-3-8b --tp 4 --prompt 2048 --generate 64 --batch 8 --every 8
  pimloom run npu_pim --model gpt3-7b --requests batch.csv --fidelity released
  pimloom run gpu_a100 --model gpt3-7b --requests trace.csv --batch 64
"""
REPORT_EXAMPLES = """Examples:

\b
  pimloom report pim-gpt --out reports/out/pim_gpt
  pimloom report neupims --out reports/out/neupims
  pimloom report infinitehbd --out reports/out/infinitehbd --faults trace.json
"""

app = typer.Typer(
    name="pimloom",
    help="Exact cycles, energy and reports for processing-in-memory LLM accelerators.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Example:  pimloom run pim_gpt --model gpt2 --generate 64. With --debug, errors come with their traceback.",
)

app.add_typer(rtl_app, name="rtl")
app.add_typer(fabric_app, name="fabric")
app.add_typer(sweep_app, name="sweep")


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
def list_(json: Json = None) -> None:
    """List parts, systems, controllers, GPUs, models and studies."""
    from pimloom.show import catalogue, show_catalogue

    output(catalogue(), json, show_catalogue)


@app.command(epilog=RUN_EXAMPLES)
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
    layers: run_options.Layers = None,
    fidelity: run_options.Fidelity = None,
    set_: run_options.Settings = None,
    json: Json = None,
    timeline: run_options.Timeline = None,
    window: run_options.Window = None,
    check: run_options.Check = False,
    seed: run_options.Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Simulate a model on a system and print latency, energy and more."""
    from pimloom.run_any import Run, run_any

    ran = run_any(
        Run(
            system=system,
            model=model,
            settings=set_ or [],
            generate=generate,
            prompt=prompt,
            requests=requests,
            batch=batch,
            chunk=chunk,
            iterations=iterations,
            every=every,
            policy=policy,
            tp=tp,
            pp=pp,
            layers=layers,
            fidelity=fidelity,
            json=json,
            timeline=timeline,
            window=window,
            check=check,
            seed=seed,
            quiet=quiet,
        )
    )
    output(ran.found.as_dict(), json, None if quiet else lambda _: ran.show())


@app.command(
    short_help="Run one workload on several systems, side by side.",
    epilog="Example:  pimloom compare pim_gpt,npu_only,gpu_a100 --model gpt2-xl --prompt 512 --generate 512 --html DIR",
)
def compare(
    systems: Annotated[str, typer.Argument(help="System names or paths to system YAMLs, separated by commas.")],
    model: run_options.Model,
    generate: run_options.Generate = 256,
    prompt: run_options.Prompt = 0,
    batch: run_options.Batch = 1,
    chunk: run_options.Chunk = 2048,
    every: Annotated[
        int,
        typer.Option(metavar="K", help="Simulate each K-th decode iteration, interpolate the others."),
    ] = 16,
    tp: run_options.Tp = 1,
    layers: run_options.Layers = None,
    html: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for index.html, results.json and timeline.json.")
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run one workload on several systems: times, energy by part, memory, what bounds each phase, and why."""
    from pimloom.comparing import Asked, compare_command

    asked = Asked(prompt or 0, generate or 0, batch or 0, chunk or 0, every, tp or 0, layers)
    names = [name.strip() for name in systems.split(",") if name.strip()]
    answer = compare_command(names, model, asked, json=json, html=html, quiet=quiet)
    output(answer.found.as_dict(), json, None if quiet else lambda _: answer.show())


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
    set_: trace_options.Settings = None,
    idle: trace_options.Idle = 0,
    json: Json = None,
    commands: trace_options.Commands = None,
    request_log: trace_options.RequestLog = None,
    timeline: trace_options.Timeline = None,
    window: trace_options.Window = None,
    quiet: Quiet = False,
) -> None:
    """Send memory requests to DRAM controllers; print commands, latency, bandwidth and energy."""
    from pimloom.systems.memory.tracing import Wanted
    from pimloom.tracing import trace_command

    result = trace_command(
        Wanted(
            memory=memory,
            trace=requests_file,
            controller=controller,
            pattern=pattern,
            requests=requests,
            seed=seed,
            gap=gap,
            stride=stride,
            channels=channels,
            mapping=mapping,
            settings=set_ or [],
            idle=idle,
            commands=commands,
            request_log=request_log,
            timeline=timeline,
            window=window,
            json=json,
            quiet=quiet,
        )
    )
    from pimloom.trace_show import show_outcome, show_warnings

    show_warnings(result.warnings)
    output(result.as_dict(), json, None if quiet else lambda _: show_outcome(result))


@app.command(epilog=REPORT_EXAMPLES)
def report(
    study: Annotated[str, typer.Argument(help="Study name (see `pimloom list`).")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for index.html, results.json and CSV files; else reports/out/STUDY."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="neupims: all models and batches of the paper; hours.")] = False,
    faults: Annotated[
        Path | None, typer.Option(metavar="FILE", help="infinitehbd: fault trace in the public format, else synthetic.")
    ] = None,
    servers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="infinitehbd: servers of the trace, also those that never fail."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a study and write its report."""
    from pimloom.running import progress_bar
    from pimloom.show import studies

    known, study = studies(), study.replace("_", "-")
    if study not in known:
        from pimloom.arch.load import nearest

        raise UserError(f"unknown study {study!r}{nearest(study, known)}; known studies: {', '.join(known)}")
    if full and study != "neupims":
        raise UserError(f"--full: {study} has no longer run; leave it out")
    if faults and study != "infinitehbd":
        raise UserError(f"--faults: {study} has no faulty nodes; leave it out")
    if servers and study != "infinitehbd":
        raise UserError(f"--servers: {study} has no trace of servers; leave it out")
    given = {"full": full, "faults": faults, "servers": servers}
    asked = {name: value for name, value in given.items() if value}
    # reports/ may not enter the RTL, so that study is composed on the porch
    name = "pimloom.rtl_report" if study == "rtl" else f"pimloom.reports.{study.replace('-', '_')}.study"
    module = import_module(name)
    with progress_bar(f"making {study}", quiet) as progress:
        page = module.run_study(out or Path("reports/out", study.replace("-", "_")), progress, **asked)
    if not quiet:
        print(page)


@app.command(
    short_help="Explain a field or a DRAM standard.",
    epilog="Example:  pimloom explain dram.timing.tCCD_L",
)
def explain(
    field: Annotated[
        str | None,
        typer.Argument(help="Dotted field, what it begins with (faults), or a standard such as ddr4; else all."),
    ] = None,
    json: Json = None,
) -> None:
    """Explain a field: meaning, unit, values, source, rules; or a standard: what is modelled, and what not."""
    from pimloom.reports.explain import all_fields, fields_below
    from pimloom.reports.explain import explain as explain_field
    from pimloom.reports.explain_standard import explain_standard, standards
    from pimloom.show import show_explanation, show_fields, show_standard

    if field is None:
        output(dict(all_fields()), json, show_fields)
        return
    if field.lower() in standards():
        standard = explain_standard(field.lower())
        output(standard._asdict(), json, lambda _: show_standard(standard))
        return
    if below := fields_below(field):
        output(below, json, show_fields)
        return
    found = explain_field(field)
    plain = found._asdict() | {"values": [value._asdict() for value in found.values]}
    output(plain, json, lambda _: show_explanation(found))


if __name__ == "__main__":
    main()
