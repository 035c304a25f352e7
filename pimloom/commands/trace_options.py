"""Options of `pimloom trace` and of `pimloom aim`."""

from pathlib import Path
from typing import Annotated

import typer

from pimloom.commands.completing import names

Memory = Annotated[
    str,
    typer.Argument(help="Part, standard, part YAML, DRAMsim3 .ini or Ramulator .yaml.", autocompletion=names("parts")),
]
File = Annotated[
    Path | None,
    typer.Argument(
        metavar="TRACE",
        help="Lines `0xADDR READ|WRITE CYCLE` (hexadecimal) or `LD|ST 0xADDR`; - is stdin.",
        parser=lambda file: Path("/dev/stdin" if file == "-" else file),
    ),
]
Controller = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="default, dramsim3, ramulator2, or a YAML.", autocompletion=names("controllers")),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Instead of TRACE: sequential, strided, random, random-rw, mixed, hazard, row-conflict, sparse, burst.",
    ),
]
Requests = Annotated[str | None, typer.Option(metavar="N", help="Requests of a pattern, as 1e6; else 1e5.")]
Seed = Annotated[int | None, typer.Option(help="Seed of a pattern; else 0.")]
Gap = Annotated[float | None, typer.Option(help="Mean clocks between requests of a pattern.")]
Stride = Annotated[int | None, typer.Option(help="Bytes between requests of pattern strided.")]
Channels = Annotated[int, typer.Option(help="Channels of a part.")]
Mapping = Annotated[
    str | None, typer.Option(metavar="FIELDS", help="Address fields, highest first: row,rank,bank,column:5,…")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set dram.FIELD or controller.FIELD.")
]
Idle = Annotated[int, typer.Option(metavar="CLOCKS", help="Clocks to go on after the last request.")]
Commands = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write every command as CSV (.csv, .csv.gz, .csv.zst).")
]
RequestLog = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write when each request was accepted and done, as CSV.")
]
Timeline = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Perfetto timeline of a window.")]
Window = Annotated[str | None, typer.Option(metavar="FROM:TO", help="Its window in clocks; else 0:2000.")]

Program = Annotated[
    Path, typer.Argument(metavar="PROGRAM", help="Lines such as `AiM MAC_ABK 64 0xffffffff 0`, the last `AiM EOC`.")
]
Config = Annotated[
    str, typer.Option(metavar="NAME", help="AiM device, or its YAML.", autocompletion=names("aim_devices"))
]
DeviceSettings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a field of the device, or dram.FIELD.")
]
Data = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Vectors that W MEM and W GPR write: .npy of numbers[n, 16].")
]
Read = Annotated[Path | None, typer.Option(metavar="FILE", help="Write what R MEM and R GPR read then, as .npy.")]
Channel = Annotated[int, typer.Option(metavar="N", help="Channel whose commands are told by themselves.")]
