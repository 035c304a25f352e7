"""What the commands of `pimloom rtl` take: choices and options that several of them have."""

from enum import StrEnum
from typing import Annotated

import typer

from pimloom.commands.completing import names
from pimloom.commands.counts import count, number

PART = "gddr6_pim_gpt"


class Simulator(StrEnum):
    """Those of `pimloom.rtl.flow.simulator.environment`, whose import is slow."""

    VERILATOR = "verilator"
    ICARUS = "icarus"


class Solver(StrEnum):
    """Those of `pimloom.rtl.flow.prove`, whose import is slow."""

    YICES = "yices"
    Z3 = "z3"


class Dataflow(StrEnum):
    """Those of `pimloom.rtl.npu.shape`, whose import is slow."""

    WS = "ws"
    OS = "os"


class Refresh(StrEnum):
    """Those of `pimloom.rtl.sequencer`, whose import is slow."""

    ALL_BANK = "all_bank"
    STAGGERED = "staggered"


class DataPath(StrEnum):
    """Those of `pimloom.rtl.blocks`, whose import is slow."""

    NONE = "none"
    BURST = "burst"


class PowerUp(StrEnum):
    """Those of `pimloom.rtl.blocks`, whose import is slow."""

    HOST = "host"
    CORE = "core"


Name = Annotated[str, typer.Argument(metavar="BLOCK", help="Block name (see `pimloom rtl list`).")]
OneOrAll = Annotated[str | None, typer.Argument(metavar="BLOCK", help="Block name; without it, all blocks.")]
SubBatches = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="Sub-batches of `interleave`; 2 by default."),
]
PartName = Annotated[
    str,
    typer.Option("--part", metavar="PART", help="Part name, or path to a part's YAML.", autocompletion=names("parts")),
]

Phases = Annotated[
    int | None,
    typer.Option(metavar="N", parser=count, help="CK of a clock of `sequencer_axi`: 1, 2 or 4.", show_default="1"),
]
DataPathName = Annotated[
    DataPath | None, typer.Option("--data", help="Data path of `sequencer_axi`.", show_default="none")
]
PowerUpName = Annotated[
    PowerUp | None,
    typer.Option("--power-up", help="Who initialises the part of `sequencer_axi`.", show_default="host"),
]
Rows = Annotated[
    int | None, typer.Option(metavar="R", parser=count, help="Rows of an array, 1 to 256.", show_default="4")
]
Columns = Annotated[
    int | None, typer.Option(metavar="C", parser=count, help="Columns of an array, 1 to 256.", show_default="4")
]
DataflowName = Annotated[
    Dataflow | None, typer.Option("--dataflow", help="Weights or outputs stay in an array.", show_default="ws")
]
ClockMhz = Annotated[
    float,
    typer.Option(
        metavar="MHZ", parser=number(0.001, 100_000), help="Clock rate that power is told at, 0.001 to 100,000 [MHz]."
    ),
]
TopName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the top module, and of the files.", show_default="block's"),
]
Prefix = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Text before the name of each module, so that two blocks of a design differ."),
]
EmitClockMhz = Annotated[
    float | None,
    typer.Option(
        "--clock-mhz",
        metavar="MHZ",
        parser=number(0.001, 100_000),
        help="Clock rate of the constraints in a folder, 0.001 to 100,000 [MHz].",
        show_default="that of the part, or of a system with such a unit",
    ),
]
RefreshName = Annotated[
    Refresh | None,
    typer.Option(
        "--refresh",
        help="Of block `sequencer`: ranks or pseudo channels all at once, or in turn.",
        show_default="all_bank",
    ),
]
