"""The `pimloom rtl` command: the hardware in gates. What a command needs is imported inside it."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pimloom.answer import Answer
from pimloom.arch.error import GateError, UserError
from pimloom.arch.version import __version__
from pimloom.commands.output import Json, Quiet, answer
from pimloom.commands.outputs import check_folder, check_outputs
from pimloom.commands.rtl_options import (
    PART,
    ClockMhz,
    Columns,
    DataflowName,
    DataPathName,
    EmitClockMhz,
    Name,
    OneOrAll,
    PartName,
    Phases,
    PowerUpName,
    Prefix,
    RefreshName,
    Rows,
    Simulator,
    Solver,
    SubBatches,
    TopName,
)

BEGINNING = 500  # characters of a file, in which its first line says who wrote it

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, epilog="Example:  pimloom rtl emit sequencer -o sequencer.v"
)


@app.command("list", epilog="Example:  pimloom rtl list --json -")
def list_(json: Json = None) -> Answer:
    """List the blocks."""
    return answer(blocks(), json)


def blocks() -> Answer:
    """The blocks: what each is, what it needs, its options with their defaults, and the files of its folder."""
    from pimloom.reports.terminal.rtl import show_blocks
    from pimloom.rtl.flow.lookup import needs_extra

    with needs_extra():
        from pimloom.rtl.flow.emit.listing import block_rows

        rows = block_rows()
    found: dict[str, Any] = {"rows": rows, "version": __version__}
    return Answer(found, lambda: show_blocks(found), rows)


@app.command(epilog="Example:  pimloom rtl emit sequencer -o sequencer.v")
def emit(
    block: Name,
    part: PartName = PART,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE|DIR/",
            help="Verilog file to write, or folder (DIR/): with testbench and more; - is stdout.",
        ),
    ] = "-",
    name: TopName = None,
    prefix: Prefix = None,
    clock_mhz: EmitClockMhz = None,
    sub_batches: SubBatches = None,
    rows: Rows = None,
    columns: Columns = None,
    dataflow: DataflowName = None,
    refresh: RefreshName = None,
    phases: Phases = None,
    power_up: PowerUpName = None,
    data: DataPathName = None,
    quiet: Quiet = False,
) -> str:
    """Write a block as Verilog, its ports explained above it."""
    sizes: dict[str, Any] = {"sub_batches": sub_batches, "rows": rows, "columns": columns, "dataflow": dataflow}
    names: dict[str, Any] = {"name": name, "prefix": prefix, "clock_mhz": clock_mhz}
    text = emitted(
        block, part, out, quiet, **names, **sizes, refresh=refresh, phases=phases, power_up=power_up, data=data
    )
    if out == "-":
        sys.stdout.write(text)
    return text


def emitted(
    block: str,
    part: str,
    out: str = "-",
    quiet: bool = True,
    name: str | None = None,
    prefix: str | None = None,
    clock_mhz: float | None = None,
    **sizes: int | str | None,
) -> str:
    """The Verilog of a block, written to `out` unless that is `-`. Raises UserError."""
    from pimloom.arch.files import write_atomic
    from pimloom.rtl.flow.lookup import find_blocks, given_sizes, needs_extra

    if not out:
        raise UserError("--out '': expected a file, a folder (DIR/), or - for stdout")
    folder = out.endswith("/") or Path(out).is_dir()
    check_folder(out, "--out") if folder else check_outputs({"--out": out})
    if clock_mhz is not None and not folder:
        raise UserError(f"--clock-mhz {clock_mhz:g}: read by a folder's constraints; take --out DIR/, or leave it out")
    if not folder and Path(out).is_file() and ", by pimloom " not in Path(out).read_text(errors="replace")[:BEGINNING]:
        raise UserError(f"--out {out}: pimloom did not write this file; move it, or name another")
    with needs_extra(), _bar(f"emitting {block}", quiet) as progress:
        from pimloom.rtl.flow.emit.design import design, top_name
        from pimloom.rtl.flow.emit.listing import files_named, listed, slow_note, written

        steps = 3 if folder else 1  # the Verilog; files with a recorded run; the folder
        progress(0, steps)
        if note := slow_note(block, folder):
            _note(quiet)(note)
        if folder:
            from pimloom.rtl.flow.emit.folder import check_free, files_of, without_bench, write_folder

            find_blocks(block)
            check_free(out, files_named(block, top_name(block, name, prefix)))
        made = design(block, part, given_sizes(block, **sizes), name, prefix, clock_mhz)
        progress(1, steps)
        lines = [written(made, out)]
        if folder:
            files = files_of(made)
            progress(2, steps)
            names = write_folder(out, files)
            lines = listed(made, out, names, without_bench(block, made.component))
        elif out != "-":
            write_atomic(out, made.verilog)
        progress(steps, steps)
    if out != "-" and not quiet:
        print("\n".join(f"pimloom: {line}" for line in lines), file=sys.stderr)
    return made.verilog


@app.command(epilog="Example:  pimloom rtl verify sequencer --commands 20000 --seed 1 --json -")
def verify(
    block: OneOrAll = None,
    part: PartName = PART,
    simulator: Annotated[Simulator, typer.Option(help="Simulator.")] = Simulator.VERILATOR,
    commands: Annotated[
        int, typer.Option(metavar="N", min=1, max=10**7, help="Commands to compare, at least, for each block.")
    ] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random stimulus.")] = 0,
    waves: Annotated[Path | None, typer.Option(metavar="FILE", help="Waveform of one block, a .vcd.")] = None,
    sub_batches: SubBatches = None,
    rows: Rows = None,
    columns: Columns = None,
    dataflow: DataflowName = None,
    refresh: RefreshName = None,
    phases: Phases = None,
    json: Json = None,
    quiet: Quiet = False,
) -> Answer:
    """Simulate blocks against the models they mirror."""
    from pimloom.reports.terminal.rtl import differing, show_verified
    from pimloom.rtl.flow.lookup import given_sizes, left_out, load_device, needs_extra, part_of

    check_outputs({"--json": json, "--waves": waves})
    with needs_extra(), _bar(f"verifying {block or 'all blocks'}", quiet) as progress:
        from pimloom.rtl.flow.verify import verify as run

        part = part_of(block, part)
        options: dict[str, Any] = {"simulator": simulator.value, "commands": commands, "seed": seed, "waves": waves}
        arrays: dict[str, Any] = {"rows": rows, "columns": columns, "dataflow": dataflow}
        sizes = given_sizes(block, sub_batches=sub_batches, refresh=refresh, phases=phases, **arrays)
        checked = _plain(run(block, part, **options, progress=progress, sizes=sizes))
        without = left_out(load_device(part)) if block is None else {}
    found = _result(checked, part, seed=seed, left_out=without)
    told = answer(Answer(found, lambda: show_verified(found), checked), json, quiet)
    if wrong := differing(checked):
        raise GateError(f"RTL and model differ: mismatches: {', '.join(wrong)}", told)
    return told


@app.command(epilog="Example:  pimloom rtl prove sequencer --json -")
def prove(
    block: Annotated[
        str | None, typer.Argument(metavar="BLOCK|all", help="Block name; all, or nothing: all that have properties.")
    ] = None,
    part: PartName = PART,
    solver: Annotated[Solver, typer.Option(help="SMT solver.")] = Solver.YICES,
    sub_batches: SubBatches = None,
    json: Json = None,
    quiet: Quiet = False,
) -> Answer:
    """Prove properties of a block with an SMT solver; the first time this takes minutes."""
    from pimloom.reports.terminal.rtl import show_proofs, unproved
    from pimloom.rtl.flow.lookup import given_sizes, needs_extra, part_of

    block = None if block == "all" else block
    check_outputs({"--json": json})
    with needs_extra(), _bar(f"proving {block or 'all blocks'}", quiet) as progress:
        from pimloom.rtl.flow.prove import prove as run

        part = part_of(block, part)
        sizes = given_sizes(block, sub_batches=sub_batches)
        rows = _plain(run(block, part, progress=progress, note=_note(quiet), solver=solver.value, sizes=sizes))
    found = _result(rows, part)
    told = answer(Answer(found, lambda: show_proofs(found), rows), json, quiet)
    if wrong := unproved(rows):
        raise GateError(f"not proved: {', '.join(wrong)}", told)
    return told


@app.command(epilog="Example:  pimloom rtl synth all --part gddr6_aim --json -")
def synth(
    block: Annotated[str, typer.Argument(metavar="BLOCK|all", help="Block name, or all but whole channels.")],
    part: PartName = PART,
    sub_batches: SubBatches = None,
    rows: Rows = None,
    columns: Columns = None,
    dataflow: DataflowName = None,
    refresh: RefreshName = None,
    phases: Phases = None,
    power_up: PowerUpName = None,
    data: DataPathName = None,
    by_module: Annotated[
        bool | None,
        typer.Option(
            "--by-module/--flat",
            help="Each module once, times its instances; or all as one piece, for an array up to half an hour.",
            show_default="large blocks by module",
        ),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> Answer:
    """Synthesise a block: area, longest path, FPGA resources. Of npu_pim_channel the controller, without banks."""
    from pimloom.reports.terminal.rtl import show_syntheses
    from pimloom.rtl.flow.lookup import find_logic, given_sizes, left_out, load_device, needs_extra, part_of

    check_outputs({"--json": json})
    with needs_extra(), _bar(f"synthesising {block}", quiet) as progress:
        from pimloom.rtl.flow.synth import all_blocks, synthesize

        part = part_of(block, part)
        device = load_device(part)
        sizes = given_sizes(
            None if block == "all" else block,
            sub_batches=sub_batches,
            refresh=refresh,
            phases=phases,
            power_up=power_up,
            data=data,
            rows=rows,
            columns=columns,
            dataflow=dataflow,
        )
        blocks = all_blocks(device) if block == "all" else find_logic(block, part, device, sizes)
        found = synthesize(blocks, device, part, progress, _note(quiet), by_module)
        without = left_out(device) if block == "all" else {}
    costs = _plain(found)
    result = _result(costs, part, left_out=without, sizes=sizes)
    return answer(Answer(result, lambda: show_syntheses(result), costs), json, quiet)


@app.command(epilog="Example:  pimloom rtl power pim_unit --commands 200 --json -")
def power(
    block: Name,
    part: PartName = PART,
    commands: Annotated[int, typer.Option(metavar="N", min=1, max=10**6, help="Commands of the run, at least.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random stimulus.")] = 0,
    clock_mhz: ClockMhz = 100.0,
    sub_batches: SubBatches = None,
    rows: Rows = None,
    columns: Columns = None,
    dataflow: DataflowName = None,
    json: Json = None,
    quiet: Quiet = False,
) -> Answer:
    """Power of a block's cells in a run of `verify`, from how often each net changes; no wires, no clock tree."""
    from pimloom.reports.terminal.rtl import differing, show_power
    from pimloom.rtl.flow.lookup import build, given_sizes, load_device, needs_extra, part_of

    check_outputs({"--json": json})
    with needs_extra(), _bar(f"estimating {block}", quiet) as progress:
        from pimloom.rtl.flow.power.estimate import estimate_power

        part = part_of(block, part)
        device = load_device(part)
        sizes = given_sizes(block, sub_batches=sub_batches, rows=rows, columns=columns, dataflow=dataflow)
        build(block, part, device, sizes)
        options: dict[str, Any] = {"commands": commands, "seed": seed, "clock_mhz": clock_mhz, "sizes": sizes}
        rows_ = _plain([estimate_power(block, part, device, **options, progress=progress, note=_note(quiet))])
    found = _result(rows_, part, seed=seed, sizes=sizes)
    told = answer(Answer(found, lambda: show_power(found), rows_), json, quiet)
    if wrong := differing(rows_):
        raise GateError(f"cells and model differ, so the power is not that of the block: {', '.join(wrong)}", told)
    return told


def _bar(title: str, quiet: bool) -> Any:
    from pimloom.commands.progress import progress_bar

    return progress_bar(title, quiet)


def _note(quiet: bool) -> Callable[[str], None]:
    """Sentences about what takes long, where the progress bar is."""
    loud = not quiet and sys.stderr.isatty()
    return lambda text: print(f"pimloom: {text}", file=sys.stderr) if loud else None


def _plain(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """NamedTuples as dicts."""
    return [row._asdict() for row in rows]


def _result(rows: list[dict[str, Any]], part: str, **more: object) -> dict[str, Any]:
    return {"rows": rows, "part": part, "version": __version__, **more}
