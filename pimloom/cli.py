"""The `pimloom` command."""

import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from pimloom import __version__
from pimloom.arch.error import UserError
from pimloom.fabric import app as fabric_app
from pimloom.failing import say
from pimloom.output import Json, Quiet, output
from pimloom.rtl_cli import app as rtl_app
from pimloom.serving_options import Batch, Every, Fidelity, Iterations, Layers, Policy, Pp, Requests, Tp

# What a command needs is imported inside it: numba and matplotlib would slow `--help` down.

INTERRUPTED = 130

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


def main() -> None:
    """Entry point: errors are one line on stderr, exit code 2 for the user's, 1 for ours, 130 for an interrupt."""
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that workers end with us
    try:
        code = app(args=arguments or ["--help"], prog_name="pimloom", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        if debug:
            raise
        code = say(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # typer may have turned the exception into its code
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


@app.command(epilog="Example:  pimloom run pim_gpt --model gpt2-xl --generate 1024 --set npu.clock_mhz=500 --json -")
def run(
    system: Annotated[str, typer.Argument(help="System name (see `pimloom list`) or path to a system YAML.")],
    model: Annotated[str, typer.Option(help="Model name, a Hugging Face config.json, or its folder.")],
    generate: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens to generate from an empty prompt, batch 1; else 1024.")
    ] = None,
    requests: Requests = None,
    batch: Batch = None,
    iterations: Iterations = None,
    every: Every = None,
    policy: Policy = None,
    tp: Tp = None,
    pp: Pp = None,
    layers: Layers = None,
    fidelity: Fidelity = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a value; may be repeated.")
    ] = None,
    json: Json = None,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline of a window of the run.")
    ] = None,
    window: Annotated[str, typer.Option(metavar="FROM:TO", help="Window of the timeline [µs].")] = "0:20",
    check: Annotated[bool, typer.Option("--check", help="Run the legality monitor on every command trace.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the requests of a data set; recorded in the result.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Simulate a model on a system and print latency, energy and more."""
    from pimloom.serving import Asked, serve_command, serves

    batched: dict[str, object] = {"--requests": requests, "--tp": tp, "--pp": pp, "--layers": layers}
    batched |= {"--fidelity": fidelity, "--batch": batch, "--iterations": iterations, "--every": every}
    batched |= {"--policy": policy}
    if serves(system, any(value is not None for value in batched.values())):
        alone: dict[str, object] = {"--generate": generate, "--timeline": timeline, "--check": check or None}
        for option, value in alone.items():
            if value is not None:
                raise UserError(f"{option}: {system} runs one decode iteration of a batch; leave it out")
        answer = serve_command(
            system,
            model,
            set_ or [],
            Asked(
                requests,
                batch,
                iterations,
                every,
                policy,
                seed,
                1 if tp is None else tp,
                1 if pp is None else pp,
                layers,
                fidelity,
            ),
            json=json,
            quiet=quiet,
        )
        output(answer.value, json, None if quiet else lambda _: answer.show())
        return
    for option, value in batched.items():
        if value is not None:
            raise UserError(f"{option} {value}: {system} runs one sequence at a time; leave it out")
    from pimloom.running import run_command

    result = run_command(
        system,
        model,
        1024 if generate is None else generate,
        set_ or [],
        json=json,
        timeline=timeline,
        window=window,
        check=check,
        seed=seed,
        quiet=quiet,
    )
    from pimloom.show import show_result

    output(result.as_dict(), json, None if quiet else lambda _: show_result(result))


@app.command(
    short_help="Send memory requests to DRAM controllers, command by command.",
    epilog="Example:  pimloom trace hbm2 --pattern random --requests 1e6 --commands commands.csv.gz",
)
def trace(
    memory: Annotated[str, typer.Argument(help="Part, standard, part YAML, DRAMsim3 .ini or Ramulator .yaml.")],
    requests_file: Annotated[
        Path | None,
        typer.Argument(metavar="TRACE", help="Lines `0xADDR READ|WRITE CYCLE` (hexadecimal) or `LD|ST 0xADDR`."),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="default, dramsim3, ramulator2, or a YAML."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead of TRACE: sequential, strided, random, random-rw, mixed, hazard, "
            "row-conflict, sparse, burst.",
        ),
    ] = None,
    requests: Annotated[str | None, typer.Option(metavar="N", help="Requests of a pattern, as 1e6; else 1e5.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a pattern; else 0.")] = None,
    gap: Annotated[float | None, typer.Option(help="Mean clocks between requests of a pattern.")] = None,
    stride: Annotated[int | None, typer.Option(help="Bytes between requests of pattern strided.")] = None,
    channels: Annotated[int, typer.Option(help="Channels of a part.")] = 1,
    mapping: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="Address fields, highest first: row,rank,bank,column:5,…")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set dram.FIELD or controller.FIELD."),
    ] = None,
    idle: Annotated[int, typer.Option(metavar="CLOCKS", help="Clocks to go on after the last request.")] = 0,
    json: Json = None,
    commands: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every command as CSV (.csv, .csv.gz, .csv.zst).")
    ] = None,
    request_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write when each request was accepted and done, as CSV.")
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline of a window.")
    ] = None,
    window: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Its window in clocks; else 0:2000.")] = None,
    quiet: Quiet = False,
) -> None:
    """Send memory requests to DRAM controllers; print commands, latency, bandwidth and energy."""
    from pimloom.tracing import Wanted, trace_command

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


@app.command(epilog="Example:  pimloom report pim-gpt --out reports/out/pim_gpt")
def report(
    study: Annotated[str, typer.Argument(help="Study name (see `pimloom list`).")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for index.html, results.csv and results.json.")],
    full: Annotated[bool, typer.Option("--full", help="neupims: all models and batches of the paper; hours.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run a study and write its report."""
    from pimloom.running import progress_bar
    from pimloom.show import studies

    known = studies()
    if study not in known:
        from pimloom.arch.load import nearest

        raise UserError(f"unknown study {study!r}{nearest(study, known)}; known studies: {', '.join(known)}")
    if full and study != "neupims":
        raise UserError(f"--full: {study} has no longer run; leave it out")
    # reports/ may not enter the RTL, so that study is composed on the porch
    name = "pimloom.rtl_report" if study == "rtl" else f"pimloom.reports.{study.replace('-', '_')}.study"
    module = import_module(name)
    with progress_bar(f"making {study}", quiet) as progress:
        page = module.run_study(out, progress, full=True) if full else module.run_study(out, progress)
    if not quiet:
        print(page)


@app.command(
    short_help="Explain a field or a DRAM standard.",
    epilog="Example:  pimloom explain dram.timing.tCCD_L",
)
def explain(
    field: Annotated[
        str | None, typer.Argument(help="Dotted field, or a standard such as ddr4; without it, all are listed.")
    ] = None,
    json: Json = None,
) -> None:
    """Explain a field: meaning, unit, values, source, rules; or a standard: what is modelled, and what not."""
    from pimloom.explain import all_fields
    from pimloom.explain import explain as explain_field
    from pimloom.explain_standard import explain_standard, standards
    from pimloom.show import show_explanation, show_fields, show_standard

    if field is None:
        output(dict(all_fields()), json, show_fields)
        return
    if field.lower() in standards():
        standard = explain_standard(field.lower())
        output(standard._asdict(), json, lambda _: show_standard(standard))
        return
    found = explain_field(field)
    plain = found._asdict() | {"values": [value._asdict() for value in found.values]}
    output(plain, json, lambda _: show_explanation(found))


if __name__ == "__main__":
    main()
