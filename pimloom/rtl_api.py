"""`pimloom.rtl`: the hardware in gates, as `pimloom rtl` has it.

Results are an `Answer` with the fields of the command's JSON; the only error is `pimloom.UserError`. What differs, or
is not proved, is no error here: the rows say so.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pimloom.edge import ask, public

if TYPE_CHECKING:
    from pimloom.answer import Answer

PART = "gddr6_pim_gpt"


@public
def list_() -> "Answer":
    """The blocks: `rows` with `block` and `summary`.

    >>> "sequencer" in [row["block"] for row in list_().rows]
    True
    """
    from pimloom.commands.rtl import blocks

    return blocks()


@public
def emit(
    block: str,
    *,
    part: str | Path = PART,
    out: str | Path = "-",
    name: str | None = None,
    prefix: str | None = None,
    clock_mhz: float | None = None,
    sub_batches: int | None = None,
    rows: int | None = None,
    columns: int | None = None,
    dataflow: Literal["ws", "os"] | None = None,
    refresh: Literal["all_bank", "staggered"] | None = None,
    phases: int | None = None,
    power_up: Literal["host", "core"] | None = None,
    data: Literal["none", "burst"] | None = None,
) -> str:
    """A block as Verilog, its ports explained above it. out: a file or a folder to write, too, unless it is "-".

    name: of the top module, by default the block's; prefix: before the name of each module. Names of modules below the
    top begin with its name, so that blocks of different names stand in one design. clock_mhz: of the constraints in a
    folder [MHz], by default that of the part, or of a system that has such a unit. sub_batches: of
    `interleave`, 2 by default.

    rows, columns, dataflow: of an array; without them 4 x 4, weight stationary. refresh: of block `sequencer`, of its
    ranks or pseudo channels at once ("all_bank", the default) or in turn. phases: CK of a clock of `sequencer_axi`, 1
    (the default), 2 or 4. power_up: who initialises its part: the host, before reset, or the core, of a part whose
    sequence is in our tables (DDR4). data: a data path of one burst beside the commands, or none.

    >>> emit("bf16_mul").splitlines()[0].startswith("// bf16_mul, by pimloom")
    True
    """
    from pimloom.commands.rtl import emit as command
    from pimloom.commands.rtl import emitted

    return ask(command, locals(), emitted)


@public
def verify(
    block: str | None = None,
    *,
    part: str | Path = PART,
    simulator: Literal["verilator", "icarus"] = "verilator",
    commands: int = 5000,
    seed: int = 0,
    waves: str | Path | None = None,
    sub_batches: int | None = None,
    rows: int | None = None,
    columns: int | None = None,
    dataflow: Literal["ws", "os"] | None = None,
    refresh: Literal["all_bank", "staggered"] | None = None,
    phases: int | None = None,
) -> "Answer":
    """Simulate a block, or all, against the models that they mirror: a row for each, with its `mismatches`.

    commands: to compare at least, for each block. seed: of the random stimulus. waves: a waveform of one block, a
    .vcd. sub_batches, rows, columns, dataflow, refresh, phases: see `emit`.
    """
    from pimloom.commands.rtl import verify as command

    return ask(command, locals())


@public
def prove(
    block: str | None = None,
    *,
    part: str | Path = PART,
    solver: Literal["yices", "z3"] = "yices",
    sub_batches: int | None = None,
) -> "Answer":
    """Prove properties of a block, or of all, with an SMT solver: a row for each, with its `result`. Takes minutes."""
    from pimloom.commands.rtl import prove as command

    return ask(command, locals())


@public
def synth(
    block: str,
    *,
    part: str | Path = PART,
    sub_batches: int | None = None,
    rows: int | None = None,
    columns: int | None = None,
    dataflow: Literal["ws", "os"] | None = None,
    refresh: Literal["all_bank", "staggered"] | None = None,
    phases: int | None = None,
    power_up: Literal["host", "core"] | None = None,
    data: Literal["none", "burst"] | None = None,
    by_module: bool | None = None,
) -> "Answer":
    """Synthesise a block, or "all" but whole channels: area [µm²], longest path [ps], FPGA resources; a row each.

    sub_batches, rows, columns, dataflow, refresh, phases, power_up, data: see `emit`. Of npu_pim_channel the controller
    is done, without banks and PIM units. by_module: each module once, times its instances, or all as one piece; without
    it, arrays of more than 16 elements and the controller are done by module.
    """
    from pimloom.commands.rtl import synth as command

    return ask(command, locals())


@public
def power(
    block: str,
    *,
    part: str | Path = PART,
    commands: int = 500,
    seed: int = 0,
    clock_mhz: float = 100.0,
    sub_batches: int | None = None,
    rows: int | None = None,
    columns: int | None = None,
    dataflow: Literal["ws", "os"] | None = None,
) -> "Answer":
    """Power of a block's cells of the open 180 nm library in a run of `verify` [mW] at clock_mhz, and nJ an operation.

    commands: of the run, at least. seed: of the random stimulus. sub_batches, rows, columns, dataflow: see `emit`.
    Pins' capacitances, cells' energies and leakage are in it; wires, clock tree and glitches are not. A run whose
    results differ from the model's has `mismatches`: then the figures mean nothing.
    """
    from pimloom.commands.rtl import power as command

    return ask(command, locals())
